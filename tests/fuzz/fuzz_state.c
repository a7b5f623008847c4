/* tests/fuzz/fuzz_state.c - state.json of a job: every state that can be read reads back
 * the same after it was written.  Input: state.json, a zero byte, and the file
 * `cancel`. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#include "runner/job/record.h"

static void check_texts(const struct job_record *a, const struct job_record *b)
{
    FUZZ_HOLDS(a->state == b->state && a->resume == b->resume);
    FUZZ_HOLDS(strcmp(a->reason, b->reason) == 0 && strcmp(a->device, b->device) == 0);
    FUZZ_HOLDS(strcmp(a->digest, b->digest) == 0 && strcmp(a->source, b->source) == 0);
    FUZZ_HOLDS(strcmp(a->queued, b->queued) == 0 && strcmp(a->ended, b->ended) == 0);
    FUZZ_HOLDS(strcmp(a->started, b->started) == 0);
}

static void check_numbers(const struct job_record *a, const struct job_record *b)
{
    FUZZ_HOLDS(a->step == b->step && a->total == b->total);
    FUZZ_HOLDS(a->attempt == b->attempt && a->crashes == b->crashes);
    FUZZ_HOLDS(a->max_retries == b->max_retries && a->priority == b->priority);
    FUZZ_HOLDS(a->loss == b->loss || (a->loss != a->loss && b->loss != b->loss));
}

/* A space before the object leaves the text to the full parser, which reads the same. */
static void check_readers(const struct fuzz_part *text)
{
    struct job_record quick, full;
    struct text spaced;

    if (text->len > 0 && text->data[0] != '{')
        return; /* a byte order mark would not be at the start */
    text_init(&spaced, 0);
    text_addc(&spaced, ' ');
    text_add(&spaced, text->data, text->len);
    text_addc(&spaced, 0);
    record_read(spaced.data + 1, text->len, &quick);
    record_read(spaced.data, text->len + 1, &full);
    check_texts(&quick, &full);
    check_numbers(&quick, &full);
    text_clear(&spaced);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_part cancel = { (const char *)data, len }, text = fuzz_take(&cancel, 0);
    char path[300];
    struct job_record record, again;
    struct error err = { 0 };
    struct job job;

    check_readers(&text);
    snprintf(path, sizeof(path), "%s/job.yaml", fuzz_dir());
    job_init(&job, path);
    FUZZ_HOLDS(job_make_dir(&job, &err));
    fuzz_file("job.run/state.json", text.data, text.len);
    fuzz_file("job.run/cancel", cancel.data, cancel.len);
    if (job_read(&job, &record, &err)) {
        FUZZ_HOLDS(record.state > JOB_INVALID && record.state < JOB_STATES);
        FUZZ_HOLDS(job_write(&job, &record, false, &err));
        FUZZ_HOLDS(job_read(&job, &again, &err));
        check_texts(&record, &again);
        check_numbers(&record, &again);
        for (int event = 0; event < JOB_EVENTS; event++)
            FUZZ_HOLDS(job_next(record.state, (enum job_event)event) < JOB_STATES);
    }
    FUZZ_HOLDS(job_requested(&job) <= REQUEST_REQUEUE);
    job_clear(&job);
    return 0;
}
