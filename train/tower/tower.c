/* train/tower/tower.c - opening an encoder: its weights and their gradients. */
#include "config.h"

#include "train/tower/tower_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "train/model/model_config.h"
#include "train/tower/tower_load.h"
#include "train/tower/tower_trained.h"

/* ---- Loading ---- */

static bool load_on_host(struct tower *t, const struct tower_load *load,
                         struct error *err)
{
    for (int i = 0; i < TOWER_LAYERS; i++) {
        const enum tower_layer layer = (enum tower_layer)i;
        const struct tower_parameter *p =
            tower_layer_on_host(layer)
                ? tower_parameters_find(&t->parameters, layer, 0, false)
                : NULL;

        t->host[layer] = p ? tower_load_values(load, p, err) : NULL;
        if (p && !t->host[layer])
            return false;
    }
    return true;
}

static bool load_weights(struct tower *t, const struct tower_options *options,
                         struct error *err)
{
    struct safetensors *files = safetensors_open(options->model_dir, "model", false, err);
    struct tower_merge *merge = NULL;
    bool ok = files && tower_merge_open(&options->merged, &merge, err);
    const struct tower_load load = { .files = files,
                                     .merge = merge,
                                     .config = &t->config,
                                     .parameters = &t->parameters,
                                     .backend = options->backend,
                                     .block = t->pass.block,
                                     .frozen = options->frozen,
                                     .gated = t->pass.gated,
                                     .heartbeat = options->heartbeat };

    ok = ok && load_on_host(t, &load, err) && tower_load_block(&load, err);
    tower_merge_close(merge);
    safetensors_close(files);
    conformer_distances(&t->config, &t->host[TOWER_DISTANCES]);
    return ok;
}

/* Lay out the gradients, which are zero at first. */
static bool make_gradients(struct tower *t, struct error *err)
{
    struct backend *be = t->pass.be;
    const struct tower_parameters *list = &t->parameters;
    size_t bytes = 0;

    t->gradients = arena_array(t->arena, list->count, sizeof(*t->gradients));
    for (size_t i = 0; i < list->count; i++)
        bytes += size_round(list->list[i].rows * list->list[i].cols * sizeof(float),
                            be->ops->alignment);
    t->gradient_block = be->ops->alloc(be, bytes, err);
    if (!t->gradient_block)
        return false;
    bytes = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct tower_parameter *p = &list->list[i];

        t->gradients[i] =
            tensor_of((char *)t->gradient_block + bytes, FORMAT_FP32, p->rows, p->cols);
        bytes += size_round(tensor_bytes(t->gradients[i]), be->ops->alignment);
        be->ops->zero(be, &(struct op_zero) { .out = t->gradients[i] });
    }
    t->pass.gradients = t->gradients;
    return true;
}

/* ---- Weights of a model ---- */

/* The parts of a parameter are adjacent. */
static struct tensor joined(struct tensor first, const struct tower_parameter *p)
{
    return tensor_of(first.data, first.format, p->rows, p->cols);
}

static void use_weights(struct tower *t, const struct encoder_weights *weights)
{
    const struct tower_parameters *list = &t->parameters;

    t->gradients = arena_array(t->arena, list->count, sizeof(*t->gradients));
    t->weights = arena_array(t->arena, list->count, sizeof(*t->weights));
    for (size_t i = 0; i < list->count; i++) {
        const struct tower_parameter *p = &list->list[i];
        const bool on_host = tower_layer_on_host(p->layer);

        t->weights[i] = joined(on_host ? weights->weight : weights->operand, p);
        t->gradients[i] = joined(weights->grad, p);
        if (on_host)
            t->host[p->layer] = memory_resize(NULL, p->rows * p->cols, sizeof(float));
        weights += tower_trained_parts(&t->config, p);
    }
    t->pass.weights = t->weights;
    t->pass.gradients = t->gradients;
}

bool tower_download(const struct tower *t, struct tensor from, enum format to, void *out,
                    struct error *err)
{
    const size_t count = from.rows * from.cols;
    void *values = from.format == to ? out : malloc(count * sizeof(float));
    bool ok;

    if (!values)
        return error_set(err, ERROR_SYSTEM, "no memory for %zu rows of features",
                         from.rows);
    t->pass.be->ops->download(t->pass.be, values, from.data, tensor_bytes(from));
    ok = t->pass.be->ops->sync(t->pass.be, err);
    if (values == out)
        return ok;
    if (ok)
        format_convert(out, to, values, from.format, count);
    free(values);
    return ok;
}

bool tower_refresh(struct tower *t, struct error *err)
{
    bool ok = true;

    for (size_t i = 0; ok && t->weights && i < t->parameters.count; i++)
        if (tower_layer_on_host(t->parameters.list[i].layer))
            ok = tower_download(t, t->weights[i], FORMAT_FP32,
                                t->host[t->parameters.list[i].layer], err);
    return ok;
}

/* ---- Opening ---- */

static bool check_trains(const struct tower *t, struct error *err)
{
    return !t->trains || !tower_trained_not(&t->config) ||
           error_set(err, ERROR_DATA, "cannot train the encoder of a %s model: %s",
                     t->config.family->model_type, tower_trained_not(&t->config));
}

static bool start(struct tower *t, const struct tower_options *options, struct error *err)
{
    struct backend *be = options->backend;
    struct model_config text;

    if (!model_config_read(options->model_dir, t->arena, &text, err) ||
        !tower_config_read(options->model_dir, text.hidden_size, t->arena, &t->config,
                           err))
        return false;
    tower_parameters_list(&t->config, options->project, options->compute,
                          be->ops->alignment, t->arena, &t->parameters);
    t->pass = (struct tower_pass) { .config = &t->config,
                                    .parameters = &t->parameters,
                                    .be = be,
                                    .compute = options->compute,
                                    .project = options->project,
                                    .adapters = options->adapters,
                                    .host = (const float *const *)t->host,
                                    .heartbeat = options->heartbeat };
    t->trains = options->trains && !options->project;
    t->pass.gated = t->trains && !t->config.family->encoder->scaled;
    if (!check_trains(t, err))
        return false;
    if (options->weights) {
        use_weights(t, options->weights);
        return true;
    }
    t->pass.block = be->ops->alloc(be, t->parameters.bytes, err);
    return t->pass.block && load_weights(t, options, err) &&
           (!t->trains || options->adapters || make_gradients(t, err));
}

struct tower *tower_open(const struct tower_options *options, struct error *err)
{
    struct tower *t = memory_alloc(sizeof(*t));

    t->arena = arena_new();
    if (start(t, options, err))
        return t;
    tower_free(t);
    return NULL;
}

void tower_free(struct tower *tower)
{
    if (!tower)
        return;
    if (tower->work)
        tower->pass.be->ops->free(tower->pass.be, tower->work);
    if (tower->gradient_block)
        tower->pass.be->ops->free(tower->pass.be, tower->gradient_block);
    if (tower->pass.block)
        tower->pass.be->ops->free(tower->pass.be, tower->pass.block);
    for (int i = 0; i < TOWER_LAYERS; i++)
        free(tower->host[i]);
    arena_free(tower->arena);
    free(tower);
}

const struct tower_config *tower_config_of(const struct tower *tower)
{
    return &tower->config;
}

const struct tower_parameters *tower_parameters_of(const struct tower *tower)
{
    return &tower->parameters;
}

struct tensor tower_gradient(const struct tower *tower, size_t index)
{
    return tower->gradients[index];
}

size_t tower_elements(const struct tower *tower)
{
    return tower->parameters.elements;
}
