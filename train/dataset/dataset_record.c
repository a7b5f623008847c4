/* train/dataset/dataset_record.c - the forms of records. A value of the wrong type is an
 * error that names the expected type; a conversation that cannot be learned (roles out of
 * turn) is skipped, as in LLaMA-Factory. */
#include "config.h"

#include "train/dataset/dataset_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "train/dataset/dataset_record_internal.h"

void conversation_clear(struct conversation *conversation)
{
    for (size_t i = 0; i < conversation->own_count; i++)
        free(conversation->own[i]);
    conversation->own_count = conversation->count = 0;
    json_decref(conversation->own_json);
    conversation->own_json = NULL;
    conversation->variables = NULL;
    conversation->has_numbers = false;
    conversation->media_count = 0;
}

void conversation_free(struct conversation *conversation)
{
    conversation_clear(conversation);
    free(conversation->own);
    free(conversation->messages);
    free(conversation->media);
    *conversation = (struct conversation) { 0 };
}

void conversation_add(struct conversation *out, const struct message *message)
{
    if (out->count == out->room) {
        out->room = out->room ? 2 * out->room : 16;
        out->messages = memory_resize(out->messages, out->room, sizeof(struct message));
    }
    out->messages[out->count++] = *message;
}

struct message conversation_own(struct conversation *out, struct text *text)
{
    struct message message = { 0 };

    if (out->own_count == out->own_room) {
        out->own_room = out->own_room ? 2 * out->own_room : 16;
        out->own = memory_resize(out->own, out->own_room, sizeof(char *));
    }
    message.text = out->own[out->own_count++] = text_detach(text, &message.len);
    return message;
}

struct message conversation_own_json(struct conversation *out, const json_t *json)
{
    struct text text;

    text_init(&text, 0);
    json_write(json, &text);
    return conversation_own(out, &text);
}

