/* train/chat/chat_turns.c - answers located in the text of a model's own template. The
 * template renders the whole conversation, and each prefix of it that ends where an answer
 * starts or ends; the longest common token prefix of two texts gives the position of the
 * answer. A template with {% generation %} marks the answers. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "train/chat/chat_internal.h"

/* Tokens that a template may write after a conversation that ends, but not after an
 * answer that a question follows. */
enum { TAIL_MAX = 2 };

/* The length of the longest common prefix. */
static size_t common_prefix(const struct token_list *a, const struct token_list *b)
{
    size_t count = 0;

    while (count < a->count && count < b->count && a->ids[count] == b->ids[count])
        count++;
    return count;
}

/* A part of answer `answer`, or all of it, is at tokens [start, end) of the
 * conversation. */
struct answer_span {
    size_t start, end, answer;
    bool marked; /* by the template, maybe without a token: the answer is empty */
};

struct answer_spans {
    struct answer_span *list;
    size_t count;
    float *weights; /* of the answers */
    size_t answers;
};

/* Bytes of the text that the first `count` tokens write completely: a token may end inside
 * of a character. */
static size_t bytes_of(const struct rendering *rendering, const struct token_list *whole,
                       size_t count, struct text *back)
{
    const struct text *text = &rendering->output.text;
    size_t same = 0;

    text_reset(back);
    tokenizer_decode(rendering->tokenizer, whole->ids, count, false, back);
    while (same < back->len && same < text->len && back->data[same] == text->data[same])
        same++;
    return same;
}

/* Return whether the tokens decode to the text that they are from, so that a token has
 * the bytes that it adds to the text. */
static bool is_exact(const struct rendering *rendering, const struct token_list *whole)
{
    struct text back;
    bool exact;

    text_init(&back, 0);
    exact = bytes_of(rendering, whole, whole->count, &back) == back.len &&
            back.len == rendering->output.text.len;
    text_clear(&back);
    return exact;
}

/* Find the token that contains a byte of the text; at the end of a span, the token after
 * it. */
static size_t exact_token_at(const struct rendering *rendering,
                             const struct token_list *whole, size_t byte, bool after)
{
    size_t low = 0, high = whole->count;
    struct text back;

    text_init(&back, 0);
    while (low < high) { /* the fewest tokens that write all before the byte */
        size_t middle = low + (high - low) / 2;

        if (bytes_of(rendering, whole, middle, &back) >= byte)
            high = middle;
        else
            low = middle + 1;
    }
    if (!after && bytes_of(rendering, whole, low, &back) > byte)
        low--;
    text_clear(&back);
    return low;
}

/* The same for any tokenizer. Where a normalizer changes the text, the tokens of the text
 * up to the byte show where it is. */
static bool token_at(struct rendering *rendering, const struct token_list *whole,
                     bool exact, size_t byte, bool after, size_t *out)
{
    struct token_list part = { 0 };
    bool ok = true;

    if (exact) {
        *out = exact_token_at(rendering, whole, byte, after);
        return true;
    }
    ok = tokenizer_encode(rendering->tokenizer, rendering->output.text.data, byte, false,
                          &part, rendering->err);
    *out = common_prefix(&part, whole);
    if (after && *out < part.count)
        *out += 1;
    token_list_clear(&part);
    return ok;
}

static bool is_answer(const json_t *message)
{
    return strcmp(json_string_value(json_object_get(message, "role")), "assistant") == 0;
}

/* The spans of {% generation %} that a text has up to the answer at index `at` of the
 * messages. */
static bool count_spans(struct rendering *rendering, size_t at, size_t *out)
{
    bool ok = rendering_text(rendering, at + 1, false, NULL);

    *out = rendering->output.span_count;
    return ok;
}

/* Assign each span to an answer: one each, or else by the number of spans that the
 * template writes up to each answer. */
static bool assign_spans(struct rendering *rendering, struct answer_spans *spans)
{
    size_t count = json_array_size(rendering->messages), answer = 0, span = 0;
    bool ok = true;

    if (spans->count == spans->answers) {
        for (size_t i = 0; i < spans->count; i++)
            spans->list[i].answer = i;
        return true;
    }
    for (size_t i = 0; ok && i < count; i++) {
        size_t end = spans->count;

        if (!is_answer(json_array_get(rendering->messages, i)))
            continue;
        ok = answer + 1 == spans->answers || count_spans(rendering, i, &end);
        for (; ok && span < end && span < spans->count; span++)
            spans->list[span].answer = answer;
        answer++;
    }
    return ok;
}

/* Locate answers by the spans of {% generation %}: a token that overlaps a span is part
 * of it, as in transformers' mask (return_assistant_tokens_mask). */
static bool locate_marked(struct rendering *rendering, const struct token_list *whole,
                          struct answer_spans *spans)
{
    const struct jinja_output *output = &rendering->output;
    bool ok = true, exact = is_exact(rendering, whole);

    spans->count = output->span_count;
    spans->list = memory_resize(spans->list, spans->count + 1, sizeof(*spans->list));
    for (size_t i = 0; i < spans->count && ok; i++) {
        const struct jinja_span *span = &output->spans[i];
        struct answer_span *out = &spans->list[i];

        *out = (struct answer_span) { .marked = true };
        ok =
            span->len == 0 ||
            (token_at(rendering, whole, exact, span->start, false, &out->start) &&
             token_at(rendering, whole, exact, span->start + span->len, true, &out->end));
    }
    return ok && assign_spans(rendering, spans);
}

