/* train/chat/chat.c - answers located in the text of a model's own template. The template
 * renders the whole conversation, and each prefix of it that ends where an answer starts
 * or ends; the longest common token prefix of two texts gives the position of the answer.
 * A template with {% generation %} marks the answers. */
#include "config.h"

#include "train/chat/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/size.h"
#include "train/jinja/jinja.h"
#include "train/chat/template_internal.h"

#define FILE_MAX ((size_t)64 << 20)

/* Tokens that a template may write after a conversation that ends, but not after an
 * answer that a question follows. */
enum { TAIL_MAX = 2 };

struct chat {
    struct chat_template row;
    struct jinja *default_template, *tool_template; /* tool_template may be NULL */
    json_t *tokens;           /* bos_token and others, as templates see them */
    struct error parse_error; /* error of a template that cannot be parsed */
};

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
           read_jinja(chat, dir, "additional_chat_templates/tool_use.jinja",
                      &chat->tool_template, err);
}

bool chat_open(const char *dir, struct chat **out, struct error *err)
{
    struct chat *chat = memory_alloc(sizeof(*chat));
    bool ok;

    chat->tokens = json_object();
    chat->row = (struct chat_template) { .name = "the model's own chat template",
                                         .model_chat = chat };
    ok = read_files(chat, dir, err);
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
    free(chat);
}

static void release_chat(void *chat)
{
    chat_close(chat);
}

