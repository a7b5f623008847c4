/* train/checkpoint/progress.c - progress of a run as JSON. */
#include "config.h"

#include "train/checkpoint/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "train/model/optimizer_table.h"

#define STATE_MAX         ((size_t)256 << 20)
#define STATE_NAME        "trainspool_state.json"
#define HUGGING_FACE_NAME "trainer_state.json"

void progress_history_add(struct progress_history *history, const struct logged *entry)
{
    if (history->count == history->room) {
        history->room = history->room ? history->room * 2 : 64;
        history->list =
            memory_resize(history->list, history->room, sizeof(*history->list));
    }
    history->list[history->count++] = *entry;
}

void progress_history_clear(struct progress_history *history)
{
    free(history->list);
    *history = (struct progress_history) { 0 };
}

double progress_history_loss(const struct progress_history *history)
{
    double loss = NAN;

    for (size_t i = 0; i < history->count; i++)
        if (!history->list[i].evaluation)
            loss = history->list[i].loss;
    return loss;
}

/* Read a double that may be a word such as "NaN" (json_number). */
static double number_of(const json_t *object, const char *key, double default_value)
{
    const json_t *value = json_object_get(object, key);
    const char *word = json_string_value(value);

    if (json_is_number(value))
        return json_number_value(value);
    if (!word)
        return default_value;
    return strcmp(word, "Infinity") == 0    ? INFINITY
           : strcmp(word, "-Infinity") == 0 ? -INFINITY
                                            : NAN;
}

void progress_rewards_json(const struct rewards *rewards, const char *prefix,
                           json_t *object)
{
    char name[64];

    for (int i = 0; i < REWARDS; i++) {
        if (!rewards_show(rewards, (enum reward)i))
            continue;
        snprintf(name, sizeof(name), "%s%s", prefix,
                 (rewards->names ? rewards->names : reward_names)[i]);
        json_object_set_new(object, name, json_number(rewards->values[i]));
    }
}

/* The share of good answers, for rewards_show of what an entry shows. */
static double good_of(const json_t *object, const char *prefix)
{
    char chosen[64], rejected[64];

    snprintf(chosen, sizeof(chosen), "%s%s", prefix, reward_names[REWARD_CHOSEN]);
    snprintf(rejected, sizeof(rejected), "%s%s", prefix, reward_names[REWARD_REJECTED]);
    return !json_object_get(object, chosen)     ? 0
           : !json_object_get(object, rejected) ? 1
                                                : 0.5;
}

/* Return the names of the rewards in an object; no other stage than grpo has the first. */
static const char *const *names_of(const json_t *object, const char *prefix)
{
    char name[64];

    snprintf(name, sizeof(name), "%s%s", prefix, sampled_names[SAMPLED_REWARD]);
    return json_object_get(object, name) ? sampled_names : reward_names;
}

/* Read rewards.  False if the object has none. */
static bool rewards_read(const json_t *object, const char *prefix, struct rewards *out)
{
    const char *const *names = names_of(object, prefix);
    char name[64];
    bool there = false;

    out->names = names == sampled_names ? names : NULL;
    for (int i = 0; i < REWARDS; i++) {
        out->values[i] = out->names || i < REWARD_KL ? NAN : 0;
        if (!names[i])
            continue;
        snprintf(name, sizeof(name), "%s%s", prefix, names[i]);
        there = there || json_object_get(object, name);
        out->values[i] = number_of(object, name, out->values[i]);
        out->feedback |= !out->names && i == REWARD_KL && json_object_get(object, name);
    }
    if (out->feedback)
        out->values[REWARD_GOOD] = good_of(object, prefix);
    return there;
}

/* Sums of a window that is not complete: all of them. */
static json_t *window_rewards_json(const struct rewards *rewards)
{
    const char *const *names = rewards->names ? rewards->names : reward_names;
    json_t *object = json_object();

    for (int i = 0; i < REWARDS; i++)
        if (rewards->names ? rewards_show(rewards, (enum reward)i)
                           : rewards->feedback || i < REWARD_KL)
            json_object_set_new(object, names[i], json_number(rewards->values[i]));
    return object;
}

static struct rewards window_rewards_read(const json_t *object)
{
    const char *const *names = names_of(object, "");
    struct rewards rewards = { .names = names == sampled_names ? names : NULL };

    for (int i = 0; i < REWARDS; i++)
        if (names[i])
            rewards.values[i] = number_of(object, names[i], rewards.names ? NAN : 0);
    rewards.feedback =
        !rewards.names && json_object_get(object, reward_names[REWARD_KL]) != NULL;
    return rewards;
}

