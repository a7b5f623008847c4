/* train/model/optimizer_projected.c - GaLore and APOLLO as LLaMA-Factory has them
 * (train/trainer_utils.py): galore_torch 1.0, apollo_torch 1.0.3. */
#include "config.h"

#include "train/model/optimizer_projected.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "kernels/backend.h"

/* GaLore's update of a matrix is made in rows of this many elements, so that its scratch
 * does not grow with the model. */
#define CHUNK ((size_t)4 << 20)
/* Parts of the scratch start aligned. */
enum { ALIGNMENT = 64 };

bool optimizer_projects_name(const struct projection_settings *settings, const char *name)
{
    size_t len = strlen(name) - strlen(".weight");

    if (strcmp(settings->target, "all") == 0)
        return !strstr(name, "lm_head");
    for (const char *at = settings->target; *at;) {
        size_t skip = strspn(at, ", "), part = strcspn(at + skip, ", ");

        for (size_t i = 0; part > 0 && i + part <= len; i++)
            if (strncmp(name + i, at + skip, part) == 0)
                return true;
        at += skip + part;
    }
    return false;
}

struct projection optimizer_projection(const struct projection_settings *settings,
                                       size_t rows, size_t cols)
{
    bool tall = rows >= cols, full = settings->side == PROJECTION_FULL;
    struct projection p = {
        .left = settings->side == PROJECTION_LEFT || full ||
                (settings->side == PROJECTION_STD && !tall) ||
                (settings->side == PROJECTION_REVERSE_STD && tall),
        .rank = size_min((size_t)settings->rank, size_min(rows, cols)),
    };

    p.right = !p.left || full;
    p.rows = p.left ? p.rank : rows;
    p.cols = p.right ? p.rank : cols;
    p.elements = (p.left ? rows * p.rank : 0) + (p.right ? p.rank * cols : 0);
    return p;
}

/* What an update needs besides its moments. */
struct room {
    struct tensor x, out;        /* the projected gradient; Adam's update of it */
    struct tensor half;          /* with both sides: p^T g, or out q */
    struct tensor chunk;         /* GaLore: rows of the update */
    struct tensor factor, limit; /* APOLLO */
    size_t elements;
};

static struct tensor take(struct room *room, float *data, size_t rows, size_t cols)
{
    struct tensor t =
        tensor_of(data ? data + room->elements : NULL, FORMAT_FP32, rows, cols);

    room->elements += size_round(rows * cols, ALIGNMENT);
    return t;
}

/* APOLLO has a norm, and updates by the gradient itself. */
static bool is_apollo(const struct plan *plan)
{
    return optimizer_of(plan)->kinds[MOMENT_4] == MOMENT_NORM;
}

static struct room room_of(const struct plan *plan, size_t rows, size_t cols, float *data)
{
    const struct projection_settings *settings = optimizer_projects(plan);
    struct projection p = optimizer_projection(settings, rows, cols);
    struct room room = { .elements = 0 };

    room.x = room.out = take(&room, data, p.rows, p.cols);
    if (p.left && p.right)
        room.half = take(&room, data, p.rank, cols);
    if (is_apollo(plan)) {
        room.out = take(&room, data, p.rows, p.cols);
        room.factor = take(&room, data, settings->whole_scale || p.left ? 1 : p.rows,
                           settings->whole_scale || !p.left ? 1 : p.cols);
        room.limit = take(&room, data, 1, 1);
    } else {
        size_t each = size_min(rows, CHUNK / cols > 0 ? CHUNK / cols : 1);

        room.chunk = take(&room, data, each, cols);
    }
    return room;
}

size_t optimizer_projected_scratch(const struct plan *plan, size_t rows, size_t cols)
{
    return room_of(plan, rows, cols, NULL).elements;
}

/* out = a b */
static void multiply(struct backend *be, struct tensor out, struct op_matmul operands)
{
    operands.out = out;
    operands.alpha = 1;
    be->ops->matmul(be, &operands);
}

/* The two sides of a projection, if they exist. */
struct sides {
    struct tensor p, q;
};

static struct sides sides_of(const struct optimizer_update *u, const struct projection *p)
{
    float *data = u->moments[MOMENT_3].data;
    size_t left = p->left ? u->w.rows * p->rank : 0;

    return (struct sides) {
        tensor_of(p->left ? data : NULL, FORMAT_FP32, u->w.rows, p->rank),
        tensor_of(p->right ? data + left : NULL, FORMAT_FP32, p->rank, u->w.cols),
    };
}

