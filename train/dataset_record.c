/*
 * train/dataset_record.c - the forms of records.  What is not of its form is an error,
 * with what was wanted; a conversation that cannot be learnt (roles out of turn) is
 * skipped, as LLaMA-Factory does.
 */
#include "config.h"

#include "train/dataset_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

static const char bad_turns[] =
    "whose roles are not user and assistant in turn, ending in an "
    "answer";
/* Beyond it fp16 gradients overflow at any loss scale. */
#define WEIGHT_MAX 1000

static const char no_answer[] = "without an answer";

/* Reading of one record. */
struct reading {
    const struct dataset_columns *columns;
    const json_t *record;
    struct conversation *out;
    const char **why;
    struct error *err;
};

void conversation_clear(struct conversation *conversation)
{
    for (size_t i = 0; i < conversation->own_count; i++)
        free(conversation->own[i]);
    conversation->own_count = conversation->count = 0;
}

void conversation_free(struct conversation *conversation)
{
    conversation_clear(conversation);
    free(conversation->own);
    free(conversation->messages);
    *conversation = (struct conversation) { 0 };
}

static void add_message(struct conversation *out, const struct message *message)
{
    if (out->count == out->room) {
        out->room = out->room ? 2 * out->room : 16;
        out->messages = memory_resize(out->messages, out->room, sizeof(struct message));
    }
    out->messages[out->count++] = *message;
}

/* Keep a text that is not in the JSON as it stands. */
static struct message own_text(struct conversation *out, struct text *text)
{
    struct message message = { 0 };

    if (out->own_count == out->own_room) {
        out->own_room = out->own_room ? 2 * out->own_room : 16;
        out->own = memory_resize(out->own, out->own_room, sizeof(char *));
    }
    message.text = out->own[out->own_count++] = text_detach(text, &message.len);
    return message;
}

static const char *kind_name(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };

    return value ? names[json_typeof(value)] : "missing";
}

/* What to do about something that is no string. */
static const char *remedy_for(const json_t *got)
{
    if (!got || json_is_null(got))
        return "; give it, or take the record out";
    return json_is_array(got) || json_is_object(got) ? "; write it as one text"
                                                     : "; put it in quotes";
}

static enum record_kind broken(const struct reading *reading, const char *key,
                               const char *wanted, const json_t *got)
{
    error_set(reading->err, ERROR_DATA, "\"%s\" must be %s, and is %s%s", key, wanted,
              kind_name(got), strcmp(wanted, "a string") == 0 ? remedy_for(got) : "");
    return RECORD_BROKEN;
}

static enum record_kind skipped(const struct reading *reading, const char *why)
{
    *reading->why = why;
    return RECORD_SKIPPED;
}

static const json_t *get(const struct reading *reading, const char *column)
{
    return column ? json_object_get(reading->record, column) : NULL;
}

static bool is_absent(const json_t *value)
{
    return !value || json_is_null(value);
}

/* A string or nothing; false: something else. */
static bool get_text(const struct reading *reading, const char *column,
                     struct message *message)
{
    const json_t *value = get(reading, column);

    message->text = "";
    message->len = 0;
    if (is_absent(value))
        return true;
    if (!json_is_string(value)) {
        broken(reading, column, "a string", value);
        return false;
    }
    message->text = json_string_value(value);
    message->len = json_string_length(value);
    return true;
}

/* Keep JSON as a text. */
static struct message own_json(struct conversation *out, const json_t *json)
{
    struct text text;

    text_init(&text, 0);
    json_write(json, &text);
    return own_text(out, &text);
}

/* Tools are described in a list, or in a string of one. */
static bool read_tools(const struct reading *reading, const char *column)
{
    const json_t *tools = get(reading, column);
    struct message message = { .role = ROLE_TOOLS };

    if (json_is_string(tools)) {
        message.text = json_string_value(tools);
        message.len = json_string_length(tools);
        if (message.text[strspn(message.text, "[] \t\n")] == 0)
            return true;
    } else if (json_array_size(tools) > 0) {
        message = own_json(reading->out, tools);
        message.role = ROLE_TOOLS;
    } else {
        return is_absent(tools) || json_is_array(tools) ||
               (broken(reading, column, "a list of functions", tools), false);
    }
    add_message(reading->out, &message);
    return true;
}

static bool read_system(const struct reading *reading, const char *column)
{
    struct message message = { .role = ROLE_SYSTEM };

    if (!get_text(reading, column, &message))
        return false;
    message.role = ROLE_SYSTEM;
    if (message.len > 0)
        add_message(reading->out, &message);
    return true;
}

