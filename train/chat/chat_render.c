/* train/chat/chat_render.c - one conversation, rendered by a model's own template. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "train/chat/chat_internal.h"

static bool has_system(const struct message *messages, size_t count)
{
    for (size_t i = 0; i < count && messages[i].role <= ROLE_TOOLS; i++)
        if (messages[i].role == ROLE_SYSTEM)
            return true;
    return false;
}

/* The text of a medium that the template does not write itself. */
static char *medium_text(const struct rendering *rendering)
{
    struct text text;

    text_init(&text, 0);
    if (rendering->media)
        template_media_write(rendering->media->family, chat_as_template(rendering->chat),
                             &text);
    return text_detach(&text, NULL);
}

/* A template that reads texts alone would write the list of parts in Python's notation:
 * it either fails on a list, or the notation is in its output. Or it leaves out media. */
static bool reads_parts(struct rendering *rendering, const char *medium)
{
    static const char mark[] = "a part of a text";
    struct error cause = { 0 };
    struct rendering probe = {
        .chat = rendering->chat,
        .jinja = rendering->jinja,
        .messages = json_pack("[{s s, s [{s s, s s}]}]", "role", "user", "content",
                              "type", "text", "text", mark),
        .variables = json_incref(rendering->variables),
        .err = &cause,
    };
    bool reads;

    if (rendering->media)
        json_array_insert_new(
            json_object_get(json_array_get(probe.messages, 0), "content"), 0,
            json_pack("{s s}", "type", media_kind_name(rendering->media->family->kind)));
    jinja_output_init(&probe.output);
    reads = rendering_text(&probe, 1, true, NULL) &&
            strstr(probe.output.text.data, mark) &&
            !strstr(probe.output.text.data, "'text'") &&
            !strstr(probe.output.text.data, "\"text\"") &&
            (!rendering->media ||
             strstr(probe.output.text.data, rendering->media->family->token) ||
             strstr(probe.output.text.data, medium));
    rendering_end(&probe);
    return reads;
}

/* Return whether the text of a message is in the output. */
static bool writes(const struct chat *chat, json_t *content, const char *text)
{
    struct error cause = { 0 };
    struct rendering probe = {
        .chat = chat,
        .jinja = chat->default_template,
        .messages = json_pack("[{s s, s o}]", "role", "user", "content", content),
        .variables = json_object(),
        .err = &cause,
    };
    bool found;

    jinja_output_init(&probe.output);
    found = rendering_text(&probe, 1, true, NULL) && strstr(probe.output.text.data, text);
    rendering_end(&probe);
    return found;
}

bool rendering_divides(const struct chat *chat)
{
    static const char mark[] = "a text";

    return !writes(chat, json_string(mark), mark) &&
           writes(chat, json_pack("[{s s, s s}]", "type", "text", "text", mark), mark);
}

static json_t *variables_of(const struct template_options *options)
{
    json_t *variables = options->variables
                            ? json_copy((json_t *)(uintptr_t)options->variables)
                            : json_object();

    if (options->thinking != CHAT_THINKING_DEFAULT &&
        !json_object_get(variables, "enable_thinking"))
        json_object_set_new(variables, "enable_thinking",
                            json_boolean(options->thinking == CHAT_THINKING_ON));
    return variables;
}

static bool add_message(struct rendering *rendering, const struct message *message)
{
    json_t *item;

    if (message->role == ROLE_TOOLS) {
        rendering->tools = template_tools_list(message, rendering->err);
        if (rendering->tools && json_array_size(rendering->tools) == 0) {
            json_decref(rendering->tools);
            rendering->tools = NULL;
            return true;
        }
        return rendering->tools;
    }
    item = chat_message(message, rendering->err);
    if (item)
        json_array_append_new(rendering->messages, item);
    return item;
}

bool rendering_begin(struct rendering *rendering, const struct template_options *options,
                     const struct message *messages, size_t count)
{
    const char *system = options->default_system;
    char *medium;

    jinja_output_init(&rendering->output);
    rendering->media = options->media;
    rendering->messages = json_array();
    rendering->variables = variables_of(options);
    if (system && system[0] && !has_system(messages, count))
        json_array_append_new(
            rendering->messages,
            json_pack("{s s, s s}", "role", "system", "content", system));
    for (size_t i = 0; i < count; i++)
        if (!add_message(rendering, &messages[i]))
            return false;
    rendering->jinja = rendering->tools && rendering->chat->tool_template
                           ? rendering->chat->tool_template
                           : rendering->chat->default_template;
    if (!rendering->jinja)
        return chat_check(rendering->chat, rendering->err);
    if (rendering->chat->divides && rendering->jinja == rendering->chat->default_template)
        chat_messages_divide(rendering->messages);
    if (!chat_messages_have_parts(rendering->messages))
        return true;
    medium = medium_text(rendering);
    if (!reads_parts(rendering, medium))
        chat_messages_flatten(rendering->messages, medium);
    free(medium);
    return true;
}

void rendering_end(struct rendering *rendering)
{
    jinja_output_clear(&rendering->output);
    json_decref(rendering->messages);
    json_decref(rendering->tools);
    json_decref(rendering->variables);
}

static bool render(struct rendering *rendering, json_t *messages, bool prompt,
                   bool *refused, struct error *err)
{
    json_t *variables = json_copy(rendering->chat->tokens);
    bool ok;

    json_object_update(variables, rendering->variables);
    json_object_set(variables, "messages", messages);
    json_object_set_new(variables, "documents", json_null());
    json_object_set_new(variables, "add_generation_prompt", json_boolean(prompt));
    json_object_set_new(variables, "tools",
                        rendering->tools ? json_incref(rendering->tools) : json_null());
    ok = jinja_render(rendering->jinja, variables, &rendering->output, refused, err);
    json_decref(variables);
    return ok;
}

/* The messages, with "" for contents that were null or missing; NULL: there are none. */
static json_t *with_contents(const json_t *messages)
{
    json_t *filled = json_array();
    bool found = false;

    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *message = json_copy(json_array_get(messages, i));

        if (!json_object_get(message, "content")) {
            json_object_set_new(message, "content", json_string(""));
            found = true;
        }
        json_array_append_new(filled, message);
    }
    if (found)
        return filled;
    json_decref(filled);
    return NULL;
}

bool rendering_text(struct rendering *rendering, size_t count, bool prompt, bool *refused)
{
    json_t *messages = json_array(), *filled = NULL;
    struct error cause = { 0 };
    bool ok;

    for (size_t i = 0; i < count; i++)
        json_array_append(messages, json_array_get(rendering->messages, i));
    ok = render(rendering, messages, prompt, refused, &cause);
    /* transformers drops a null content, and some templates fail on a missing one */
    if (!ok && (filled = with_contents(messages))) {
        cause = (struct error) { 0 };
        ok = render(rendering, filled, prompt, refused, &cause);
    }
    if (!ok)
        error_set(rendering->err, cause.code, "%s", cause.text);
    if (ok && rendering->media)
        chat_media_write(rendering->media, &rendering->output);
    json_decref(filled);
    json_decref(messages);
    return ok;
}

bool rendering_tokens(struct rendering *rendering, size_t count, bool prompt,
                      struct token_list *ids)
{
    ids->count = 0;
    return rendering_text(rendering, count, prompt, NULL) &&
           tokenizer_encode(rendering->tokenizer, rendering->output.text.data,
                            rendering->output.text.len, false, ids, rendering->err);
}
