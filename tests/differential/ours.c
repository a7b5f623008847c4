/*
 * tests/differential/ours.c - answer requests of differential.py with our tokenizers,
 * templates and models.  Each line of JSON on standard input gets a line of JSON on
 * standard output:
 *
 *   {"tokenizer": PATH}                       {}; opens the tokenizer for the next lines
 *   {"text": TEXT, "special": BOOL}           {"ids": [..], "back": TEXT or null}
 *   {"template": TEXT, "variables": {..}}     {"text": TEXT, "spans": [[START, LENGTH],
 *                                             ..]}
 *   {"folder": FOLDER, "record": {..}}        {"ids": [..], "mask": [..]}: the record with
 *                                             the model's own template, up to the last
 *                                             token that is trained
 *   {"model": FOLDER, "sequences": [[ID, ..], ..]}
 *                                             {"loss": NUMBER, "norms": {NAME: NUMBER}}
 *   {"table": PATH}                           {"rows": [{..}, ..]}
 *   {"generated": TEXT, "expected": TEXT}     {"rouge-1": NUMBER, ..}
 *
 * A failed request gets {"error": TEXT}.  back is the text of the ids, or null if it is
 * not UTF-8.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tests/differential/ours.h"
#include "train/chat/chat.h"
#include "train/dataset/dataset_record.h"
#include "train/generation/similarity.h"
#include "train/jinja/jinja.h"
#include "train/tables/table.h"
#include "train/tokenizer/tokenizer.h"

static json_t *error_json(const struct error *err)
{
    return json_pack("{s:o}", "error", json_visible(err->text, strlen(err->text)));
}

static json_t *text_json(const struct text *text)
{
    json_t *value = json_stringn(text->data, text->len);

    return value ? value : json_null();
}

static json_t *open_tokenizer(struct tokenizer **tokenizer, const char *path)
{
    struct error err = { 0 };

    tokenizer_close(*tokenizer);
    *tokenizer = chat_tokenizer_open(path, &err);
    return *tokenizer ? json_object() : error_json(&err);
}

static json_t *encode(const struct tokenizer *tokenizer, const json_t *text, bool special)
{
    struct token_list list = { 0 };
    struct error err = { 0 };
    struct text back;
    json_t *answer, *ids;

    if (!tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text),
                          special, &list, &err)) {
        token_list_clear(&list);
        return error_json(&err);
    }
    ids = json_array();
    for (size_t i = 0; i < list.count; i++)
        json_array_append_new(ids, json_integer(list.ids[i]));
    text_init(&back, 0);
    tokenizer_decode(tokenizer, list.ids, list.count, false, &back);
    answer = json_pack("{s:o, s:o}", "ids", ids, "back", text_json(&back));
    text_clear(&back);
    token_list_clear(&list);
    return answer;
}

static json_t *spans_json(const struct jinja_output *out)
{
    json_t *spans = json_array();

    for (size_t i = 0; i < out->span_count; i++)
        json_array_append_new(spans, json_pack("[I, I]", (json_int_t)out->spans[i].start,
                                               (json_int_t)out->spans[i].len));
    return spans;
}

static json_t *render(const json_t *source, const json_t *variables)
{
    struct error err = { 0 };
    struct jinja *jinja = jinja_parse(json_string_value(source),
                                      json_string_length(source), "template", &err);
    struct jinja_output out;
    json_t *answer;

    if (!jinja)
        return error_json(&err);
    jinja_output_init(&out);
    answer = jinja_render(jinja, variables, &out, NULL, &err)
                 ? json_pack("{s:o, s:o}", "text", text_json(&out.text), "spans",
                             spans_json(&out))
                 : error_json(&err);
    jinja_output_clear(&out);
    jinja_free(jinja);
    return answer;
}

static json_t *mask_json(const struct token_list *ids, const float *weights)
{
    json_t *list = json_array(), *mask = json_array();
    size_t count = ids->count;

    while (count > 0 && weights[count - 1] <= 0)
        count--;
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(list, json_integer(ids->ids[i]));
        json_array_append_new(mask, json_integer(weights[i] > 0));
    }
    return json_pack("{s:o, s:o}", "ids", list, "mask", mask);
}

static json_t *encode_record(const struct tokenizer *tokenizer, const json_t *record)
{
    static const struct dataset_source detect;
    struct conversation conversation = { 0 };
    struct token_list ids = { 0 };
    struct error err = { 0 };
    const char *why = "the record is no conversation";
    float *weights = NULL;
    json_t *answer;

    if (dataset_record_read(&detect, record, false, &conversation, &why, &err) ==
        RECORD_CONVERSATION) {
        const struct template_options options = { .variables = conversation.variables };
        const struct template_request request = { template_guess(tokenizer), tokenizer,
                                                  &options, conversation.messages,
                                                  conversation.count };

        template_encode(&request, &ids, &weights, &err);
    } else {
        error_set(&err, ERROR_DATA, "%s", why);
    }
    answer = err.code == ERROR_NONE ? mask_json(&ids, weights) : error_json(&err);
    conversation_free(&conversation);
    token_list_clear(&ids);
    free(weights);
    return answer;
}

static json_t *answer_record(const char *dir, const json_t *record)
{
    struct error err = { 0 };
    struct tokenizer *tokenizer = chat_tokenizer_open(dir, &err);
    json_t *answer = tokenizer ? encode_record(tokenizer, record) : error_json(&err);

    tokenizer_close(tokenizer);
    return answer;
}

static json_t *model_answer(const char *dir, const json_t *sequences)
{
    struct error err = { 0 };
    json_t *answer = loss_and_norms(dir, sequences, &err);

    return answer ? answer : error_json(&err);
}

static json_t *read_table(const char *path)
{
    struct error err = { 0 };
    struct table *table = table_open(path, &err);
    json_t *rows = json_array();
    struct text row;
    uint32_t position;

    text_init(&row, 0);
    while (table && table_next(table, &row, &position, &err)) {
        json_t *value = json_read_text(row.data, row.len, path, position, &err);

        if (!value)
            break;
        json_array_append_new(rows, value);
    }
    table_close(table);
    text_clear(&row);
    if (err.code == ERROR_NONE)
        return json_pack("{s:o}", "rows", rows);
    json_decref(rows);
    return error_json(&err);
}

static json_t *scores_json(const json_t *generated, const json_t *expected)
{
    struct similarity similarity =
        similarity_measure(json_string_value(generated), json_string_length(generated),
                           json_string_value(expected), json_string_length(expected));
    json_t *answer = json_object();

    for (enum score i = 0; i < SCORES; i++)
        json_object_set_new(answer, score_names[i], json_real(similarity.scores[i]));
    return answer;
}

static json_t *answer_request(struct tokenizer **tokenizer, const json_t *request)
{
    const json_t *text = json_object_get(request, "text");
    const json_t *source = json_object_get(request, "template");

    if (json_object_get(request, "record"))
        return answer_record(json_string_value(json_object_get(request, "folder")),
                             json_object_get(request, "record"));
    if (json_object_get(request, "table"))
        return read_table(json_string_value(json_object_get(request, "table")));
    if (json_object_get(request, "model"))
        return model_answer(json_string_value(json_object_get(request, "model")),
                            json_object_get(request, "sequences"));
    if (json_object_get(request, "generated"))
        return scores_json(json_object_get(request, "generated"),
                           json_object_get(request, "expected"));
    if (source)
        return render(source, json_object_get(request, "variables"));
    if (text && *tokenizer)
        return encode(*tokenizer, text,
                      json_is_true(json_object_get(request, "special")));
    return open_tokenizer(tokenizer,
                          json_string_value(json_object_get(request, "tokenizer")));
}

int main(void)
{
    struct tokenizer *tokenizer = NULL;
    char *line = NULL;
    size_t room = 0;
    ssize_t len;

    while ((len = getline(&line, &room, stdin)) > 0) {
        struct error err = { 0 };
        json_t *request = json_read_text(line, (size_t)len, "request", 1, &err);
        json_t *answer = request ? answer_request(&tokenizer, request) : error_json(&err);
        struct text out;

        text_init(&out, 0);
        json_write(answer, &out);
        puts(out.data);
        fflush(stdout);
        text_clear(&out);
        json_decref(answer);
        json_decref(request);
    }
    tokenizer_close(tokenizer);
    free(line);
    return 0;
}
