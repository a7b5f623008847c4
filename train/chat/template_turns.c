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

static bool write_slot(struct writer *writer, const char *slot, const struct text *said,
                       struct error *err)
{
    for (const char *at = slot; at && *at; at++) {
        if (*at == SLOT_SAID[0]) {
            text_add(&writer->text, said->data, said->len);
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
static void write_slot_text(const char *slot, const struct text *said, struct text *out)
{
    for (const char *at = slot; *at; at++) {
        if (*at == SLOT_SAID[0])
            text_add(out, said->data, said->len);
        else
            text_addc(out, *at);
    }
}

/* State while a conversation is encoded. */
struct talk {
    const struct chat_template *chat;
    const struct template_options *options;
    const struct message *messages; /* those after the head */
    size_t count;
    struct text system; /* including the tools */
    struct writer writer;
    struct text said;
    struct error *err;
};

static const struct template_tools *tools_of(const struct chat_template *chat)
{
    return template_tools_find(chat->tools ? chat->tools : "default");
}

/* Read the system message: of the conversation, or else of the job, or else of the
 * template; the tools follow it. */
static bool read_head(struct talk *talk)
{
    const struct message *tools = NULL, *system = NULL;
    const char *default_value = talk->options->default_system;

    for (; talk->count > 0 && talk->messages->role <= ROLE_TOOLS;
         talk->messages++, talk->count--)
        *(talk->messages->role == ROLE_TOOLS ? &tools : &system) = talk->messages;
    if (system && system->len > 0)
        text_add(&talk->system, system->text, system->len);
    else if (default_value && default_value[0])
        text_adds(&talk->system, default_value);
    else if (talk->chat->default_system)
        text_adds(&talk->system, talk->chat->default_system);
    return !tools ||
           template_tools_describe(tools_of(talk->chat), tools, &talk->system, talk->err);
}

static const char thought_begin[] = "<think>\n", thought_end[] = "\n</think>\n\n";

/* Add the text without its thoughts, and without the newlines that it then starts
 * with. */
static void add_without_thought(struct text *out, const char *text, size_t len)
{
    const char *begin, *end, *open = thought_begin, *close = thought_end;
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

/* Look for a tag of thoughts, without the white space around it. */
static bool has_tag(const struct message *message, const char *tag)
{
    size_t blanks = strspn(tag, "\n "), len = strcspn(tag + blanks, "\n ");

    return memmem(message->text, message->len, tag + blanks, len);
}

static bool is_input(const struct message *message)
{
    return message->role == ROLE_USER || message->role == ROLE_TOOL;
}

/* Write the input before an answer: a question, or the results of functions, one after
 * the other. */
static bool write_source(struct talk *talk, const struct message *message, size_t count,
                         bool first)
{
    const struct chat_template *chat = talk->chat;
    bool tool = message->role == ROLE_TOOL, ok = true;

    text_reset(&talk->said);
    if (first) {
        ok = write_slot(&talk->writer, chat->prefix, &talk->said, talk->err);
        if (talk->system.len > 0 && chat->fused)
            write_slot_text(chat->system, &talk->system, &talk->said);
        else if (talk->system.len > 0)
            ok = ok && write_slot(&talk->writer, chat->system, &talk->system, talk->err);
    }
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            text_adds(&talk->said, "\n</tool_response>\n<tool_response>\n");
        text_add(&talk->said, message[i].text, message[i].len);
    }
    return ok && write_slot(&talk->writer,
                            tool && chat->observation ? chat->observation : chat->user,
                            &talk->said, talk->err);
}

static bool write_answer(struct talk *talk, const struct message *answer, bool thoughts)
{
    const struct chat_template *chat = talk->chat;
    struct message plain = *answer;
    struct text without;
    bool ok = true;

    text_init(&without, 0);
    text_reset(&talk->said);
    if (!thoughts) {
        add_without_thought(&without, answer->text, answer->len);
        plain.text = without.data;
        plain.len = without.len;
    }
    if (answer->role == ROLE_FUNCTION)
        ok = template_tools_call(tools_of(chat), &plain, &talk->said, talk->err);
    else
        text_add(&talk->said, plain.text, plain.len);
    ok = ok &&
         write_slot(&talk->writer,
                    answer->role == ROLE_FUNCTION && chat->function ? chat->function
                                                                    : chat->assistant,
                    &talk->said, talk->err);
    text_clear(&without);
    return ok;
}

/* Add empty thoughts to an answer without any; they are learned if thinking is on. */
static bool write_empty_thought(struct talk *talk, struct turn *turn)
{
    bool learned = talk->options->thinking != CHAT_THINKING_OFF;

    talk->writer.out = learned ? &turn->target : &turn->source;
    text_adds(&talk->writer.text, thought_begin);
    text_adds(&talk->writer.text, thought_end);
    return writer_flush(&talk->writer, talk->err);
}

/* With a template that reasons, earlier answers lose their thoughts if only the last
 * answer is learned, and all answers if thinking is off. */
static bool encode_turn(struct talk *talk, const struct message *source, size_t count,
                        struct turn *turn, bool last)
{
    const struct message *answer = source + count;
    bool reasons = talk->chat->reasons,
         off = talk->options->thinking == CHAT_THINKING_OFF;
    bool thoughts = !reasons || !(off || (talk->options->mask_history && !last));
    bool empty =
        reasons && (last || !talk->options->mask_history) &&
        (!thoughts || (!has_tag(answer, thought_begin) && !has_tag(answer, thought_end)));

    turn->weight = answer->weight;
    talk->writer.out = &turn->source;
    if (!write_source(talk, source, count, source == talk->messages) ||
        (empty && !write_empty_thought(talk, turn)))
        return false;
    talk->writer.out = &turn->target;
    return write_answer(talk, answer, thoughts);
}

static bool encode_turns(struct talk *talk, struct turn *turns, size_t *turn_count)
{
    size_t at = 0;

    *turn_count = 0;
    while (at < talk->count) {
        size_t count = 0;

        while (at + count < talk->count && is_input(&talk->messages[at + count]))
            count++;
        if (!encode_turn(talk, &talk->messages[at], count, &turns[(*turn_count)++],
                         at + count + 1 == talk->count))
            return false;
        at += count + 1;
    }
    return !talk->writer.text.overflow ||
           error_set(talk->err, ERROR_DATA, "a message is too long");
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

/* Assign the tokens to the turns in order, the last turn first if only that is
 * learned. */
static void cut_turns(struct turn *turns, size_t count,
                      const struct template_options *options)
{
    size_t left = options->cutoff_len ? options->cutoff_len : SIZE_MAX / 4;

    for (size_t i = 0; i < count && left > 0; i++) {
        struct turn *turn = &turns[options->mask_history ? count - 1 - i : i];

        turn->source_len = turn->source.count;
        turn->target_len = turn->target.count;
        template_cut(left, &turn->source_len, &turn->target_len);
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

bool template_turns_are_valid(const struct message *messages, size_t count)
{
    bool answered = true, head = true;

    for (size_t i = 0; i < count; i++) {
        bool more =
            i > 0 && messages[i].role == ROLE_TOOL && messages[i - 1].role == ROLE_TOOL;

        if (messages[i].role <= ROLE_TOOLS ? !head
            : is_input(&messages[i])       ? !answered && !more
                                           : answered)
            return false;
        head = messages[i].role <= ROLE_TOOLS;
        answered = head || !is_input(&messages[i]);
    }
    return answered && !head && count > 0;
}

/* Make turns with a named template. */
static bool named_turns(const struct template_request *request, struct turn **turns,
                        size_t *turn_count, struct error *err)
{
    struct talk talk = { .chat = request->chat,
                         .options = request->options,
                         .messages = request->messages,
                         .count = request->count,
                         .err = err };
    bool ok;

    *turns = memory_alloc((request->count + 1) * sizeof(**turns));
    *turn_count = 0;
    text_init(&talk.system, 0);
    text_init(&talk.said, 0);
    text_init(&talk.writer.text, 0);
    talk.writer.tokenizer = request->tokenizer;
    ok = read_head(&talk) && encode_turns(&talk, *turns, turn_count);
    text_clear(&talk.system);
    text_clear(&talk.said);
    text_clear(&talk.writer.text);
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
    struct template_request shorter = *request; /* room for the end-of-text token */
    int64_t end = request->chat->ends ? tokenizer_eos(request->tokenizer) : -1;
    struct turn *turns = NULL;
    size_t turn_count = 0;
    bool ok;

    if (!template_turns_are_valid(request->messages, request->count))
        return error_set(
            err, ERROR_DATA,
            "a conversation must be user and assistant in turn, and end in an answer");
    if (end >= 0 && how.cutoff_len > 1)
        how.cutoff_len--;
    shorter.options = &how;
    ok = request->chat->own ? chat_turns(&shorter, &turns, &turn_count, err)
                            : named_turns(&shorter, &turns, &turn_count, err);
    if (ok)
        cut_turns(turns, turn_count, &how);
    for (size_t i = 0; i < turn_count; i++) {
        bool learned = !how.mask_history || i + 1 == turn_count;

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
