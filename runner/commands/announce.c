/* runner/commands/announce.c - passes the events of a watch to what reports them. */
#include "config.h"

#include "runner/commands/announce.h"

#include <stdlib.h>

#include "base/arena.h"
#include "runner/spool/notify.h"

/* Seconds. */
static const double notify_default = 60;

struct announce {
    struct notify *notify;
};

struct announce *announce_open(const struct options *options, struct log *log,
                               struct error *err)
{
    struct announce *announce = memory_alloc(sizeof(*announce));
    struct notify_options notify = {
        .program = options->on_end,
        .address = options->mail,
        .seconds = options->notify_timeout >= 0 ? (double)options->notify_timeout
                                                : notify_default,
        .log = log,
    };

    announce->notify = notify_new(&notify, err);
    if (announce->notify)
        return announce;
    announce_close(announce);
    return NULL;
}

void announce_close(struct announce *announce)
{
    if (!announce)
        return;
    notify_free(announce->notify);
    free(announce);
}

void announce_job_ended(void *context, const char *path, const struct job_record *record)
{
    struct announce *announce = context;

    notify_job_ended(announce->notify, path, record);
}

void announce_poll(struct announce *announce)
{
    notify_poll(announce->notify);
}

double announce_due(const struct announce *announce)
{
    return notify_due(announce->notify);
}

bool announce_is_idle(const struct announce *announce)
{
    return notify_is_idle(announce->notify);
}

void announce_hurry(struct announce *announce, double seconds)
{
    notify_hurry(announce->notify, seconds);
}