/* Earlier turns: a list of [question, answer]. */
static bool read_history(const struct reading *reading)
{
    const char *key = reading->columns->history;
    const json_t *history = get(reading, key);

    if (is_absent(history))
        return true;
    for (size_t i = 0; i < json_array_size(history); i++) {
        const json_t *pair = json_array_get(history, i);
        const json_t *question = json_array_get(pair, 0),
                     *answer = json_array_get(pair, 1);

        if (!json_is_string(question) || !json_is_string(answer)) {
            broken(reading, key, "a list of [question, answer]", pair);
            return false;
        }
        add_message(reading->out,
                    &(struct message) { ROLE_USER, json_string_value(question),
                                        json_string_length(question), 0 });
        add_message(reading->out,
                    &(struct message) { ROLE_ASSISTANT, json_string_value(answer),
                                        json_string_length(answer), 1 });
    }
    return json_is_array(history) || (broken(reading, key, "a list", history), false);
}

/* The instruction, and below it the input. */
static bool read_question(const struct reading *reading)
{
    struct message prompt = { 0 }, query = { 0 };
    struct text both;

    if (!get_text(reading, reading->columns->prompt, &prompt) ||
        !get_text(reading, reading->columns->query, &query))
        return false;
    if (prompt.len > 0 && query.len > 0) {
        text_init(&both, 0);
        text_add(&both, prompt.text, prompt.len);
        text_addc(&both, '\n');
        text_add(&both, query.text, query.len);
        prompt = own_text(reading->out, &both);
    } else if (query.len > 0) {
        prompt = query;
    }
    prompt.role = ROLE_USER;
    add_message(reading->out, &prompt);
    return true;
}

static enum record_kind read_alpaca(const struct reading *reading, bool plain)
{
    const struct dataset_columns *columns = reading->columns;
    const json_t *answer = get(reading, columns->response);

    if (!columns->prompt || !get(reading, columns->prompt))
        return broken(reading, columns->prompt ? columns->prompt : "instruction", "there",
                      NULL);
    if (plain)
        return read_question(reading) ? RECORD_TEXT : RECORD_BROKEN;
    if (is_absent(answer))
        return skipped(reading, no_answer);
    if (!json_is_string(answer))
        return broken(reading, columns->response, "a string", answer);
    if (!read_system(reading, columns->system) || !read_tools(reading, columns->tools) ||
        !read_history(reading) || !read_question(reading))
        return RECORD_BROKEN;
    add_message(reading->out,
                &(struct message) { ROLE_ASSISTANT, json_string_value(answer),
                                    json_string_length(answer), 1 });
    return RECORD_CONVERSATION;
}

/* A list of {"type": "text", "text": ...}, or "value" for "text": the texts as one. */
static bool read_parts(const struct reading *reading, const json_t *content,
                       struct message *message)
{
    struct text text;

    text_init(&text, 0);
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *value = json_object_get(part, "text");

        if (!json_is_string(value))
            value = json_object_get(part, "value");
        if (!type || strcmp(type, "text") != 0 || !json_is_string(value)) {
            error_set(reading->err, ERROR_DATA,
                      "a part of a message is of type \"%s\"; only text is supported",
                      type ? type : "unknown");
            text_clear(&text);
            return false;
        }
        text_add(&text, json_string_value(value), json_string_length(value));
    }
    *message = own_text(reading->out, &text);
    return true;
}

static bool read_content(const struct reading *reading, const json_t *item,
                         struct message *message)
{
    const char *key = reading->columns->content_tag;
    const json_t *content = key ? json_object_get(item, key) : NULL;

    if (json_is_array(content))
        return read_parts(reading, content, message);
    if (!json_is_string(content)) {
        broken(reading, key ? key : "content", "a string", content);
        return false;
    }
    message->text = json_string_value(content);
    message->len = json_string_length(content);
    return true;
}

/* How much a message counts in the loss (LLaMA-Factory's v1 form).  That of a question is
 * read, and has no effect, as there. */
static bool read_weight(const struct reading *reading, const json_t *item,
                        struct message *message)
{
    const json_t *weight = json_object_get(item, "loss_weight");

    message->weight = 1;
    if (is_absent(weight))
        return true;
    if (!json_is_number(weight)) {
        broken(reading, "loss_weight", "a number from 0 to 1000", weight);
        return false;
    }
    message->weight = (float)json_number_value(weight);
    return (message->weight >= 0 && message->weight <= WEIGHT_MAX) ||
           error_set(reading->err, ERROR_DATA,
                     "\"loss_weight\" must be a number from 0 to %g, and is %g",
                     (double)WEIGHT_MAX, json_number_value(weight));
}

