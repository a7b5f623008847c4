/* train/model/shapes_memory.c - the memory of a run: its block and what the backend takes. */
#include "config.h"

#include "train/model/shapes.h"

#include "base/size.h"
#include "train/model/attention_room.h"
#include "train/model/shapes_internal.h"

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t shapes_fp8_bytes(const struct plan *plan, const struct model_config *config,
                        size_t rows)
{
    size_t c = config->hidden_size, i = model_config_mlp_size(config);
    size_t q = model_config_most_queries(config), kv = model_config_most_keys(config);
    size_t gate = config->architecture->gated_attention ? q : 0;
    size_t values = config->linear ? linear_attention_values(&config->delta) : 0;
    size_t conv = config->linear ? linear_attention_columns(&config->delta) : 0;
    const struct latent_attention *latent = &config->latent;
    size_t first = latent->q_rank > 0 ? latent->q_rank : latent_q_columns(config);
    const bool convs = config->linear && config->architecture->short_convs;
    const size_t layers[][2] = {
        { c, model_config_is_latent(config) ? first + latent->kv_rank + latent->rotated
                                            : q + gate + 2 * kv },
        { latent->q_rank, latent->q_rank > 0 ? latent_q_columns(config) : 0 },
        { latent->kv_rank, latent->kv_rank > 0 ? latent_kv_columns(config) : 0 },
        { q, c },
        { c, conv + values + 2 * config->delta.heads },
        { values, c },
        { c, convs ? 3 * c : 0 },
        { c, convs ? c : 0 },
        { c, config->ssm.heads > 0 ? state_space_columns(&config->ssm) : 0 },
        { state_space_inner(&config->ssm), c },
        { c, shapes_gate_up_columns(config, i) },
        { i, c },
    };
    size_t chunk_max = 0;

    rows = shapes_rows(plan, rows);
    for (size_t l = 0; plan->precision.fp8 && l < TS_COUNT(layers); l++) {
        size_t in = layers[l][0], out = layers[l][1];

        chunk_max = max(chunk_max, rows * in + in * out);
        chunk_max = max(chunk_max, rows * out + in * out);
        chunk_max = max(chunk_max, rows * (in + out));
    }
    return chunk_max;
}

static struct memory_range held_by_backend(const struct plan *plan,
                                           const struct model_config *config,
                                           const struct shapes *shapes)
{
    size_t rows = shapes->rows;
    struct memory_range held;

    if (plan->device.kind == DEVICE_CPU)
        return memory_range_exact(0); /* no memory that is certainly touched */
    held = memory_range_sum(memory_overhead(&plan->device, 0), plan_group_overhead(plan));
    return memory_range_sum(
        held,
        memory_range_exact(shapes_fp8_bytes(plan, config, rows) +
                           attention_room_bytes(plan, config, rows, shapes->sequences)));
}

bool shapes_memory_for(const struct plan *plan, const struct model_config *config,
                       const struct shapes_batch *largest, struct memory_use *out,
                       struct error *err)
{
    struct arena *arena = arena_new();
    struct shapes shapes;
    bool ok = shapes_make_for(plan, config, largest, arena, &shapes, err);

    *out = (struct memory_use) { .fits = true };
    if (ok) {
        struct memory_range held = held_by_backend(plan, config, &shapes);

        shapes_use(&shapes, out);
        out->low = out->total + held.low;
        out->high = out->total + held.high;
        out->workspace += held.expected;
        out->total += held.expected;
    }
    arena_free(arena);
    return ok;
}

void shapes_use(const struct shapes *shapes, struct memory_use *out)
{
    const size_t moments = shapes->moments_bytes;

    *out = (struct memory_use) {
        .weights = shapes->weight_bytes + shapes->copy_bytes + shapes->frozen_bytes,
        .gradients = shapes->gradient_bytes,
        .optimizer = shapes->offloads ? 0 : moments,
        .host = shapes->offloads ? moments : 0,
        .total = shapes->total,
        .fits = true,
    };
    for (enum buffer i = 0; i < BUFFERS; i++) {
        const struct shape_buffer *b = &shapes->buffers[i];

        *(b->activation ? &out->activations : &out->workspace) += b->step * b->count;
    }
}
