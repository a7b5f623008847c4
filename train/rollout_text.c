/* train/rollout_text.c - sampled answers as JSON, in a checkpoint between two steps that use
 * the same ones. */
#include "config.h"

#include "train/rollout.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/digest.h"
#include "base/json.h"

/* ---- What the answers were sampled for ---- */

static void add_text(struct digest *digest, const char *text)
{
    digest_add(digest, text ? text : "", text ? strlen(text) + 1 : 1);
}

static void add_settings(struct digest *digest, const struct rollout *r)
{
    const struct plan *plan = r->plan;
    const struct reinforcement *g = &plan->grpo;
    char numbers[160];

    snprintf(numbers, sizeof(numbers), "%zu %" PRId64 " %" PRId64 " %" PRId64, r->count,
             g->num_generations, g->max_completion_length, g->punish_cache);
    add_text(digest, numbers);
    add_text(digest, g->rewards);
    add_text(digest, g->weights);
    add_text(digest, g->pattern);
    add_text(digest, plan->answer_tag);
    add_text(digest, plan->answer_marker);
}

/* Write the digest of what the answers depend on, apart from the weights: the settings of
 * generations and rewards, and the prompts. */
static void digest_purpose(const struct rollout *r, const json_t *answers,
                           char out[DIGEST_TEXT])
{
    struct digest *digest = digest_new();
    struct dataset_question q;

    add_settings(digest, r);
    for (size_t i = 0; i < json_array_size(answers); i++) {
        const json_t *question = json_object_get(json_array_get(answers, i), "question");
        json_int_t number = json_integer_value(question);

        if (number < 0 || (size_t)number >= dataset_questions(r->data))
            continue; /* of other data */
        dataset_question(r->data, (size_t)number, &q);
        digest_add(digest, &q.question_len, sizeof(q.question_len));
        digest_add(digest, q.ids, q.question_len * sizeof(*q.ids));
    }
    digest_end(digest, out);
}

/* ---- Writing ---- */

static json_t *answer_json(const struct rollout *r, const struct rollout_answer *answer)
{
    json_t *object = json_object(), *ids = json_array(), *old = json_array(),
           *parts = json_array();

    for (size_t i = 0; i < answer->count; i++)
        json_array_append_new(ids, json_integer(answer->ids[i]));
    for (size_t i = 0; answer->old && i < answer->count; i++)
        json_array_append_new(old, json_number((double)answer->old[i]));
    for (size_t i = 0; i < reward_rule_count(r->rule); i++)
        json_array_append_new(parts, json_number(answer->reward.parts[i]));
    json_object_set_new(object, "question", json_integer((json_int_t)answer->question));
    json_object_set_new(object, "ids", ids);
    json_object_set_new(object, "end", json_integer(answer->end));
    json_object_set_new(object, "parts", parts);
    json_object_set_new(object, "reward", json_number(answer->reward.sum));
    json_object_set_new(object, "found", json_boolean(answer->reward.found));
    json_object_set_new(object, "correct", json_boolean(answer->reward.correct));
    json_object_set_new(object, "old", old);
    return object;
}

char *rollout_text(const struct rollout *r, int64_t step)
{
    int64_t uses = r ? plan_generation_uses(r->plan) : 1;
    char purpose[DIGEST_TEXT];
    json_t *object, *answers;
    struct text text;

    /* at the first step they are generated again, also if a stop came in between */
    if (step % uses == 0 || r->generation != step / uses)
        return NULL;
    object = json_object();
    answers = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_array_append_new(answers, answer_json(r, &r->answers[i]));
    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "generation", json_integer(r->generation));
    digest_purpose(r, answers, purpose);
    json_object_set_new(object, "purpose", json_string(purpose));
    json_object_set_new(object, "answers", answers);
    text_init(&text, 0);
    json_write(object, &text);
    json_decref(object);
    return text_detach(&text, NULL);
}

/* ---- Reading ---- */

/* Inf and NaN are strings; of either, the run stops alike. */
static double number_at(const json_t *array, size_t i)
{
    const json_t *value = json_array_get(array, i);

    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static bool read_answer(const struct rollout *r, const json_t *object,
                        struct rollout_answer *out)
{
    const json_t *ids = json_object_get(object, "ids"),
                 *old = json_object_get(object, "old"),
                 *parts = json_object_get(object, "parts"),
                 *reward = json_object_get(object, "reward");
    json_int_t question = json_integer_value(json_object_get(object, "question")),
               end = json_integer_value(json_object_get(object, "end"));

    *out = (struct rollout_answer) { .question = (size_t)question,
                                     .count = json_array_size(ids),
                                     .end = (enum completion_end)end };
    out->ids = memory_resize(NULL, out->count + 1, sizeof(*out->ids));
    out->old = memory_resize(NULL, out->count + 1, sizeof(*out->old));
    for (size_t i = 0; i < out->count; i++) {
        json_int_t id = json_integer_value(json_array_get(ids, i));

        if (id < 0 || id > INT32_MAX)
            return false;
        out->ids[i] = (int32_t)id;
        out->old[i] = (float)number_at(old, i);
    }
    for (size_t i = 0; i < reward_rule_count(r->rule); i++)
        out->reward.parts[i] = number_at(parts, i);
    out->reward.sum = json_number_value(reward);
    out->reward.found = json_is_true(json_object_get(object, "found"));
    out->reward.correct = json_is_true(json_object_get(object, "correct"));
    return question >= 0 && (size_t)question < dataset_questions(r->data) && end >= 0 &&
           end < COMPLETION_ENDS && json_array_size(old) == out->count &&
           json_array_size(parts) == reward_rule_count(r->rule) &&
           out->count <= (size_t)r->plan->grpo.max_completion_length;
}

static bool read_all(struct rollout *r, const json_t *object)
{
    const json_t *answers = json_object_get(object, "answers");
    const json_t *generation = json_object_get(object, "generation");

    if (!json_is_integer(generation) || json_array_size(answers) != r->count)
        return false;
    for (size_t i = 0; i < r->count; i++)
        if (!read_answer(r, json_array_get(answers, i), &r->answers[i]))
            return false;
    r->generation = json_integer_value(generation);
    return true;
}

/* Return whether the answers were sampled for what the run samples now. */
static bool is_for(const struct rollout *r, const json_t *object)
{
    const char *purpose = json_string_value(json_object_get(object, "purpose"));
    char now[DIGEST_TEXT];

    if (!purpose) /* read_all decides */
        return true;
    digest_purpose(r, json_object_get(object, "answers"), now);
    return strcmp(purpose, now) == 0;
}

bool rollout_read(struct rollout *r, const char *text, size_t len, const char *name,
                  struct error *err)
{
    json_t *object = json_read_text(text, len, name, 1, err);
    bool ok;

    rollout_forget(r);
    if (!object)
        return false;
    if (!is_for(r, object)) {
        json_decref(object);
        return true;
    }
    ok = read_all(r, object) ||
         error_set(err, ERROR_DATA, "%s does not have the answers of this job", name);
    json_decref(object);
    if (ok)
        rollout_reward(r);
    else
        rollout_forget(r);
    return ok;
}
