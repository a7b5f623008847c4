/* train/chat/template_match.c - the named template that writes a conversation like a
 * model's own template, found by comparing what both write. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "train/chat/chat_internal.h"

static const char question[] = "2+2?", answer[] = "4", system_text[] = "Be brief.",
                  thoughts_begin[] = "<think>", thoughts_end[] = "</think>",
                  tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"add\", "
                            "\"description\": \"Adds.\", \"parameters\": {\"type\": "
                            "\"object\", \"properties\": {}}}}]";

/* What a row must have in common with the model's template, as bits by importance. Each
 * is compared without white space at the end. */
enum {
    MATCH_TOOLS = 1,    /* the description of functions */
    MATCH_SYSTEM = 2,   /* a conversation with a system message */
    MATCH_PLAIN = 4,    /* a conversation without, including a default system message */
    MATCH_THOUGHTS = 8, /* answers start with thoughts, or they do not */
    MATCH_TURN = 16     /* the question and its answer: required */
};

/* What the model's template writes. */
struct own_texts {
    struct text plain, system, tools, prompt;
    bool thinks; /* a prompt leaves thoughts open, or an answer begins with empty ones */
};

static void trim(struct text *text)
{
    while (text->len > 0 && strchr(" \n", text->data[text->len - 1]))
        text->data[--text->len] = 0;
}

/* Remove empty thoughts, or their end alone, which templates write in different ways. */
static void remove_thought(struct text *text)
{
    char *end = strstr(text->data, thoughts_end), *begin = end;
    size_t len = strlen(thoughts_begin);

    if (!end)
        return;
    while (begin > text->data && strchr(" \n", begin[-1]))
        begin--;
    if ((size_t)(begin - text->data) >= len &&
        memcmp(begin - len, thoughts_begin, len) == 0)
        begin -= len;
    end += strlen(thoughts_end);
    end += strspn(end, " \n");
    text->len -= (size_t)(end - begin);
    memmove(begin, end, strlen(end) + 1);
}

static void add_slot(struct text *out, const struct chat *chat, const char *slot,
                     const char *content)
{
    const char *bos = json_string_value(json_object_get(chat->tokens, "bos_token"));
    const char *eos = json_string_value(json_object_get(chat->tokens, "eos_token"));

    for (const char *at = slot; at && *at; at++) {
        if (*at == SLOT_CONTENT[0])
            text_adds(out, content);
        else if (*at == SLOT_BOS[0])
            text_adds(out, bos ? bos : "");
        else if (*at == SLOT_EOS[0])
            text_adds(out, eos ? eos : "");
        else
            text_addc(out, *at);
    }
}

/* Remove the end-of-text token: many templates write its text, whatever the tokenizer's
 * is. */
static void remove_end(struct text *text, const struct chat *chat)
{
    const char *eos = json_string_value(json_object_get(chat->tokens, "eos_token"));
    size_t len = eos ? strlen(eos) : 0;

    trim(text);
    if (len > 0 && text->len > len && strcmp(text->data + text->len - len, eos) == 0)
        text->data[text->len -= len] = 0;
}

/* What a row writes for the question and its answer, up to the end-of-text token; system
 * NULL: the turn alone. */
static void add_row(struct text *out, const struct chat *chat,
                    const struct chat_template *row, const char *system)
{
    struct text asked;

    text_init(&asked, 0);
    text_reset(out);
    if (system)
        add_slot(out, chat, row->prefix, "");
    if (system && system[0])
        add_slot(row->system_in_question ? &asked : out, chat, row->system, system);
    text_adds(&asked, question);
    add_slot(out, chat, row->user, asked.data);
    add_slot(out, chat, row->assistant, answer);
    remove_end(out, chat);
    text_clear(&asked);
}

static bool writes_tools(const struct chat_template *row, const struct own_texts *own)
{
    const struct message message = { .role = ROLE_TOOLS,
                                     .text = tools,
                                     .len = strlen(tools) };
    struct text text;
    bool same;

    text_init(&text, 0);
    same = own->tools.len > 0 && template_tools_describe(row, &message, &text, NULL) &&
           strstr(own->tools.data, text.data + strspn(text.data, "\n"));
    text_clear(&text);
    return same;
}

