/*
 * kernels/cpu/cpu_matmul_tiles.c - cuts a product into tiles, packs, multiplies, adds up
 * parts.
 *
 * A tile's columns of b are packed for the second cache and stay there while the same
 * thread takes the tiles below it; a is read where it lies if its rows run along k, else
 * packed too. Where there would be few tiles, k is cut in parts, whose sums are added in
 * order.
 */
#include "config.h"

#include "kernels/cpu/cpu_matmul_tiles.h"

#include "base/size.h"
#include "kernels/cpu/cpu_matmul_kernel.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PANELS_BYTES = 512 << 10, /* of b, to stay in the second cache (1 MiB on Zen 4) */
    DEEP_BYTES = 4096,        /* of a row of a in a block of k, where a is deep, ... */
    FLAT_BYTES = 2048,        /* ... and where a cache line has but one k */
    TILE_ROWS = 256,          /* packing b costs 1/16 or so of multiplying it so often */
    TILE_COLS = 768,
    FEWEST_TILES = 16, /* below it tiles get smaller or k is cut */
    LEAST_DEPTH = 512, /* of a part */
    PARTS_BYTES = 16 << 20,
    PANELS_ROOM = 2 << 20, /* a thread's panels: at least one, however deep a block is */
    PACK_DEPTH = 32,
    ADD_ROWS = 16,
};

/* The panels of b a thread has packed last. */
struct panels {
    void *data;      /* PANELS_ROOM */
    uint64_t number; /* of the product */
    size_t column, k;
};

struct tiles {
    const struct matmul_kernels *kernels;
    uint64_t number;
    char *map;
    size_t map_bytes;
    float *parts; /* PARTS_BYTES */
    struct panels panels[];
};

/* How a's side comes to the innermost loop. */
enum a_way { A_IN_PLACE, A_PACKED, A_UNFOLDED };

struct grid {
    size_t tile_rows, tile_cols; /* the last ones are smaller */
    size_t rows, cols, parts;    /* tiles and parts there are */
    size_t part_depth;           /* of k; the last part is smaller */
    size_t block_depth;          /* what is multiplied at once */
};

struct product {
    struct tiles *tiles;
    const struct op_matmul *op;
    struct matmul_side a, b;
    size_t depth; /* K */
    bool pairs;
    enum a_way way;
    struct grid grid;
};

