/*
 * kernels/cpu/cpu_matmul_tiles.c - divides a matmul into tiles, packs, multiplies, and
 * sums the parts.
 *
 * A tile's columns of b are packed for the L2 cache and stay there while the same thread
 * processes the tiles below it. a is read in place unless its elements have to be
 * converted or interleaved in pairs. If there would be few tiles, k is split into parts,
 * whose sums are added in order.
 */
#include "config.h"

#include "kernels/cpu/cpu_matmul_tiles.h"

#include "base/size.h"
#include "kernels/cpu/cpu_matmul.h"
#include "kernels/cpu/cpu_matmul_grid.h"
#include "kernels/cpu/cpu_matmul_kernel.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PANELS_BYTES = 512 << 10, /* of b, to stay in the L2 cache (1 MiB on Zen 4) */
    PANELS_ROOM = 2 << 20, /* per thread: at least one panel, however deep a block is */
    DEEP_BYTES = 4096,     /* of a row of a in a block of k, where a is deep, ... */
    FLAT_BYTES = 2048,     /* ... and where a cache line holds only one k */
    TILE_ROWS = 256,       /* pack a panel of b only for at least this many rows of a */
    FEW_ROWS = 512,        /* this few rows form one tile: then b is packed only once */
    TILE_COLS = 768,
    ONEDNN_ROWS = 256,
    ONEDNN_COLS = 4096, /* oneDNN is fastest if a tile has whole rows */
    ONEDNN_UNIT = 64,
    ADD_ROWS = 16,
};

/* The panels of b that a thread packed last. */
struct panels {
    void *data;      /* PANELS_ROOM */
    uint64_t number; /* identifies the matmul */
    size_t column, k;
};

struct tiles {
    const struct matmul_kernels *kernels;
    struct onednn *onednn; /* or NULL */
    uint64_t number;
    char *map;
    size_t map_bytes;
    float *parts; /* GRID_PARTS_BYTES */
    struct panels panels[];
};

/* How the inner loop reads a's side. */
enum a_way { A_IN_PLACE, A_PACKED, A_UNFOLDED };

struct product {
    struct tiles *tiles;
    const struct op_matmul *op;
    uint64_t number; /* identifies the matmul */
    struct matmul_side a, b;
    bool pairs;
    struct grid_request wish;
    struct grid grid;
    size_t block_depth; /* the block multiplied at once */
    /* oneDNN's plans, for tiles whose rows, columns and depth are or are not those of the
     * last one. */
    const struct onednn_plan *plans[2][2][2];
    atomic_bool failed;
};

static const struct matmul_kernels *const kernels_of[CPU_ISA_COUNT] = {
    [CPU_ISA_GENERIC] = &matmul_kernels_generic,
#ifdef HAVE_X86_KERNELS
    [CPU_ISA_AVX2] = &matmul_kernels_avx2,
    [CPU_ISA_AVX512] = &matmul_kernels_avx512,
#endif
};

/* Return the address where a part of a side begins. */
static const void *side_at(const struct matmul_side *side, size_t outer, size_t k)
{
    size_t at = side->deep ? outer * side->stride + k : k * side->stride + outer;

    return (const char *)side->data + at * format_info(side->format)->bytes;
}

/* Pairs are read in place if the last one is complete: the element after an odd end
 * belongs to another row and may not be finite. */
static enum a_way way_of(const struct product *product, size_t depth)
{
    if (!product->pairs)
        return product->a.format == FORMAT_FP32 ? A_IN_PLACE : A_UNFOLDED;
    return product->a.deep && depth % 2 == 0 ? A_IN_PLACE : A_PACKED;
}

/* Return the distance of copied rows of a: not a power of two, to avoid
 * cache conflicts. */
static size_t copied_stride(enum a_way way, const struct matmul_side *a,
                            const struct matmul_part *part)
{
    return size_round(way == A_UNFOLDED && a->deep ? part->depth : part->count, 16) + 16;
}

/* Return the room for the rows of a in blocks of depth, `part` being the largest. */
static float *room_for_a(const struct product *product, const struct matmul_part *part,
                         size_t depth, struct pool_worker *worker)
{
    enum a_way way = way_of(product, depth);
    size_t rows = way == A_UNFOLDED && product->a.deep ? part->count : part->depth;

    if (way == A_IN_PLACE)
        return NULL;
    return pool_scratch(worker,
                        rows * copied_stride(way, &product->a, part) * sizeof(float));
}

