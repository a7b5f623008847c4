/* runner/job/submitted.c - reads the state and the lock of a job. */
#include "config.h"

#include "runner/job/submitted.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/user.h"

bool submitted_waits(const struct job *job)
{
    struct job_record record;

    return job_read(job, &record, NULL) && record.state == JOB_READY &&
           strcmp(record.wanted, SUBMITTED_WANTED) == 0 && job_is_locked(job);
}

bool submitted_is_left(const struct job *job)
{
    char *file = path_join(job->run_dir, "slurm.json");
    bool left = file_exists(file);

    free(file);
    return left;
}

bool submitted_withdraw(const struct job *job, uid_t user, struct error *err)
{
    struct user_scope scope;
    bool ok;

    if (job_requested(job) != REQUEST_NONE)
        return false;
    ok = user_enter(user, &scope, err) && job_request(job, REQUEST_REQUEUE, err);
    user_leave(&scope);
    return ok;
}
