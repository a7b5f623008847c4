/*
 * train/model/model_growth.c - rows of embeddings and head that the files do not have.
 *
 * As in LLaMA-Factory (model/model_utils/embedding.py, noise_init): the row of a new token is
 * the mean of the rows of the others, plus normal noise of 1 / sqrt(C).  Rows without a token
 * are initialized as in a new model.  All of it is a function of seed and position.
 */
#include "config.h"

#include "train/model/model_growth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "train/model/model_stored.h"

/* Streams of the noise, after those of model_init_weights. */
#define NOISE_STREAMS ((uint32_t)1 << 24)

/* A head that was tied starts with the rows of the embeddings. */
static size_t index_of(const struct model *m, const struct parameter *p)
{
    return (size_t)((m->config->untied ? m->embed : p) - m->parameters);
}

bool model_grows(const struct model *m, const struct parameter *p)
{
    const struct shape_parameter *shape;

    if (m->config->stored_vocab == 0) /* p may be a copy that is in no array */
        return false;
    shape = &m->shapes.parameters[p - m->parameters];
    return shape->part == PART_WEIGHT &&
           (shape->module == MODULE_EMBED ||
            (shape->module == MODULE_HEAD && !m->config->scores));
}

/* Return the parameter as the files have it. */
static struct parameter stored_of(const struct model *m, const struct parameter *p)
{
    struct parameter stored = *p;

    stored.rows = m->config->stored_vocab;
    return stored;
}

static bool is_new(const struct model *m, size_t row)
{
    for (size_t i = 0; i < m->config->new_token_count; i++)
        if (m->config->new_tokens[i] == row)
            return true;
    return false;
}

/* Return the mean of the rows of the files, except those of new tokens, in the arena. */
static const double *mean_of(const struct model *m, const struct parameter *p,
                             const struct stored_tensor *t, struct error *err)
{
    const struct parameter stored = stored_of(m, p);
    size_t index = (size_t)(p - m->parameters), step = model_span_rows(&stored),
           count = 0;
    struct model *owner = (struct model *)m; /* the result is stored in it */
    double **mean = &owner->growth[index == (size_t)(m->embed - m->parameters)];
    float *values;
    bool ok = true;

    if (*mean)
        return *mean;
    values = memory_alloc(step * p->cols * sizeof(*values));
    *mean = arena_array(m->arena, p->cols, sizeof(**mean));
    for (size_t row = 0; ok && row < stored.rows; row += step) {
        size_t rows = stored.rows - row < step ? stored.rows - row : step;

        ok = model_read_parameter(
            m, t, &(struct model_rows) { &stored, row, rows, values }, err);
        for (size_t i = 0; ok && i < rows; i++) {
            if (is_new(m, row + i))
                continue;
            for (size_t j = 0; j < p->cols; j++)
                (*mean)[j] += (double)values[i * p->cols + j];
            count++;
        }
    }
    for (size_t j = 0; count > 0 && j < p->cols; j++)
        (*mean)[j] /= (double)count;
    free(values);
    return ok ? *mean : NULL;
}

static void fill_new(const struct model *m, const struct parameter *p, size_t row,
                     const double *mean, float *out)
{
    uint32_t stream = (uint32_t)index_of(m, p) + NOISE_STREAMS;
    double size = 1 / sqrt((double)p->cols);

    for (size_t j = 0; j < p->cols; j++)
        out[j] =
            (float)(mean[j] + size * random_normal((uint64_t)m->plan->seed, RANDOM_INIT,
                                                   stream, row * p->cols + j));
}

bool model_read_grown(const struct model *m, const struct stored_tensor *t,
                      const struct model_rows *rows, struct error *err)
{
    const struct parameter *p = rows->parameter, stored = stored_of(m, p);
    size_t last = rows->first + rows->count;
    struct model_rows kept = *rows;
    const double *mean;

    kept.parameter = &stored;
    if (last > stored.rows)
        kept.count = stored.rows > rows->first ? stored.rows - rows->first : 0;
    if (!model_check_shape(t, &stored, err) ||
        (kept.count > 0 && !model_read_parameter(m, t, &kept, err)))
        return false;
    mean = mean_of(m, p, t, err);
    if (!mean)
        return false;
    for (size_t row = rows->first; row < last; row++) {
        float *out = rows->values + (row - rows->first) * p->cols;

        if (is_new(m, row))
            fill_new(m, p, row, mean, out);
        else if (row >= stored.rows)
            model_init_weights(m, index_of(m, p), row * p->cols, p->cols, out);
    }
    return true;
}
