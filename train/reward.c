/* train/reward.c - functions that reward an answer, and advantages within groups. */
#include "config.h"

#include "train/reward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "base/text.h"
#include "train/generation/answer.h"
#include "train/text/pattern.h"

/* TRL adds this to standard deviations (trl/trainer/grpo_trainer.py). */
static const double least_deviation = 1e-4;

struct reward_rule {
    const struct plan *plan;
    struct answer_rule answer;
    const struct reward_function *functions[REWARD_FUNCTIONS_MAX];
    double weights[REWARD_FUNCTIONS_MAX];
    size_t count;
    struct pattern *pattern;
    struct arena *arena;
};

/* What the functions read. */
struct judged {
    const struct reward_rule *rule;
    const struct reward_answer *answer;
    struct verdict verdict;
};

/* ---- Functions ---- */

static double reward_correct(const struct judged *j)
{
    return j->verdict.correct;
}

static double reward_found(const struct judged *j)
{
    return j->verdict.found;
}

/* The text of an answer may have zero bytes; the expression sees what precedes them. */
static double reward_pattern(const struct judged *j)
{
    char *text = memory_alloc(j->answer->len + 1);
    bool matches;

    memcpy(text, j->answer->text, j->answer->len);
    matches = pattern_matches(j->rule->pattern, text, NULL);
    free(text);
    return matches;
}

static double reward_length(const struct judged *j)
{
    const struct reinforcement *g = &j->rule->plan->grpo;
    double most = (double)g->max_completion_length, cache = (double)g->punish_cache;
    double tokens = (double)j->answer->tokens;

    if (tokens <= most - cache)
        return 0;
    return tokens > most ? -1 : (most - cache - tokens) / cache;
}

static const struct reward_function {
    const char *name;
    double (*judge)(const struct judged *j);
} functions[] = {
    { "answer", reward_correct },
    { "format", reward_found },
    { "pattern", reward_pattern },
    { "length", reward_length },
};

/* ---- Settings ---- */

/* Copy the next item of a list and move past it; NULL: the end. */
static const char *next_item(struct arena *arena, const char **list)
{
    const char *start = *list;
    size_t len;

    if (!start)
        return NULL;
    start += strspn(start, ", ");
    len = strcspn(start, ",");
    *list = start + len;
    while (len > 0 && start[len - 1] == ' ')
        len--;
    return len > 0 ? arena_copy(arena, start, len) : NULL;
}

static bool add_function(struct reward_rule *rule, const char *name, struct error *err)
{
    size_t i = 0;

    while (i < TS_COUNT(functions) && strcmp(name, functions[i].name) != 0)
        i++;
    if (i == TS_COUNT(functions))
        return error_set(err, ERROR_JOB,
                         "reward_funcs must be answer, format, pattern or length, not %s",
                         name);
    if (rule->count == REWARD_FUNCTIONS_MAX)
        return error_set(err, ERROR_JOB, "reward_funcs has more than %d names",
                         REWARD_FUNCTIONS_MAX);
    rule->weights[rule->count] = 1;
    rule->functions[rule->count++] = &functions[i];
    return true;
}

static bool read_functions(struct reward_rule *rule, struct error *err)
{
    const char *list = rule->plan->grpo.rewards, *name;

    while ((name = next_item(rule->arena, &list)))
        if (!add_function(rule, name, err))
            return false;
    return rule->count > 0 || error_set(err, ERROR_JOB, "reward_funcs names no reward");
}

static bool read_weights(struct reward_rule *rule, struct error *err)
{
    const char *list = rule->plan->grpo.weights, *item;
    size_t count = 0;

    while ((item = next_item(rule->arena, &list))) {
        char *end;
        double weight = strtod(item, &end);

        if (end == item || *end || !isfinite(weight))
            return error_set(err, ERROR_JOB, "reward_weights must be numbers, not %s",
                             item);
        if (count < rule->count)
            rule->weights[count] = weight;
        count++;
    }
    return count == 0 || count == rule->count ||
           error_set(err, ERROR_JOB,
                     "reward_weights has %zu numbers, but reward_funcs names %zu rewards",
                     count, rule->count);
}

static bool uses(const struct reward_rule *rule, double (*judge)(const struct judged *))
{
    for (size_t i = 0; i < rule->count; i++)
        if (rule->functions[i]->judge == judge)
            return true;
    return false;
}

static bool check_parts(const struct reward_rule *rule, const char **key,
                        struct error *err)
{
    const struct plan *plan = rule->plan;

    *key = "reward_funcs";
    if (uses(rule, reward_found) && !plan->answer_tag && !plan->answer_marker)
        return error_set(
            err, ERROR_JOB,
            "the reward format requires answer_tag or answer_marker: without "
            "them the whole text is the answer");
    if (uses(rule, reward_pattern) && !plan->grpo.pattern)
        return error_set(err, ERROR_JOB, "the reward pattern requires reward_pattern");
    if (!uses(rule, reward_length))
        return true;
    *key = "soft_punish_cache";
    return (plan->grpo.punish_cache > 0 &&
            plan->grpo.punish_cache <= plan->grpo.max_completion_length) ||
           error_set(err, ERROR_JOB,
                     "soft_punish_cache must be from 1 to max_completion_length");
}

