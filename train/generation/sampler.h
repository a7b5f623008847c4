/* train/generation/sampler.h - logits to the next token, as in Hugging Face's generate():
 * the repetition penalty, then temperature, top_k and top_p, then a random draw. */
#ifndef TRAIN_GENERATION_SAMPLER_H
#define TRAIN_GENERATION_SAMPLER_H

#include "train/plan.h"

struct sampler;

/* Scratch memory for a vocabulary. */
struct sampler *sampler_new(size_t vocabulary);
void sampler_free(struct sampler *sampler); /* NULL is allowed */

/* The position of the next token. */
struct sampler_position {
    const int32_t *tokens; /* prompt and generated tokens, which are penalized */
    size_t count;
    /* The draw is a function of seed, sequence and index. */
    uint64_t seed;
    uint32_t sequence; /* number of the sequence in the run */
    uint64_t index;    /* of the token in the sequence, from 0 */
};

/* Return the next token; changes the logits (V). Without settings->do_sample, it is the
 * one with the largest logit, the first of equals. Logits that are not finite are never
 * selected; -1: all are. */
int64_t sampler_take(struct sampler *sampler, const struct generation *settings,
                     const struct sampler_position *position, float *logits);

#endif
