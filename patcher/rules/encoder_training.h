/* patcher/rules/encoder_training.h - TS716: which jobs can train the encoder, the projector and
 * the text model of a model that reads images or sound. */
#ifndef PATCHER_RULES_ENCODER_TRAINING_H
#define PATCHER_RULES_ENCODER_TRAINING_H

#include "patcher/rules/rules_context.h"

/* Report what the keys freeze_vision_tower, freeze_multi_modal_projector and
 * freeze_language_model ask for and a run cannot do. */
void encoder_training_check(struct rule_context *context);

#endif