/* Return the rows of a for a block: in place, or copied into the room. */
static void take_a(const struct product *product, const struct matmul_part *part,
                   float *room, struct matmul_block *block)
{
    const struct matmul_kernels *kernels = product->tiles->kernels;
    const struct matmul_side *a = &product->a;
    enum a_way way = way_of(product, part->depth);
    size_t stride = copied_stride(way, a, part);

    block->a = room;
    block->a_stride = stride * sizeof(float);
    block->a_deep = a->deep;
    switch (way) {
    case A_IN_PLACE:
        block->a = side_at(a, part->first, part->k);
        block->a_stride = a->stride * (product->pairs ? 2 : 4);
        break;
    case A_UNFOLDED:
        kernels->unfold(room, stride, a, part);
        break;
    case A_PACKED:
        kernels->pack(room, stride, a, part, product->pairs);
        block->a_deep = false;
    }
}

/* Return whether the panels of b for a block are those that the thread packed last; if
 * not, record them as packed. */
static bool has_b(const struct product *product, const struct matmul_part *part,
                  struct panels *panels)
{
    uint64_t number = product->number;

    if (panels->number == number && panels->column == part->first && panels->k == part->k)
        return true;
    panels->number = number;
    panels->column = part->first;
    panels->k = part->k;
    return false;
}

/* Describe the memory of a part of a side, for prefetching. */
static struct matmul_prefetch ahead_of(const struct matmul_side *side,
                                       const struct matmul_part *part)
{
    size_t bytes = side->format == FORMAT_FP32 ? 4 : 2;

    return (struct matmul_prefetch) {
        .data = part->count ? side_at(side, part->first, part->k) : NULL,
        .rows = side->deep ? part->count : part->depth,
        .bytes = (side->deep ? part->depth : part->count) * bytes,
        .stride = side->stride * bytes,
    };
}

/* Multiply a block, panel after panel of b: the next panel is fetched while one is
 * multiplied. */
static void multiply_panels(const struct product *product, const struct matmul_part *part,
                            void *panels, const struct matmul_block *whole)
{
    const struct matmul_kernels *kernels = product->tiles->kernels;
    size_t units = product->pairs ? size_divide_up(part->depth, 2) : part->depth;

    for (size_t i = 0; i < part->count; i += kernels->cols) {
        struct matmul_block block = *whole;
        struct matmul_part one = *part, next = *part;
        float *panel = (float *)panels + i * units;

        one.first += i;
        one.count = block.cols = size_min(kernels->cols, part->count - i);
        next.first = one.first + one.count;
        next.count = size_min(kernels->cols, part->count - i - one.count);
        kernels->pack(panel, size_divide_up(one.count, kernels->lanes) * kernels->lanes,
                      &product->b, &one, product->pairs);
        block.b = panel;
        block.out = tensor_columns(whole->out, i, one.count);
        block.bias = whole->bias ? whole->bias + i : NULL;
        block.ahead = ahead_of(&product->b, &next);
        kernels->multiply(&block, product->pairs);
    }
}

/* Compute block->out for a tile, block after block of k. The panels of b stay packed if
 * they cover all of b that the task needs. */
static void multiply_own(const struct product *product, const struct grid_range *place,
                         struct pool_worker *worker, struct matmul_block *block)
{
    const struct matmul_kernels *kernels = product->tiles->kernels;
    struct panels *panels = &product->tiles->panels[pool_worker_number(worker)];
    size_t depth = size_min(product->block_depth, place->depth);
    struct matmul_part a = { place->row, place->rows, place->k, depth };
    struct matmul_part b = { place->col, place->cols, place->k, depth };
    size_t end = place->k + place->depth;
    float *room = room_for_a(product, &a, place->depth, worker);

    assert((b.count + kernels->lanes) * (depth + 1) * sizeof(float) <= PANELS_ROOM);
    for (; a.k < end; a.k += depth) {
        a.depth = b.depth = block->depth = size_min(depth, end - a.k);
        b.k = a.k;
        block->b = panels->data;
        take_a(product, &a, room, block);
        if (has_b(product, &b, panels))
            kernels->multiply(block, product->pairs);
        else
            multiply_panels(product, &b, panels->data, block);
        block->add = true;
        block->bias = NULL;
    }
}

