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

/* A template that reads texts alone would write the list of parts in Python's notation:
 * it either fails on a list, or the notation is in its output. */
static bool reads_parts(struct rendering *rendering)
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

    jinja_output_init(&probe.output);
    reads = rendering_text(&probe, 1, true, NULL) &&
            strstr(probe.output.text.data, mark) &&
            !strstr(probe.output.text.data, "'text'") &&
            !strstr(probe.output.text.data, "\"text\"");
    rendering_end(&probe);
    return reads;
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

    jinja_output_init(&rendering->output);
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
    if (chat_messages_have_parts(rendering->messages) && !reads_parts(rendering))
        chat_messages_flatten(rendering->messages);
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
