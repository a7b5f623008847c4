/* runner/sweep_array.c - submits the jobs of a sweep together. */
#include "config.h"

#include "runner/sweep_array.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/shared_lock.h"
#include "patcher/document/document.h"
#include "runner/cluster/slurm_array.h"
#include "runner/job/batch_script.h"
#include "runner/job/gate.h"
#include "runner/job/outputs.h"
#include "runner/job/record.h"
#include "runner/job/sweep_summary.h"
#include "runner/output/report.h"

/* Seconds.  Jobs that will be prepared soon are waited for: as long as one comes after the
 * other, but not for ever. */
static const double quiet_seconds = 3, longest_wait = 60, room_seconds = 60;

struct sweep_array {
    const struct options *options;
    char *own, *sweep;  /* names of jobs */
    char *dir, *folder; /* of the jobs; SWEEP.run/arrays */
    char *lock_file;
    int lock;     /* -1: another process submits */
    size_t limit; /* that Slurm takes at once */
    /* while the lock is held */
    size_t prepared;
    double since, changed, retry;
    char why[400];
};

/* ---- The sweep ---- */

/* The name of its file is as the watch gave it to its process. */
static void init_job(const char *dir, const char *name, struct job *out)
{
    char *path = path_join(dir, name);
    struct text file;

    text_init(&file, 0);
    text_addf(&file, "%s.yaml", path);
    job_init(out, file.data);
    text_clear(&file);
    free(path);
}

/* Return whether sweep.json of SWEEP.run has the job. */
static bool has_job(const char *dir, const char *sweep, const char *name)
{
    struct job job;
    json_t *summary, *jobs, *item;
    bool has = false;
    size_t i;

    init_job(dir, sweep, &job);
    summary = file_is_dir(job.run_dir) ? sweep_summary_read(&job) : NULL;
    jobs = json_object_get(summary, "jobs");
    json_array_foreach(jobs, i, item)
    {
        const char *listed = json_string_value(json_object_get(item, "name"));

        has |= listed && strcmp(listed, name) == 0;
    }
    json_decref(summary);
    job_clear(&job);
    return has;
}

/* Return the name of the sweep that made a job, malloc'ed: its jobs are SWEEP-1-..., and it
 * lists them.  NULL: none. */
static char *find_sweep(const char *dir, const char *name)
{
    char *sweep = memory_strdup(name), *end;

    while ((end = strrchr(sweep, '-'))) {
        *end = '\0';
        if (*sweep && end[1] >= '0' && end[1] <= '9' && has_job(dir, sweep, name))
            return sweep;
    }
    free(sweep);
    return NULL;
}

static bool make_folder(struct sweep_array *array)
{
    struct text folder;

    text_init(&folder, 0);
    text_addf(&folder, "%s/%s.run/arrays", array->dir, array->sweep);
    array->folder = realpath(folder.data, NULL);
    if (!array->folder && file_make_dir(folder.data, 0700, NULL))
        array->folder = realpath(folder.data, NULL);
    text_clear(&folder);
    return array->folder != NULL;
}

struct sweep_array *sweep_array_open(const struct job *job, const struct options *options)
{
    struct sweep_array *array = memory_alloc(sizeof(*array));

    *array = (struct sweep_array) { .options = options, .lock = -1, .limit = SIZE_MAX };
    array->dir = path_dir(job->path);
    array->own = memory_strdup(job->name);
    array->sweep = find_sweep(array->dir, job->name);
    if (array->sweep && make_folder(array)) {
        array->lock_file = path_join(array->folder, "lock");
        return array;
    }
    sweep_array_close(array);
    return NULL;
}

void sweep_array_close(struct sweep_array *array)
{
    if (!array)
        return;
    if (array->lock >= 0)
        shared_unlock(array->lock, array->lock_file);
    free(array->lock_file);
    free(array->folder);
    free(array->sweep);
    free(array->own);
    free(array->dir);
    free(array);
}

/* ---- Its jobs ---- */

/* One that can be submitted now. */
struct member {
    struct job job;
    struct slurm_submission submission;
    struct plan plan;
    bool is_own;
};

struct members {
    struct arena *arena;
    struct member *list;
    size_t count;
    size_t expected; /* jobs that will be prepared soon */
    /* names of all submissions that the jobs have */
    const char **names;
    size_t name_count;
};

