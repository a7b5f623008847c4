/* runner/spool/worker_group.c - connects a worker with runner/job/job_group.h. */
#include "config.h"

#include "runner/spool/worker_group.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/holders.h"
#include "runner/output/report.h"

/* The job runs without a group then. */
static void note_no_group(struct worker *worker, const char *why)
{
    log_line(worker->log, LOG_WARN, "job %s: starts without a control group: %s",
             worker->job.name, why);
}

void worker_group_make(struct worker *worker, const struct job_record *record)
{
    /* without containment, nothing limits the job */
    const bool limited = !worker->no_sandbox && record->memory_max > 0;
    struct error err = { 0 };

    if (!job_group_make(worker->groups, limited ? (uint64_t)record->memory_max : 0,
                        &worker->job_group, &err) &&
        err.code)
        note_no_group(worker, err.text);
}

bool worker_group_start(struct worker *worker, struct child_start *how, struct error *err)
{
    struct job_group *group = &worker->job_group;
    bool ok;

    how->group = group->number > 0 ? group : NULL;
    ok = child_start(how, &worker->child, err);
    job_group_close(group);
    if (ok && group->trouble[0])
        note_no_group(worker, group->trouble);
    return ok;
}

/* A process of the job shows its group: only the watch can have put it there. */
void worker_group_adopt(struct worker *worker, const struct job_record *record)
{
    const bool limited = !worker->no_sandbox && record->memory_max > 0;
    struct user_scope scope;
    char path[1024] = "";

    if (!worker->groups || worker->lock < 0 || !user_enter(worker->user, &scope, NULL))
        return;
    holders_group(worker->lock, path, sizeof(path));
    user_leave(&scope);
    job_group_adopt(worker->groups, path, limited ? (uint64_t)record->memory_max : 0,
                    &worker->job_group);
}

int worker_group_status(const struct worker *worker, int status)
{
    if (status >= 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
        return status;
    switch (job_group_kills(worker->groups, &worker->job_group)) {
    case JOB_GROUP_UNHARMED:
        break;
    case JOB_GROUP_NO_MEMORY:
        return EXIT_NO_MEMORY << 8; /* as waitpid says it */
    case JOB_GROUP_OVER_LIMIT:
        return EXIT_OVER_LIMIT << 8;
    }
    return status;
}
