/* runner/spool/spool_folder.h - the path of a spool, and who may change it. */
#ifndef RUNNER_SPOOL_SPOOL_FOLDER_H
#define RUNNER_SPOOL_SPOOL_FOLDER_H

#include "base/error.h"

/* Return a path, malloc'ed, that means the same folder when the current directory is
 * another one, and that has a name in a parent. Its last part is not resolved, not even
 * before a slash: a link there is refused. */
char *spool_folder_path(const char *path);
/* Fail unless only the owner of the folder, this user or root, decides what runs here. */
bool spool_folder_trust(int dir, const char *path, struct error *err);
/* The same for the daemon's folder in it: another user could hold the lock there for
 * ever. */
bool spool_folder_trust_inner(int inner, const char *path, struct error *err);

#endif
