/* train/model/optimizer_refresh.c - the projections of GaLore and APOLLO, which are made
 * again every few steps: galore_projector.py, random_projector.py. */
#include "config.h"

#include "train/model/optimizer_refresh.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "kernels/backend.h"
#include "train/model/optimizer_projected.h"
#include "train/model/shapes.h"
#include "train/model/singular.h"

#define TOLERANCE 1e-6 /* about that of torch.linalg.svd in float32 */
#define LONG      5    /* seconds that are worth a line of the log */

struct refresh {
    struct model *model;
    const struct plan *plan;
    const struct projection_settings *settings;
    uint64_t interval; /* which one begins */
    float *gradient, *made;
    size_t gradient_room, made_room; /* elements */
    struct error *err;
};

static void hold(float **data, size_t *room, size_t count)
{
    if (count <= *room)
        return;
    *data = memory_resize(*data, count, sizeof(**data));
    *room = count;
}

/* Every variance is 1 / rank. */
static void make_random(const struct refresh *r, const struct projection *p,
                        size_t parameter)
{
    uint64_t first = r->interval * p->elements;
    double root = sqrt((double)p->rank);

    for (size_t i = 0; i < p->elements; i++)
        r->made[i] = (float)(random_normal((uint64_t)r->plan->seed, RANDOM_PROJECTION,
                                           (uint32_t)parameter, first + i) /
                             root);
}

static bool is_finite(const float *x, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += fabs((double)x[i]);
    return isfinite(sum);
}

/* The singular vectors of the largest values, of each side that is projected. */
static void make_singular(const struct refresh *r, const struct projection *p,
                          const struct parameter *parameter)
{
    size_t rows = parameter->rows, cols = parameter->cols;
    struct singular s = singular_compute(r->gradient, rows, cols, p->rank, TOLERANCE);
    float *right = r->made + (p->left ? rows * p->rank : 0);

    for (size_t k = 0; k < p->rank; k++) {
        for (size_t row = 0; p->left && row < rows; row++)
            r->made[row * p->rank + k] = (float)s.left[k * rows + row];
        for (size_t i = 0; p->right && i < cols; i++)
            right[k * cols + i] = (float)s.right[k * cols + i];
    }
    singular_clear(&s);
}

static bool read_gradient(struct refresh *r, const struct parameter *p)
{
    struct backend *be = model_backend(r->model);

    hold(&r->gradient, &r->gradient_room, p->rows * p->cols);
    be->ops->download(be, r->gradient, p->grad.data, tensor_bytes(p->grad));
    return be->ops->sync(be, r->err);
}

static bool refresh_parameter(struct refresh *r, size_t index)
{
    const struct parameter *p = model_trained(r->model, index);
    struct backend *be = model_backend(r->model);
    struct projection projection;

    if (p->moments[MOMENT_3].count == 0)
        return true;
    projection = optimizer_projection(r->settings, p->rows, p->cols);
    hold(&r->made, &r->made_room, projection.elements);
    heartbeat_tick(model_heartbeat(r->model));
    if (r->settings->random) {
        make_random(r, &projection, index);
    } else {
        if (!read_gradient(r, p))
            return false;
        if (!is_finite(r->gradient, p->rows * p->cols))
            return true;
        make_singular(r, &projection, p);
    }
    model_write_moment(r->model, MOMENT_3, p, r->made);
    /* the next parameter's is made in the same memory */
    return be->ops->sync(be, r->err);
}

bool optimizer_refresh(struct model *model, const struct plan *plan, struct error *err)
{
    const struct projection_settings *settings = optimizer_projects(plan);
    int64_t before = model_issued_step(model) - 1;
    struct refresh r = {
        .model = model,
        .plan = plan,
        .settings = settings,
        .interval = (uint64_t)(before / settings->interval),
        .err = err,
    };
    struct backend *be = model_backend(model);
    double start = clock_seconds(), seconds;
    bool ok;

    if (before % settings->interval != 0 && model_has_moments(model))
        return true;
    ok = be->ops->sync(be, err); /* projections in host memory may still be read */
    for (size_t i = 0; ok && i < model_trained_parameters(model); i++)
        ok = refresh_parameter(&r, i);
    free(r.gradient);
    free(r.made);
    seconds = clock_seconds() - start;
    if (ok && seconds > LONG)
        log_line(model_log(model), LOG_INFO, "%s: computed the projections in %.0f s",
                 optimizer_name(plan->optimizer), seconds);
    return ok;
}
