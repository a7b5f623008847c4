/* train/chat/chat.c - a model's own template: its files, and what can be checked without a
 * conversation. */
#include "config.h"

#include "train/chat/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/size.h"
#include "train/chat/chat_internal.h"

#define FILE_MAX ((size_t)64 << 20)

static const char *const token_names[] = {
    "bos_token", "eos_token", "unk_token",  "sep_token",
    "pad_token", "cls_token", "mask_token",
};

/* "<s>", or {"content": "<s>"}. */
static void read_tokens(struct chat *chat, const json_t *config)
{
    for (size_t i = 0; i < TS_COUNT(token_names); i++) {
        json_t *token = json_object_get(config, token_names[i]);

        if (json_is_object(token))
            token = json_object_get(token, "content");
        if (json_is_string(token) && !json_object_get(chat->tokens, token_names[i]))
            json_object_set(chat->tokens, token_names[i], token);
    }
}

static void parse_template(struct chat *chat, struct jinja **into, const json_t *source,
                           const char *where)
{
    struct error cause = { 0 };

    if (!json_is_string(source))
        return;
    text_add(&chat->source, json_string_value(source), json_string_length(source));
    jinja_free(*into);
    *into =
        jinja_parse(json_string_value(source), json_string_length(source), where, &cause);
    if (!*into)
        chat->parse_error = cause;
}

static void read_templates(struct chat *chat, const json_t *templates, const char *where)
{
    parse_template(chat, &chat->default_template, templates, where);
    for (size_t i = 0; i < json_array_size(templates); i++) {
        const json_t *item = json_array_get(templates, i);
        const char *name = json_string_value(json_object_get(item, "name"));

        if (name && strcmp(name, "default") == 0)
            parse_template(chat, &chat->default_template,
                           json_object_get(item, "template"), where);
        else if (name && strcmp(name, "tool_use") == 0)
            parse_template(chat, &chat->tool_template, json_object_get(item, "template"),
                           where);
    }
}

/* Read a JSON file that may be absent; false if it is malformed. */
static bool read_json(const char *dir, const char *name, json_t **out, struct error *err)
{
    char *path = path_join(dir, name);
    struct text text;

    *out = NULL;
    text_init(&text, FILE_MAX);
    if (file_exists(path) && file_read(path, FILE_MAX, &text, NULL, err))
        *out = json_read_loose(text.data, text.len, path, 1, err);
    text_clear(&text);
    free(path);
    return !err || err->code == ERROR_NONE;
}

static bool read_jinja(struct chat *chat, const char *dir, const char *name,
                       struct jinja **into, struct error *err)
{
    char *path = path_join(dir, name);
    struct text text;
    json_t *source;
    bool ok = true;

    text_init(&text, FILE_MAX);
    if (file_exists(path)) {
        ok = file_read(path, FILE_MAX, &text, NULL, err);
        source = ok ? json_stringn(text.data, text.len) : NULL;
        parse_template(chat, into, source, path);
        if (ok && !source)
            error_set(&chat->parse_error, ERROR_DATA, "%s is not UTF-8", path);
        json_decref(source);
    }
    text_clear(&text);
    free(path);
    return ok;
}

/* Folders with a processor for images may have the template in a file of its own. */
static bool read_processor(struct chat *chat, const char *dir, struct error *err)
{
    json_t *file = NULL;
    struct text where;
    bool found = chat->default_template || chat->parse_error.code != ERROR_NONE;
    bool ok = found || read_json(dir, "chat_template.json", &file, err);

    text_init(&where, 0);
    text_addf(&where, "%s/chat_template.json", dir);
    read_templates(chat, json_object_get(file, "chat_template"), where.data);
    text_clear(&where);
    json_decref(file);
    return ok;
}

static bool read_files(struct chat *chat, const char *dir, struct error *err)
{
    json_t *config, *map;
    struct text where;
    bool ok = read_json(dir, "tokenizer_config.json", &config, err);

    text_init(&where, 0);
    text_addf(&where, "chat_template of %s/tokenizer_config.json", dir);
    read_tokens(chat, config);
    read_templates(chat, json_object_get(config, "chat_template"), where.data);
    json_decref(config);
    text_clear(&where);
    ok = ok && read_json(dir, "special_tokens_map.json", &map, err);
    if (ok) {
        read_tokens(chat, map);
        json_decref(map);
    }
    return ok &&
           read_jinja(chat, dir, "chat_template.jinja", &chat->default_template, err) &&
           read_processor(chat, dir, err) &&
           read_jinja(chat, dir, "additional_chat_templates/tool_use.jinja",
                      &chat->tool_template, err);
}

