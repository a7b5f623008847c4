/*
 * tests/emulation/emulation_hopper.cc - what only capability 9.0 has: matmuls of a
 * warpgroup, gates (mbarriers), and the order of writes to shared memory before matmuls.
 *
 * A matmul is computed when it starts, one warp's 16 rows at a time, but its sums are NaN
 * until a wait names its group. Then its operands must still be what they were: a tile
 * that was overwritten too early is a finding.
 */
#include "tests/emulation/emulation_block.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

enum {
    SUMS_MAX = 8,     /* different sums in flight, of one warp */
    STARTED_MAX = 64, /* matmuls in flight, of one warp */
    COLUMNS_MAX = 256,
    DEPTH = 16,
    ROWS = 16,     /* of a warp */
    WINDOW = 16,   /* address of the block's shared memory in its window */
    NAMED_MAX = 16 /* barriers of some warps */
};

struct sums {
    float *d[LANES];
    int columns, group;
    float value[ROWS][COLUMNS_MAX];
};

struct started {
    struct emulation_matmul matmul;
    const uint32_t *left[LANES];
    uint64_t operands;
    int group;
};

struct warp_matmuls {
    struct sums sums[SUMS_MAX];
    struct started started[STARTED_MAX];
    int sums_count, started_count;
};

struct gate {
    uint16_t left, arrivals;
    uint32_t phase : 24, magic : 8;
};
static_assert(sizeof(struct gate) == sizeof(uint64_t), "a gate has 8 bytes");
enum { GATE_MAGIC = 0x5a };

static struct block *const block = &emulation_block;
static struct warp_matmuls warps[THREADS_MAX / LANES];
static uint16_t writers[SHARED_MOST / 16]; /* thread + 1 of an unpublished write */

void hopper_begin_block(void)
{
    for (int i = 0; i < THREADS_MAX / LANES; i++)
        warps[i].sums_count = warps[i].started_count = 0;
    memset(writers, 0, sizeof(writers));
}

uint32_t emulation_shared_address(const void *at)
{
    return (uint32_t)((const unsigned char *)at - block->shared) + WINDOW;
}

/* ---- Writes that matmuls read ---- */

void hopper_note_write(const block_thread *t, const void *at, size_t bytes)
{
    size_t first = (size_t)((const unsigned char *)at - block->shared) / 16;

    if (emulation_capability() < 90)
        return;
    for (size_t i = 0; i < bytes / 16; i++)
        writers[first + i] = (uint16_t)(t->index + 1);
}

void emulation_publish(void)
{
    uint16_t self = (uint16_t)(block_now()->index + 1);

    for (size_t i = 0; i < block->launch->shared / 16; i++)
        if (writers[i] == self)
            writers[i] = 0;
}

/* ---- Gates ---- */

static struct gate *gate_at(uint64_t *at)
{
    struct gate *gate = (struct gate *)at;

    if (gate->magic != GATE_MAGIC)
        emulation_fail("a gate at byte %td of shared memory is not initialized",
                       (unsigned char *)at - block->shared);
    return gate;
}

void emulation_gate_init(uint64_t *at, int arrivals)
{
    struct gate gate = { (uint16_t)arrivals, (uint16_t)arrivals, 0, GATE_MAGIC };

    memcpy(at, &gate, sizeof(gate));
}

void emulation_gate_arrive(uint64_t *at)
{
    struct gate *gate = gate_at(at);

    if (--gate->left == 0) {
        gate->left = gate->arrivals;
        gate->phase++;
    }
}

bool hopper_gate_open(const block_thread *t)
{
    return (int)(((const struct gate *)t->gate)->phase & 1) != t->parity;
}

void emulation_gate_wait(uint64_t *at, int parity)
{
    block_thread *self = block_now();

    gate_at(at);
    self->gate = at;
    self->parity = parity;
    if (hopper_gate_open(self))
        return;
    self->state = THREAD_AT_GATE;
    block_wait();
}

