/* runner/lease.c - the files of a submission, as rank 0 uses them. */
#include "config.h"

#include "runner/lease.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/walk.h"

enum { FILE_MAX = 4096 };

void lease_take_names(struct job *job)
{
    free(job->state);
    free(job->lock);
    job->state = path_join(job->run_dir, "cluster.json");
    job->lock = path_join(job->run_dir, "lease");
}

static bool has_lease(const char *path, const char *name)
{
    struct text text;
    bool has;

    text_init(&text, 0);
    has = file_read(path, FILE_MAX, &text, NULL, NULL) && text.len == strlen(name) &&
          memcmp(text.data, name, text.len) == 0;
    text_clear(&text);
    return has;
}

int lease_take(const struct job *job, const char *name, struct error *err)
{
    int fd = -1;

    if (!has_lease(job->lock, name))
        error_set(err, ERROR_SYSTEM,
                  "%s: another submission has taken its place, or it was canceled",
                  job->path);
    else if (file_replace(job->lock, name, strlen(name), 0600, err))
        fd = walk_open(job->lock, O_RDONLY, 0);
    return fd;
}

void lease_note_exit(const char *path, const char *name, int status)
{
    struct job job;
    struct text text, file;

    job_init(&job, path);
    lease_take_names(&job);
    if (!has_lease(job.lock, name)) { /* slurm.exit is another submission's */
        job_clear(&job);
        return;
    }
    text_init(&file, 0);
    text_init(&text, 0);
    text_addf(&file, "%s/slurm.exit", job.run_dir);
    text_addf(&text, "%s %d\n", name, status);
    file_replace(file.data, text.data, text.len, 0600, NULL);
    text_clear(&text);
    text_clear(&file);
    job_clear(&job);
}
