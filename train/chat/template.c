/* train/chat/template.c - finds the named templates. */
#include "config.h"

#include "train/chat/template.h"

#include <string.h>

#include "base/size.h"
#include "train/chat/template_internal.h"

/* Special tokens that identify a template, in this order. */
static const char *const guesses[][2] = {
    { "<|start_header_id|>", "llama3" },
    { "<start_of_turn>", "gemma" },
    { "<|im_start|>", "chatml" },
};

/* Return the row with this index in both tables, or NULL after the last. */
static const struct chat_template *template_at(size_t index)
{
    if (index < text_template_count)
        return &text_templates[index];
    index -= text_template_count;
    return index < media_template_count ? &media_templates[index] : NULL;
}

const struct chat_template *template_find(const char *name)
{
    for (size_t i = 0; template_at(i); i++)
        if (strcmp(template_at(i)->name, name) == 0)
            return template_at(i);
    return NULL;
}

const struct chat_template *template_guess(const struct tokenizer *tokenizer)
{
    const struct chat *own = tokenizer_attached(tokenizer);

    if (own)
        return chat_as_template(own);
    for (size_t i = 0; i < TS_COUNT(guesses); i++)
        if (tokenizer_find(tokenizer, guesses[i][0]) >= 0)
            return template_find(guesses[i][1]);
    return template_find("default");
}

const struct chat *template_model_chat(const struct chat_template *chat)
{
    return chat->model_chat;
}

const char *template_name(size_t index)
{
    const struct chat_template *row = template_at(index);

    return row ? row->name : NULL;
}

const char *template_row_name(const struct chat_template *chat)
{
    return chat->name;
}

const char *template_missing(const struct chat_template *chat,
                             const struct tokenizer *tokenizer)
{
    for (size_t i = 0; i < TEMPLATE_SPECIALS && chat->specials[i]; i++)
        if (tokenizer_find(tokenizer, chat->specials[i]) < 0)
            return chat->specials[i];
    return NULL;
}

bool template_writes_end(const struct chat_template *chat)
{
    return chat->ends_with_eos || (chat->assistant && strstr(chat->assistant, SLOT_EOS));
}

int64_t template_document_end(const struct chat_template *chat,
                              const struct tokenizer *tokenizer)
{
    int64_t end = -1;

    if (chat && chat->document_end)
        end = tokenizer_find(tokenizer, chat->document_end);
    return end >= 0 ? end : tokenizer_eos(tokenizer);
}
