/*
 * kernels/cpu/cpu_cores.c - reads the affinity from the scheduler and the limits from the
 * files of the cgroup.
 *
 * Any ancestor may set a limit, so all are read. Inside a container the path in
 * /proc/self/cgroup may be the host's and not exist, so the root of the mount is read
 * too. Files: Linux, Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst.
 */
#include "config.h"

#include "kernels/cpu/cpu_cores.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t divide_up(long long quota, long long period)
{
    return quota > 0 && period > 0 ? (size_t)((quota + period - 1) / period) : 0;
}

size_t cores_of_max(const char *max)
{
    long long quota, period;

    return sscanf(max, "%lld %lld", &quota, &period) == 2 ? divide_up(quota, period) : 0;
}

size_t cores_of_quota(const char *quota, const char *period)
{
    return divide_up(atoll(quota), atoll(period));
}

static bool read_line(const char *folder, const char *path, const char *file,
                      char out[64])
{
    char name[1200];
    FILE *in;
    bool ok;

    if (snprintf(name, sizeof(name), "%s%s/%s", folder, path, file) >= (int)sizeof(name))
        return false;
    in = fopen(name, "re");
    if (!in)
        return false;
    ok = fgets(out, 64, in) != NULL;
    fclose(in);
    return ok;
}

static size_t limit_v2(const char *folder, const char *path)
{
    char max[64];

    return read_line(folder, path, "cpu.max", max) ? cores_of_max(max) : 0;
}

static size_t limit_v1(const char *folder, const char *path)
{
    char quota[64], period[64];

    if (!read_line(folder, path, "cpu.cfs_quota_us", quota) ||
        !read_line(folder, path, "cpu.cfs_period_us", period))
        return 0;
    return cores_of_quota(quota, period);
}

static size_t lower_limit(size_t a, size_t b)
{
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

/* Return the lowest limit of `path` and its ancestors; truncates path on the way. */
static size_t limit_above(size_t (*limit)(const char *, const char *), const char *folder,
                          char *path)
{
    size_t found = 0;

    for (;;) {
        char *slash = strrchr(path, '/');

        found = lower_limit(found, limit(folder, path));
        if (!slash)
            return found;
        *slash = 0;
    }
}

/* A line lists its controllers between its colons; version 2 lists none. */
static bool has_cpu(const char *controllers)
{
    char list[256];
    char *next = list;

    snprintf(list, sizeof(list), "%s", controllers);
    for (char *one = strsep(&next, ","); one; one = strsep(&next, ","))
        if (strcmp(one, "cpu") == 0)
            return true;
    return false;
}

/* Read one line of /proc/self/cgroup: "0::/user.slice" or "4:cpu,cpuacct:/docker/1f". */
static size_t limit_of_line(char *line)
{
    char *path = line, folder[300];
    const char *controllers;

    strsep(&path, ":");
    controllers = strsep(&path, ":");
    if (!controllers || !path)
        return 0;
    path[strcspn(path, "\n")] = 0;
    if (*controllers == 0)
        return limit_above(limit_v2, "/sys/fs/cgroup", path);
    if (!has_cpu(controllers))
        return 0;
    snprintf(folder, sizeof(folder), "/sys/fs/cgroup/%s", controllers);
    return limit_above(limit_v1, folder, path);
}

static size_t limit_of_cgroups(void)
{
    char line[1024];
    size_t found = 0;
    FILE *in = fopen("/proc/self/cgroup", "re");

    if (!in)
        return 0;
    while (fgets(line, sizeof(line), in))
        found = lower_limit(found, limit_of_line(line));
    fclose(in);
    return found;
}

size_t cores_usable(void)
{
    cpu_set_t set;
    size_t cores = 1;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cores = (size_t)CPU_COUNT(&set);
    return lower_limit(cores, limit_of_cgroups());
}
