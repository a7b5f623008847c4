/* runner/cluster/slurm.c - runs sbatch, squeue, sacct and scancel. */
#include "config.h"

#include "runner/cluster/slurm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/spawn.h"

/* Milliseconds: clients wait about 9 s for a controller that is down. */
enum { SUBMIT_MS = 30000, QUERY_MS = 15000, TEST_MS = 5000 };

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

bool slurm_read_line(const char *line, struct slurm_job *out)
{
    char number[24];
    char *end;

    *out = (struct slurm_job) { .state = SLURM_GONE };
    line = take_field(line, number, sizeof(number));
    out->id = strtoll(number, &end, 10);
    if (end == number || out->id <= 0)
        return false;
    line = take_field(line, out->word, sizeof(out->word));
    line = take_field(line, out->reason, sizeof(out->reason));
    take_field(line, out->nodes, sizeof(out->nodes));
    if (strcmp(out->reason, "None") == 0)
        out->reason[0] = '\0';
    out->state = state_of(out->word);
    return out->word[0] != '\0';
}

/* Read the lines of a name, which may have been submitted twice: the job that has not ended,
 * or else the later one.  SLURM_NO: there are none; SLURM_UNSURE: what there is, is not about
 * a job. */
static enum slurm_answer read_lines(const struct text *text, struct slurm_job *out)
{
    const char *at = text->len ? text->data : "";
    enum slurm_answer answer = strlen(at) < text->len ? SLURM_UNSURE : SLURM_NO;
    struct slurm_job job;

    while (*at) {
        if (!slurm_read_line(at, &job))
            /* the first line of several clusters names one */
            answer = answer == SLURM_NO && !text_starts(at, "CLUSTER: ") ? SLURM_UNSURE
                                                                         : answer;
        else if (answer != SLURM_YES ||
                 (out->state == SLURM_ENDED &&
                  (job.state != SLURM_ENDED || job.id > out->id))) {
            *out = job;
            answer = SLURM_YES;
        }
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    return answer;
}

/* What ended a while ago is only in the accounting, which may be off. */
static void look_into_accounting(const char *name, struct slurm_job *out)
{
    char named[SLURM_NAME + 8];
    const char *const words[] = { "sacct",
                                  "-n",
                                  "-P",
                                  "-X",
                                  named,
                                  "-o",
                                  "JobIDRaw,State,ExitCode,NodeList",
                                  "-S",
                                  "now-30days",
                                  NULL };
    struct error ignored = { 0 };
    struct text text;

    snprintf(named, sizeof(named), "--name=%s", name);
    text_init(&text, 64 << 10);
    if (run(words, QUERY_MS, &text, &ignored) == SLURM_YES)
        read_lines(&text, out);
    text_clear(&text);
}

enum slurm_answer slurm_find(const char *name, struct slurm_job *out, struct error *err)
{
    char named[SLURM_NAME + 8];
    const char *const words[] = { "squeue", "-h", "-t",          "all",
                                  named,    "-o", "%i|%T|%r|%N", NULL };
    struct error own = { 0 };
    enum slurm_answer answer;
    struct text text;

    *out = (struct slurm_job) { .state = SLURM_GONE };
    snprintf(named, sizeof(named), "--name=%s", name);
    text_init(&text, 64 << 10);
    answer = judge(run(words, QUERY_MS, &text, &own), &own, err);
    if (answer == SLURM_YES) {
        const enum slurm_answer lines = read_lines(&text, out);

        if (lines == SLURM_NO)
            look_into_accounting(name, out);
        else if (lines == SLURM_UNSURE) {
            error_set(err, ERROR_FAULT, "squeue: unexpected output: %.*s",
                      (int)strcspn(text.data, "\n"), text.data);
            answer = SLURM_UNSURE;
        }
    }
    text_clear(&text);
    return answer;
}

enum slurm_answer slurm_cancel(const char *name, struct error *err)
{
    char named[SLURM_NAME + 8];
    const char *const words[] = { "scancel", "--quiet", named, NULL };
    struct error own = { 0 };

    snprintf(named, sizeof(named), "--name=%s", name);
    return judge(run(words, QUERY_MS, NULL, &own), &own, err);
}
