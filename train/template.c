/*
 * train/template.c - conversations into tokens, as LLaMA-Factory does: each message is
 * written by its slot, a question and its answer are a turn, and turns are cut to fit.
 */
#include "config.h"

#include "train/template.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"

/* In a slot: what is said, and the tokenizer's own tokens, which part the text around
 * them. */
#define SAID "\001"
#define BOS  "\002"
#define EOS  "\003"

enum { MAX_SPECIALS = 4 };

struct chat_template {
    const char *name;
    const char *prefix, *system, *user, *assistant;
    const char *default_system;
    bool fused; /* the system message is a part of the first question */
    const char *specials[MAX_SPECIALS]; /* tokens that a tokenizer should have */
    const char *document_end;           /* NULL: the tokenizer's end of text */
};

/* The turns of Qwen and of the many that took them over. */
#define IM_SYSTEM    "<|im_start|>system\n" SAID "<|im_end|>\n"
#define IM_USER      "<|im_start|>user\n" SAID "<|im_end|>\n<|im_start|>assistant\n"
#define IM_ASSISTANT SAID "<|im_end|>\n"

#define LLAMA3_HEAD(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"

/* Names and strings: LLaMA-Factory, src/llamafactory/data/template.py at ff6d4d12. */
static const struct chat_template templates[] = {
    { .name = "default",
      .system = "System: " SAID EOS "\n",
      .user = "Human: " SAID EOS "\nAssistant:",
      .assistant = SAID EOS "\n" },
    { .name = "alpaca",
      .system = SAID,
      .user = "### Instruction:\n" SAID "\n\n### Response:\n",
      .assistant = SAID EOS "\n\n",
      .default_system = "Below is an instruction that describes a task. Write a response "
                        "that appropriately completes the request.\n\n" },
    { .name = "chatml",
      .system = IM_SYSTEM,
      .user = IM_USER,
      .assistant = IM_ASSISTANT,
      .specials = { "<|im_start|>", "<|im_end|>" },
      .document_end = "<|im_end|>" },
    { .name = "empty", .system = SAID, .user = SAID, .assistant = SAID },
    { .name = "gemma",
      .prefix = BOS,
      .system = SAID "\n\n",
      .user = "<start_of_turn>user\n" SAID "<end_of_turn>\n<start_of_turn>model\n",
      .assistant = SAID "<end_of_turn>\n",
      .fused = true,
      .specials = { "<start_of_turn>", "<end_of_turn>" },
      .document_end = "<end_of_turn>" },
    { .name = "llama2",
      .system = "<<SYS>>\n" SAID "\n<</SYS>>\n\n",
      .user = BOS "[INST] " SAID " [/INST]",
      .assistant = SAID EOS,
      .fused = true },
    { .name = "llama3",
      .prefix = BOS,
      .system = LLAMA3_HEAD("system") SAID "<|eot_id|>",
      .user = LLAMA3_HEAD("user") SAID "<|eot_id|>" LLAMA3_HEAD("assistant"),
      .assistant = SAID "<|eot_id|>",
      .specials = { "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>" },
      .document_end = "<|end_of_text|>" },
    { .name = "mistral",
      .prefix = BOS,
      .system = SAID "\n\n",
      .user = "[INST] " SAID "[/INST]",
      .assistant = " " SAID EOS,
      .fused = true },
    { .name = "phi",
      .system = "<|system|>\n" SAID "<|end|>\n",
      .user = "<|user|>\n" SAID "<|end|>\n<|assistant|>\n",
      .assistant = SAID "<|end|>\n",
      .specials = { "<|user|>", "<|assistant|>", "<|end|>" },
      .document_end = "<|end|>" },
    { .name = "qwen",
      .system = IM_SYSTEM,
      .user = IM_USER,
      .assistant = IM_ASSISTANT,
      .default_system =
          "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
      .specials = { "<|im_start|>", "<|im_end|>" },
      .document_end = "<|im_end|>" },
    { .name = "qwen3_nothink",
      .system = IM_SYSTEM,
      .user = IM_USER,
      .assistant = IM_ASSISTANT,
      .specials = { "<|im_start|>", "<|im_end|>" },
      .document_end = "<|im_end|>" },
    { .name = "vicuna",
      .system = SAID,
      .user = "USER: " SAID " ASSISTANT:",
      .assistant = SAID EOS,
      .default_system = "A chat between a curious user and an artificial intelligence "
                        "assistant. The assistant gives helpful, detailed, and polite "
                        "answers to the user's questions." },
    { .name = "zephyr",
      .system = "<|system|>\n" SAID EOS,
      .user = "<|user|>\n" SAID EOS "<|assistant|>\n",
      .assistant = SAID EOS,
      .default_system = "You are Zephyr, a helpful assistant." },
};