/* ---- Matmuls ---- */

/* Return the element at row or column `row` and depth k of an operand. */
static uint16_t element_at(uint64_t operand, bool turned, int row, int k)
{
    uint32_t start = (uint32_t)(operand & 0x3fff) << 4;
    uint32_t leading = (uint32_t)(operand >> 16 & 0x3fff) << 4;
    uint32_t stride = (uint32_t)(operand >> 32 & 0x3fff) << 4;
    uint32_t at =
        turned ? start + row / 64 * leading + k / 8 * stride + k % 8 * 128 + row % 64 * 2
               : start + row / 8 * stride + row % 8 * 128 + k * 2;
    uint16_t bits;

    if (operand >> 62 != 1)
        emulation_fail("hopper_matmul: an operand without the swizzle of 128 bytes");
    at ^= (at >> 7 & 7) << 4;
    if (at < WINDOW || at + 2 > WINDOW + block->launch->shared)
        emulation_fail("hopper_matmul reads byte %d of %zu of shared memory",
                       (int)at - WINDOW, block->launch->shared);
    if (writers[(at - WINDOW) / 16])
        emulation_fail("hopper_matmul reads byte %d of shared memory, which thread %d "
                       "has not published",
                       (int)at - WINDOW, writers[(at - WINDOW) / 16] - 1);
    memcpy(&bits, block->shared + at - WINDOW, sizeof(bits));
    return bits;
}

struct operands {
    uint16_t a[ROWS][DEPTH], b[DEPTH][COLUMNS_MAX];
};

static void gather(struct operands *x, const struct started *op, int warp)
{
    const struct emulation_matmul *m = &op->matmul;

    memset(x, 0, sizeof(*x));
    for (int k = 0; k < DEPTH; k++)
        for (int n = 0; n < m->columns; n++)
            x->b[k][n] = element_at(m->b, m->b_turned, n, k);
    for (int row = 0; row < ROWS && !m->left; row++)
        for (int k = 0; k < DEPTH; k++)
            x->a[row][k] = element_at(m->a, m->a_turned, warp % 4 * ROWS + row, k);
    for (int lane = 0; lane < LANES && m->left; lane++)
        for (int i = 0; i < 8; i++)
            x->a[lane / 4 + 8 * (i >> 1 & 1)][lane % 4 * 2 + (i & 1) + 8 * (i >> 2)] =
                (uint16_t)(op->left[lane][i >> 1] >> 16 * (i & 1));
}

/* FNV-1a over 64 bits at a time */
static uint64_t digest(const struct operands *x)
{
    const unsigned char *at = (const unsigned char *)x;
    uint64_t hash = 0xcbf29ce484222325u, word;

    for (size_t i = 0; i < sizeof(*x); i += sizeof(word)) {
        memcpy(&word, at + i, sizeof(word));
        hash = (hash ^ word) * 0x100000001b3u;
    }
    return hash;
}

static double value_of(bool fp16, uint16_t bits)
{
    return fp16 ? (double)__half2float(__ushort_as_half(bits))
                : (double)__bfloat162float(__ushort_as_bfloat16(bits));
}

/* Return the sums that a matmul adds to: those in flight, or new ones. */
static struct sums *sums_of(struct warp_matmuls *all, int warp)
{
    const struct emulation_matmul *m = block_offer(warp, 0)->matmul;
    struct sums *sums = NULL;

    for (int i = 0; i < all->sums_count; i++)
        if (all->sums[i].d[0] == m->d)
            sums = &all->sums[i];
    if (sums)
        return sums;
    if (all->sums_count == SUMS_MAX)
        emulation_fail("more than %d sums of matmuls in flight", SUMS_MAX);
    sums = &all->sums[all->sums_count++];
    sums->columns = m->columns;
    for (int lane = 0; lane < LANES; lane++) {
        float *d = block_offer(warp, lane)->matmul->d;

        sums->d[lane] = d;
        for (int i = 0; i < m->columns / 2; i++)
            sums->value[lane / 4 + i % 4 / 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2] =
                d[i];
        block_unwritten(d, (size_t)m->columns / 2 * sizeof(float));
    }
    return sums;
}

