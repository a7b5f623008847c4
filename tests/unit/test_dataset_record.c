/* tests/unit/test_dataset_record.c - each form of record as a conversation or a text;
 * records that cannot be trained on are skipped, malformed ones are reported. */
#include "config.h"

#include "train/dataset/dataset_record.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static const struct dataset_source detect;

/* "U:question", "A:answer", and "A0.5:answer" if its weight is not 1. */
static void describe_message(const struct message *message, bool blank_first,
                             struct text *out)
{
    static const char roles[] = {
        [ROLE_SYSTEM] = 'S', [ROLE_TOOLS] = 'T',     [ROLE_USER] = 'U',
        [ROLE_TOOL] = 'O',   [ROLE_ASSISTANT] = 'A', [ROLE_FUNCTION] = 'F'
    };

    text_addf(out, "%s%c", blank_first ? " " : "", roles[message->role]);
    if (message->role == ROLE_ASSISTANT && message->weight != 1)
        text_addf(out, "%g", (double)message->weight);
    text_addf(out, ":%.*s", (int)message->len, message->text);
}

static bool prompts; /* records are read as those of stage grpo */

/* The result of a record: "S:... U:... A:...", "text:...", "skip:..." or "error:...". */
static void describe(const struct dataset_source *source, const char *json, bool plain,
                     struct text *out)
{
    struct conversation got = { 0 };
    struct error err = { 0 };
    const char *why = NULL;
    json_t *record = json_read_text(json, strlen(json), "x", 1, &err);

    if (!record)
        fail_msg("%s", err.text);
    text_reset(out);
    switch (prompts ? dataset_record_read_prompt(source, record, &got, &why, &err)
                    : dataset_record_read(source, record, plain, &got, &why, &err)) {
    case RECORD_BROKEN:
        text_addf(out, "error: %s", err.text);
        break;
    case RECORD_SKIPPED:
        text_addf(out, "skip: %s", why);
        break;
    case RECORD_TEXT:
        text_addf(out, "text: %.*s", (int)got.messages[0].len, got.messages[0].text);
        break;
    case RECORD_CONVERSATION:
        for (size_t i = 0; i < got.count; i++)
            describe_message(&got.messages[i], i > 0, out);
    }
    conversation_free(&got);
    json_decref(record);
}

struct given {
    const char *json, *expected; /* for an error: the expected part of it */
};

static void expect_all(const struct dataset_source *source, bool plain,
                       const struct given *given, size_t count)
{
    struct text got;

    text_init(&got, 0);
    for (size_t i = 0; i < count; i++) {
        describe(source, given[i].json, plain, &got);
        if (text_starts(given[i].expected, "~")
                ? !strstr(got.data, given[i].expected + 1)
                : strcmp(got.data, given[i].expected) != 0)
            fail_msg("%s\n  gives %s\n  not   %s", given[i].json, got.data,
                     given[i].expected);
    }
    text_clear(&got);
}

