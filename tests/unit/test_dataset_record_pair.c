/* tests/unit/test_dataset_record_pair.c - each form of preference record as a question
 * and two answers; records that cannot be compared are skipped, malformed ones are
 * reported. */
#include "config.h"

#include "train/dataset/dataset_record.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static const struct dataset_source detect;

static const struct dataset_source alpaca = {
    .name = "texts",
    .info = "d/dataset_info.json",
    .form = DATASET_ALPACA,
    .ranking = true,
    .columns = { .prompt = "ask",
                 .query = "more",
                 .system = "sys",
                 .history = "past",
                 .chosen = "good",
                 .rejected = "bad" },
};

static const struct dataset_source sharegpt = {
    .name = "talks",
    .info = "d/dataset_info.json",
    .form = DATASET_MESSAGES,
    .ranking = true,
    .columns = { .messages = "talk",
                 .system = "sys",
                 .tools = "tools",
                 .chosen = "good",
                 .rejected = "bad",
                 .role_tag = "from",
                 .content_tag = "value",
                 .user_tag = "human",
                 .assistant_tag = "gpt",
                 .observation_tag = "observation",
                 .function_tag = "function_call",
                 .system_tag = "system" },
};

static void describe_message(const struct message *message, const char *before,
                             struct text *out)
{
    static const char roles[] = {
        [ROLE_SYSTEM] = 'S', [ROLE_TOOLS] = 'T',     [ROLE_USER] = 'U',
        [ROLE_TOOL] = 'O',   [ROLE_ASSISTANT] = 'A', [ROLE_FUNCTION] = 'F'
    };

    text_addf(out, "%s%c:%.*s", before, roles[message->role], (int)message->len,
              message->text);
}

/* The result of a record: "U:question A:chosen / A:rejected", "skip: ..." or "error:
 * ...". */
static void describe(const struct dataset_source *source, const char *json,
                     struct text *out)
{
    struct conversation got = { 0 };
    struct message rejected;
    struct error err = { 0 };
    const char *why = NULL;
    json_t *record = json_read_text(json, strlen(json), "x", 1, &err);

    if (!record)
        fail_msg("%s", err.text);
    text_reset(out);
    switch (dataset_record_read_pair(source, record, &got, &rejected, &why, &err)) {
    case RECORD_BROKEN:
        assert_int_equal(err.code, ERROR_DATA);
        text_addf(out, "error: %s", err.text);
        break;
    case RECORD_SKIPPED:
        text_addf(out, "skip: %s", why);
        break;
    case RECORD_TEXT:
        fail();
        break;
    case RECORD_CONVERSATION:
        for (size_t i = 0; i < got.count; i++)
            describe_message(&got.messages[i], i > 0 ? " " : "", out);
        describe_message(&rejected, " / ", out);
        assert_float_equal(got.messages[got.count - 1].weight, 1, 0);
        assert_float_equal(rejected.weight, 1, 0);
    }
    conversation_free(&got);
    json_decref(record);
}

struct given {
    const char *json, *expected; /* with ~: a part of the result */
};

static void expect_all(const struct dataset_source *source, const struct given *given,
                       size_t count)
{
    struct text got, json;

    text_init(&got, 0);
    text_init(&json, 0);
    for (size_t i = 0; i < count; i++) {
        text_reset(&json); /* ' is easier to read than an escaped " */
        for (const char *c = given[i].json; *c; c++)
            text_addc(&json, *c == '\'' ? '"' : *c);
        describe(source, json.data, &got);
        if (text_starts(given[i].expected, "~")
                ? !strstr(got.data, given[i].expected + 1)
                : strcmp(got.data, given[i].expected) != 0)
            fail_msg("%s\n  gives %s\n  not   %s", given[i].json, got.data,
                     given[i].expected);
    }
    text_clear(&json);
    text_clear(&got);
}

