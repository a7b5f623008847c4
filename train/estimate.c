/* train/estimate.c - memory of a plan: block, teacher, resident memory, and bounds. */
#include "config.h"

#include "train/estimate.h"

#include "base/file.h"
#include "train/dataset/dataset_plan.h"
#include "train/evaluation_plan.h"
#include "train/merge_plan.h"
#include "train/model/lora.h"
#include "train/model/shapes.h"
#include "train/teacher/teacher_plan.h"
#include "train/torch_memory.h"

/* Stacks of threads, batches, names, text buffers: measured as 1 to 3 MiB. */
static const uint64_t sundries = (uint64_t)4 << 20;

/* Of shapes_make_for; 0 everywhere: full batches. */
static struct shapes_batch largest_batch(const struct estimate_data *data)
{
    return data && data->rows > 0
               ? (struct shapes_batch) { .rows = data->rows,
                                         .sequences = data->sequences,
                                         .media_rows = data->media.batch }
               : (struct shapes_batch) { 0 };
}

/* Set out->low: samples may be shorter than cutoff_len. */
static bool set_low(const struct plan *plan, const struct model_config *config,
                    struct memory_use *out, struct error *err)
{
    size_t batch = plan_batch_sequences(plan);
    struct memory_use least;

    if (dataset_is_packed(plan))
        return true;
    if (!shapes_memory(plan, config, batch, batch, &least, err))
        return false;
    out->low = least.low;
    return true;
}

/* Lay out the block of the teacher or reference model of a native run.  False if there is
 * none, or if its files are unknown. */
static bool lay_out_teacher(const struct plan *plan, size_t rows, size_t sequences,
                            struct arena *arena, struct shapes *out)
{
    bool keeps = plan_teacher_logits(plan) != NULL;
    struct error ignored = { 0 };
    struct teacher_plan teacher;

    return !plan->external && plan_has_second_model(plan) && plan->kd.config &&
           teacher_plan_make(plan, keeps, arena, &teacher, &ignored) &&
           shapes_make(&teacher.plan, &teacher.config, rows, sequences, arena, out,
                       &ignored);
}

static void add_use(struct memory_use *out, const struct memory_use *more, uint64_t least)
{
    out->weights += more->weights;
    out->activations += more->activations;
    out->workspace += more->workspace;
    out->total += more->total;
    out->low += out->low > 0 ? least : 0;
    out->high += out->high > 0 ? more->total : 0;
}

/* A teacher, or an encoder, that is freed before the student is opened: add only what it takes
 * beyond the student. */
static void raise_use(struct memory_use *out, const struct memory_use *before,
                      uint64_t least)
{
    uint64_t more = before->total > out->total ? before->total - out->total : 0;

    out->workspace += more;
    out->total += more;
    out->low = out->low > 0 && least > out->low ? least : out->low;
    out->high = out->high > 0 && out->total > out->high ? out->total : out->high;
}

/* Add the teacher next to the student.  For another program, or if its config is unknown,
 * count the size of its files. */
static void add_teacher(const struct plan *plan, const struct estimate_data *data,
                        struct memory_use *out)
{
    bool known = data && data->rows > 0,
         filed = !plan->external && plan_teacher_logits(plan);
    size_t batch = plan_batch_sequences(plan);
    struct memory_use use = { .weights = plan->teacher_bytes,
                              .total = plan->teacher_bytes };
    struct arena *arena = arena_new();
    uint64_t least = use.total;
    struct shapes shapes;

    if (lay_out_teacher(plan, known ? data->rows : 0, known ? data->sequences : 0, arena,
                        &shapes)) {
        shapes_use(&shapes, &use);
        least = use.total;
        if (!known && !dataset_is_packed(plan) &&
            lay_out_teacher(plan, batch, batch, arena, &shapes))
            least = shapes.total;
    }
    if (!filed)
        add_use(out, &use, least);
    else if (!file_exists(plan->kd.logits))
        raise_use(out, &use, least);
    arena_free(arena);
}

bool estimate_encoder(const struct plan *plan, const struct model_config *config,
                      const struct estimate_media *media, struct tower_cost *out)
{
    /* kernels/cuda/cuda_memory.c and kernels/cpu: of an allocation */
    const bool trains = shapes_trains_encoder(plan, config);
    struct error ignored = { 0 };
    struct lora lora;
    const bool adapts =
        trains && plan_adapts(plan) && lora_read(plan, config, &lora, &ignored);
    const struct tower_cost_options options = {
        .compute = plan->precision.compute == FORMAT_TF32 ? FORMAT_FP32
                                                          : plan->precision.compute,
        .project = !shapes_projects(plan, config),
        .trains = trains,
        .rank = adapts ? lora.rank : 0,
        .drops = adapts && lora.dropout > 0,
        .alignment = plan->device.kind == DEVICE_CPU ? 64 : 256,
    };
    struct arena *arena;
    struct tower_config tower;
    bool has;

    if (plan->external || media->items == 0 || plan->features ||
        !plan->model_name_or_path)
        return false;
    arena = arena_new();
    has = tower_config_read(plan->model_name_or_path, config->hidden_size, arena, &tower,
                            &ignored);
    if (has)
        tower_cost_of(&tower, &options, media->largest, out);
    arena_free(arena);
    return has;
}

