/*
 * patcher/import/import_rewards.c - the rewards of TRL's GRPOTrainer, which are functions in
 * Python, as those of stage grpo.
 *
 * TRL 1.16, trl/rewards.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"

#define ANSWER                                                             \
    "answer compares with the answer of the data, found by answer_tag or " \
    "answer_marker in trainspool: {...}; TRL's accuracy_reward compares formulas"

/* re.match with DOTALL and MULTILINE, which begins at the start of the text. */
#define THINK "\\A<think>(?![\\s\\S]*<think>)[\\s\\S]*?</think>"

/* Rewards of TRL that trainspool has. */
static const struct reward {
    const char *function, *reward;
    const char *block; /* member of the block trainspool that it requires, or NULL */
    const char *remark;
} rewards[] = {
    { "accuracy_reward", "answer", NULL, ANSWER },
    { "reasoning_accuracy_reward", "answer", "answer_marker: '</think>'",
      "answer compares with the answer of the data the line after the thoughts, which "
      "answer_marker ends; TRL's reasoning_accuracy_reward compares formulas" },
    { "think_format_reward", "pattern", "reward_pattern: '" THINK "'", NULL },
    { "get_soft_overlong_punishment", "length", NULL, NULL },
};

static const struct reward *find_reward(const char *function)
{
    const char *dot = strrchr(function, '.');

    for (size_t i = 0; i < TS_COUNT(rewards); i++)
        if (strcmp(rewards[i].function, dot ? dot + 1 : function) == 0)
            return &rewards[i];
    return NULL;
}

bool import_refuse_reward(struct importing *im, const struct node *at, const char *where,
                          const char *name)
{
    const char *slash = strchr(name, '/');

    return import_refuse(im, ERROR_JOB, at,
                         "%s%s is %s, which is not supported; a job with stage: grpo has "
                         "the rewards answer, format, pattern and length, which `man "
                         "trainspool-job` describes under REINFORCEMENT",
                         where, strcmp(name, "?") == 0 ? "a reward" : name,
                         slash                    ? "a reward model"
                         : strcmp(name, "?") == 0 ? "chosen when the script runs"
                                                  : "a function in Python");
}

bool import_reward_functions(struct importing *im, const char *functions,
                             const char *punish_cache, const struct node *at,
                             const char *where)
{
    const char *list = "", *block = "";

    while (*functions) {
        size_t len = strcspn(functions, ",");
        const char *name = arena_copy(im->arena, functions, len);
        const struct reward *row = find_reward(name);
        const char *member = row ? row->block : NULL;

        if (!row)
            return import_refuse_reward(im, at, where, name);
        list = arena_printf(im->arena, "%s%s%s", list, *list ? "," : "", row->reward);
        if (strcmp(row->reward, "length") == 0 && punish_cache)
            member = arena_printf(im->arena, "soft_punish_cache: %s", punish_cache);
        if (member)
            block = arena_printf(im->arena, "%s%s%s", block, *block ? ", " : "", member);
        import_set(im, "reward_funcs", list, NULL);
        if (row->remark)
            import_remark(im, "reward_funcs", "%s", row->remark);
        functions += len + (functions[len] == ',');
    }
    if (*block)
        import_set_yaml(im, "trainspool", arena_printf(im->arena, "{%s}", block), NULL);
    return true;
}

void import_reward_scale(struct importing *im, const char *key)
{
    const struct entry *entry = import_find(im, key);
    const char *text = entry ? node_value(entry->value)->text : NULL;

    if (!text)
        return;
    if (strcmp(text, "batch") == 0 || strcmp(text, "none") == 0)
        import_set(im, "scale_rewards", text, NULL);
    else
        import_set(im, "scale_rewards",
                   strcmp(text, "group") == 0 || import_is_true(im, key) ? "group"
                                                                         : "none",
                   NULL);
    import_mark_carried(im, key, "scale_rewards");
}

/* reward_trainer.py turns the dropout of the model and of its adapters off. */
void import_reward_model(struct importing *im, bool keeps_dropout)
{
    import_set_yaml(im, "trainspool",
                    keeps_dropout ? "{reward_head: score}"
                                  : "{reward_head: score, disable_dropout: true}",
                    NULL);
    if (!keeps_dropout)
        import_mark_dropped(im, "lora_dropout", IMPORT_IDLE,
                            "TRL turns dropout off for such a job");
    if (import_find(im, "center_rewards_coefficient"))
        import_copy(im, "center_rewards_coefficient", "center_rewards_coefficient", NULL);
}