static void test_dataset_record_pair_finds_texts(void **state)
{
    static const struct given cases[] = {
        { "{'prompt': 'q', 'chosen': 'c', 'rejected': 'r'}", "U:q A:c / A:r" },
        { "{'instruction': 'q', 'input': 'i', 'chosen': 'c', 'rejected': 'r'}",
          "U:q\ni A:c / A:r" },
        { "{'system': 's', 'question': 'q', 'chosen': 'c', 'rejected': 'r', 'id': 7}",
          "S:s U:q A:c / A:r" },
        { "{'input': 'q', 'chosen': 'c', 'rejected': 'r', 'generations': ['c', 'r']}",
          "U:q A:c / A:r" },
        { "{'prompt': 'q', 'system': 's', 'history': [['a', 'b']], 'chosen': 'c', "
          "'rejected': 'r'}",
          "S:s U:a A:b U:q A:c / A:r" },
        { "{'prompt': null, 'question': 'q', 'chosen': 'c', 'rejected': 'r'}",
          "U:q A:c / A:r" },
        { "{'messages': [{'role': 'user', 'content': 'q'}], 'chosen': 'c', 'rejected': "
          "'r'}",
          "U:q A:c / A:r" },
    };

    (void)state;
    expect_all(&detect, cases, TS_COUNT(cases));
}

static void test_dataset_record_pair_finds_messages(void **state)
{
    static const struct given cases[] = {
        { "{'conversations': [{'from': 'human', 'value': 'a'}, {'from': 'gpt', 'value': "
          "'b'}, {'from': 'human', 'value': 'q'}], 'chosen': {'from': 'gpt', 'value': "
          "'c'}, 'rejected': {'from': 'gpt', 'value': 'r'}}",
          "U:a A:b U:q A:c / A:r" },
        { "{'messages': [{'role': 'system', 'content': 's'}, {'role': 'user', "
          "'content': 'q'}], 'chosen': {'role': 'assistant', 'content': 'c'}, "
          "'rejected': {'role': 'assistant', 'content': [{'type': 'text', 'text': "
          "'r'}]}}",
          "S:s U:q A:c / A:r" },
        { "{'conversations': [{'from': 'human', 'value': 'q'}], 'system': 's', 'tools': "
          "[{'name': 'f'}], 'chosen': {'role': 'assistant', 'content': 'c'}, "
          "'rejected': {'role': 'assistant', 'content': 'r'}}",
          "T:[{\"name\":\"f\"}] S:s U:q A:c / A:r" },
        { "{'messages': [{'role': 'user', 'content': 'q'}], 'chosen': {'role': "
          "'assistant', 'content': null, 'tool_calls': [{'function': {'name': 'f'}}]}, "
          "'rejected': {'role': 'assistant', 'content': 'r'}}",
          "U:q F:[{\"name\":\"f\"}] / A:r" },
        { "{'prompt': [{'role': 'user', 'content': 'q'}], 'chosen': [{'role': "
          "'assistant', 'content': 'c'}], 'rejected': [{'role': 'assistant', 'content': "
          "'r'}]}",
          "U:q A:c / A:r" },
        { "{'prompt': 'q', 'chosen': [{'role': 'assistant', 'content': 'c'}], "
          "'rejected': [{'role': 'assistant', 'content': 'r'}]}",
          "U:q A:c / A:r" },
    };

    (void)state;
    expect_all(&detect, cases, TS_COUNT(cases));
}

#define Q                      "{'role': 'user', 'content': 'q'}"
#define C                      "{'role': 'assistant', 'content': 'c'}"
#define R                      "{'role': 'assistant', 'content': 'r'}"
#define TOOL                   "{'role': 'tool', 'content': '1'}"
#define PAIR(chosen, rejected) "'chosen': [" chosen "], 'rejected': [" rejected "]"
#define DIFFER                 "skip: whose conversations differ in more than the last answer"