static bool read_plan(struct member *member, struct arena *arena)
{
    struct text text;
    bool ok;

    text_init(&text, DOCUMENT_MAX_BYTES);
    ok = job_read_frozen(&member->job, member->submission.digest, &text, NULL);
    if (ok)
        outputs_bind_plan(&member->job, &text, arena, &member->plan);
    text_clear(&text);
    return ok && member->plan.backend == RUN_SLURM;
}

/* Return whether the ranks of a submission would find what they need. */
static bool has_lease(const struct job *job, const char *name)
{
    struct text text, file;
    bool has;

    text_init(&text, 0);
    text_init(&file, 0);
    text_addf(&file, "%s/lease", job->run_dir);
    has = file_exists(file.data) && file_read(file.data, 4096, &text, NULL, NULL) &&
          strcmp(text.data, name) == 0;
    text_clear(&file);
    text_clear(&text);
    return has;
}

/* Return whether a job is ready, and nothing keeps it from starting. */
static bool will_start(const struct job *job)
{
    struct job_record record;
    struct gate gate;

    if (!job_read(job, &record, NULL))
        return false;
    return record.state == JOB_NEW ||
           (record.state == JOB_READY && gate_read(AT_FDCWD, job->run_dir, &gate, NULL) &&
            gate.kind == GATE_OPEN);
}

/* Return whether a job is prepared, and in no array yet. */
static bool is_prepared(const struct slurm_arrays *arrays, struct member *member,
                        struct members *out, bool *submitted)
{
    struct slurm_submission *submission = &member->submission;
    char *file = path_join(member->job.run_dir, "slurm.json");
    bool there = slurm_submission_read(file, submission);
    int64_t task;

    free(file);
    if (there)
        out->names[out->name_count++] = arena_strdup(out->arena, submission->name);
    *submitted = there && (submission->id > 0 || !submission->in_array ||
                           slurm_arrays_find(arrays, submission->name, &task));
    return there && !*submitted && has_lease(&member->job, submission->name);
}

static void look_at(const struct sweep_array *array, const struct slurm_arrays *arrays,
                    const char *name, struct members *out)
{
    struct member *member = &out->list[out->count];
    bool submitted;

    *member = (struct member) { .is_own = strcmp(name, array->own) == 0 };
    init_job(array->dir, name, &member->job);
    if (is_prepared(arrays, member, out, &submitted) &&
        (member->is_own || will_start(&member->job)) && read_plan(member, out->arena)) {
        out->count++;
        return;
    }
    out->expected += !submitted && will_start(&member->job);
    job_clear(&member->job);
}

static void read_members(const struct sweep_array *array,
                         const struct slurm_arrays *arrays, struct members *out)
{
    json_t *summary, *jobs, *item;
    struct job sweep;
    size_t i;

    init_job(array->dir, array->sweep, &sweep);
    summary = sweep_summary_read(&sweep);
    jobs = json_object_get(summary, "jobs");
    *out = (struct members) { .arena = arena_new() };
    out->list = memory_alloc((json_array_size(jobs) + 1) * sizeof(*out->list));
    out->names =
        arena_alloc(out->arena, (json_array_size(jobs) + 1) * sizeof(*out->names));
    json_array_foreach(jobs, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));

        if (name && !strchr(name, '/'))
            look_at(array, arrays, name, out);
    }
    json_decref(summary);
    job_clear(&sweep);
}

static void clear_members(struct members *members)
{
    for (size_t i = 0; i < members->count; i++)
        job_clear(&members->list[i].job);
    free(members->list);
    arena_free(members->arena);
}

/* Keep those that ask the same of Slurm as the job of this process, which is one of them, and
 * at most `limit`. */
static bool choose(struct members *members, size_t limit)
{
    struct text own, other;
    struct member *list = members->list, kept;
    size_t first = 0, count = 0;

    while (first < members->count && !list[first].is_own)
        first++;
    if (first == members->count)
        return false;
    text_init(&own, 0);
    text_init(&other, 0);
    slurm_script_options(&list[first].plan, &own);
    for (size_t i = 0; i < members->count; i++) {
        text_reset(&other);
        slurm_script_options(&list[i].plan, &other);
        /* a place is left for the own job */
        if (strcmp(own.data, other.data) != 0 ||
            (count + (i < first) >= limit && i != first))
            continue;
        kept = list[count];
        list[count++] = list[i];
        list[i] = kept;
    }
    text_clear(&other);
    text_clear(&own);
    for (size_t i = count; i < members->count; i++)
        job_clear(&list[i].job);
    members->count = count;
    return true;
}

