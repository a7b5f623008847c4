/* runner/spool/elsewhere.c - the node that a job's state names has started it. */
#include "config.h"

#include "runner/spool/elsewhere.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/holders.h"

/* Seconds; where so many are left to others, each is looked at less often. */
static const double again = 0.5, again_crowd = 5;
enum { CROWD = 256 };

/* A process of this machine holds the lock: an earlier watch that was alone started it, or
 * `trainspool run`. */
static bool is_held_here(const struct job *job)
{
    int fd = open(job->lock, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    struct holders holders = { .count = 0 };

    if (fd < 0)
        return false;
    holders_read(fd, &holders);
    close(fd);
    return holders.count > 0;
}

bool elsewhere_runs(struct intake *intake, struct item *item, const struct job *job,
                    const struct job_record *record, bool locked)
{
    const struct nodes *nodes = intake->nodes;
    bool ours;

    if (!nodes)
        return false;
    if (strcmp(record->node, nodes_name(nodes)) == 0)
        ours = true;
    else if (locked)
        ours = !record->node[0] && is_held_here(job);
    else /* it crashed; its own watch knows more */
        ours = nodes_lead(nodes) && !(record->node[0] && nodes_live(nodes, record->node));
    if (!ours) {
        elsewhere_leave(intake, item);
        item->noted = true;
        nodes_note_job(intake->nodes, item->name, record->node[0] ? record->node : "?",
                       item->user);
    }
    return !ours;
}

void elsewhere_leave(struct intake *intake, struct item *item)
{
    intake->elsewhere += !item->elsewhere;
    item->elsewhere = true;
    item->due = clock_seconds() + (intake->elsewhere > CROWD ? again_crowd : again);
}

void elsewhere_forget(struct intake *intake, struct item *item)
{
    intake->elsewhere -= item->elsewhere;
    item->elsewhere = false;
    if (item->noted)
        nodes_note_job(intake->nodes, item->name, "", item->user);
    item->noted = false;
}
