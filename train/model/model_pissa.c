/*
 * train/model/model_pissa.c - adapters that start as the principal part of their weights
 * (Meng et al., "PiSSA", 2024), as in PEFT (tuners/lora/layer.py, pissa_init).
 *
 * With the r largest singular values S of W and their vectors U, V:
 *     A = sqrt(S / scale) V^T     B = U sqrt(S / scale)
 * and the layer is trained over W - scale B A.  PEFT computes this again when it loads such
 * an adapter.
 */
#include "config.h"

#include "train/model/model_pissa.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/model/model_load.h"
#include "train/model/model_stored.h"
#include "train/model/pissa_file.h"
#include "train/model/singular.h"

/* Read a whole matrix of the base, with a merged adapter unless it is that one's own. */
static float *read_whole(const struct model *m, const struct parameter *p, bool merged,
                         struct error *err)
{
    size_t step = model_span_rows(p);
    float *out = malloc(p->rows * p->cols * sizeof(*out));
    bool ok = out || error_set(err, ERROR_MEMORY, "no memory for %s", p->name);

    for (size_t row = 0; ok && row < p->rows; row += step) {
        struct model_rows rows = { p, row, p->rows - row < step ? p->rows - row : step,
                                   out + row * p->cols };

        ok = model_read(m, &rows, err) &&
             (merged || !m->merged || model_add_merged(m, &rows, err));
    }
    if (ok)
        return out;
    free(out);
    return NULL;
}

static void fill(struct pissa *out, const struct parameter *p, const struct lora *lora,
                 const struct singular *s)
{
    size_t rank = lora->rank;

    for (size_t k = 0; k < rank; k++) {
        double root = sqrt(s->values[k] / lora->scale);

        for (size_t i = 0; i < p->cols; i++)
            out->a[k * p->cols + i] = (float)(root * s->right[k * p->cols + i]);
        for (size_t o = 0; o < p->rows; o++)
            out->b[o * rank + k] = (float)(root * s->left[k * p->rows + o]);
    }
}

/* Report how far the decompositions are: at the beginning, every 10 seconds and at the
 * end. */
static void report(struct model *m, bool begins)
{
    struct pissa_progress *p = &m->pissa_progress;
    double now = clock_seconds();

    if (begins && p->made++ == 0) {
        p->started = p->reported = now;
        for (size_t i = 0; i < m->shapes.count; i++)
            p->count += model_pissa_changes(m, &m->parameters[i], false);
        log_line(m->log, LOG_INFO,
                 "pissa_init: computing the largest singular values of %zu matrices",
                 p->count);
    } else if (!begins && (p->made == p->count || now - p->reported >= 10)) {
        p->reported = now;
        log_line(m->log, LOG_INFO, "pissa_init: %zu of %zu matrices, %.1f s", p->made,
                 p->count, now - p->started);
    }
}

const struct pissa *model_pissa(const struct model *m, const struct parameter *p,
                                bool merged, struct error *err)
{
    const struct lora *lora = merged ? &m->merged_lora : &m->shapes.lora;
    struct pissa *out = &m->pissa[merged][p - m->parameters];
    struct singular singular;
    float *whole;

    if (out->a)
        return out;
    if (lora->rank > p->rows || lora->rank > p->cols) {
        error_set(err, ERROR_JOB,
                  "lora_rank: %s has only %zu singular values, fewer than %zu", p->name,
                  p->rows < p->cols ? p->rows : p->cols, lora->rank);
        return NULL;
    }
    whole = read_whole(m, p, merged, err);
    if (!whole)
        return NULL;
    heartbeat_tick(m->heartbeat);
    if (!merged && pissa_file_read(m, p, whole, out)) {
        free(whole);
        return out;
    }
    if (!merged)
        report((struct model *)m, true);
    singular = singular_compute(whole, p->rows, p->cols, lora->rank, SINGULAR_EXACT);
    if (!merged)
        report((struct model *)m, false);
    free(whole);
    out->a = arena_alloc(m->arena, lora->rank * p->cols * sizeof(float));
    out->b = arena_alloc(m->arena, lora->rank * p->rows * sizeof(float));
    fill(out, p, lora, &singular);
    singular_clear(&singular);
    return out;
}

bool model_pissa_changes(const struct model *m, const struct parameter *p, bool merged)
{
    const struct shape_parameter *shape = &m->shapes.parameters[p - m->parameters];
    const struct lora *lora = merged ? &m->merged_lora : &m->shapes.lora;

    return lora->pissa && shape->part == PART_WEIGHT &&
           lora_is_on(lora, shape->module, shape->layer);
}

bool model_pissa_subtract(const struct model *m, const struct model_rows *rows,
                          bool merged, struct error *err)
{
    struct lora lora = merged ? m->merged_lora : m->shapes.lora;
    const struct pissa *start;

    if (!model_pissa_changes(m, rows->parameter, merged))
        return true;
    start = model_pissa(m, rows->parameter, merged, err);
    if (!start)
        return false;
    lora.scale = -lora.scale;
    model_merge(
        rows, &lora,
        (struct merged_parts) { start->a, start->b + rows->first * lora.rank, NULL });
    return true;
}

const struct pissa *model_pissa_start(const struct model *m, size_t index)
{
    const struct shape_parameter *p = &m->shapes.parameters[index];
    const struct parameter *weight =
        m->slots[model_slot(p->module, PART_WEIGHT, p->layer)];

    return &m->pissa[false][weight - m->parameters];
}
