/* runner/spool/node_signs.h - which nodes of a spool live, as far as a process can see that
 * looks at the spool only now. */
#ifndef RUNNER_SPOOL_NODE_SIGNS_H
#define RUNNER_SPOOL_NODE_SIGNS_H

#include "runner/spool/nodes.h"

struct node_sign {
    char name[NODE_NAME_ROOM];
    double age; /* seconds since its last sign of life; NaN: not known */
    bool alive;
};

/* Read the nodes by name; return how many. *out is malloc'ed. If the clock of this machine
 * is not that of the server, wait for a beat of any. */
size_t node_signs_read(const char *spool, struct node_sign **out);

/* Return whether a process holds the sign `file`, which users who may not open a lock can
 * see (spool_folder.c). */
bool node_sign_is_shown(const char *file);

#endif
