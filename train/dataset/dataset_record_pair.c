/* train/dataset/dataset_record_pair.c - preference records: a question, and a chosen and
 * a rejected answer. The answers are texts, messages, or the last messages of complete
 * conversations. */
#include "config.h"

#include "train/dataset/dataset_record.h"

#include <string.h>

#include "base/size.h"
#include "train/dataset/dataset_record_internal.h"

static const char no_answers[] = "without a chosen or a rejected answer";
static const char empty_answer[] = "with an empty answer";
static const char different_starts[] =
    "whose conversations differ in more than the last answer";

/* A record with its answers: the chosen one, the rejected one. */
struct pair {
    struct reading reading;
    /* of `reading`; detected by keys if dataset_info.json does not describe them */
    struct dataset_columns columns;
    const char *keys[2];
    const json_t *answers[2];
};

static void find_answers(struct pair *pair)
{
    pair->keys[0] = pair->columns.chosen;
    pair->keys[1] = pair->columns.rejected;
    for (size_t i = 0; i < 2; i++)
        pair->answers[i] = record_get(&pair->reading, pair->keys[i]);
}

/* An answer that is missing or null was left out on purpose: such records are skipped. */
static bool has_both_answers(const struct pair *pair)
{
    return !record_is_absent(pair->answers[0]) && !record_is_absent(pair->answers[1]);
}

static enum record_kind read_question(const struct pair *pair, bool list)
{
    const json_t *messages = record_get(&pair->reading, pair->columns.messages);

    if (list)
        return record_list(&pair->reading, messages, json_array_size(messages));
    return record_has_question(&pair->reading) && record_question(&pair->reading)
               ? RECORD_CONVERSATION
               : RECORD_BROKEN;
}

/* Return RECORD_BROKEN if an answer is not of `type`. */
static enum record_kind check_answers(const struct pair *pair, json_type type)
{
    static const char *const expected[] = {
        [JSON_STRING] = "a string",
        [JSON_OBJECT] = "one message with role and text",
        [JSON_ARRAY] = "a list of messages",
    };

    for (size_t i = 0; i < 2; i++)
        if (json_typeof(pair->answers[i]) != type)
            return record_broken(&pair->reading, pair->keys[i], expected[type],
                                 pair->answers[i]);
    return RECORD_CONVERSATION;
}

/* Add both answers after the question. A list is a conversation: its last message is the
 * answer. */
static enum record_kind add_answers(const struct pair *pair)
{
    enum record_kind kind = RECORD_CONVERSATION;

    for (size_t i = 0; kind == RECORD_CONVERSATION && i < 2; i++) {
        const json_t *answer = pair->answers[i];
        size_t count = json_array_size(answer);

        if (json_is_string(answer))
            conversation_add(pair->reading.out,
                             &(struct message) { ROLE_ASSISTANT,
                                                 json_string_value(answer),
                                                 json_string_length(answer), 1, NULL });
        else
            kind = record_message(&pair->reading,
                                  count > 0 ? json_array_get(answer, count - 1) : answer);
    }
    return kind;
}

/* The medium of a message after medium *at; NULL: there is none. */
static const struct record_medium *next_medium(const struct conversation *record,
                                               const struct message *message, size_t *at)
{
    while (*at < record->media_count)
        if (record->media[(*at)++].text == message->text)
            return &record->media[*at - 1];
    return NULL;
}

