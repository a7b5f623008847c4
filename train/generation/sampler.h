/*
 * train/generation/sampler.h - logits to the next token, as Hugging Face's generate() does it: the
 * repetition penalty, then temperature, top_k and top_p, then a draw.
 */
#ifndef TRAIN_GENERATION_SAMPLER_H
#define TRAIN_GENERATION_SAMPLER_H

#include "train/plan.h"

struct sampler;

/* Scratch for a vocabulary. */
struct sampler *sampler_new(size_t vocabulary);
void sampler_free(struct sampler *sampler); /* NULL is allowed */

/* Whose next token it is. */
struct sampler_place {
    const int32_t *before; /* the prompt and what has grown from it: what is penalised */
    size_t count;
    uint64_t seed;
    uint32_t sequence; /* its number among all of the run, */
    /* and the token's, from 0: the draw is a function of these three */
    uint64_t index;
};

/*
 * The next token; logits (V) are changed.  Without how->do_sample the one with the
 * largest logit, the first of equals.  Those that are not finite are never taken; -1:
 * none is.
 */
int64_t sampler_take(struct sampler *sampler, const struct generation *how,
                     const struct sampler_place *place, float *logits);

#endif
