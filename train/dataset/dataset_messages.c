/* train/dataset/dataset_messages.c - records with a list of messages, each with its role:
 * OpenAI's form, ShareGPT's, and forms described in dataset_info.json. */
#include "config.h"

#include <string.h>

#include "base/size.h"
#include "train/dataset/dataset_record_internal.h"

/* Larger weights overflow fp16 gradients at any loss scale. */
#define WEIGHT_MAX 1000
/* Bytes of an unknown role that are shown. */
#define ROLE_SHOWN 40

static const char bad_turns[] =
    "whose roles do not alternate between user and assistant, ending in an answer";

/* Concatenate the texts of a list of {"type": "text", "text": ...}, or "value" for
 * "text", and placeholders of media. */
static bool read_parts(const struct reading *reading, const json_t *content,
                       struct message *message)
{
    const size_t first_medium = reading->out->media_count;
    struct text text;
    int medium;

    text_init(&text, 0);
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *value = json_object_get(part, "text");

        medium = record_part(reading, part, &text);
        if (medium > 0)
            continue;
        if (!json_is_string(value))
            value = json_object_get(part, "value");
        if (medium < 0 || !type || strcmp(type, "text") != 0 || !json_is_string(value)) {
            error_set(reading->err, ERROR_DATA,
                      "a part of a message is of type \"%s\"; text, image and audio are "
                      "supported",
                      type ? type : "unknown");
            text_clear(&text);
            return false;
        }
        text_add(&text, json_string_value(value), json_string_length(value));
    }
    *message = conversation_own(reading->out, &text);
    record_parts_end(reading, first_medium, message->text);
    return true;
}

static bool is_tag(const char *tag, const char *name)
{
    return tag && strcmp(tag, name) == 0;
}

/* A message without a text is one: null is "", as in transformers, and a missing content
 * is allowed next to calls or thoughts. */
static bool may_lack_content(const json_t *item, const json_t *content)
{
    return content ? json_is_null(content)
                   : json_array_size(json_object_get(item, "tool_calls")) > 0 ||
                         json_object_get(item, "reasoning_content") ||
                         json_object_get(item, "thinking") ||
                         json_object_get(item, "reasoning");
}

static bool read_content(const struct reading *reading, const json_t *item,
                         struct message *message)
{
    const char *key = reading->columns->content_tag;
    const json_t *content = key ? json_object_get(item, key) : NULL;

    if (json_is_array(content))
        return read_parts(reading, content, message);
    if (!json_is_string(content) && may_lack_content(item, content)) {
        message->text = "";
        message->len = 0;
        return true;
    }
    if (!record_is_text(content)) {
        record_broken(reading, key ? key : "content", "a string", content);
        return false;
    }
    record_take_text(reading, content, message);
    return true;
}

/* Whether templates can read the list as it is: LLaMA-Factory's v1 form has "value". */
static bool parts_have_text(const json_t *parts)
{
    for (size_t i = 0; i < json_array_size(parts); i++)
        if (!json_object_get(json_array_get(parts, i), "text"))
            return false;
    return true;
}

/* The message with all its keys; role and content have these names. NULL: it has no
 * others, and a text as content. calls: the content is next to tool_calls, and the
 * message's text is the calls. */