/* What tells whose tokenizer it is, in this order. */
static const char *const guesses[][2] = {
    { "<|start_header_id|>", "llama3" },
    { "<start_of_turn>", "gemma" },
    { "<|im_start|>", "chatml" },
};

const struct chat_template *template_find(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(templates); i++)
        if (strcmp(templates[i].name, name) == 0)
            return &templates[i];
    return NULL;
}

const struct chat_template *template_guess(const struct tokenizer *tokenizer)
{
    for (size_t i = 0; i < TS_COUNT(guesses); i++)
        if (tokenizer_find(tokenizer, guesses[i][0]) >= 0)
            return template_find(guesses[i][1]);
    return template_find("default");
}

const char *template_name(size_t index)
{
    return index < TS_COUNT(templates) ? templates[index].name : NULL;
}

const char *template_row_name(const struct chat_template *chat)
{
    return chat->name;
}

const char *template_missing(const struct chat_template *chat,
                             const struct tokenizer *tokenizer)
{
    for (size_t i = 0; i < MAX_SPECIALS && chat->specials[i]; i++)
        if (tokenizer_find(tokenizer, chat->specials[i]) < 0)
            return chat->specials[i];
    return NULL;
}

int64_t template_document_end(const struct chat_template *chat,
                              const struct tokenizer *tokenizer)
{
    int64_t end = -1;

    if (chat && chat->document_end)
        end = tokenizer_find(tokenizer, chat->document_end);
    return end >= 0 ? end : tokenizer_eos(tokenizer);
}

/* A text that is encoded as one, up to the next token of the tokenizer's own. */
struct writer {
    const struct tokenizer *tokenizer;
    struct text text;
    struct token_list *out;
};

static bool writer_flush(struct writer *writer, struct error *err)
{
    bool ok = writer->text.len == 0 ||
              tokenizer_encode(writer->tokenizer, writer->text.data, writer->text.len,
                               false, writer->out, err);

    text_reset(&writer->text);
    return ok;
}

static void writer_add(struct writer *writer, int64_t id)
{
    if (id >= 0)
        token_list_add(writer->out, (uint32_t)id);
}

/* Up to two texts in the place of what is said. */
struct said {
    const char *before, *text;
    size_t before_len, len;
};

static bool write_slot(struct writer *writer, const char *slot, const struct said *said,
                       struct error *err)
{
    for (const char *at = slot; at && *at; at++) {
        if (*at == SAID[0]) {
            text_add(&writer->text, said->before, said->before_len);
            text_add(&writer->text, said->text, said->len);
        } else if (*at == BOS[0] || *at == EOS[0]) {
            if (!writer_flush(writer, err))
                return false;
            writer_add(writer, *at == BOS[0] ? tokenizer_bos(writer->tokenizer)
                                             : tokenizer_eos(writer->tokenizer));
        } else {
            text_addc(&writer->text, *at);
        }
    }
    return writer_flush(writer, err);
}

/* The system message: what the conversation says, else the job, else the template. */
static struct said find_system(const struct chat_template *chat,
                               const struct template_options *options,
                               const struct message *system)
{
    const char *preset = options->default_system && options->default_system[0]
                             ? options->default_system
                             : chat->default_system;

    if (system && system->len > 0)
        return (struct said) { .text = system->text, .len = system->len };
    return (struct said) { .text = preset, .len = preset ? strlen(preset) : 0 };
}

/* The system slot as plain text, for a template that puts it into the first question. */
static void spell_system(const char *slot, const struct said *said, struct text *out)
{
    for (const char *at = slot; *at; at++) {
        if (*at == SAID[0])
            text_add(out, said->text, said->len);
        else
            text_addc(out, *at);
    }
}

static bool write_first(struct writer *writer, const struct chat_template *chat,
                        const struct said *system, const struct message *question,
                        struct error *err)
{
    struct said said = { .text = question->text, .len = question->len };
    struct text fused;
    bool ok = write_slot(writer, chat->prefix, &said, err);

    text_init(&fused, 0);
    if (system->len > 0 && chat->fused)
        spell_system(chat->system, system, &fused);
    else if (system->len > 0)
        ok = ok && write_slot(writer, chat->system, system, err);
    said.before = fused.data;
    said.before_len = fused.len;
    ok = ok && write_slot(writer, chat->user, &said, err);
    text_clear(&fused);
    return ok;
}

