/* runner/spool/spool_folder.c - looks at the spool before a watch opens it. */
#include "config.h"

#include "runner/spool/spool_folder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/owner.h"
#include "base/path.h"
#include "runner/spool/spool.h"

bool spool_folder_trust(int dir, const char *path, struct error *err)
{
    struct stat st;
    int fault;

    if (fstat(dir, &st) != 0)
        return error_errno(err, "cannot access %s", path);
    if (!owner_is_trusted(st.st_uid))
        return error_set(err, ERROR_USAGE, "%s belongs to another user", path);
    /* in a sticky folder, no user can replace what belongs to another */
    if (!(st.st_mode & S_ISVTX) && owner_shares(&st, &fault))
        return error_set(err, ERROR_USAGE,
                         "other users may write to %s; run chmod go-w %s, or chmod +t %s",
                         path, path, path);
    return true;
}

bool spool_folder_trust_inner(int inner, const char *path, struct error *err)
{
    struct stat st;
    int fault;

    if (fstat(inner, &st) != 0)
        return error_errno(err, "cannot access %s/%s", path, SPOOL_INNER);
    return (owner_is_trusted(st.st_uid) && !owner_shares(&st, &fault)) ||
           error_set(err, ERROR_USAGE, "%s/%s belongs to another user; remove it", path,
                     SPOOL_INNER);
}

char *spool_folder_path(const char *path)
{
    char *plain = memory_strdup(path), *dir, *real, *joined;
    size_t len = strlen(plain);
    const char *base;

    while (len > 1 && plain[len - 1] == '/')
        plain[--len] = 0;
    base = path_base(plain);
    if (!base[0] || strcmp(base, ".") == 0 || strcmp(base, "..") == 0) {
        real = realpath(plain, NULL);
        joined = memory_strdup(real ? real : plain);
    } else {
        dir = path_dir(plain);
        real = realpath(dir, NULL);
        joined = path_join(real ? real : dir, base);
        free(dir);
    }
    free(real);
    free(plain);
    return joined;
}

bool spool_is_watched(const char *path)
{
    char *lock = path_join(path, SPOOL_INNER "/lock");
    bool locked = file_is_locked(lock);

    free(lock);
    return locked;
}