/* The common beginning of both is the question, whatever else the record contains. */
static void test_dataset_record_pair_finds_conversations(void **state)
{
    static const struct given cases[] = {
        { "{" PAIR(Q "," C, Q "," R) "}", "U:q A:c / A:r" },
        { "{'prompt': 'p', 'messages': [], " PAIR(Q "," C, Q "," R) ", 'score': 8.0}",
          "U:q A:c / A:r" },
        { "{'system': 's', " PAIR(Q "," R "," Q "," C, Q "," R "," Q "," R) "}",
          "S:s U:q A:r U:q A:c / A:r" },
        { "{'chosen_messages': [{'role': 'user', 'content': [{'type': 'text', 'value': "
          "'q'}], 'loss_weight': 0.0}, " C "], 'rejected_messages': [{'role': 'user', "
          "'content': [{'type': 'text', 'value': "
          "'q'}], 'loss_weight': 0.0}, {'role': "
          "'assistant', 'content': [{'type': 'text', "
          "'value': 'r'}], 'loss_weight': 0.5}]}",
          "U:q A:c / A:r" },
        { "{'prompt': [" Q "], " PAIR(C "," TOOL "," C, C "," TOOL "," R) "}",
          "U:q A:c O:1 A:c / A:r" },
        { "{'prompt': 'q', " PAIR(C "," TOOL "," C, C "," TOOL "," R) "}",
          "U:q A:c O:1 A:c / A:r" },
        { "{'prompt': [" Q "], " PAIR(C "," TOOL "," C, R "," TOOL "," R) "}", DIFFER },
        { "{" PAIR(Q "," C "," Q "," R, Q "," R "," Q "," C) "}", DIFFER },
        { "{" PAIR(Q "," C, Q) "}", DIFFER },
        { "{" PAIR(Q "," C, Q "," Q) "}",
          "skip: with an answer that does not have the role assistant" },
        { "{" PAIR(R "," C, R "," R) "}", "skip: whose messages do not alternate between "
                                          "user and assistant, ending in a question" },
    };

    (void)state;
    expect_all(&detect, cases, TS_COUNT(cases));
}

static void test_dataset_record_pair_reads_described_columns(void **state)
{
    static const struct given texts[] = {
        { "{'ask': 'q', 'more': 'm', 'sys': 's', 'past': [['a', 'b']], 'good': 'c', "
          "'bad': 'r', 'chosen': 7}",
          "S:s U:a A:b U:q\nm A:c / A:r" },
        { "{'ask': 'q', 'good': {'role': 'assistant', 'content': 'c'}, 'bad': 'r'}",
          "error: \"good\" must be a string, not an object; write it as one text" },
        { "{'ask': 'q', 'good': 'c', 'bad': 2}",
          "error: \"bad\" must be a string, not a number; put it in quotes" },
        { "{'ask': 'q', 'good': 'c', 'bad': null}",
          "skip: without a chosen or a rejected answer" },
        { "{'good': 'c', 'bad': 'r'}", "error: \"ask\" must be present, not missing" },
    };
    static const struct given conversations[] = {
        { "{'talk': [{'from': 'system', 'value': 's'}, {'from': 'human', 'value': "
          "'q'}], 'good': {'from': 'gpt', 'value': 'c'}, 'bad': {'from': 'gpt', "
          "'value': 'r'}}",
          "S:s U:q A:c / A:r" },
        { "{'talk': [{'from': 'human', 'value': 'q'}], 'tools': '[{}]', 'good': "
          "{'from': 'function_call', 'value': '{}'}, 'bad': {'from': 'gpt', 'value': "
          "'r'}}",
          "T:[{}] U:q F:{} / A:r" },
        { "{'talk': [{'from': 'human', 'value': 'q'}], 'good': 'c', 'bad': 'r'}",
          "error: \"good\" must be one message with role and text, not a "
          "string" },
        { "{'talk': 'q', 'good': {'from': 'gpt', 'value': 'c'}, 'bad': {'from': 'gpt', "
          "'value': 'r'}}",
          "error: \"talk\" must be a list, not a string" },
        { "{'talk': [{'from': 'human', 'value': 'q'}, {'from': 'gpt', 'value': 'a'}], "
          "'good': {'from': 'gpt', 'value': 'c'}, 'bad': {'from': 'gpt', 'value': 'r'}}",
          "skip: whose messages do not alternate between user and assistant, ending in a "
          "question" },
        { "{'talk': [{'from': 'human', 'value': 'q'}], 'good': {'from': 'human', "
          "'value': 'c'}, 'bad': {'from': 'gpt', 'value': 'r'}}",
          "skip: with an answer that does not have the role assistant" },
    };

    (void)state;
    expect_all(&alpaca, texts, TS_COUNT(texts));
    expect_all(&sharegpt, conversations, TS_COUNT(conversations));
}

static void test_dataset_record_pair_skips_incomparable_answers(void **state)
{
    static const struct given cases[] = {
        { "{'prompt': 'q', 'chosen': 'c', 'rejected': 'c'}",
          "skip: whose two answers are the same" },
        { "{" PAIR(Q "," C, Q "," C) "}", "skip: whose two answers are the same" },
        { "{'prompt': 'q', 'chosen': '', 'rejected': 'r'}",
          "skip: with an empty answer" },
        { "{'prompt': 'q', 'chosen': 'c', 'rejected': ''}",
          "skip: with an empty answer" },
        { "{'prompt': 'q', 'chosen': [], 'rejected': []}", "skip: with an empty answer" },
        { "{'prompt': 'q', 'chosen': 'c'}",
          "skip: without a chosen or a rejected answer" },
        { "{'prompt': 'q', 'chosen': null, 'rejected': 'r'}",
          "skip: without a chosen or a rejected answer" },
    };

    (void)state;
    expect_all(&detect, cases, TS_COUNT(cases));
}