void progress_evaluation_json(const struct evaluation *evaluation, json_t *object)
{
    if (evaluation->measures)
        json_object_set_new(object, "eval_accuracy", json_number(evaluation->accuracy));
    if (evaluation->answers)
        json_object_set_new(object, "eval_answer_rate",
                            json_number(evaluation->answer_rate));
    if (!evaluation->rewards.names)
        json_object_set_new(object, "eval_loss", json_number(evaluation->loss));
    if (evaluation->prefers)
        progress_rewards_json(&evaluation->rewards, "eval_", object);
}

static json_t *entry_json(const struct logged *entry)
{
    json_t *object = json_object();

    json_object_set_new(object, "epoch", json_number(entry->epoch));
    if (entry->evaluation) {
        progress_evaluation_json(&entry->evaluated, object);
    } else {
        if (entry->distilled) {
            json_object_set_new(object, "ce_loss", json_number(entry->ce_loss));
            json_object_set_new(object, "kd_loss", json_number(entry->kd_loss));
        }
        json_object_set_new(object, "grad_norm", json_number(entry->grad_norm));
        json_object_set_new(object, "learning_rate", json_number(entry->learning_rate));
        json_object_set_new(object, "loss", json_number(entry->loss));
        if (entry->prefers)
            progress_rewards_json(&entry->rewards, "", object);
    }
    json_object_set_new(object, "step", json_integer(entry->step));
    return object;
}

static void entry_read(const json_t *object, struct progress_history *history)
{
    struct logged entry = {
        .evaluation = json_object_get(object, "eval_loss") ||
                      json_object_get(object, "eval_reward"),
        .step = json_get_int(object, "step", 0, HUGGING_FACE_NAME, NULL),
        .epoch = number_of(object, "epoch", 0),
        .grad_norm = number_of(object, "grad_norm", NAN),
        .learning_rate = number_of(object, "learning_rate", NAN),
        .distilled = json_object_get(object, "kd_loss") != NULL,
        .ce_loss = number_of(object, "ce_loss", NAN),
        .kd_loss = number_of(object, "kd_loss", NAN),
    };

    entry.loss = number_of(object, "loss", NAN);
    entry.evaluated = (struct evaluation) {
        .loss = number_of(object, "eval_loss", NAN),
        .measures = json_object_get(object, "eval_accuracy") != NULL,
        .accuracy = number_of(object, "eval_accuracy", NAN),
        .answers = json_object_get(object, "eval_answer_rate") != NULL,
        .answer_rate = number_of(object, "eval_answer_rate", NAN),
    };
    entry.prefers = rewards_read(object, "", &entry.rewards);
    entry.evaluated.prefers = rewards_read(object, "eval_", &entry.evaluated.rewards);
    progress_history_add(history, &entry);
}

/* The fields of published trainer_state.json files, in their order. */
static json_t *hugging_face_state(const struct plan *plan,
                                  const struct progress *progress,
                                  const struct progress_history *history)
{
    json_t *object = json_object(), *log = json_array();
    bool best = !isnan(progress->best_metric);
    char name[64];

    for (size_t i = 0; i < history->count; i++)
        json_array_append_new(log, entry_json(&history->list[i]));
    snprintf(name, sizeof(name), "checkpoint-%" PRId64, progress->best_step);
    json_object_set_new(object, "best_global_step",
                        best ? json_integer(progress->best_step) : json_null());
    json_object_set_new(object, "best_metric",
                        best ? json_number(progress->best_metric) : json_null());
    json_object_set_new(object, "best_model_checkpoint",
                        best ? json_string(name) : json_null());
    json_object_set_new(object, "epoch", json_number(progress->epoch));
    json_object_set_new(object, "eval_steps", json_number(plan->eval_steps));
    json_object_set_new(object, "global_step", json_integer(progress->step));
    json_object_set_new(object, "is_hyper_param_search", json_false());
    json_object_set_new(object, "is_local_process_zero", json_true());
    json_object_set_new(object, "is_world_process_zero", json_true());
    json_object_set_new(object, "log_history", log);
    json_object_set_new(object, "logging_steps", json_number(plan->logging_steps));
    json_object_set_new(object, "max_steps", json_integer(progress->total));
    json_object_set_new(object, "num_input_tokens_seen",
                        json_integer((json_int_t)progress->tokens));
    json_object_set_new(object, "num_train_epochs",
                        json_integer((json_int_t)ceil(plan->num_train_epochs)));
    json_object_set_new(object, "save_steps", json_number(plan->save_steps));
    json_object_set_new(object, "stateful_callbacks", json_object());
    json_object_set_new(object, "total_flos", json_integer(0));
    json_object_set_new(object, "train_batch_size",
                        json_integer(plan->per_device_train_batch_size));
    json_object_set_new(object, "trial_name", json_null());
    json_object_set_new(object, "trial_params", json_null());
    return object;
}

