/*
 * patcher/import/import_axolotl_reinforcement.c - Axolotl's rl: grpo and gdpo, which are
 * stage grpo, and its block trl.
 *
 * axolotl-ai-cloud/axolotl at 067b021c: core/trainers/grpo, core/builders/rl.py and
 * utils/schemas/trl.py.  Its rewards are functions in Python.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"

static const struct import_copy copies[] = {
    { "trl.num_generations", "num_generations", NULL },
    { "trl.max_completion_length", "max_completion_length", NULL },
    { "trl.num_iterations", "num_iterations", NULL },
    { "trl.loss_type", "loss_type", NULL },
    { "trl.beta", "beta", NULL },
    { "trl.use_bias_correction_kl", "use_bias_correction_kl", NULL },
    { "trl.epsilon", "epsilon", NULL },
    { "trl.epsilon_high", "epsilon_high", NULL },
    { "trl.importance_sampling_level", "importance_sampling_level", NULL },
    { "trl.multi_objective_aggregation", "multi_objective_aggregation", NULL },
    { "trl.mask_truncated_completions", "mask_truncated_completions", NULL },
    { "trl.reward_weights", "reward_weights", NULL },
    { "trl.temperature", "temperature", NULL },
    { "trl.top_p", "top_p", NULL },
    { "trl.top_k", "top_k", NULL },
    { "trl.repetition_penalty", "repetition_penalty", NULL },
};

static const struct import_group groups[] = {
    { IMPORT_IDLE, "answers are sampled by trainspool itself", "vllm" },
    { IMPORT_IDLE, "TRL turns dropout off for such a job, and so does trainspool",
      "lora_dropout" },
    { IMPORT_IDLE, "only the answers are trained on", "train_on_inputs" },
};

/* Of the block trl. */
static const struct import_group trl_groups[] = {
    { IMPORT_IDLE, "answers are sampled by trainspool itself",
      "use_vllm vllm_* use_data_producer async_prefetch prefetch_depth streaming_* "
      "reward_num_workers generation_kwargs" },
    { IMPORT_IDLE, "kernel settings of PyTorch", "use_liger_loss" },
    { IMPORT_IDLE, "the log has rewards, not answers",
      "log_completions num_completions_to_print" },
    { IMPORT_DIFFERS, "the reference model does not follow the trained one",
      "sync_ref_model ref_model_*" },
    { IMPORT_DIFFERS, "tokens are selected by temperature, top_k and top_p", "min_p" },
    { IMPORT_DIFFERS,
      "a generation has as many answers as a step, or as steps_per_generation says",
      "generation_batch_size" },
    { IMPORT_DIFFERS, "answers are neither filtered nor used again later",
      "replay_* reroll_* skip_zero_advantage_batches off_policy_mask_threshold" },
    { IMPORT_DIFFERS, "the template determines the prompt", "chat_template_kwargs" },
};

static bool import_rewards(struct importing *im)
{
    const struct entry *entry = import_find(im, "trl.reward_funcs");
    const char *functions = entry ? import_joined(im, entry->value) : NULL;

    if (!functions || !*functions)
        return import_refuse(im, ERROR_JOB, import_find(im, "rl")->value,
                             "rl: %s without trl.reward_funcs has no reward",
                             import_get(im, "rl"));
    if (!import_reward_functions(im, functions, NULL, entry->value, "trl.reward_funcs: "))
        return false;
    import_mark_carried(im, "trl.reward_funcs", "reward_funcs");
    return true;
}

bool import_axolotl_reinforcement(struct importing *im)
{
    const char *rl = import_get(im, "rl");

    if (!rl || (strcmp(rl, "grpo") != 0 && strcmp(rl, "gdpo") != 0))
        return false;
    if (import_find(im, "trl.rollout_func")) {
        import_refuse(im, ERROR_JOB, import_find(im, "trl.rollout_func")->value,
                      "trl.rollout_func is a function in Python, which is not supported");
        return true;
    }
    import_set(im, "stage", "grpo", NULL);
    import_mark_carried(im, "rl", "stage");
    if (!import_rewards(im))
        return true;
    import_copies(im, copies, TS_COUNT(copies));
    import_reward_scale(im, "trl.scale_rewards");
    if (strcmp(rl, "gdpo") == 0)
        import_set_default(im, "multi_objective_aggregation", "normalize_then_sum",
                           "rl: gdpo");
    import_groups(im, groups, TS_COUNT(groups));
    import_groups_of(im, "trl", trl_groups, TS_COUNT(trl_groups));
    import_mark_carried(im, "trl", "reward_funcs");
    return true;
}
