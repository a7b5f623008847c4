/* base/user.c - users of processes (credentials(7)) and the list of users. */
#include "config.h"

#include "base/user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENTRY_BYTES = 16 << 10, NO_GROUP = 65534 };

bool user_is_own(uid_t id)
{
    return id == getuid();
}

bool user_is_missing(int failed)
{
    return failed == 0 || failed == ENOENT || failed == ESRCH || failed == EBADF ||
           failed == EPERM;
}

static bool copy_entry(const struct passwd *entry, struct user *out, struct error *err)
{
    int count = USER_GROUPS_MAX;

    if (getgrouplist(entry->pw_name, entry->pw_gid, out->groups, &count) < 0)
        return error_set(err, ERROR_FAULT, "user %s is in more than %d groups",
                         entry->pw_name, USER_GROUPS_MAX);
    out->group_count = (size_t)count;
    for (int i = 1; i < count; i++)
        if (out->groups[i] == entry->pw_gid) {
            out->groups[i] = out->groups[0];
            out->groups[0] = entry->pw_gid;
        }
    if (snprintf(out->name, sizeof(out->name), "%s", entry->pw_name) >=
            (int)sizeof(out->name) ||
        snprintf(out->home, sizeof(out->home), "%s", entry->pw_dir) >=
            (int)sizeof(out->home))
        return error_set(err, ERROR_FAULT, "the entry of user %ju is too long",
                         (uintmax_t)out->id);
    return true;
}

/* A container without a list of users gives each a group of the same number. */
static bool guess_group(struct user *out, struct error *err)
{
    char bytes[ENTRY_BYTES];
    struct group entry, *found = NULL;
    int failed = getgrgid_r(out->id, &entry, bytes, sizeof(bytes), &found);

    if (!found && !user_is_missing(failed))
        return error_set(err, ERROR_FAULT, "cannot find group %ju: %s",
                         (uintmax_t)out->id, strerror(failed));
    out->groups[out->group_count++] = found ? NO_GROUP : out->id;
    return true;
}

bool user_find(uid_t id, struct user *out, struct error *err)
{
    char bytes[ENTRY_BYTES];
    struct passwd entry, *found = NULL;
    int failed;

    out->id = id;
    out->group_count = 0;
    out->name[0] = out->home[0] = 0;
    if (user_is_own(id))
        return true;
    if (id == USER_NONE)
        return error_set(err, ERROR_FAULT, "the owner of the job is not known");
    failed = getpwuid_r(id, &entry, bytes, sizeof(bytes), &found);
    if (found)
        return copy_entry(found, out, err);
    if (!user_is_missing(failed))
        return error_set(err, ERROR_FAULT, "cannot find user %ju: %s", (uintmax_t)id,
                         strerror(failed));
    return guess_group(out, err);
}

static bool refused(const struct user *user, struct error *err)
{
    int number = errno;

    return user->name[0] ? error_set(err, ERROR_FAULT, "cannot act as user %s: %s",
                                     user->name, strerror(number))
                         : error_set(err, ERROR_FAULT, "cannot act as user %ju: %s",
                                     (uintmax_t)user->id, strerror(number));
}

bool user_become(const struct user *user, struct error *err)
{
    const gid_t group = user->groups[0];

    if (user_is_own(user->id))
        return true;
    /* first leave what user_enter set */
    if (seteuid(getuid()) != 0 || setgroups(user->group_count, user->groups) != 0 ||
        setresgid(group, group, group) != 0 ||
        setresuid(user->id, user->id, user->id) != 0)
        return refused(user, err);
    if (setuid(0) == 0)
        return error_set(err, ERROR_FAULT, "cannot give up the rights of root");
    return true;
}

bool user_enter(uid_t id, struct user_scope *scope, struct error *err)
{
    scope->entered = false;
    if (!user_find(id, &scope->user, err))
        return false;
    if (user_is_own(id))
        return true;
    scope->group_count = getgroups(USER_GROUPS_MAX, scope->groups);
    if (scope->group_count < 0)
        return refused(&scope->user, err);
    scope->entered = true;
    if (setgroups(scope->user.group_count, scope->user.groups) == 0 &&
        setegid(scope->user.groups[0]) == 0 && seteuid(id) == 0)
        return true;
    refused(&scope->user, err);
    user_leave(scope);
    return false;
}

void user_leave(struct user_scope *scope)
{
    const int saved = errno;

    if (!scope->entered)
        return;
    /* to continue as someone else would be worse than to end */
    if (seteuid(getuid()) != 0 || setegid(getgid()) != 0 ||
        (setgroups((size_t)scope->group_count, scope->groups) != 0 && getuid() == 0))
        abort();
    scope->entered = false;
    errno = saved;
}