const json_t *conversation_keep(struct conversation *out, json_t *json)
{
    if (!out->own_json)
        out->own_json = json_array();
    json_array_append_new(out->own_json, json);
    return json;
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

/* Return advice about a value that is not a string. */
static const char *remedy_for(const json_t *got)
{
    if (!got || json_is_null(got))
        return "; add it, or remove the record";
    return json_is_array(got) || json_is_object(got) ? "; write it as one text"
                                                     : "; put it in quotes";
}

enum record_kind record_broken(const struct reading *reading, const char *key,
                               const char *expected, const json_t *got)
{
    error_set(reading->err, ERROR_DATA, "\"%s\" must be %s, not %s%s", key, expected,
              kind_name(got), strcmp(expected, "a string") == 0 ? remedy_for(got) : "");
    return RECORD_BROKEN;
}

enum record_kind record_skipped(const struct reading *reading, const char *why)
{
    *reading->why = why;
    return RECORD_SKIPPED;
}

const json_t *record_get(const struct reading *reading, const char *column)
{
    return column ? json_object_get(reading->record, column) : NULL;
}

bool record_is_object(const struct reading *reading)
{
    if (json_is_object(reading->record))
        return true;
    return error_set(reading->err, ERROR_DATA, "a record must be an object, not %s%s",
                     kind_name(reading->record),
                     json_is_array(reading->record)
                         ? "; a file that is one list must be named .json"
                         : "");
}

bool record_is_absent(const json_t *value)
{
    return !value || json_is_null(value);
}

bool record_is_empty(const json_t *value)
{
    return record_is_absent(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

bool record_is_text(const json_t *value)
{
    return json_is_string(value) || json_is_number(value);
}

void record_take_text(const struct reading *reading, const json_t *value,
                      struct message *message)
{
    struct message number;

    if (json_is_string(value)) {
        message->text = json_string_value(value);
        message->len = json_string_length(value);
        return;
    }
    number = conversation_own_json(reading->out, value);
    message->text = number.text;
    message->len = number.len;
    reading->out->has_numbers = true;
}

bool record_text(const struct reading *reading, const char *column,
                 struct message *message)
{
    const json_t *value = record_get(reading, column);

    message->text = "";
    message->len = 0;
    if (record_is_absent(value))
        return true;
    if (!record_is_text(value)) {
        record_broken(reading, column, "a string", value);
        return false;
    }
    record_take_text(reading, value, message);
    return true;
}

static const char kwargs_key[] = "chat_template_kwargs";

bool record_note_columns(const struct reading *reading)
{
    const json_t *variables = record_get(reading, kwargs_key);

    reading->out->columns = *reading->columns;
    if (!record_media(reading))
        return false;
    if (record_is_absent(variables))
        return true;
    if (!json_is_object(variables)) {
        record_broken(reading, kwargs_key, "an object", variables);
        return false;
    }
    reading->out->variables = variables;
    return true;
}

const char *dataset_record_unread(const struct conversation *conversation, void *iterator)
{
    const struct dataset_columns *columns = &conversation->columns;
    const char *const names[] = {
        columns->prompt,   columns->query,   columns->response, columns->history,
        columns->system,   columns->tools,   columns->messages, columns->chosen,
        columns->rejected, columns->kto_tag, columns->images,   columns->audios,
        kwargs_key,
    };
    const char *key = json_object_iter_key(iterator);

    if (record_is_empty(json_object_iter_value(iterator)))
        return NULL;
    for (size_t i = 0; i < TS_COUNT(names); i++)
        if (names[i] && strcmp(names[i], key) == 0)
            return NULL;
    return key;
}

/* Tools are described in a list, or in a string with a list. */
bool record_tools(const struct reading *reading, const char *column)
{
    const json_t *tools = record_get(reading, column);
    struct message message = { .role = ROLE_TOOLS };

    if (json_is_string(tools)) {
        message.text = json_string_value(tools);
        message.len = json_string_length(tools);
        /* for "[]", LLaMA-Factory writes an empty system message, which no chat template
         * writes when the model is used */
        if (message.text[strspn(message.text, "[] \t\n")] == 0)
            return true;
    } else if (json_array_size(tools) > 0) {
        message = conversation_own_json(reading->out, tools);
        message.role = ROLE_TOOLS;
    } else {
        return record_is_absent(tools) || json_is_array(tools) ||
               (record_broken(reading, column, "a list of functions", tools), false);
    }
    conversation_add(reading->out, &message);
    return true;
}

bool record_system(const struct reading *reading, const char *column)
{
    struct message message = { .role = ROLE_SYSTEM };

    if (!record_text(reading, column, &message))
        return false;
    message.role = ROLE_SYSTEM;
    if (message.len > 0)
        conversation_add(reading->out, &message);
    return true;
}

/* Read earlier turns: a list of [question, answer]. */
static bool read_history(const struct reading *reading)
{
    const char *key = reading->columns->history;
    const json_t *history = record_get(reading, key);

    if (record_is_absent(history))
        return true;
    for (size_t i = 0; i < json_array_size(history); i++) {
        const json_t *pair = json_array_get(history, i);
        struct message question = { .role = ROLE_USER },
                       answer = { .role = ROLE_ASSISTANT, .weight = 1 };

        if (!record_is_text(json_array_get(pair, 0)) ||
            !record_is_text(json_array_get(pair, 1))) {
            record_broken(reading, key, "a list of [question, answer]", pair);
            return false;
        }
        record_take_text(reading, json_array_get(pair, 0), &question);
        record_take_text(reading, json_array_get(pair, 1), &answer);
        conversation_add(reading->out, &question);
        conversation_add(reading->out, &answer);
    }
    return json_is_array(history) ||
           (record_broken(reading, key, "a list", history), false);
}

/* The instruction, and the input on the next line. */
static bool read_question(const struct reading *reading)
{
    struct message prompt = { 0 }, query = { 0 };
    struct text both;

    if (!record_text(reading, reading->columns->prompt, &prompt) ||
        !record_text(reading, reading->columns->query, &query))
        return false;
    if (prompt.len > 0 && query.len > 0) {
        text_init(&both, 0);
        text_add(&both, prompt.text, prompt.len);
        text_addc(&both, '\n');
        text_add(&both, query.text, query.len);
        prompt = conversation_own(reading->out, &both);
    } else if (query.len > 0) {
        prompt = query;
    }
    prompt.role = ROLE_USER;
    conversation_add(reading->out, &prompt);
    return true;
}

bool record_has_question(const struct reading *reading)
{
    const char *prompt = reading->columns->prompt;

    if (record_get(reading, prompt) ||
        json_string_length(record_get(reading, reading->columns->query)) > 0)
        return true;
    record_broken(reading, prompt ? prompt : "instruction", "present", NULL);
    return false;
}

bool record_question(const struct reading *reading)
{
    return record_system(reading, reading->columns->system) &&
           record_tools(reading, reading->columns->tools) && read_history(reading) &&
           read_question(reading);
}

static enum record_kind read_alpaca(const struct reading *reading, bool plain)
{
    const struct dataset_columns *columns = reading->columns;
    const json_t *answer = record_get(reading, columns->response);
    struct message message = { .role = ROLE_ASSISTANT, .weight = 1 };

    if (!record_has_question(reading))
        return RECORD_BROKEN;
    if (plain)
        return read_question(reading) ? RECORD_TEXT : RECORD_BROKEN;
    if (record_is_absent(answer))
        return record_skipped(reading, "without an answer");
    if (!record_is_text(answer))
        return record_broken(reading, columns->response, "a string", answer);
    if (!record_question(reading))
        return RECORD_BROKEN;
    record_take_text(reading, answer, &message);
    conversation_add(reading->out, &message);
    return RECORD_CONVERSATION;
}

static enum record_kind read_plain(const struct reading *reading, const char *key)
{
    const json_t *value = record_get(reading, key);

    struct message message = { .role = ROLE_USER };

    reading->out->columns = (struct dataset_columns) { .prompt = key };
    if (!record_is_text(value))
        return record_broken(reading, key, "a string", value);
    record_take_text(reading, value, &message);
    conversation_add(reading->out, &message);
    return RECORD_TEXT;
}

/* Forms in the order in which they are tried, for files named directly: a form applies if
 * all its keys are present. */
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
      { .prompt = "prompt",
        .response = "completion",
        .system = "system",
        .tools = "tools",
        .role_tag = "role",
        .content_tag = "content" } },
    { { "prompt", "response" },
      { .prompt = "prompt", .response = "response", .system = "system" } },
    { { "query", "response" },
      { .prompt = "query", .response = "response", .system = "system" } },
    { { "input", "output" },
      { .prompt = "input", .response = "output", .system = "system" } },
};

void record_detect_tags(struct dataset_columns *columns, const json_t *message)
{
    if (json_object_get(message, "role"))
        columns->role_tag = "role";
    if (json_object_get(message, "from"))
        columns->role_tag = "from";
    if (json_object_get(message, "content"))
        columns->content_tag = "content";
    if (json_object_get(message, "value"))
        columns->content_tag = "value";
}

static bool is_message(const json_t *object)
{
    return json_object_get(object, "role") || json_object_get(object, "from");
}

bool record_is_flat(const struct reading *reading)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)reading->record, key,
                        value) if (json_is_object(json_array_get(value, 0)) &&
                                   !is_message(json_array_get(value, 0)))
    {
        error_set(reading->err, ERROR_DATA,
                  "the records seem to be in the list \"%s\" of this object; `jq "
                  "'.[\"%s\"]' FILE` makes a file of the list",
                  key, key);
        return false;
    }
    return true;
}

