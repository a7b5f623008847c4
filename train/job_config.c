/* train/job_config.c - reads a model and its encoder. */
#include "config.h"

#include "train/job_config.h"

#include "train/model/plan_config.h"
#include "train/tower/tower_trained.h"

bool job_config_read(const struct plan *plan, const char *dir, struct arena *arena,
                     struct model_config *out, struct error *err)
{
    if (!plan_config_read(plan, dir, arena, out, err))
        return false;
    tower_trained_list(dir, arena, out);
    return true;
}
