/* tests/unit/unit_tower_jobs.h - jobs that train the encoders of tiny models
 * (tests/golden/tower_training.py). */
#ifndef TESTS_UNIT_UNIT_TOWER_JOBS_H
#define TESTS_UNIT_UNIT_TOWER_JOBS_H

#define GOLDEN_TOWERS "tests/golden/tower_training"
#include "tests/unit/unit_curve.h"

#define FULL "freeze_vision_tower: false\nfreeze_multi_modal_projector: false\n"
#define FUSION \
    FULL "freeze_language_model: true\ntrainspool: {train_cross_attention: true}\n"
#define ALL "freeze_vision_tower: false\nlora_target: all\n"

static const char *const names[] = { "qwen2_audio", "qwen2_5_vl", "qwen3_vl", "gemma3",
                                     "llava",       "mistral3",   "mllama" };

#endif
