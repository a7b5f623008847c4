/* train/chat/template_turns.c - conversations to tokens, as in LLaMA-Factory: each
 * message is written by its slot, a question and its answer are a turn, and turns are cut
 * to fit. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "train/chat/template_internal.h"

/* A text that is encoded at once, up to the next special token of the tokenizer. */
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

static bool write_slot(struct writer *writer, const char *slot,
                       const struct text *content, struct error *err)
{
    for (const char *at = slot; at && *at; at++) {
        if (*at == SLOT_CONTENT[0]) {
            text_add(&writer->text, content->data, content->len);
        } else if (*at == SLOT_BOS[0] || *at == SLOT_EOS[0]) {
            if (!writer_flush(writer, err))
                return false;
            writer_add(writer, *at == SLOT_BOS[0] ? tokenizer_bos(writer->tokenizer)
                                                  : tokenizer_eos(writer->tokenizer));
        } else {
            text_addc(&writer->text, *at);
        }
    }
    return writer_flush(writer, err);
}

/* Write a slot as plain text, for a system message inside the first question. */
static void write_slot_text(const char *slot, const struct text *content,
                            struct text *out)
{
    for (const char *at = slot; *at; at++) {
        if (*at == SLOT_CONTENT[0])
            text_add(out, content->data, content->len);
        else
            text_addc(out, *at);
    }
}

/* State while a conversation is encoded. */
struct encoder {
    const struct chat_template *chat;
    const struct template_options *options;
    const struct message *messages; /* those after the system message and the tools */
    size_t count;
    struct text system; /* including the tools */
    struct writer writer;
    struct text content;
    struct error *err;
};

/* Describe the tools after the system message. */
static bool add_tools(struct encoder *encoder, const struct message *tools)
{
    struct text described;
    size_t newlines;
    bool ok;

    if (encoder->system.len > 0 || !encoder->chat->trims_tools)
        return template_tools_describe(encoder->chat, tools, &encoder->system,
                                       encoder->err);
    text_init(&described, 0);
    ok = template_tools_describe(encoder->chat, tools, &described, encoder->err);
    newlines = ok ? strspn(described.data, "\n") : 0;
    if (ok)
        text_add(&encoder->system, described.data + newlines, described.len - newlines);
    text_clear(&described);
    return ok;
}

/* Read the system message: of the conversation, or else of the job, or else of the
 * template; the tools follow it. */
static bool read_head(struct encoder *encoder)
{
    const struct message *tools = NULL, *system = NULL;
    const char *default_value = encoder->options->default_system;

    for (; encoder->count > 0 && encoder->messages->role <= ROLE_TOOLS;
         encoder->messages++, encoder->count--)
        *(encoder->messages->role == ROLE_TOOLS ? &tools : &system) = encoder->messages;
    if (system && system->len > 0)
        text_add(&encoder->system, system->text, system->len);
    else if (default_value && default_value[0])
        text_adds(&encoder->system, default_value);
    else if (encoder->chat->default_system)
        text_adds(&encoder->system, encoder->chat->default_system);
    return !tools || add_tools(encoder, tools);
}

const char *const *template_thought_tags(const struct chat_template *chat)
{
    static const char *const default_tags[] = { "<think>\n", "\n</think>\n\n" };

    return chat && chat->thoughts[0] ? chat->thoughts : default_tags;
}

/* Add the text of an answer without its thoughts, and without leading newlines. */
static void add_without_thought(const struct chat_template *chat,
                                const struct message *answer, struct text *out)
{
    const char *const *tags = template_thought_tags(chat);
    const char *begin, *end, *open = tags[0], *close = tags[1], *text = answer->text;
    size_t len = answer->len;
    struct text rest;
    size_t newlines = 0;

    text_init(&rest, 0);
    while ((begin = memmem(text, len, open, strlen(open))) &&
           (end = memmem(begin, len - (size_t)(begin - text), close, strlen(close)))) {
        text_add(&rest, text, (size_t)(begin - text));
        end += strlen(close);
        len -= (size_t)(end - text);
        text = end;
    }
    text_add(&rest, text, len);
    while (newlines < rest.len && rest.data[newlines] == '\n')
        newlines++;
    text_add(out, rest.data + newlines, rest.len - newlines);
    text_clear(&rest);
}

