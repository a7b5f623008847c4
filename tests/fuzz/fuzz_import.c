/*
 * tests/fuzz/fuzz_import.c - import: any bytes are imported or rejected.  The result is
 * YAML and a job, and the import reports every top-level key of the source.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "patcher/import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Return whether the import reports this key or one below it, which comes after it. */
static bool is_reported(const struct import *import, const struct node *root, size_t at)
{
    size_t from = root->entries[at].key->at.byte;

    for (size_t i = 0; i < import->key_count; i++)
        if (import->keys[i].at.byte >= from)
            return true;
    return false;
}

static void check(const struct import *import, const char *data, size_t len,
                  struct arena *arena)
{
    struct document source, job;
    const struct entry *marker;

    document_read(import->text.data, import->text.len, arena, &job);
    if (!job.root || job.remark_count > 0 ||
        dialect_find(&job, &marker) != DIALECT_NATIVE)
        abort();
    document_read(data, len, arena, &source);
    for (size_t i = 0; i < source.root->count; i++)
        if (!source.root->entries[i].from_merge && source.aliases == 0 &&
            !is_reported(import, source.root, i))
            abort();
    for (size_t i = 0; i < import->key_count; i++)
        if (import->keys[i].outcome == IMPORT_CARRIED ? !import->keys[i].into
                                                      : !import->keys[i].why)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct arena *arena = arena_new();
    struct error err = { 0 };
    struct import import;

    if (import_read("fuzz.yml", (const char *)data, len, arena, &import, &err))
        check(&import, (const char *)data, len, arena);
    else if (err.code == ERROR_NONE || !err.text[0])
        abort();
    import_clear(&import);
    arena_free(arena);
    return 0;
}
