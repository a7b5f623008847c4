/* train/model/optimizer_table.c - one row per optimizer, and the names that jobs use for
 * it. */
#include "config.h"

#include "train/model/optimizer_table.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "kernels/backend.h"
#include "train/model/optimizer_muon.h"
#include "train/model/optimizer_projected.h"

static struct op_adamw adamw_of(const struct optimizer_update *u)
{
    const struct plan *plan = u->plan;

    return (struct op_adamw) {
        .w = u->w,
        .grad = u->grad,
        .m = u->moments[MOMENT_1],
        .v = u->moments[MOMENT_2],
        .copy = u->copy,
        .lr = u->lr_factor,
        .beta1 = plan->adam_beta1,
        .beta2 = plan->adam_beta2,
        .eps = plan->adam_epsilon,
        .decay = u->decay,
        .grad_scale = 1,
        .numbers = u->scalars,
        .stochastic = plan->precision.mode == MODE_BF16_PURE,
        .seed = (uint64_t)plan->seed,
        .first = u->first,
    };
}

static void update_adamw(struct backend *be, const struct optimizer_update *u)
{
    const struct op_adamw op = adamw_of(u);

    be->ops->adamw(be, &op);
}

static void update_adamw_8bit(struct backend *be, const struct optimizer_update *u)
{
    const struct plan *plan = u->plan;
    const struct op_adamw_8bit op = {
        .w = u->w,
        .grad = u->grad,
        .m = u->moments[MOMENT_1],
        .v = u->moments[MOMENT_2],
        .m_absmax = u->moments[MOMENT_3],
        .v_absmax = u->moments[MOMENT_4],
        .copy = u->copy,
        .lr = u->lr_factor,
        .beta1 = plan->adam_beta1,
        .beta2 = plan->adam_beta2,
        .eps = plan->adam_epsilon,
        .decay = u->decay,
        .grad_scale = 1,
        .numbers = u->scalars,
        .stochastic = plan->precision.mode == MODE_BF16_PURE,
        .seed = (uint64_t)plan->seed,
        .first = u->first,
    };

    if (op.m.format == FORMAT_CODES)
        be->ops->adamw_8bit(be, &op);
    else
        update_adamw(be, u);
}

static void update_lion(struct backend *be, const struct optimizer_update *u)
{
    const struct plan *plan = u->plan;
    const struct op_lion op = {
        .w = u->w,
        .grad = u->grad,
        .m = u->moments[MOMENT_1],
        .copy = u->copy,
        .lr = u->lr_factor,
        .beta1 = plan->adam_beta1,
        .beta2 = plan->adam_beta2,
        .decay = u->decay,
        .grad_scale = 1,
        .numbers = u->scalars,
        .stochastic = plan->precision.mode == MODE_BF16_PURE,
        .seed = (uint64_t)plan->seed,
        .first = u->first,
    };
    const struct op_lion_8bit codes = {
        op.w,          op.grad,  op.m,     u->moments[MOMENT_2], op.copy, op.lr,
        op.beta1,      op.beta2, op.decay, op.grad_scale,        op.step, op.numbers,
        op.stochastic, op.seed,  op.first,
    };

    if (op.m.format == FORMAT_CODES)
        be->ops->lion_8bit(be, &codes);
    else
        be->ops->lion(be, &op);
}

static void update_adafactor(struct backend *be, const struct optimizer_update *u)
{
    const struct op_adafactor op = {
        .w = u->w,
        .grad = u->grad,
        .row = u->moments[MOMENT_1],
        .col = u->moments[MOMENT_2],
        .v = u->moments[MOMENT_3],
        .copy = u->copy,
        .lr = u->lr_factor,
        .decay = u->decay,
        .grad_scale = 1,
        .numbers = u->scalars,
        .stochastic = u->plan->precision.mode == MODE_BF16_PURE,
        .seed = (uint64_t)u->plan->seed,
        .first = u->first,
    };

    be->ops->adafactor(be, &op);
}

static void update_sgd(struct backend *be, const struct optimizer_update *u)
{
    const struct op_sgd op = {
        .w = u->w,
        .grad = u->grad,
        .copy = u->copy,
        .lr = u->lr_factor,
        .decay = u->decay,
        .grad_scale = 1,
        .numbers = u->scalars,
        .stochastic = u->plan->precision.mode == MODE_BF16_PURE,
        .seed = (uint64_t)u->plan->seed,
        .first = u->first,
    };

    be->ops->sgd(be, &op);
}