static void project(struct backend *be, const struct optimizer_update *u,
                    const struct sides *sides, const struct room *room)
{
    bool both = sides->p.data && sides->q.data;

    if (sides->p.data)
        multiply(be, both ? room->half : room->x,
                 (struct op_matmul) { .a = sides->p, .b = u->grad, .trans_a = true });
    if (sides->q.data)
        multiply(be, room->x,
                 (struct op_matmul) {
                     .a = both ? room->half : u->grad, .b = sides->q, .trans_b = true });
}

static struct op_projected_end end_of(const struct optimizer_update *u)
{
    const struct plan *plan = u->plan;

    return (struct op_projected_end) {
        .w = u->w,
        .copy = u->copy,
        .lr = u->lr_factor,
        .beta1 = plan->adam_beta1,
        .beta2 = plan->adam_beta2,
        .scale = 1,
        .decay = u->decay,
        .numbers = u->scalars,
        .stochastic = plan->precision.mode == MODE_BF16_PURE,
        .seed = (uint64_t)plan->seed,
        .first = u->first,
    };
}

/* Project the update back, and apply it, a chunk of rows at a time. */
static void end_galore(struct backend *be, const struct optimizer_update *u,
                       const struct sides *sides, const struct room *room)
{
    struct op_projected_end end = end_of(u);
    bool both = sides->p.data && sides->q.data;

    end.scale = optimizer_projects(u->plan)->scale;
    if (both)
        multiply(be, room->half, (struct op_matmul) { .a = room->out, .b = sides->q });
    for (size_t at = 0, rows; at < u->w.rows; at += rows) {
        rows = size_min(room->chunk.rows, u->w.rows - at);
        end.x = tensor_rows(room->chunk, 0, rows);
        if (sides->p.data)
            multiply(be, end.x,
                     (struct op_matmul) { .a = tensor_rows(sides->p, at, rows),
                                          .b = both ? room->half : room->out });
        else
            multiply(be, end.x,
                     (struct op_matmul) { .a = tensor_rows(room->out, at, rows),
                                          .b = sides->q });
        end.w = tensor_rows(u->w, at, rows);
        if (u->copy.data)
            end.copy = tensor_rows(u->copy, at, rows);
        end.first = u->first + at * u->w.cols;
        be->ops->projected_end(be, &end);
    }
}

/* Scale the gradient as much as Adam scales the projected one, and apply it. */
static void end_apollo(struct backend *be, const struct optimizer_update *u,
                       const struct room *room)
{
    const struct projection_settings *settings = optimizer_projects(u->plan);
    double scale = sqrt(settings->scale);
    struct op_projected_end end = end_of(u);

    be->ops->apollo_factors(be, &(struct op_apollo_factors) { .factor = room->factor,
                                                              .out = room->out,
                                                              .x = room->x });
    be->ops->apollo_limit(
        be, &(struct op_apollo_limit) { .limit = room->limit,
                                        .norm = u->moments[MOMENT_4],
                                        .grad = u->grad,
                                        .factor = room->factor,
                                        .scale = settings->scale_front ? scale : 1,
                                        .grad_scale = 1,
                                        .numbers = u->scalars });
    end.x = u->grad;
    end.factor = room->factor;
    end.limit = room->limit;
    end.scale = scale;
    be->ops->projected_end(be, &end);
}

void optimizer_projected_update(struct backend *be, const struct optimizer_update *u)
{
    const struct plan *plan = u->plan;
    const size_t last = optimizer_of(plan)->moments - 1;
    struct projection p =
        optimizer_projection(optimizer_projects(plan), u->w.rows, u->w.cols);
    struct room room = room_of(plan, u->w.rows, u->w.cols, u->moments[last].data);
    struct sides sides = sides_of(u, &p);

    project(be, u, &sides, &room);
    be->ops->projected_adam(be, &(struct op_projected_adam) { .out = room.out,
                                                              .x = room.x,
                                                              .m = u->moments[MOMENT_1],
                                                              .v = u->moments[MOMENT_2],
                                                              .beta1 = plan->adam_beta1,
                                                              .beta2 = plan->adam_beta2,
                                                              .eps = plan->adam_epsilon,
                                                              .grad_scale = 1,
                                                              .numbers = u->scalars });
    if (is_apollo(plan))
        end_apollo(be, u, &room);
    else
        end_galore(be, u, &sides, &room);
}
