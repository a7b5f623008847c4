/* train/tower/tower_encoders.h - the encoders that the table of models refers to, and short forms
 * for names of layers. */
#ifndef TRAIN_TOWER_TOWER_ENCODERS_H
#define TRAIN_TOWER_TOWER_ENCODERS_H

#include "train/tower/tower_family.h"

#define WEIGHT(name)      \
    {                     \
        .parts = { name } \
    }
#define AFFINE(name)                   \
    {                                  \
        .parts = { name }, .biases = 1 \
    }
#define BARE(name)                      \
    {                                   \
        .parts = { name }, .bare = true \
    }
#define SHAPED(name, count)                            \
    {                                                  \
        .parts = { name }, .bare = true, .ones = count \
    }
#define NAMED(...) .parts = { __VA_ARGS__ }

extern const struct tower_encoder tower_whisper;
extern const struct tower_encoder tower_voxtral_whisper;
extern const struct tower_encoder tower_qwen2_vision;
extern const struct tower_encoder tower_qwen2_5_vision;
extern const struct tower_encoder tower_qwen3_vision;
extern const struct tower_encoder tower_glm4_vision;
extern const struct tower_encoder tower_qwen3_5_vision;
extern const struct tower_encoder tower_clip;
extern const struct tower_encoder tower_siglip;
extern const struct tower_encoder tower_siglip2;
extern const struct tower_encoder tower_paddleocr_vision;
extern const struct tower_encoder tower_pixtral;
extern const struct tower_encoder tower_gemma4_unified;
extern const struct tower_encoder tower_llama4_vision;
extern const struct tower_encoder tower_mllama_vision;
extern const struct tower_encoder tower_internvl;
extern const struct tower_encoder tower_conformer;
extern const struct tower_encoder tower_published_conformer;

#endif
