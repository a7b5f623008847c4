/* train/estimate.c - which arithmetic a plan's memory is counted by, and its bounds. */
#include "config.h"

#include "train/estimate.h"

#include "train/shapes.h"
#include "train/torch_memory.h"

/* Threads' stacks, batches, names, numbers to be printed: seen to be 1 to 3 MiB. */
static const uint64_t sundries = (uint64_t)4 << 20;

static bool packs(const struct plan *plan)
{
    return plan->neat_packing || plan->packing == CHOICE_YES ||
           (plan->packing == CHOICE_AUTO && plan->stage == STAGE_PT);
}

/* Samples may be shorter than cutoff_len. */
static bool lower(const struct plan *plan, const struct model_config *config,
                  struct memory_use *out, struct error *err)
{
    size_t batch = (size_t)plan->per_device_train_batch_size;
    struct memory_use least;

    if (packs(plan))
        return true;
    if (!shapes_memory(plan, config, batch, batch, &least, err))
        return false;
    out->low = least.low;
    return true;
}

/* Beside the student, as it lies in its files. */
static void add_teacher(const struct plan *plan, struct memory_use *out)
{
    out->weights += plan->teacher_bytes;
    out->total += plan->teacher_bytes;
    out->low += out->low > 0 ? plan->teacher_bytes : 0;
    out->high += out->high > 0 ? plan->teacher_bytes : 0;
}

bool estimate_memory(const struct plan *plan, const struct model_config *config,
                     const struct estimate_data *data, struct memory_use *out,
                     struct error *err)
{
    bool known = data && data->rows > 0, ok;

    if (plan->external)
        ok = torch_memory(plan, config, out, err);
    else
        ok = shapes_memory(plan, config, known ? data->rows : 0,
                           known ? data->sequences : 0, out, err) &&
             (known || lower(plan, config, out, err));
    if (ok)
        add_teacher(plan, out);
    return ok;
}

/* Bytes of the largest tensor of a file, in fp32. */
static uint64_t largest(const struct shapes *shapes)
{
    uint64_t most = 0;

    for (size_t i = 0; i < shapes->count; i++) {
        const struct shape_parameter *p = &shapes->parameters[i];
        uint64_t bytes = (uint64_t)p->rows * p->cols * sizeof(float);

        most = bytes > most ? bytes : most;
    }
    return most;
}

bool estimate_resident(const struct plan *plan, const struct model_config *config,
                       const struct estimate_data *data, struct memory_range *out)
{
    struct arena *arena = arena_new();
    struct error ignored = { 0 };
    struct shapes shapes;
    bool ok =
        !plan->external && plan->device.kind == DEVICE_CPU && data &&
        data->resident > 0 &&
        shapes_make(plan, config, data->rows, data->sequences, arena, &shapes, &ignored);

    if (ok) {
        uint64_t sure = data->resident + shapes.total, buffers = 2 * largest(&shapes);
        struct memory_range held = memory_held(&plan->device, (int)plan->threads);

        *out = (struct memory_range) { sure, sure + buffers / 2 + sundries / 2,
                                       sure + buffers + sundries + held.high };
    }
    arena_free(arena);
    return ok;
}

uint64_t estimate_loading(const struct plan *plan, const struct model_config *config)
{
    struct arena *arena;
    struct error ignored = { 0 };
    struct shapes shapes;
    uint64_t bytes = 0;

    if (plan->external)
        return torch_memory_load(plan, config);
    if (plan->device.kind == DEVICE_CPU)
        return 0;
    arena = arena_new();
    if (shapes_make(plan, config, 0, 0, arena, &shapes, &ignored))
        bytes = largest(&shapes) / 2 * 3; /* fp32, and the 16 bits it becomes */
    arena_free(arena);
    return bytes;
}