/* Return b's part of a tile in the form oneDNN reads: in place, or rounded if our own
 * kernels use panels. */
static const void *onednn_b(const struct product *product, const struct grid_range *place,
                            struct pool_worker *worker)
{
    struct panels *panels = &product->tiles->panels[pool_worker_number(worker)];
    const struct matmul_part part = { place->col, place->cols, place->k, place->depth };

    if (product->b.round == FORMAT_FP32)
        return side_at(&product->b, place->col, place->k);
    if (!has_b(product, &part, panels))
        product->tiles->kernels->round(panels->data, &product->b, &part);
    return panels->data;
}

static void multiply_tile(struct product *product, const struct grid_range *place,
                          struct pool_worker *worker, struct matmul_block *block)
{
    const struct grid *grid = &product->grid;
    const struct onednn_plan *plan =
        product->plans[place->rows < grid->tile_rows][place->cols < grid->tile_cols]
                      [place->depth < grid->part_depth];

    if (!plan)
        multiply_own(product, place, worker, block);
    else if (!onednn_multiply(product->tiles->onednn, plan,
                              side_at(&product->a, place->row, place->k),
                              onednn_b(product, place, worker), block->out.data, worker))
        product->failed = true;
}

/* Fill in the operands of the rows and columns of a tile. */
static struct matmul_block block_of(const struct product *product,
                                    const struct grid_range *place)
{
    const struct op_matmul *op = product->op;
    struct tensor rows = tensor_rows(op->out, place->row, place->rows);

    return (struct matmul_block) {
        .rows = place->rows,
        .cols = place->cols,
        .out = tensor_columns(rows, place->col, place->cols),
        .bias = op->bias.data ? (const float *)op->bias.data + place->col : NULL,
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

static void compute_tile(struct product *product, size_t task, struct pool_worker *worker)
{
    const struct matmul_kernels *kernels = product->tiles->kernels;
    struct grid_range place = grid_range(&product->grid, &product->wish, task);
    struct matmul_block block = block_of(product, &place), sum;
    float *sums;

    if (block.out.format == FORMAT_FP32 || place.depth <= product->block_depth) {
        multiply_tile(product, &place, worker, &block);
        return;
    }
    sums = pool_scratch(worker, block.rows * block.cols * sizeof(float));
    sum = sum_of(&block, sums, block.cols);
    multiply_tile(product, &place, worker, &sum);
    for (size_t i = 0; i < block.rows; i++)
        kernels->finish(&block, i, 0, block.cols, sums + i * block.cols);
}

static void tile_task(void *context, size_t task, struct pool_worker *worker)
{
    compute_tile(context, task, worker);
}

static float *sums_of_part(const struct product *product, size_t part)
{
    return product->tiles->parts + part * product->wish.rows * product->wish.cols;
}

static void part_task(void *context, size_t task, struct pool_worker *worker)
{
    struct product *product = context;
    size_t cols = product->wish.cols;
    struct grid_range place = grid_range(&product->grid, &product->wish, task);
    struct matmul_block block = block_of(product, &place);
    float *sums = sums_of_part(product, place.part);
    struct matmul_block sum = sum_of(&block, sums + place.row * cols + place.col, cols);

    multiply_tile(product, &place, worker, &sum);
}

/* Add the parts of some rows, from the first to the last. */
static void add_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct product *product = context;
    size_t first = task * ADD_ROWS, cols = product->wish.cols;
    struct grid_range place = { .row = first,
                                .rows = size_min(ADD_ROWS, product->wish.rows - first),
                                .cols = cols };
    struct matmul_block block = block_of(product, &place);

    (void)worker;
    for (size_t i = 0; i < place.rows; i++) {
        float *sum = sums_of_part(product, 0) + (first + i) * cols;

        for (size_t part = 1; part < product->grid.parts; part++) {
            const float *more = sums_of_part(product, part) + (first + i) * cols;

            for (size_t j = 0; j < cols; j++)
                sum[j] += more[j];
        }
        product->tiles->kernels->finish(&block, i, 0, cols, sum);
    }
}

/* Return the most elements of k of a block for our own kernels. */
static size_t own_depth(const struct product *product)
{
    return (product->a.deep ? DEEP_BYTES : FLAT_BYTES) / (product->pairs ? 2 : 4);
}

static void wish_for_own(struct product *product)
{
    const struct matmul_kernels *kernels = product->tiles->kernels;
    size_t bytes = product->pairs ? 2 : 4;
    size_t depth = grid_piece(product->wish.depth, own_depth(product), 32);
    size_t wide = PANELS_BYTES / (depth * bytes) / kernels->cols * kernels->cols;

    product->wish.row_unit = kernels->rows;
    product->wish.col_unit = kernels->cols;
    product->wish.tile_rows = product->wish.rows <= FEW_ROWS ? FEW_ROWS : TILE_ROWS;
    product->wish.tile_cols =
        wide < kernels->cols ? kernels->cols : size_min(wide, TILE_COLS);
}

/* Compute tiles with our own kernels. */
static void cut_for_own(struct product *product)
{
    wish_for_own(product);
    product->grid = grid_of(&product->wish);
    product->block_depth = grid_piece(product->grid.part_depth, own_depth(product), 32);
}

/* Return the length of the last piece of a whole, or of the others (if there are any). */
static size_t length(size_t whole, size_t piece, bool last)
{
    return last && whole % piece ? whole % piece : size_min(whole, piece);
}

static bool find_plans(struct product *product)
{
    const struct op_matmul *op = product->op;
    const struct grid *grid = &product->grid;
    bool parts = grid->parts > 1;

    for (size_t i = 0; i < 8; i++) {
        bool end_row = i & 4, end_col = i & 2, end_depth = i & 1;
        struct onednn_shape shape = {
            .rows = length(op->out.rows, grid->tile_rows, end_row),
            .cols = length(op->out.cols, grid->tile_cols, end_col),
            .depth = length(product->wish.depth, grid->part_depth, end_depth),
            .a_stride = op->a.stride,
            .b_stride = op->b.stride,
            .out_stride = parts ? op->out.cols : op->out.stride,
            .in = op->a.format,
            .out = parts ? FORMAT_FP32 : op->out.format,
            .trans_a = op->trans_a,
            .trans_b = op->trans_b,
            .add = op->beta != 0 && !parts,
        };

        if (product->b.round != FORMAT_FP32)
            shape.b_stride = op->trans_b ? shape.depth : shape.cols;
        product->plans[end_row][end_col][end_depth] =
            onednn_find(product->tiles->onednn, &shape);
        if (!product->plans[end_row][end_col][end_depth])
            return false;
    }
    return true;
}

/* Return the columns of a tile: limited if b is rounded, so that it fits. */
static size_t onednn_cols(const struct product *product)
{
    size_t most = PANELS_ROOM / (product->wish.depth * sizeof(uint16_t));

    if (product->b.round == FORMAT_FP32 || most >= ONEDNN_COLS)
        return ONEDNN_COLS;
    return most < ONEDNN_UNIT ? ONEDNN_UNIT : most / ONEDNN_UNIT * ONEDNN_UNIT;
}

static bool has_room(const struct product *product)
{
    size_t numbers = product->grid.tile_cols * product->grid.part_depth;

    return product->b.round == FORMAT_FP32 || numbers * sizeof(uint16_t) <= PANELS_ROOM;
}

/* Compute tiles with oneDNN; false if it is not used. */
static bool cut_for_onednn(struct product *product)
{
    const struct op_matmul *op = product->op;

    if (!product->tiles->onednn || op->a.format == FORMAT_FP16 || op->alpha != 1 ||
        op->bias.data)
        return false;
    product->wish.row_unit = 1;
    product->wish.col_unit = ONEDNN_UNIT;
    product->wish.tile_rows = ONEDNN_ROWS;
    product->wish.tile_cols = onednn_cols(product);
    product->grid = grid_of(&product->wish);
    product->block_depth = product->grid.part_depth;
    if (has_room(product) && find_plans(product))
        return true;
    memset(product->plans, 0, sizeof(product->plans));
    return false;
}

static struct product product_of(struct tiles *tiles, const struct op_matmul *op)
{
    return (struct product) {
        .tiles = tiles,
        .op = op,
        .number = tiles->number,
        .a = { op->a.data, op->a.format, op->a.stride, !op->trans_a },
        .b = { op->b.data, op->b.format, op->b.stride, op->trans_b,
               op->b.format == op->a.format ? FORMAT_FP32 : op->a.format },
        .pairs = tiles->kernels->bf16 && op->a.format == FORMAT_BF16,
        .wish = { .rows = op->out.rows,
                  .cols = op->out.cols,
                  .depth = op->trans_a ? op->a.rows : op->a.cols },
    };
}

bool tiles_matmul(struct tiles *tiles, struct pool *pool, const struct op_matmul *op)
{
    struct product product;

    tiles->number++;
    product = product_of(tiles, op);
    if (!cut_for_onednn(&product))
        cut_for_own(&product);
    if (product.grid.parts == 1) {
        pool_run(pool, grid_tasks(&product.grid), tile_task, &product);
    } else {
        pool_run(pool, grid_tasks(&product.grid), part_task, &product);
        pool_run(pool, size_divide_up(op->out.rows, ADD_ROWS), add_task, &product);
    }
    return !product.failed;
}

/* ---- Groups of rows ---- */

/* The tasks of all groups, one group after the other. */
struct group_tasks {
    struct tiles *tiles;
    const struct op_grouped_matmul *op;
    bool others;                   /* more than one group has rows */
    size_t first[EXPERTS_MAX + 1]; /* task of each group */
};

static struct product group_product(const struct group_tasks *all, size_t group,
                                    const struct op_matmul *matmul)
{
    struct product product = product_of(all->tiles, matmul);

    product.number += group;
    wish_for_own(&product);
    product.grid = grid_of_group(&product.wish, all->others);
    product.block_depth = grid_piece(product.wish.depth, own_depth(&product), 32);
    return product;
}

static void group_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct group_tasks *all = context;
    size_t low = 0, high = all->op->groups;
    struct op_matmul matmul;
    struct product product;

    while (high - low > 1) { /* the last group that begins at or before the task */
        size_t middle = (low + high) / 2;

        if (all->first[middle] <= task)
            low = middle;
        else
            high = middle;
    }
    matmul = matmul_of_group(all->op, low);
    product = group_product(all, low, &matmul);
    compute_tile(&product, task - all->first[low], worker);
}

