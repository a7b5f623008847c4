/*
 * tests/fuzz/fuzz_quant_state.c - the quant_state of a 4-bit matrix is rejected with
 * ERROR_DATA or has valid sizes, a format and a finite mean.  The quantization_config in
 * a config.json is rejected or valid, too, also that of weights in FP8 and FP4.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "train/model/packed_config.h"
#include "train/model/quant_state.h"
#include "train/model/quantized_config.h"

static void read_state(const char *text, size_t len)
{
    struct quant_state is;
    struct error err = { 0 };

    if (!quant_state_parse(text, len, "state", &is, &err)) {
        FUZZ_HOLDS(err.code == ERROR_DATA && err.text[0]);
        return;
    }
    FUZZ_HOLDS(err.code == ERROR_NONE);
    FUZZ_HOLDS(is.rows > 0 && is.rows <= INT32_MAX && is.cols > 0 &&
               is.cols <= INT32_MAX);
    FUZZ_HOLDS(is.dtype == FORMAT_FP32 || is.dtype == FORMAT_FP16 ||
               is.dtype == FORMAT_BF16);
    FUZZ_HOLDS(isfinite(is.absmax_mean) && (is.double_quant || is.absmax_mean == 0));
}

static void read_packed(const json_t *root)
{
    struct packed_config is;
    struct error err = { 0 };

    if (!packed_config_read(root, "config.json", true, &is, &err))
        FUZZ_HOLDS(err.code == ERROR_DATA && err.text[0]);
    else
        FUZZ_HOLDS(is.block_rows <= INT32_MAX && is.block_cols <= INT32_MAX &&
                   (is.block_rows > 0) == (is.block_cols > 0));
}

static void read_config(const char *text, size_t len)
{
    struct arena *arena = arena_new();
    json_t *root = json_read_text(text, len, "config.json", 1, NULL);
    struct quantized_config is;
    struct error err = { 0 };

    if (!root || !quantized_config_read(root, "config.json", arena, &is, &err)) {
        FUZZ_HOLDS(!root || (err.code == ERROR_DATA && err.text[0]));
    } else {
        FUZZ_HOLDS(is.enabled || is.skipped_count == 0);
        for (size_t i = 0; i < is.skipped_count; i++)
            FUZZ_HOLDS(quantized_config_skips(&is, is.skipped[i]));
        for (size_t i = 0; i < is.only_count; i++)
            FUZZ_HOLDS(quantized_config_skips(&is, is.only[i]) ==
                       text_ends(is.only[i], ".weight"));
        FUZZ_HOLDS(is.enabled || is.affine.bits == 0);
        FUZZ_HOLDS(is.affine.bits == 0 ||
                   (is.bits >= 2 && is.bits <= is.affine.bits && is.affine.bits <= 8));
        FUZZ_HOLDS(is.affine.group <= INT32_MAX);
    }
    if (root)
        read_packed(root);
    json_decref(root);
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    read_state((const char *)data, len);
    read_config((const char *)data, len);
    return 0;
}