/* Return whether the message contains a tag of thoughts, regardless of the white space
 * around it. */
static bool has_tag(const struct message *message, const char *tag)
{
    size_t blanks = strspn(tag, "\n "), len = strcspn(tag + blanks, "\n ");

    return memmem(message->text, message->len, tag + blanks, len);
}

bool template_takes_thoughts(const struct chat_template *chat,
                             const struct message *message)
{
    const char *const *tags = template_thought_tags(chat);

    return message->role >= ROLE_ASSISTANT && !has_tag(message, tags[0]) &&
           !has_tag(message, tags[1]);
}

/* The answer with the thoughts that it has in a key of their own, if the template
 * reasons; `text` is memory for both. */
static struct message with_thoughts(const struct chat_template *chat,
                                    const struct message *answer, struct text *text)
{
    struct message both = *answer;
    size_t len = 0;
    const char *thoughts = template_thoughts(answer, &len);

    if (!chat->reasons || !thoughts || len == 0 || !template_takes_thoughts(chat, answer))
        return both;
    text_adds(text, template_thought_tags(chat)[0]);
    text_add(text, thoughts, len);
    text_adds(text, template_thought_tags(chat)[1]);
    text_add(text, answer->text, answer->len);
    both.text = text->data;
    both.len = text->len;
    return both;
}

static bool is_input(const struct message *message)
{
    return message->role == ROLE_USER || message->role == ROLE_TOOL;
}

/* Write the input before an answer: a question, or the results of functions, one after
 * the other. */
static bool write_source(struct encoder *encoder, const struct message *message,
                         size_t count, bool first)
{
    const struct chat_template *chat = encoder->chat;
    bool tool = message->role == ROLE_TOOL, ok = true;

    text_reset(&encoder->content);
    if (first) {
        ok = write_slot(&encoder->writer, chat->prefix, &encoder->content, encoder->err);
        if (encoder->system.len > 0 && chat->system_in_question)
            write_slot_text(chat->system, &encoder->system, &encoder->content);
        else if (encoder->system.len > 0)
            ok = ok && write_slot(&encoder->writer, chat->system, &encoder->system,
                                  encoder->err);
    }
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            text_adds(&encoder->content, "\n</tool_response>\n<tool_response>\n");
        text_add(&encoder->content, message[i].text, message[i].len);
    }
    return ok && write_slot(&encoder->writer,
                            tool && chat->observation ? chat->observation : chat->user,
                            &encoder->content, encoder->err);
}

static bool write_answer(struct encoder *encoder, const struct message *answer,
                         bool thoughts)
{
    const struct chat_template *chat = encoder->chat;
    struct message plain = *answer;
    struct text without;
    bool ok = true;

    text_init(&without, 0);
    text_reset(&encoder->content);
    if (!thoughts) {
        add_without_thought(chat, answer, &without);
        plain.text = without.data;
        plain.len = without.len;
    }
    if (answer->role == ROLE_FUNCTION)
        ok = template_tools_call(chat, &plain, &encoder->content, encoder->err);
    else
        text_add(&encoder->content, plain.text, plain.len);
    ok = ok &&
         write_slot(&encoder->writer,
                    answer->role == ROLE_FUNCTION && chat->function ? chat->function
                                                                    : chat->assistant,
                    &encoder->content, encoder->err);
    text_clear(&without);
    return ok;
}

