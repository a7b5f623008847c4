/*
 * runner/job/job_group.c - files of cgroup2. systemd marks a group that it delegates with
 * an extended attribute (systemd, docs/CGROUP_DELEGATION.md), and mounts the tree at
 * /sys/fs/cgroup; elsewhere there are no groups for jobs.
 */
#include "config.h"

#include "runner/job/job_group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/size.h"
#include "base/walk.h"

#define TREE     "/sys/fs/cgroup"
#define LEAF     "/watch"
#define JOB      "job-"
#define JOB_PATH "/" JOB

/* Most processes and threads of a job: a bound for one that starts them without end, many
 * times what the ranks of a job on a large machine need. */
#define MOST_TASKS 16384

enum { FILE_BYTES = 4 << 10, TRIES = 1000 };

struct job_groups {
    char *folder;  /* GROUP, below the root */
    size_t top;    /* length of the part of `folder` that is not in /proc/PID/cgroup */
    int64_t next;  /* no group has this number or a later one */
    int64_t *left; /* numbers of groups whose last processes are ending */
    size_t left_count;
};

/* ---- Files ---- */

static void read_file(const char *folder, const char *file, char out[FILE_BYTES])
{
    char *name = path_join(folder, file);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;

    if (fd >= 0) {
        got = read(fd, out, FILE_BYTES - 1);
        close(fd);
    }
    out[got > 0 ? got : 0] = 0;
    free(name);
}

static int open_file(const char *folder, const char *file)
{
    char *name = path_join(folder, file);
    int fd = walk_open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    free(name);
    return fd;
}

/* Keeps errno if it fails. */
static bool write_file(const char *folder, const char *file, const char *text)
{
    int fd = open_file(folder, file), failed = errno;
    ssize_t len = (ssize_t)strlen(text);
    bool ok = false;

    if (fd >= 0) {
        ok = write(fd, text, (size_t)len) == len;
        failed = errno;
        close(fd);
    }
    errno = failed;
    return ok;
}

/* Return the number of a row "key number"; 0 if absent. */
static int64_t read_row(const char *folder, const char *file, const char *key)
{
    char text[FILE_BYTES];
    size_t len = strlen(key);

    read_file(folder, file, text);
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strncmp(at, key, len) == 0 && at[len] == ' ')
            return strtoll(at + len, NULL, 10);
    return 0;
}

static bool has_word(const char *folder, const char *file, const char *word)
{
    char text[FILE_BYTES], *rest = text, *at;

    read_file(folder, file, text);
    while ((at = strsep(&rest, " \n")))
        if (strcmp(at, word) == 0)
            return true;
    return false;
}

/* Write the path of this process in the tree: that of the line "0::/path". */
static bool own_path(const char *root, char out[FILE_BYTES])
{
    char *folder = path_join(root[0] ? root : "/", "proc/self");
    char text[FILE_BYTES], *rest = text, *line;
    bool found = false;

    read_file(folder, "cgroup", text);
    free(folder);
    while (!found && (line = strsep(&rest, "\n"))) {
        found = strncmp(line, "0::/", 4) == 0;
        if (found)
            snprintf(out, FILE_BYTES, "%s", line[4] ? line + 3 : "");
    }
    return found;
}

/* ---- What is delegated ---- */

static bool has_mark(const char *folder, const char *name)
{
    char value[8];

    return getxattr(folder, name, value, sizeof(value)) == 1 && value[0] == '1';
}

/* The manager of a user marks nothing, and older managers what only root can read. So a
 * group that is this user's is delegated, too, if the unit says so or if the one above it is
 * another user's. */
static bool is_delegated(const char *folder, bool said)
{
    const uid_t user = geteuid();
    struct stat own, parent;
    char *above = path_dir(folder);
    bool is_own = stat(folder, &own) == 0 && stat(above, &parent) == 0 &&
                  own.st_uid == user && (said || (user != 0 && parent.st_uid != user));

    free(above);
    return is_own || has_mark(folder, "user.delegate") ||
           has_mark(folder, "trusted.delegate");
}

/* Return the delegated group of this process. It is the parent of `watch` if the manager
 * (DelegateSubgroup=) or an earlier call has moved the process. malloc'ed; NULL: none. */
