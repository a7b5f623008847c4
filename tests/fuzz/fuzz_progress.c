/*
 * tests/fuzz/fuzz_progress.c - the files from which a run resumes.  Input, separated by
 * zero bytes: trainspool_state.json, trainer_state.json, the manifest, metrics.jsonl.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "train/files/manifest.h"
#include "train/metrics.h"
#include "train/checkpoint/progress.h"

/* Check that the state is rejected or is one from which a run can resume. */
static void read_progress(void)
{
    struct progress progress = { 0 };
    struct progress_history history = { 0 };
    struct error err = { 0 };

    if (progress_read(fuzz_dir(), &progress, &history, &err)) {
        FUZZ_HOLDS(progress.step >= 0 && progress.updates >= 0);
        FUZZ_HOLDS(history.count == 0 || history.list);
    } else {
        FUZZ_HOLDS(err.code == ERROR_DATA && err.text[0]);
    }
    progress_history_clear(&history);
}

/* Check that the folder counts as complete only if the manifest describes its files
 * correctly. */
static void read_manifest(void)
{
    struct error err = { 0 };

    if (!manifest_check(fuzz_dir(), true, NULL, &err))
        FUZZ_HOLDS(err.code != ERROR_NONE && err.text[0]);
    else
        FUZZ_HOLDS(manifest_check(fuzz_dir(), false, NULL, &err));
    manifest_has_job(fuzz_dir(), "digest");
}

/* Check that after truncation all lines are complete and none belongs to a step after the
 * tenth. */
static void cut_metrics(const char *path)
{
    struct error err = { 0 };
    struct metrics *metrics = metrics_open(path, 10, NULL, &err);
    struct text text;

    FUZZ_HOLDS(metrics);
    metrics_close(metrics);
    text_init(&text, 0);
    FUZZ_HOLDS(file_read(path, 1 << 24, &text, NULL, &err));
    for (struct fuzz_part rest = { text.data, text.len }; rest.len > 0;) {
        struct fuzz_part line = fuzz_take(&rest, '\n');
        json_t *value = json_read_text(line.data, line.len, "", 1, &err);

        FUZZ_HOLDS(value && json_integer_value(json_object_get(value, "step")) <= 10);
        json_decref(value);
    }
    FUZZ_HOLDS(text.len == 0 || text.data[text.len - 1] == '\n');
    text_clear(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char *const names[] = { "trainspool_state.json", "trainer_state.json",
                                         MANIFEST_NAME };
    struct fuzz_part rest = { (const char *)data, len };

    for (size_t i = 0; i < 3; i++) {
        struct fuzz_part part = fuzz_take(&rest, 0);

        fuzz_file(names[i], part.data, part.len);
    }
    read_progress();
    read_manifest();
    cut_metrics(fuzz_file("metrics.jsonl", rest.data, rest.len));
    return 0;
}