static const struct matmul_kernels *const kernels_of[CPU_ISA_COUNT] = {
    [CPU_ISA_GENERIC] = &matmul_kernels_generic,
#ifdef HAVE_X86_KERNELS
    [CPU_ISA_AVX2] = &matmul_kernels_avx2,
    [CPU_ISA_AVX512] = &matmul_kernels_avx512,
#endif
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* In equal pieces of at most `most`, rounded up to `unit`. */
static size_t piece(size_t whole, size_t most, size_t unit)
{
    size_t even = divide_up(whole, divide_up(whole, most));

    return divide_up(even, unit) * unit;
}

static size_t tile_count(const struct grid *grid)
{
    return grid->rows * grid->cols * grid->parts;
}

static void count_tiles(struct grid *grid, const struct tensor *out)
{
    grid->rows = divide_up(out->rows, grid->tile_rows);
    grid->cols = divide_up(out->cols, grid->tile_cols);
}

/* Cut k where it is long against what the parts' sums cost. */
static void cut_depth(struct grid *grid, const struct tensor *out, size_t depth)
{
    size_t sums = out->rows * out->cols * sizeof(float);
    size_t parts = divide_up(FEWEST_TILES, grid->rows * grid->cols);

    parts = least(parts, depth / LEAST_DEPTH);
    parts = least(parts, PARTS_BYTES / sums);
    if (parts < 2)
        return;
    grid->part_depth = piece(depth, divide_up(depth, parts), 32);
    grid->parts = divide_up(depth, grid->part_depth);
}

static void cut_tiles(struct grid *grid, const struct matmul_kernels *kernels,
                      const struct tensor *out)
{
    while (tile_count(grid) < FEWEST_TILES && grid->tile_rows >= 16 * kernels->rows) {
        grid->tile_rows =
            piece(grid->tile_rows, divide_up(grid->tile_rows, 2), kernels->rows);
        count_tiles(grid, out);
    }
    while (tile_count(grid) < FEWEST_TILES && grid->tile_cols >= 2 * kernels->cols) {
        grid->tile_cols =
            piece(grid->tile_cols, divide_up(grid->tile_cols, 2), kernels->cols);
        count_tiles(grid, out);
    }
}

static struct grid grid_of(const struct product *product)
{
    const struct matmul_kernels *kernels = product->tiles->kernels;
    const struct tensor *out = &product->op->out;
    size_t bytes = product->pairs ? 2 : 4;
    struct grid grid = { .parts = 1, .part_depth = product->depth };
    size_t wide;

    grid.block_depth = (product->a.deep ? DEEP_BYTES : FLAT_BYTES) / bytes;
    grid.block_depth = piece(product->depth, grid.block_depth, 32);
    wide = PANELS_BYTES / (grid.block_depth * bytes) / kernels->cols * kernels->cols;
    wide = wide < kernels->cols ? kernels->cols : least(wide, TILE_COLS);
    grid.tile_cols = piece(out->cols, wide, kernels->cols);
    grid.tile_rows = piece(out->rows, TILE_ROWS, kernels->rows);
    count_tiles(&grid, out);
    if (tile_count(&grid) < FEWEST_TILES)
        cut_depth(&grid, out, product->depth);
    cut_tiles(&grid, kernels, out);
    grid.block_depth = piece(grid.part_depth, grid.block_depth, 32);
    return grid;
}

/*
 * Pack a part in panels of `whole`, one after the other, the last one's width rounded up
 * to `unit`.  A side that is not deep is read some rows of k at a time, to stay in the
 * cache.
 */
static void pack_panels(const struct product *product, const struct matmul_side *side,
                        const struct matmul_part *part, size_t whole, size_t unit,
                        float *to)
{
    size_t pair = product->pairs ? 2 : 1;
    size_t step = side->deep ? part->depth : PACK_DEPTH;
    struct matmul_part one;

    for (size_t k = 0; k < part->depth; k += step)
        for (size_t i = 0; i < part->count; i += whole) {
            size_t count = least(whole, part->count - i);
            size_t width = divide_up(count, unit) * unit;
            float *panel = to + i * divide_up(part->depth, pair);

            one = (struct matmul_part) { part->first + i, count, part->k + k,
                                         least(step, part->depth - k) };
            product->tiles->kernels->pack(panel + k / pair * width, width, side, &one,
                                          product->pairs);
        }
}

/* How far apart the rows of a are that were copied: not a power of two, for the cache's
 * sake. */
static size_t copied_stride(const struct product *product, const struct matmul_part *part)
{
    return size_round(product->way == A_UNFOLDED && product->a.deep ? part->depth
                                                                    : part->count,
                      16) +
           16;
}

/* Room for the rows of a, `part` being the largest there is. */
static float *room_for_a(const struct product *product, const struct matmul_part *part,
                         struct pool_worker *worker)
{
    size_t rows =
        product->way == A_UNFOLDED && product->a.deep ? part->count : part->depth;

    if (product->way == A_IN_PLACE)
        return NULL;
    return pool_scratch(worker, rows * copied_stride(product, part) * sizeof(float));
}

/* The rows of a for a block: where they lie, or in the room. */
static void take_a(const struct product *product, const struct matmul_part *part,
                   float *room, struct matmul_block *block)
{
    const struct matmul_kernels *kernels = product->tiles->kernels;
    const struct matmul_side *a = &product->a;
    size_t bytes = product->pairs ? 2 : 4;

    block->a = room;
    block->a_stride = copied_stride(product, part);
    block->a_deep = a->deep;
    switch (product->way) {
    case A_IN_PLACE:
        block->a = (const char *)a->data + (part->first * (a->deep ? a->stride : 1) +
                                            part->k * (a->deep ? 1 : a->stride)) *
                                               bytes;
        block->a_stride = a->stride * bytes / 4;
        break;
    case A_UNFOLDED:
        kernels->unfold(room, block->a_stride, a, part);
        break;
    case A_PACKED:
        kernels->pack(room, block->a_stride, a, part, product->pairs);
        block->a_deep = false;
    }
}

/* The panels of b for a block; they stay if they are all the task wants of b. */
static const void *take_b(const struct product *product, const struct matmul_part *part,
                          struct pool_worker *worker)
{
    const struct matmul_kernels *kernels = product->tiles->kernels;
    struct panels *panels = &product->tiles->panels[pool_worker_number(worker)];
    uint64_t number = product->tiles->number;

    if (panels->number != number || panels->column != part->first ||
        panels->k != part->k) {
        pack_panels(product, &product->b, part, kernels->cols, kernels->lanes,
                    panels->data);
        panels->number = number;
        panels->column = part->first;
        panels->k = part->k;
    }
    return panels->data;
}

/* A tile's rows and columns, and its part of k. */
struct place {
    struct matmul_part a, b;
};

static struct place place_of(const struct product *product, size_t task)
{
    const struct grid *grid = &product->grid;
    const struct tensor *out = &product->op->out;
    size_t row = task % grid->rows * grid->tile_rows;
    size_t col = task / grid->rows % grid->cols * grid->tile_cols;
    size_t k = task / grid->rows / grid->cols * grid->part_depth;
    size_t depth = least(grid->part_depth, product->depth - k);

    return (struct place) {
        .a = { row, least(grid->tile_rows, out->rows - row), k, depth },
        .b = { col, least(grid->tile_cols, out->cols - col), k, depth },
    };
}

/* block->out = what it says of a tile, block after block of k. */
static void multiply_tile(const struct product *product, const struct place *place,
                          struct pool_worker *worker, struct matmul_block *block)
{
    struct place now = *place;
    size_t end = place->a.k + place->a.depth;
    float *room;

    now.a.depth = least(product->grid.block_depth, place->a.depth);
    room = room_for_a(product, &now.a, worker);
    for (; now.a.k < end; now.a.k += now.a.depth) {
        now.a.depth = least(now.a.depth, end - now.a.k);
        now.b.k = now.a.k;
        now.b.depth = now.a.depth;
        block->depth = now.a.depth;
        block->b = take_b(product, &now.b, worker);
        take_a(product, &now.a, room, block);
        product->tiles->kernels->multiply(block, product->pairs);
        block->add = true;
        block->bias = NULL;
    }
}

/* What the operation wants of the rows and columns of a tile. */
static struct matmul_block block_of(const struct product *product,
                                    const struct place *place)
{
    const struct op_matmul *op = product->op;
    struct tensor rows = tensor_rows(op->out, place->a.first, place->a.count);

    return (struct matmul_block) {
        .rows = place->a.count,
        .cols = place->b.count,
        .out = tensor_columns(rows, place->b.first, place->b.count),
        .bias = op->bias.data ? (const float *)op->bias.data + place->b.first : NULL,
        .alpha = op->alpha,
        .add = op->beta != 0,
    };
}

/* The same as a plain sum in fp32. */
static struct matmul_block sum_of(const struct matmul_block *block, float *sums,
                                  size_t stride)
{
    struct matmul_block sum = *block;

    sum.out = (struct tensor) { sums, FORMAT_FP32, block->rows, block->cols, stride };
    sum.bias = NULL;
    sum.alpha = 1;
    sum.add = false;
    return sum;
}

static void tile_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct product *product = context;
    const struct matmul_kernels *kernels = product->tiles->kernels;
    struct place place = place_of(product, task);
    struct matmul_block block = block_of(product, &place), sum;
    float *sums;

    if (block.out.format == FORMAT_FP32 || place.a.depth <= product->grid.block_depth) {
        multiply_tile(product, &place, worker, &block);
        return;
    }
    sums = pool_scratch(worker, block.rows * block.cols * sizeof(float));
    sum = sum_of(&block, sums, block.cols);
    multiply_tile(product, &place, worker, &sum);
    for (size_t i = 0; i < block.rows; i++)
        kernels->finish(&block, i, 0, block.cols, sums + i * block.cols);
}

