/* tests/fuzz/fuzz_sources.c - what `dataset` of a job says, a zero byte, and a
 * dataset_info.json: each source found has a path and what its form needs. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "train/dataset_record.h"

/* Parts that an entry leaves out are not there. */
static void read_record(const struct dataset_source *source)
{
    static const char text[] =
        "{\"instruction\": \"a\", \"output\": \"b\", \"q\": \"c\", \"r\": \"d\", "
        "\"m\": [{\"role\": \"user\", \"content\": \"a\"}, "
        "{\"role\": \"assistant\", \"content\": \"b\"}], \"conversations\": []}";
    struct conversation conversation = { 0 };
    struct error err = { 0 };
    const char *why = NULL;
    json_t *record = json_read_text(text, sizeof(text) - 1, "", 1, &err);

    FUZZ_HOLDS(record);
    dataset_record_read(source, record, false, &conversation, &why, &err);
    conversation_free(&conversation);
    json_decref(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_part info = { (const char *)data, len };
    char *names = fuzz_word(fuzz_take(&info, 0));
    struct arena *arena = arena_new();
    struct dataset_sources sources;
    struct error err = { 0 };

    fuzz_file("dataset_info.json", info.data, info.len);
    if (dataset_sources_find(names, fuzz_dir(), arena, &sources, &err)) {
        FUZZ_HOLDS(sources.count > 0);
        for (size_t i = 0; i < sources.count; i++) {
            const struct dataset_source *source = &sources.list[i];

            FUZZ_HOLDS(source->name && source->name[0] && source->path);
            read_record(source);
        }
    } else {
        FUZZ_HOLDS(err.code == ERROR_DATA && err.text[0]);
    }
    arena_free(arena);
    free(names);
    return 0;
}
