/* train/reinforcement.c - checks of the settings of stage grpo, which TRL's GRPOConfig and
 * GRPOTrainer make too, and of what is not supported. */
#include "config.h"

#include "train/reinforcement.h"

#include <inttypes.h>

#include "train/reward.h"

const char *const policy_loss_names[POLICY_LOSSES] = {
    [POLICY_DAPO] = "dapo",
    [POLICY_GRPO] = "grpo",
    [POLICY_BNPO] = "bnpo",
    [POLICY_DR_GRPO] = "dr_grpo",
};

static bool check_sizes(const struct plan *plan, const char **key, struct error *err)
{
    const struct reinforcement *g = &plan->grpo;
    int64_t steps = plan->gradient_accumulation_steps, answers;

    *key = "steps_per_generation";
    if (g->steps_per_generation > 0 && g->steps_per_generation % steps != 0)
        return error_set(err, ERROR_JOB,
                         "steps_per_generation, %" PRId64 ", must be a multiple of "
                         "gradient_accumulation_steps, %" PRId64,
                         g->steps_per_generation, steps);
    *key = "num_generations";
    answers = plan_generation_answers(plan);
    return answers % g->num_generations == 0 ||
           error_set(err, ERROR_JOB,
                     "num_generations, %" PRId64 ", must divide the %" PRId64
                     " answers of a generation: per_device_train_batch_size, which "
                     "counts answers, times gradient_accumulation_steps",
                     g->num_generations, answers);
}

static bool check_sampling(const struct plan *plan, const char **key, struct error *err)
{
    *key = plan->generation.do_sample ? "temperature" : "do_sample";
    if (!plan->generation.do_sample || !(plan->generation.temperature > 0))
        return error_set(err, ERROR_JOB,
                         "stage: grpo compares different answers to a question, which "
                         "requires do_sample: true and a temperature above 0");
    *key = "loss_type";
    if (plan->grpo.loss == POLICY_LOSSES)
        return error_set(err, ERROR_JOB,
                         "loss_type must be dapo, grpo, bnpo or dr_grpo, not %s",
                         plan->grpo.loss_type);
    *key = "importance_sampling_level";
    return plan->grpo.importance == IMPORTANCE_TOKEN || plan->grpo.loss == POLICY_GRPO ||
           error_set(
               err, ERROR_JOB,
               "importance_sampling_level: sequence requires loss_type: grpo, which "
               "gives each sequence the same weight");
}

bool reinforcement_check(const struct plan *plan, const char **key, struct error *err)
{
    const char *wrong;
    struct reward_rule *rule;

    key = key ? key : &wrong;
    if (plan->stage != STAGE_GRPO)
        return true;
    *key = "stage";
    if (plan_ranks(plan) > 1)
        return error_set(err, ERROR_JOB,
                         "stage: grpo trains with one process, not with %zu ranks",
                         plan_ranks(plan));
    if (!check_sizes(plan, key, err) || !check_sampling(plan, key, err))
        return false;
    rule = reward_rule_new(plan, key, err);
    reward_rule_free(rule);
    return rule != NULL;
}
