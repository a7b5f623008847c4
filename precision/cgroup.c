/*
 * precision/cgroup.c - follows /proc/self/cgroup through the mounts of the hierarchies.
 *
 * A line of /proc/self/cgroup is HIERARCHY:CONTROLLERS:PATH; version 2 has no controllers
 * (cgroups(7)).  The folder of a path depends on where its hierarchy is mounted, and on
 * which of its folders is (proc(5), mountinfo): a container may see only its own part, or
 * a path of the host that it cannot see, and then the mount point is the best that is
 * known.  Files: Linux, Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst,
 * scheduler/sched-bwc.rst.
 */
#include "config.h"

#include "precision/cgroup.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"

enum { LONGEST_LINE = 4096, FILE_BYTES = 16 << 10 };

/* Read the start of a small file. */
static bool read_path(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);
    size_t len = 0;
    ssize_t got;

    while (fd >= 0 && len + 1 < size && (got = read(fd, out + len, size - 1 - len)) > 0)
        len += (size_t)got;
    if (fd >= 0)
        close(fd);
    out[len] = 0;
    return len > 0;
}

static bool read_file(const char *folder, const char *file, char out[FILE_BYTES])
{
    struct text name;
    bool ok;

    text_init(&name, 0);
    text_addf(&name, "%s/%s", folder, file);
    ok = read_path(name.data, out, FILE_BYTES);
    text_clear(&name);
    return ok;
}

/* Read a number; "max" is none. */
static bool read_bytes(const char *folder, const char *file, uint64_t *out)
{
    char text[FILE_BYTES];

    return read_file(folder, file, text) && sscanf(text, "%" SCNu64, out) == 1;
}

/* Return a row of memory.stat; 0 if absent. */
static uint64_t stat_row(const char *stat, const char *key)
{
    size_t len = strlen(key);

    for (const char *row = stat; row; row = strchr(row, '\n')) {
        row += *row == '\n';
        if (strncmp(row, key, len) == 0 && row[len] == ' ')
            return strtoull(row + len, NULL, 10);
    }
    return 0;
}

/* Pages of files that are clean can be dropped when memory is short. */
static uint64_t droppable(const char *folder, const char *prefix)
{
    static const char *const clean[] = { "inactive_file", "active_file" };
    static const char *const dirty[] = { "file_dirty", "file_writeback", "dirty",
                                         "writeback" };
    char stat[FILE_BYTES], key[64];
    uint64_t bytes = 0, kept = 0;

    if (!read_file(folder, "memory.stat", stat))
        return 0;
    for (size_t i = 0; i < 2; i++) {
        snprintf(key, sizeof(key), "%s%s", prefix, clean[i]);
        bytes += stat_row(stat, key);
    }
    for (size_t i = 0; i < 4; i++) {
        snprintf(key, sizeof(key), "%s%s", prefix, dirty[i]);
        kept += stat_row(stat, key);
    }
    return bytes > kept ? bytes - kept : 0;
}

static void limit_memory(struct cgroup_limits *out, uint64_t limit, uint64_t used)
{
    uint64_t left = used < limit ? limit - used : 0;

    out->memory = limit < out->memory ? limit : out->memory;
    out->available = left < out->available ? left : out->available;
}

static void limit_cores(struct cgroup_limits *out, int64_t quota, int64_t period)
{
    size_t cores = quota > 0 && period > 0 ? (size_t)((quota + period - 1) / period) : 0;

    if (cores > 0 && (out->cores == 0 || cores < out->cores))
        out->cores = cores;
}

/* Memory beyond memory.high is taken away again, with long waits: it is a limit, too. */
static void read_v2(const char *folder, struct cgroup_limits *out)
{
    static const char *const limits[] = { "memory.max", "memory.high" };
    char text[FILE_BYTES];
    uint64_t limit, used;
    int64_t quota, period;

    for (size_t i = 0; i < 2; i++)
        if (read_bytes(folder, limits[i], &limit)) {
            uint64_t free = droppable(folder, "");

            used = 0;
            read_bytes(folder, "memory.current", &used);
            limit_memory(out, limit, used > free ? used - free : 0);
        }
    if (read_file(folder, "cpu.max", text) &&
        sscanf(text, "%" SCNd64 " %" SCNd64, &quota, &period) == 2)
        limit_cores(out, quota, period);
}

