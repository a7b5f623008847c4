/*
 * tests/unit/unit_model.h - shared by tests of models: a plan, a batch from lists of
 * tokens, a model on the CPU.
 */
#ifndef TESTS_UNIT_UNIT_MODEL_H
#define TESTS_UNIT_UNIT_MODEL_H

#include "tests/unit/unit.h"

#include <math.h>

#include "base/json.h"
#include "base/random.h"
#include "base/size.h"
#include "train/model/model.h"
#include "train/model/model_media.h"
#include "train/model/optimizer.h"
#include "train/chat/template.h"

struct unit_model {
    struct arena *arena;
    struct plan plan;
    struct model_config config;
    struct backend *be;
    struct model *model;
    /* joined before the model is created; NULL: a single process */
    const struct backend_group *group;
    /* of batches with images or sounds: their most rows of features, and where these are
     * from */
    size_t media_rows;
    const struct model_media *media;
    const struct device *device;   /* NULL: the CPU */
    const struct backend_ops *ops; /* NULL: the build's backend for the device */
};

/* A plan for full training in fp32 without weight decay or clipping. */
static inline struct plan unit_plan(const char *dir)
{
    return (struct plan) {
        .model_name_or_path = dir,
        .method = METHOD_FULL,
        .freeze_vision_tower = true,
        .freeze_multi_modal_projector = true,
        .lora_rank = 4,
        .lora_target = "all",
        .precision = { .compute = FORMAT_FP32,
                       .trainable = FORMAT_FP32,
                       .frozen = FORMAT_FP32,
                       .loss_scale = 1 },
        .per_device_train_batch_size = 2,
        .gradient_accumulation_steps = 4,
        .cutoff_len = 128,
        .learning_rate = 1e-3,
        .adam_beta1 = 0.9,
        .adam_beta2 = 0.999,
        .adam_epsilon = 1e-8,
        .seed = 42,
    };
}

static inline void unit_must(bool ok, const struct error *err)
{
    if (!ok)
        fail_msg("%s", err->text);
}

/* plan, config and backend are set; create the model with nothing loaded. */
static inline void unit_model_make(struct unit_model *u, size_t rows, size_t sequences)
{
    struct error err = { 0 };

    if (u->group) {
        struct backend_group joined = *u->group;

        joined.sent = plan_sent_gradients(&u->plan);
        unit_must(u->be->ops->join(u->be, &joined, &err), &err);
    }
    u->model = model_new(
        &(struct model_options) { .plan = &u->plan,
                                  .config = &u->config,
                                  .backend = u->be,
                                  .rows_max = rows,
                                  .sequences_max = sequences,
                                  .media_rows_max = u->media_rows,
                                  .rank = u->group ? (size_t)u->group->rank : 0 },
        &err);
    unit_must(u->model != NULL, &err);
    if (u->media)
        model_set_media(u->model, u->media);
}

static inline void unit_model_load(struct unit_model *u, size_t rows, size_t sequences)
{
    struct error err = { 0 };

    unit_model_make(u, rows, sequences);
    unit_must(model_load(u->model, &err), &err);
}

/* Open the CPU backend, or that of `ops` and `device`. */
static inline void unit_model_open_backend(struct unit_model *u, int threads)
{
    static const struct device cpu = { .kind = DEVICE_CPU, .ordinal = -1 };
    struct backend_options with = { .device = u->device ? u->device : &cpu,
                                    .threads = threads };
    struct error err = { 0 };

    u->be = u->ops ? u->ops->open(&with, &err) : backend_open(&with, &err);
    unit_must(u->be != NULL, &err);
    u->plan.device.kind = u->be->ops->kind;
}

/* plan and config are set; create and load the model. */
static inline void unit_model_start(struct unit_model *u, size_t rows, size_t sequences,
                                    int threads)
{
    unit_model_open_backend(u, threads);
    unit_model_load(u, rows, sequences);
}

static inline void unit_model_stop(struct unit_model *u)
{
    model_free(u->model);
    backend_close(u->be);
    arena_free(u->arena);
    *u = (struct unit_model) { 0 };
}

/* A model with random weights from the text of a config.json. */
static inline struct unit_model unit_model_text(const char *text, struct plan plan)
{
    struct unit_model u = { .arena = arena_new(), .plan = plan };
    struct error err = { 0 };

    unit_must(
        model_config_parse(text, strlen(text), "config.json", u.arena, &u.config, &err),
        &err);
    return u;
}

/* Use a folder of the shared data and read its config; skip the test if it is absent. */
static inline struct unit_model unit_model_shared(const char *name)
{
    char *dir = unit_shared(name);
    struct unit_model u = { .arena = arena_new() };
    struct error err = { 0 };

    if (!dir) {
        arena_free(u.arena);
        print_message("# SKIP %s is not in the shared data\n", name);
        skip();
    }
    u.plan = unit_plan(arena_strdup(u.arena, dir));
    free(dir);
    unit_must(model_config_read(u.plan.model_name_or_path, u.arena, &u.config, &err),
              &err);
    return u;
}

/* Add a sequence: `ids`, with each token's successor as its target. */
static inline void unit_batch_add(struct batch *b, const int32_t *ids, size_t count)
{
    size_t rows = b->rows + count;

    b->tokens = memory_resize(b->tokens, rows, sizeof(int32_t));
    b->positions = memory_resize(b->positions, rows, sizeof(int32_t));
    b->targets = memory_resize(b->targets, rows, sizeof(int32_t));
    b->offsets = memory_resize(b->offsets, b->sequences + 2, sizeof(int32_t));
    for (size_t i = 0; i < count; i++) {
        b->tokens[b->rows + i] = ids[i];
        b->positions[b->rows + i] = (int32_t)i;
        b->targets[b->rows + i] = i + 1 < count ? ids[i + 1] : LABEL_NONE;
    }
    b->offsets[0] = 0;
    b->offsets[++b->sequences] = (int32_t)rows;
    b->longest = count > b->longest ? count : b->longest;
    b->trained += count - 1;
    b->rows = b->seen = rows;
}