static json_t *scaler_json(const struct scaler *scaler)
{
    json_t *object = json_object();

    json_object_set_new(object, "scaling", json_string(scaling_names[scaler->scaling]));
    json_object_set_new(object, "scale", json_number(scaler->scale));
    json_object_set_new(object, "growth", json_number(scaler->growth));
    json_object_set_new(object, "backoff", json_number(scaler->backoff));
    json_object_set_new(object, "interval", json_integer(scaler->interval));
    json_object_set_new(object, "good", json_integer(scaler->good));
    json_object_set_new(object, "skipped", json_integer(scaler->skipped));
    json_object_set_new(object, "skipped_in_row", json_integer(scaler->skipped_in_row));
    return object;
}

struct progress_ranks progress_ranks_of(const struct plan *plan)
{
    if (plan_ranks(plan) == 1)
        return (struct progress_ranks) { 0 };
    return (struct progress_ranks) { .count = plan->ranks,
                                     .zero_stage =
                                         plan->zero_stage > 1 ? plan->zero_stage : 1,
                                     .reduce_dtype = plan->reduce_dtype };
}

static void add_ranks(const struct plan *plan, json_t *object)
{
    const struct progress_ranks ranks = progress_ranks_of(plan);
    json_t *value;

    if (ranks.count == 0)
        return;
    value = json_object();
    json_object_set_new(value, "count", json_integer(ranks.count));
    json_object_set_new(value, "zero_stage", json_integer(ranks.zero_stage));
    json_object_set_new(value, "reduce_dtype",
                        json_string(format_info(plan_sent_gradients(plan))->name));
    json_object_set_new(object, "ranks", value);
}

static struct progress_ranks ranks_read(const json_t *object)
{
    const json_t *ranks = json_object_get(object, "ranks");
    const char *dtype = json_string_value(json_object_get(ranks, "reduce_dtype"));

    return (struct progress_ranks) {
        .count = json_integer_value(json_object_get(ranks, "count")),
        .zero_stage = json_integer_value(json_object_get(ranks, "zero_stage")),
        .reduce_dtype = dtype && strcmp(dtype, "bf16") == 0 ? REDUCE_BF16 : REDUCE_FP32,
    };
}

/* One name, and, if ranks differ, a list of all. */
static void add_attention(const struct progress *progress, json_t *object)
{
    const char(*names)[PROGRESS_ATTENTION] = progress->attention;
    json_t *list = json_array();
    bool differs = false;

    for (size_t r = 0; r < RANKS_MAX && names[r][0]; r++) {
        differs = differs || strcmp(names[r], names[0]) != 0;
        json_array_append_new(list, json_string(names[r]));
    }
    if (names[0][0])
        json_object_set_new(object, "attention", json_string(names[0]));
    if (differs)
        json_object_set(object, "attention_of_ranks", list);
    json_decref(list);
}

static void attention_read(const json_t *object, struct progress *out)
{
    const char *first = json_string_value(json_object_get(object, "attention"));
    const json_t *list = json_object_get(object, "attention_of_ranks");

    snprintf(out->attention[0], sizeof(out->attention[0]), "%s", first ? first : "");
    for (size_t r = 1; r < RANKS_MAX && r < json_array_size(list); r++) {
        const char *name = json_string_value(json_array_get(list, r));

        snprintf(out->attention[r], sizeof(out->attention[r]), "%s", name ? name : "");
    }
}

static json_t *trainspool_state(const struct plan *plan, const struct progress *progress)
{
    json_t *object = json_object();

    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "step", json_integer(progress->step));
    json_object_set_new(object, "updates", json_integer(progress->updates));
    json_object_set_new(object, "total", json_integer(progress->total));
    json_object_set_new(object, "epoch", json_number(progress->epoch));
    json_object_set_new(object, "tokens", json_integer((json_int_t)progress->tokens));
    json_object_set_new(object, "window_loss", json_number(progress->window_loss));
    if (plan->stage == STAGE_DISTILL) {
        json_object_set_new(object, "window_ce", json_number(progress->window_ce));
        json_object_set_new(object, "window_kd", json_number(progress->window_kd));
    }
    if (plan->stage >= STAGE_DPO)
        json_object_set_new(object, "window_rewards",
                            window_rewards_json(&progress->window_rewards));
    json_object_set_new(object, "window_steps", json_integer(progress->window_steps));
    json_object_set_new(object, "best_metric", json_number(progress->best_metric));
    json_object_set_new(object, "best_step", json_integer(progress->best_step));
    json_object_set_new(object, "mode", json_string(mode_names[plan->precision.mode]));
    json_object_set_new(object, "optimizer",
                        json_string(optimizer_name(plan->optimizer)));
    json_object_set_new(object, "seed", json_integer(plan->seed));
    add_attention(progress, object);
    add_ranks(plan, object);
    json_object_set_new(object, "scaler", scaler_json(&progress->scaler));
    return object;
}

