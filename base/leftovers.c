/* base/leftovers.c - a process that lives, or another one with its id, keeps its files. */
#include "config.h"

#include "base/leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

static const char mark[] = ".tmp-";

char *leftover_name(const char *name)
{
    char *dir = path_dir(name), *joined;
    struct text base;

    text_init(&base, 0);
    text_addf(&base, ".%s%s%ld", path_base(name), mark, (long)getpid());
    joined = path_join(dir, base.data);
    text_clear(&base);
    free(dir);
    return joined;
}

bool leftover_is(const char *base, char *name, size_t room)
{
    const char *end = NULL;
    size_t len;
    long pid;

    if (base[0] != '.')
        return false;
    for (const char *at = base; (at = strstr(at, mark)); at++)
        end = at;
    if (!end || end == base + 1 || end == base ||
        strspn(end + strlen(mark), "0123456789") != strlen(end + strlen(mark)))
        return false;
    len = (size_t)(end - base) - 1;
    pid = strtol(end + strlen(mark), NULL, 10);
    if (len >= room || pid <= 0 || pid > INT_MAX || kill((pid_t)pid, 0) == 0 ||
        errno != ESRCH)
        return false;
    memcpy(name, base + 1, len);
    name[len] = 0;
    return true;
}

bool leftover_remove(int dir, const char *base, double seconds)
{
    struct stat st;

    return fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_uid == geteuid() &&
           clock_wall() - (double)st.st_mtim.tv_sec >= seconds &&
           unlinkat(dir, base, 0) == 0;
}

size_t leftovers_remove(const char *dir, const char *name)
{
    DIR *stream = opendir(dir);
    struct dirent *entry;
    char found[NAME_MAX + 1];
    size_t count = 0;

    while (stream && (entry = readdir(stream)))
        if (leftover_is(entry->d_name, found, sizeof(found)) &&
            (!name || strcmp(found, name) == 0))
            count += leftover_remove(dirfd(stream), entry->d_name, 0);
    if (stream)
        closedir(stream);
    return count;
}
