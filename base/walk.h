/*
 * base/walk.h - system calls that change files, for folders where others may write. The
 * folder of a name is opened first, and the call is relative to its descriptor: nothing
 * that happens to the path meanwhile leads elsewhere. A symbolic link at the end of the
 * name is never followed. One on the way is, unless its owner is another user (neither
 * this one nor root) and the folder that it leads to is not that user's: with the rights
 * of this process, it would reach what its owner cannot.
 *
 * Each returns -1 with errno, as the system call does: ELOOP for a link at the end, ENOLINK
 * for one on the way.
 */
#ifndef BASE_WALK_H
#define BASE_WALK_H

#include <stdbool.h>
#include <sys/types.h>

/* Call check() before each change by the functions below, in the thread that makes it.  If it
 * returns false, this process may not change anything for now: they fail with ESTALE. */
void walk_check_before_changes(bool (*check)(void));
/* Call the check: before each change of a name that is not made by the functions below.
 * Return false with errno if it may not be made. */
bool walk_may_change(void);

/* The folder of a name. */
struct walk {
    int dir;        /* O_PATH; -1: errno says why */
    char last[256]; /* the name in it */
};
int walk_begin(struct walk *walk, const char *name);
void walk_end(struct walk *walk); /* preserves errno */

/* O_NOFOLLOW, O_NOCTTY and O_CLOEXEC are added to the flags. What is opened for writing
 * must be a regular file, else ENXIO, and in a folder of other users it must have no other
 * name, else EMLINK: they could have linked it there. */
int walk_open(const char *name, int flags, mode_t mode);
int walk_mkdir(const char *name, mode_t mode);
int walk_unlink(const char *name);
int walk_rmdir(const char *name);
int walk_rename(const char *from, const char *to);
/* The same, but EEXIST if `to` exists. */
int walk_rename_new(const char *from, const char *to);

#endif
