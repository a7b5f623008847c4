/*
 * train/reward.h - rewards of sampled answers, in stage grpo, and the advantages that follow
 * from those of a group: as TRL's GRPOTrainer computes them.
 *
 *   answer   1 if the answer is the right one (train/generation/answer.h), else 0
 *   format   1 if an answer is found by answer_tag or answer_marker, else 0
 *   pattern  1 if reward_pattern matches a part of the text, else 0
 *   length   TRL's soft_overlong_punishment: 0 up to max_completion_length -
 *            soft_punish_cache tokens, then linearly down to -1
 */
#ifndef TRAIN_REWARD_H
#define TRAIN_REWARD_H

#include "train/plan.h"

enum { REWARD_FUNCTIONS_MAX = 8 };

struct reward_rule;

/* Parse plan->grpo.rewards and the other settings; the plan is borrowed.  ERROR_JOB, and
 * *key, unless key is NULL, is the key that is wrong. */
struct reward_rule *reward_rule_new(const struct plan *plan, const char **key,
                                    struct error *err);
void reward_rule_free(struct reward_rule *rule); /* NULL is allowed */
size_t reward_rule_count(const struct reward_rule *rule);

/* A sampled answer. */
struct reward_answer {
    const char *text, *expected; /* without the token that ends them */
    size_t len, expected_len;
    size_t tokens; /* with that token */
};

struct scored {
    double parts[REWARD_FUNCTIONS_MAX]; /* before the weights */
    double sum;                         /* weighted */
    bool found, correct;                /* the answer */
};

struct scored reward_judge(const struct reward_rule *rule,
                           const struct reward_answer *answer);

/* Write the advantages of `count` answers, groups of num_generations one after the other. */
void reward_advantages(const struct reward_rule *rule, const struct scored *rewards,
                       size_t count, double *advantages);
/* Return the mean of their sums and the standard deviation, as torch.std. */
struct reward_moments {
    double mean, deviation;
};
struct reward_moments reward_summary(const struct scored *rewards, size_t count);

#endif
