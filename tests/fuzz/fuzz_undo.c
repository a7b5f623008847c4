/*
 * tests/fuzz/fuzz_undo.c - a job file on disk: check does not change it, patch changes it
 * once, undo restores it byte for byte, and a second undo restores the patch.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "patcher/history/journal.h"
#include "patcher/patcher.h"

static void check_file(const char *path, const void *data, size_t len)
{
    struct text text;

    text_init(&text, 0);
    FUZZ_HOLDS(file_read(path, DOCUMENT_MAX_BYTES, &text, NULL, NULL));
    FUZZ_HOLDS(text.len == len && (len == 0 || memcmp(text.data, data, len) == 0));
    text_clear(&text);
}

static void undo(const char *path)
{
    struct error err = { 0 };

    if (!journal_undo(path, NULL, false, NULL, &err)) {
        fprintf(stderr, "%s\n", err.text);
        FUZZ_HOLDS(!"undo");
    }
}

static void patch_and_undo(const struct patch_options *options, const void *data,
                           size_t len)
{
    struct patch patch, again;
    struct error err = { 0 };

    FUZZ_HOLDS(patcher_patch_file(options, &patch, &err));
    check_file(options->job, patch.text, patch.len);
    FUZZ_HOLDS(patcher_patch_file(options, &again, &err) && !again.changed);
    check_file(options->job, patch.text, patch.len);
    if (patch.changed) {
        undo(options->job);
        check_file(options->job, data, len);
        undo(options->job);
        check_file(options->job, patch.text, patch.len);
    } else {
        check_file(options->job, data, len);
    }
    patch_clear(&again);
    patch_clear(&patch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct device device = { 0 };
    struct patch_options options = { .device = &device };
    char path[300], run[300];
    struct patch patch;

    if (len > DOCUMENT_MAX_BYTES)
        return -1;
    FUZZ_HOLDS(device_find("T4", &device, NULL));
    snprintf(path, sizeof(path), "%s/job.yaml", fuzz_dir());
    snprintf(run, sizeof(run), "%s/job.run", fuzz_dir());
    FUZZ_HOLDS(file_remove_tree(run, NULL));
    fuzz_file("job.yaml", data, len);
    options.job = path;
    options.unsafe = len % 2 == 1;
    FUZZ_HOLDS(patcher_check_file(&options, &patch, NULL));
    patch_clear(&patch);
    check_file(path, data, len);
    FUZZ_HOLDS(!file_exists(run));
    patch_and_undo(&options, data, len);
    return 0;
}