static bool is_same_medium(const struct record_medium *a, const struct record_medium *b)
{
    if (!a || !b)
        return !a && !b;
    return text_equal(a->path, b->path) && a->len == b->len &&
           (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* Return whether two messages have the same media as parts. */
static bool have_same_media(const struct conversation *record, const struct message *a,
                            const struct message *b)
{
    const struct record_medium *first, *second;
    size_t i = 0, k = 0;

    do {
        first = next_medium(record, a, &i);
        second = next_medium(record, b, &k);
        if (!is_same_medium(first, second))
            return false;
    } while (first);
    return true;
}

static bool is_same(const struct conversation *record, const struct message *a,
                    const struct message *b)
{
    return a->role == b->role && a->len == b->len &&
           memcmp(a->text, b->text, a->len) == 0 &&
           (a->own == b->own || json_equal(a->own, b->own)) &&
           have_same_media(record, a, b);
}

/* Move the rejected answer from the end of the conversation to *rejected, and check the
 * result. All tokens of an answer have the same weight. */
static enum record_kind finish_pair(const struct pair *pair, struct message *rejected)
{
    struct conversation *out = pair->reading.out;
    struct message *chosen = &out->messages[out->count - 2];

    *rejected = out->messages[--out->count];
    chosen->weight = rejected->weight = 1;
    if (chosen->role < ROLE_ASSISTANT || rejected->role < ROLE_ASSISTANT)
        return record_skipped(&pair->reading,
                              "with an answer that does not have the role assistant");
    if (!template_turns_are_valid(out->messages, out->count))
        return record_skipped(&pair->reading,
                              "whose messages do not alternate between user and "
                              "assistant, ending in a question");
    if (chosen->len == 0 || rejected->len == 0)
        return record_skipped(&pair->reading, empty_answer);
    return is_same(out, chosen, rejected)
               ? record_skipped(&pair->reading, "whose two answers are the same")
               : RECORD_CONVERSATION;
}

/* Return whether two conversations differ only in their last messages. */
static bool start_the_same(const struct pair *pair)
{
    size_t count = json_array_size(pair->answers[0]);

    if (json_array_size(pair->answers[1]) != count)
        return false;
    for (size_t i = 0; i + 1 < count; i++) {
        const json_t *a = json_array_get(pair->answers[0], i);
        const json_t *b = json_array_get(pair->answers[1], i);

        if (!json_equal(a, b))
            return false;
    }
    return true;
}

/* Answers of several messages, such as calls and their results: those before the last are
 * part of the question, and must be the same. */
static enum record_kind add_shared(struct pair *pair)
{
    enum record_kind kind = RECORD_CONVERSATION;
    size_t count = json_array_size(pair->answers[0]);

    if (count == 0)
        return kind;
    if (!start_the_same(pair))
        return record_skipped(&pair->reading, different_starts);
    for (size_t i = 0; kind == RECORD_CONVERSATION && i + 1 < count; i++)
        kind = record_message(&pair->reading, json_array_get(pair->answers[0], i));
    return kind;
}

/* like: a message with the same keys as the answers; used if the columns are not
 * described. */
static enum record_kind read_pair(struct pair *pair, bool list, const json_t *like)
{
    enum record_kind kind = read_question(pair, list);

    record_detect_tags(&pair->columns, like);
    if (kind == RECORD_CONVERSATION)
        kind = add_shared(pair);
    return kind == RECORD_CONVERSATION ? add_answers(pair) : kind;
}

/* ---- Forms by their keys, for files named directly ---- */

static const char *const known_answers[][2] = {
    { "chosen", "rejected" },
    { "chosen_messages", "rejected_messages" },
};

/* Each may be a text or a list of messages. */
static const char *const known_questions[] = {
    "prompt", "instruction", "question", "query", "input", "messages", "conversations",
};

/* Find the question; set *list if it is a list of messages. */
static bool find_question(struct pair *pair, bool *list)
{
    const json_t *value = NULL;
    const char *key = NULL;

    for (size_t i = 0; i < TS_COUNT(known_questions) && record_is_absent(value); i++) {
        key = known_questions[i];
        value = record_get(&pair->reading, key);
    }
    if (record_is_absent(value))
        return error_set(
            pair->reading.err, ERROR_DATA,
            "the record has two answers and no known question: prompt, instruction, "
            "question, messages, conversations; name its column in dataset_info.json");
    *list = json_is_array(value);
    if (*list) {
        pair->columns.messages = key;
        record_detect_tags(&pair->columns, json_array_get(value, 0));
        return true;
    }
    pair->columns.prompt = key;
    pair->columns.query = strcmp(key, "instruction") == 0 ? "input" : NULL;
    return true;
}

/* Complete conversations; a separate question column would repeat their question. */
static enum record_kind read_whole(struct pair *pair)
{
    size_t count = json_array_size(pair->answers[0]);
    enum record_kind kind;

    record_detect_tags(&pair->columns, json_array_get(pair->answers[0], 0));
    if (!start_the_same(pair))
        return record_skipped(&pair->reading, different_starts);
    kind = record_list(&pair->reading, pair->answers[0], count - 1);
    return kind == RECORD_CONVERSATION ? add_answers(pair) : kind;
}

/* Return whether the answers are lists that continue a question in another column. */
static bool continues(const struct pair *pair)
{
    bool asked = false;

    for (size_t i = 0; i < TS_COUNT(known_questions); i++)
        asked |= !record_is_absent(record_get(&pair->reading, known_questions[i]));
    return asked && record_continues(&pair->reading, pair->answers[0]) &&
           record_continues(&pair->reading, pair->answers[1]);
}

static enum record_kind read_by_type(struct pair *pair)
{
    const json_t *chosen = pair->answers[0];
    size_t chosen_count = json_array_size(chosen),
           rejected_count = json_array_size(pair->answers[1]);
    json_type type = json_typeof(chosen);
    bool list = false;

    if (type != JSON_STRING && type != JSON_OBJECT && type != JSON_ARRAY)
        return record_broken(&pair->reading, pair->keys[0],
                             "a text, a message or a list of messages", chosen);
    if (check_answers(pair, type) != RECORD_CONVERSATION)
        return RECORD_BROKEN;
    if (type == JSON_ARRAY && (chosen_count == 0 || rejected_count == 0))
        return record_skipped(&pair->reading, empty_answer);
    record_detect_tags(&pair->columns, json_array_get(chosen, 0));
    if ((chosen_count > 1 || rejected_count > 1) && !continues(pair))
        return read_whole(pair);
    if (!find_question(pair, &list))
        return RECORD_BROKEN;
    return read_pair(pair, list, type == JSON_ARRAY ? json_array_get(chosen, 0) : chosen);
}

static enum record_kind read_detected(struct pair *pair)
{
    const struct dataset_columns form = {
        .history = "history",
        .system = "system",
        .tools = "tools",
        .role_tag = "role",
        .content_tag = "content",
    };

    for (size_t i = 0; i < TS_COUNT(known_answers); i++) {
        pair->columns = form;
        record_detect_media(&pair->reading, &pair->columns);
        pair->columns.chosen = known_answers[i][0];
        pair->columns.rejected = known_answers[i][1];
        find_answers(pair);
        if (!pair->answers[0] && !pair->answers[1])
            continue;
        return has_both_answers(pair) ? read_by_type(pair)
                                      : record_skipped(&pair->reading, no_answers);
    }
    if (record_is_flat(&pair->reading))
        error_set(pair->reading.err, ERROR_DATA,
                  "the record has no \"chosen\" and \"rejected\", the two answers that "
                  "stages dpo and rm compare; use stage: sft for single answers, or "
                  "name their columns in dataset_info.json (ranking)");
    return RECORD_BROKEN;
}

/* ---- Forms of dataset_info.json ---- */

static enum record_kind read_described(struct pair *pair, bool list)
{
    find_answers(pair);
    if (!has_both_answers(pair))
        return record_skipped(&pair->reading, no_answers);
    if (check_answers(pair, list ? JSON_OBJECT : JSON_STRING) != RECORD_CONVERSATION)
        return RECORD_BROKEN;
    return read_pair(pair, list, NULL);
}

enum record_kind dataset_record_read_pair(const struct dataset_source *source,
                                          const json_t *record, struct conversation *out,
                                          struct message *rejected, const char **why,
                                          struct error *err)
{
    struct pair pair = { .columns = source->columns };
    enum record_kind kind;

    pair.reading = (struct reading) { &pair.columns, record, out, why, err };
    conversation_clear(out);
    if (!record_is_object(&pair.reading) || !dataset_source_check(source, STAGE_DPO, err))
        return RECORD_BROKEN;
    kind = source->form == DATASET_DETECT
               ? read_detected(&pair)
               : read_described(&pair, source->form == DATASET_MESSAGES);
    if (kind == RECORD_CONVERSATION && !record_note_columns(&pair.reading))
        return RECORD_BROKEN;
    return kind == RECORD_CONVERSATION ? finish_pair(&pair, rejected) : kind;
}