static char *find_delegated(const char *root, bool said, size_t *top)
{
    char path[FILE_BYTES], *folder = NULL;
    size_t len;

    if (!own_path(root, path) || asprintf(&folder, "%s" TREE "%s", root, path) < 0)
        return NULL;
    *top = strlen(folder) - strlen(path);
    if (is_delegated(folder, said))
        return folder;
    len = strlen(folder);
    if (len > strlen(LEAF) && strcmp(folder + len - strlen(LEAF), LEAF) == 0) {
        folder[len - strlen(LEAF)] = 0;
        if (strlen(folder) >= *top && is_delegated(folder, said))
            return folder;
    }
    free(folder);
    return NULL;
}

static bool is_writable(const char *folder)
{
    static const char *const files[] = { "", "cgroup.procs", "cgroup.subtree_control" };
    bool ok = true;

    for (size_t i = 0; i < TS_COUNT(files) && ok; i++) {
        char *name = path_join(folder, files[i]);

        ok = faccessat(AT_FDCWD, name, W_OK, AT_EACCESS) == 0;
        free(name);
    }
    return ok;
}

/* ---- Groups of jobs ---- */

static void job_folder(const struct job_groups *groups, int64_t number, char **out)
{
    if (asprintf(out, "%s" JOB_PATH "%" PRId64, groups->folder, number) < 0)
        abort();
}

/* Return the number in a name such as job-12; 0: it is none. */
static int64_t number_of(const char *name)
{
    const char *digits = name + strlen(JOB);
    int64_t number;
    char *end;

    if (strncmp(name, JOB, strlen(JOB)) != 0 || digits[0] < '1' || digits[0] > '9' ||
        strlen(digits) > 15)
        return 0;
    number = strtoll(digits, &end, 10);
    return *end ? 0 : number;
}

/* The kernel removes only a group without processes. */
static bool remove_group(const struct job_groups *groups, int64_t number)
{
    char *folder;
    bool ok;

    job_folder(groups, number, &folder);
    ok = walk_rmdir(folder) == 0 || errno == ENOENT;
    free(folder);
    return ok;
}

static void remove_left(struct job_groups *groups)
{
    size_t kept = 0;

    for (size_t i = 0; i < groups->left_count; i++)
        if (!remove_group(groups, groups->left[i]))
            groups->left[kept++] = groups->left[i];
    groups->left_count = kept;
}

/* Remove what earlier watches left, and count from there. */
static void remove_old(struct job_groups *groups)
{
    DIR *dir = opendir(groups->folder);
    struct dirent *entry;
    int64_t number;

    while (dir && (entry = readdir(dir)))
        if ((number = number_of(entry->d_name)) > 0 && !remove_group(groups, number) &&
            number >= groups->next)
            groups->next = number + 1;
    if (dir)
        closedir(dir);
}

/* Only the limits of bytes must not fail; older kernels lack some of the others. */
static bool limit(const char *folder, uint64_t bytes)
{
    char text[32];

    write_file(folder, "memory.oom.group", "1");
    snprintf(text, sizeof(text), "%d", MOST_TASKS);
    write_file(folder, "pids.max", text);
    if (bytes == 0)
        return true;
    write_file(folder, "memory.swap.max", "0");
    snprintf(text, sizeof(text), "%" PRIu64, bytes);
    return write_file(folder, "memory.max", text);
}

/* ---- Public ---- */

/* A group with controllers has no processes, so this one leaves it first, and returns if
 * others are there. */
static bool settle(struct job_groups *groups, struct error *err)
{
    const char *folder = groups->folder;
    char *leaf = path_join(folder, LEAF + 1);
    const bool pids = has_word(folder, "cgroup.controllers", "pids");
    bool ok = false;

    if (walk_mkdir(leaf, 0755) != 0 && errno != EEXIST) {
        error_errno(err, "cannot make %s", leaf);
    } else if (!write_file(leaf, "cgroup.procs", "0")) {
        error_errno(err, "cannot enter %s", leaf);
    } else if (!write_file(folder, "cgroup.subtree_control",
                           pids ? "+memory +pids" : "+memory")) {
        if (errno == EBUSY)
            error_set(err, ERROR_SYSTEM, "%s has other processes", folder);
        else
            error_errno(err, "cannot turn on controllers in %s", folder);
        write_file(folder, "cgroup.procs", "0");
        walk_rmdir(leaf);
    } else {
        ok = true;
    }
    free(leaf);
    return ok;
}

struct job_groups *job_groups_open(const char *root, bool service, bool said,
                                   struct error *err)
{
    size_t top;
    char *folder = find_delegated(root, said, &top);
    struct job_groups *groups;