/* Its AdamW decays all weights, as it does itself, and adds epsilon before it corrects the
 * second moment. */
static void update_muon(struct backend *be, const struct optimizer_update *u)
{
    struct op_adamw op = adamw_of(u);

    op.decay = u->plan->weight_decay;
    op.correct_eps = true;
    if (u->moments[MOMENT_2].data)
        be->ops->adamw(be, &op);
    else
        optimizer_muon_update(be, u);
}

static void update_adam_mini(struct backend *be, const struct optimizer_update *u)
{
    const struct plan *plan = u->plan;
    const size_t count = u->w.rows * u->w.cols, means = u->moments[MOMENT_2].cols;
    const struct op_adam_mini op = {
        .w = u->w,
        .grad = u->grad,
        .m = u->moments[MOMENT_1],
        .v = u->moments[MOMENT_2],
        .copy = u->copy,
        .block = count / means,
        .lr = u->lr_factor,
        .beta1 = plan->adam_beta1,
        .beta2 = plan->adam_beta2,
        .eps = plan->adam_epsilon,
        .decay = u->decay,
        .grad_scale = 1,
        .numbers = u->scalars,
        .stochastic = plan->precision.mode == MODE_BF16_PURE,
        .seed = (uint64_t)plan->seed,
        .first = u->first,
    };

    be->ops->adam_mini(be, &op);
}

/* Its AdamW is transformers' former one. */
static void update_projected(struct backend *be, const struct optimizer_update *u)
{
    struct op_adamw op = adamw_of(u);

    op.correct_eps = op.decay_last = true;
    if (u->moments[MOMENT_3].data)
        optimizer_projected_update(be, u);
    else
        be->ops->adamw(be, &op);
}

static void update_schedule_free(struct backend *be, const struct optimizer_update *u)
{
    const struct plan *plan = u->plan;
    const struct op_schedule_free op = {
        .w = u->w,
        .grad = u->grad,
        .v = u->moments[MOMENT_1],
        .z = u->moments[MOMENT_2],
        .x = u->moments[MOMENT_3],
        .copy = u->copy,
        .lr = u->lr_factor,
        .beta1 = plan->adam_beta1,
        .beta2 = plan->adam_beta2,
        .eps = plan->adam_epsilon,
        .decay = u->decay,
        .grad_scale = 1,
        .numbers = u->scalars,
    };

    be->ops->schedule_free(be, &op);
}

/* In the order of torch 2.6. */
static const struct torch_setting adamw_settings[] = {
    { .name = "betas", .value = TORCH_BETAS },
    { "eps", TORCH_REAL, offsetof(struct plan, adam_epsilon) },
    { .name = "amsgrad", .value = TORCH_FALSE },
    { .name = "foreach", .value = TORCH_NONE },
    { .name = "maximize", .value = TORCH_FALSE },
    { .name = "capturable", .value = TORCH_FALSE },
    { .name = "differentiable", .value = TORCH_FALSE },
    { .name = "fused", .value = TORCH_IS_FUSED },
    { .name = NULL },
};
static const struct torch_setting sgd_settings[] = {
    { .name = "momentum", .value = TORCH_ZERO },
    { .name = "dampening", .value = TORCH_ZERO },
    { .name = "nesterov", .value = TORCH_FALSE },
    { .name = "maximize", .value = TORCH_FALSE },
    { .name = "foreach", .value = TORCH_NONE },
    { .name = "differentiable", .value = TORCH_FALSE },
    { .name = "fused", .value = TORCH_IS_FUSED },
    { .name = NULL },
};