static void test_dataset_record_finds_the_form(void **state)
{
    static const struct given cases[] = {
        { "{\"instruction\": \"Add.\", \"input\": \"1 2\", \"output\": \"3\"}",
          "U:Add.\n1 2 A:3" },
        { "{\"instruction\": \"Add.\", \"input\": \"\", \"output\": \"3\"}",
          "U:Add. A:3" },
        { "{\"instruction\": \"\", \"input\": \"1 2\", \"output\": \"3\"}", "U:1 2 A:3" },
        { "{\"instruction\": \"q\", \"output\": \"\", \"system\": \"s\", "
          "\"history\":[[\"a\", \"b\"], [\"c\", \"d\"]]}",
          "S:s U:a A:b U:c A:d U:q A:" },
        { "{\"question\": \"q\", \"answer\": \"a\", \"id\": 7}", "U:q A:a" },
        { "{\"prompt\": \"q\", \"completion\": \"a\"}", "U:q A:a" },
        { "{\"prompt\": \"q\", \"response\": \"a\"}", "U:q A:a" },
        { "{\"instruction\": \"q\", \"response\": \"a\"}", "U:q A:a" },
        { "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": "
          "\"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": "
          "\"a\"}]}",
          "S:s U:q A:a" },
        { "{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"from\": "
          "\"gpt\", \"value\": \"a\"}], \"system\": \"s\", \"tools\": \"[]\"}",
          "S:s U:q A:a" },
        { "{\"conversations\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
          "\"assistant\", \"content\": \"a\"}]}",
          "U:q A:a" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
          "\"value\": \"one\"}, {\"type\": \"text\", \"text\": \" two\"}], "
          "\"loss_weight\": 0.0}, {\"role\": \"assistant\", \"content\": [{\"type\": "
          "\"text\", \"value\": \"a\"}], \"loss_weight\": 1.0}]}",
          "U:one two A:a" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
          "\"assistant\", \"content\": \"a\", \"loss_weight\": 0}]}",
          "U:q A0:a" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"q\", \"loss_weight\": "
          "5}, {\"role\": \"assistant\", \"content\": \"a\", \"loss_weight\": 0.25}, "
          "{\"role\": \"user\", \"content\": \"r\"}, {\"role\": \"assistant\", "
          "\"content\": \"b\", \"loss_weight\": 3}]}",
          "U:q A0.25:a U:r A3:b" },
        { "{\"instruction\": \"q\", \"output\": \"a\", \"tools\": [{\"name\": \"f\"}]}",
          "T:[{\"name\":\"f\"}] U:q A:a" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
          "\"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {\"name\": "
          "\"f\"}}]}, {\"role\": \"tool\", \"content\": \"1\"}, {\"role\": \"tool\", "
          "\"content\": \"2\"}, {\"role\": \"assistant\", \"content\": \"a\"}]}",
          "U:q F:[{\"name\":\"f\"}] O:1 O:2 A:a" },
        { "{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"from\": "
          "\"function_call\", \"value\": \"{}\"}, {\"from\": \"observation\", "
          "\"value\": \"1\"}, {\"from\": \"gpt\", \"value\": \"a\"}], \"tools\": "
          "\"[1]\"}",
          "T:[1] U:q F:{} O:1 A:a" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": null}, {\"role\": "
          "\"assistant\", \"reasoning\": \"r\"}]}",
          "U: A:" },
        { "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": "
          "\"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": "
          "\"q\"}], \"completion\": [{\"role\": \"assistant\", \"content\": \"a\"}], "
          "\"tools\": [{\"name\": \"f\"}]}",
          "T:[{\"name\":\"f\"}] U:a A0:b U:q A:a" },
        { "{\"prompt\": \"q\", \"completion\": [{\"role\": \"assistant\", "
          "\"content\": \"a\"}]}",
          "U:q A:a" },
        { "{\"prompt\": [{\"role\": \"user\", \"content\": \"q\"}], "
          "\"completion\": \"a\"}",
          "U:q A:a" },
        { "{\"instruction\": \"q\", \"output\": \"a\", \"images\": [], \"video\": "
          "null}",
          "U:q A:a" },
        { "{\"texts\": [{\"user\": \"q\", \"assistant\": \"a\", \"source\": \"s\"}]}",
          "U:q A:a" },
        { "{\"texts\": [{\"user\": \"q\", \"assistant\": \"a\"}, {\"user\": \"r\", "
          "\"assistant\": 5}], \"images\": [\"1.png\", \"2.png\"]}",
          "U:<image><image>q A:a U:r A:5" },
        { "{\"texts\": [{\"user\": \"\", \"assistant\": \"a\"}], \"image\": \"1.png\"}",
          "U:<image> A:a" },
        { "{\"instruction\": \"{{name}}\", \"output\": \"I am {{name}}\"}",
          "U:{{name}} A:I am {{name}}" },
    };

    (void)state;
    expect_all(&detect, false, cases, TS_COUNT(cases));
}