    if (!folder)
        return NULL;
    groups = memory_alloc(sizeof(*groups));
    *groups = (struct job_groups) { .folder = folder, .top = top, .next = 1 };
    if (!is_writable(folder)) {
        if (service)
            error_errno(err, "cannot write to %s", folder);
    } else if (!has_word(folder, "cgroup.controllers", "memory")) {
        error_set(err, ERROR_SYSTEM, "%s has no controller of memory", folder);
    } else if (settle(groups, err)) {
        remove_old(groups);
        return groups;
    }
    job_groups_close(groups);
    return NULL;
}

void job_groups_close(struct job_groups *groups)
{
    if (!groups)
        return;
    remove_left(groups);
    free(groups->left);
    free(groups->folder);
    free(groups);
}

const char *job_groups_path(const struct job_groups *groups)
{
    return groups->folder;
}

static bool make_folder(struct job_groups *groups, int64_t *number, char **out)
{
    for (int i = 0; i < TRIES; i++) {
        *number = groups->next++;
        job_folder(groups, *number, out);
        if (walk_mkdir(*out, 0755) == 0)
            return true;
        if (errno != EEXIST)
            return false;
        free(*out);
        *out = NULL;
    }
    return false;
}

bool job_group_make(struct job_groups *groups, uint64_t bytes, struct job_group *out,
                    struct error *err)
{
    char *folder = NULL;
    int64_t number;
    bool ok;

    *out = (struct job_group) { .door = -1 };
    if (!groups)
        return false;
    remove_left(groups);
    ok = make_folder(groups, &number, &folder);
    if (!ok) {
        error_errno(err, "cannot make a control group in %s", groups->folder);
    } else if (!limit(folder, bytes) ||
               (out->door = open_file(folder, "cgroup.procs")) < 0) {
        ok = error_errno(err, "cannot set up %s", folder);
        walk_rmdir(folder);
    } else {
        out->number = number;
    }
    free(folder);
    return ok;
}

int job_group_enter(const struct job_group *group)
{
    return write(group->door, "0", 1) == 1 ? 0 : errno;
}

void job_group_close(struct job_group *group)
{
    if (group->door >= 0)
        close(group->door);
    group->door = -1;
}

void job_group_adopt(struct job_groups *groups, const char *path, uint64_t bytes,
                     struct job_group *out)
{
    const char *own = groups ? groups->folder + groups->top : "";
    size_t len = strlen(own);
    char *folder;

    *out = (struct job_group) { .door = -1 };
    if (!groups || strncmp(path, own, len) != 0 || path[len] != '/')
        return;
    out->number = number_of(path + len + 1);
    if (out->number == 0)
        return;
    job_folder(groups, out->number, &folder);
    limit(folder, bytes);
    free(folder);
}

/* `oom_kill` counts processes of this group that any OOM killer ended, `oom` how often its
 * own limit was the reason (memory.events). */
enum job_group_kills job_group_kills(const struct job_groups *groups,
                                     const struct job_group *group)
{
    enum job_group_kills kills = JOB_GROUP_UNHARMED;
    char *folder;

    if (!groups || group->number == 0)
        return kills;
    job_folder(groups, group->number, &folder);
    if (read_row(folder, "memory.events", "oom_kill") > 0)
        kills = read_row(folder, "memory.events", "oom") > 0 ? JOB_GROUP_OVER_LIMIT
                                                             : JOB_GROUP_NO_MEMORY;
    free(folder);
    return kills;
}

void job_group_remove(struct job_groups *groups, struct job_group *group)
{
    char *folder;

    job_group_close(group);
    if (groups && group->number > 0 && !remove_group(groups, group->number)) {
        job_folder(groups, group->number, &folder);
        write_file(folder, "cgroup.kill", "1");
        free(folder);
        groups->left =
            memory_resize(groups->left, groups->left_count + 1, sizeof(*groups->left));
        groups->left[groups->left_count++] = group->number;
    }
    group->number = 0;
}

bool job_group_own(const char *root, uint64_t *bytes)
{
    char path[FILE_BYTES], text[FILE_BYTES], *folder;
    const char *name;

    *bytes = 0;
    if (!own_path(root, path) || !(name = strrchr(path, '/')) || number_of(name + 1) == 0)
        return false;
    if (asprintf(&folder, "%s" TREE "%s", root, path) < 0)
        abort();
    read_file(folder, "memory.max", text);
    free(folder);
    if (sscanf(text, "%" SCNu64, bytes) != 1)
        *bytes = 0;
    return true;
}
