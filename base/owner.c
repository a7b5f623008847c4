/* base/owner.c - owners, modes, and the members of groups. */
#include "config.h"

#include "base/owner.h"

#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"

enum { ENTRY_BYTES = 16 << 10 };

bool owner_is_trusted(uid_t owner)
{
    return owner == 0 || owner == geteuid();
}

/* The list of a group does not name those whose primary group it is. A group of one user
 * has that user's name. */
static bool is_own_group(uid_t user, gid_t group, int *fault)
{
    char user_bytes[ENTRY_BYTES], group_bytes[ENTRY_BYTES];
    struct passwd entry, *owner = NULL;
    struct group list, *found = NULL;
    int failed = getpwuid_r(user, &entry, user_bytes, sizeof(user_bytes), &owner);

    if (failed == 0)
        failed = getgrgid_r(group, &list, group_bytes, sizeof(group_bytes), &found);
    if (fault_is(failed))
        *fault = failed;
    if (!owner && !found) /* a container without a list of users */
        return user == group;
    if (!owner || !found || strcmp(owner->pw_name, found->gr_name) != 0)
        return false;
    for (char **member = found->gr_mem; *member; member++)
        if (strcmp(*member, owner->pw_name) != 0)
            return false;
    return true;
}

bool owner_shares(const struct stat *st, int *fault)
{
    *fault = 0;
    if (st->st_mode & S_IWOTH)
        return true;
    if (!(st->st_mode & S_IWGRP) || st->st_gid == 0)
        return false;
    return !is_own_group(st->st_uid, st->st_gid, fault);
}