/* No limit is a number near 2^63 bytes. */
static void read_v1_memory(const char *folder, struct cgroup_limits *out)
{
    uint64_t limit, used = 0, free;

    if (!read_bytes(folder, "memory.limit_in_bytes", &limit) || limit >= (uint64_t)1
                                                                             << 62)
        return;
    free = droppable(folder, "total_");
    read_bytes(folder, "memory.usage_in_bytes", &used);
    limit_memory(out, limit, used > free ? used - free : 0);
}

static void read_v1_cpu(const char *folder, struct cgroup_limits *out)
{
    char quota[FILE_BYTES], period[FILE_BYTES];

    if (read_file(folder, "cpu.cfs_quota_us", quota) &&
        read_file(folder, "cpu.cfs_period_us", period))
        limit_cores(out, atoll(quota), atoll(period));
}

enum { HIERARCHIES = 3 };

/* A hierarchy by its controller, "" for version 2. */
static const struct hierarchy {
    const char *controller;
    const char *folder; /* where it usually is */
    void (*read)(const char *folder, struct cgroup_limits *out);
} hierarchies[HIERARCHIES] = {
    { "", "/sys/fs/cgroup", read_v2 },
    { "memory", "/sys/fs/cgroup/memory", read_v1_memory },
    { "cpu", "/sys/fs/cgroup/cpu", read_v1_cpu },
};

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, word, len) == 0 && (at[len] == ',' || at[len] == 0))
            return true;
    return false;
}

struct mount {
    char root[LONGEST_LINE];  /* the folder of the hierarchy that is mounted */
    char point[LONGEST_LINE]; /* where */
};

/* Read a line of mountinfo: "32 31 0:29 /root /point rw,relatime - cgroup cgroup rw,cpu". */
static bool read_mount(const char *line, const char *controller, struct mount *out)
{
    const char *rest = strstr(line, " - ");
    char type[32], options[LONGEST_LINE];

    if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", out->root, out->point) != 2 ||
        sscanf(rest, " - %31s %*s %4095s", type, options) != 2)
        return false;
    if (controller[0] == 0)
        return strcmp(type, "cgroup2") == 0;
    return strcmp(type, "cgroup") == 0 && has_word(options, controller);
}

/* Find the first mount of each hierarchy. */
static void find_mounts(const char *root, struct mount out[HIERARCHIES])
{
    bool found[HIERARCHIES] = { false };
    char line[LONGEST_LINE];
    struct text name;
    FILE *in;

    text_init(&name, 0);
    text_addf(&name, "%s/proc/self/mountinfo", root);
    in = fopen(name.data, "re");
    while (in && fgets(line, sizeof(line), in))
        for (size_t i = 0; i < HIERARCHIES; i++)
            if (!found[i])
                found[i] = read_mount(line, hierarchies[i].controller, &out[i]);
    if (in)
        fclose(in);
    for (size_t i = 0; i < HIERARCHIES; i++)
        if (!found[i]) {
            strcpy(out[i].root, "/");
            strcpy(out[i].point, hierarchies[i].folder);
        }
    text_clear(&name);
}

/* Return the part of a path below the mounted folder; "" if it is outside. */
static const char *below_mount(const char *path, const struct mount *mount)
{
    size_t len = strlen(mount->root);

    if (len == 1)
        len = 0; /* "/" */
    if (strncmp(path, mount->root, len) != 0 || (path[len] && path[len] != '/') ||
        strstr(path, "/.."))
        return "";
    return path + len;
}

/* ---- The groups of this process ---- */

/* The group of this process in one hierarchy. */
struct group {
    const struct hierarchy *of;
    struct text folder;
    size_t top; /* the length of the part that is the mount */
};

struct groups {
    char *root;
    char lines[FILE_BYTES]; /* of /proc/self/cgroup */
    struct group list[HIERARCHIES];
    size_t count;
};

static bool groups_are_of(const struct groups *groups, const char *root,
                          const char *lines)
{
    return groups->root && strcmp(groups->root, root) == 0 &&
           strcmp(groups->lines, lines) == 0;
}

static void groups_clear(struct groups *groups)
{
    for (size_t i = 0; i < groups->count; i++)
        text_clear(&groups->list[i].folder);
    groups->count = 0;
    free(groups->root);
}

