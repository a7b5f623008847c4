/* runner/job/sweep_jobs.c - makes the files of the jobs. */
#include "config.h"

#include "runner/job/sweep_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/walk.h"
#include "patcher/history/journal.h"
#include "patcher/sweep.h"
#include "runner/cluster/slurm_array.h"
#include "runner/job/gate.h"
#include "runner/job/sweep_summary.h"

enum { MODE_BITS = 0666 };

/* What is to be done about a job of the sweep. */
enum task { TASK_NONE, TASK_MAKE, TASK_REPLACE, TASK_REFUSE };

struct making {
    const struct job *sweep;
    const struct stat *like; /* the file of the sweep */
    json_t *before;          /* sweep.json of an earlier attempt; NULL: none */
};

/* ---- What is there ---- */

/* Return the digest that an earlier sweep.json has for the job, or NULL. */
static const char *listed_digest(const struct making *making, const char *name)
{
    json_t *jobs = json_object_get(making->before, "jobs"), *job;
    size_t i;

    json_array_foreach(jobs, i, job)
    {
        const char *listed = json_string_value(json_object_get(job, "name"));

        if (listed && strcmp(listed, name) == 0)
            return json_string_value(json_object_get(job, "digest"));
    }
    return NULL;
}

/* Return whether the text with this digest is what a patch of the job replaced. */
static bool was_patched(const struct job *job, const char *digest)
{
    json_t *journal = journal_read(job->path, NULL), *line;
    bool found = false;
    size_t i;

    json_array_foreach(journal, i, line)
    {
        const char *before = json_string_value(json_object_get(line, "before"));

        found |= before && strcmp(before, digest) == 0;
    }
    json_decref(journal);
    return found;
}

/* A file that the sweep did not make, or that a person has changed since, stays. */
static enum task task_of_file(const struct making *making, const struct job *job,
                              const struct sweep_job *wanted)
{
    const char *listed = listed_digest(making, wanted->name);
    struct job_record record;
    char is[DIGEST_TEXT];

    if (!digest_file(job->path, is, NULL))
        return TASK_REFUSE;
    if (strcmp(is, wanted->digest) == 0 || was_patched(job, wanted->digest))
        return TASK_NONE;
    if (!listed)
        return TASK_REFUSE;
    return strcmp(is, listed) == 0 ||
                   (job_read(job, &record, NULL) && strcmp(is, record.digest) == 0)
               ? TASK_REPLACE
               : TASK_REFUSE;
}

static bool find_task(const struct making *making, const struct sweep_job *wanted,
                      const char *path, enum task *out, struct error *err)
{
    const char *listed = listed_digest(making, wanted->name);
    struct stat st;
    struct job job;

    job_init(&job, path);
    *out = TASK_MAKE;
    if (lstat(job.path, &st) == 0)
        *out = task_of_file(making, &job, wanted);
    else if (errno != ENOENT)
        error_errno(err, "cannot examine %s", job.path);
    else if (listed && strcmp(listed, wanted->digest) == 0 && lstat(job.state, &st) == 0)
        *out = TASK_NONE; /* it ran, and its file was removed */
    job_clear(&job);
    if (*out == TASK_REFUSE)
        error_set(
            err, ERROR_JOB,
            "the sweep would replace %s, which it did not make; move it away, or give "
            "the sweep another name",
            path);
    return err->code == ERROR_NONE;
}

/* ---- Making ---- */

static bool write_whole(int fd, const struct making *making, const struct sweep_job *job,
                        const char *path, struct error *err)
{
    /* only root can give a file away; another user's watch takes only its own jobs */
    if (geteuid() == 0 && fchown(fd, making->like->st_uid, making->like->st_gid) != 0)
        return error_errno(err, "cannot change the owner of %s", path);
    if (fchmod(fd, making->like->st_mode & MODE_BITS) != 0)
        return error_errno(err, "cannot change the mode of %s", path);
    return file_write_all(fd, job->text, job->len, err) &&
           (fsync(fd) == 0 || error_errno(err, "cannot flush %s", path));
}