static void multiply_add(struct sums *sums, const struct operands *x, bool fp16,
                         bool more)
{
    double b[DEPTH][COLUMNS_MAX];

    for (int k = 0; k < DEPTH; k++)
        for (int n = 0; n < sums->columns; n++)
            b[k][n] = value_of(fp16, x->b[k][n]);
    for (int row = 0; row < ROWS; row++) {
        double sum[COLUMNS_MAX];

        for (int n = 0; n < sums->columns; n++)
            sum[n] = more ? (double)sums->value[row][n] : 0;
        for (int k = 0; k < DEPTH; k++) {
            double a = value_of(fp16, x->a[row][k]);

            for (int n = 0; n < sums->columns; n++)
                sum[n] += a * b[k][n];
        }
        for (int n = 0; n < sums->columns; n++)
            sums->value[row][n] = (float)sum[n];
    }
}

void hopper_start(int warp)
{
    struct warp_matmuls *all = &warps[warp];
    struct started *op = &all->started[all->started_count];
    static struct operands x;
    struct sums *sums;

    if (all->started_count == STARTED_MAX)
        emulation_fail("more than %d matmuls in flight", STARTED_MAX);
    op->matmul = *block_offer(warp, 0)->matmul;
    op->group = block->threads[warp * LANES].matmul_group;
    for (int lane = 0; lane < LANES; lane++) {
        op->left[lane] = block_offer(warp, lane)->matmul->left;
        if (!block->threads[warp * LANES + lane].begun)
            emulation_fail("hopper_matmul without hopper_begin after the last wait");
    }
    all->started_count++;
    gather(&x, op, warp);
    op->operands = digest(&x);
    sums = sums_of(all, warp);
    sums->group = op->group;
    multiply_add(sums, &x, op->matmul.fp16, op->matmul.more);
}

static void deliver(const struct sums *sums)
{
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < sums->columns / 2; i++)
            sums->d[lane][i] =
                sums->value[lane / 4 + i % 4 / 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2];
}

void hopper_finish(int warp)
{
    struct warp_matmuls *all = &warps[warp];
    int before =
        block->threads[warp * LANES].matmul_group - (int)block_offer(warp, 0)->value;
    static struct operands x;
    int kept = 0;

    for (int i = 0; i < all->started_count; i++) {
        if (all->started[i].group >= before) {
            all->started[kept++] = all->started[i];
            continue;
        }
        gather(&x, &all->started[i], warp);
        if (digest(&x) != all->started[i].operands)
            emulation_fail("an operand of hopper_matmul has changed before the wait");
    }
    all->started_count = kept;
    kept = 0;
    for (int i = 0; i < all->sums_count; i++)
        if (all->sums[i].group < before)
            deliver(&all->sums[i]);
        else
            all->sums[kept++] = all->sums[i];
    all->sums_count = kept;
}

void emulation_matmul_start(const struct emulation_matmul *matmul)
{
    emulation_offer offer = {};

    offer.kind = MEET_MATMUL;
    offer.mask = 0xffffffffu;
    offer.matmul = matmul;
    emulation_meet(&offer);
}

void emulation_matmuls_begin(void)
{
    block_now()->begun = true;
}

void emulation_matmuls_close(void)
{
    block_now()->matmul_group++;
}

void emulation_matmuls_wait(int groups)
{
    emulation_offer offer = {};

    offer.kind = MEET_MATMULS_WAIT;
    offer.mask = 0xffffffffu;
    offer.value = (uint64_t)groups;
    emulation_meet(&offer);
    block_now()->begun = false;
}
