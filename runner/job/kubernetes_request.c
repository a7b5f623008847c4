/* runner/job/kubernetes_request.c - the plan of a job as resources, time and paths. */
#include "config.h"

#include "runner/job/kubernetes_request.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/path.h"
#include "base/size.h"
#include "patcher/schema/slurm_values.h"
#include "runner/job/contained_paths.h"
#include "runner/job/forecast.h"

/* Of a shared file system, at worst. */
enum { SAVE_BYTES_PER_SECOND = 100000000, STOP_SECONDS = 120 };
/* Of a rank on a GPU, whose driver and libraries need it, besides moments in host memory. */
#define GPU_RANK_BYTES ((uint64_t)4 << 30)
/* As the user of the image, where root submits. */
enum { IMAGE_USER = 10001 };

/* ---- Paths ---- */

static bool is_below(const char *path, const char *folder)
{
    const size_t len = strlen(folder);

    return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* By its name, and by what it leads to: both must be in the pods. */
static bool is_shared(const char *path, const char *mount)
{
    char *name = path_absolute(path), *real = realpath(path, NULL);
    char *root = realpath(mount, NULL);
    const bool ok =
        is_below(name, mount) && (!real || is_below(real, root ? root : mount));

    free(root);
    free(real);
    free(name);
    return ok;
}

static bool check_paths(const struct plan *plan, const char *mount, struct error *err)
{
    struct arena *arena = arena_new();
    struct contained_paths paths;

    contained_paths_init(&paths, arena);
    contained_paths_add_plan(&paths, plan);
    for (size_t i = 0; i < paths.count && err->code == ERROR_NONE; i++)
        if (!is_shared(paths.list[i].path, mount))
            error_set(err, ERROR_JOB,
                      "%s is not in %s, the folder that the pods share: name one that "
                      "holds both with --mount",
                      paths.list[i].path, mount);
    arena_free(arena);
    return err->code == ERROR_NONE;
}

/* ---- Resources ---- */

/* A size of Slurm, which was checked: megabytes, or with a unit. */
static uint64_t read_size(const char *text)
{
    char *unit;
    const uint64_t number = strtoull(text, &unit, 10);
    const int shift = *unit == 'K' || *unit == 'k'   ? 10
                      : *unit == 'G' || *unit == 'g' ? 30
                      : *unit == 'T' || *unit == 't' ? 40
                                                     : 20;

    return number > UINT64_MAX >> shift ? UINT64_MAX : number << shift;
}

/* Memory of a pod: of the machine, not of its GPUs. */
static uint64_t estimate(const struct inspection *inspection,
                         const struct forecast *forecast, int64_t ranks)
{
    const struct memory_use *use = &forecast->memory;
    uint64_t one;

    if (!forecast->has_memory)
        return 0;
    if (inspection->device->kind != DEVICE_CPU)
        one = use->host + GPU_RANK_BYTES;
    else
        one = forecast->has_resident ? forecast->resident.high : use->high;
    return one * (uint64_t)ranks;
}

static void request_resources(const struct inspection *inspection,
                              const struct forecast *forecast, struct kubernetes_job *out)
{
    const struct plan *plan = &inspection->patch.plan;
    struct slurm_gpus gpus = { .any = false };

    if (inspection->device->kind == DEVICE_CUDA) {
        if (plan->slurm.gres)
            slurm_read_gres(plan->slurm.gres, &gpus);
        out->gpus = gpus.any ? (int64_t)gpus.count : out->ranks;
        /* one that nothing names is that of this machine, by chance */
        if (inspection->storage.source && !inspection->storage.guessed &&
            inspection->device->major > 0)
            out->device = inspection->device;
    }
    out->cpus =
        out->ranks * (plan->slurm.cpus_per_task > 0 ? plan->slurm.cpus_per_task : 1);
    out->limited = plan->slurm.mem != NULL;
    out->memory = out->limited ? read_size(plan->slurm.mem)
                               : estimate(inspection, forecast, out->ranks);
}

/* To end a step, and to write weights and moments. */
static int64_t seconds_to_stop(const struct forecast *forecast, int64_t nodes,
                               int64_t ranks)
{
    const struct memory_use *use = &forecast->memory;
    const double bytes =
        forecast->has_memory ? (double)(use->weights + use->optimizer + use->host) : 0;
    const double step = forecast->has_time ? forecast->eta.step.high : 0;
    const double seconds = bytes * (double)(nodes * ranks) / SAVE_BYTES_PER_SECOND + step;

    return STOP_SECONDS + (seconds < 86400 ? (int64_t)seconds : 86400);
}

/* The owner of the job writes its files, in the pods as here. */
static void request_user(struct kubernetes_job *out)
{
    struct stat st;

    out->user = out->group = IMAGE_USER;
    if (stat(out->path, &st) == 0 && st.st_uid != 0) {
        out->user = st.st_uid;
        out->group = st.st_gid;
    }
}

bool kubernetes_request(const struct inspection *inspection, struct kubernetes_job *out,
                        struct error *err)
{
    const struct plan *plan = &inspection->patch.plan;
    struct forecast forecast;

    out->nodes = plan_trains(plan) && plan->nodes > 1 ? plan->nodes : 1;
    out->ranks = plan_trains(plan) ? (int64_t)plan_local_ranks(plan) : 1;
    if (!check_paths(plan, out->mount, err))
        return false;
    forecast_make(inspection, &forecast);
    request_resources(inspection, &forecast, out);
    out->seconds = seconds_to_stop(&forecast, out->nodes, out->ranks);
    out->failures = plan->max_retries;
    request_user(out);
    return true;
}
