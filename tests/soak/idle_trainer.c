/*
 * tests/soak/idle_trainer.c - a trainer that does nothing: next to a copy of trainspool,
 * under the name of the trainer, it records each job as done.
 *
 * It appends `begin SECONDS JOB` and `end SECONDS JOB` to the file `starts` of its folder.
 * A job whose name begins with `slow` takes SLOW_MS.  Probes go to the real trainer,
 * `trainspool-train.real` in the same folder.  With the single argument `--begin` it
 * records only its begin: the cost of fork and exec.
 */
#include "config.h"

#include "base/clock.h"
#include "base/file.h"
#include "runner/job/job.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOW_MS = 300 };

/* Return the path of a file in the folder of this program; malloc'ed. */
static char *sibling(const char *name)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *dir, *path;

    if (len < 0)
        exit(1);
    self[len] = 0;
    dir = path_dir(self);
    path = path_join(dir, name);
    free(dir);
    return path;
}

static bool note(const char *what, double when, const char *job, struct error *err)
{
    char line[512], *starts = sibling("starts");
    int len = snprintf(line, sizeof(line), "%s %.6f %s", what, when, job);
    bool ok = file_append_line(starts, line, (size_t)len, 0600, false, err);

    free(starts);
    return ok;
}

static bool run(const struct job *job, double began, struct error *err)
{
    struct job_record record;

    if (!note("begin", began, job->name, err) || !job_read(job, &record, err))
        return false;
    record.resume = true;
    if (!job_event(job, &record, EVENT_STARTED, NULL, err))
        return false;
    if (strncmp(job->name, "slow", 4) == 0)
        poll(NULL, 0, SLOW_MS);
    record.resume = false;
    return job_event(job, &record, EVENT_EXIT_OK, NULL, err) &&
           note("end", clock_seconds(), job->name, err);
}

int main(int argc, char **argv)
{
    double began = clock_seconds();
    struct error err = { 0 };
    bool asked = false, ok;
    struct job job;

    for (char **at = argv + 1; *at; at++)
        asked = asked || strcmp(*at, "--probe") == 0 || strcmp(*at, "--steps") == 0;
    if (asked) {
        execv(sibling("trainspool-train.real"), argv);
        return 1;
    }
    if (argc == 2 && strcmp(argv[1], "--begin") == 0)
        return note("begin", began, "-", &err) ? 0 : 1;
    job_init(&job, argv[argc - 1]);
    ok = run(&job, began, &err);
    if (!ok)
        fprintf(stderr, "idle_trainer: %s\n", err.text);
    job_clear(&job);
    return ok ? 0 : 1;
}
