/*
 * base/roots.h - the folders below which a job may write. A path is resolved by the kernel
 * (openat2(2), RESOLVE_BENEATH), never compared as a string alone: neither ".." nor a
 * symbolic link leads out of a root.
 *
 * Without a list, these are the job's folder and the folders that the owner of the job may
 * write to. The permissions of root say nothing, so that for root's jobs the folders of
 * the system are left out.
 */
#ifndef BASE_ROOTS_H
#define BASE_ROOTS_H

#include <limits.h>
#include <sys/types.h>

struct roots {
    const char *home;        /* where relative paths start */
    const char *const *list; /* absolute, ending with NULL; NULL: the default */
    uid_t owner;             /* of the job */
};

enum roots_answer {
    ROOTS_ALLOW,
    ROOTS_CLIMB,   /* ".." leaves the job's folder */
    ROOTS_LINK,    /* a symbolic link leads out of the job's folder, or of a root */
    ROOTS_OUTSIDE, /* below no root of the list */
    ROOTS_DENIED,  /* the owner may not write there */
    ROOTS_SYSTEM,  /* a folder of the system */
    ROOTS_UNKNOWN  /* it cannot be examined; a fault of the machine is noted */
};

/* Return whether a job may write to a file or folder, which need not exist. `where` gets
 * the existing folder that decides, for a message; "": unknown. */
enum roots_answer roots_check(const struct roots *roots, const char *path,
                              char where[PATH_MAX]);

#endif