static json_t *own_message(const struct dataset_columns *columns, const json_t *item,
                           bool calls)
{
    json_t *own = json_object(), *value, *parts;
    const char *key;
    bool plain = true;

    json_object_foreach((json_t *)(uintptr_t)item, key, value)
    {
        bool is_role = strcmp(key, columns->role_tag) == 0,
             is_content = columns->content_tag && strcmp(key, columns->content_tag) == 0;

        if (strcmp(key, "loss_weight") == 0)
            continue;
        if (is_role) { /* templates know it by this name, too */
            if (is_tag(json_string_value(value), "developer")) {
                json_object_set(own, "role", value);
                plain = false;
            }
        } else if (is_content && (parts = record_parts_own(value))) {
            json_object_set_new(own, "content", parts);
            plain = false;
        } else if (is_content) {
            if ((json_is_array(value) && parts_have_text(value)) || json_is_null(value) ||
                calls) {
                json_object_set(own, "content", value);
                plain = false;
            }
        } else if (!json_is_null(value)) {
            json_object_set(own, key, value);
            plain = false;
        }
    }
    if (!plain) {
        if (!columns->content_tag || !json_object_get(item, columns->content_tag))
            json_object_set_new(own, "content", json_null());
        return own;
    }
    json_decref(own);
    return NULL;
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

/* Leave a record out, and name the role that it has and those that it may have. */
static enum record_kind skip_unknown_role(const struct reading *reading, const char *name)
{
    const struct dataset_columns *columns = reading->columns;
    struct text why;

    text_init(&why, 0);
    text_adds(&why, "with a message of the role \"");
    text_add_visible(&why, name, strnlen(name, ROLE_SHOWN));
    if (columns->user_tag)
        text_addf(&why,
                  "\", not %s or %s; set user_tag and assistant_tag in dataset_info.json",
                  columns->user_tag,
                  columns->assistant_tag ? columns->assistant_tag : "assistant");
    else
        text_adds(&why, "\", not user, assistant, system or tool");
    return record_skipped(reading, conversation_own(reading->out, &why).text);
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
    json_t *own;
    int role;

    if (!json_is_string(name))
        return record_broken(reading, columns->role_tag ? columns->role_tag : "role",
                             "a string", name);
    role = find_role(columns, json_string_value(name));
    if (role < 0)
        return skip_unknown_role(reading, json_string_value(name));
    if ((role == ROLE_SYSTEM && !has_only_tools(reading->out)))
        return record_skipped(reading, bad_turns);
    if (!read_content(reading, item, &message))
        return RECORD_BROKEN;
    if (role == ROLE_ASSISTANT &&
        json_array_size(json_object_get(item, "tool_calls")) > 0) {
        message = read_calls(reading, item);
        role = ROLE_FUNCTION;
    }
    own = own_message(columns, item,
                      json_object_get(item, "tool_calls") && role == ROLE_FUNCTION);
    if (own)
        message.own = conversation_keep(reading->out, own);
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

bool record_continues(const struct reading *reading, const json_t *list)
{
    const char *tag = reading->columns->role_tag;
    const char *name =
        json_string_value(json_object_get(json_array_get(list, 0), tag ? tag : "role"));
    int role = name ? find_role(reading->columns, name) : -1;

    return role >= 0 && role != ROLE_SYSTEM && role != ROLE_USER;
}

/* Add the messages of a list, or a text as one message; `weight` is that of its
 * answers. */
static enum record_kind add_part(const struct reading *reading, const json_t *part,
                                 enum role role, const float *weight)
{
    size_t before = reading->out->count;
    enum record_kind kind = RECORD_CONVERSATION;

    if (json_is_string(part))
        conversation_add(reading->out,
                         &(struct message) { role, json_string_value(part),
                                             json_string_length(part), 1, NULL });
    for (size_t i = 0; kind == RECORD_CONVERSATION && i < json_array_size(part); i++)
        kind = record_message(reading, json_array_get(part, i));
    for (size_t i = before; weight && i < reading->out->count; i++)
        reading->out->messages[i].weight = *weight;
    return kind;
}

enum record_kind record_completion(const struct reading *reading, const json_t *prompt,
                                   const json_t *completion)
{
    static const float context = 0;
    const struct dataset_columns *columns = reading->columns;
    enum record_kind kind;

    if (!json_is_array(prompt) && !json_is_string(prompt))
        return record_broken(reading, columns->prompt, "a list of messages", prompt);
    if (!json_is_array(completion) && !json_is_string(completion))
        return record_broken(reading, columns->response, "a list of messages",
                             completion);
    if (!record_tools(reading, columns->tools))
        return RECORD_BROKEN;
    kind = add_part(reading, prompt, ROLE_USER, &context);
    if (kind == RECORD_CONVERSATION)
        kind = add_part(reading, completion, ROLE_ASSISTANT, NULL);
    if (kind != RECORD_CONVERSATION)
        return kind;
    return turns_are_valid(reading->out) ? RECORD_CONVERSATION
                                         : record_skipped(reading, bad_turns);
}