/* The job appears complete, with its owner. */
static bool make_file(const struct making *making, const struct sweep_job *job,
                      const char *path, bool replace, struct error *err)
{
    struct text temporary;
    bool ok;
    int fd;

    text_init(&temporary, 0);
    text_addf(&temporary, "%s/part.yaml", making->sweep->run_dir);
    walk_unlink(temporary.data);
    fd = walk_open(temporary.data, O_WRONLY | O_CREAT | O_EXCL, 0600);
    ok = fd >= 0 || error_errno(err, "cannot create %s", temporary.data);
    ok = ok && write_whole(fd, making, job, path, err);
    if (fd >= 0)
        close(fd);
    /* a file that appeared meanwhile stays: the next examination refuses */
    if (ok && (replace ? walk_rename : walk_rename_new)(temporary.data, path) != 0)
        ok = error_errno(err, "cannot rename %s to %s", temporary.data, path);
    if (!ok)
        walk_unlink(temporary.data);
    text_clear(&temporary);
    return ok;
}

static char *path_of(const struct job *sweep, const char *name)
{
    char *dir = path_dir(sweep->path), *base = path_join(dir, name);
    struct text path;

    text_init(&path, 0);
    text_addf(&path, "%s.yaml", base);
    free(base);
    free(dir);
    return text_detach(&path, NULL);
}

/* Find out what to do, or do it. */
static bool each_job(const struct making *making, const struct sweep *sweep,
                     enum task *tasks, bool make, struct error *err)
{
    bool ok = true;

    for (size_t i = 0; ok && i < sweep->count; i++) {
        char *path = path_of(making->sweep, sweep->jobs[i].name);

        if (!make)
            ok = find_task(making, &sweep->jobs[i], path, &tasks[i], err);
        else if (tasks[i] != TASK_NONE)
            ok = make_file(making, &sweep->jobs[i], path, tasks[i] == TASK_REPLACE, err);
        free(path);
    }
    return ok;
}

static bool note_waits(const struct job *job, const struct sweep *sweep,
                       struct arena *arena, struct error *err)
{
    const char **names = arena_alloc(arena, (sweep->count + 1) * sizeof(*names));

    for (size_t i = 0; i < sweep->count; i++)
        names[i] = sweep->jobs[i].name;
    names[sweep->count] = NULL;
    return gate_set_waits(job, &(struct gate_waits) { .jobs = names }, err);
}

static bool make_jobs(struct making *making, const struct sweep *sweep,
                      const struct plan *plan, struct arena *arena, struct error *err)
{
    enum task *tasks = arena_alloc(arena, sweep->count * sizeof(*tasks));
    char *dir = path_dir(making->sweep->path);
    bool ok;

    making->before = sweep_summary_read(making->sweep);
    ok = each_job(making, sweep, tasks, false, err) &&
         sweep_summary_begin(making->sweep, sweep, plan, err) &&
         note_waits(making->sweep, sweep, arena, err) &&
         each_job(making, sweep, tasks, true, err) && file_sync_dir(dir, err);
    json_decref(making->before);
    free(dir);
    return ok;
}

bool sweep_jobs_make(const struct job *job, const struct text *text,
                     const struct plan *plan, struct job_record *record,
                     struct error *err)
{
    struct arena *arena = arena_new();
    struct making making = { .sweep = job };
    struct sweep sweep;
    struct stat like;
    bool ok =
        lstat(job->path, &like) == 0 || error_errno(err, "cannot examine %s", job->path);

    making.like = &like;
    ok = ok && sweep_make(job->name, text->data, text->len, arena, &sweep, err) &&
         make_jobs(&making, &sweep, plan, arena, err);
    if (ok)
        record->sweep = (int64_t)sweep.count;
    arena_free(arena);
    return ok;
}

bool sweep_jobs_finish(const struct job *job, struct job_record *record,
                       struct error *err)
{
    struct sweep_result result;
    char *arrays = path_join(job->run_dir, "arrays");

    slurm_arrays_remove(arrays); /* no job of them is left */
    free(arrays);
    if (!sweep_summary_finish(job, &result, err))
        return false;
    record->step = (int64_t)result.done;
    record->total = (int64_t)result.count;
    record->loss = result.best;
    return job_event(job, record,
                     result.done == result.count ? EVENT_EXIT_OK : EVENT_EXIT_BAD,
                     result.reason, err);
}
