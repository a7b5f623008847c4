/* base/path.c - names of files, and the names that belong to a job. */
#include "config.h"

#include "base/path.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"

char *path_join(const char *dir, const char *name)
{
    struct text path;

    text_init(&path, 0);
    if (name[0] != '/' && dir[0] && strcmp(dir, ".") != 0) {
        text_adds(&path, dir);
        if (!text_ends(dir, "/"))
            text_addc(&path, '/');
    }
    text_adds(&path, name);
    return text_detach(&path, NULL);
}

bool path_is_from_here(const char *dir, const char *name)
{
    char *joined = path_join(dir, name);
    bool here = strcmp(joined, name) != 0 && !file_exists(joined) && file_exists(name);

    free(joined);
    return here;
}

char *path_input(const char *dir, const char *name)
{
    return path_is_from_here(dir, name) ? memory_strdup(name) : path_join(dir, name);
}

char *path_absolute(const char *name)
{
    char *here = getcwd(NULL, 0), *joined = path_join(here ? here : "/", name);
    char *out = memory_alloc(strlen(joined) + 2);
    size_t end = 0;

    for (const char *at = joined; *(at += strspn(at, "/"));) {
        size_t len = strcspn(at, "/");

        if (len == 2 && strncmp(at, "..", 2) == 0) {
            while (end > 0 && out[--end] != '/')
                ;
        } else if (len != 1 || *at != '.') {
            out[end++] = '/';
            memcpy(out + end, at, len);
            end += len;
        }
        at += len;
    }
    if (end == 0)
        out[end++] = '/';
    out[end] = 0;
    free(joined);
    free(here);
    return out;
}

bool path_climbs(const char *path)
{
    int depth = 0;

    while (*path) {
        size_t len = strcspn(path, "/");

        if (len == 2 && strncmp(path, "..", 2) == 0) {
            if (--depth < 0)
                return true;
        } else if (len > 0 && !(len == 1 && *path == '.')) {
            depth++;
        }
        path += len + (path[len] == '/');
    }
    return false;
}

char *path_dir(const char *name)
{
    const char *slash = strrchr(name, '/');
    struct text dir;

    if (!slash)
        return memory_strdup(".");
    while (slash > name && slash[-1] == '/')
        slash--;
    text_init(&dir, 0);
    text_add(&dir, name, slash > name ? (size_t)(slash - name) : 1);
    return text_detach(&dir, NULL);
}

const char *path_base(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash ? slash + 1 : name;
}

char *path_run_dir(const char *job)
{
    const char *base = path_base(job);
    size_t cut = text_ends(base, ".yaml") ? 5 : text_ends(base, ".yml") ? 4 : 0;
    struct text dir;

    if (cut == strlen(base))
        cut = 0;
    text_init(&dir, 0);
    text_add(&dir, job, strlen(job) - cut);
    text_adds(&dir, ".run");
    return text_detach(&dir, NULL);
}

char *path_run_owner(const char *job)
{
    struct text other;
    struct stat st;

    if (!text_ends(job, ".yml") || strlen(path_base(job)) == strlen(".yml"))
        return NULL;
    text_init(&other, 0);
    text_add(&other, job, strlen(job) - strlen("yml"));
    text_adds(&other, "yaml");
    if (file_lstat(other.data, &st))
        return text_detach(&other, NULL);
    text_clear(&other);
    return NULL;
}

bool path_run_is_free(const char *job, struct error *err)
{
    char *owner = path_run_owner(job), *run;

    if (!owner)
        return true;
    run = path_run_dir(job);
    error_set(err, ERROR_USAGE,
              "%s would share %s with %s; give one of them another name", job, run,
              owner);
    free(run);
    free(owner);
    return false;
}
