/* train/model/attention_room.c - memory for gradients of attention by cuDNN. */
#include "config.h"

#include "train/model/attention_room.h"

#include "base/size.h"

/* More rows than this multiple of those present are not worth their memory: such batches
 * use our own kernels. */
enum { HOLES_MOST = 4, SLACK = 1 << 20 };

static bool has_kernels(const struct plan *plan, const struct model_config *config)
{
    return plan->device.kind == DEVICE_CUDA && plan->device.major >= 9 &&
           format_info(plan->precision.compute)->bytes == 2 &&
           config->head_size % 8 == 0 && config->head_size <= 256 &&
           config->score_softcap <= 0 && config->alibi <= 0;
}

/* The backend rounds the longest sequence, of at most `limit` rows, up to a power of two,
 * and the model passes at least 256 (model_pass.c). */
static size_t padded_rows(size_t rows, size_t sequences, size_t limit)
{
    size_t longest = 256;

    rows = size_round(rows, 256);
    while (longest < rows && longest < limit)
        longest *= 2;
    return sequences * longest < HOLES_MOST * rows ? sequences * longest
                                                   : HOLES_MOST * rows;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t attention_room_bytes(const struct plan *plan, const struct model_config *config,
                            size_t rows, size_t sequences)
{
    size_t each = 4 + 4 * config->head_size, chunk = config->attention_chunk, padded;

    if (plan->deterministic || !has_kernels(plan, config))
        return 0;
    if (config->kv_heads < config->heads)
        each += 2 * 2 * config->head_size;
    padded = padded_rows(rows, sequences, (size_t)plan->cutoff_len);
    if (chunk > 0 && chunk < (size_t)plan->cutoff_len)
        padded =
            larger(padded, padded_rows(rows, model_config_chunks(config, rows, sequences),
                                       chunk));
    return padded * config->heads * each + SLACK;
}
