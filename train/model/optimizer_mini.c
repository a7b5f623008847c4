/* train/model/optimizer_mini.c - Adam-mini: the blocks of parameters that share a second
 * moment, by name: adam_mini 1.1.1, adam_mini.py. */
#include "config.h"

#include "train/model/optimizer_mini.h"

#include <stdbool.h>
#include <string.h>

static const char *const queries_and_keys[] = { "k_proj", "q_proj", "wq", "wk",
                                                "query",  "key",    NULL };
static const char *const by_row[] = {
    "embed", "embd",   "wte", "lm_head",   "output", "final_layer", "v_proj",       "wv",
    "value", "o_proj", "wo",  "attn.proj", "mlp",    "linear",      "feed_forward", NULL
};

static bool has_any(const char *name, const char *const *parts)
{
    for (; *parts; parts++)
        if (strstr(name, *parts))
            return true;
    return false;
}

size_t optimizer_mini_block(const char *name, size_t rank, size_t cols, size_t head,
                            size_t count)
{
    if (strstr(name, "bias"))
        return 1;
    if (rank == 1)
        return count;
    if (has_any(name, queries_and_keys))
        return head > 0 && count % head == 0 ? head : cols;
    return has_any(name, by_row) ? cols : count;
}