static void add_group(const char *root, size_t hierarchy, const char *path,
                      const struct mount *mount, struct groups *out)
{
    struct group *group = &out->list[out->count++];

    group->of = &hierarchies[hierarchy];
    text_init(&group->folder, 0);
    text_addf(&group->folder, "%s%s", root, mount->point);
    group->top = group->folder.len;
    text_adds(&group->folder, below_mount(path, mount));
}

/* Add the groups that a line of /proc/self/cgroup names; it is changed. */
static void add_line(const char *root, char *line, const struct mount mounts[HIERARCHIES],
                     struct groups *out)
{
    char *path = line;
    const char *controllers;

    strsep(&path, ":");
    controllers = strsep(&path, ":");
    for (size_t i = 0; controllers && path && i < HIERARCHIES; i++) {
        const char *own = hierarchies[i].controller;

        if (out->count < HIERARCHIES &&
            (own[0] ? has_word(controllers, own) : !controllers[0]))
            add_group(root, i, path, &mounts[i], out);
    }
}

static void groups_find(const char *root, const char *lines, struct groups *out)
{
    char copy[FILE_BYTES], *rest = copy, *line;
    struct mount *mounts = memory_alloc(HIERARCHIES * sizeof(*mounts));

    groups_clear(out);
    out->root = memory_strdup(root);
    snprintf(out->lines, sizeof(out->lines), "%s", lines);
    snprintf(copy, sizeof(copy), "%s", lines);
    find_mounts(root, mounts);
    while ((line = strsep(&rest, "\n")))
        add_line(root, line, mounts, out);
    free(mounts);
}

/* Call `visit` with the groups of this process. The watch asks before each start of a
 * job, so they are kept: the mounts are read again only if the process has moved. */
static void with_groups(const char *root,
                        void (*visit)(const struct groups *groups, void *out), void *out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct groups kept;
    char lines[FILE_BYTES];
    struct text name;

    text_init(&name, 0);
    text_addf(&name, "%s/proc/self/cgroup", root);
    read_path(name.data, lines, sizeof(lines));
    text_clear(&name);
    pthread_mutex_lock(&lock);
    if (!groups_are_of(&kept, root, lines))
        groups_find(root, lines, &kept);
    visit(&kept, out);
    pthread_mutex_unlock(&lock);
}

/* Read the limits of each group and of each parent. */
static void visit_limits(const struct groups *groups, void *out)
{
    for (size_t i = 0; i < groups->count; i++) {
        const struct group *group = &groups->list[i];
        struct text folder;
        char *slash;

        text_init(&folder, 0);
        text_adds(&folder, group->folder.data);
        do {
            group->of->read(folder.data, out);
            slash =
                folder.len > group->top ? strrchr(folder.data + group->top, '/') : NULL;
            if (slash) {
                *slash = 0;
                folder.len = (size_t)(slash - folder.data);
            }
        } while (slash);
        text_clear(&folder);
    }
}

void cgroup_read(const char *root, struct cgroup_limits *out)
{
    *out = (struct cgroup_limits) { .memory = UINT64_MAX, .available = UINT64_MAX };
    with_groups(root, visit_limits, out);
}

/* ---- Kills ---- */

/* Read a row of a file of rows "key number". */
static bool read_count(const char *folder, const char *name, const char *key,
                       int64_t *out)
{
    char text[FILE_BYTES];
    const char *at = read_file(folder, name, text) ? text : "";
    size_t len = strlen(key);

    for (; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strncmp(at, key, len) == 0 && at[len] == ' ') {
            *out = strtoll(at + len, NULL, 10);
            return true;
        }
    return false;
}

/* Both files count every process of the group that any OOM killer ended (cgroup-v2.rst;
 * mm/memcontrol.c: memcg_oom_kill). */
static void visit_kills(const struct groups *groups, void *out)
{
    for (size_t i = 0; i < groups->count; i++) {
        const struct group *group = &groups->list[i];

        if (!group->of->controller[0])
            read_count(group->folder.data, "memory.events", "oom_kill", out);
        else if (strcmp(group->of->controller, "memory") == 0)
            read_count(group->folder.data, "memory.oom_control", "oom_kill", out);
    }
}

int64_t cgroup_oom_kills(const char *root)
{
    int64_t kills = -1;
    struct text folder;

    with_groups(root, visit_kills, &kills);
    if (kills >= 0)
        return kills;
    text_init(&folder, 0);
    text_addf(&folder, "%s/proc", root);
    read_count(folder.data, "vmstat", "oom_kill", &kills);
    text_clear(&folder);
    return kills;
}