/* A question and its answer, encoded. */
struct turn {
    struct token_list source, target;
    size_t source_len, target_len; /* what is kept of them */
    float weight;
};

static bool encode_turns(const struct chat_template *chat,
                         const struct tokenizer *tokenizer, const struct said *system,
                         const struct message *messages, struct turn *turns, size_t count,
                         struct error *err)
{
    struct writer writer = { .tokenizer = tokenizer };
    bool ok = true;

    text_init(&writer.text, 0);
    for (size_t i = 0; i < count && ok; i++) {
        const struct message *question = &messages[2 * i], *answer = &messages[2 * i + 1];
        const struct said asked = { .text = question->text, .len = question->len };
        const struct said answered = { .text = answer->text, .len = answer->len };

        turns[i].weight = answer->weight;
        writer.out = &turns[i].source;
        ok = i == 0 ? write_first(&writer, chat, system, question, err)
                    : write_slot(&writer, chat->user, &asked, err);
        writer.out = &turns[i].target;
        ok = ok && write_slot(&writer, chat->assistant, &answered, err);
    }
    if (ok && writer.text.overflow)
        ok = error_set(err, ERROR_DATA, "a message is too long");
    text_clear(&writer.text);
    return ok;
}

/* How much of a turn is kept where `room` tokens are left: the shorter part is kept whole
 * if it is less than half of them, else both give in proportion (LLaMA-Factory's
 * infer_seqlen). */
static void cut_turn(struct turn *turn, size_t room)
{
    size_t source = turn->source.count, target = turn->target.count, most;

    if (2 * target < room)
        most = room;
    else if (2 * source < room)
        most = room - source;
    else
        most = (size_t)((double)room * ((double)target / (double)(source + target)));
    turn->target_len = most < target ? most : target;
    turn->source_len =
        room - turn->target_len < source ? room - turn->target_len : source;
}

/* Turns get their share in order, the last first where only it is learnt. */
static void cut_turns(struct turn *turns, size_t count,
                      const struct template_options *options)
{
    size_t left = options->cutoff_len ? options->cutoff_len : SIZE_MAX / 4;

    for (size_t i = 0; i < count && left > 0; i++) {
        struct turn *turn = &turns[options->mask_history ? count - 1 - i : i];

        cut_turn(turn, left);
        left -= turn->source_len + turn->target_len;
    }
}

static void add_weighted(struct token_list *ids, float **weights,
                         const struct token_list *from, size_t len, float weight)
{
    for (size_t i = 0; i < len; i++) {
        size_t room = ids->room;

        token_list_add(ids, from->ids[i]);
        if (ids->room != room || !*weights)
            *weights = memory_resize(*weights, ids->room, sizeof(float));
        (*weights)[ids->count - 1] = weight;
    }
}

static bool check_roles(const struct message *messages, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (messages[i].role != (i % 2 ? ROLE_ASSISTANT : ROLE_USER))
            return error_set(err, ERROR_DATA,
                             "a conversation must be user and assistant in turn");
    return (count > 0 && count % 2 == 0) ||
           error_set(err, ERROR_DATA, "a conversation must end in an answer");
}

bool template_encode(const struct chat_template *chat, const struct tokenizer *tokenizer,
                     const struct template_options *options,
                     const struct message *messages, size_t count, struct token_list *ids,
                     float **weights, struct error *err)
{
    bool has_system = count > 0 && messages[0].role == ROLE_SYSTEM;
    struct said system = find_system(chat, options, has_system ? messages : NULL);
    struct turn *turns;
    size_t turn_count;
    bool ok;

    messages += has_system;
    count -= has_system;
    if (!check_roles(messages, count, err))
        return false;
    turn_count = count / 2;
    turns = memory_alloc(turn_count * sizeof(*turns));
    ok = encode_turns(chat, tokenizer, &system, messages, turns, turn_count, err);
    if (ok)
        cut_turns(turns, turn_count, options);
    for (size_t i = 0; i < turn_count; i++) {
        bool learnt = !options->mask_history || i + 1 == turn_count;

        add_weighted(ids, weights, &turns[i].source, ok ? turns[i].source_len : 0,
                     options->train_on_prompt ? 1 : 0);
        add_weighted(ids, weights, &turns[i].target, ok ? turns[i].target_len : 0,
                     learnt ? turns[i].weight : 0);
        token_list_clear(&turns[i].source);
        token_list_clear(&turns[i].target);
    }
    free(turns);
    return ok;
}