/* What an encoder takes: the weights that are trained are parameters of the model, which
 * shapes.h counts. */
static struct memory_use encoder_use(const struct plan *plan,
                                     const struct tower_cost *cost)
{
    const bool own = cost->trained == 0 || plan_adapts(plan);
    const uint64_t weights = own ? cost->weights : 0;

    return (struct memory_use) { .weights = weights,
                                 .workspace = cost->buffers,
                                 .total = weights + cost->buffers };
}

/* Memory of the encoder while it computes the rows of features, before the model is there; one
 * that is trained is next to it. */
static void add_encoder(const struct plan *plan, const struct model_config *config,
                        const struct estimate_data *data, struct memory_use *out)
{
    struct tower_cost cost;
    struct memory_use use;

    if (!data || !estimate_encoder(plan, config, &data->media, &cost))
        return;
    use = encoder_use(plan, &cost);
    if (cost.trained > 0)
        add_use(out, &use, use.total);
    else
        raise_use(out, &use, use.total);
}

struct estimate_data estimate_data_of(const struct estimate_data *counted,
                                      const struct plan *plan)
{
    const size_t batch = (size_t)plan->per_device_train_batch_size;
    const size_t length = plan_sequence_rows(plan);
    const size_t longest = counted->longest < length ? counted->longest : length;
    struct estimate_data data = *counted;

    if (counted->batch == 0 || (batch == counted->batch && longest == counted->longest))
        return data;
    data.rows = plan_batch_sequences(plan) * longest;
    if (data.rows > counted->rows && batch <= counted->batch)
        data.rows = counted->rows;
    data.sequences = (counted->sequences * batch + counted->batch - 1) / counted->batch;
    data.media.batch =
        (counted->media.batch * batch + counted->batch - 1) / counted->batch;
    return data;
}

/* Return the plan with the values measured from the data; a merge reads no data. */
static struct plan with_data(const struct plan *plan, const struct model_config *config,
                             const struct estimate_data *data)
{
    struct plan copy = plan_merges(plan)           ? merge_plan(plan, config)
                       : plan_only_evaluates(plan) ? evaluation_plan(plan)
                                                   : *plan;

    copy.generation.prompt_max = data ? (int64_t)data->asked : 0;
    return copy;
}

bool estimate_memory(const struct plan *asked, const struct model_config *config,
                     const struct estimate_data *data, struct memory_use *out,
                     struct error *err)
{
    bool known = data && data->rows > 0, ok;
    const struct plan copy = with_data(asked, config, data), *plan = &copy;
    const struct shapes_batch batch = largest_batch(data);

    if (plan->external)
        ok = torch_memory(plan, config, out, err);
    else
        ok = shapes_memory_for(plan, config, &batch, out, err) &&
             (known || set_low(plan, config, out, err));
    if (!ok)
        return false;
    add_teacher(plan, data, out);
    add_encoder(plan, config, data, out);
    return true;
}

/* Return the bytes of the largest tensor of a model file, in fp32. */
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

/* Count the certain part of the resident memory, and the buffers for loading and
 * saving. */
static void count_resident(const struct plan *plan, const struct model_config *config,
                           const struct estimate_data *data, const struct shapes *student,
                           struct arena *arena, uint64_t *sure, uint64_t *buffers)
{
    struct tower_cost encoder;
    struct shapes teacher;

    *sure = data->resident + student->total;
    *buffers = 2 * largest(student);
    if (estimate_encoder(plan, config, &data->media, &encoder)) {
        const uint64_t bytes = encoder_use(plan, &encoder).total;

        if (encoder.trained > 0)
            *sure += bytes;
        else if (bytes > student->total)
            *sure += bytes - student->total;
    }
    if (plan_teacher_logits(plan) && file_exists(plan->kd.logits))
        return;
    if (!lay_out_teacher(plan, data->rows, data->sequences, arena, &teacher))
        return;
    if (!plan_teacher_logits(plan))
        *sure += teacher.total;
    else if (teacher.total > student->total)
        *sure += teacher.total - student->total;
    if (2 * largest(&teacher) > *buffers)
        *buffers = 2 * largest(&teacher);
}

bool estimate_resident(const struct plan *asked, const struct model_config *config,
                       const struct estimate_data *data, struct memory_range *out)
{
    const struct plan copy = with_data(asked, config, data), *plan = &copy;
    const struct shapes_batch batch = largest_batch(data);
    struct arena *arena = arena_new();
    struct error ignored = { 0 };
    struct shapes shapes;
    bool ok = !plan->external && plan->device.kind == DEVICE_CPU && data &&
              data->resident > 0 &&
              shapes_make_for(plan, config, &batch, arena, &shapes, &ignored);

    if (ok) {
        struct memory_range held = memory_overhead(&plan->device, (int)plan->threads);
        const uint64_t group = memory_cpu_group(plan_ranks(plan));
        uint64_t sure, buffers;

        count_resident(plan, config, data, &shapes, arena, &sure, &buffers);
        *out = (struct memory_range) { sure, sure + buffers / 2 + sundries / 2,
                                       sure + buffers + sundries + held.high + group };
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
        bytes = largest(&shapes) / 2 * 3; /* fp32 and its 16-bit conversion */
    arena_free(arena);
    return bytes;
}
