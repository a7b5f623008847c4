/* runner/spool/overview.h - all jobs of a spool at one moment, by what they do. */
#ifndef RUNNER_SPOOL_OVERVIEW_H
#define RUNNER_SPOOL_OVERVIEW_H

#include "runner/spool/listing.h"

struct overview {
    struct listed *jobs; /* by name; malloc'ed, as are the lists of jobs */
    size_t count;
    const struct listed **running; /* by name */
    const struct listed **waiting; /* in the order in which a watch takes them */
    const struct listed **ended;   /* the last one to end first; all other jobs */
    size_t running_count, waiting_count, ended_count;
    bool several; /* the jobs belong to several users */
    char *paused; /* why no job starts: malloc'ed, NULL: the spool is not paused */
    struct fleet_views views; /* of the watches that run */
};

/* Read the folder `dir`. */
bool overview_read(const char *dir, struct overview *out, struct error *err);
void overview_clear(struct overview *overview);

#endif
