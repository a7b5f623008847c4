/* train/generation/generate.c - slots: fill, decode a step, finish. */
#include "config.h"

#include "train/generation/generate.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "train/generation/sampler.h"

const char *const completion_end_names[COMPLETION_ENDS] = { "eos", "stop", "length",
                                                            "broken" };

struct slot {
    bool busy;
    size_t index;             /* of the prompt */
    int32_t *tokens;          /* prompt and generated tokens */
    size_t prompt_len, count; /* tokens of the prompt, tokens in total */
};

struct generation_run {
    const struct generate_options *options;
    const struct prompt *prompts;
    size_t count, next;
    struct sampler *sampler;
    struct slot *slots;
    size_t slot_count, room, vocabulary;
    int32_t *tokens, *lengths;     /* per slot, for a step */
    float *logits;                 /* (slots, V) */
    struct text text, prompt_text; /* scratch */
};

static bool is_end(const struct generate_options *options, int64_t token)
{
    for (size_t i = 0; i < options->ends.count; i++)
        if (options->ends.ids[i] == (uint64_t)token)
            return true;
    return false;
}

/* The generated tokens as text. A tokenizer may write a token differently at the start of
 * a text, so the prompt is decoded, too, and removed, unless the answer is separate. */
static const char *decode(struct generation_run *run, const struct slot *slot,
                          size_t *len)
{
    const struct tokenizer *tokenizer = run->options->tokenizer;
    const uint32_t *ids = (const uint32_t *)slot->tokens;

    text_reset(&run->text);
    text_reset(&run->prompt_text);
    tokenizer_decode(tokenizer, ids, slot->prompt_len, true, &run->prompt_text);
    tokenizer_decode(tokenizer, ids, slot->count, true, &run->text);
    if (!run->options->separate_answer && run->text.len >= run->prompt_text.len &&
        memcmp(run->text.data, run->prompt_text.data, run->prompt_text.len) == 0) {
        *len = run->text.len - run->prompt_text.len;
        return run->text.data + run->prompt_text.len;
    }
    text_reset(&run->text);
    tokenizer_decode(tokenizer, ids + slot->prompt_len, slot->count - slot->prompt_len,
                     true, &run->text);
    *len = run->text.len;
    return run->text.data;
}

/* The position of the first stop string; len: none. */
static size_t find_stop(const struct generate_options *options, const char *text,
                        size_t len)
{
    size_t first = len;

    for (size_t i = 0; options->stop_strings && options->stop_strings[i]; i++) {
        const char *at = *options->stop_strings[i]
                             ? memmem(text, len, options->stop_strings[i],
                                      strlen(options->stop_strings[i]))
                             : NULL;

        if (at && (size_t)(at - text) < first)
            first = (size_t)(at - text);
    }
    return first;
}

/* token: the one that was taken last. */
static bool finish(struct generation_run *run, struct slot *slot, enum completion_end end,
                   int64_t token, struct error *err)
{
    struct completion completion = {
        .index = slot->index,
        .ids = (const uint32_t *)slot->tokens + slot->prompt_len,
        .count = slot->count - slot->prompt_len,
        .end = end,
        .end_token = end == END_TOKEN ? token : -1,
    };

    completion.text = decode(run, slot, &completion.len);
    completion.len = find_stop(run->options, completion.text, completion.len);
    slot->busy = false;
    return run->options->on_completion(run->options->context, &completion, err);
}

/* Take the next token of a slot from its logits. */
static bool take_token(struct generation_run *run, struct slot *slot, float *logits,
                       struct error *err)
{
    const struct generate_options *options = run->options;
    const struct sampler_position position = {
        .tokens = slot->tokens,
        .count = slot->count,
        .seed = options->seed,
        .sequence = run->prompts[slot->index].sequence,
        .index = slot->count - slot->prompt_len,
    };
    int64_t token;
    size_t len;

    if ((int64_t)position.index >= options->settings->max_new_tokens)
        return finish(run, slot, END_LENGTH, -1, err);
    token = sampler_take(run->sampler, options->settings, &position, logits);
    if (token < 0)
        return finish(run, slot, END_BROKEN, -1, err);
    if (is_end(options, token))
        return finish(run, slot, END_TOKEN, token, err);
    slot->tokens[slot->count++] = (int32_t)token;
    if (options->stop_strings && options->stop_strings[0]) {
        const char *text = decode(run, slot, &len);

        if (find_stop(options, text, len) < len)
            return finish(run, slot, END_STOP, -1, err);
    }
    if ((int64_t)position.index + 1 >= options->settings->max_new_tokens ||
        slot->count > run->room)
        return finish(run, slot, END_LENGTH, -1, err);
    return true;
}