static float *sums_of_part(const struct product *product, size_t part)
{
    const struct tensor *out = &product->op->out;

    return product->tiles->parts + part * out->rows * out->cols;
}

static void part_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct product *product = context;
    size_t cols = product->op->out.cols;
    struct place place = place_of(product, task);
    struct matmul_block block = block_of(product, &place);
    float *sums = sums_of_part(product, task / product->grid.rows / product->grid.cols);
    struct matmul_block sum =
        sum_of(&block, sums + place.a.first * cols + place.b.first, cols);

    multiply_tile(product, &place, worker, &sum);
}

/* The parts of some rows, added from the first to the last. */
static void add_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct product *product = context;
    const struct tensor *out = &product->op->out;
    size_t first = task * ADD_ROWS, cols = out->cols;
    struct place place = { .a = { .first = first,
                                  .count = least(ADD_ROWS, out->rows - first) },
                           .b = { .count = cols } };
    struct matmul_block block = block_of(product, &place);

    (void)worker;
    for (size_t i = 0; i < place.a.count; i++) {
        float *sum = sums_of_part(product, 0) + (first + i) * cols;

        for (size_t part = 1; part < product->grid.parts; part++) {
            const float *more = sums_of_part(product, part) + (first + i) * cols;

            for (size_t j = 0; j < cols; j++)
                sum[j] += more[j];
        }
        product->tiles->kernels->finish(&block, i, 0, cols, sum);
    }
}

