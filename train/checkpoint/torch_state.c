/* train/checkpoint/torch_state.c - optimizer, schedule and loss scale in the files of
 * transformers' Trainer. */
#include "config.h"

#include "train/checkpoint/torch_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "train/files/torch_file.h"
#include "train/model/shapes.h"

/* Parameter groups of the Trainer: those that decay, the others.  A group may be empty. */
enum { GROUPS = 2 };

/* Tensors of a parameter: its moments, and the count of its updates. */
enum { KEPT_STEP = MOMENTS_MAX, KEPT_COUNT };

struct torch_state {
    struct model *model;
    const struct plan *plan;
    const struct progress *progress;
    size_t *order; /* trained parameters, group after group */
    size_t counts[GROUPS];
};

static size_t group_of(const struct parameter *p)
{
    return p->decays ? 0 : 1;
}

static void find_order(struct torch_state *state)
{
    size_t count = model_trained_parameters(state->model), at = 0;
    size_t *all = memory_alloc((count + 1) * sizeof(*all));

    state->order = memory_alloc((count + 1) * sizeof(*state->order));
    model_torch_order(state->model, all);
    for (size_t group = 0; group < GROUPS; group++)
        for (size_t i = 0; i < count; i++) {
            if (group_of(model_parameter(state->model, all[i])) != group)
                continue;
            state->order[at++] = all[i];
            state->counts[group]++;
        }
    free(all);
}

static bool read_kept(const void *context, size_t index, void *to, struct error *err)
{
    const struct torch_state *state = context;
    size_t kept = index % KEPT_COUNT;
    float step = (float)state->progress->updates;

    if (kept != KEPT_STEP)
        return model_read_stored_moment(state->model, (enum moment)kept,
                                        model_parameter(state->model, index / KEPT_COUNT),
                                        to, err);
    memcpy(to, &step, sizeof(step));
    return true;
}

static void add_tensor(const struct torch_state *state, struct torch_file *file,
                       const char *name, size_t parameter, size_t kept)
{
    struct tensor_source source = { .rank = 0 };

    if (kept != KEPT_STEP) {
        const struct parameter *p = model_parameter(state->model, parameter);

        source = model_stored_shape(p);
        source.format = p->moments[kept].format;
    }
    source.read = read_kept;
    source.context = state;
    source.index = parameter * KEPT_COUNT + kept;
    pickle_text(torch_file_pickle(file), name);
    torch_file_add_tensor(file, &source);
}

/* {index: {"step": .., "exp_avg": .., "exp_avg_sq": ..}}; empty before the first update,
 * and for an optimizer without moments */
static void add_states(const struct torch_state *state, struct torch_file *file)
{
    struct text *out = torch_file_pickle(file);
    size_t moments = model_moments(state->model), count = 0;

    if (moments > 0 && state->progress->updates > 0)
        count = model_trained_parameters(state->model);
    pickle_open(out, PICKLE_DICT);
    for (size_t i = 0; i < count; i++) {
        pickle_int(out, (int64_t)i);
        pickle_open(out, PICKLE_DICT);
        add_tensor(state, file, "step", state->order[i], KEPT_STEP);
        for (size_t j = 0; j < moments; j++)
            add_tensor(state, file,
                       model_optimizer(state->model)->suffixes[j] + strlen("."),
                       state->order[i], j);
        pickle_close(out, PICKLE_DICT);
    }
    pickle_close(out, PICKLE_DICT);
}

static void add_real(struct text *out, const char *name, double value)
{
    pickle_text(out, name);
    pickle_real(out, value);
}

static void add_integer(struct text *out, const char *name, int64_t value)
{
    pickle_text(out, name);
    pickle_int(out, value);
}

static void add_setting(struct text *out, const struct torch_setting *setting,
                        const struct plan *plan)
{
    pickle_text(out, setting->name);
    switch (setting->value) {
    case TORCH_REAL:
        pickle_real(out, *(const double *)((const char *)plan + setting->from));
        break;
    case TORCH_BETAS:
        pickle_open(out, PICKLE_TUPLE);
        pickle_real(out, plan->adam_beta1);
        pickle_real(out, plan->adam_beta2);
        pickle_close(out, PICKLE_TUPLE);
        break;
    case TORCH_ZERO:
        pickle_int(out, 0);
        break;
    case TORCH_FALSE:
        pickle_bool(out, false);
        break;
    case TORCH_IS_FUSED:
        if (optimizer_torch_variant(plan->optim) == TORCH_FUSED) {
            pickle_bool(out, true);
            break;
        }
        /* fall through */
    case TORCH_NONE:
        pickle_none(out);
        break;
    }
}

