/*
 * train/model/packed_config.h - quantization_config of a config.json: a model whose files
 * have weights in FP8, NVFP4 or MXFP4 (precision/packed.h), which are dequantized when they
 * are loaded.  What is trained and saved has no quantization_config.
 *
 * fp8: DeepSeek-V3, Qwen3-...-FP8, Ministral 3, and transformers' FineGrainedFP8Config, as
 * mxfp8 too.  fbgemm_fp8: Llama-3.1-405B-Instruct-FP8.  compressed-tensors: formats of
 * floating point numbers.  modelopt: FP8, MXFP8 and NVFP4.  mxfp4: the experts of gpt-oss.
 */
#ifndef TRAIN_MODEL_PACKED_CONFIG_H
#define TRAIN_MODEL_PACKED_CONFIG_H

#include <stddef.h>

#include "base/json.h"

struct packed_config {
    bool enabled;
    size_t block_rows, block_cols; /* of a scale in FP8; 0: the shapes of tensors say */
};

/* Parse the root of a config.json; without a quantization_config of these methods, `out`
 * is off.  `file` is used in errors; `mxfp4`: the architecture has experts in that format.
 * ERROR_DATA names the key and the remedy. */
bool packed_config_read(const json_t *root, const char *file, bool mxfp4,
                        struct packed_config *out, struct error *err);

/* Parse hf_quant_config.json of a folder, in which older versions of NVIDIA's Model
 * Optimizer wrote what config.json does not have.  Without such a file `out` is unchanged. */
bool packed_config_read_folder(const char *dir, struct packed_config *out,
                               struct error *err);

#endif
