/* runner/job/gate.c - reads and writes NAME.run/hold and NAME.run/waits. */
#include "config.h"

#include "runner/job/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/instant.h"
#include "base/size.h"
#include "base/walk.h"
#include "runner/job/note.h"

enum { WAITS_MAX = 1 << 20, WAITS_MODE = 0644 };
static const char after_word[] = "after ", begin_word[] = "begin ",
                  sweep_word[] = "ended ";

bool gate_matters(enum job_state state)
{
    return state == JOB_NEW || state == JOB_READY || state == JOB_BLOCKED;
}

/* ---- Other jobs ---- */

/* Return a name next to the job. */
static char *sibling(const char *folder, const char *name, const char *ending)
{
    char *base = path_join(folder, name);
    struct text path;

    text_init(&path, 0);
    text_addf(&path, "%s%s", base, ending);
    free(base);
    return text_detach(&path, NULL);
}

static bool exists(int dir, const char *path)
{
    struct stat st;

    return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Return whether neither the job nor its state is there. */
static bool is_gone(int dir, const char *folder, const char *name)
{
    static const char *const endings[] = { ".yaml", ".yml", ".run/state.json" };
    bool found = false;

    for (size_t i = 0; i < TS_COUNT(endings); i++) {
        char *base = sibling(folder, name, endings[i]);

        found |= exists(dir, base);
        free(base);
    }
    return !found;
}

/* How a job ended, and the remedy. */
static const char *const ends[JOB_STATES] = {
    [JOB_FAILED] = "failed: retry",
    [JOB_STOPPED] = "was stopped: retry",
    [JOB_REJECTED] = "was rejected: retry",
};

static void describe_wait(struct gate *out, const char *name, const char *end)
{
    snprintf(out->waits_for, sizeof(out->waits_for), "%s", name);
    out->kind = GATE_AFTER;
    out->broken = end != NULL;
    if (end)
        snprintf(out->reason, sizeof(out->reason),
                 "waits for job %.200s, which %s that job, or cancel this one", name,
                 end);
    else
        snprintf(out->reason, sizeof(out->reason), "waits for job %.200s", name);
}

/* Look at a job that has to be done first. Return whether it is. */
static bool is_done(int dir, const char *folder, const char *name, struct gate *out,
                    struct error *err)
{
    char *state = sibling(folder, name, ".run/state.json");
    struct job_record record;
    bool known = job_read_at(dir, state, &record, err);
    const char *end = known ? ends[record.state] : NULL;

    free(state);
    if (known && record.state == JOB_DONE)
        return true;
    if (known && record.state == JOB_NEW && is_gone(dir, folder, name))
        end = "is gone: drop";
    /* one that has failed says more than one that runs */
    if (out->kind != GATE_AFTER || (end && !out->broken))
        describe_wait(out, name, end);
    return false;
}

/* The jobs of a sweep. */
struct sweep_count {
    size_t jobs, ended, failed;
};

static void count_job(int dir, const char *folder, const char *name,
                      struct sweep_count *count, struct gate *out, struct error *err)
{
    char *state = sibling(folder, name, ".run/state.json");
    struct job_record record;
    bool known = job_read_at(dir, state, &record, err);
    bool ended = known && (record.state == JOB_DONE || ends[record.state] ||
                           (record.state == JOB_NEW && is_gone(dir, folder, name)));

    free(state);
    count->jobs++;
    count->ended += ended;
    count->failed += ended && record.state != JOB_DONE;
    if (!ended && !out->waits_for[0])
        snprintf(out->waits_for, sizeof(out->waits_for), "%s", name);
}

static void describe_sweep(const struct sweep_count *count, struct gate *out)
{
    if (count->ended == count->jobs)
        return;
    out->kind = GATE_SWEEP;
    snprintf(out->reason, sizeof(out->reason), "%zu of %zu jobs have ended", count->ended,
             count->jobs);
    if (count->failed > 0)
        snprintf(out->reason + strlen(out->reason),
                 sizeof(out->reason) - strlen(out->reason), ", %zu not done",
                 count->failed);
}

/* ---- NAME.run/waits ---- */

static bool read_waits(int dir, const char *run, struct text *out, struct error *err)
{
    char *waits = path_join(run, "waits");
    struct stat st;
    bool ok = true;

    if (fstatat(dir, waits, &st, AT_SYMLINK_NOFOLLOW) != 0)
        ok = !fault_is(errno) || error_errno(err, "cannot examine %s", waits);
    else
        ok = file_read_at(dir, waits, WAITS_MAX, out, NULL, err);
    free(waits);
    return ok;
}

/* Return the next line of the text, ended by a zero byte there; NULL: none. */
static char *next_line(char **at)
{
    char *line = *at, *end = line ? strchr(line, '\n') : NULL;

    if (!end)
        return NULL;
    *end = 0;
    *at = end + 1;
    return line;
}

static void check_begin(const char *value, struct gate *out)
{
    double begin = strtod(value, NULL);
    time_t seconds = (time_t)begin;
    char shown[32];
    struct tm utc;

    if (!(clock_wall() < begin) || out->kind != GATE_OPEN)
        return;
    out->kind = GATE_BEGIN;
    out->seconds = begin;
    if (gmtime_r(&seconds, &utc) &&
        strftime(shown, sizeof(shown), "%Y-%m-%dT%H:%M:%SZ", &utc))
        snprintf(out->reason, sizeof(out->reason), "begins at %s", shown);
}

static bool check_waits(int dir, const char *run, struct text *text, struct gate *out,
                        struct error *err)
{
    char *folder = path_dir(run), *at = text->data, *line;
    struct sweep_count count = { 0 };
    struct error why = { 0 };

    while ((line = next_line(&at)) && why.code != ERROR_FAULT)
        if (text_starts(line, after_word))
            is_done(dir, folder, line + strlen(after_word), out, &why);
        else if (text_starts(line, sweep_word))
            count_job(dir, folder, line + strlen(sweep_word), &count, out, &why);
        else if (text_starts(line, begin_word))
            check_begin(line + strlen(begin_word), out);
    free(folder);
    if (count.jobs > 0)
        describe_sweep(&count, out);
    return why.code != ERROR_FAULT || error_set(err, why.code, "%s", why.text);
}

static bool each_line(const char *run, const char *word, gate_job_function *job,
                      void *context)
{
    struct text text;
    char *at, *line;
    bool ok = true;

    text_init(&text, 0);
    read_waits(AT_FDCWD, run, &text, NULL);
    at = text.data;
    while (ok && (line = next_line(&at)))
        if (text_starts(line, word))
            ok = job(context, line + strlen(word));
    text_clear(&text);
    return ok;
}

bool gate_each_job(const char *run, gate_job_function *job, void *context)
{
    return each_line(run, after_word, job, context);
}

bool gate_each_of_sweep(const char *run, gate_job_function *job, void *context)
{
    return each_line(run, sweep_word, job, context);
}

bool gate_read(int dir, const char *run, struct gate *out, struct error *err)
{
    char *hold = path_join(run, "hold"), line[NOTE_ROOM];
    struct text text;
    bool held, ok = note_read(dir, hold, &held, line, err);

    free(hold);
    *out = (struct gate) { .kind = GATE_OPEN };
    if (held) {
        out->kind = GATE_HELD;
        snprintf(out->reason, sizeof(out->reason), "held%s%s", line[0] ? " " : "", line);
        return ok;
    }
    text_init(&text, 0);
    ok = ok && read_waits(dir, run, &text, err) && check_waits(dir, run, &text, out, err);
    text_clear(&text);
    return ok;
}

bool gate_is_held(const struct job *job)
{
    char *hold = path_join(job->run_dir, "hold"), line[NOTE_ROOM];
    bool held;

    note_read(AT_FDCWD, hold, &held, line, NULL);
    free(hold);
    return held;
}

/* ---- Writing ---- */

bool gate_hold(const struct job *job, const char *why, struct error *err)
{
    char *hold = path_join(job->run_dir, "hold");
    bool ok = note_write(hold, why, err);

    free(hold);
    return ok;
}

bool gate_release(const struct job *job, struct error *err)
{
    char *hold = path_join(job->run_dir, "hold");
    bool ok = note_remove(hold, err);

    free(hold);
    return ok;
}

static bool add_begin(const struct gate_waits *waits, struct text *out, struct error *err)
{
    struct error why = { 0 };
    struct instant begin;

    if (!waits->begin)
        return true;
    if (!instant_read(waits->begin, &begin, &why))
        return error_set(err, ERROR_JOB, "begin: %s", why.text);
    if (begin.relative)
        begin.seconds += isnan(waits->arrived) ? clock_wall() : waits->arrived;
    text_addf(out, "%s%.0f\n", begin_word, ceil(begin.seconds));
    return true;
}

/* A job may be named with or without .yaml. */
static size_t ending_length(const char *name, size_t len)
{
    if (len > 5 && memcmp(name + len - 5, ".yaml", 5) == 0)
        return 5;
    return len > 4 && memcmp(name + len - 4, ".yml", 4) == 0 ? 4 : 0;
}

static void add_names(const char *names, struct text *out)
{
    while (names && *(names += strspn(names, ", "))) {
        size_t len = strcspn(names, ","), used = len;

        while (used > 0 && names[used - 1] == ' ')
            used--;
        used -= ending_length(names, used);
        text_adds(out, after_word);
        text_add(out, names, used);
        text_addc(out, '\n');
        names += len;
    }
}

bool gate_set_waits(const struct job *job, const struct gate_waits *waits,
                    struct error *err)
{
    char *file = path_join(job->run_dir, "waits");
    struct text text;
    bool ok;

    text_init(&text, 0);
    ok = add_begin(waits, &text, err);
    add_names(waits->after, &text);
    for (const char *const *name = waits->jobs; name && *name; name++)
        text_addf(&text, "%s%s\n", sweep_word, *name);
    if (ok && text.len > 0)
        ok = file_replace(file, text.data, text.len, WAITS_MODE, err);
    else if (ok)
        ok = walk_unlink(file) == 0 || errno == ENOENT ||
             error_errno(err, "cannot remove %s", file);
    text_clear(&text);
    free(file);
    return ok;
}