/* Fill a free slot with prompts until one continues past its first token. */
static bool fill(struct generation_run *run, size_t at, struct error *err)
{
    struct slot *slot = &run->slots[at];
    float *logits = run->logits + at * run->vocabulary;

    while (!slot->busy && run->next < run->count) {
        const struct prompt *prompt = &run->prompts[run->next];

        if (prompt->count == 0 || prompt->count > run->room)
            return error_set(err, ERROR_DATA,
                             "prompt %zu has %zu tokens; the model's context is %zu",
                             run->next + 1, prompt->count, run->room);
        *slot = (struct slot) { .busy = true,
                                .index = run->next++,
                                .tokens = slot->tokens,
                                .prompt_len = prompt->count,
                                .count = prompt->count };
        memcpy(slot->tokens, prompt->ids, prompt->count * sizeof(*prompt->ids));
        if (!model_prefill_media(run->options->model, at, slot->tokens, prompt->count,
                                 &prompt->media, logits, err) ||
            !take_token(run, slot, logits, err))
            return false;
    }
    return true;
}

/* Run the sequences again whose previous rows have other angles now. */
static bool renew_slots(struct generation_run *run, struct error *err)
{
    struct model *model = run->options->model;

    for (size_t i = 0; i < run->slot_count; i++) {
        const struct slot *slot = &run->slots[i];

        if (slot->busy && model_renews_slot(model, slot->count) &&
            !model_prefill_media(model, i, slot->tokens, slot->count,
                                 &run->prompts[slot->index].media,
                                 run->logits + i * run->vocabulary, err))
            return false;
    }
    return true;
}

/* Decode one token for every slot. */
static bool step_all(struct generation_run *run, struct error *err)
{
    for (size_t i = 0; i < run->slot_count; i++) {
        const struct slot *slot = &run->slots[i];

        run->tokens[i] = slot->busy ? slot->tokens[slot->count - 1] : 0;
        run->lengths[i] = slot->busy ? (int32_t)slot->count - 1 : 0;
    }
    if (!model_decode_step(run->options->model, run->tokens, run->lengths, run->logits,
                           err) ||
        !renew_slots(run, err))
        return false;
    for (size_t i = 0; i < run->slot_count; i++)
        if (run->slots[i].busy &&
            !take_token(run, &run->slots[i], run->logits + i * run->vocabulary, err))
            return false;
    return true;
}

static bool is_busy(const struct generation_run *run)
{
    for (size_t i = 0; i < run->slot_count; i++)
        if (run->slots[i].busy)
            return true;
    return false;
}

static bool decode_all(struct generation_run *run, struct error *err)
{
    do {
        if (!heartbeat_continue(run->options->heartbeat, "generating", err))
            return false;
        for (size_t i = 0; i < run->slot_count; i++)
            if (!fill(run, i, err))
                return false;
        if (is_busy(run) && !step_all(run, err))
            return false;
    } while (is_busy(run) || run->next < run->count);
    return true;
}

static void open_run(struct generation_run *run)
{
    struct model *model = run->options->model;

    run->slot_count = model_slots(model);
    run->room = model_slot_rows(model);
    run->vocabulary = model_vocabulary(model);
    run->sampler = sampler_new(run->vocabulary);
    run->slots = memory_alloc(run->slot_count * sizeof(*run->slots));
    run->tokens = memory_alloc(run->slot_count * sizeof(*run->tokens));
    run->lengths = memory_alloc(run->slot_count * sizeof(*run->lengths));
    run->logits =
        memory_resize(NULL, run->slot_count * run->vocabulary, sizeof(*run->logits));
    for (size_t i = 0; i < run->slot_count; i++)
        run->slots[i].tokens = memory_alloc((run->room + 1) * sizeof(int32_t));
    text_init(&run->text, 0);
    text_init(&run->prompt_text, 0);
}

static void close_run(struct generation_run *run)
{
    for (size_t i = 0; i < run->slot_count; i++)
        free(run->slots[i].tokens);
    free(run->slots);
    free(run->tokens);
    free(run->lengths);
    free(run->logits);
    sampler_free(run->sampler);
    text_clear(&run->text);
    text_clear(&run->prompt_text);
}

bool generate_run(const struct generate_options *options, const struct prompt *prompts,
                  size_t count, struct error *err)
{
    struct generation_run run = { .options = options,
                                  .prompts = prompts,
                                  .count = count };
    bool ok;

    open_run(&run);
    ok = count == 0 || decode_all(&run, err);
    close_run(&run);
    return ok;
}
