/* tests/emulation/emulation_warp.cc - warp collectives: shuffles, votes, fragments. */
#include "tests/emulation/emulation_block.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/emulation/emulation_races.h"

static struct block *const block = &emulation_block;

static const char *const names[] = {
    "nothing",          "__syncwarp",      "__shfl_sync",   "__shfl_up_sync",
    "__shfl_down_sync", "__shfl_xor_sync", "a vote",        "__match_any_sync",
    "mma_fp16",         "mma_bf16",        "load_matrices", "load_matrices_transposed",
    "hopper_matmul",    "hopper_wait",
};

/* All lanes of the mask have arrived: check that they are in the same collective. */
static void check_agreement(const emulation_offer *mine, int warp)
{
    for (int lane = 0; lane < LANES; lane++) {
        const emulation_offer *other =
            mine->mask >> lane & 1 ? block_offer(warp, lane) : mine;

        if (other->kind != mine->kind || other->mask != mine->mask ||
            other->location.line != mine->location.line ||
            other->location.file != mine->location.file)
            emulation_fail(
                "%s with mask %08x (line %d), but lane %d is at %s with mask %08x "
                "(line %d)",
                names[mine->kind], mine->mask, mine->location.line, lane,
                names[other->kind], other->mask, other->location.line);
    }
}

/* Return the lane that `self` reads; itself if that is outside its part of the warp. */
static int source_of(const emulation_offer *o, int self)
{
    int first = self / o->width * o->width, source = self;

    switch (o->kind) {
    case MEET_SHUFFLE:
        return first + (int)((unsigned)o->lane % (unsigned)o->width);
    case MEET_SHUFFLE_UP:
        source = self - o->lane;
        return source < first ? self : source;
    case MEET_SHUFFLE_DOWN:
        source = self + o->lane;
        break;
    default:
        source = self ^ o->lane;
        break;
    }
    return source >= first + o->width ? self : source;
}

static void exchange(int warp, unsigned mask)
{
    for (int lane = 0; lane < LANES; lane++) {
        emulation_offer *o = mask >> lane & 1 ? block_offer(warp, lane) : NULL;
        int source;

        if (!o)
            continue;
        if (o->width < 1 || o->width > LANES || (o->width & (o->width - 1)))
            emulation_fail("%s with width %d", names[o->kind], o->width);
        source = source_of(o, lane);
        if (source < 0 || source >= LANES || !(mask >> source & 1))
            emulation_fail("%s with mask %08x: lane %d reads lane %d, which is not in it",
                           names[o->kind], mask, lane, source);
        o->result = block_offer(warp, source)->value;
    }
}

static void vote(int warp, unsigned mask)
{
    uint64_t result = 0;

    for (int lane = 0; lane < LANES; lane++)
        if ((mask >> lane & 1) && block_offer(warp, lane)->value)
            result |= (uint64_t)1 << lane;
    for (int lane = 0; lane < LANES; lane++)
        if (mask >> lane & 1)
            block_offer(warp, lane)->result = result;
}

static void match(int warp, unsigned mask)
{
    for (int lane = 0; lane < LANES; lane++)
        for (int other = 0; (mask >> lane & 1) && other < LANES; other++)
            if ((mask >> other & 1) &&
                block_offer(warp, other)->value == block_offer(warp, lane)->value)
                block_offer(warp, lane)->result |= (uint64_t)1 << other;
}

static void require_capability(emulation_rendezvous kind, int capability)
{
    if (emulation_capability() < capability)
        emulation_fail("%s requires compute capability %d.%d", names[kind],
                       capability / 10, capability % 10);
}

static double element_of(emulation_rendezvous kind, uint32_t pair, int which)
{
    unsigned short bits = (unsigned short)(pair >> 16 * which);

    return kind == MEET_MMA_FP16 ? (double)__half2float(__ushort_as_half(bits))
                                 : (double)__bfloat162float(__ushort_as_bfloat16(bits));
}

/* Two columns of b or d, summed side by side. */
typedef double pair __attribute__((vector_size(2 * sizeof(double))));

/* PTX ISA 9, "Matrix fragments for mma.m16n8k16": lane = 4 g + t. */
static void multiply(int warp, emulation_rendezvous kind)
{
    double a[16][16];
    pair b[16][4];

    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 8; i++) {
            const emulation_offer *o = block_offer(warp, lane);
            int g = lane / 4, t = lane % 4, half = i & 1;

            a[g + 8 * (i >> 1 & 1)][2 * t + half + 8 * (i >> 2)] =
                element_of(kind, o->a[i >> 1], half);
            if (i < 4)
                b[2 * t + half + 8 * (i >> 1)][g / 2][g % 2] =
                    element_of(kind, o->b[i >> 1], half);
        }
    for (int row = 0; row < 16; row++) {
        const int first = row % 8 * 4, i = row / 8 * 2;
        float *d[4];
        pair sums[4];

        for (int t = 0; t < 4; t++) {
            d[t] = block_offer(warp, first + t)->d + i;
            sums[t] = pair { (double)d[t][0], (double)d[t][1] };
        }
        pair x = sums[0], y = sums[1], z = sums[2], w = sums[3];
        for (int k = 0; k < 16; k++) {
            x += a[row][k] * b[k][0];
            y += a[row][k] * b[k][1];
            z += a[row][k] * b[k][2];
            w += a[row][k] * b[k][3];
        }
        sums[0] = x, sums[1] = y, sums[2] = z, sums[3] = w;
        for (int t = 0; t < 4; t++) {
            d[t][0] = (float)sums[t][0];
            d[t][1] = (float)sums[t][1];
        }
    }
}

static void complete(int warp, emulation_rendezvous kind, unsigned mask)
{
    switch (kind) {
    case MEET_SYNC:
        if (mask == 0xffffffffu || warp * LANES + LANES > block->count)
            races_sync_warp(warp);
        break;
    case MEET_BALLOT:
        vote(warp, mask);
        break;
    case MEET_MATCH:
        match(warp, mask);
        break;
    case MEET_MMA_FP16:
    case MEET_MMA_BF16:
        require_capability(kind, kind == MEET_MMA_FP16 ? 75 : 80);
        multiply(warp, kind);
        break;
    case MEET_LOAD:
    case MEET_LOAD_TRANSPOSED:
        require_capability(kind, 75);
        copy_rows(warp, kind == MEET_LOAD_TRANSPOSED);
        break;
    case MEET_MATMUL:
        require_capability(kind, 90);
        hopper_start(warp);
        break;
    case MEET_MATMULS_WAIT:
        hopper_finish(warp);
        break;
    default:
        exchange(warp, mask);
        break;
    }
}

void emulation_meet(emulation_offer *offer)
{
    block_thread *self = block_now();
    int warp = self->index / LANES, lane = self->index % LANES;

    if (!(offer->mask >> lane & 1))
        emulation_fail("%s with mask %08x, called by lane %d, which is not in it",
                       names[offer->kind], offer->mask, lane);
    self->offer = offer;
    self->state = THREAD_MEETING;
    block->arrived[warp] |= 1u << lane;
    if (offer->mask & ~block->arrived[warp]) {
        block_wait();
        return;
    }
    check_agreement(offer, warp);
    complete(warp, offer->kind, offer->mask);
    block->arrived[warp] &= ~offer->mask;
    for (int i = 0; i < LANES; i++)
        if (offer->mask >> i & 1)
            block->threads[warp * LANES + i].state = THREAD_READY;
}