static void add_group(const struct torch_state *state, struct text *out, size_t group)
{
    const struct plan *plan = state->plan;
    size_t first = group == 0 ? 0 : state->counts[0];

    pickle_open(out, PICKLE_DICT);
    add_real(out, "weight_decay", group == 0 ? plan->weight_decay : 0);
    add_real(out, "lr", state->progress->next_rate);
    for (const struct torch_setting *setting =
             model_optimizer(state->model)->torch_settings;
         setting->name; setting++)
        add_setting(out, setting, plan);
    add_real(out, "initial_lr", plan->learning_rate);
    pickle_text(out, "params");
    pickle_open(out, PICKLE_LIST);
    for (size_t i = 0; i < state->counts[group]; i++)
        pickle_int(out, (int64_t)(first + i));
    pickle_close(out, PICKLE_LIST);
    pickle_close(out, PICKLE_DICT);
}

static void add_optimizer(const struct torch_state *state, struct torch_file *file)
{
    struct text *out = torch_file_pickle(file);

    pickle_open(out, PICKLE_DICT);
    pickle_text(out, "state");
    add_states(state, file);
    pickle_text(out, "param_groups");
    pickle_open(out, PICKLE_LIST);
    for (size_t group = 0; group < GROUPS; group++)
        add_group(state, out, group);
    pickle_close(out, PICKLE_LIST);
    pickle_close(out, PICKLE_DICT);
}

static void add_per_group(struct text *out, const char *name, double value)
{
    pickle_text(out, name);
    pickle_open(out, PICKLE_LIST);
    for (size_t group = 0; group < GROUPS; group++)
        pickle_real(out, value);
    pickle_close(out, PICKLE_LIST);
}

/* torch.optim.lr_scheduler.LambdaLR.  The first of its steps is in its constructor.  A
 * function in lr_lambdas is saved as None. */
static void add_schedule(const struct torch_state *state, struct torch_file *file)
{
    struct text *out = torch_file_pickle(file);

    pickle_open(out, PICKLE_DICT);
    add_per_group(out, "base_lrs", state->plan->learning_rate);
    add_integer(out, "last_epoch", state->progress->updates);
    add_integer(out, "_step_count", state->progress->updates + 1);
    add_per_group(out, "_last_lr", state->progress->next_rate);
    pickle_text(out, "lr_lambdas");
    pickle_open(out, PICKLE_LIST);
    for (size_t group = 0; group < GROUPS; group++)
        pickle_none(out);
    pickle_close(out, PICKLE_LIST);
    pickle_close(out, PICKLE_DICT);
}

/* torch.amp.GradScaler */
static void add_scaler(const struct torch_state *state, struct torch_file *file)
{
    const struct scaler *scaler = &state->progress->scaler;
    struct text *out = torch_file_pickle(file);

    pickle_open(out, PICKLE_DICT);
    add_real(out, "scale", scaler->scale);
    add_real(out, "growth_factor", scaler->growth);
    add_real(out, "backoff_factor", scaler->backoff);
    add_integer(out, "growth_interval", scaler->interval);
    add_integer(out, "_growth_tracker", scaler->good);
    pickle_close(out, PICKLE_DICT);
}

static bool write_file(const struct torch_state *state, const char *dir, const char *base,
                       void (*add)(const struct torch_state *state,
                                   struct torch_file *file),
                       struct error *err)
{
    struct torch_file *file = torch_file_new();
    char *name = path_join(dir, base);
    bool ok;

    add(state, file);
    ok = torch_file_write(file, name, err);
    torch_file_free(file);
    free(name);
    return ok;
}

bool torch_state_check(const struct plan *plan, struct error *err)
{
    if (optimizer_has_key(plan->optimizer))
        return error_set(err, ERROR_JOB,
                         "use_%s cannot be combined with save_torch_state: "
                         "torch.optim does not have this optimizer",
                         optimizer_name(plan->optimizer));
    if (optimizer_torch_variant(plan->optim) == TORCH_OTHER)
        return error_set(err, ERROR_JOB,
                         "optim must be adamw_torch, adamw_torch_fused or sgd for "
                         "save_torch_state, not %s",
                         optimizer_names[plan->optim]);
    if (plan->schedule == SCHEDULE_REDUCE_ON_PLATEAU)
        return error_set(err, ERROR_JOB,
                         "lr_scheduler_type: reduce_lr_on_plateau cannot be combined "
                         "with save_torch_state");
    /* it makes other parameter groups (LLaMA-Factory, train/trainer_utils.py) */
    if (plan->method == METHOD_LORA && plan->loraplus_lr_ratio > 0)
        return error_set(err, ERROR_JOB,
                         "loraplus_lr_ratio cannot be combined with save_torch_state: "
                         "transformers' Trainer has one learning rate");
    return true;
}

bool torch_state_write(struct model *model, const char *dir, const struct plan *plan,
                       const struct progress *progress, struct error *err)
{
    struct torch_state state = { .model = model, .plan = plan, .progress = progress };
    bool ok;

    find_order(&state);
    ok = write_file(&state, dir, "optimizer.pt", add_optimizer, err) &&
         write_file(&state, dir, "scheduler.pt", add_schedule, err) &&
         /* without a loss scale the Trainer has no scaler and fails on its state */
         (progress->scaler.scaling != SCALING_DYNAMIC ||
          write_file(&state, dir, "scaler.pt", add_scaler, err));
    free(state.order);
    return ok;
}