static void test_dataset_record_skips_records_it_cannot_learn(void **state)
{
    static const struct given cases[] = {
        { "{\"instruction\": \"q\", \"output\": null}", "~without an answer" },
        { "{\"messages\": []}", "~alternate" },
        { "{\"texts\": [], \"images\": [\"1.png\"]}", "skip: without a question" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}", "~alternate" },
        { "{\"messages\": [{\"role\": \"assistant\", \"content\": \"q\"}, {\"role\": "
          "\"user\", \"content\": \"q\"}]}",
          "~alternate" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
          "\"system\", \"content\": \"q\"}]}",
          "~alternate" },
        { "{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"from\": "
          "\"observation\", \"value\": \"1\"}, {\"from\": \"gpt\", \"value\": \"a\"}]}",
          "~alternate" },
    };

    (void)state;
    expect_all(&detect, false, cases, TS_COUNT(cases));
}

static void test_dataset_record_reports_malformed_records(void **state)
{
    static const struct given cases[] = {
        { "[1]", "~must be an object, not a list" },
        { "{\"foo\": 1}", "~no known keys" },
        { "{\"text\": \"t\"}", "~stage: pt" },
        { "{\"texts\": [\"t\"]}", "~no known keys" },
        { "{\"texts\": {\"user\": \"q\", \"assistant\": \"a\"}}", "~no known keys" },
        { "{\"texts\": [{\"user\": \"q\"}]}",
          "error: \"assistant\" must be a string, not missing; add it, or remove the "
          "record" },
        { "{\"texts\": [{\"user\": [], \"assistant\": \"a\"}]}",
          "error: \"user\" must be a string, not a list; write it as one text" },
        { "{\"texts\": [{\"user\": \"q\", \"assistant\": \"a\"}, \"t\"]}",
          "error: \"texts\" must be a list of objects {\"user\": ..., \"assistant\": ...}, "
          "not a string" },
        { "{\"texts\": [{\"user\": \"q\", \"assistant\": \"a\"}], \"images\": [null]}",
          "~\"images\" must be the path of a file" },
        { "{\"instruction\": true, \"output\": \"a\"}",
          "error: \"instruction\" must be a string, not true; put it in quotes" },
        { "{\"instruction\": \"q\", \"output\": false}",
          "error: \"output\" must be a string, not false; put it in quotes" },
        { "{\"instruction\": 5, \"output\": 0.1}", "U:5 A:0.1" },
        { "{\"instruction\": \"q\", \"output\": \"a\", \"system\": []}",
          "error: \"system\" must be a string, not a list; write it as one text" },
        { "{\"instruction\": \"q\", \"output\": \"a\", \"history\": [[\"a\"]]}",
          "~[question, answer]" },
        { "{\"instruction\": \"q\", \"output\": \"a\", \"history\": {}}",
          "~must be a list" },
        { "{\"messages\": {}}", "error: \"messages\" must be a list, not an object" },
        { "{\"messages\": [{\"content\": \"q\"}]}",
          "error: \"role\" must be a string, not missing; add it, or remove "
          "the record" },
        { "{\"messages\": [{\"role\": \"user\"}]}",
          "error: \"content\" must be a string, not missing; add it, or remove "
          "the record" },
        { "{\"instruction\": \"q\", \"output\": \"a\", \"videos\": [\"a.mp4\"]}",
          "error: the record has \"videos\", and videos are not supported; give frames as "
          "images, or remove the key, and its placeholders in the text, to train on the "
          "text alone" },
        { "{\"messages\": [], \"video\": \"a.mp4\"}", "~has \"video\"" },
        { "{\"messages\": [], \"audio\": 5}",
          "error: \"audio\" must be the path of a file, {\"bytes\": ..., \"path\": ...}, or "
          "a list of these, not a number" },
        { "{\"messages\": [], \"images\": [\"a.png\", null]}", "~not null" },
        { "{\"messages\": [], \"images\": [{\"path\": null}]}", "~not an object" },
        { "{\"messages\": [], \"images\": [\"a\\u0000.png\"]}", "~a byte of zero" },
        { "{\"prompt\": [{\"role\": \"user\", \"content\": \"q\"}], "
          "\"completion\": {}}",
          "error: \"completion\" must be a list of messages, not an object" },
        { "{\"messages\": [], \"chat_template_kwargs\": 1}",
          "error: \"chat_template_kwargs\" must be an object, not a number" },
        { "{\"data\": [{\"instruction\": \"q\"}]}", "~`jq '.[\"data\"]' FILE`" },
        { "[{\"instruction\": \"q\"}]", "~must be named .json" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"video\"}]}]}",
          "~type \"video\"; text, image and audio are supported" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\", "
          "\"image\": 5}]}]}",
          "~not a number" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
          "\"assistant\", \"content\": \"a\", \"loss_weight\": -0.5}]}",
          "~\"loss_weight\" must be a number from 0 to 1000, not -0.5" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
          "\"assistant\", \"content\": \"a\", \"loss_weight\": 1001}]}",
          "~not 1001" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
          "\"assistant\", \"content\": \"a\", \"loss_weight\": \"1\"}]}",
          "~not a string" },
    };

    (void)state;
    expect_all(&detect, false, cases, TS_COUNT(cases));
}

