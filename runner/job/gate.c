/* runner/job/gate.c - reads and writes NAME.run/hold. */
#include "config.h"

#include "runner/job/gate.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/path.h"
#include "runner/job/note.h"

bool gate_matters(enum job_state state)
{
    return state == JOB_NEW || state == JOB_READY || state == JOB_BLOCKED;
}

bool gate_read(int dir, const char *run, struct gate *out, struct error *err)
{
    char *hold = path_join(run, "hold"), line[NOTE_ROOM];
    bool held, ok = note_read(dir, hold, &held, line, err);

    *out = (struct gate) { .kind = GATE_OPEN };
    if (held) {
        out->kind = GATE_HELD;
        snprintf(out->reason, sizeof(out->reason), "held%s%s", line[0] ? " " : "", line);
    }
    free(hold);
    return ok;
}

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
