/* base/group.c - only folders change their group: files inherit it. */
#include "config.h"

#include "base/group.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"

enum { READ_BITS = 050 };

static bool is_member(gid_t group)
{
    gid_t groups[NGROUPS_MAX];
    int count = getgroups(NGROUPS_MAX, groups);

    if (geteuid() == 0 || getegid() == group)
        return true;
    for (int i = 0; i < count; i++)
        if (groups[i] == group)
            return true;
    return false;
}

static bool find(const char *name, gid_t *out)
{
    const struct group *found = getgrnam(name);
    unsigned long number;
    char *end;

    if (found) {
        *out = found->gr_gid;
        return true;
    }
    errno = 0;
    number = strtoul(name, &end, 10);
    *out = (gid_t)number;
    return name[0] >= '0' && name[0] <= '9' && !*end && errno == 0 &&
           number < (unsigned long)GROUP_NONE;
}

bool group_open(const char *name, gid_t *out, struct error *err)
{
    *out = GROUP_NONE;
    if (!name)
        return true;
    if (!find(name, out))
        return error_set(err, ERROR_USAGE, "there is no group %s", name);
    if (!is_member(*out))
        return error_set(err, ERROR_USAGE,
                         "you are no member of the group %s, so it cannot get your files",
                         name);
    umask(umask(077) & ~(mode_t)READ_BITS);
    return true;
}

bool group_share(const char *dir, gid_t group, struct error *err)
{
    struct stat st;
    bool ok;
    int fd;

    if (group == GROUP_NONE)
        return true;
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    ok = fd >= 0 && fstat(fd, &st) == 0;
    /* chown clears bits, so chmod is last */
    if (ok && st.st_uid == geteuid())
        ok = (st.st_gid == group || fchown(fd, (uid_t)-1, group) == 0) &&
             fchmod(fd, (st.st_mode & 07777) | S_ISGID | READ_BITS) == 0;
    if (!ok)
        error_errno(err, "cannot give %s to the group %lu", dir, (unsigned long)group);
    if (fd >= 0)
        close(fd);
    return ok;
}

bool group_make_dirs(const char *path, gid_t group, struct error *err)
{
    char *copy = memory_strdup(path);
    bool ok = true;

    for (char *at = copy + 1; ok && copy[0]; at++) {
        char end = *at;

        if (end && end != '/')
            continue;
        *at = 0;
        if (!file_is_dir(copy))
            ok = file_make_dir(copy, 0777, err) && group_share(copy, group, err);
        *at = end;
        if (!end)
            break;
    }
    free(copy);
    return ok;
}
