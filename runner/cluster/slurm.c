/* runner/cluster/slurm.c - runs sbatch, squeue, sacct and scancel. */
#include "config.h"

#include "runner/cluster/slurm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/spawn.h"

/* Milliseconds: clients wait about 9 s for a controller that is down. */
enum { SUBMIT_MS = 30000, QUERY_MS = 15000, TEST_MS = 5000 };
enum { LINES_BYTES = 1 << 20 }; /* of squeue */

/* Run a command.  SLURM_NO: it failed, and its last line is in *err. */
static enum slurm_answer run(const char *const words[], int milliseconds,
                             struct text *out, struct error *err)
{
    struct spawn_result result = { 0 };
    struct text errors;
    const char *line;
    enum slurm_answer answer = SLURM_YES;

    text_init(&errors, 64 << 10);
    if (!spawn_capture((char *const *)words, milliseconds, out, &errors, &result, err)) {
        answer = SLURM_NO;
    } else if (result.timed_out) {
        error_set(err, ERROR_FAULT, "%s: no answer within %d s", words[0],
                  milliseconds / 1000);
        answer = SLURM_UNSURE;
    } else if (result.status != 0) {
        while (errors.len > 0 && errors.data[errors.len - 1] == '\n')
            errors.data[--errors.len] = '\0';
        line = errors.len ? strrchr(errors.data, '\n') : NULL;
        if (errors.len == 0)
            text_addf(&errors, "%s: failed without a message", words[0]);
        error_set(err, ERROR_SYSTEM, "%.400s", line ? line + 1 : errors.data);
        answer = SLURM_NO;
    }
    text_clear(&errors);
    return answer;
}

static const char *const silence_parts[] = { "Unable to contact slurm controller",
                                             "Socket timed out",
                                             "Connection refused",
                                             "Zero Bytes were transmitted",
                                             "Communication connection failure",
                                             "in standby mode",
                                             "Slurm temporarily unable",
                                             "Protocol authentication error",
                                             "Munge encode failed",
                                             "Munge decode failed" };
static const char *const limit_parts[] = { "SubmitJob", "submit limit", "QOS policy",
                                           "MaxJobCount" };

static bool has_any(const struct error *err, const char *const parts[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(err->text, parts[i]))
            return true;
    return false;
}

/* Messages of clients that got no answer from the controller. */
static bool is_about_controller(const struct error *err)
{
    return has_any(err, silence_parts, TS_COUNT(silence_parts));
}

/* Messages of sbatch about limits of the jobs that a user may have in the queue. */
static bool is_about_limit(const struct error *err)
{
    return has_any(err, limit_parts, TS_COUNT(limit_parts));
}

static enum slurm_answer judge(enum slurm_answer answer, const struct error *own,
                               struct error *err)
{
    if (answer == SLURM_YES)
        return answer;
    error_set(err, is_about_controller(own) ? ERROR_FAULT : own->code, "%s", own->text);
    return answer != SLURM_NO         ? answer
           : is_about_controller(own) ? SLURM_UNSURE
           : is_about_limit(own)      ? SLURM_LATER
                                      : SLURM_NO;
}

enum slurm_answer slurm_submit(const char *script, const char *output, int64_t *id,
                               struct error *err)
{
    struct text file, escaped, out;
    struct error own = { 0 };
    enum slurm_answer answer;
    const char *words[5];

    /* sbatch replaces % in names */
    text_init(&escaped, 0);
    for (const char *at = output; *at; at++)
        text_addf(&escaped, *at == '%' ? "%%%%" : "%c", *at);
    text_init(&file, 0);
    text_addf(&file, "--output=%s", escaped.data);
    words[0] = "sbatch";
    words[1] = "--parsable";
    words[2] = file.data;
    words[3] = script;
    words[4] = NULL;
    text_init(&out, 4096);
    answer = judge(run(words, SUBMIT_MS, &out, &own), &own, err);
    *id = answer == SLURM_YES && out.len ? strtoll(out.data, NULL, 10) : 0;
    text_clear(&file);
    text_clear(&escaped);
    text_clear(&out);
    return answer;
}

/* Everything else that sbatch says of a test is about this machine, or about the
 * controller. */
enum slurm_answer slurm_test(const char *script, struct error *err)
{
    static const char refusal[] = "allocation failure: ";
    const char *const words[] = { "sbatch", "--test-only", script, NULL };
    struct error own = { 0 }, ignored = { 0 };
    enum slurm_answer answer = judge(run(words, TEST_MS, NULL, &own), &own, &ignored);