struct tokenizer *chat_tokenizer_open(const char *dir, struct error *err)
{
    struct tokenizer *tokenizer = tokenizer_open(dir, err);
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

bool chat_check(const struct chat *chat, struct error *err)
{
    return chat->default_template ||
           error_set(err, ERROR_DATA,
                     "%s; name a template in the job, as template: chatml",
                     chat->parse_error.text);
}

const struct chat_template *chat_as_template(const struct chat *chat)
{
    return &chat->row;
}

/* State while a conversation is rendered. */
struct rendering {
    const struct chat *chat;
    const struct tokenizer *tokenizer;
    const struct jinja *jinja;
    json_t *messages, *tools; /* as the template sees them; tools NULL: none */
    json_t *thinking;         /* enable_thinking of the job; NULL: not set */
    struct jinja_output output;
    struct error *err;
};

static json_t *call_of(const json_t *call)
{
    json_t *arguments = json_object_get(call, "arguments"), *read = NULL;

    /* OpenAI writes them as a JSON text */
    if (json_is_string(arguments) && json_string_length(arguments) > 0)
        read = json_read_text(json_string_value(arguments), json_string_length(arguments),
                              "arguments", 1, NULL);
    return json_pack("{s s, s {s O, s o}}", "type", "function", "function", "name",
                     json_object_get(call, "name"), "arguments",
                     read ? read : json_incref(arguments));
}

/* An answer that calls functions: its thought, or null, and the calls. */
static json_t *calling_message(const struct message *message, struct error *err)
{
    json_t *list = json_array(), *calls, *content;
    struct text thought;

    text_init(&thought, 0);
    calls = template_tools_calls(message, &thought, err);
    for (size_t i = 0; i < json_array_size(calls); i++)
        json_array_append_new(list, call_of(json_array_get(calls, i)));
    content = thought.len > 0 ? json_stringn(thought.data, thought.len) : json_null();
    text_clear(&thought);
    if (!calls) {
        json_decref(list);
        json_decref(content);
        return NULL;
    }
    json_decref(calls);
    return json_pack("{s s, s o, s o}", "role", "assistant", "content", content,
                     "tool_calls", list);
}

static json_t *message_of(const struct message *message, struct error *err)
{
    static const char *const names[] = {
        [ROLE_SYSTEM] = "system",
        [ROLE_USER] = "user",
        [ROLE_ASSISTANT] = "assistant",
        [ROLE_TOOL] = "tool",
    };

    if (message->role == ROLE_FUNCTION)
        return calling_message(message, err);
    return json_pack("{s s, s s%}", "role", names[message->role], "content",
                     message->text, message->len);
}

static bool has_system(const struct message *messages, size_t count)
{
    for (size_t i = 0; i < count && messages[i].role <= ROLE_TOOLS; i++)
        if (messages[i].role == ROLE_SYSTEM)
            return true;
    return false;
}

/* Collect the messages; those about tools are not messages for a template. */
static bool begin(struct rendering *rendering, const struct template_options *options,
                  const struct message *messages, size_t count)
{
    const char *system = options->default_system;
    json_t *item;

    jinja_output_init(&rendering->output);
    rendering->messages = json_array();
    if (options->thinking != CHAT_THINKING_DEFAULT)
        rendering->thinking = json_boolean(options->thinking == CHAT_THINKING_ON);
    if (system && system[0] && !has_system(messages, count))
        json_array_append_new(
            rendering->messages,
            json_pack("{s s, s s}", "role", "system", "content", system));
    for (size_t i = 0; i < count; i++) {
        if (messages[i].role == ROLE_TOOLS) {
            rendering->tools = template_tools_list(&messages[i], rendering->err);
            if (!rendering->tools)
                return false;
            continue;
        }
        item = message_of(&messages[i], rendering->err);
        if (!item)
            return error_set(rendering->err, ERROR_DATA, "a message is not UTF-8");
        json_array_append_new(rendering->messages, item);
    }
    rendering->jinja = rendering->tools && rendering->chat->tool_template
                           ? rendering->chat->tool_template
                           : rendering->chat->default_template;
    return rendering->jinja || chat_check(rendering->chat, rendering->err);
}

static void end(struct rendering *rendering)
{
    jinja_output_clear(&rendering->output);
    json_decref(rendering->messages);
    json_decref(rendering->tools);
    json_decref(rendering->thinking);
}

/* Render the first `count` messages into rendering->output. */
static bool render(struct rendering *rendering, size_t count, bool prompt, bool *refused)
{
    json_t *messages = json_array(), *variables = json_copy(rendering->chat->tokens);
    bool ok;

    for (size_t i = 0; i < count; i++)
        json_array_append(messages, json_array_get(rendering->messages, i));
    json_object_set_new(variables, "messages", messages);
    json_object_set_new(variables, "documents", json_null());
    json_object_set_new(variables, "add_generation_prompt", json_boolean(prompt));
    json_object_set_new(variables, "tools",
                        rendering->tools ? json_incref(rendering->tools) : json_null());
    if (rendering->thinking)
        json_object_set(variables, "enable_thinking", rendering->thinking);
    ok = jinja_render(rendering->jinja, variables, &rendering->output, refused,
                      rendering->err);
    json_decref(variables);
    return ok;
}

/* Render and tokenize them into *ids. */
static bool write(struct rendering *rendering, size_t count, bool prompt,
                  struct token_list *ids)
{
    ids->count = 0;
    return render(rendering, count, prompt, NULL) &&
           tokenizer_encode(rendering->tokenizer, rendering->output.text.data,
                            rendering->output.text.len, false, ids, rendering->err);
}

/* The length of the longest common prefix. */
static size_t common_prefix(const struct token_list *a, const struct token_list *b)
{
    size_t count = 0;

    while (count < a->count && count < b->count && a->ids[count] == b->ids[count])
        count++;
    return count;
}

/* Answer i is at tokens [start, end) of the conversation. */
struct answer_span {
    size_t start, end;
    float weight;
};

struct answer_spans {
    struct answer_span *list;
    size_t count;
};

/* Find the token that contains a byte of the text; at the end of a span, the token after
 * it. */
static bool token_at(struct rendering *rendering, const struct token_list *whole,
                     size_t byte, bool after, size_t *out)
{
    struct token_list part = { 0 };
    bool ok = tokenizer_encode(rendering->tokenizer, rendering->output.text.data, byte,
                               false, &part, rendering->err);

    *out = common_prefix(&part, whole);
    if (after && *out < part.count)
        *out += 1;
    token_list_clear(&part);
    return ok;
}

/* Locate answers by the spans of {% generation %}. */
static bool locate_marked(struct rendering *rendering, const struct token_list *whole,
                          struct answer_spans *spans)
{
    const struct jinja_output *output = &rendering->output;
    size_t answers = spans->count;
    bool ok = true;

