/* train/model/rewards.h - what is told of preferences beside their loss, under the names that
 * LLaMA-Factory and TRL log it by. */
#ifndef TRAIN_MODEL_REWARDS_H
#define TRAIN_MODEL_REWARDS_H

enum reward {
    REWARD_CHOSEN, /* beta times what the model gives an answer beyond its reference */
    REWARD_REJECTED,
    REWARD_ACCURACY, /* share of the pairs with the larger reward for the chosen answer */
    REWARD_MARGIN,   /* chosen less rejected */
    REWARD_LOGP_CHOSEN,
    REWARD_LOGP_REJECTED, /* log-likelihoods; means over tokens of ipo, orpo and simpo */
    REWARDS
};

/* Sums over pairs, or means of them. */
struct rewards {
    double of[REWARDS];
};

extern const char *const reward_names[REWARDS]; /* "rewards/chosen" */

/* to += times * more */
void rewards_add(struct rewards *to, const struct rewards *more, double times);

#endif