static bool read_rule(struct reward_rule *rule, const char **key, struct error *err)
{
    const char *pattern = rule->plan->grpo.pattern;

    *key = "reward_funcs";
    if (!read_functions(rule, err))
        return false;
    *key = "reward_weights";
    if (!read_weights(rule, err) || !check_parts(rule, key, err))
        return false;
    *key = "reward_pattern";
    if (!pattern)
        return true;
    /* of a part of the text */
    pattern = arena_printf(rule->arena, "[\\s\\S]*?(?:%s)[\\s\\S]*", pattern);
    rule->pattern = pattern_compile_whole(pattern, "reward_pattern", err);
    return rule->pattern != NULL;
}

struct reward_rule *reward_rule_new(const struct plan *plan, const char **key,
                                    struct error *err)
{
    struct reward_rule *rule = memory_alloc(sizeof(*rule));
    const char *wrong;

    rule->plan = plan;
    rule->arena = arena_new();
    rule->answer = (struct answer_rule) { plan->answer_tag, plan->answer_marker,
                                          plan->answer_tolerance };
    if (read_rule(rule, key ? key : &wrong, err))
        return rule;
    reward_rule_free(rule);
    return NULL;
}

void reward_rule_free(struct reward_rule *rule)
{
    if (!rule)
        return;
    pattern_free(rule->pattern);
    arena_free(rule->arena);
    free(rule);
}

size_t reward_rule_count(const struct reward_rule *rule)
{
    return rule->count;
}

/* ---- Rewards ---- */

struct scored reward_judge(const struct reward_rule *rule,
                           const struct reward_answer *answer)
{
    const struct judged j = { rule, answer,
                              answer_judge(&rule->answer, answer->text, answer->len,
                                           answer->expected, answer->expected_len) };
    struct scored reward = { .found = j.verdict.found, .correct = j.verdict.correct };

    for (size_t i = 0; i < rule->count; i++) {
        reward.parts[i] = rule->functions[i]->judge(&j);
        reward.sum += rule->weights[i] * reward.parts[i];
    }
    return reward;
}

/* ---- Advantages ---- */

/* The deviation as torch.std: divided by count - 1.  The mean of equal values is exactly
 * their value: a rounding error would become the advantage, and the sign of all updates. */
static struct reward_moments moments_of(const double *values, size_t count)
{
    struct reward_moments m = { 0, 0 };

    for (size_t i = 0; i < count; i++)
        m.mean += values[i] - values[0];
    m.mean = count > 0 ? values[0] + m.mean / (double)count : 0;
    for (size_t i = 0; i < count; i++)
        m.deviation += (values[i] - m.mean) * (values[i] - m.mean);
    m.deviation = count > 1 ? sqrt(m.deviation / (double)(count - 1)) : 0;
    return m;
}

/* Replace the values of each group by their distance from its mean, divided by its
 * deviation if `divides`. */
static void center(double *values, size_t count, size_t group, bool divides)
{
    for (size_t at = 0; at < count; at += group) {
        const struct reward_moments m = moments_of(values + at, group);

        for (size_t i = at; i < at + group; i++) {
            values[i] -= m.mean;
            if (divides)
                values[i] /= m.deviation + least_deviation;
        }
    }
}

/* GDPO: each reward is normalized in its group, then their sum over all. */
static void normalize_then_sum(const struct reward_rule *rule,
                               const struct scored *rewards, size_t count,
                               double *advantages)
{
    size_t group = (size_t)rule->plan->grpo.num_generations;
    double *values = memory_resize(NULL, count, sizeof(*values));

    memset(advantages, 0, count * sizeof(*advantages));
    for (size_t k = 0; k < rule->count; k++) {
        for (size_t i = 0; i < count; i++)
            values[i] = rewards[i].parts[k];
        center(values, count, group, true);
        for (size_t i = 0; i < count; i++)
            advantages[i] += rule->weights[k] * values[i];
    }
    free(values);
    center(advantages, count, count, true);
}

void reward_advantages(const struct reward_rule *rule, const struct scored *rewards,
                       size_t count, double *advantages)
{
    const struct reinforcement *g = &rule->plan->grpo;
    double whole = reward_summary(rewards, count).deviation;

    if (g->aggregation == AGGREGATE_NORMALIZE_FIRST) {
        normalize_then_sum(rule, rewards, count, advantages);
        return;
    }
    for (size_t i = 0; i < count; i++)
        advantages[i] = rewards[i].sum;
    center(advantages, count, (size_t)g->num_generations, g->scale == SCALE_GROUP);
    for (size_t i = 0; i < count && g->scale == SCALE_BATCH; i++)
        advantages[i] /= whole + least_deviation;
}

struct reward_moments reward_summary(const struct scored *rewards, size_t count)
{
    double *sums = memory_resize(NULL, count, sizeof(*sums));
    struct reward_moments m;

    for (size_t i = 0; i < count; i++)
        sums[i] = rewards[i].sum;
    m = moments_of(sums, count);
    free(sums);
    return m;
}