    if (output->span_count != answers)
        return error_set(rendering->err, ERROR_DATA,
                         "the chat template marks %zu answers of %zu; name a template "
                         "in the job",
                         output->span_count, answers);
    for (size_t i = 0; i < answers && ok; i++) {
        const struct jinja_span *span = &output->spans[i];

        ok = token_at(rendering, whole, span->start, false, &spans->list[i].start) &&
             token_at(rendering, whole, span->start + span->len, true,
                      &spans->list[i].end);
    }
    return ok;
}

static bool is_answer(const json_t *message)
{
    return strcmp(json_string_value(json_object_get(message, "role")), "assistant") == 0;
}

/* Locate answers by what the template writes before the answer and up to its end. An
 * earlier answer that the template writes differently once others follow (without its
 * thoughts) has no position: 0, 0. */
static bool locate_between(struct rendering *rendering, const struct token_list *whole,
                           struct answer_spans *spans, bool last_only)
{
    size_t count = json_array_size(rendering->messages), answer = 0;
    struct token_list before = { 0 }, after = { 0 };
    bool ok = true;

    for (size_t i = 0; i < count && ok; i++) {
        struct answer_span *span = &spans->list[answer];
        bool last = i + 1 == count;

        if (!is_answer(json_array_get(rendering->messages, i)))
            continue;
        answer++;
        if (last_only && !last)
            continue;
        ok = write(rendering, i, true, &before) &&
             (last || write(rendering, i + 1, false, &after));
        span->start = common_prefix(&before, whole);
        span->end = last ? whole->count : common_prefix(&after, whole);
        if (span->start + 1 < before.count || span->end <= span->start ||
            (!last && span->end + TAIL_MAX < after.count))
            span->start = span->end = 0;
        if (ok && last && span->end == 0)
            ok = error_set(
                rendering->err, ERROR_DATA,
                "cannot separate the answer from the question: the chat template does "
                "not start a conversation like its prompt; name a template in the job, "
                "as template: chatml");
    }
    token_list_clear(&before);
    token_list_clear(&after);
    return ok;
}

static void copy(struct token_list *out, const struct token_list *from, size_t start,
                 size_t end)
{
    for (size_t i = start; i < end; i++)
        token_list_add(out, from->ids[i]);
}

/* Make turns of the located answers; the text before each is its question. What the
 * template writes after the last answer is left out: it is neither trained on nor
 * context. */
static void make_turns(const struct answer_spans *spans, const struct token_list *whole,
                       struct turn *turns, size_t *count)
{
    size_t at = 0;