/* Two answers to one question. Such a record may also have a conversation with the chosen
 * answer, which can be trained on like any other. */
static bool is_pair(const struct reading *reading)
{
    return record_get(reading, "chosen") && record_get(reading, "rejected");
}

/* The messages end in a question, whose answers are in other columns. */
static bool ends_in_question(const struct conversation *conversation)
{
    size_t count = conversation->count;

    return count > 0 && conversation->messages[count - 1].role == ROLE_USER;
}

static enum record_kind fail_pair(const struct reading *reading)
{
    error_set(reading->err, ERROR_DATA,
              "the record has a chosen and a rejected answer, which stages dpo and rm "
              "compare; use one of them, or data with one answer to each question");
    return RECORD_BROKEN;
}

static enum record_kind fail_unknown(const struct reading *reading)
{
    if (is_pair(reading))
        return fail_pair(reading);
    if (!record_is_flat(reading))
        return RECORD_BROKEN;
    error_set(reading->err, ERROR_DATA,
              "the record has no known keys: instruction and output, messages, "
              "conversations, question and answer, prompt and completion; name its "
              "columns in dataset_info.json");
    return RECORD_BROKEN;
}

/* A question and its answer, or the messages of both. */
static enum record_kind read_single(const struct reading *reading)
{
    const json_t *prompt = record_get(reading, reading->columns->prompt),
                 *answer = record_get(reading, reading->columns->response);

