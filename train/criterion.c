/* train/criterion.c - metrics by name, and which of them a run measures. */
#include "config.h"

#include "train/criterion.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

#define PREFIX "eval_"

static const struct {
    const char *name;
    bool greater;
} metrics[] = {
    [METRIC_LOSS] = { PREFIX "loss", false },
    [METRIC_ACCURACY] = { PREFIX "accuracy", true },
    [METRIC_ANSWER_RATE] = { PREFIX "answer_rate", true },
    [METRIC_REWARD_ACCURACY] = { PREFIX "rewards/accuracies", true },
    [METRIC_REWARD_MARGIN] = { PREFIX "rewards/margins", true },
    [METRIC_REWARD] = { PREFIX "reward", true },
};

/* Return the metric of the plan; TS_COUNT(metrics) for an unknown name. */
static size_t find(const struct plan *plan)
{
    const char *word = plan->metric_for_best_model;
    size_t i = 0;

    if (!word || !*word)
        return plan->stage == STAGE_GRPO ? METRIC_REWARD : METRIC_LOSS;
    word += text_starts(word, PREFIX) ? strlen(PREFIX) : 0;
    while (i < TS_COUNT(metrics) && strcmp(metrics[i].name + strlen(PREFIX), word) != 0)
        i++;
    return i;
}

enum metric_kind criterion_metric(const struct plan *plan)
{
    size_t metric = find(plan);

    return metric < TS_COUNT(metrics) ? (enum metric_kind)metric : METRIC_LOSS;
}

const char *criterion_name(const struct plan *plan)
{
    return metrics[criterion_metric(plan)].name;
}

bool criterion_is_better(const struct plan *plan, double metric, double best)
{
    bool greater = plan->greater_is_better == CHOICE_AUTO
                       ? metrics[criterion_metric(plan)].greater
                       : plan->greater_is_better == CHOICE_YES;

    return !isnan(metric) && (isnan(best) || (greater ? metric > best : metric < best));
}

/* Return whether the run uses the metric. */
static bool is_used(const struct plan *plan)
{
    return plan_trains(plan) &&
           (plan->load_best_model_at_end || plan->early_stopping_steps > 0 ||
            plan->save_strategy == WHEN_BEST ||
            plan->schedule == SCHEDULE_REDUCE_ON_PLATEAU);
}

static bool is_reward(enum metric_kind metric)
{
    return metric >= METRIC_REWARD_ACCURACY;
}

static bool is_measured(const struct plan *plan, enum metric_kind metric)
{
    if (plan->stage == STAGE_GRPO)
        return metric == METRIC_REWARD || metric == METRIC_ACCURACY ||
               metric == METRIC_ANSWER_RATE;
    if (metric == METRIC_LOSS || plan_prefers(plan))
        return metric == METRIC_LOSS || metric == METRIC_REWARD_MARGIN ||
               (metric == METRIC_REWARD_ACCURACY && plan->stage != STAGE_KTO) ||
               (metric == METRIC_ACCURACY && plan->stage == STAGE_RM);
    return !is_reward(metric) &&
           (plan->generation.on || (metric == METRIC_ACCURACY && plan->compute_accuracy));
}

/* Return the metrics of the stage, for messages. */
static const char *names_of(const struct plan *plan)
{
    switch (plan->stage) {
    case STAGE_GRPO:
        return "reward, accuracy or answer_rate";
    case STAGE_KTO:
        return "loss or rewards/margins";
    case STAGE_RM:
        return "loss, accuracy or rewards/margins";
    case STAGE_DPO:
        return "loss, rewards/accuracies or rewards/margins";
    default:
        return "loss, accuracy or answer_rate";
    }
}

static bool check_metric(const struct plan *plan, struct error *err)
{
    const char *word = plan->metric_for_best_model;
    bool prefers = plan_prefers(plan);
    const char *names = names_of(plan);

    if (!is_used(plan))
        return true;
    if (find(plan) == TS_COUNT(metrics))
        return error_set(err, ERROR_JOB, "metric_for_best_model must be %s, not %s",
                         names, word);
    if (is_measured(plan, criterion_metric(plan)))
        return true;
    if (prefers || plan->stage == STAGE_GRPO)
        return error_set(
            err, ERROR_JOB,
            "metric_for_best_model %s is not measured in this stage; give %s", word,
            names);
    if (is_reward(criterion_metric(plan)))
        return error_set(err, ERROR_JOB,
                         "metric_for_best_model %s is not measured in this stage; only "
                         "stage: %s measures rewards",
                         word, criterion_metric(plan) == METRIC_REWARD ? "grpo" : "dpo");
    return error_set(err, ERROR_JOB,
                     "metric_for_best_model %s is measured on generated answers; give "
                     "predict_with_generate: true",
                     word);
}

bool criterion_check(const struct plan *plan, const char **key, struct error *err)
{
    if (key)
        *key = "metric_for_best_model";
    if (!check_metric(plan, err))
        return false;
    if (key)
        *key = "save_strategy";
    if (plan_trains(plan) && plan->save_strategy == WHEN_BEST &&
        plan->eval_strategy == WHEN_NO)
        return error_set(err, ERROR_JOB,
                         "save_strategy: best saves after evaluations, and there are "
                         "none; give eval_strategy: steps");
    if (key)
        *key = "lr_scheduler_type";
    if (plan_trains(plan) && plan->schedule == SCHEDULE_REDUCE_ON_PLATEAU &&
        plan->eval_strategy == WHEN_NO)
        return error_set(err, ERROR_JOB,
                         "lr_scheduler_type: reduce_lr_on_plateau reduces the learning "
                         "rate after evaluations, and there are none; give "
                         "eval_strategy: steps");
    if (key)
        *key = "early_stopping_steps";
    return !is_used(plan) || plan->early_stopping_steps <= 0 ||
           plan->eval_strategy != WHEN_NO ||
           error_set(err, ERROR_JOB,
                     "early_stopping_steps counts evaluations, and there are none; "
                     "give eval_strategy: steps");
}
