/* runner/spool/spool_folder.h - the path of a spool, and who may change it. */
#ifndef RUNNER_SPOOL_SPOOL_FOLDER_H
#define RUNNER_SPOOL_SPOOL_FOLDER_H

#include "base/error.h"
#include "runner/spool/watch.h"

/* Return a path, malloc'ed, that means the same folder when the current directory is
 * another one, and that has a name in a parent. Its last part is not resolved, not even
 * before a slash: a link there is refused. */
char *spool_folder_path(const char *path);
/* Fail unless only the owner of the folder, this user or root, decides what runs here. */
bool spool_folder_trust(int dir, const char *path, struct error *err);
/* Return whether several users may drop jobs here, which root's watch runs as their owners:
 * each can change only what is theirs. */
bool spool_folder_is_shared(int dir);

/* The daemon's folder, SPOOL_INNER: descriptors, -1 if they are not open. */
struct spool_inner {
    int dir, lock;
    int sign; /* shows users who may not open the lock that a watch runs */
};
/* Open it in the spool `dir`, which is the current directory. Everyone can read that of a
 * shared spool and wake the watch. Fail if another user decides what is in it: that user
 * could hold the lock for ever. node: as which the watch shares the folder with those of
 * other nodes; "": not at all. *busy: another watch has the lock; one that shares the folder
 * says in *err why it cannot. */
bool spool_inner_open(int dir, const char *path, const char *node,
                      struct spool_inner *out, bool *busy, struct error *err);
void spool_inner_close(struct spool_inner *inner);

/* Watch an open spool and the daemon's folder in it, as watch_open does. */
struct watch *spool_folder_watch(const char *path, int dir, int inner, struct error *err);

#endif
