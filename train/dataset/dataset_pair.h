/* train/dataset/dataset_pair.h - two answers to one question, as tokens. */
#ifndef TRAIN_DATASET_DATASET_PAIR_H
#define TRAIN_DATASET_DATASET_PAIR_H

#include "train/chat/template.h"

/* The question and one of its answers: tokens, and the weight of each in the loss
 * (malloc'ed, with the room of ids), as template_encode appends them. */
struct dataset_half {
    struct token_list ids;
    float *weights;
};

/*
 * Of a chosen and a rejected half, encoded whole and with mask_history: learn the last
 * answer alone, each of its tokens for 1, and cut both to cutoff_len tokens.  Question
 * and answer get their share by the longer of both halves, so that the same is left of
 * the question in each (LLaMA-Factory's processor/pairwise.py; an end behind the
 * conversation is a part of the answer).  False: of one of them nothing is left to learn.
 */
bool dataset_pair_cut(struct dataset_half halves[2], size_t cutoff_len);

#endif
