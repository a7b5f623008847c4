/* runner/job/obstacle.c - compares the files in NAME.run/ with what they must be. */
#include "config.h"

#include "runner/job/obstacle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/size.h"

/* Files that a run writes, and the folder. */
static const struct {
    const char *name;
    mode_t type;
} files[] = {
    { "state.json", S_IFREG }, { "lock", S_IFREG },          { "job.yaml", S_IFREG },
    { "train.log", S_IFREG },  { "cancel", S_IFREG },        { "metrics.jsonl", S_IFREG },
    { "patch.lock", S_IFREG }, { "changes.jsonl", S_IFREG }, { "backups", S_IFDIR },
};

static const char *type_name(mode_t mode)
{
    return S_ISREG(mode)   ? "a file"
           : S_ISDIR(mode) ? "a folder"
           : S_ISLNK(mode) ? "a symbolic link"
                           : "a special file";
}

/* *exists: whether it is there, if the result is true. */
static bool check_type(int dir, const char *name, mode_t type, bool *exists,
                       struct error *err)
{
    struct stat st;

    *exists = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!*exists)
        return errno == ENOENT || error_errno(err, "cannot examine %s", name);
    return (st.st_mode & S_IFMT) == type ||
           error_set(err, ERROR_SYSTEM,
                     "%s is in the way: it is %s, not %s; move it away", name,
                     type_name(st.st_mode), type_name(type));
}

bool obstacle_is_folder(int dir, const char *run_dir, struct error *err)
{
    bool exists;

    return check_type(dir, run_dir, S_IFDIR, &exists, err);
}

bool obstacle_none_at(int dir, const char *run_dir, struct error *err)
{
    bool has_folder, exists, ok = check_type(dir, run_dir, S_IFDIR, &has_folder, err);

    for (size_t i = 0; ok && has_folder && i < TS_COUNT(files); i++) {
        char *name = path_join(run_dir, files[i].name);

        ok = check_type(dir, name, files[i].type, &exists, err);
        free(name);
    }
    return ok;
}

bool obstacle_none(const struct job *job, struct error *err)
{
    return obstacle_none_at(AT_FDCWD, job->run_dir, err) &&
           (faccessat(AT_FDCWD, job->run_dir, W_OK | X_OK, AT_EACCESS) == 0 ||
            error_errno(err, "cannot write to %s", job->run_dir));
}