/* Add empty thoughts to an answer without any; they are trained on if thinking is on. */
static bool write_empty_thought(struct encoder *encoder, struct turn *turn)
{
    bool learned = encoder->options->thinking != CHAT_THINKING_OFF;
    const char *const *tags = template_thought_tags(encoder->chat);
    const char *empty = encoder->chat->empty_thought;

    encoder->writer.out = learned ? &turn->target : &turn->source;
    text_addf(&encoder->writer.text, "%s%s", empty ? empty : tags[0],
              empty ? "" : tags[1]);
    return writer_flush(&encoder->writer, encoder->err);
}

/* With a template that reasons, earlier answers lose their thoughts if only the last
 * answer is trained on, and all answers if thinking is off. */
static bool encode_turn(struct encoder *encoder, const struct message *source,
                        size_t count, struct turn *turn, bool last)
{
    struct text both;
    struct message answer;
    bool reasons = encoder->chat->reasons, ok,
         thinking_off = encoder->options->thinking == CHAT_THINKING_OFF;
    bool thoughts =
        !reasons || !(thinking_off || (encoder->options->mask_history && !last));
    bool empty = reasons && (last || !encoder->options->mask_history);

    text_init(&both, 0);
    answer = with_thoughts(encoder->chat, source + count, &both);
    empty = empty && (!thoughts || template_takes_thoughts(encoder->chat, &answer));
    turn->weight = answer.weight;
    encoder->writer.out = &turn->source;
    ok = write_source(encoder, source, count, source == encoder->messages) &&
         (!empty || write_empty_thought(encoder, turn));
    encoder->writer.out = &turn->target;
    ok = ok && write_answer(encoder, &answer, thoughts);
    text_clear(&both);
    return ok;
}

static bool encode_turns(struct encoder *encoder, struct turn *turns, size_t *turn_count)
{
    size_t at = 0;

    *turn_count = 0;
    while (at < encoder->count) {
        size_t count = 0;

        while (at + count < encoder->count && is_input(&encoder->messages[at + count]))
            count++;
        turns[*turn_count].answer = *turn_count;
        if (!encode_turn(encoder, &encoder->messages[at], count, &turns[(*turn_count)++],
                         at + count + 1 == encoder->count))
            return false;
        at += count + 1;
    }
    return !encoder->writer.text.overflow ||
           error_set(encoder->err, ERROR_DATA, "a message is too long");
}

void template_cut(size_t room, size_t *question, size_t *answer)
{
    size_t source = *question, target = *answer, limit;

    if (2 * target < room)
        limit = room;
    else if (2 * source < room)
        limit = room - source;
    else
        limit = (size_t)((double)room * ((double)target / (double)(source + target)));
    *answer = limit < target ? limit : target;
    *question = room - *answer < source ? room - *answer : source;
}

/* Assign the tokens to the turns in order, the last turn first if only that is trained
 * on. */
static void cut_turns(struct turn *turns, size_t count,
                      const struct template_options *options)
{
    size_t remaining = options->cutoff_len ? options->cutoff_len : SIZE_MAX / 4;

    for (size_t i = 0; i < count && remaining > 0; i++) {
        struct turn *turn = &turns[options->mask_history ? count - 1 - i : i];

        turn->source_len = turn->source.count;
        turn->target_len = turn->target.count;
        template_cut(remaining, &turn->source_len, &turn->target_len);
        remaining -= turn->source_len + turn->target_len;
    }
}

