/* train/generation/prompt.c - text of a template around an answer that does not exist
 * yet. */
#include "config.h"

#include "train/generation/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "train/chat/chat.h"

#define CONFIG_BYTES_MAX ((size_t)1 << 20)

/* Encode the conversation with an empty answer, with a named template. */
static bool named_open(const struct template_request *request, struct token_list *ids,
                       size_t *answer, struct error *err)
{
    struct template_options options = *request->options;
    struct template_request with_answer = *request;
    size_t count = request->count;
    struct message *all = memory_alloc((count + 1) * sizeof(*all));
    size_t first = ids->count;
    float *weights = memory_alloc((ids->room + 1) * sizeof(*weights));
    bool ok;

    memcpy(all, request->messages, count * sizeof(*all));
    all[count] = (struct message) { .role = ROLE_ASSISTANT, .text = "", .weight = 1 };
    options.train_on_prompt = false;
    options.mask_history = true;
    with_answer.options = &options;
    with_answer.messages = all;
    with_answer.count = count + 1;
    ok = template_encode(&with_answer, ids, &weights, err);
    *answer = ids->count;
    for (size_t i = ids->count; ok && i-- > first && weights[i] > 0;)
        *answer = i;
    free(weights);
    free(all);
    return ok;
}

/* Encode the conversation with an empty answer; *answer is the position in *ids where it
 * starts. */
static bool encode_open(const struct template_request *request, struct token_list *ids,
                        size_t *answer, struct error *err)
{
    return template_model_chat(request->chat) ? chat_prompt(request, ids, answer, err)
                                              : named_open(request, ids, answer, err);
}

bool prompt_encode(const struct template_request *request, struct token_list *out,
                   struct error *err)
{
    size_t answer;

    if (!encode_open(request, out, &answer, err))
        return false;
    out->count = answer;
    /* template_encode has replaced them */
    return !template_model_chat(request->chat) || !request->options->media ||
           template_media_fill(request->options->media, out, err);
}

void prompt_ends_add(struct prompt_ends *ends, int64_t id)
{
    for (size_t i = 0; i < ends->count; i++)
        if (ends->ids[i] == (uint32_t)id)
            return;
    if (id >= 0 && ends->count < PROMPT_ENDS_MAX)
        ends->ids[ends->count++] = (uint32_t)id;
}

static void add_json(struct prompt_ends *ends, const json_t *value)
{
    if (json_is_integer(value))
        prompt_ends_add(ends, json_integer_value(value));
    for (size_t i = 0; i < json_array_size(value); i++)
        prompt_ends_add(ends, json_integer_value(json_array_get(value, i)));
}

static bool add_files(const char *dir, const struct model_config *config,
                      struct prompt_ends *ends, struct error *err)
{
    char *name = path_join(dir, "generation_config.json");
    bool exists = file_exists(name);
    json_t *root = exists ? json_read_file(name, CONFIG_BYTES_MAX, err) : NULL;

    for (size_t i = 0; i < config->eos_tokens; i++)
        prompt_ends_add(ends, config->eos_token_ids[i]);
    add_json(ends, json_object_get(root, "eos_token_id"));
    json_decref(root);
    free(name);
    return !exists || root;
}

/* Decode the token twice, because the blank before the first token of a text is not part
 * of the text. */
bool prompt_is_special(const struct tokenizer *tokenizer, uint32_t id)
{
    const uint32_t ids[] = { id, id };
    struct text text;
    bool special;

    text_init(&text, 0);
    special = tokenizer_decode(tokenizer, ids, 2, true, &text) && text.len == 0;
    text_clear(&text);
    return special;
}

/* The text after an answer; NULL if it has only blanks. */
static char *visible_text(const struct tokenizer *tokenizer, const uint32_t *ids,
                          size_t count)
{
    struct text text;
    char *stop = NULL;

    text_init(&text, 0);
    tokenizer_decode(tokenizer, ids, count, false, &text);
    while (text.len > 0 && strchr(" \n\r\t", text.data[text.len - 1]))
        text.data[--text.len] = 0;
    if (text.len > 0)
        stop = memory_strdup(text.data + strspn(text.data, " \n\r\t"));
    text_clear(&text);
    return stop;
}

bool prompt_ends_find(const struct prompt_model *model, struct prompt_ends *ends,
                      char **stop, struct error *err)
{
    const struct tokenizer *tokenizer = model->tokenizer;
    const struct message question = { .role = ROLE_USER, .text = "?", .len = 1 };
    /* without thoughts, which a template may add to an empty answer */
    const struct template_options options = { .thinking = CHAT_THINKING_OFF };
    const struct template_request request = { model->chat, tokenizer, &options, &question,
                                              1 };
    struct token_list ids = { 0 };
    size_t answer = 0;
    bool ok = add_files(model->dir, model->config, ends, err);

    *stop = NULL;
    prompt_ends_add(ends, tokenizer_eos(tokenizer));
    if (ok && model->chat)
        ok = encode_open(&request, &ids, &answer, err);
    if (ok && answer < ids.count && prompt_is_special(tokenizer, ids.ids[answer]))
        prompt_ends_add(ends, ids.ids[answer]);
    else if (ok && answer < ids.count)
        *stop = visible_text(tokenizer, ids.ids + answer, ids.count - answer);
    token_list_clear(&ids);
    return ok;
}
