/*
 * tests/fuzz/fuzz_sources.c - datasets: each source has a path and the columns of its
 * format, and every chosen sample exists.  Input: `dataset` of a job, a zero byte, and a
 * dataset_info.json.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "train/dataset/dataset_mix.h"
#include "train/dataset/dataset_record.h"

/* Read a record in the format of the source, which may leave out columns. */
static void read_record(const struct dataset_source *source)
{
    static const char text[] =
        "{\"instruction\": \"a\", \"output\": \"b\", \"q\": \"c\", \"r\": \"d\", \"m\": "
        "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
        "\"content\": \"b\"}], \"conversations\": []}";
    struct conversation conversation = { 0 };
    struct error err = { 0 };
    const char *why = NULL;
    json_t *record = json_read_text(text, sizeof(text) - 1, "", 1, &err);

    FUZZ_HOLDS(record);
    dataset_record_read(source, record, false, &conversation, &why, &err);
    conversation_free(&conversation);
    json_decref(record);
}

/* Check that slicing, drawing and mixing sources of 0 to 9 samples chooses existing
 * samples. */
static void mix(const struct dataset_sources *sources, enum mix_strategy strategy)
{
    struct plan plan = { .mix_strategy = strategy, .seed = 42 };
    struct dataset_part *parts = memory_alloc(sources->count * sizeof(*parts));
    struct dataset_choice choice;
    struct error err = { 0 };
    size_t all = 0;
    bool small = true;

    for (size_t i = 0; i < sources->count; i++) {
        parts[i] = (struct dataset_part) { &sources->list[i], all, i % 10 };
        all += i % 10;
        small = small && sources->list[i].num_samples < 1000;
    }
    if (small) {
        FUZZ_HOLDS(dataset_mix(&plan, parts, sources->count, &choice, &err) ||
                   (err.code == ERROR_DATA && err.text[0]));
        for (size_t i = 0; i < choice.count; i++)
            FUZZ_HOLDS(choice.samples[i] < all);
        free(choice.samples);
    }
    free(parts);
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
        mix(&sources, MIX_CONCAT);
        mix(&sources, MIX_INTERLEAVE_OVER);
    } else {
        FUZZ_HOLDS(err.code == ERROR_DATA && err.text[0]);
    }
    arena_free(arena);
    free(names);
    return 0;
}