/* ---- Submitting ---- */

/* A place of more tasks than Slurm allows in one array, or of more jobs than a user may have:
 * try with half of them. */
static bool is_too_many(enum slurm_answer answer, const struct error *own)
{
    return answer == SLURM_LATER || strcasestr(own->text, "array") != NULL;
}

/* Note what sbatch answered. Return what sweep_array_step does. */
static enum slurm_answer note_answer(struct sweep_array *array,
                                     struct slurm_array *record, enum slurm_answer answer,
                                     const struct error *own, struct error *err)
{
    if (answer == SLURM_UNSURE) /* the next step looks for it */
        return error_set(err, own->code, "%s", own->text), SLURM_UNSURE;
    if (answer != SLURM_YES && is_too_many(answer, own) && record->count > 1) {
        array->limit = record->count / 2;
        slurm_array_remove(array->folder, record->name, true);
        return SLURM_LATER;
    }
    if (answer == SLURM_LATER) {
        slurm_array_remove(array->folder, record->name, true);
        array->retry = clock_seconds() + room_seconds;
        snprintf(array->why, sizeof(array->why), "%.399s", own->text);
        return error_set(err, own->code, "%s", own->text), SLURM_LATER;
    }
    record->state = answer == SLURM_YES ? SLURM_ARRAY_SUBMITTED : SLURM_ARRAY_REFUSED;
    snprintf(record->why, sizeof(record->why), "%.399s", own->text);
    return slurm_array_note(array->folder, record, err) ? SLURM_LATER : SLURM_UNSURE;
}

static enum slurm_answer call_sbatch(struct sweep_array *array,
                                     struct slurm_array *record, struct error *err)
{
    struct arena *arena = arena_new();
    struct error own = { 0 };
    enum slurm_answer answer = slurm_submit(
        slurm_array_file(array->folder, record->name, ".sh", arena),
        slurm_array_file(array->folder, record->name, ".log", arena), &record->id, &own);

    answer = note_answer(array, record, answer, &own, err);
    arena_free(arena);
    return answer;
}

/* It is not known whether sbatch was called for an array: look for it by its name. */
static enum slurm_answer resolve(struct sweep_array *array, struct slurm_array *record,
                                 struct error *err)
{
    struct slurm_job found;
    enum slurm_answer answer = slurm_find_array(record->name, &found, err);

    if (answer == SLURM_YES && found.state == SLURM_GONE)
        return call_sbatch(array, record, err);
    if (answer != SLURM_YES)
        return answer;
    record->state = SLURM_ARRAY_SUBMITTED;
    record->id = found.id;
    return slurm_array_note(array->folder, record, err) ? SLURM_LATER : SLURM_UNSURE;
}

static bool write_script(const struct sweep_array *array, const char *name,
                         const struct members *members, struct error *err)
{
    struct batch_script *list = memory_alloc(members->count * sizeof(*list));
    struct batch_array all = { .name = name, .list = list, .count = members->count };
    struct text text;
    bool ok;

    for (size_t i = 0; i < members->count; i++)
        list[i] = (struct batch_script) { .options = array->options,
                                          .job = &members->list[i].job,
                                          .plan = &members->list[i].plan,
                                          .name = members->list[i].submission.name,
                                          .digest = members->list[i].submission.digest };
    all.id = slurm_array_file(array->folder, name, ".id", members->arena);
    text_init(&text, 0);
    ok = batch_script_write_array(&all, &text, err) &&
         file_replace(slurm_array_file(array->folder, name, ".sh", members->arena),
                      text.data, text.len, 0700, err);
    text_clear(&text);
    free(list);
    return ok;
}

/* Write the script and the record, in this order, and call sbatch. */
static enum slurm_answer submit(struct sweep_array *array, struct members *members,
                                struct error *err)
{
    struct slurm_array record = { .state = SLURM_ARRAY_OPEN };

    if (!choose(members, array->limit))
        return error_set(err, ERROR_FAULT, "the files of the submission of %s are gone",
                         array->own),
               SLURM_NO;
    record.count = members->count;
    record.tasks = arena_alloc(members->arena, members->count * sizeof(*record.tasks));
    for (size_t i = 0; i < members->count; i++)
        record.tasks[i] = members->list[i].submission.name;
    if (!slurm_submission_name(array->sweep, record.name, err) ||
        !write_script(array, record.name, members, err) ||
        !slurm_array_write(array->folder, &record, err))
        return SLURM_UNSURE;
    return call_sbatch(array, &record, err);
}