/* Note where the media of a turn are in the sample. */
static void place_media(struct template_media *media, size_t *next,
                        const struct turn *turn, size_t at)
{
    bool was_lost = media->lost;

    template_media_place(media, next, turn->source_media, turn->source_len, at);
    template_media_place(media, next, turn->target_media, turn->target_len,
                         at + turn->source_len);
    if (turn->source_len + turn->target_len == 0) /* all of the turn is left out */
        media->lost = was_lost;
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

bool template_turns_are_valid(const struct message *messages, size_t count)
{
    bool expects_input = true, head = true;

    for (size_t i = 0; i < count; i++) {
        bool next_result =
            i > 0 && messages[i].role == ROLE_TOOL && messages[i - 1].role == ROLE_TOOL;

        if (messages[i].role <= ROLE_TOOLS ? !head
            : is_input(&messages[i])       ? !expects_input && !next_result
                                           : expects_input)
            return false;
        head = messages[i].role <= ROLE_TOOLS;
        expects_input = head || !is_input(&messages[i]);
    }
    return expects_input && !head && count > 0;
}

/* Make turns with a named template. */
static bool named_turns(const struct template_request *request, struct turn **turns,
                        size_t *turn_count, struct error *err)
{
    struct encoder encoder = { .chat = request->chat,
                               .options = request->options,
                               .messages = request->messages,
                               .count = request->count,
                               .err = err };
    bool ok;

    *turns = memory_alloc((request->count + 1) * sizeof(**turns));
    *turn_count = 0;
    text_init(&encoder.system, 0);
    text_init(&encoder.content, 0);
    text_init(&encoder.writer.text, 0);
    encoder.writer.tokenizer = request->tokenizer;
    ok = read_head(&encoder) && encode_turns(&encoder, *turns, turn_count);
    text_clear(&encoder.system);
    text_clear(&encoder.content);
    text_clear(&encoder.writer.text);
    return ok;
}

/* If the end-of-text token follows only the whole conversation, an earlier answer learns
 * to end with it in place of the next question's first token; with mask_history, the last
 * question has no such label (LLaMA-Factory's efficient_eos). */
static float weight_of_source(const struct template_options *options,
                              const struct turn *turns, size_t count, size_t i, bool ends)
{
    if (options->train_on_prompt || !ends || i == 0 ||
        (options->mask_history && i + 1 == count))
        return 0;
    return -turns[i - 1].weight;
}

bool template_encode(const struct template_request *request, struct token_list *ids,
                     float **weights, struct error *err)
{
    struct template_options how = *request->options;
    struct template_request shortened = *request; /* room for the end-of-text token */
    int64_t end = request->chat->ends_with_eos ? tokenizer_eos(request->tokenizer) : -1;
    struct turn *turns = NULL;
    size_t turn_count = 0, next_medium = 0;
    bool ok;

    if (!template_turns_are_valid(request->messages, request->count))
        return error_set(
            err, ERROR_DATA,
            "messages must alternate between user and assistant and end in an answer");
    if (end >= 0 && how.cutoff_len > 1)
        how.cutoff_len--;
    shortened.options = &how;
    ok = request->chat->model_chat ? chat_turns(&shortened, &turns, &turn_count, err)
                                   : named_turns(&shortened, &turns, &turn_count, err);
    if (ok && !request->chat->model_chat)
        named_tally_keys(request);
    ok = ok && (!how.media || template_media_expand(how.media, turns, turn_count, err));
    if (ok)
        cut_turns(turns, turn_count, &how);
    for (size_t i = 0; i < turn_count; i++) {
        bool learned =
            !how.mask_history || turns[i].answer == turns[turn_count - 1].answer;

        if (ok && how.media)
            place_media(how.media, &next_medium, &turns[i], ids->count);
        add_weighted(ids, weights, &turns[i].source, ok ? turns[i].source_len : 0,
                     how.train_on_prompt ? 1 : 0);
        if (ok && turns[i].source_len > 0)
            (*weights)[ids->count - turns[i].source_len] +=
                weight_of_source(&how, turns, turn_count, i, end >= 0);
        add_weighted(ids, weights, &turns[i].target, ok ? turns[i].target_len : 0,
                     learned ? turns[i].weight : 0);
        token_list_clear(&turns[i].source);
        token_list_clear(&turns[i].target);
    }
    if (ok && end >= 0)
        add_weighted(ids, weights,
                     &(struct token_list) { .ids = (uint32_t[]) { (uint32_t)end } }, 1,
                     1);
    free(turns);
    return ok;
}
