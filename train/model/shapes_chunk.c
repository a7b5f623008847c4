/* train/model/shapes_chunk.c - how many rows of logits exist at once, and the room that
 * there is for more; the rows of generation. */
#include "config.h"

#include "train/model/shapes.h"

#include "base/size.h"
#include "train/model/shapes_internal.h"

/* Limits of a chunk: the bytes of its logits in fp32, also as one part in `share` of the
 * memory, and its rows. */
struct limits {
    size_t bytes, share, rows;
};

/*
 * On a CPU a chunk should fit into a cache, but be large enough that dW, which every chunk
 * reads and writes, is not the larger traffic.  A GPU multiplies so fast that this takes
 * about a thousand rows; their logits are about a hundredth of its memory.  If there is
 * room, four times that: a step of Llama 1B with 8192 rows took 142.6 ms on an H100
 * with 2 chunks, 146.2 with 8 (docs/gpu.md).
 *
 * On a GPU, matmul and loss kernels read 16 bytes at once if rows start at multiples of
 * 16 bytes; with 50257 tokens in 16 bits one row in eight would.  64 elements are 128
 * bytes, a cache line.  On a CPU rows are contiguous: oneDNN may choose a kernel by the
 * stride, and with it other bits.
 */
static const struct {
    struct limits usual, large;
    size_t unit; /* rows of logits start at multiples of this many elements */
} chunks[] = {
    [DEVICE_CPU] = { { (size_t)32 << 20, 1, 1024 }, { (size_t)32 << 20, 1, 1024 }, 1 },
    [DEVICE_CUDA] = { { (size_t)512 << 20, 64, 4096 },
                      { (size_t)2048 << 20, 32, 16384 },
                      64 },
    /* only estimated, as a GPU */
    [DEVICE_OTHER] = { { (size_t)512 << 20, 64, 4096 },
                       { (size_t)512 << 20, 64, 4096 },
                       64 },
};

#define CHUNK_ROWS ((size_t)16) /* chunks are a multiple of this: the kernels' tiles */

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t max(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t shapes_logits_row(const struct device *device, size_t vocabulary)
{
    return size_round(vocabulary, chunks[device->kind].unit);
}

size_t shapes_chunk_rows(const struct device *device, bool large, size_t row, size_t rows)
{
    const struct limits *limits =
        large ? &chunks[device->kind].large : &chunks[device->kind].usual;
    size_t bytes = limits->bytes, chunk_max, count;

    if (device->memory > 0)
        bytes = min(bytes, device->memory / limits->share);
    chunk_max = bytes / sizeof(float) / row / CHUNK_ROWS * CHUNK_ROWS;
    chunk_max = min(max(chunk_max, CHUNK_ROWS), limits->rows);
    count = max((rows + chunk_max - 1) / chunk_max, 1);
    return min(size_round((rows + count - 1) / count, CHUNK_ROWS), rows);
}

uint64_t shapes_room(const struct plan *plan)
{
    struct device whole = plan->device;
    struct error ignored = { 0 };
    uint64_t limit;

    whole.available = whole.memory;
    if (whole.kind != DEVICE_CUDA || plan->generation.alone ||
        plan_has_second_model(plan) ||
        !memory_limit(plan->memory_limit, &whole, &limit, &ignored))
        return 0;
    return (limit < whole.memory ? limit : whole.memory) / 2;
}

uint64_t shapes_room_to_keep(const struct plan *plan)
{
    const uint64_t room = shapes_room(plan), some = plan->device.available / 4 * 3;

    return some > 0 && some < room ? some : room;
}

size_t shapes_sequence_rows(const struct plan *plan, const struct model_config *config)
{
    size_t rows = plan_sequence_rows(plan), positions = model_config_positions(config);

    return plan->stage == STAGE_GRPO && positions > 0 ? min(rows, positions) : rows;
}

size_t shapes_slot_rows(const struct plan *plan, const struct model_config *config)
{
    const struct generation *g = &plan->generation;
    size_t prompt = (size_t)(g->prompt_max > 0 ? g->prompt_max : plan->cutoff_len);
    size_t positions = model_config_positions(config);
    size_t rows = prompt + (size_t)g->max_new_tokens;

    return positions > 0 ? min(rows, positions) : rows;
}

/* A step of all slots; and a sequence that is run again: model_renews_slot. */
size_t shapes_generation_rows(const struct plan *plan, const struct model_config *config)
{
    size_t slot = shapes_slot_rows(plan, config), rows;

    if (!plan->generation.on)
        return 0;
    rows = max((size_t)plan->generation.slots, 1);
    for (size_t i = 0; i < 2; i++) {
        const struct rope *rope = i ? &config->rope_local : &config->rope;

        if (rope->kind == ROPE_LONGROPE && (double)slot > rope->original_max_positions)
            rows = max(rows, (size_t)rope->original_max_positions + 1);
    }
    return rows;
}
