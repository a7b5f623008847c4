/* train/dataset/dataset_pair.h - two answers to one question, as tokens. */
#ifndef TRAIN_DATASET_DATASET_PAIR_H
#define TRAIN_DATASET_DATASET_PAIR_H

#include "train/chat/template.h"

/* The question and one of its answers: tokens, and the weight of each in the loss
 * (malloc'ed, with the room of ids), as template_encode appends them. */
struct dataset_pair_member {
    struct token_list ids;
    float *weights;
    struct media_span *spans; /* of its media */
    size_t span_count, span_room;
};

/* Cut a chosen and a rejected sequence, encoded in full and with mask_history: only the
 * last answer is trained on, each of its tokens with weight 1, and both sequences have at
 * most cutoff_len tokens. The longer sequence decides how many tokens go to the question
 * and to the answer, so that both keep the same part of the question (LLaMA-Factory's
 * processor/pairwise.py; an end token after the conversation is part of the answer).
 * Return false if one of them has no target left. *lost: a medium, or a part of one, is
 * left out. */
bool dataset_pair_cut(struct dataset_pair_member members[2], size_t cutoff_len,
                      bool *lost);

#endif
