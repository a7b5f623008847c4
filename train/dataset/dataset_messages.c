/* train/dataset/dataset_messages.c - records with a list of messages, each with its role:
 * OpenAI's form, ShareGPT's, and forms described in dataset_info.json. */
#include "config.h"

#include <string.h>

#include "base/size.h"
#include "train/dataset/dataset_record_internal.h"

/* Larger weights overflow fp16 gradients at any loss scale. */
#define WEIGHT_MAX 1000

static const char bad_turns[] =
    "whose roles do not alternate between user and assistant, ending in an answer";

/* Concatenate the texts of a list of {"type": "text", "text": ...}, or "value" for
 * "text". */
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
    *message = conversation_own(reading->out, &text);
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
        record_broken(reading, key ? key : "content", "a string", content);
        return false;
    }
    message->text = json_string_value(content);
    message->len = json_string_length(content);
    return true;
}

/* Read a message's weight in the loss (LLaMA-Factory's v1 form). The weight of a question
 * is accepted and has no effect, as there. */
static bool read_weight(const struct reading *reading, const json_t *item,
                        struct message *message)
{
    const json_t *weight = json_object_get(item, "loss_weight");

    message->weight = 1;
    if (record_is_absent(weight))
        return true;
    if (!json_is_number(weight)) {
        record_broken(reading, "loss_weight", "a number from 0 to 1000", weight);
        return false;
    }
    message->weight = (float)json_number_value(weight);
    return (message->weight >= 0 && message->weight <= WEIGHT_MAX) ||
           error_set(reading->err, ERROR_DATA,
                     "\"loss_weight\" must be a number from 0 to %g, not %g",
                     (double)WEIGHT_MAX, json_number_value(weight));
}

/* Common role names, for files that have no description. */
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

/* Return -1 for an unknown role. */
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

/* Return whether nothing but tools was read so far. */
static bool has_only_tools(const struct conversation *conversation)
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
    message = conversation_own_json(reading->out, functions);
    json_decref(functions);
    return message;
}

enum record_kind record_message(const struct reading *reading, const json_t *item)
{
    const struct dataset_columns *columns = reading->columns;
    const json_t *name =
        columns->role_tag ? json_object_get(item, columns->role_tag) : NULL;
    struct message message = { 0 };
    int role;

    if (!json_is_string(name))
        return record_broken(reading, columns->role_tag ? columns->role_tag : "role",
                             "a string", name);
    role = find_role(columns, json_string_value(name));
    if (role < 0 || (role == ROLE_SYSTEM && !has_only_tools(reading->out)))
        return record_skipped(reading, bad_turns);
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
    conversation_add(reading->out, &message);
    return RECORD_CONVERSATION;
}

static bool turns_are_valid(const struct conversation *conversation)
{
    return template_turns_are_valid(conversation->messages, conversation->count);
}

enum record_kind record_list(const struct reading *reading, const json_t *list,
                             size_t count)
{
    const struct dataset_columns *columns = reading->columns;
    const json_t *first = json_array_get(list, 0);

    if (!json_is_array(list))
        return record_broken(reading, columns->messages ? columns->messages : "messages",
                             "a list", list);
    if (!record_tools(reading, columns->tools))
        return RECORD_BROKEN;
    if (columns->system && columns->role_tag) {
        const char *name = json_string_value(json_object_get(first, columns->role_tag));

        if ((!name || find_role(columns, name) != ROLE_SYSTEM) &&
            !record_system(reading, columns->system))
            return RECORD_BROKEN;
    }
    for (size_t i = 0; i < count; i++) {
        enum record_kind kind = record_message(reading, json_array_get(list, i));

        if (kind != RECORD_CONVERSATION)
            return kind;
    }
    return RECORD_CONVERSATION;
}

enum record_kind record_messages(const struct reading *reading)
{
    const json_t *list = record_get(reading, reading->columns->messages);
    enum record_kind kind = record_list(reading, list, json_array_size(list));

    if (kind != RECORD_CONVERSATION)
        return kind;
    return turns_are_valid(reading->out) ? RECORD_CONVERSATION
                                         : record_skipped(reading, bad_turns);
}
