/* runner/spool/status_table.h - the jobs of a listing as lines for people. */
#ifndef RUNNER_SPOOL_STATUS_TABLE_H
#define RUNNER_SPOOL_STATUS_TABLE_H

#include "runner/spool/listing.h"

struct status_line {
    struct listed job;
    bool shown;
    /* its position among the waiting jobs of its folder, from 1; 0: none, or not known */
    size_t turn;
};

struct status_table {
    const struct listing *listing;
    struct status_line *lines; /* of the jobs that are shown; malloc'ed */
    size_t count, names;       /* names: columns */
    size_t users;              /* columns; 0: all jobs belong to one user */
    bool unread;               /* the state of some job is unknown */
};

/* Read the jobs of a listing, which must stay. */
void status_table_read(struct status_table *table, const struct listing *listing);
void status_table_clear(struct status_table *table);

/* Each appends a line. */
void status_table_add_heads(const struct status_table *table, struct text *out);
void status_table_add_line(const struct status_table *table,
                           const struct status_line *line, bool color, struct text *out);

#endif
