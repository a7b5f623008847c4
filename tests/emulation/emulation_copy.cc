/* tests/emulation/emulation_copy.cc - asynchronous copies, and rows loaded into
 * fragments: the part of the machine that accesses memory for a kernel and therefore has
 * the sanitizers of the build. */
#include "tests/emulation/emulation_block.h"
#include "tests/emulation/emulation_races.h"

static struct block *const block = &emulation_block;

void copy_rows(int warp, bool transposed)
{
    uint16_t matrix[4][8][8];

    for (int lane = 0; lane < LANES; lane++) {
        const unsigned char *row = (const unsigned char *)block_offer(warp, lane)->row;

        if ((uintptr_t)row % 16 || row < block->shared ||
            row + 16 > block->shared + block->launch->shared)
            emulation_fail(
                "load_matrices: lane %d reads byte %td of %zu of shared memory", lane,
                row - block->shared, block->launch->shared);
        races_access(warp * LANES + lane, row, 16, RACES_READ, NULL);
        memcpy(matrix[lane / 8][lane % 8], row, 16);
    }
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 4; i++) {
            int g = lane / 4, c = 2 * (lane % 4);

            block_offer(warp, lane)->out[i] =
                transposed ? matrix[i][c][g] | (uint32_t)matrix[i][c + 1][g] << 16
                           : matrix[i][g][c] | (uint32_t)matrix[i][g][c + 1] << 16;
        }
}

static void check_copy(const void *at, const char *what)
{
    if ((uintptr_t)at % 16)
        emulation_fail("copy_16_bytes %s %p, which is not aligned to 16 bytes", what, at);
}

static void copy_now(const block_thread *self, const struct copy *copy)
{
    static const unsigned char zeros[16] = {};

    races_access(self->index, copy->to, 16, RACES_WRITE, NULL);
    if (copy->there)
        races_access(self->index, copy->from, 16, RACES_READ, NULL);
    memcpy(copy->to, copy->there ? copy->from : zeros, 16);
    hopper_note_write(self, copy->to, 16);
}

void emulation_copy(void *to, const void *from, bool there)
{
    block_thread *self = block_now();
    struct copy copy = { to, from, there, self->group };

    check_copy(to, "to");
    if ((unsigned char *)to < block->shared ||
        (unsigned char *)to + 16 > block->shared + block->launch->shared)
        emulation_fail("copy_16_bytes to byte %td of %zu of shared memory",
                       (unsigned char *)to - block->shared, block->launch->shared);
    if (there)
        check_copy(from, "from");
    if (emulation_capability() < 80) {
        copy_now(self, &copy);
        return;
    }
    if (self->copies_count == COPIES_MAX)
        emulation_fail("more than %d pending copies in one thread", COPIES_MAX);
    races_access(self->index, to, 16, RACES_WRITE, NULL);
    block_unwritten(to, 16);
    self->copies[self->copies_count++] = copy;
}

void emulation_copies_close(void)
{
    block_now()->group++;
}

void emulation_copies_wait(int groups)
{
    block_thread *self = block_now();
    int kept = 0;

    for (int i = 0; i < self->copies_count; i++) {
        const struct copy *copy = &self->copies[i];

        if (copy->group + groups < self->group)
            copy_now(self, copy);
        else
            self->copies[kept++] = *copy;
    }
    self->copies_count = kept;
}

void emulation_atomic(const void *at, size_t bytes)
{
    races_access(block_now()->index, at, bytes, RACES_ATOMIC,
                 __builtin_return_address(0));
}
