/* train/dataset/dataset_plan.c - paths, limits and packing, without reading any data. */
#include "config.h"

#include "train/dataset/dataset_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"

bool dataset_is_packed(const struct plan *plan)
{
    return plan->stage < STAGE_DPO &&
           (plan->neat_packing || plan->packing == CHOICE_YES ||
            (plan->packing == CHOICE_AUTO && plan->stage == STAGE_PT));
}

/* A random draw or a slice requires reading the whole source. */
int64_t dataset_plan_limit(const struct plan *plan, const struct dataset_source *source)
{
    bool chosen =
        source->num_samples > 0 || source->slice.has_from || source->slice.has_to;

    return chosen || plan->max_samples <= 0 ? -1 : plan->max_samples;
}

/* Return the path of a file or folder of data: next to the job, in dataset_dir, or else in
 * the working directory; NULL: nowhere. */
static char *find_file(const struct plan *plan, const char *name)
{
    const char *const dirs[] = { plan->dir ? plan->dir : ".", plan->dataset_dir, "." };

    for (size_t i = 0; i < TS_COUNT(dirs); i++) {
        char *path = dirs[i] ? path_join(dirs[i], name) : NULL;

        if (path && file_exists(path))
            return path;
        free(path);
    }
    return NULL;
}

char *dataset_plan_paths(const struct plan *plan, const char *names)
{
    struct text out;

    text_init(&out, 0);
    while (*names) {
        size_t blanks = strspn(names, ", "), len = strcspn(names + blanks, ",");
        char *name = memory_strdup(names + blanks), *path;

        name[len] = 0;
        path = dataset_name_is_path(name) ? find_file(plan, name) : NULL;
        text_add(&out, names, blanks);
        text_adds(&out, path ? path : name);
        names += blanks + len;
        free(path);
        free(name);
    }
    return text_detach(&out, NULL);
}

const char *dataset_plan_media_dir(const struct plan *plan)
{
    if (plan->media_dir)
        return plan->media_dir;
    return plan->dataset_dir ? plan->dataset_dir : "data";
}