    *count = 0;
    for (size_t i = 0; i < spans->count; i++) {
        const struct answer_span *span = &spans->list[i];
        struct turn *turn = &turns[*count];

        if (span->end <= at || span->start < at)
            continue;
        copy(&turn->source, whole, at, span->start);
        copy(&turn->target, whole, span->start, span->end);
        turn->weight = span->weight;
        at = span->end;
        ++*count;
    }
}

bool chat_turns(const struct template_request *request, struct turn **turns,
                size_t *turn_count, struct error *err)
{
    const struct message *messages = request->messages;
    size_t count = request->count;
    struct rendering rendering = { .chat = template_model_chat(request->chat),
                                   .tokenizer = request->tokenizer,
                                   .err = err };
    struct answer_spans spans = { .list =
                                      memory_alloc((count + 1) * sizeof(*spans.list)) };
    struct token_list whole = { 0 };
    bool ok = begin(&rendering, request->options, messages, count);

    for (size_t i = 0; i < count; i++)
        if (messages[i].role == ROLE_ASSISTANT || messages[i].role == ROLE_FUNCTION)
            spans.list[spans.count++].weight = messages[i].weight;
    ok = ok && write(&rendering, json_array_size(rendering.messages), false, &whole);
    if (ok && jinja_marks_generation(rendering.jinja))
        ok = locate_marked(&rendering, &whole, &spans);
    else if (ok)
        ok = locate_between(&rendering, &whole, &spans, request->options->mask_history);
    *turns = memory_alloc((count + 2) * sizeof(**turns));
    *turn_count = 0;
    if (ok)
        make_turns(&spans, &whole, *turns, turn_count);
    token_list_clear(&whole);
    free(spans.list);
    end(&rendering);
    return ok;
}

bool chat_prompt(const struct template_request *request, struct token_list *ids,
                 size_t *answer, struct error *err)
{
    struct rendering rendering = { .chat = template_model_chat(request->chat),
                                   .tokenizer = request->tokenizer,
                                   .err = err };
    struct token_list prompt = { 0 }, whole = { 0 };
    bool ok = begin(&rendering, request->options, request->messages, request->count);
    size_t size = json_array_size(rendering.messages);

    ok = ok && write(&rendering, size, true, &prompt);
    if (ok) {
        json_array_append_new(rendering.messages, json_pack("{s s, s s}", "role",
                                                            "assistant", "content", ""));
        ok = write(&rendering, size + 1, false, &whole);
    }
    if (ok) {
        copy(ids, &prompt, 0, prompt.count);
        *answer = ids->count;
        copy(ids, &whole, common_prefix(&prompt, &whole), whole.count);
    }
    token_list_clear(&prompt);
    token_list_clear(&whole);
    end(&rendering);
    return ok;
}

bool chat_render(const struct template_request *request, bool prompt, struct text *out,
                 struct error *err)
{
    struct rendering rendering = { .chat = template_model_chat(request->chat),
                                   .tokenizer = request->tokenizer,
                                   .err = err };
    bool ok = begin(&rendering, request->options, request->messages, request->count) &&
              render(&rendering, json_array_size(rendering.messages), prompt, NULL) &&
              text_add(out, rendering.output.text.data, rendering.output.text.len);

    end(&rendering);
    return ok;
}

/* Check the texts alone. *found: the text of the conversation starts with the prompt and
 * continues with an answer. Texts without a common start may still have one as tokens. */
static bool check_texts(struct rendering *rendering, size_t count, bool *found,
                        bool *refused)
{
    const struct text *prompt = &rendering->output.text;
    char *whole;
    size_t len;
    bool ok = render(rendering, count, false, refused);

    if (!ok || jinja_marks_generation(rendering->jinja)) {
        *found = rendering->output.span_count == 1;
        return ok;
    }
    whole = text_detach(&rendering->output.text, &len);
    ok = render(rendering, count - 1, true, refused);
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

    token_list_clear(&ids);
    free(weights);
    tokenizer_close(tokenizer);
    return ok;
}

bool chat_try(const struct chat *chat, const char *dir, struct error *err)
{
    static const struct message conversation[] = { { ROLE_USER, "2+2?", 4, 0 },
                                                   { ROLE_ASSISTANT, "4", 1, 1 } };
    const struct template_options options = { 0 };
    struct error cause = { 0 };
    struct rendering rendering = { .chat = chat, .err = &cause };
    bool refused = false, found = true;
    bool ok = begin(&rendering, &options, conversation, TS_COUNT(conversation)) &&
              check_texts(&rendering, TS_COUNT(conversation), &found, &refused);

    end(&rendering);
    if (refused)
        return true;
    if (!ok)
        return error_set(err, cause.code, "%s", cause.text);
    return found ||
           try_tokens(chat, dir, &options, conversation, TS_COUNT(conversation), err);
}