/* Takes ownership of the object. */
static bool write_object(const char *dir, const char *base, json_t *object,
                         struct error *err)
{
    char *name = path_join(dir, base);
    struct text text;
    bool ok;

    text_init(&text, STATE_MAX);
    json_write_pretty(object, &text);
    json_decref(object);
    ok = file_create(name, text.data, text.len, 0666, err);
    text_clear(&text);
    free(name);
    return ok;
}

bool progress_write(const char *dir, const struct plan *plan,
                    const struct progress *progress,
                    const struct progress_history *history, struct error *err)
{
    return write_object(dir, HUGGING_FACE_NAME,
                        hugging_face_state(plan, progress, history), err) &&
           write_object(dir, STATE_NAME, trainspool_state(plan, progress), err);
}

static void scaler_read(const json_t *object, struct scaler *scaler)
{
    const char *scaling = json_string_value(json_object_get(object, "scaling"));

    *scaler = (struct scaler) {
        .scale = number_of(object, "scale", 1),
        .growth = number_of(object, "growth", 2),
        .backoff = number_of(object, "backoff", 0.5),
        .interval = json_get_int(object, "interval", 2000, STATE_NAME, NULL),
        .good = json_get_int(object, "good", 0, STATE_NAME, NULL),
        .skipped = json_get_int(object, "skipped", 0, STATE_NAME, NULL),
        .skipped_in_row = json_get_int(object, "skipped_in_row", 0, STATE_NAME, NULL),
    };
    for (int i = 0; i < 3; i++)
        if (scaling && strcmp(scaling, scaling_names[i]) == 0)
            scaler->scaling = (enum scaling)i;
}

static void optimizer_read(const json_t *object, struct progress *out)
{
    const char *name = json_string_value(json_object_get(object, "optimizer"));

    snprintf(out->optimizer, sizeof(out->optimizer), "%s", name ? name : "");
}

static bool state_read(const json_t *object, const char *name, struct progress *out,
                       struct error *err)
{
    struct error wrong = { 0 };

    *out = (struct progress) {
        .step = json_get_int(object, "step", -1, name, &wrong),
        .updates = json_get_int(object, "updates", -1, name, &wrong),
        .total = json_get_int(object, "total", 0, name, &wrong),
        .epoch = number_of(object, "epoch", 0),
        .tokens = (uint64_t)json_get_int(object, "tokens", 0, name, &wrong),
        .window_loss = number_of(object, "window_loss", 0),
        .window_ce = number_of(object, "window_ce", 0),
        .window_kd = number_of(object, "window_kd", 0),
        .window_steps = json_get_int(object, "window_steps", 0, name, &wrong),
        .best_metric = number_of(object, "best_metric", NAN),
        .best_step = json_get_int(object, "best_step", 0, name, &wrong),
    };
    out->window_rewards = window_rewards_read(json_object_get(object, "window_rewards"));
    scaler_read(json_object_get(object, "scaler"), &out->scaler);
    out->ranks = ranks_read(object);
    attention_read(object, out);
    optimizer_read(object, out);
    if (wrong.code == ERROR_NONE && out->step >= 0 && out->updates >= 0)
        return true;
    return error_set(err, ERROR_DATA, "cannot resume: %s lacks the step of the run",
                     name);
}

bool progress_read(const char *dir, struct progress *progress,
                   struct progress_history *history, struct error *err)
{
    char *own = path_join(dir, STATE_NAME), *other = path_join(dir, HUGGING_FACE_NAME);
    json_t *state = json_read_file(own, STATE_MAX, err);
    json_t *log = state ? json_read_file(other, STATE_MAX, err) : NULL, *entry;
    bool ok = state && log && state_read(state, own, progress, err);
    size_t i;

    progress_history_clear(history);
    if (ok)
        json_array_foreach(json_object_get(log, "log_history"), i, entry)
            entry_read(entry, history);
    json_decref(state);
    json_decref(log);
    free(own);
    free(other);
    return ok;
}