/* Return whether other jobs of the sweep should be waited for. */
static bool should_wait(struct sweep_array *array, const struct members *members)
{
    const double now = clock_seconds();

    if (array->prepared != members->count) {
        array->prepared = members->count;
        array->changed = now;
    }
    return members->expected > 0 && now - array->changed < quiet_seconds &&
           now - array->since < longest_wait;
}

/* Return the first array that is not known to be submitted. */
static struct slurm_array *find_open(const struct slurm_arrays *arrays)
{
    for (size_t i = 0; i < arrays->count; i++)
        if (arrays->list[i].state == SLURM_ARRAY_OPEN)
            return &arrays->list[i];
    return NULL;
}

static bool is_current(const struct members *members, const struct slurm_array *array)
{
    for (size_t i = 0; i < array->count; i++)
        for (size_t k = 0; k < members->name_count; k++)
            if (strcmp(array->tasks[i], members->names[k]) == 0)
                return true;
    return false;
}

/* Remove the records of arrays whose jobs have all ended, or have other submissions. */
static void remove_old(const struct sweep_array *array, const struct slurm_arrays *arrays,
                       const struct members *members)
{
    for (size_t i = 0; i < arrays->count; i++)
        if (!is_current(members, &arrays->list[i]))
            slurm_array_remove(array->folder, arrays->list[i].name, false);
}

/* With the lock held. */
static enum slurm_answer lead(struct sweep_array *array,
                              const struct slurm_arrays *arrays, struct error *err)
{
    struct slurm_array *open = find_open(arrays);
    enum slurm_answer answer = SLURM_LATER;
    struct members members;

    if (open)
        return resolve(array, open, err);
    if (clock_seconds() < array->retry)
        return error_set(err, ERROR_SYSTEM, "%s", array->why), SLURM_LATER;
    read_members(array, arrays, &members);
    remove_old(array, arrays, &members);
    if (!should_wait(array, &members))
        answer = submit(array, &members, err);
    clear_members(&members);
    return answer;
}

/* Another machine may submit now; the job itself is as it was. */
static void end_at_once(const char *why)
{
    (void)why;
    _exit(EXIT_AGAIN);
}

static bool take_lock(struct sweep_array *array, struct error *err)
{
    bool busy = false;

    if (array->lock >= 0)
        return true;
    array->lock = shared_lock(array->lock_file, &busy, err);
    if (array->lock >= 0 && !shared_lock_keep(array->lock_file, end_at_once, err)) {
        shared_unlock(array->lock, array->lock_file);
        array->lock = -1;
    }
    array->since = array->changed = clock_seconds();
    array->prepared = 0;
    return array->lock >= 0;
}

static bool is_known(const struct slurm_array *found)
{
    return found && found->state != SLURM_ARRAY_OPEN;
}

/* Take what is known of the submission from the array that has it. */
static enum slurm_answer take(const struct slurm_array *found, int64_t task,
                              struct slurm_submission *submission, struct error *err)
{
    if (found->state == SLURM_ARRAY_REFUSED)
        return error_set(err, ERROR_SYSTEM, "%s", found->why), SLURM_NO;
    strcpy(submission->array, found->name);
    submission->task = task;
    submission->id = found->id;
    return SLURM_YES;
}

enum slurm_answer sweep_array_step(struct sweep_array *array,
                                   struct slurm_submission *submission, struct error *err)
{
    struct arena *arena = arena_new();
    struct slurm_arrays arrays;
    const struct slurm_array *found;
    enum slurm_answer answer = SLURM_LATER;
    int64_t task;

    slurm_arrays_read(array->folder, arena, &arrays);
    found = slurm_arrays_find(&arrays, submission->name, &task);
    if (!is_known(found) && take_lock(array, err)) {
        /* the one who had the lock may have submitted meanwhile */
        slurm_arrays_read(array->folder, arena, &arrays);
        found = slurm_arrays_find(&arrays, submission->name, &task);
        if (!is_known(found))
            answer = lead(array, &arrays, err);
    }
    if (is_known(found))
        answer = take(found, task, submission, err);
    arena_free(arena);
    return answer;
}