static enum a_way way_of(const struct product *product)
{
    const struct matmul_side *a = &product->a;

    if (!product->pairs)
        return a->format == FORMAT_FP32 ? A_IN_PLACE : A_UNFOLDED;
    return a->deep && a->stride % 2 == 0 && product->depth % 2 == 0 ? A_IN_PLACE
                                                                    : A_PACKED;
}

void tiles_matmul(struct tiles *tiles, struct pool *pool, const struct op_matmul *op)
{
    struct product product = {
        .tiles = tiles,
        .op = op,
        .a = { op->a.data, op->a.format, op->a.stride, !op->trans_a },
        .b = { op->b.data, op->b.format, op->b.stride, op->trans_b },
        .depth = op->trans_a ? op->a.rows : op->a.cols,
        .pairs = tiles->kernels->bf16 && op->a.format == FORMAT_BF16,
    };

    product.way = way_of(&product);
    product.grid = grid_of(&product);
    tiles->number++;
    if (product.grid.parts == 1) {
        pool_run(pool, tile_count(&product.grid), tile_task, &product);
        return;
    }
    pool_run(pool, tile_count(&product.grid), part_task, &product);
    pool_run(pool, divide_up(op->out.rows, ADD_ROWS), add_task, &product);
}

/* Panels one after the other, then the parts, in one mapping: pages come as they are
 * touched. */
struct tiles *tiles_new(enum cpu_isa isa, size_t threads, struct error *err)
{
    struct tiles *tiles = calloc(1, sizeof(*tiles) + threads * sizeof(tiles->panels[0]));

    if (!tiles) {
        error_errno(err, "cannot get memory for products");
        return NULL;
    }
    tiles->kernels = kernels_of[isa];
    tiles->map_bytes = threads * PANELS_ROOM + PARTS_BYTES;
    tiles->map = mmap(NULL, tiles->map_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (tiles->map == MAP_FAILED) {
        error_errno(err, "cannot get %zu bytes of memory for products", tiles->map_bytes);
        free(tiles);
        return NULL;
    }
    for (size_t i = 0; i < threads; i++)
        tiles->panels[i].data = tiles->map + i * PANELS_ROOM;
    tiles->parts = (float *)(tiles->map + threads * PANELS_ROOM);
    return tiles;
}

void tiles_free(struct tiles *tiles)
{
    if (!tiles)
        return;
    munmap(tiles->map, tiles->map_bytes);
    free(tiles);
}

size_t tiles_bytes(const struct tiles *tiles)
{
    return tiles->map_bytes;
}