static inline void unit_batch_json(struct batch *b, const json_t *ids)
{
    size_t count = json_array_size(ids);
    int32_t *list = memory_alloc((count + 1) * sizeof(*list));

    for (size_t i = 0; i < count; i++)
        list[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    unit_batch_add(b, list, count);
    free(list);
}

/* Random tokens of a vocabulary, by seed. */
static inline void unit_batch_random(struct batch *b, size_t count, size_t vocabulary,
                                     uint32_t stream)
{
    int32_t *list = memory_alloc(count * sizeof(*list));

    for (size_t i = 0; i < count; i++)
        list[i] = (int32_t)(random_bits(7, RANDOM_ORDER, stream, i) % vocabulary);
    unit_batch_add(b, list, count);
    free(list);
}

static inline void unit_batch_free(struct batch *b)
{
    free(b->tokens);
    free(b->positions);
    free(b->targets);
    free(b->weights);
    free(b->offsets);
    free(b->media);
    free(b->media_at);
    *b = (struct batch) { 0 };
}

/* Mean loss over the targets. */
static inline double unit_loss(struct unit_model *u, const struct batch *b)
{
    struct error err = { 0 };
    double sum = 0;

    unit_must(model_evaluate(u->model, b, &sum, &err), &err);
    return sum / (double)b->trained;
}

/* The values a step (counted from 1) starts with, for the mean over this many tokens; no
 * loss scale. */
static inline struct step_scalars unit_numbers(const struct unit_model *u, size_t trained,
                                               int64_t step)
{
    return (struct step_scalars) { .learning_rate = u->plan.learning_rate,
                                   .max_grad_norm = u->plan.precision.max_grad_norm,
                                   .step = step,
                                   .grad_scale = 1 / (float)trained,
                                   .loss_scale = 1,
                                   .scaler = { .scale = 1 } };
}

/* The same, with gradients of the mean. */
static inline double unit_train(struct unit_model *u, const struct batch *b)
{
    struct step_scalars numbers = unit_numbers(u, b->trained, 1);
    struct error err = { 0 };
    double sum = 0;

    model_begin(u->model, &numbers);
    unit_must(model_train(u->model, b, 0, &err), &err);
    unit_must(model_end(u->model, &numbers, &sum, &err), &err);
    return sum / (double)b->trained;
}

/* Apply an optimizer step (counted from 1) with the current gradients; return their
 * norm. */
static inline double unit_step(struct unit_model *u, int64_t step)
{
    struct step_scalars numbers = unit_numbers(u, 1, step);
    struct error err = { 0 };
    double sum;

    model_begin(u->model, &numbers);
    unit_must(optimizer_step(u->model, &u->plan, &err), &err);
    unit_must(model_end(u->model, &numbers, &sum, &err), &err);
    return numbers.norm;
}

/* Return the norm of all gradients without changing anything. */
static inline double unit_norm(struct unit_model *u)
{
    struct step_scalars *numbers = model_step_scalars(u->model);
    struct error err = { 0 };
    double sum;

    u->be->ops->square_sum(u->be,
                           &(struct op_square_sum) { .x = model_gradients(u->model),
                                                     .sum = &numbers->square_sum });
    u->be->ops->download(u->be, &sum, &numbers->square_sum, sizeof(sum));
    unit_must(u->be->ops->sync(u->be, &err), &err);
    return sqrt(sum);
}

static inline struct parameter *unit_parameter(struct unit_model *u, const char *name)
{
    for (size_t i = 0; i < model_parameters(u->model); i++)
        if (strcmp(model_parameter(u->model, i)->name, name) == 0)
            return model_parameter(u->model, i);
    return NULL;
}

static inline void unit_put_numbers(struct model *model, struct tensor to,
                                    const float *values)
{
    struct backend *be = model_backend(model);
    uint32_t packed[256];

    format_convert(packed, to.format, values, FORMAT_FP32, to.rows * to.cols);
    be->ops->upload(be, to.data, packed, tensor_bytes(to));
}

/* Copy weights by name into a model; every name must exist. */
static inline void unit_put_weights(struct model *model, const json_t *weights)
{
    size_t put = 0;

    for (size_t i = 0; i < model_parameters(model); i++) {
        struct parameter *p = model_parameter(model, i);
        const json_t *list = json_object_get(weights, p->name);
        float values[256];

        assert_int_equal(json_array_size(list), p->rows * p->cols);
        assert_true(p->rows * p->cols <= TS_COUNT(values));
        for (size_t k = 0; k < p->rows * p->cols; k++)
            values[k] = (float)json_number_value(json_array_get(list, k));
        unit_put_numbers(model, p->weight, values);
        if (p->copy.data)
            unit_put_numbers(model, p->copy, values);
        put++;
    }
    assert_int_equal(put, json_object_size(weights));
}

static inline void unit_assert_near(const char *what, double is, double wanted,
                                    double relative)
{
    if (!(fabs(is - wanted) <= relative * fabs(wanted)))
        fail_msg("%s is %.8g, expected %.8g within %.1g", what, is, wanted, relative);
}

#endif