static void test_dataset_record_pair_reports_what_was_expected(void **state)
{
    static const struct given cases[] = {
        { "[]", "~a record must be an object, not a list" },
        { "{'prompt': 'q', 'chosen': 1, 'rejected': 2}",
          "error: \"chosen\" must be a text, a message or a list of messages, not a "
          "number" },
        { "{'prompt': 'q', 'chosen': 'c', 'rejected': []}",
          "error: \"rejected\" must be a string, not a list; write it as one text" },
        { "{'prompt': 'q', 'chosen': [], 'rejected': 'r'}",
          "error: \"rejected\" must be a list of messages, not a string" },
        { "{'prompt': true, 'chosen': 'c', 'rejected': 'r'}",
          "error: \"prompt\" must be a string, not true; put it in quotes" },
        { "{'chosen': 'c', 'rejected': 'r'}", "~has two answers and no known question" },
        { "{'instruction': 'q', 'output': 'a'}",
          "~no \"chosen\" and \"rejected\", the two answers that stages dpo and rm compare; "
          "use stage: sft" },
        { "{'data': [{'prompt': 'q', 'chosen': 'c', 'rejected': 'r'}]}",
          "~in the list \"data\" of this object" },
        { "{'messages': [{'role': 'user', 'content': true}], 'chosen': 'c', 'rejected': "
          "'r'}",
          "error: \"content\" must be a string, not true; put it in quotes" },
    };

    (void)state;
    expect_all(&detect, cases, TS_COUNT(cases));
}

/* A stage does not accept the other's data. */
static void test_dataset_record_pair_belongs_to_its_stage(void **state)
{
    static const struct given cases[] = {
        { "{'prompt': 'q', 'chosen': 'c', 'rejected': 'r'}",
          "stages dpo and rm compare; use one" },
        { "{'conversations': [{'from': 'human', 'value': 'q'}], 'chosen': {}, "
          "'rejected': {}}",
          "stages dpo and rm compare; use one" },
        { "{'messages': [" Q "], 'chosen': {}, 'rejected': {}}",
          "or data with one answer to each question" },
    };
    struct dataset_source single = alpaca;
    struct conversation got = { 0 };
    struct message rejected;
    const char *why = NULL;
    json_t *record = json_object();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct text json;
        json_t *pair;

        text_init(&json, 0);
        for (const char *c = cases[i].json; *c; c++)
            text_addc(&json, *c == '\'' ? '"' : *c);
        pair = json_read_text(json.data, json.len, "x", 1, &err);
        assert_int_equal(dataset_record_read(&detect, pair, false, &got, &why, &err),
                         RECORD_BROKEN);
        assert_non_null(strstr(err.text, cases[i].expected));
        json_decref(pair);
        text_clear(&json);
    }
    single.ranking = false;
    for (size_t i = 0; i < 2; i++) {
        struct error err = { 0 };

        assert_int_equal(
            i == 0
                ? dataset_record_read_pair(&single, record, &got, &rejected, &why, &err)
                : dataset_record_read(&alpaca, record, false, &got, &why, &err),
            RECORD_BROKEN);
        assert_true(text_starts(err.text, "d/dataset_info.json: dataset texts has "));
        assert_non_null(
            strstr(err.text, i == 0 ? "\"ranking\": true" : "use one of them"));
    }
    json_decref(record);
    conversation_free(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_record_pair_finds_texts),
        cmocka_unit_test(test_dataset_record_pair_finds_messages),
        cmocka_unit_test(test_dataset_record_pair_finds_conversations),
        cmocka_unit_test(test_dataset_record_pair_reads_described_columns),
        cmocka_unit_test(test_dataset_record_pair_skips_incomparable_answers),
        cmocka_unit_test(test_dataset_record_pair_reports_what_was_expected),
        cmocka_unit_test(test_dataset_record_pair_belongs_to_its_stage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