/* Roles under the names that are in use, for files that nothing is said about. */
static const struct {
    const char *name;
    enum role role;
} known_roles[] = {
    { "system", ROLE_SYSTEM },       { "developer", ROLE_SYSTEM },
    { "user", ROLE_USER },           { "human", ROLE_USER },
    { "assistant", ROLE_ASSISTANT }, { "gpt", ROLE_ASSISTANT },
    { "model", ROLE_ASSISTANT },     { "bot", ROLE_ASSISTANT },
    { "tool", ROLE_TOOL },           { "function", ROLE_TOOL },
    { "observation", ROLE_TOOL },    { "function_call", ROLE_FUNCTION },
};

static bool is_tag(const char *tag, const char *name)
{
    return tag && strcmp(tag, name) == 0;
}

/* -1: no role. */
static int find_role(const struct dataset_columns *columns, const char *name)
{
    if (!columns->user_tag) {
        for (size_t i = 0; i < TS_COUNT(known_roles); i++)
            if (strcmp(known_roles[i].name, name) == 0)
                return (int)known_roles[i].role;
        return -1;
    }
    if (is_tag(columns->user_tag, name))
        return ROLE_USER;
    if (is_tag(columns->assistant_tag, name))
        return ROLE_ASSISTANT;
    if (is_tag(columns->system_tag, name))
        return ROLE_SYSTEM;
    if (is_tag(columns->observation_tag, name))
        return ROLE_TOOL;
    if (is_tag(columns->function_tag, name))
        return ROLE_FUNCTION;
    return -1;
}

/* Nothing but tools was read so far. */
static bool is_head(const struct conversation *conversation)
{
    for (size_t i = 0; i < conversation->count; i++)
        if (conversation->messages[i].role != ROLE_TOOLS)
            return false;
    return true;
}

/* OpenAI's tool_calls: a list of {"function": {"name", "arguments"}}. */
static struct message read_calls(const struct reading *reading, const json_t *item)
{
    const json_t *calls = json_object_get(item, "tool_calls");
    json_t *functions = json_array();
    struct message message;

    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *call = json_array_get(calls, i),
               *function = json_object_get(call, "function");

        json_array_append(functions, function ? function : call);
    }
    message = own_json(reading->out, functions);
    json_decref(functions);
    return message;
}

/* RECORD_CONVERSATION: go on. */
static enum record_kind read_message(const struct reading *reading, const json_t *item)
{
    const struct dataset_columns *columns = reading->columns;
    const json_t *name =
        columns->role_tag ? json_object_get(item, columns->role_tag) : NULL;
    struct message message = { 0 };
    int role;

    if (!json_is_string(name))
        return broken(reading, columns->role_tag ? columns->role_tag : "role", "a string",
                      name);
    role = find_role(columns, json_string_value(name));
    if (role < 0 || (role == ROLE_SYSTEM && !is_head(reading->out)))
        return skipped(reading, bad_turns);
    if (role == ROLE_ASSISTANT &&
        json_array_size(json_object_get(item, "tool_calls")) > 0) {
        message = read_calls(reading, item);
        role = ROLE_FUNCTION;
    } else if (!read_content(reading, item, &message)) {
        return RECORD_BROKEN;
    }
    message.role = (enum role)role;
    if (!read_weight(reading, item, &message))
        return RECORD_BROKEN;
    add_message(reading->out, &message);
    return RECORD_CONVERSATION;
}

static bool turns_are_fine(const struct conversation *conversation)
{
    return template_turns_are_fine(conversation->messages, conversation->count);
}

static enum record_kind read_messages(const struct reading *reading)
{
    const struct dataset_columns *columns = reading->columns;
    const json_t *list = get(reading, columns->messages);
    const json_t *first = json_array_get(list, 0);

    if (!json_is_array(list))
        return broken(reading, columns->messages ? columns->messages : "messages",
                      "a list", list);
    if (!read_tools(reading, columns->tools))
        return RECORD_BROKEN;
    if (columns->system && columns->role_tag) {
        const char *name = json_string_value(json_object_get(first, columns->role_tag));

        if ((!name || find_role(columns, name) != ROLE_SYSTEM) &&
            !read_system(reading, columns->system))
            return RECORD_BROKEN;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        enum record_kind kind = read_message(reading, json_array_get(list, i));

        if (kind != RECORD_CONVERSATION)
            return kind;
    }
    return turns_are_fine(reading->out) ? RECORD_CONVERSATION
                                        : skipped(reading, bad_turns);
}

static enum record_kind read_plain(const struct reading *reading, const char *key)
{
    const json_t *value = get(reading, key);

    if (!json_is_string(value))
        return broken(reading, key, "a string", value);
    add_message(reading->out, &(struct message) { ROLE_USER, json_string_value(value),
                                                  json_string_length(value), 0 });
    return RECORD_TEXT;
}