/* Suffixes are the names of the moments in the state of torch.optim.AdamW. */
static const struct optimizer adamw = {
    .moments = 2,
    .kinds = { MOMENT_AS_WEIGHT, MOMENT_AS_WEIGHT },
    .suffixes = { ".exp_avg", ".exp_avg_sq" },
    .divides = true,
    .update_bytes = 28,
    .torch_settings = adamw_settings,
    .update = update_adamw,
};
/* Suffixes are the names in the state of bitsandbytes' optimizers. */
static const struct optimizer adamw_8bit = {
    .moments = 4,
    .kinds = { MOMENT_CODES, MOMENT_CODES, MOMENT_ABSMAX, MOMENT_ABSMAX },
    .suffixes = { ".state1", ".state2", ".absmax1", ".absmax2" },
    .divides = true,
    .update_bytes = 16,
    .torch_settings = adamw_settings,
    .update = update_adamw_8bit,
};
static const struct optimizer lion = {
    .moments = 1,
    .kinds = { MOMENT_AS_WEIGHT },
    .suffixes = { ".state1" },
    .reads = "adam_beta1 adam_beta2",
    .update_bytes = 20,
    .update = update_lion,
};
static const struct optimizer lion_8bit = {
    .moments = 2,
    .kinds = { MOMENT_CODES, MOMENT_ABSMAX },
    .suffixes = { ".state1", ".absmax1" },
    .reads = "adam_beta1 adam_beta2",
    .update_bytes = 14,
    .update = update_lion,
};
/* Suffixes are the names in the state of transformers.Adafactor. */
static const struct optimizer adafactor = {
    .moments = 3,
    .kinds = { MOMENT_ROWS, MOMENT_COLUMNS, MOMENT_VECTORS },
    .suffixes = { ".exp_avg_sq_row", ".exp_avg_sq_col", ".exp_avg_sq" },
    .reads = "",
    .whole = true,
    .update_bytes = 24,
    .update = update_adafactor,
};
static const struct optimizer muon = {
    .moments = 3,
    .kinds = { MOMENT_AS_WEIGHT, MOMENT_NOT_MUON, MOMENT_SCRATCH },
    .suffixes = { ".momentum", ".moment2", NULL },
    .divides = true,
    .whole = true,
    .update_bytes = 40,
    .update = update_muon,
};
/* Suffixes are the names in the state of the package adam_mini. */
static const struct optimizer adam_mini = {
    .moments = 2,
    .kinds = { MOMENT_AS_WEIGHT, MOMENT_MEANS },
    .suffixes = { ".m", ".vmean" },
    .divides = true,
    .whole = true,
    .update_bytes = 24,
    .update = update_adam_mini,
};
/* Suffixes are the names in the state of galore_torch and apollo_torch. */
static const struct optimizer galore = {
    .moments = 4,
    .kinds = { MOMENT_PROJECTED, MOMENT_PROJECTED, MOMENT_PROJECTION,
               MOMENT_PROJECTED_SCRATCH },
    .suffixes = { ".exp_avg", ".exp_avg_sq", ".ortho_matrix", NULL },
    .divides = true,
    .whole = true,
    .projection = offsetof(struct plan, galore),
    .update_bytes = 24,
    .update = update_projected,
};
static const struct optimizer apollo = {
    .moments = 5,
    .kinds = { MOMENT_PROJECTED, MOMENT_PROJECTED, MOMENT_PROJECTION, MOMENT_NORM,
               MOMENT_PROJECTED_SCRATCH },
    .suffixes = { ".exp_avg", ".exp_avg_sq", ".ortho_matrix", ".scaled_grad", NULL },
    .divides = true,
    .whole = true,
    .projection = offsetof(struct plan, apollo),
    .update_bytes = 24,
    .update = update_projected,
};
/* The first two suffixes are the names in the state of the package schedulefree. */
static const struct optimizer schedule_free = {
    .moments = 3,
    .kinds = { MOMENT_AS_WEIGHT, MOMENT_AS_WEIGHT, MOMENT_AS_WEIGHT },
    .suffixes = { ".exp_avg_sq", ".z", ".x" },
    .divides = true,
    .averages = true,
    .update_bytes = 36,
    .update = update_schedule_free,
};
static const struct optimizer sgd = {
    .reads = "", .update_bytes = 12, .torch_settings = sgd_settings, .update = update_sgd
};

/* Name, row, whether the library that uses this name stores its moments in our format,
 * and what transformers' Trainer makes of it (trainer_optimizer.py, trainer.py).  The
 * first name is the default; messages list the names in this order. */