    return json_is_array(prompt) || json_is_array(answer)
               ? record_completion(reading, prompt, answer)
               : read_alpaca(reading, false);
}

static enum record_kind read_detected(struct reading *reading)
{
    for (size_t i = 0; i < TS_COUNT(known_forms); i++) {
        const char *const *needs = known_forms[i].needs;
        struct dataset_columns columns = known_forms[i].columns;
        enum record_kind kind;

        if (!record_get(reading, needs[0]) ||
            (needs[1] && !record_get(reading, needs[1])))
            continue;
        /* ShareGPT's list with the role and content keys of the other form is common */
        record_detect_tags(&columns,
                           json_array_get(record_get(reading, columns.messages), 0));
        record_detect_media(reading, &columns);
        reading->columns = &columns;
        if (!record_note_columns(reading))
            return RECORD_BROKEN;
        kind = columns.messages ? record_messages(reading) : read_single(reading);
        if (kind == RECORD_SKIPPED && is_pair(reading) && ends_in_question(reading->out))
            return fail_pair(reading);
        return kind;
    }
    if (record_has_turns(reading))
        return record_turns(reading);
    if (!record_get(reading, "text"))
        return fail_unknown(reading);
    error_set(reading->err, ERROR_DATA,
              "the record is plain text, which is for stage: pt; stage: sft requires "
              "questions and answers");
    return RECORD_BROKEN;
}

/* Stage pt, for a file named directly. */
static enum record_kind read_detected_text(const struct reading *reading)
{
    if (record_get(reading, "text"))
        return read_plain(reading, "text");
    if (json_is_string(record_get(reading, "content")))
        return read_plain(reading, "content");
    error_set(reading->err, ERROR_DATA,
              "the record has no \"text\", which stage: pt requires; use stage: sft for "
              "questions and answers, or name the text column in dataset_info.json");
    return RECORD_BROKEN;
}

enum record_kind dataset_record_read(const struct dataset_source *source,
                                     const json_t *record, bool plain,
                                     struct conversation *out, const char **why,
                                     struct error *err)
{
    struct reading reading = { &source->columns, record, out, why, err };

    conversation_clear(out);
    if (!record_is_object(&reading) ||
        !dataset_source_check(source, source->columns.kto_tag ? STAGE_KTO : STAGE_SFT,
                              err) ||
        !record_note_columns(&reading))
        return RECORD_BROKEN;
    if (source->form == DATASET_DETECT)
        return plain ? read_detected_text(&reading) : read_detected(&reading);
    if (source->form == DATASET_ALPACA)
        return read_alpaca(&reading, plain);
    if (!plain)
        return record_messages(&reading);
    error_set(err, ERROR_DATA,
              "conversations are for stage: sft; stage: pt requires plain text");
    return RECORD_BROKEN;
}

void dataset_prompts_note(struct dataset_prompts *prompts,
                          const struct dataset_source *source, const json_t *record)
{
    const char *column = source->columns.prompt;

    if (source->form != DATASET_ALPACA || !column)
        return;
    if (json_object_get(record, column))
        prompts->present = true;
    else
        prompts->missing = true;
}

bool dataset_prompts_check(const struct dataset_prompts *prompts,
                           const struct dataset_source *source, const char *path,
                           struct error *err)
{
    if (prompts->present || !prompts->missing)
        return true;
    return error_set(err, ERROR_DATA,
                     "%s: no record has \"%s\", the prompt column in "
                     "dataset_info.json; name the right column there, under columns",
                     path, source->columns.prompt);
}