static void test_dataset_record_is_text_for_pretraining(void **state)
{
    static const struct given cases[] = {
        { "{\"text\": \"t\"}", "text: t" },
        { "{\"content\": \"c\"}", "text: c" },
        { "{\"text\": true}",
          "error: \"text\" must be a string, not true; put it in quotes" },
        { "{\"question\": \"q\", \"answer\": \"a\"}", "~stage: sft" },
    };
    static const struct dataset_source named = {
        .form = DATASET_ALPACA,
        .columns = { .prompt = "body", .query = "more", .response = "output" },
    };
    static const struct given named_cases[] = {
        { "{\"body\": \"b\", \"output\": \"unused\"}", "text: b" },
        { "{\"body\": \"b\", \"more\": \"m\"}", "text: b\nm" },
        { "{\"more\": \"m\"}", "text: m" },
        { "{\"more\": \"\"}", "~\"body\" must be present" },
    };
    static const struct dataset_source messages_source = { .form = DATASET_MESSAGES };
    static const struct given talk_cases[] = { { "{}", "~stage: sft" } };

    (void)state;
    expect_all(&detect, true, cases, TS_COUNT(cases));
    expect_all(&named, true, named_cases, TS_COUNT(named_cases));
    expect_all(&messages_source, true, talk_cases, TS_COUNT(talk_cases));
}

/* The columns that no part of a sample comes from. */
static void test_dataset_record_reports_unread_columns(void **state)
{
    static const struct {
        const char *json, *unread;
    } cases[] = {
        { "{\"instruction\": \"q\", \"output\": \"a\", \"id\": 7, \"note\": \"\", "
          "\"tags\": [1], \"input\": \"i\"}",
          "id tags " },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
          "\"assistant\", \"content\": \"a\"}], \"prompt\": \"p\", \"tools\": "
          "\"[]\", \"chat_template_kwargs\": {\"a\": 1}}",
          "prompt " },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct conversation got = { 0 };
        struct error err = { 0 };
        const char *why;
        json_t *record =
            json_read_text(cases[i].json, strlen(cases[i].json), "x", 1, &err);
        struct text unread;

        text_init(&unread, 0);
        assert_int_equal(dataset_record_read(&detect, record, false, &got, &why, &err),
                         RECORD_CONVERSATION);
        for (void *at = json_object_iter(record); at;
             at = json_object_iter_next(record, at))
            if (dataset_record_unread(&got, at))
                text_addf(&unread, "%s ", dataset_record_unread(&got, at));
        assert_string_equal(unread.data, cases[i].unread);
        text_clear(&unread);
        conversation_free(&got);
        json_decref(record);
    }
}