    if (answer == SLURM_NO && text_starts(own.text, refusal))
        error_set(err, own.code, "%s", own.text + strlen(refusal));
    else if (answer == SLURM_NO)
        answer = SLURM_UNSURE;
    return answer;
}

static enum slurm_state state_of(const char *word)
{
    static const char *const waiting[] = { "PENDING",      "CONFIGURING", "REQUEUED",
                                           "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT",
                                           "RESV_DEL_HOLD" };
    static const char *const ended[] = { "COMPLETED", "FAILED",    "CANCELLED",
                                         "TIMEOUT",   "NODE_FAIL", "PREEMPTED",
                                         "BOOT_FAIL", "DEADLINE",  "OUT_OF_MEMORY",
                                         "REVOKED" };

    for (size_t i = 0; i < TS_COUNT(waiting); i++)
        if (strcmp(word, waiting[i]) == 0)
            return SLURM_WAITS;
    for (size_t i = 0; i < TS_COUNT(ended); i++)
        if (text_starts(word, ended[i])) /* sacct: "CANCELLED by 1000" */
            return SLURM_ENDED;
    return SLURM_RUNS;
}

/* Copy the next field and return what follows it. */
static const char *take_field(const char *at, char *out, size_t room)
{
    size_t len = strcspn(at, "|\n");

    snprintf(out, room, "%.*s", (int)len, at);
    return at[len] == '|' ? at + len + 1 : at + len;
}

/* Read "8", "8_3" or, of tasks that wait, "8_[0-3%2]". */
static bool read_number(const char *number, struct slurm_job *out)
{
    char *end, *last;

    out->id = strtoll(number, &end, 10);
    out->task = -1;
    if (end == number || out->id <= 0)
        return false;
    if (*end == '_' && end[1] >= '0' && end[1] <= '9') {
        out->task = strtoll(end + 1, &last, 10);
        return *last == '\0';
    }
    return *end == '\0' || *end == '_';
}

bool slurm_read_line(const char *line, struct slurm_job *out)
{
    char number[24];

    *out = (struct slurm_job) { .state = SLURM_GONE };
    line = take_field(line, number, sizeof(number));
    if (!read_number(number, out))
        return false;
    line = take_field(line, out->word, sizeof(out->word));
    line = take_field(line, out->reason, sizeof(out->reason));
    take_field(line, out->nodes, sizeof(out->nodes));
    if (strcmp(out->reason, "None") == 0)
        out->reason[0] = '\0';
    out->state = state_of(out->word);
    return out->word[0] != '\0';
}

/* A name may have been submitted twice: take the job that has not ended, or else the later
 * one. */
static bool is_better(const struct slurm_job *job, const struct slurm_job *than)
{
    return than->state == SLURM_GONE ||
           (than->state == SLURM_ENDED &&
            (job->state != SLURM_ENDED || job->id > than->id));
}

enum slurm_answer slurm_read_lines(const char *lines, const struct slurm_target *target,
                                   struct slurm_job *exact, struct slurm_job *any)
{
    enum slurm_answer answer = SLURM_NO;
    struct slurm_job job;

    *exact = *any = (struct slurm_job) { .state = SLURM_GONE };
    for (const char *at = lines; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        if (!slurm_read_line(at, &job)) {
            /* the first line of several clusters names one */
            if (answer == SLURM_NO && !text_starts(at, "CLUSTER: "))
                answer = SLURM_UNSURE;
            continue;
        }
        answer = SLURM_YES;
        if (job.task == target->task && is_better(&job, exact))
            *exact = job;
        if (is_better(&job, any))
            *any = job;
    }
    return answer;
}

/* What ended a while ago is only in the accounting, which may be off. */
static void look_into_accounting(const struct slurm_target *target,
                                 struct slurm_job *exact, struct slurm_job *any)
{
    char named[SLURM_NAME + 8];
    const char *const words[] = {
        "sacct", "-n",         "-P", "-X", named, "-o", "JobID,State,ExitCode,NodeList",
        "-S",    "now-30days", NULL
    };
    struct error ignored = { 0 };
    struct text text;

    snprintf(named, sizeof(named), "--name=%s", target->name);
    text_init(&text, LINES_BYTES);
    if (run(words, QUERY_MS, &text, &ignored) == SLURM_YES && text.len > 0)
        slurm_read_lines(text.data, target, exact, any);
    text_clear(&text);
}

