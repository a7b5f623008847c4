/* tests/fuzz/fuzz_model_config.c - config.json: it is rejected with ERROR_DATA, or the
 * sizes of its model are valid. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <math.h>

#include "train/model/model_config.h"
#include "train/model/shapes.h"

static void try_rope(const struct rope *rope, size_t columns)
{
    const size_t lengths[] = { 1, 100, 100000 };

    for (size_t l = 0; l < 3; l++)
        for (size_t i = 0; i < columns / 2; i++)
            FUZZ_HOLDS(isfinite(rope_frequency(rope, columns, lengths[l], i)));
    FUZZ_HOLDS(isfinite(rope->attention_factor));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct arena *arena = arena_new();
    struct model_config config;
    struct error err = { 0 };

    if (model_config_parse((const char *)data, len, "config.json", arena, &config,
                           &err)) {
        FUZZ_HOLDS(err.code == ERROR_NONE);
        FUZZ_HOLDS(config.architecture && config.vocab_size && config.hidden_size);
        FUZZ_HOLDS(config.layers && config.heads && config.kv_heads && config.head_size);
        FUZZ_HOLDS(config.heads % config.kv_heads == 0);
        FUZZ_HOLDS(isfinite(config.norm_eps) && isfinite(config.rope.theta));
        try_rope(&config.rope, config.rotary);
        if (config.has_local)
            try_rope(&config.rope_local, config.rotary);
        FUZZ_HOLDS(config.eos_tokens <= 8 && config.text_len == len);
        for (size_t i = 0; config.windowed && i < config.layers; i++)
            (void)*(const volatile bool *)&config.windowed[i];
    } else {
        FUZZ_HOLDS(err.code == ERROR_DATA && err.text[0]);
    }
    arena_free(arena);
    return 0;
}