/* TRL's data of stage grpo. */
static void test_dataset_record_reads_prompts(void **state)
{
    static const struct given cases[] = {
        { "{\"prompt\": \"1+1?\", \"solution\": \"2\"}", "U:1+1? A:2" },
        { "{\"prompt\": \"1+1?\", \"answer\": 2}", "U:1+1? A:2" },
        { "{\"prompt\": \"1+1?\", \"solution\": null, \"ground_truth\": \"2\"}",
          "U:1+1? A:2" },
        { "{\"prompt\": \"1+1?\"}", "U:1+1? A:" },
        { "{\"prompt\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": "
          "\"user\", \"content\": \"1+1?\"}], \"solution\": \"2\"}",
          "S:s U:1+1? A:2" },
        { "{\"prompt\": [{\"role\": \"user\", \"content\": \"1+1?\"}]}", "U:1+1? A:" },
        { "{\"prompt\": \"p\", \"completion\": \"c\", \"solution\": \"2\"}", "U:p A:c" },
        { "{\"question\": \"q\", \"answer\": \"a\"}", "U:q A:a" },
        { "{\"prompt\": \"p\", \"solution\": {\"a\": 1}}", "~\"completion\" must be" },
        { "{\"solution\": \"2\"}", "~no known keys" },
    };
    static const struct given answers[] = {
        { "{\"prompt\": [{\"role\": \"user\", \"content\": \"q\"}], \"solution\": "
          "\"2\"}",
          "~no known keys" },
    };

    (void)state;
    expect_all(&detect, false, answers, TS_COUNT(answers));
    prompts = true;
    expect_all(&detect, false, cases, TS_COUNT(cases));
    prompts = false;
}

/* A table has null if a record has no such column. */
static void test_dataset_record_may_lack_the_prompt(void **state)
{
    static const struct dataset_source source = {
        .form = DATASET_ALPACA,
        .columns = { .prompt = "instruction", .query = "input", .response = "output" },
    };
    static const struct given cases[] = {
        { "{\"input\": \"q\", \"output\": \"a\"}", "U:q A:a" },
        { "{\"instruction\": null, \"input\": \"q\", \"output\": \"a\"}", "U:q A:a" },
        { "{\"input\": \"\", \"output\": \"a\"}",
          "~\"instruction\" must be present, not missing" },
        { "{\"input\": null, \"output\": \"a\"}", "~\"instruction\" must be present" },
        { "{\"output\": \"a\"}", "~\"instruction\" must be present" },
    };

    (void)state;
    expect_all(&source, false, cases, TS_COUNT(cases));
}

/* If dataset_info.json names tags, only these are used. */
static void test_dataset_record_follows_its_tags(void **state)
{
    static const struct dataset_source source = {
        .form = DATASET_MESSAGES,
        .columns = { .messages = "m",
                     .system = "s",
                     .role_tag = "who",
                     .content_tag = "what",
                     .user_tag = "me",
                     .assistant_tag = "it",
                     .function_tag = "call",
                     .system_tag = "rule" },
    };
    static const struct given cases[] = {
        { "{\"m\": [{\"who\": \"me\", \"what\": \"q\"}, {\"who\": \"it\", \"what\": "
          "\"a\"}], \"s\": \"sys\"}",
          "S:sys U:q A:a" },
        { "{\"m\": [{\"who\": \"rule\", \"what\": \"r\"}, {\"who\": \"me\", \"what\": "
          "\"q\"}, {\"who\": \"it\", \"what\": \"a\"}], \"s\": \"sys\"}",
          "S:r U:q A:a" },
        { "{\"m\": [{\"who\": \"user\", \"what\": \"q\"}, {\"who\": \"it\", \"what\": "
          "\"a\"}]}",
          "skip: with a message of the role \"user\", not me or it; set user_tag and "
          "assistant_tag in dataset_info.json" },
        { "{\"m\": [{\"who\": \"me\", \"what\": \"q\"}, {\"who\": \"call\", \"what\": "
          "\"a\"}]}",
          "U:q F:a" },
    };

    (void)state;
    expect_all(&source, false, cases, TS_COUNT(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_record_finds_the_form),
        cmocka_unit_test(test_dataset_record_skips_records_it_cannot_learn),
        cmocka_unit_test(test_dataset_record_reports_malformed_records),
        cmocka_unit_test(test_dataset_record_is_text_for_pretraining),
        cmocka_unit_test(test_dataset_record_reports_unread_columns),
        cmocka_unit_test(test_dataset_record_reads_prompts),
        cmocka_unit_test(test_dataset_record_may_lack_the_prompt),
        cmocka_unit_test(test_dataset_record_follows_its_tags),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