#define OPTIMIZERS(X)                                    \
    X("adamw_torch", adamw, true, TORCH_PLAIN)           \
    X("sgd", sgd, true, TORCH_PLAIN)                     \
    X("adamw_torch_fused", adamw, true, TORCH_FUSED)     \
    X("adamw_hf", adamw, true, TORCH_OTHER)              \
    X("adamw_apex_fused", adamw, true, TORCH_OTHER)      \
    X("adamw_8bit", adamw_8bit, true, TORCH_OTHER)       \
    X("adamw_bnb_8bit", adamw_8bit, true, TORCH_OTHER)   \
    X("paged_adamw_8bit", adamw_8bit, true, TORCH_OTHER) \
    X("paged_adamw_32bit", adamw, true, TORCH_OTHER)     \
    X("adamw_torch_8bit", adamw_8bit, true, TORCH_OTHER) \
    X("adamw_torch_4bit", adamw, false, TORCH_OTHER)     \
    X("adamw_torch_xla", adamw, true, TORCH_OTHER)       \
    X("adamw_torch_npu_fused", adamw, true, TORCH_OTHER) \
    X("lion_32bit", lion, true, TORCH_OTHER)             \
    X("lion", lion, true, TORCH_OTHER)                   \
    X("lion_8bit", lion_8bit, true, TORCH_OTHER)         \
    X("paged_lion_32bit", lion, true, TORCH_OTHER)       \
    X("paged_lion_8bit", lion_8bit, true, TORCH_OTHER)   \
    X("adafactor", adafactor, true, TORCH_OTHER)         \
    X("adamw_anyprecision", adamw, false, TORCH_OTHER)   \
    X("schedule_free_adamw", schedule_free, true, TORCH_OTHER)

#define KEYS(X)                                  \
    X("adam_mini", adam_mini, true, TORCH_OTHER) \
    X("muon", muon, true, TORCH_OTHER)           \
    X("galore", galore, true, TORCH_OTHER)       \
    X("apollo", apollo, true, TORCH_OTHER)

#define NAME(name, row, exact, torch) name,
#define ROW(name, row, exact, torch)  { &row, exact, torch },

const char *const optimizer_names[] = { OPTIMIZERS(NAME) NULL };
const char *const optimizer_keys[] = { KEYS(NAME) NULL };

/* In the order of optimizer_names, then of optimizer_keys. */
static const struct {
    const struct optimizer *optimizer;
    bool exact;
    enum torch_variant torch;
} rows[] = { OPTIMIZERS(ROW) KEYS(ROW) };

int optimizer_find(const char *name)
{
    for (int i = 0; optimizer_names[i]; i++)
        if (strcmp(optimizer_names[i], name) == 0)
            return i;
    for (int i = 0; optimizer_keys[i]; i++)
        if (strcmp(optimizer_keys[i], name) == 0)
            return (int)TS_COUNT(optimizer_names) - 1 + i;
    return -1;
}

bool optimizer_has_key(int index)
{
    return index >= (int)TS_COUNT(optimizer_names) - 1;
}

const char *optimizer_name(int index)
{
    return optimizer_has_key(index)
               ? optimizer_keys[index - ((int)TS_COUNT(optimizer_names) - 1)]
               : optimizer_names[index];
}

int optimizer_first_name(int index)
{
    int first = 0;

    while (rows[first].optimizer != rows[index].optimizer)
        first++;
    return first;
}

bool optimizer_is_exact(int index)
{
    return rows[index].exact;
}

bool optimizer_is_paged(int index)
{
    return text_starts(optimizer_names[index], "paged_");
}

enum torch_variant optimizer_torch_variant(int index)
{
    return rows[index].torch;
}

const struct optimizer *optimizer_of(const struct plan *plan)
{
    return rows[plan->optimizer].optimizer;
}

const char *optimizer_reads(const struct plan *plan)
{
    const struct optimizer *optimizer = optimizer_of(plan);

    /* Muon's AdamW updates what is no matrix, which adapters are */
    if (optimizer == &muon && plan_adapts(plan) && !plan->additional_target)
        return "";
    return optimizer->reads ? optimizer->reads : "adam_beta1 adam_beta2 adam_epsilon";
}

const struct projection_settings *optimizer_projects(const struct plan *plan)
{
    size_t at = optimizer_of(plan)->projection;

    return at ? (const struct projection_settings *)((const char *)plan + at) : NULL;
}

bool optimizer_has_codes(const struct optimizer *optimizer)
{
    for (size_t i = 0; i < optimizer->moments; i++)
        if (optimizer->kinds[i] == MOMENT_CODES)
            return true;
    return false;
}
