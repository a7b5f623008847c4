/* train/checkpoint/checkpoint_find.c - finding the checkpoints in a folder. */
#include "config.h"

#include "train/checkpoint/checkpoint_find.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "train/checkpoint/optimizer_file.h"
#include "train/files/manifest.h"

char *checkpoint_name(const char *dir, int64_t step)
{
    char base[64];

    snprintf(base, sizeof(base), CHECKPOINT_PREFIX "%" PRId64, step);
    return path_join(dir, base);
}

int64_t checkpoint_step(const char *base)
{
    char *end;
    long long step;

    if (!text_starts(base, CHECKPOINT_PREFIX) || base[strlen(CHECKPOINT_PREFIX)] < '0' ||
        base[strlen(CHECKPOINT_PREFIX)] > '9')
        return -1;
    step = strtoll(base + strlen(CHECKPOINT_PREFIX), &end, 10);
    return *end == '\0' ? step : -1;
}

bool checkpoint_belongs_to(const char *name, const char *digest)
{
    return manifest_check(name, false, NULL, NULL) &&
           (!digest || manifest_has_job(name, digest));
}

static int by_step(const void *a, const void *b)
{
    int64_t left = ((const struct checkpoint_found *)a)->step,
            right = ((const struct checkpoint_found *)b)->step;

    return left < right ? 1 : left > right ? -1 : 0;
}

size_t checkpoint_list(const char *dir, const char *digest, struct checkpoint_found **out,
                       struct error *err)
{
    DIR *folder = file_open_dir(dir);
    struct dirent *entry;
    size_t count = 0;

    *out = NULL;
    if (!folder && errno != ENOENT)
        error_errno(err, "cannot open the folder %s", dir);
    while (folder && (entry = file_next(folder, dir))) {
        int64_t step = checkpoint_step(entry->d_name);
        char *name;

        if (step < 0)
            continue;
        name = path_join(dir, entry->d_name);
        if (!checkpoint_belongs_to(name, digest)) {
            free(name);
            continue;
        }
        *out = memory_resize(*out, count + 1, sizeof(**out));
        (*out)[count++] = (struct checkpoint_found) { name, step };
    }
    if (folder && errno) /* of file_next */
        error_errno(err, "cannot read the folder %s", dir);
    if (folder)
        closedir(folder);
    if (count > 0)
        qsort(*out, count, sizeof(**out), by_step);
    return count;
}

bool checkpoint_can_resume(const char *name, bool deep, struct heartbeat *heartbeat)
{
    return optimizer_file_exists(name) && manifest_check(name, deep, heartbeat, NULL);
}

static bool is_among(const struct checkpoint_among *among, int64_t step)
{
    bool skipped = false;

    for (size_t i = 0; i < among->count; i++)
        skipped = skipped || among->skipped[i] == step;
    return step < among->before && !skipped;
}

/* deep: as in checkpoint_can_resume. */
static char *find_last(const char *dir, const char *digest,
                       const struct checkpoint_among *among, bool deep,
                       struct heartbeat *heartbeat)
{
    struct checkpoint_found *found;
    size_t count = checkpoint_list(dir, digest, &found, NULL);
    char *last = NULL;

    for (size_t i = 0; i < count; i++)
        if (!last && is_among(among, found[i].step) &&
            checkpoint_can_resume(found[i].name, deep, heartbeat))
            last = found[i].name;
        else
            free(found[i].name);
    free(found);
    return last;
}

char *checkpoint_last(const char *dir, const char *digest, bool deep,
                      struct heartbeat *heartbeat)
{
    return find_last(dir, digest, &(struct checkpoint_among) { .before = INT64_MAX },
                     deep, heartbeat);
}

char *checkpoint_last_among(const char *dir, const char *digest,
                            const struct checkpoint_among *among)
{
    return find_last(dir, digest, among, false, NULL);
}
