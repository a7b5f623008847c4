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
      .help = "with stage: grpo, the rewards of an answer, whose weighted sum is "
              "maximized: answer, format, pattern and length",
      .manual = "The section REINFORCEMENT describes each. Functions in Python are not "
                "supported." },
    { TS_USED("reward_weights", KEY_LIST, NULL), .into = TS_FIELD(grpo.weights),
      .help = "weights of these rewards, in the same order; 1 by default" },
    { TS_USED("num_generations", KEY_INT, "8"), .min = 2, .max = 65536,
      .into = TS_FIELD(grpo.num_generations),
      .help = "number of answers that are sampled for each prompt and compared with each "
              "other",
      .manual = "It must divide per_device_train_batch_size, which counts answers, times "
                "gradient_accumulation_steps (or steps_per_generation)." },
    { TS_USED("max_completion_length", KEY_INT, "512"), .min = 1, .max = 1048576,
      .into = TS_FIELD(grpo.max_completion_length),
      .help = "maximum length of a sampled answer, in tokens" },
    { TS_USED("num_iterations", KEY_INT, "1"), .min = 1, .max = 4096,
      .into = TS_FIELD(grpo.num_iterations),
      .help = "number of times that the answers of a generation are used" },
    { TS_USED("steps_per_generation", KEY_INT, "0"), .min = 0, .max = 65536,
      .into = TS_FIELD(grpo.steps_per_generation), .null = "0",
      .help = "number of micro-batches that are generated at once, a multiple of "
              "gradient_accumulation_steps; 0 takes that" },
    { TS_USED("loss_type", KEY_TEXT, "dapo"), .into = TS_FIELD(grpo.loss_type),
      .help = "with stage: grpo, what the sum of the losses of the tokens is divided by: "
              "dapo, grpo, bnpo or dr_grpo",
      .manual =
          "With dapo it is the number of tokens of a step; with grpo each answer "
          "has the mean of its tokens; with bnpo it is the number of tokens of each "
          "micro-batch, and with dr_grpo max_completion_length times the number of "
          "answers." },
    { TS_USED("beta", KEY_REAL, "0.0"), .max = TS_NO_MAX, .into = TS_FIELD(grpo.beta),
      .help = "with stage: grpo, weight of the distance from the reference model; 0: no "
              "reference model is used" },
    { TS_USED("use_bias_correction_kl", KEY_BOOL, "true"),
      .into = TS_FIELD(grpo.corrects_kl),
      .help = "multiply that distance by the ratio of likelihoods" },
    { TS_USED("epsilon", KEY_REAL, "0.2"), .max = TS_NO_MAX,
      .into = TS_FIELD(grpo.epsilon),
      .help = "the ratio of likelihoods is clipped below 1 - epsilon" },
    { TS_USED("epsilon_high", KEY_REAL, "0.0"), .max = TS_NO_MAX, .null = "0",
      .into = TS_FIELD(grpo.epsilon_high),
      .help = "and above 1 + epsilon_high; 0 takes epsilon" },
    { TS_USED("delta", KEY_REAL, "0.0"), .max = TS_NO_MAX, .null = "0",
      .into = TS_FIELD(grpo.delta),
      .help = "upper bound of the ratio also for answers that are worse than others; 0: "
              "none" },
    { TS_USED("importance_sampling_level", KEY_ENUM, "token"), .values = levels,
      .into = TS_FIELD(grpo.importance),
      .help = "whether the ratio is of each token or of the whole answer (GSPO)" },
    { TS_USED("scale_rewards", KEY_ENUM, "group"), .values = scales,
      .synonyms = "true=group false=none", .into = TS_FIELD(grpo.scale),
      .help =
          "by which standard deviation of the rewards advantages are divided: that of "
          "the answers to the same prompt, that of all answers of a generation, or "
          "none" },
    { TS_USED("multi_objective_aggregation", KEY_ENUM, "sum_then_normalize"),
      .values = aggregations, .into = TS_FIELD(grpo.aggregation),
      .help = "whether rewards are added first, or each is normalized within its group "
              "first (GDPO)" },
    { TS_USED("mask_truncated_completions", KEY_BOOL, "false"),
      .into = TS_FIELD(grpo.masks_truncated),
      .help = "do not train on answers that reached max_completion_length" },
};
const struct keys schema_reinforcement_keys = { "Reinforcement", rows, TS_COUNT(rows) };
