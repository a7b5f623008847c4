/* runner/generation/generation_output.c - prints completions as text, as JSON, or as
 * records. */
#include "config.h"

#include "runner/generation/generation_internal.h"

#include <string.h>

#include "runner/output/report_json.h"

/* As a record's column. */
static void add_media(json_t *object, const struct generator *g, size_t prompt)
{
    if (g->media_of[prompt].media_count > 0)
        json_object_set_new(object, g->family->kind == MEDIA_IMAGE ? "images" : "audios",
                            generation_media_names(g, prompt));
}

static json_t *line_object(const struct generator *g, size_t at)
{
    const struct eval_prompt *question = &g->questions.list[at / g->samples];
    const struct message *asked = eval_prompt_text(question);
    const struct made *made = &g->made[at];
    json_t *object = json_object();

    json_object_set_new(object, "prompt", json_visible(asked->text, asked->len));
    add_media(object, g, at / g->samples);
    json_object_set_new(object, "sample", json_integer((json_int_t)(at % g->samples)));
    json_object_set_new(object, "completion", json_visible(made->text, made->len));
    json_object_set_new(object, "tokens", json_integer((json_int_t)made->tokens));
    json_object_set_new(object, "end", json_string(completion_end_names[made->end]));
    if (!question->expected)
        return object;
    json_object_set_new(object, "expected",
                        json_visible(question->expected, question->expected_len));
    json_object_set_new(object, "answered", json_boolean(made->verdict.found));
    json_object_set_new(object, "correct", json_boolean(made->verdict.correct));
    return object;
}

/* The name in records with messages; NULL: there is no such message. */
static const char *role_name(enum role role)
{
    switch (role) {
    case ROLE_SYSTEM:
        return "system";
    case ROLE_USER:
        return "user";
    case ROLE_ASSISTANT:
        return "assistant";
    case ROLE_TOOL:
        return "tool";
    default:
        return NULL;
    }
}

static bool has_record(const struct eval_prompt *question)
{
    for (size_t i = 0; i < question->count; i++)
        if (!role_name(question->messages[i].role))
            return false;
    return true;
}

/* A record that a job's `dataset` can contain. */
static json_t *record_object(const struct generator *g, size_t at)
{
    const struct eval_prompt *question = &g->questions.list[at / g->samples];
    const struct made *made = &g->made[at];
    json_t *object = json_object(), *messages = json_array(), *one;

    for (size_t i = 0; i <= question->count; i++) {
        const struct message *m = &question->messages[i];
        bool answer = i == question->count;

        one = json_object();
        json_object_set_new(one, "role",
                            json_string(role_name(answer ? ROLE_ASSISTANT : m->role)));
        json_object_set_new(one, "content",
                            answer ? json_visible(made->text, made->len)
                                   : json_visible(m->text, m->len));
        json_array_append_new(messages, one);
    }
    json_object_set_new(object, "messages", messages);
    add_media(object, g, at / g->samples);
    return object;
}

/* Return whether the answer is complete and right, and differs from earlier samples of
 * the prompt. */
static bool is_kept(const struct generator *g, size_t at)
{
    const struct made *made = &g->made[at];

    if (!made->verdict.correct || made->end == END_LENGTH ||
        !has_record(&g->questions.list[at / g->samples]) ||
        !text_is_utf8(made->text, made->len, NULL))
        return false;
    for (size_t i = at - at % g->samples; i < at; i++)
        if (g->made[i].verdict.correct && g->made[i].end != END_LENGTH &&
            g->made[i].len == made->len &&
            memcmp(g->made[i].text, made->text, made->len) == 0)
            return false;
    return true;
}

/* For people: newlines stay; other characters that a terminal would interpret are made
 * visible. */
static void add_plain(struct text *out, const char *text, size_t len)
{
    size_t from = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && text[i] != '\n' && text[i] != '\t')
            continue;
        text_add_visible(out, text + from, i - from);
        text_add(out, text + i, i < len);
        from = i + 1;
    }
}

static void add_page(struct text *out, const struct generator *g, size_t at)
{
    const struct message *asked = eval_prompt_text(&g->questions.list[at / g->samples]);

    if (g->questions.count * g->samples > 1) {
        text_adds(out, at ? "\n> " : "> ");
        add_plain(out, asked->text, asked->len);
        text_addc(out, '\n');
    }
    add_plain(out, g->made[at].text, g->made[at].len);
    text_addc(out, '\n');
}

static bool emit(struct generator *g, struct text *line, struct error *err)
{
    if (!g->options->output)
        report_write(&g->report, line);
    else if (!text_add(&g->output, line->data, line->len))
        return error_set(err, ERROR_SYSTEM, "more than %zu MiB of output",
                         OUTPUT_MAX_BYTES >> 20);
    return true;
}

bool generation_show(struct generator *g, size_t at, struct error *err)
{
    bool records = g->options->keep_correct, ok;
    json_t *object = NULL;
    struct text line;

    if (records && !is_kept(g, at))
        return true;
    g->kept += records;
    if (records || g->options->json)
        object = records ? record_object(g, at) : line_object(g, at);
    text_init(&line, 0);
    if (object) {
        json_write(object, &line);
        text_addc(&line, '\n');
    } else {
        add_page(&line, g, at);
    }
    json_decref(object);
    ok = emit(g, &line, err);
    text_clear(&line);
    return ok;
}

void generation_summarize(const struct generator *g)
{
    size_t asked = 0, count;

    for (size_t i = 0; i < g->questions.count; i++)
        asked += g->questions.list[i].expected != NULL;
    count = asked * g->samples;
    if (count == 0 || g->options->quiet)
        return;
    fprintf(stderr, "%zu completions: accuracy %.4g, answer_rate %.4g", count,
            (double)g->right / (double)count, (double)g->found / (double)count);
    if (g->options->keep_correct)
        fprintf(stderr, "; %zu records kept", g->kept);
    fputc('\n', stderr);
}
