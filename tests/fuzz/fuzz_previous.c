/*
 * tests/fuzz/fuzz_previous.c - files of a previous run: whatever they contain, the
 * conclusions are consistent.  Input, separated by zero bytes: its metrics, the state of
 * another trainer, its job.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "patcher/history/previous.h"

static void check_steps(const struct previous_steps *steps)
{
    FUZZ_HOLDS((steps->trouble == TROUBLE_NONE) == (steps->what == NULL));
    FUZZ_HOLDS(steps->trouble >= TROUBLE_NONE && steps->trouble <= TROUBLE_SKIPS);
    FUZZ_HOLDS(isfinite(steps->median) && isfinite(steps->largest));
    FUZZ_HOLDS(steps->trouble == TROUBLE_NONE || steps->count > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_part rest = { (const char *)data, len };
    struct fuzz_part log = fuzz_take(&rest, 0), trainer = fuzz_take(&rest, 0);
    struct arena *arena = arena_new();
    char dir[300], run[320];
    struct plan plan = {
        .job = "job.yaml", .dir = dir, .run_dir = run, .output_dir = run
    };
    struct previous *previous;
    const struct previous_text *text;

    snprintf(dir, sizeof(dir), "%s", fuzz_dir());
    snprintf(run, sizeof(run), "%s/job.run", dir);
    FUZZ_HOLDS(file_make_dir(run, 0700, NULL));
    fuzz_file("job.run/metrics.jsonl", log.data, log.len);
    fuzz_file("job.run/trainer_state.json", trainer.data, trainer.len);
    fuzz_file("job.run/job.yaml", rest.data, rest.len);
    previous = previous_new(&plan, arena);
    check_steps(previous_steps(previous));
    text = previous_text(previous);
    FUZZ_HOLDS(!text || (text->plan->output_dir && strlen(text->digest) == 64));
    plan.external = true;
    FUZZ_HOLDS(!previous_belongs_to(previous, &plan));
    check_steps(previous_steps(previous_new(&plan, arena)));
    arena_free(arena);
    return 0;
}