static unsigned match_row(const struct chat *chat, const struct chat_template *row,
                          const struct own_texts *own)
{
    struct text text;
    unsigned match = 0;

    text_init(&text, 0);
    add_row(&text, chat, row, NULL);
    if (text.len > strlen(question) + strlen(answer) &&
        strstr(own->plain.data, text.data))
        match |= MATCH_TURN;
    add_row(&text, chat, row, row->default_system ? row->default_system : "");
    if (text_starts(own->plain.data, text.data))
        match |= MATCH_PLAIN;
    add_row(&text, chat, row, system_text);
    if (text_starts(own->system.data, text.data))
        match |= MATCH_SYSTEM;
    if (row->reasons == own->thinks)
        match |= MATCH_THOUGHTS;
    if (writes_tools(row, own))
        match |= MATCH_TOOLS;
    text_clear(&text);
    return match & MATCH_TURN ? match : 0;
}

/* Render the messages; the text is "" if the template refuses them. */
static void render(const struct chat *chat, const struct message *messages, size_t count,
                   bool prompt, struct text *out)
{
    const struct template_options options = { 0 };
    struct error cause = { 0 };
    struct rendering rendering = { .chat = chat, .err = &cause };
    bool ok =
        rendering_begin(&rendering, &options, messages, count) &&
        rendering_text(&rendering, json_array_size(rendering.messages), prompt, NULL);

    text_init(out, 0);
    text_adds(out, ok ? rendering.output.text.data : "");
    rendering_end(&rendering);
    trim(out);
}

static bool leaves_open(const char *prompt)
{
    const char *begin = strstr(prompt, thoughts_begin);

    return begin && !strstr(begin, thoughts_end);
}

static void write_own(const struct chat *chat, struct own_texts *own)
{
    const struct message all[] = {
        { ROLE_TOOLS, tools, strlen(tools), 0, NULL },
        { ROLE_SYSTEM, system_text, strlen(system_text), 0, NULL },
        { ROLE_USER, question, strlen(question), 0, NULL },
        { ROLE_ASSISTANT, answer, strlen(answer), 1, NULL },
    };

    render(chat, all + 2, 2, false, &own->plain);
    render(chat, all + 1, 3, false, &own->system);
    render(chat, all, 4, false, &own->tools);
    render(chat, all + 2, 1, true, &own->prompt);
    own->thinks =
        leaves_open(own->prompt.data) || (strstr(own->plain.data, thoughts_begin) &&
                                          !strstr(own->prompt.data, thoughts_end));
    remove_thought(&own->plain);
    remove_thought(&own->system);
}

/* The row whose special tokens the text of the template mentions, for a template that
 * cannot be parsed. */
static const char *match_tokens(const struct chat *chat)
{
    const char *name;

    for (size_t i = 0; (name = template_name(i)); i++) {
        const struct chat_template *row = template_find(name);
        size_t found = 0;

        while (found < TEMPLATE_SPECIALS && row->specials[found] &&
               strstr(chat->source.data, row->specials[found]))
            found++;
        if (found > 0 && (found == TEMPLATE_SPECIALS || !row->specials[found]))
            return name;
    }
    return NULL;
}

/* The best row, among those that reason or do not unless `reasons` is NULL. */
static const char *best_row(const struct chat *chat, const struct own_texts *own,
                            const bool *reasons)
{
    const char *name, *found = NULL;
    unsigned best = 0;

    for (size_t i = 0; (name = template_name(i)); i++) {
        const struct chat_template *row = template_find(name);
        unsigned match = match_row(chat, row, own);

        if (match > best && (!reasons || row->reasons == *reasons)) {
            best = match;
            found = name;
        }
    }
    return found;
}

const char *template_match(const struct chat *chat, const char **other)
{
    struct own_texts own;
    const char *found;
    bool opposite;

    if (other)
        *other = NULL;
    if (!chat)
        return NULL;
    if (!chat->default_template)
        return match_tokens(chat);
    write_own(chat, &own);
    found = best_row(chat, &own, NULL);
    if (found && other) {
        opposite = !template_find(found)->reasons;
        *other = best_row(chat, &own, &opposite);
    }
    text_clear(&own.plain);
    text_clear(&own.system);
    text_clear(&own.tools);
    text_clear(&own.prompt);
    return found;
}
