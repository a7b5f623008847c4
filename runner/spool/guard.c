/*
 * runner/spool/guard.c - distinguishes a process that hangs from one that is slow by the
 * processor time it uses.
 */
#include "config.h"

#include "runner/spool/guard.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/holders.h"
#include "base/user.h"
#include "runner/spool/placement.h"

/* A process that works without a sign of life, in a part that has none, or that waits for
 * a disk, has this many times as long. */
enum { BUSY_TIMES = 10 };
/* Share of the time that a process which works uses a processor. */
static const double busy_share = 0.05;
/* Seconds that a process may need to notice its timeout. */
static const double timeout_delay = 2;

void guard_begin(struct guard *guard, int lock, const struct job_record *record,
                 double now)
{
    *guard = (struct guard) {
        .lock = lock,
        .user = geteuid(),
        .started = now,
        .before = record->seconds > 0 ? record->seconds : 0,
        /* a job in the queue of Slurm does not run yet */
        .timeout = record->timeout > 0 && strcmp(record->wanted, PLACEMENT_SUBMITTED) != 0
                       ? record->timeout
                       : 0,
        .beat_at = now
    };
}

static void note_beat(struct guard *guard, double now)
{
    struct stat st;

    if (guard->lock < 0 || fstat(guard->lock, &st) != 0)
        return;
    if (st.st_mtim.tv_sec == guard->beat.tv_sec &&
        st.st_mtim.tv_nsec == guard->beat.tv_nsec)
        return;
    guard->beat = st.st_mtim;
    guard->beat_at = now;
    guard->silent = false;
}

static enum guard_cause find_cause(const struct guard *guard,
                                   const struct guard_view *view, double now)
{
    if (view->asked)
        return GUARD_STOP;
    if (view->request != REQUEST_NONE)
        return GUARD_REQUEST;
    if (guard->timeout > 0 &&
        guard->before + now - guard->started >= guard->timeout + timeout_delay)
        return GUARD_TIMEOUT;
    return GUARD_NONE;
}

static enum guard_action kill_it(struct guard *guard)
{
    guard->killed = true;
    return GUARD_KILL;
}

static const char *describe(const struct holders *holders, bool busy)
{
    if (holders->stopped)
        return "a signal has stopped it";
    if (holders->blocked)
        return "it waits for the system";
    return busy ? "it uses the processor" : "it does nothing";
}

/* Look at a silent process after half of the time, and then about as often. */
static enum guard_action look_at_silent(struct guard *guard, double hang, double now)
{
    const double silence = now - guard->beat_at;
    struct user_scope scope;
    struct holders holders;
    bool busy, first = !guard->silent;

    if (hang <= 0 || guard->lock < 0 || silence < hang / 2 ||
        (!first && now < guard->look_at))
        return GUARD_WAIT;
    /* without further rights, root sees only what its own processes do */
    if (!user_enter(guard->user, &scope, NULL))
        return GUARD_WAIT;
    holders_read(guard->lock, &holders);
    user_leave(&scope);
    busy = holders.blocked ||
           (!first && !holders.stopped &&
            holders.seconds - guard->used >= busy_share * (now - guard->used_at));
    guard->silent = true;
    guard->used = holders.seconds;
    guard->used_at = now;
    guard->look_at = now + hang / 2;
    snprintf(guard->why, sizeof(guard->why), "no sign of life for %.0f s: %s", silence,
             describe(&holders, busy || first));
    if (first)
        return GUARD_WARN;
    if (holders.count == 0 || silence < hang || (busy && silence < BUSY_TIMES * hang))
        return GUARD_WAIT;
    guard->cause = GUARD_HANG;
    return kill_it(guard);
}

enum guard_action guard_look(struct guard *guard, const struct guard_limits *limits,
                             const struct guard_view *view, double now)
{
    enum guard_cause cause = find_cause(guard, view, now);

    note_beat(guard, now);
    if (guard->killed)
        return GUARD_WAIT;
    if (guard->cause == GUARD_NONE && cause == GUARD_NONE)
        return look_at_silent(guard, limits->hang, now);
    if (guard->cause == GUARD_NONE) {
        guard->cause = cause;
        guard->since = now;
        return cause == GUARD_TIMEOUT ? GUARD_WAKE : GUARD_ASK;
    }
    if (now - guard->since < limits->grace)
        return GUARD_WAIT;
    snprintf(guard->why, sizeof(guard->why), "it did not end within %.0f s",
             limits->grace);
    return kill_it(guard);
}