static bool fail_to_separate(struct rendering *rendering)
{
    struct text advice;

    text_init(&advice, 0);
    chat_advise(rendering->chat, &advice);
    error_set(rendering->err, ERROR_DATA,
              "cannot separate the answer from the question: the chat template does not "
              "start a conversation like its prompt; %s",
              advice.data);
    text_clear(&advice);
    return false;
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
        span->answer = answer++;
        if (last_only && !last)
            continue;
        ok = rendering_tokens(rendering, i, true, &before) &&
             (last || rendering_tokens(rendering, i + 1, false, &after));
        span->start = common_prefix(&before, whole);
        span->end = last ? whole->count : common_prefix(&after, whole);
        if (span->start + 1 < before.count || span->end <= span->start ||
            (!last && span->end + TAIL_MAX < after.count))
            span->start = span->end = 0;
        if (ok && last && span->end == 0)
            ok = fail_to_separate(rendering);
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
        turn->weight = spans->weights[span->answer];
        turn->answer = span->answer;
        at = span->end;
        ++*count;
    }
}

/* Collect the weights of the answers. */
static void count_answers(const struct template_request *request,
                          struct answer_spans *spans)
{
    for (size_t i = 0; i < request->count; i++)
        if (request->messages[i].role >= ROLE_ASSISTANT)
            spans->weights[spans->answers++] = request->messages[i].weight;
    spans->count = spans->answers;
}

/* Count the answers that should be trained, and those of them that have no position. */
static void tally_answers(const struct template_options *options,
                          const struct answer_spans *spans)
{
    struct template_tally *tally = options->tally;

    for (size_t i = 0; tally && i < spans->answers; i++) {
        bool found = false;

        if (spans->weights[i] == 0 || (options->mask_history && i + 1 < spans->answers))
            continue;
        for (size_t span = 0; span < spans->count && !found; span++)
            found = spans->list[span].answer == i &&
                    (spans->list[span].marked || spans->list[span].end > 0);
        tally->answers++;
        tally->unlearned += !found;
    }
}

bool chat_turns(const struct template_request *request, struct turn **turns,
                size_t *turn_count, struct error *err)
{
    size_t count = request->count;
    struct rendering rendering = { .chat = template_model_chat(request->chat),
                                   .tokenizer = request->tokenizer,
                                   .err = err };
    struct answer_spans spans = {
        .list = memory_alloc((count + 1) * sizeof(*spans.list)),
        .weights = memory_alloc((count + 1) * sizeof(*spans.weights)),
    };
    struct token_list whole = { 0 };
    bool ok = rendering_begin(&rendering, request->options, request->messages, count);

    count_answers(request, &spans);
    ok = ok &&
         rendering_tokens(&rendering, json_array_size(rendering.messages), false, &whole);
    if (ok && jinja_marks_generation(rendering.jinja))
        ok = locate_marked(&rendering, &whole, &spans);
    else if (ok)
        ok = locate_between(&rendering, &whole, &spans, request->options->mask_history);
    *turns = memory_alloc((spans.count + 2) * sizeof(**turns));
    *turn_count = 0;
    if (ok) {
        make_turns(&spans, &whole, *turns, turn_count);
        tally_answers(request->options, &spans);
        chat_tally_keys(rendering.chat, request);
    }
    token_list_clear(&whole);
    free(spans.list);
    free(spans.weights);
    rendering_end(&rendering);
    return ok;
}

bool chat_prompt(const struct template_request *request, struct token_list *ids,
                 size_t *answer, struct error *err)
{
    struct rendering rendering = { .chat = template_model_chat(request->chat),
                                   .tokenizer = request->tokenizer,
                                   .err = err };
    struct token_list prompt = { 0 }, whole = { 0 };
    bool ok =
        rendering_begin(&rendering, request->options, request->messages, request->count);
    size_t size = json_array_size(rendering.messages);

    ok = ok && rendering_tokens(&rendering, size, true, &prompt);
    if (ok) {
        json_array_append_new(rendering.messages, json_pack("{s s, s s}", "role",
                                                            "assistant", "content", ""));
        ok = rendering_tokens(&rendering, size + 1, false, &whole);
    }
    if (ok) {
        copy(ids, &prompt, 0, prompt.count);
        *answer = ids->count;
        copy(ids, &whole, common_prefix(&prompt, &whole), whole.count);
    }
    token_list_clear(&prompt);
    token_list_clear(&whole);
    rendering_end(&rendering);
    return ok;
}

bool chat_render(const struct template_request *request, bool prompt, struct text *out,
                 struct error *err)
{
    struct rendering rendering = { .chat = template_model_chat(request->chat),
                                   .tokenizer = request->tokenizer,
                                   .err = err };
    bool ok =
        rendering_begin(&rendering, request->options, request->messages,
                        request->count) &&
        rendering_text(&rendering, json_array_size(rendering.messages), prompt, NULL) &&
        text_add(out, rendering.output.text.data, rendering.output.text.len);

    rendering_end(&rendering);
    return ok;
}