/* Forms by their keys, for files named directly: the first whose keys are all there. */
static const struct {
    const char *needs[2];
    struct dataset_columns columns;
} known_forms[] = {
    { { "messages" },
      { .messages = "messages",
        .system = "system",
        .tools = "tools",
        .role_tag = "role",
        .content_tag = "content" } },
    { { "conversations" },
      { .messages = "conversations",
        .system = "system",
        .tools = "tools",
        .role_tag = "from",
        .content_tag = "value" } },
    { { "instruction", "output" },
      { .prompt = "instruction",
        .query = "input",
        .response = "output",
        .history = "history",
        .system = "system",
        .tools = "tools" } },
    { { "instruction", "response" },
      { .prompt = "instruction",
        .query = "input",
        .response = "response",
        .history = "history",
        .system = "system" } },
    { { "question", "answer" },
      { .prompt = "question", .response = "answer", .system = "system" } },
    { { "prompt", "completion" },
      { .prompt = "prompt", .response = "completion", .system = "system" } },
    { { "prompt", "response" },
      { .prompt = "prompt", .response = "response", .system = "system" } },
    { { "query", "response" },
      { .prompt = "query", .response = "response", .system = "system" } },
    { { "input", "output" },
      { .prompt = "input", .response = "output", .system = "system" } },
};

/* ShareGPT's list with the role and content of the other form, which is common. */
static struct dataset_columns settle_tags(const json_t *record,
                                          const struct dataset_columns *form)
{
    struct dataset_columns columns = *form;
    const json_t *first = json_array_get(
        form->messages ? json_object_get(record, form->messages) : NULL, 0);

    if (json_object_get(first, "role"))
        columns.role_tag = "role";
    if (json_object_get(first, "from"))
        columns.role_tag = "from";
    if (json_object_get(first, "content"))
        columns.content_tag = "content";
    if (json_object_get(first, "value"))
        columns.content_tag = "value";
    return columns;
}

/* The records may be one level deeper: {"data": [...]}. */
static enum record_kind fail_unknown(const struct reading *reading)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)reading->record, key, value)
        if (json_is_object(json_array_get(value, 0))) {
            error_set(reading->err, ERROR_DATA,
                      "the records seem to be in the list \"%s\" of this object; `jq '.[\"%s\"]' "
                      "FILE` makes a file of the list",
                      key, key);
            return RECORD_BROKEN;
        }
    error_set(
        reading->err, ERROR_DATA,
        "the record has no keys that are known: instruction and output, messages, "
        "conversations, question and answer, prompt and completion; say which are "
        "meant in dataset_info.json");
    return RECORD_BROKEN;
}

static enum record_kind read_detected(struct reading *reading)
{
    for (size_t i = 0; i < TS_COUNT(known_forms); i++) {
        const char *const *needs = known_forms[i].needs;
        struct dataset_columns columns;

        if (!get(reading, needs[0]) || (needs[1] && !get(reading, needs[1])))
            continue;
        columns = settle_tags(reading->record, &known_forms[i].columns);
        reading->columns = &columns;
        return columns.messages ? read_messages(reading) : read_alpaca(reading, false);
    }
    if (!get(reading, "text"))
        return fail_unknown(reading);
    error_set(reading->err, ERROR_DATA,
              "the record is plain text, which stage: pt learns; stage: sft wants "
              "questions and answers");
    return RECORD_BROKEN;
}

/* Stage pt, of a file named directly. */
static enum record_kind read_detected_text(const struct reading *reading)
{
    if (get(reading, "text"))
        return read_plain(reading, "text");
    if (json_is_string(get(reading, "content")))
        return read_plain(reading, "content");
    error_set(
        reading->err, ERROR_DATA,
        "the record has no \"text\", which stage: pt learns; use stage: sft for "
        "questions and answers, or say in dataset_info.json which column is the text");
    return RECORD_BROKEN;
}

enum record_kind dataset_record_read(const struct dataset_source *source,
                                     const json_t *record, bool plain,
                                     struct conversation *out, const char **why,
                                     struct error *err)
{
    struct reading reading = { &source->columns, record, out, why, err };

    conversation_clear(out);
    if (!json_is_object(record)) {
        error_set(err, ERROR_DATA, "a record must be an object, and this is %s%s",
                  kind_name(record),
                  json_is_array(record) ? "; a file that is one list is called .json" : "");
        return RECORD_BROKEN;
    }
    if (source->form == DATASET_DETECT)
        return plain ? read_detected_text(&reading) : read_detected(&reading);
    if (source->form == DATASET_ALPACA)
        return read_alpaca(&reading, plain);
    if (!plain)
        return read_messages(&reading);
    error_set(err, ERROR_DATA, "conversations are for stage: sft; stage: pt learns text");
    return RECORD_BROKEN;
}
