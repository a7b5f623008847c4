/* bench/model_steps.c - a model, a batch and an optimizer, without data and files. */
#include "config.h"

#include "bench/model_steps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/random.h"
#include "bench/rate.h"
#include "bench/target.h"
#include "train/model/optimizer.h"
#include "train/model/shapes.h"

static void check(bool ok, const struct error *err)
{
    if (!ok) {
        fprintf(stderr, "bench: %s\n", err->text);
        exit(1);
    }
}

struct plan model_steps_plan(const struct bench_row *row)
{
    bool lora = row->method == METHOD_LORA;

    return (struct plan) {
        .model_name_or_path = "",
        .device = *target_find(row->gpu ? NULL : "cpu"),
        .method = row->method,
        .lora_rank = 16,
        .lora_target = "all",
        .precision = { .mode = row->format == FORMAT_FP32 ? MODE_FP32 : MODE_BF16_MIXED,
                       .compute = row->format,
                       .fp8 = row->fp8,
                       .trainable = FORMAT_FP32,
                       .has_frozen = lora,
                       .frozen = row->format,
                       .loss_scale = 1,
                       .max_grad_norm = 1 },
        .per_device_train_batch_size = (int64_t)row->model->sequences,
        .cutoff_len = (int64_t)row->model->length,
        .gradient_accumulation_steps = 1,
        .gradient_checkpointing = row->checkpointed,
        .learning_rate = 1e-4,
        .adam_beta1 = 0.9,
        .adam_beta2 = 0.999,
        .adam_epsilon = 1e-8,
        .weight_decay = 0.01,
    };
}

/* Fill with uniform values of deviation 0.02, or with 1 for vectors, which are weights of
 * norms. A few rows at a time, so that the peak of memory is that of the steps. */
static void fill(struct backend *be, struct parameter *p, uint64_t *state)
{
    enum { SPAN = 1 << 16 }; /* elements */
    size_t most = p->cols < SPAN ? SPAN / p->cols : 1;
    float *values = memory_alloc(most * p->cols * sizeof(*values));
    struct tensor from = tensor_of(NULL, FORMAT_FP32, most, p->cols);

    from.data = target_memory(be, tensor_bytes(from));
    for (size_t row = 0; row < p->rows; row += most) {
        size_t rows = p->rows - row < most ? p->rows - row : most;
        struct tensor x = tensor_rows(from, 0, rows);

        for (size_t i = 0; i < rows * p->cols; i++) {
            *state = *state * 6364136223846793005u + 1442695040888963407u;
            values[i] =
                p->rank == 1 ? 1 : (float)(int32_t)(*state >> 32) * (0.0346f * 0x1p-31f);
        }
        be->ops->upload(be, x.data, values, tensor_bytes(x));
        be->ops->convert(be, &(struct op_convert) {
                                 .out = tensor_rows(p->weight, row, rows), .x = x });
        if (p->copy.data)
            be->ops->convert(be, &(struct op_convert) {
                                     .out = tensor_rows(p->copy, row, rows), .x = x });
    }
    target_wait(be);
    be->ops->free(be, from.data);
    free(values);
}

static void make_batch(struct bench *bench)
{
    struct batch *batch = &bench->batch;
    size_t length = bench->row.model->length, sequences = bench->row.model->sequences;
    size_t rows = sequences * length;

    *batch = (struct batch) {
        .rows = rows,
        .sequences = sequences,
        .longest = length,
        .tokens = memory_alloc(rows * sizeof(int32_t)),
        .positions = memory_alloc(rows * sizeof(int32_t)),
        .targets = memory_alloc(rows * sizeof(int32_t)),
        .offsets = memory_alloc((sequences + 1) * sizeof(int32_t)),
        .trained = rows,
        .seen = rows,
        .room_rows = rows,
        .room_sequences = sequences,
    };
    for (size_t i = 0; i < rows; i++) {
        batch->tokens[i] =
            (int32_t)(random_bits(1, RANDOM_ORDER, 0, i) % bench->config.vocab_size);
        batch->targets[i] =
            (int32_t)(random_bits(1, RANDOM_ORDER, 1, i) % bench->config.vocab_size);
        batch->positions[i] = (int32_t)(i % length);
    }
    for (size_t i = 0; i <= sequences; i++)
        batch->offsets[i] = (int32_t)(i * length);
}

const char *model_steps_format(const struct bench_row *row)
{
    return row->fp8 ? "fp8" : format_info(row->format)->name;
}

static void read_config(const struct bench *bench, struct arena *arena,
                        struct model_config *out)
{
    const struct bench_model *model = bench->row.model;
    struct error err = { 0 };

