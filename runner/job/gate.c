/* runner/job/gate.c - reads and writes NAME.run/hold. */
#include "config.h"

#include "runner/job/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/walk.h"
#include "runner/job/record.h"

enum { HOLD_MODE = 0644 };

/* The text of the file is the end of the reason. */
static void describe_hold(int dir, const char *hold, struct gate *out)
{
    char text[256] = "", reason[300];
    int fd = openat(dir, hold, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    snprintf(reason, sizeof(reason), "held%s%s", text[0] ? " " : "", text);
    record_set_text(out->reason, sizeof(out->reason), reason);
}

bool gate_matters(enum job_state state)
{
    return state == JOB_NEW || state == JOB_READY || state == JOB_BLOCKED;
}

bool gate_read(int dir, const char *run, struct gate *out, struct error *err)
{
    char *hold = path_join(run, "hold");
    struct stat st;
    bool ok = true;

    *out = (struct gate) { .kind = GATE_OPEN };
    if (fstatat(dir, hold, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        out->kind = GATE_HELD;
        describe_hold(dir, hold, out);
    } else if (fault_is(errno)) {
        ok = error_errno(err, "cannot examine %s", hold);
    }
    free(hold);
    return ok;
}

bool gate_hold(const struct job *job, struct error *err)
{
    const struct passwd *user = getpwuid(getuid());
    char *hold = path_join(job->run_dir, "hold"), *dir = path_dir(job->run_dir);
    char now[32];
    struct text text;
    bool ok;

    clock_iso(now);
    text_init(&text, 0);
    if (user)
        text_addf(&text, "by %s ", user->pw_name);
    text_addf(&text, "since %s\n", now);
    /* NAME.run may be new, too */
    ok = file_replace(hold, text.data, text.len, HOLD_MODE, err) &&
         file_sync_dir(dir, err);
    text_clear(&text);
    free(dir);
    free(hold);
    return ok;
}

bool gate_release(const struct job *job, struct error *err)
{
    char *hold = path_join(job->run_dir, "hold");
    bool ok = walk_unlink(hold) == 0 || errno == ENOENT ||
              error_errno(err, "cannot remove %s", hold);

    free(hold);
    return ok && file_sync_dir(job->run_dir, err);
}
