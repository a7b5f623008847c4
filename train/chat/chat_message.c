/* train/chat/chat_message.c - messages as a model's own template sees them. A message of a
 * record keeps all its keys; what changes are the two things that transformers changes
 * (_normalize_chat_messages and _alias_reasoning_fields of
 * transformers/utils/chat_template_utils.py, 5.24): keys whose value is null are dropped,
 * and thoughts have all names that templates read. */
#include "config.h"

#include <string.h>

#include "base/size.h"
#include "train/chat/chat_internal.h"

/* Names of thoughts; the first that is present counts. */
static const char *const thought_keys[] = { "reasoning_content", "thinking",
                                            "reasoning" };

const char *template_thoughts(const struct message *message, size_t *len)
{
    for (size_t i = 0; i < TS_COUNT(thought_keys); i++) {
        const json_t *value = json_object_get(message->own, thought_keys[i]);

        if (!value || json_is_null(value))
            continue;
        *len = json_string_length(value);
        return json_string_value(value);
    }
    return NULL;
}

bool template_is_thought_key(const char *key)
{
    for (size_t i = 0; i < TS_COUNT(thought_keys); i++)
        if (strcmp(key, thought_keys[i]) == 0)
            return true;
    return false;
}

const char *template_thought_key(size_t index)
{
    return index < TS_COUNT(thought_keys) ? thought_keys[index] : NULL;
}

static json_t *call_of(const json_t *call)
{
    json_t *arguments = json_object_get(call, "arguments"), *read = NULL;

    /* a text inside of the text of an answer */
    if (json_is_string(arguments) && json_string_length(arguments) > 0)
        read = json_read_text(json_string_value(arguments), json_string_length(arguments),
                              "arguments", 1, NULL);
    return json_pack("{s s, s {s O, s o}}", "type", "function", "function", "name",
                     json_object_get(call, "name"), "arguments",
                     read ? read : json_incref(arguments));
}

/* An answer whose text calls functions: its thought and the calls. */
static bool add_calls(json_t *out, const struct message *message, struct error *err)
{
    json_t *list = json_array(), *calls;
    struct text thought;

    text_init(&thought, 0);
    calls = template_tools_calls(NULL, message, &thought, err);
    for (size_t i = 0; i < json_array_size(calls); i++)
        json_array_append_new(list, call_of(json_array_get(calls, i)));
    json_object_set_new(out, "content", json_stringn(thought.data, thought.len));
    json_object_set_new(out, "tool_calls", list);
    text_clear(&thought);
    json_decref(calls);
    return calls;
}

/* The names of thoughts that the message does not have. */
static void add_thought_keys(json_t *message)
{
    json_t *thoughts = NULL;

    for (size_t i = 0; i < TS_COUNT(thought_keys) && !thoughts; i++)
        thoughts = json_object_get(message, thought_keys[i]);
    if (!thoughts)
        return;
    json_incref(thoughts);
    json_object_set(message, "reasoning_content", thoughts);
    if (!json_object_get(message, "thinking"))
        json_object_set(message, "thinking", thoughts);
    json_decref(thoughts);
}

static void copy_keys(json_t *out, const json_t *own)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)own, key, value) if (!json_is_null(value))
        json_object_set(out, key, value);
}

json_t *chat_message(const struct message *message, struct error *err)
{
    static const char *const names[] = {
        [ROLE_SYSTEM] = "system",       [ROLE_USER] = "user",
        [ROLE_ASSISTANT] = "assistant", [ROLE_FUNCTION] = "assistant",
        [ROLE_TOOL] = "tool",
    };
    json_t *out = json_object(), *text;

    copy_keys(out, message->own);
    if (!json_object_get(out, "role"))
        json_object_set_new(out, "role", json_string(names[message->role]));
    if (message->role == ROLE_FUNCTION && !json_object_get(out, "tool_calls")) {
        if (!add_calls(out, message, err))
            goto fail;
    } else if (!json_object_get(message->own, "content")) {
        text = json_stringn(message->text, message->len);
        if (!text) {
            error_set(err, ERROR_DATA, "a message is not UTF-8");
            goto fail;
        }
        json_object_set_new(out, "content", text);
    }
    add_thought_keys(out);
    return out;
fail:
    json_decref(out);
    return NULL;
}

bool chat_messages_have_parts(const json_t *messages)
{
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (json_is_array(json_object_get(json_array_get(messages, i), "content")))
            return true;
    return false;
}

void chat_messages_divide(json_t *messages)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = json_array_get(messages, i),
               *content = json_object_get(message, "content");

        if (json_is_string(content))
            json_object_set_new(
                message, "content",
                json_pack("[{s s, s O}]", "type", "text", "text", content));
    }
}

void chat_messages_flatten(json_t *messages, const char *medium)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = json_array_get(messages, i),
               *parts = json_object_get(message, "content");
        struct text text;

        if (!json_is_array(parts))
            continue;
        text_init(&text, 0);
        for (size_t part = 0; part < json_array_size(parts); part++) {
            const json_t *value = json_object_get(json_array_get(parts, part), "text");

            if (value)
                text_add(&text, json_string_value(value), json_string_length(value));
            else
                text_adds(&text, medium);
        }
        json_object_set_new(message, "content", json_stringn(text.data, text.len));
        text_clear(&text);
    }
}
