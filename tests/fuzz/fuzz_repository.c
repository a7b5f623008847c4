/* tests/fuzz/fuzz_repository.c - .trainspool.toml: it is rejected with a position, or its
 * device, written as a string again, reads back the same. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "runner/job/repository.h"

static void write_back(const struct repository *repository, struct text *out)
{
    text_adds(out, "device = \"");
    for (const char *at = repository->device; *at; at++) {
        if (*at == '"' || *at == '\\')
            text_addc(out, '\\');
        text_addc(out, *at);
    }
    text_adds(out, "\"\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *words = fuzz_word((struct fuzz_part) { (const char *)data, len });
    struct repository repository = { .file = "f" }, again = { .file = "f" };
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    if (!repository_read(words, &repository, &err)) {
        FUZZ_HOLDS(err.code == ERROR_USAGE && err.at.line > 0 && err.at.column > 0);
    } else if (repository.device[0]) {
        write_back(&repository, &text);
        FUZZ_HOLDS(repository_read(text.data, &again, &err));
        FUZZ_HOLDS(strcmp(again.device, repository.device) == 0);
    }
    text_clear(&text);
    free(words);
    return 0;
}
