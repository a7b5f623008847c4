/*
 * kernels/cuda/attention.cu - selects the kernels of attention: tensor cores
 * (flash_forward.cu, flash_backward.cu; on capability 9.0 flash_hopper_forward.cu and
 * flash_hopper_backward.cu for what they cover) if format, GPU, head size, dropout and
 * alignment allow it, else the plain ones (attention_plain.cu), which alone have biases.
 * All drop the same weights.
 */
#include "kernels/cuda/flash_launch.h"

#include <limits.h>

/* Return whether rows can be copied 16 bytes at a time. */
static bool attention_in_pieces(struct tensor x)
{
    return (uintptr_t)x.data % 16 == 0 && x.stride % 8 == 0;
}

/* Kernels with dropout exist for head size 64, which the models that use dropout have. */
static bool attention_drops_fit(const struct op_attention *op)
{
    return op->dropout.p <= 0 || (op->head_size <= 64 && op->softcap <= 0);
}

/* Those with reach have neither dropout nor a cap, which encoders and Gemma 3 do not have. */
static bool attention_reach_fits(const struct op_attention *op)
{
    return !op->reach || (op->dropout.p <= 0 && op->softcap <= 0);
}

/* Kernels for keys of other rows exist for heads of up to 128 columns, which the models with
 * cross-attention have, and not for much shorter ones. */
static bool attention_crosses_fit(const struct op_attention *op)
{
    return !op->key_offsets || (op->head_size > 64 && op->head_size <= 128 &&
                                op->dropout.p <= 0 && op->softcap <= 0);
}

static bool attention_fits(const struct cuda_launch *to, const struct op_attention *op)
{
    const enum format format = op->q.format;
    bool tensor_cores = (format == FORMAT_FP16 && to->capability >= 75) ||
                        (format == FORMAT_BF16 && to->capability >= 80);
    /* Blocks have 64 rows of a sequence or more and use one dimension of the grid. */
    bool countable = op->q.rows <= INT_MAX && op->k.rows <= INT_MAX &&
                     (op->q.rows / 64 + op->sequences) * op->heads <= INT_MAX &&
                     (op->k.rows / 64 + op->sequences) * op->kv_heads <= INT_MAX;

    return tensor_cores && countable && attention_drops_fit(op) &&
           attention_reach_fits(op) && attention_crosses_fit(op) &&
           op->slopes.factor <= 0 && !op->distances.values && op->head_size % 8 == 0 &&
           op->head_size <= 256 && op->scale > 0 && attention_in_pieces(op->q) &&
           attention_in_pieces(op->k) && attention_in_pieces(op->v) &&
           attention_in_pieces(op->out);
}

bool launch_attention_on_warpgroups(const struct cuda_launch *to,
                                    const struct op_attention *op)
{
    return attention_fits(to, op) && flash_hopper_fits(to, op);
}

cudaError_t launch_attention(const struct cuda_launch *to, const struct op_attention *op)
{
    if (!attention_fits(to, op))
        return launch_attention_plain(to, op);
    return flash_hopper_fits(to, op) ? launch_flash_hopper_forward(to, op)
                                     : launch_flash_forward(to, op);
}

cudaError_t launch_attention_backward(const struct cuda_launch *to,
                                      const struct op_attention_backward *op)
{
    bool fits = attention_fits(to, &op->forward) && attention_in_pieces(op->dq) &&
                attention_in_pieces(op->dk) && attention_in_pieces(op->dv) &&
                attention_in_pieces(op->dout) &&
                flash_backward_fits(to, op->forward.head_size);

    if (!fits)
        return launch_attention_backward_plain(to, op);
    return flash_hopper_fits(to, &op->forward) ? launch_flash_hopper_backward(to, op)
                                               : launch_flash_backward(to, op);
}
