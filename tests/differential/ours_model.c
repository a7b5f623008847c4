/* tests/differential/ours_model.c - compute the loss of a model and the norms of its
 * gradients. */
#include "config.h"

#include "tests/differential/ours.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/backend.h"
#include "train/model/model.h"
#include "train/chat/template.h"

/* Read sequences of tokens.  The target of each token is its successor. */
static void read_batch(const json_t *sequences, struct batch *b)
{
    json_t *sequence, *token;
    size_t i, k;

    b->offsets = memory_alloc((json_array_size(sequences) + 1) * sizeof(int32_t));
    json_array_foreach((json_t *)sequences, i, sequence)
    {
        size_t count = json_array_size(sequence), rows = b->rows + count;

        b->tokens = memory_resize(b->tokens, rows, sizeof(int32_t));
        b->positions = memory_resize(b->positions, rows, sizeof(int32_t));
        b->targets = memory_resize(b->targets, rows, sizeof(int32_t));
        json_array_foreach(sequence, k, token)
        {
            json_t *next = json_array_get(sequence, k + 1);

            b->tokens[b->rows + k] = (int32_t)json_integer_value(token);
            b->positions[b->rows + k] = (int32_t)k;
            b->targets[b->rows + k] =
                next ? (int32_t)json_integer_value(next) : LABEL_NONE;
        }
        b->rows = b->seen = rows;
        b->trained += count - 1;
        b->longest = count > b->longest ? count : b->longest;
        b->offsets[++b->sequences] = (int32_t)rows;
    }
}

static void free_batch(struct batch *b)
{
    free(b->tokens);
    free(b->positions);
    free(b->targets);
    free(b->offsets);
}

static json_t *norms_json(struct model *model)
{
    json_t *norms = json_object();

    for (size_t i = 0; i < model_parameters(model); i++) {
        const struct parameter *p = model_parameter(model, i);
        const float *g = p->grad.data;
        double sum = 0;

        if (!p->trainable)
            continue;
        for (size_t k = 0; k < p->rows * p->cols; k++)
            sum += (double)g[k] * g[k];
        json_object_set_new(norms, p->name, json_number(sqrt(sum)));
    }
    return norms;
}

static json_t *train(struct model *model, const struct batch *batch, struct error *err)
{
    struct step_scalars numbers = { .step = 1,
                                    .grad_scale = 1 / (float)batch->trained,
                                    .scaler = { .scale = 1 } };
    double loss = 0;

    if (!model_load(model, err))
        return NULL;
    model_begin(model, &numbers);
    if (!model_train(model, batch, 0, err) || !model_end(model, &numbers, &loss, err))
        return NULL;
    return json_pack("{s:f, s:o}", "loss", loss / (double)batch->trained, "norms",
                     norms_json(model));
}

json_t *loss_and_norms(const char *dir, const json_t *sequences, struct error *err)
{
    static const struct device cpu = { .kind = DEVICE_CPU, .ordinal = -1 };
    struct backend *be =
        backend_open(&(struct backend_options) { .device = &cpu, .threads = 1 }, err);
    struct arena *arena = arena_new();
    struct model_config config;
    struct plan plan = { .model_name_or_path = dir,
                         .method = METHOD_FULL,
                         .precision = { .compute = FORMAT_FP32,
                                        .trainable = FORMAT_FP32,
                                        .frozen = FORMAT_FP32,
                                        .loss_scale = 1 },
                         .per_device_train_batch_size = 1,
                         .gradient_accumulation_steps = 1,
                         .cutoff_len = 128,
                         .adam_epsilon = 1e-8 };
    struct batch batch = { 0 };
    struct model *model = NULL;
    json_t *answer = NULL;

    read_batch(sequences, &batch);
    if (be && model_config_read(dir, arena, &config, err))
        model = model_new(&(struct model_options) { .plan = &plan,
                                                    .config = &config,
                                                    .backend = be,
                                                    .rows_max = batch.rows,
                                                    .sequences_max = batch.sequences },
                          err);
    if (model)
        answer = train(model, &batch, err);
    model_free(model);
    backend_close(be);
    arena_free(arena);
    free_batch(&batch);
    return answer;
}
