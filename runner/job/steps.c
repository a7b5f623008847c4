/*
 * runner/job/steps.c - passes the step counts between processes as one line: trainspool
 * never reads a dataset.
 */
#include "config.h"

#include "runner/job/steps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/spawn.h"
#include "runner/output/report.h"

/* A large corpus takes time; a user would not wait longer for a plan. */
enum {
    PATIENCE_MS = 120000,
    CHECK_MS = 3000,
    LONGEST_ANSWER = 4096,
    LONGEST_ERRORS = 32768
};

#define PROGRAM "trainspool-train: "

void steps_write(const struct steps *steps, struct text *out)
{
    const int64_t numbers[] = {
        steps->per_epoch,  steps->total,       steps->tokens,        steps->samples,
        steps->rows,       steps->sequences,   steps->resident,      steps->learned,
        steps->asked,      steps->longest,     steps->batch,         steps->media,
        steps->media_rows, steps->media_batch, steps->media_largest, steps->skipped
    };

    text_adds(out, "steps");
    for (size_t i = 0; i < TS_COUNT(numbers); i++)
        text_addf(out, "\t%" PRId64, numbers[i]);
    text_addc(out, '\n');
}

bool steps_read(const char *text, struct steps *out)
{
    int64_t *const numbers[] = { &out->per_epoch,  &out->total,       &out->tokens,
                                 &out->samples,    &out->rows,        &out->sequences,
                                 &out->resident,   &out->learned,     &out->asked,
                                 &out->longest,    &out->batch,       &out->media,
                                 &out->media_rows, &out->media_batch, &out->media_largest,
                                 &out->skipped };
    const char *at = text;

    if (!text_starts(at, "steps"))
        return false;
    at += strlen("steps");
    for (size_t i = 0; i < TS_COUNT(numbers); i++) {
        int len = 0;

        if (sscanf(at, "\t%" SCNd64 "%n", numbers[i], &len) != 1)
            return false;
        at += len;
    }
    return true;
}

/* Return what a line says, without the name of the program, and its length. */
static const char *line_of(const char *line, size_t *len)
{
    const char *said = text_starts(line, PROGRAM) ? line + strlen(PROGRAM) : line;

    *len = strcspn(said, "\n");
    return said;
}

/* Return the first line of the program itself: libraries that decode sound write some, too. */
static const char *first_line(const char *errors)
{
    const char *at = errors;

    while (!text_starts(at, PROGRAM)) {
        at = strchr(at, '\n');
        if (!at)
            return errors;
        at++;
    }
    return at;
}

static bool fail_with_message(const struct text *errors,
                              const struct spawn_result *result, struct error *err)
{
    size_t len;
    const char *said = line_of(first_line(errors->data), &len);

    if (result->timed_out)
        return error_set(err, ERROR_SYSTEM, "reading the data took too long");
    if (result->status == EXIT_AGAIN || result->status == EXIT_NOT_LOADED)
        return error_set(err, ERROR_FAULT, "%.*s", (int)len, said);
    if (errors->len == 0)
        return error_set(err, ERROR_SYSTEM, "trainspool-train ended with status %d",
                         result->status);
    return error_set(err, ERROR_DATA, "%.*s", (int)len, said);
}

struct estimate_data steps_data(const struct steps *steps)
{
    return (
        struct estimate_data) { .rows = (size_t)steps->rows,
                                .sequences = (size_t)steps->sequences,
                                .asked = (size_t)steps->asked,
                                .resident = (uint64_t)steps->resident,
                                .longest = (size_t)steps->longest,
                                .batch = (size_t)steps->batch,
                                .media = { .items = (size_t)steps->media,
                                           .rows = (size_t)steps->media_rows,
                                           .batch = (size_t)steps->media_batch,
                                           .largest = (size_t)steps->media_largest } };
}

/* Fill a list that ends with NULL; the caller frees it, but not its words. */
static char **command_words(const struct steps_job *what, char *program)
{
    size_t settings = 0, count = 0;
    char **argv;

    while (what->set && what->set[settings])
        settings++;
    argv = memory_alloc((2 * settings + 6) * sizeof(*argv));
    argv[count++] = program;
    argv[count++] = "--steps";
    if (what->frozen)
        argv[count++] = "--frozen";
    for (size_t i = 0; i < settings; i++) {
        argv[count++] = "--set";
        argv[count++] = (char *)what->set[i];
    }
    argv[count++] = "--";
    argv[count++] = (char *)what->job;
    argv[count] = NULL;
    return argv;
}

/* Run `trainspool-train --steps`; *said and *errors get what it writes. */
static bool ask(const struct steps_job *what, int patience_ms, struct text *said,
                struct text *errors, struct spawn_result *result, struct error *err)
{
    char *program = spawn_sibling("trainspool-train");
    char **argv = command_words(what, program);
    struct error why = { 0 };
    bool ok = spawn_capture(argv, patience_ms, said, errors, result, &why);

    if (!ok) /* it may be missing only while it is replaced */
        error_set(err, ERROR_FAULT, "%s", why.text);
    free(argv);
    free(program);
    return ok;
}

bool steps_query(const struct steps_job *what, struct steps *out, struct error *err)
{
    struct spawn_result result;
    struct text said, errors;
    bool ok;

    text_init(&said, LONGEST_ANSWER);
    text_init(&errors, LONGEST_ANSWER);
    ok = ask(what, PATIENCE_MS, &said, &errors, &result, err);
    if (!ok || !steps_read(said.data, out))
        *out = (struct steps) { 0 };
    if (ok && (result.status != 0 || out->rows == 0))
        ok = fail_with_message(&errors, &result, err);
    text_clear(&said);
    text_clear(&errors);
    return ok;
}

/* Add the errors that the program has written, each a line that begins with its name. */
static void add_lines(const char *line, struct steps_faults *faults)
{
    while (*line && faults->count < STEPS_FAULTS_MAX) {
        size_t len;
        const char *said = line_of(line, &len);

        if (said != line && said[len] == '\n')
            error_set(&faults->list[faults->count++], ERROR_DATA, "%.*s", (int)len, said);
        line = said + len + (said[len] == '\n');
    }
}

bool steps_can_count(const char *job, struct steps *out, struct steps_faults *faults)
{
    const struct steps_job what = { .job = job };
    struct error ignored = { 0 };
    struct spawn_result result = { 0 };
    struct text said, errors;

    *faults = (struct steps_faults) { 0 };
    text_init(&said, LONGEST_ANSWER);
    text_init(&errors, LONGEST_ERRORS);
    if (ask(&what, CHECK_MS, &said, &errors, &result, &ignored) && errors.len > 0 &&
        (result.timed_out || result.status != 0)) {
        add_lines(errors.data, faults);
        if (faults->count == 0 && !result.timed_out)
            fail_with_message(&errors, &result, &faults->list[faults->count++]);
    }
    if (!steps_read(said.data, out))
        *out = (struct steps) { 0 };
    text_clear(&said);
    text_clear(&errors);
    return faults->count == 0;
}
