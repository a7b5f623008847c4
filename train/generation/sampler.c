/* train/generation/sampler.c - penalties, filters and the random draw. */
#include "config.h"

#include "train/generation/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/random.h"

struct candidate {
    double score; /* logit / temperature */
    uint32_t id;
};

struct sampler {
    size_t vocabulary;
    struct candidate *heap, *taken; /* (V) each */
    size_t count;                   /* of the heap, whose top is the best */
    uint32_t *seen;                 /* (V): round in which it was penalized */
    uint32_t round;
};

struct sampler *sampler_new(size_t vocabulary)
{
    struct sampler *sampler = memory_alloc(sizeof(*sampler));

    sampler->vocabulary = vocabulary;
    sampler->heap = memory_alloc(vocabulary * sizeof(*sampler->heap));
    sampler->taken = memory_alloc(vocabulary * sizeof(*sampler->taken));
    sampler->seen = memory_alloc(vocabulary * sizeof(*sampler->seen));
    return sampler;
}

void sampler_free(struct sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->heap);
    free(sampler->taken);
    free(sampler->seen);
    free(sampler);
}

/* transformers' RepetitionPenaltyLogitsProcessor: each token that occurred, once. */
static void penalize(struct sampler *s, double penalty,
                     const struct sampler_position *position, float *logits)
{
    if (penalty == 1)
        return;
    s->round++;
    for (size_t i = 0; i < position->count; i++) {
        uint32_t id = (uint32_t)position->tokens[i];

        if (id >= s->vocabulary || s->seen[id] == s->round)
            continue;
        s->seen[id] = s->round;
        logits[id] =
            (float)(logits[id] < 0 ? logits[id] * penalty : logits[id] / penalty);
    }
}

static int64_t argmax(const float *logits, size_t count)
{
    int64_t best = -1;

    for (size_t i = 0; i < count; i++)
        if (isfinite(logits[i]) && (best < 0 || logits[i] > logits[best]))
            best = (int64_t)i;
    return best;
}

static bool is_before(struct candidate a, struct candidate b)
{
    return a.score != b.score ? a.score > b.score : a.id < b.id;
}

static void sift_down(struct sampler *s, size_t at)
{
    struct candidate moved = s->heap[at];

    for (size_t child = 2 * at + 1; child < s->count; child = 2 * at + 1) {
        child += child + 1 < s->count && is_before(s->heap[child + 1], s->heap[child]);
        if (!is_before(s->heap[child], moved))
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = moved;
}

/* Build a heap of all finite candidates, the best on top; return the sum of their
 * e^(score - best). */
static double make_heap(struct sampler *s, const float *logits, double temperature)
{
    double sum = 0;

    s->count = 0;
    for (size_t i = 0; i < s->vocabulary; i++)
        if (isfinite(logits[i]))
            s->heap[s->count++] =
                (struct candidate) { (double)logits[i] / temperature, (uint32_t)i };
    for (size_t i = s->count / 2; i-- > 0;)
        sift_down(s, i);
    for (size_t i = 0; i < s->count; i++)
        sum += exp(s->heap[i].score - s->heap[0].score);
    return sum;
}

static struct candidate pop(struct sampler *s)
{
    struct candidate best = s->heap[0];

    s->heap[0] = s->heap[--s->count];
    sift_down(s, 0);
    return best;
}

/* Take the best `limit` candidates and all that are equal to the last, in order; return
 * the sum of their e^(score - best). */
static double take_best(struct sampler *s, size_t limit, size_t *taken)
{
    double sum = 0, score = 0;

    *taken = 0;
    while (s->count > 0 && (*taken < limit || s->heap[0].score == score)) {
        s->taken[*taken] = pop(s);
        score = s->taken[(*taken)++].score;
        sum += exp(score - s->taken[0].score);
    }
    return sum;
}

/* Return whether there is a candidate at this rank: already taken, or popped now. */
static bool candidate_at(struct sampler *s, size_t at, size_t *taken)
{
    if (at < *taken)
        return true;
    if (s->count == 0)
        return false;
    s->taken[(*taken)++] = pop(s);
    return true;
}

/* Return the number of candidates to keep: those before which less than top_p of the
 * total is. *sum becomes the sum of those kept. */
static size_t nucleus(struct sampler *s, double top_p, size_t *taken, double *sum)
{
    double before = 0;
    size_t kept = 0;

    while ((kept == 0 || before < top_p * *sum) && candidate_at(s, kept, taken))
        before += exp(s->taken[kept++].score - s->taken[0].score);
    *sum = before;
    return kept;
}

static int64_t draw_token(struct sampler *s, const struct generation *settings,
                          const struct sampler_position *position, const float *logits)
{
    double sum = make_heap(s, logits, settings->temperature), left;
    size_t taken = 0, kept = s->count;

    if (s->count == 0)
        return -1;
    if (settings->top_k > 0 && (uint64_t)settings->top_k < s->count) {
        sum = take_best(s, (size_t)settings->top_k, &taken);
        kept = taken;
        s->count = 0;
    }
    if (settings->top_p < 1)
        kept = nucleus(s, settings->top_p, &taken, &sum);
    left = sum * random_uniform(position->seed, RANDOM_SAMPLE, position->sequence,
                                position->index);
    for (size_t i = 0; candidate_at(s, i, &taken); i++) {
        left -= exp(s->taken[i].score - s->taken[0].score);
        if (left < 0 || i + 1 == kept)
            return s->taken[i].id;
    }
    return s->taken[0].id;
}

int64_t sampler_take(struct sampler *sampler, const struct generation *settings,
                     const struct sampler_position *position, float *logits)
{
    penalize(sampler, settings->repetition_penalty, position, logits);
    if (!settings->do_sample || !(settings->temperature > 0))
        return argmax(logits, sampler->vocabulary);
    return draw_token(sampler, settings, position, logits);
}