bool chat_open(const char *dir, struct chat **out, struct error *err)
{
    struct chat *chat = memory_alloc(sizeof(*chat));
    bool ok;

    text_init(&chat->source, 0);
    chat->tokens = json_object();
    chat->row = (struct chat_template) { .name = "the model's own chat template",
                                         .model_chat = chat };
    ok = read_files(chat, dir, err);
    chat->divides = ok && chat->default_template && rendering_divides(chat);
    *out = chat;
    if (!ok || (!chat->default_template && chat->parse_error.code == ERROR_NONE)) {
        chat_close(chat);
        *out = NULL;
    }
    return ok;
}

void chat_close(struct chat *chat)
{
    if (!chat)
        return;
    jinja_free(chat->default_template);
    jinja_free(chat->tool_template);
    json_decref(chat->tokens);
    text_clear(&chat->source);
    free(chat);
}

static void release_chat(void *chat)
{
    chat_close(chat);
}

struct tokenizer *chat_tokenizer_open(const char *dir, struct error *err)
{
    return chat_tokenizer_open_with(dir, &(struct new_tokens) { .normal = NULL }, err);
}

struct tokenizer *chat_tokenizer_open_with(const char *dir, const struct new_tokens *more,
                                           struct error *err)
{
    struct tokenizer *tokenizer = tokenizer_open_with(dir, more, err);
    struct chat *chat = NULL;

    if (!tokenizer)
        return NULL;
    if (!chat_open(dir, &chat, err)) {
        tokenizer_close(tokenizer);
        return NULL;
    }
    if (chat)
        tokenizer_attach(tokenizer, chat, release_chat);
    return tokenizer;
}

void chat_advise(const struct chat *chat, struct text *out)
{
    const char *other, *name = template_match(chat, &other);

    text_adds(out, "name a template in the job");
    if (name)
        text_addf(out, ", as template: %s", name);
    if (other)
        text_addf(out, ", or %s for answers %s thoughts", other,
                  template_find(other)->reasons ? "with" : "without");
}

bool chat_check(const struct chat *chat, struct error *err)
{
    struct text advice;

    if (chat->default_template)
        return true;
    text_init(&advice, 0);
    chat_advise(chat, &advice);
    error_set(err, ERROR_DATA, "%s; %s", chat->parse_error.text, advice.data);
    text_clear(&advice);
    return false;
}

const struct chat_template *chat_as_template(const struct chat *chat)
{
    return &chat->row;
}
/* Check the texts alone. *found: the text of the conversation starts with the prompt and
 * continues with an answer. Texts without a common start may still have one as tokens. */
static bool check_texts(struct rendering *rendering, size_t count, bool *found,
                        bool *refused)
{
    const struct text *prompt = &rendering->output.text;
    char *whole;
    size_t len;
    bool ok = rendering_text(rendering, count, false, refused);

    if (!ok || jinja_marks_generation(rendering->jinja)) {
        *found = rendering->output.span_count > 0;
        return ok;
    }
    whole = text_detach(&rendering->output.text, &len);
    ok = rendering_text(rendering, count - 1, true, refused);
    *found = ok && len > prompt->len && memcmp(whole, prompt->data, prompt->len) == 0;
    free(whole);
    return ok;
}

/* Encode as a run does. Pass if the tokenizer cannot be opened, which is not an error of
 * the template. */
static bool try_tokens(const struct chat *chat, const char *dir,
                       const struct template_options *options,
                       const struct message *messages, size_t count, struct error *err)
{
    struct tokenizer *tokenizer = tokenizer_open(dir, NULL);
    const struct template_request request = { &chat->row, tokenizer, options, messages,
                                              count };
    struct token_list ids = { 0 };
    float *weights = NULL;
    bool ok = !tokenizer || template_encode(&request, &ids, &weights, err);

    if (ok && tokenizer && ids.count == 0)
        ok = error_set(err, ERROR_DATA,
                       "the chat template marks no text as an answer; name a template in "
                       "the job");
    token_list_clear(&ids);
    free(weights);
    tokenizer_close(tokenizer);
    return ok;
}

bool chat_try(const struct chat *chat, const char *dir, struct error *err)
{
    static const struct message conversation[] = { { ROLE_USER, "2+2?", 4, 0, NULL },
                                                   { ROLE_ASSISTANT, "4", 1, 1, NULL } };
    const struct template_options options = { 0 };
    struct error cause = { 0 };
    struct rendering rendering = { .chat = chat, .err = &cause };
    bool refused = false, found = true;
    bool ok =
        rendering_begin(&rendering, &options, conversation, TS_COUNT(conversation)) &&
        check_texts(&rendering, TS_COUNT(conversation), &found, &refused);

    rendering_end(&rendering);
    if (refused)
        return true;
    if (!ok)
        return error_set(err, cause.code, "%s", cause.text);
    return found ||
           try_tokens(chat, dir, &options, conversation, TS_COUNT(conversation), err);
}
