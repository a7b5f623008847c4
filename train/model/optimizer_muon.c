/* train/model/optimizer_muon.c - Muon as LLaMA-Factory has it (third_party/muon/muon.py,
 * train/trainer_utils.py): orthogonal updates of matrices, AdamW of the rest. */
#include "config.h"

#include "train/model/optimizer_muon.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "kernels/backend.h"

/* muon.py: defaults; coefficients of the quintic iteration; the scale that makes an update
 * as large as AdamW's. */
#define MOMENTUM 0.95
enum { ITERATIONS = 5 };
#define SCALE 0.2

static const float quintic[] = { 3.4445f, -4.7750f, 2.0315f };

bool optimizer_muon_applies(const char *name, size_t rank)
{
    return rank == 2 && !strstr(name, "embed") && !strstr(name, "lm_head");
}

/* Elements of one of the two matrices of the size of the parameter, and of the two
 * products; each starts aligned. */
struct room {
    size_t whole, small;
};

static struct room room_of(size_t rows, size_t cols)
{
    size_t side = size_min(rows, cols);

    return (struct room) { size_round(rows * cols, 64), size_round(side * side, 64) };
}

size_t optimizer_muon_scratch(size_t rows, size_t cols)
{
    struct room room = room_of(rows, cols);

    return 2 * room.whole + 2 * room.small;
}

/* Matrices of an iteration: x and what it becomes; the smaller of x x^T and x^T x, and the
 * polynomial of it. */
struct iteration {
    struct tensor x, next, gram, poly;
};

static struct iteration iteration_of(struct tensor scratch, size_t rows, size_t cols)
{
    size_t side = size_min(rows, cols), bytes = format_info(scratch.format)->bytes;
    struct room room = room_of(rows, cols);
    char *at = scratch.data;
    enum format format = scratch.format;

    return (struct iteration) {
        .x = tensor_of(at, format, rows, cols),
        .next = tensor_of(at + room.whole * bytes, format, rows, cols),
        .gram = tensor_of(at + 2 * room.whole * bytes, format, side, side),
        .poly = tensor_of(at + (2 * room.whole + room.small) * bytes, format, side, side),
    };
}

static void scale(struct backend *be, struct tensor out, struct tensor x, float factor)
{
    be->ops->scale(be, &(struct op_scale) { .out = out, .x = x, .factor = factor });
}

/* x = a x + (b g + c g^2) x with g = x x^T, or from the right with x^T x. */
static void iterate(struct backend *be, struct iteration *it)
{
    bool wide = it->x.rows <= it->x.cols;
    struct tensor x = it->x;

    be->ops->matmul(be, &(struct op_matmul) { .out = it->gram,
                                              .a = x,
                                              .b = x,
                                              .trans_a = !wide,
                                              .trans_b = wide,
                                              .alpha = 1 });
    scale(be, it->poly, it->gram, quintic[1]);
    be->ops->matmul(be, &(struct op_matmul) { .out = it->poly,
                                              .a = it->gram,
                                              .b = it->gram,
                                              .alpha = quintic[2],
                                              .beta = 1 });
    scale(be, it->next, x, quintic[0]);
    be->ops->matmul(be, &(struct op_matmul) { .out = it->next,
                                              .a = wide ? it->poly : x,
                                              .b = wide ? x : it->poly,
                                              .alpha = 1,
                                              .beta = 1 });
    it->x = it->next;
    it->next = x;
}

void optimizer_muon_update(struct backend *be, const struct optimizer_update *u)
{
    const struct plan *plan = u->plan;
    struct iteration it = iteration_of(u->moments[MOMENT_3], u->w.rows, u->w.cols);
    double longer = (double)(u->w.rows > u->w.cols ? u->w.rows : u->w.cols);

    be->ops->muon_begin(be, &(struct op_muon_begin) { .x = it.x,
                                                      .grad = u->grad,
                                                      .m = u->moments[MOMENT_1],
                                                      .momentum = MOMENTUM,
                                                      .grad_scale = 1,
                                                      .numbers = u->scalars });
    for (int i = 0; i < ITERATIONS; i++)
        iterate(be, &it);
    be->ops->muon_end(be, &(struct op_muon_end) {
                              .w = u->w,
                              .x = it.x,
                              .copy = u->copy,
                              .lr = u->lr_factor,
                              .scale = SCALE * sqrt(longer),
                              .decay = plan->weight_decay,
                              .numbers = u->scalars,
                              .stochastic = plan->precision.mode == MODE_BF16_PURE,
                              .seed = (uint64_t)plan->seed,
                              .first = u->first,
                          });
}
