/* runner/spool/spool_inside.h - the spool as its own files see it: spool.c and
 * spool_nodes.c. */
#ifndef RUNNER_SPOOL_SPOOL_INSIDE_H
#define RUNNER_SPOOL_SPOOL_INSIDE_H

#include "runner/spool/candidates.h"
#include "runner/spool/fleet_view.h"
#include "runner/spool/intake.h"
#include "runner/spool/items.h"
#include "runner/spool/nodes.h"
#include "runner/spool/pause.h"
#include "runner/spool/spool.h"
#include "runner/spool/spool_folder.h"
#include "runner/spool/trouble.h"

struct spool {
    char *path;
    int dir;
    struct spool_inner inner;
    /* the watch shares the folder under this name: as the option says, and now; "": it is
     * alone */
    const char *asked_node;
    char node[NODE_NAME_ROOM];
    struct nodes *nodes;
    struct candidates candidates; /* for `how` */
    double
        turn_at; /* when to ask for the turn again, by clock_seconds; infinity: never */
    struct examine_how how;
    struct fleet *fleet;
    struct fleet_writer writer;
    struct watch *watch;
    struct items items;
    struct item *pending, *last; /* a list, first come first */
    struct intake intake;
    double scan_at, reopen_wait;
    double rest_until; /* before the next scan: every user of a shared folder can ask */
    bool absent;
    struct pause pause;
    bool woken;       /* since spool_was_woken was called */
    bool unread;      /* the last scan missed names */
    double looked_at; /* when the jobs that are due were last looked at */
    struct trouble trouble;
    /* stalled: jobs fit nowhere, though none runs; infinity: since never */
    double unread_since, stalled_since;
};

/* Decide whether this watch shares the folder, which is open, and under which name. */
void spool_nodes_choose(struct spool *spool);
/* Take the place of the node, if it does. */
bool spool_nodes_open(struct spool *spool, bool *busy, struct error *err);
void spool_nodes_close(struct spool *spool);
/* Look at the other nodes when it is time; scan if they changed. */
void spool_nodes_poll(struct spool *spool);
/* Return whether this node may choose jobs now (nodes_take_turn). */
bool spool_nodes_take_turn(struct spool *spool);

#endif
