/* train/model/rewards.h - metrics of preferences besides the loss, under the names that
 * LLaMA-Factory and TRL use in their logs. */
#ifndef TRAIN_MODEL_REWARDS_H
#define TRAIN_MODEL_REWARDS_H

enum reward {
    REWARD_CHOSEN, /* beta times (log-likelihood of the model - that of the reference) */
    REWARD_REJECTED,
    REWARD_ACCURACY, /* share of pairs whose chosen answer has the larger reward */
    REWARD_MARGIN,   /* chosen - rejected */
    REWARD_LOGP_CHOSEN,
    REWARD_LOGP_REJECTED, /* log-likelihoods; means over tokens for ipo, orpo, simpo */
    REWARDS
};

/* Sums or means over pairs. */
struct rewards {
    double of[REWARDS];
};

extern const char *const reward_names[REWARDS]; /* "rewards/chosen" */

/* to += times * more */
void rewards_add(struct rewards *to, const struct rewards *more, double times);

#endif
