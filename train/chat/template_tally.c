/* train/chat/template_tally.c - what a template does not write of a conversation, so that
 * a run can report it: nothing of a record is left out silently. */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "train/chat/chat_internal.h"

static const char text_of_calls[] = "content next to tool_calls";

/* Keys that every template writes, or that are not part of the text. */
static const char *const known_keys[] = { "role", "content", "tool_calls" };

static void count_left(struct template_tally *tally, const char *key)
{
    size_t i = 0;

    while (i < tally->left_count && strcmp(tally->left[i].key, key) != 0)
        i++;
    if (i == TEMPLATE_LEFT_MAX)
        return;
    if (i == tally->left_count) {
        tally->left_count++;
        snprintf(tally->left[i].key, sizeof(tally->left[i].key), "%s", key);
    }
    tally->left[i].count++;
}

static bool is_known(const char *key)
{
    for (size_t i = 0; i < TS_COUNT(known_keys); i++)
        if (strcmp(key, known_keys[i]) == 0)
            return true;
    return false;
}

static bool is_empty(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static bool has_text(const json_t *content)
{
    return !is_empty(content) && !json_is_false(content);
}

/* Whether a named template writes the value of a key other than the known ones. */
static bool named_writes(const struct chat_template *chat, const struct message *message,
                         const char *key)
{
    size_t len;

    if (!template_is_thought_key(key))
        return false;
    return template_thoughts(message, &len) == NULL ||
           (chat->reasons && template_takes_thoughts(chat, message));
}

void named_tally_keys(const struct template_request *request)
{
    struct template_tally *tally = request->options->tally;
    const char *key;
    json_t *value;

    for (size_t i = 0; tally && i < request->count; i++) {
        const struct message *message = &request->messages[i];

        json_object_foreach((json_t *)(uintptr_t)message->own, key, value)
        {
            if (!is_known(key) && !is_empty(value) &&
                !named_writes(request->chat, message, key))
                count_left(tally, key);
        }
        if (json_object_get(message->own, "tool_calls") &&
            message->role == ROLE_FUNCTION &&
            has_text(json_object_get(message->own, "content")))
            count_left(tally, text_of_calls);
    }
    if (tally && request->options->variables &&
        json_object_size(request->options->variables) > 0)
        count_left(tally, "chat_template_kwargs");
}

/* Whether a template reads the key: .key, ['key'] or get("key"), which `enable_key` is
 * not. */
static bool mentions(const char *source, const char *key)
{
    size_t len = strlen(key);

    for (const char *at = source; (at = strstr(at, key)); at += len) {
        unsigned char after = (unsigned char)at[len];

        if (at > source && strchr(".'\"", at[-1]) && !isalnum(after) && after != '_')
            return true;
    }
    return false;
}

/* One of the names of thoughts is enough: a template has all of them. */
static bool chat_reads(const struct chat *chat, const char *key)
{
    const char *name;

    if (!template_is_thought_key(key))
        return mentions(chat->source.data, key);
    for (size_t i = 0; (name = template_thought_key(i)); i++)
        if (mentions(chat->source.data, name))
            return true;
    return false;
}

void chat_tally_keys(const struct chat *chat, const struct template_request *request)
{
    struct template_tally *tally = request->options->tally;
    const char *key;
    json_t *value;

    for (size_t i = 0; tally && i < request->count; i++)
        json_object_foreach(
            (json_t *)(uintptr_t)request->messages[i].own, key,
            value) if ((!is_known(key) || strcmp(key, "tool_calls") == 0) &&
                       !is_empty(value) && !chat_reads(chat, key)) count_left(tally, key);
}

bool template_tally_describe(const struct template_tally *tally, struct text *out)
{
    bool learned = false;

    for (size_t i = 0; i < tally->left_count; i++) {
        const struct template_left *left = &tally->left[i];

        text_addf(out, "%s%s of %zu message%s", i > 0 ? ", " : "", left->key, left->count,
                  left->count == 1 ? "" : "s");
        learned |= template_is_thought_key(left->key) ||
                   strcmp(left->key, text_of_calls) == 0 ||
                   strcmp(left->key, "tool_calls") == 0;
    }
    return learned;
}