/* Ask squeue about a name, and only about `jobs` unless that is NULL. */
static enum slurm_answer ask_queue(const char *name, const char *jobs, struct text *out,
                                   struct error *err)
{
    char named[SLURM_NAME + 8];
    const char *const words[] = { "squeue", "-h", "-r",          "-t", "all",
                                  named,    "-o", "%i|%T|%r|%N", jobs, NULL };
    struct error own = { 0 };

    snprintf(named, sizeof(named), "--name=%s", name);
    return judge(run(words, QUERY_MS, out, &own), &own, err);
}

/* Look only at the task: an array has many.  False: it is not there, which may have several
 * reasons. */
static bool find_task(const struct slurm_target *target, struct slurm_job *out)
{
    struct error ignored = { 0 };
    struct slurm_job any;
    char jobs[64];
    struct text text;

    snprintf(jobs, sizeof(jobs), "--jobs=%" PRId64 "_%" PRId64, target->id, target->task);
    text_init(&text, LINES_BYTES);
    if (ask_queue(target->name, jobs, &text, &ignored) == SLURM_YES && text.len > 0)
        slurm_read_lines(text.data, target, out, &any);
    text_clear(&text);
    return out->state != SLURM_GONE && out->state != SLURM_ENDED;
}

/* *any: some job with that name. */
static enum slurm_answer find_named(const struct slurm_target *target,
                                    struct slurm_job *exact, struct slurm_job *any,
                                    struct error *err)
{
    enum slurm_answer answer;
    struct text text;

    *exact = *any = (struct slurm_job) { .state = SLURM_GONE };
    text_init(&text, LINES_BYTES);
    answer = ask_queue(target->name, NULL, &text, err);
    if (answer == SLURM_YES && text.len > 0 &&
        (strlen(text.data) < text.len ||
         slurm_read_lines(text.data, target, exact, any) == SLURM_UNSURE)) {
        error_set(err, ERROR_FAULT, "squeue: unexpected output: %.*s",
                  (int)strcspn(text.data, "\n"), text.data);
        answer = SLURM_UNSURE;
    }
    text_clear(&text);
    return answer;
}

enum slurm_answer slurm_find(const struct slurm_target *target, struct slurm_job *out,
                             struct error *err)
{
    enum slurm_answer answer;
    struct slurm_job any;

    *out = (struct slurm_job) { .state = SLURM_GONE };
    if (target->task >= 0 && target->id > 0 && find_task(target, out))
        return SLURM_YES;
    answer = find_named(target, out, &any, err);
    if (answer != SLURM_YES || out->state != SLURM_GONE)
        return answer;
    if (target->task >= 0 && any.state != SLURM_GONE) {
        *out = (struct slurm_job) { .state = SLURM_ENDED,
                                    .id = any.id,
                                    .task = target->task,
                                    .word = "CANCELLED",
                                    .inferred = true };
        return answer;
    }
    look_into_accounting(target, out, &any);
    return answer;
}

enum slurm_answer slurm_find_array(const char *name, struct slurm_job *out,
                                   struct error *err)
{
    const struct slurm_target target = { .name = name, .task = -1 };
    struct slurm_job exact;
    enum slurm_answer answer = find_named(&target, &exact, out, err);

    if (answer == SLURM_YES && out->state == SLURM_GONE)
        look_into_accounting(&target, &exact, out);
    return answer;
}

/* scancel takes tasks that wait for one job where it compares names, so that the name is
 * compared here. */
static enum slurm_answer cancel_task(const struct slurm_target *target, struct error *err)
{
    char number[64];
    const char *const words[] = { "scancel", "--quiet", number, NULL };
    struct slurm_job found;
    struct error own = { 0 };
    enum slurm_answer answer = slurm_find(target, &found, err);

    if (answer != SLURM_YES || found.state == SLURM_GONE || found.state == SLURM_ENDED)
        return answer;
    snprintf(number, sizeof(number), "%" PRId64 "_%" PRId64, found.id, found.task);
    return judge(run(words, QUERY_MS, NULL, &own), &own, err);
}

enum slurm_answer slurm_cancel(const struct slurm_target *target, struct error *err)
{
    char named[SLURM_NAME + 8];
    const char *const words[] = { "scancel", "--quiet", named, NULL };
    struct error own = { 0 };

    if (target->task >= 0)
        return cancel_task(target, err);
    snprintf(named, sizeof(named), "--name=%s", target->name);
    return judge(run(words, QUERY_MS, NULL, &own), &own, err);
}
