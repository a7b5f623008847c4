/*
 * runner/spool/listing.h - the jobs of folders, and single jobs, with their states, for
 * people and programs that look at a spool from outside.  A job that cannot be read is
 * shown with the reason and hides no other.
 */
#ifndef RUNNER_SPOOL_LISTING_H
#define RUNNER_SPOOL_LISTING_H

#include "base/user_names.h"
#include "runner/job/gate.h"
#include "runner/job/job.h"
#include "runner/spool/fleet_view.h"

/* Names of jobs: those of each folder by name, in the order in which they were added.
 * Records are read one by one, because thousands of them need much memory. */
struct listing {
    struct listing_folder *folders; /* malloc'ed, as is the next */
    struct listing_entry *entries;
    size_t folder_count, folder_room, count, room;
    struct user_names *names;
    bool chosen; /* show only the jobs of the user `only` */
    uid_t only;
};

struct listed {
    char *path, *name; /* malloc'ed */
    struct job_record record;
    uid_t owner;               /* the user as which it runs */
    char user[USER_NAME_ROOM]; /* the owner's name or number; "": unknown */
    char waits[160];           /* what it waits for, as the watch says; "": unknown */
    size_t turn;               /* among jobs of several users, as it says; 0: unknown */
    enum gate_kind gate;       /* what keeps it from starting; record.reason says more */
    bool unread;               /* its state is unknown; record.reason says why */
    bool running;              /* the lock is held */
};

/* Add the jobs of a folder, which stays open.  Return false if it cannot be read. */
bool listing_add_folder(struct listing *listing, const char *dir, struct error *err);
void listing_add_job(struct listing *listing, const char *path);
void listing_clear(struct listing *listing);

/* Read a job by its index, from any thread.  Return false if it is not to be shown: its
 * file was removed, and it neither runs nor waits. */
bool listing_read(const struct listing *listing, size_t index, struct listed *out);
void listed_clear(struct listed *job);

/* Return whether a job that was read is one of those to show (`chosen`); the others have
 * their turns too. */
bool listing_shows(const struct listing *listing, const struct listed *job);

/* Return the folder that a job was found in, the same pointer for all its jobs; "" for a
 * single job. */
const char *listing_folder(const struct listing *listing, size_t index);

/* Return why no job of a folder starts, by the folder's position among folder_count:
 * "paused by ada since ..."; NULL: it is not paused. *path: the folder, "" for the one of
 * a single job. */
const char *listing_paused(const struct listing *listing, size_t folder,
                           const char **path);

/* Return what the watches of a folder show. */
const struct fleet_views *listing_views(const struct listing *listing, size_t folder);
/* The same; the caller clears it. */
struct fleet_views listing_take_views(struct listing *listing, size_t folder);

/* Return why the job is in its state, or what it waits for. */
const char *listed_reason(const struct listed *job);
/* Write the model of its device, after "slurm " if Slurm runs it; "": not known. */
enum { LISTED_DEVICE = 112 };
void listed_device(const struct listed *job, char out[LISTED_DEVICE]);
/* Return the state to show: `held` for a job that a person holds, `crashed` for a job that
 * is running by its record, but whose lock is free; `unknown` for one that cannot be read. */
const char *listed_state(const struct listed *job);

#endif
