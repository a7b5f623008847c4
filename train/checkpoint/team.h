/*
 * train/checkpoint/team.h - the ranks of a run write one folder together.
 *
 * Rank 0 makes the folder, and the others look for a file in it with a random name.  What
 * they write there is published only after each has reported success, with the size and the
 * digest of each file.  A rank that does not see the folder, because the machines have no
 * common file system, writes nothing: rank 0 and the others write its part.
 */
#ifndef TRAIN_CHECKPOINT_TEAM_H
#define TRAIN_CHECKPOINT_TEAM_H

#include "kernels/backend.h"
#include "train/model/save_share.h"

struct team {
    const struct backend_group *group; /* NULL: one process */
    struct save_share share;
    bool *absent; /* by rank */
    size_t absent_count;
    char *mark; /* the file that rank 0 made */
};

/* Every rank: begin with a folder that rank 0 has made.  false: the ranks are not together
 * any more, and the run must end. */
bool team_begin(struct team *team, const struct backend_group *group, const char *dir,
                struct error *err);
/* Every rank: let rank 0 know what this one has written.  Then rank 0 has all files in
 * share.known, and the first failure in share.failed, with the number of its rank.  The
 * heartbeat ticks meanwhile. */
bool team_report(struct team *team, struct heartbeat *heartbeat, struct error *err);
/* The list of files for manifest_write. */
struct manifest_known team_known(const struct team *team);
void team_end(struct team *team);

#endif
