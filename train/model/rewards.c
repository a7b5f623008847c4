/* train/model/rewards.c - the names and sums of rewards. */
#include "config.h"

#include "train/model/rewards.h"

const char *const reward_names[REWARDS] = {
    [REWARD_CHOSEN] = "rewards/chosen",       [REWARD_REJECTED] = "rewards/rejected",
    [REWARD_ACCURACY] = "rewards/accuracies", [REWARD_MARGIN] = "rewards/margins",
    [REWARD_LOGP_CHOSEN] = "logps/chosen",    [REWARD_LOGP_REJECTED] = "logps/rejected",
};

void rewards_add(struct rewards *to, const struct rewards *more, double times)
{
    for (int i = 0; i < REWARDS; i++)
        to->of[i] += times * more->of[i];
}