void tiles_grouped(struct tiles *tiles, struct pool *pool,
                   const struct op_grouped_matmul *op)
{
    struct group_tasks all = { .tiles = tiles, .op = op };
    size_t rows = op->a.rows;

    assert(op->groups <= EXPERTS_MAX);
    for (size_t g = 0; g < op->groups; g++) {
        size_t own = (size_t)(op->starts[g + 1] - op->starts[g]);

        all.others = all.others || (own > 0 && own < rows);
    }
    tiles->number++;
    for (size_t g = 0; g < op->groups; g++) {
        struct op_matmul matmul = matmul_of_group(op, g);
        struct product product;

        all.first[g + 1] = all.first[g];
        if (matmul.a.rows == 0)
            continue;
        product = group_product(&all, g, &matmul);
        all.first[g + 1] += grid_tasks(&product.grid);
    }
    pool_run(pool, all.first[op->groups], group_task, &all);
    tiles->number += op->groups;
}

/* The panels one after the other, then the parts, in one mapping: pages are allocated
 * when first touched. */
struct tiles *tiles_new(enum cpu_isa isa, size_t threads, struct onednn *onednn,
                        struct error *err)
{
    struct tiles *tiles = calloc(1, sizeof(*tiles) + threads * sizeof(tiles->panels[0]));

    if (!tiles) {
        error_errno(err, "cannot allocate memory for matmuls");
        return NULL;
    }
    tiles->kernels = kernels_of[isa];
    tiles->onednn = onednn;
    tiles->map_bytes = threads * PANELS_ROOM + GRID_PARTS_BYTES;
    tiles->map = mmap(NULL, tiles->map_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (tiles->map == MAP_FAILED) {
        error_errno(err, "cannot allocate %zu bytes for matmuls", tiles->map_bytes);
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
