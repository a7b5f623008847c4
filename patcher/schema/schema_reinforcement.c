/* patcher/schema/schema_reinforcement.c - keys of stage grpo, with the names and the defaults
 * of TRL 1.16's GRPOConfig (trl/trainer/grpo_config.py). */
#include "config.h"

#include "patcher/schema/schema_rows.h"

/* In the order of enum reward_scale, importance and aggregation, train/plan.h. */
static const char *const scales[] = { "group", "batch", "none", NULL };
static const char *const levels[] = { "token", "sequence", NULL };
static const char *const aggregations[] = { "sum_then_normalize", "normalize_then_sum",
                                            NULL };

static const struct key rows[] = {
    { TS_USED("reward_funcs", KEY_LIST, "answer"), .into = TS_FIELD(grpo.rewards),
      .help = "with stage: grpo, the rewards of an answer: answer, format, pattern "
              "and length; training maximizes their weighted sum",
      .manual = "The section REINFORCEMENT describes each of them. Reward functions "
                "in Python are not supported." },
    { TS_USED("reward_weights", KEY_LIST, NULL), .into = TS_FIELD(grpo.weights),
      .help = "weights of the rewards in reward_funcs, in the same order; 1 by default" },
    { TS_USED("num_generations", KEY_INT, "8"), .min = 2, .max = 65536,
      .into = TS_FIELD(grpo.num_generations),
      .help = "number of answers to sample for each prompt and compare with each other",
      .manual = "It must divide the number of answers in a generation: "
                "per_device_train_batch_size, which counts answers, times "
                "gradient_accumulation_steps (or steps_per_generation)." },
    { TS_USED("max_completion_length", KEY_INT, "512"), .min = 1, .max = 1048576,
      .into = TS_FIELD(grpo.max_completion_length),
      .help = "maximum length of a sampled answer, in tokens" },
    { TS_USED("num_iterations", KEY_INT, "1"), .min = 1, .max = 4096,
      .into = TS_FIELD(grpo.num_iterations),
      .help = "number of times that the answers of a generation are used" },
    { TS_USED("steps_per_generation", KEY_INT, "0"), .min = 0, .max = 65536,
      .into = TS_FIELD(grpo.steps_per_generation), .null = "0",
      .help = "number of micro-batches to generate at once, a multiple of "
              "gradient_accumulation_steps; 0 uses the value of that key" },
    { TS_USED("loss_type", KEY_TEXT, "dapo"), .into = TS_FIELD(grpo.loss_type),
      .help = "with stage: grpo, the divisor of the sum of token losses: dapo, grpo, "
              "bnpo or dr_grpo",
      .manual = "With dapo, it is the number of tokens of a step, and with bnpo that "
                "of each micro-batch. With grpo, each answer contributes the mean "
                "over its tokens. With dr_grpo, the divisor is max_completion_length "
                "times the number of answers." },
    { TS_USED("beta", KEY_REAL, "0.0"), .max = TS_NO_MAX, .into = TS_FIELD(grpo.beta),
      .help = "with stage: grpo, the weight of the distance from the reference model; "
              "with 0, there is no reference model" },
    { TS_USED("use_bias_correction_kl", KEY_BOOL, "true"),
      .into = TS_FIELD(grpo.corrects_kl),
      .help = "multiply the distance from the reference model by the ratio of "
              "likelihoods" },
    { TS_USED("epsilon", KEY_REAL, "0.2"), .max = TS_NO_MAX,
      .into = TS_FIELD(grpo.epsilon),
      .help = "how far below 1 the ratio of likelihoods is clipped: at 1 - epsilon" },
    { TS_USED("epsilon_high", KEY_REAL, "0.0"), .max = TS_NO_MAX, .null = "0",
      .into = TS_FIELD(grpo.epsilon_high),
      .help = "how far above 1 it is clipped: at 1 + epsilon_high; 0 uses the value "
              "of epsilon" },
    { TS_USED("delta", KEY_REAL, "0.0"), .max = TS_NO_MAX, .null = "0",
      .into = TS_FIELD(grpo.delta),
      .help = "upper bound of the ratio of likelihoods, even for answers that are "
              "worse than others; 0 means none" },
    { TS_USED("importance_sampling_level", KEY_ENUM, "token"), .values = levels,
      .into = TS_FIELD(grpo.importance),
      .help = "whether each token or the whole answer (GSPO) has a ratio of "
              "likelihoods" },
    { TS_USED("scale_rewards", KEY_ENUM, "group"), .values = scales,
      .synonyms = "true=group false=none", .into = TS_FIELD(grpo.scale),
      .help = "standard deviation of the rewards by which advantages are divided: "
              "that of the answers to the same prompt (group), that of all answers of "
              "a generation (batch), or none" },
    { TS_USED("multi_objective_aggregation", KEY_ENUM, "sum_then_normalize"),
      .values = aggregations, .into = TS_FIELD(grpo.aggregation),
      .help = "whether to add the rewards before normalizing them, or to normalize "
              "each within its group first (GDPO)" },
    { TS_USED("mask_truncated_completions", KEY_BOOL, "false"),
      .into = TS_FIELD(grpo.masks_truncated),
      .help = "do not train on answers that reached max_completion_length" },
};
const struct keys schema_reinforcement_keys = { "Reinforcement", rows, TS_COUNT(rows) };
