/*
 * base/user.h - another user than the one this process runs as, for good or for a moment.
 * Only root can be another user; for root's own user, and for anyone else's, all of this
 * does nothing.
 */
#ifndef BASE_USER_H
#define BASE_USER_H

#include <limits.h>
#include <sys/types.h>

#include "base/error.h"

enum { USER_GROUPS_MAX = 1024 };
#define USER_NONE ((uid_t)-1) /* to system calls, it means no change */

struct user {
    uid_t id;
    /* The rest is not set for the user of this process. */
    gid_t groups[USER_GROUPS_MAX]; /* the first one is the primary group */
    size_t group_count;
    char name[256], home[PATH_MAX]; /* "": there is no such entry */
};

bool user_is_own(uid_t id);
/* Return whether getpwuid_r(3) and the like, which found no entry, say that there is none.
 * Any other status is a fault. */
bool user_is_missing(int failed);
/* Find the groups and the home of a user. One that has no entry in the list of users has
 * one group: that of the same number if it has no entry either, else nogroup.
 * ERROR_FAULT. */
bool user_find(uid_t id, struct user *out, struct error *err);

/* Become that user for good: user, groups, and no way back. ERROR_FAULT: the process may
 * be in between, and must end. */
bool user_become(const struct user *user, struct error *err);

/* What the process does between user_enter and user_leave is done with the rights of the
 * user. It cannot be signaled by that user. */
struct user_scope {
    struct user user;
    bool entered;
    gid_t groups[USER_GROUPS_MAX]; /* of this process */
    int group_count;
};
/* Returns false, and nothing is changed, with ERROR_FAULT. */
bool user_enter(uid_t id, struct user_scope *scope, struct error *err);
/* Preserves errno. */
void user_leave(struct user_scope *scope);

#endif