    check(model_config_parse(model->config, strlen(model->config), model->name, arena,
                             out, &err),
          &err);
}

struct backend *model_steps_backend(const struct bench *bench)
{
    const struct bench_model *model = bench->row.model;
    struct arena *arena = arena_new();
    struct model_config config;
    size_t rounded;

    if (!bench->row.gpu)
        return rate_open(0, false);
    read_config(bench, arena, &config);
    rounded = shapes_fp8_bytes(&bench->plan, &config, model->sequences * model->length);
    arena_free(arena);
    return target_open_gpu(&bench->plan.device, rounded, bench->row.choices_dir);
}

double model_steps_open(struct bench *bench)
{
    const struct bench_model *model = bench->row.model;
    struct error err = { 0 };
    uint64_t state = 1;
    double start;

    bench->arena = arena_new();
    read_config(bench, bench->arena, &bench->config);
    make_batch(bench);
    bench->model =
        model_new(&(struct model_options) { .plan = &bench->plan,
                                            .config = &bench->config,
                                            .backend = bench->be,
                                            .rows_max = bench->batch.rows,
                                            .sequences_max = model->sequences },
                  &err);
    check(bench->model != NULL, &err);
    start = clock_seconds();
    for (size_t i = 0; i < model_parameters(bench->model); i++)
        fill(bench->be, model_parameter(bench->model, i), &state);
    return clock_seconds() - start;
}

void model_steps_close(struct bench *bench)
{
    model_free(bench->model);
    batch_clear(&bench->batch);
    arena_free(bench->arena);
}

/* Put step `number` into the stream. */
static void issue(struct bench *bench, int64_t number)
{
    struct step_scalars numbers = {
        .learning_rate = bench->plan.learning_rate,
        .max_grad_norm = bench->plan.precision.max_grad_norm,
        .step = number,
        .grad_scale = 1 / (float)bench->batch.trained,
        .scaler = { .scale = 1 },
    };
    struct error err = { 0 };

    model_begin(bench->model, &numbers);
    check(model_train(bench->model, &bench->batch, 0, &err), &err);
    check(optimizer_step(bench->model, &bench->plan, &err), &err);
    model_post(bench->model);
}

/* Wait for the earliest step in the stream. */
static void end(struct bench *bench)
{
    struct step_scalars numbers;
    struct error err = { 0 };

    check(model_end(bench->model, &numbers, &bench->loss, &err), &err);
    if (!isfinite(bench->loss) || !numbers.finite) {
        fprintf(stderr, "bench: the loss or its gradient is not finite\n");
        exit(1);
    }
}

double model_steps_run(struct bench *bench, int64_t number)
{
    double start = clock_seconds();

    issue(bench, number);
    end(bench);
    return clock_seconds() - start;
}

void model_steps_overlap(struct bench *bench, int64_t number, double *seconds, int count)
{
    double ended = 0, now;

    issue(bench, number);
    for (int i = 0; i <= count; i++) {
        if (i < count)
            issue(bench, number + i + 1);
        end(bench);
        now = clock_seconds();
        if (i > 0)
            seconds[i - 1] = now - ended;
        ended = now;
    }
}

double model_steps_flops(const struct bench *bench)
{
    const struct model_config *c = &bench->config;
    double width = (double)(c->heads * c->head_size),
           kv = (double)(c->kv_heads * c->head_size);
    double hidden = (double)c->hidden_size, inner = (double)c->intermediate_size;
    double matrices = c->architecture->paths[MODULE_GATE] ? 3 : 2; /* of the MLP */
    double block = hidden * (2 * width + 2 * kv) + matrices * hidden * inner;
    double base = (double)c->layers * block + hidden * (double)c->vocab_size;
    double attention = 6 * (double)c->layers * (double)bench->row.model->length * width;
    double token = bench->row.method == METHOD_LORA
                       ? 4 * base + 6 * (double)model_trainable_elements(bench->model)
                       : 6 * base;

    return (token + attention) * (double)bench->batch.rows;
}

double model_steps_memory(const struct bench *bench)
{
    struct rusage usage;

    if (bench->row.gpu)
        return (double)model_memory(bench->model)->total * 0x1p-20;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

double model_steps_planned(const struct bench *bench)
{
    struct memory_use use;
    struct error err = { 0 };

    check(shapes_memory(&bench->plan, &bench->config, bench->batch.rows,
                        bench->batch.sequences, &use, &err),
          &err);
    return (double)use.total * 0x1p-20;
}
