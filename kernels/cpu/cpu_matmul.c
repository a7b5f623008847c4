/* kernels/cpu/cpu_matmul.c - op_matmul: checks the operands and selects an
 * implementation. */
#include "config.h"

#include "kernels/cpu/cpu_matmul.h"

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_fp8.h"
#include "kernels/cpu/cpu_matmul_tiles.h"
#include "kernels/cpu/cpu_onednn.h"

#include <assert.h>
#include <stdlib.h>

struct matmul {
    struct onednn *onednn; /* or NULL */
    struct tiles *tiles;
    struct fp8_buffer rooms[2]; /* operands rounded to 8 bits */
};

static bool is_16_bit(enum format format)
{
    return format == FORMAT_FP16 || format == FORMAT_BF16;
}

static bool is_8_bit(enum format format)
{
    return format == FORMAT_FP8_E4M3 || format == FORMAT_FP8_E5M2;
}

static bool operands_are_valid(const struct op_matmul *op)
{
    size_t depth = op->trans_a ? op->a.rows : op->a.cols;

    return depth > 0 && op->out.rows == (op->trans_a ? op->a.cols : op->a.rows) &&
           op->out.cols == (op->trans_b ? op->b.rows : op->b.cols) &&
           depth == (op->trans_b ? op->b.cols : op->b.rows) &&
           (op->a.format == op->b.format ||
            (op->b.format == FORMAT_FP32 && !is_8_bit(op->round_b))) &&
           (is_16_bit(op->a.format) || op->a.format == FORMAT_FP32) &&
           (op->out.format == FORMAT_FP32 || op->out.format == op->a.format) &&
           (op->beta == 0 || op->beta == 1) &&
           (!op->bias.data ||
            (op->bias.format == FORMAT_FP32 && op->bias.cols == op->out.cols)) &&
           is_8_bit(op->round_a) == is_8_bit(op->round_b);
}

/* Round the operands to 8 bits and fold their scales into alpha. */
static bool round_operands(struct cpu_backend *cpu, struct op_matmul *op)
{
    struct fp8_buffer *rooms = cpu->matmul->rooms;
    float scale_a, scale_b;

    if (!fp8_round(cpu->pool, op->a, op->round_a, &rooms[0], &op->a, &scale_a) ||
        !fp8_round(cpu->pool, op->b, op->round_b, &rooms[1], &op->b, &scale_b))
        return error_set(&cpu->failed, ERROR_SYSTEM,
                         "cannot allocate memory for an fp8 matmul");
    op->alpha = (float)((double)op->alpha * (double)scale_a * (double)scale_b);
    return true;
}

void cpu_matmul(struct backend *be, const struct op_matmul *op)
{
    struct cpu_backend *cpu = cpu_backend_of(be);
    struct op_matmul rounded = *op;

    assert(operands_are_valid(op));
    if (cpu->failed.code != ERROR_NONE || op->out.rows == 0 || op->out.cols == 0)
        return;
    if (is_8_bit(op->round_a) && !round_operands(cpu, &rounded))
        return;
    if (!tiles_matmul(cpu->matmul->tiles, cpu->pool, &rounded))
        error_set(&cpu->failed, ERROR_MEMORY, "%s cannot multiply: out of memory",
                  onednn_name(cpu->matmul->onednn));
}

void matmul_grouped(struct matmul *matmul, struct pool *pool,
                    const struct op_grouped_matmul *op)
{
    tiles_grouped(matmul->tiles, pool, op);
}

struct matmul *matmul_new(enum cpu_isa isa, size_t threads, enum matmul_choice choice,
                          struct error *err)
{
    struct matmul *matmul = calloc(1, sizeof(*matmul));

    if (!matmul) {
        error_errno(err, "cannot allocate memory for matmuls");
        return NULL;
    }
    if (choice == MATMUL_ONEDNN || (choice == MATMUL_BEST && cpu_isa_has_more()))
        matmul->onednn = onednn_open(threads);
    matmul->tiles = tiles_new(isa, threads, matmul->onednn, err);
    if (!matmul->tiles) {
        matmul_free(matmul);
        return NULL;
    }
    return matmul;
}

void matmul_free(struct matmul *matmul)
{
    if (!matmul)
        return;
    for (size_t i = 0; i < 2; i++)
        fp8_room_clear(&matmul->rooms[i]);
    tiles_free(matmul->tiles);
    onednn_close(matmul->onednn);
    free(matmul);
}

size_t matmul_bytes(const struct matmul *matmul)
{
    return tiles_bytes(matmul->tiles) + matmul->rooms[0].bytes + matmul->rooms[1].bytes;
}

const char *matmul_name(const struct matmul *matmul)
{
    return matmul->onednn ? onednn_name(matmul->onednn) : "own kernels";
}
