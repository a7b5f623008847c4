/* train/eval_prompts.c - reading prompts from data records. */
#include "config.h"

#include "train/eval_prompts.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "train/dataset/dataset_reader.h"
#include "train/dataset/dataset_record.h"
#include "train/dataset/dataset_plan.h"
#include "train/generation/prompt.h"

void eval_prompts_init(struct eval_prompts *questions)
{
    *questions = (struct eval_prompts) { .arena = arena_new(), .own = json_array() };
}

void eval_prompts_clear(struct eval_prompts *questions)
{
    free(questions->list);
    arena_free(questions->arena);
    json_decref(questions->own);
    *questions = (struct eval_prompts) { 0 };
}

static struct eval_prompt *add(struct eval_prompts *questions, size_t messages)
{
    struct eval_prompt *question;

    if (questions->count == questions->room) {
        questions->room = questions->room ? 2 * questions->room : 64;
        questions->list =
            memory_resize(questions->list, questions->room, sizeof(*questions->list));
    }
    question = &questions->list[questions->count++];
    *question = (struct eval_prompt) { .messages = arena_array(questions->arena, messages,
                                                               sizeof(struct message)),
                                       .count = messages };
    return question;
}

static const json_t *keep(struct eval_prompts *questions, const json_t *value)
{
    if (value)
        json_array_append(questions->own, (json_t *)(uintptr_t)value);
    return value;
}

static struct message copy_message(struct eval_prompts *questions,
                                   const struct message *message)
{
    struct message copy = *message;

    copy.text = arena_copy(questions->arena, message->text, message->len);
    copy.own = keep(questions, message->own);
    return copy;
}

void eval_prompts_add(struct eval_prompts *questions, const char *text, size_t len)
{
    const struct message message = { .role = ROLE_USER, .text = text, .len = len };

    add(questions, 1)->messages[0] = copy_message(questions, &message);
}

static void add_conversation(struct eval_prompts *questions,
                             const struct conversation *conversation)
{
    size_t asked = conversation->count - 1;
    const struct message *last = &conversation->messages[asked];
    struct eval_prompt *question = add(questions, asked);

    for (size_t i = 0; i < asked; i++)
        question->messages[i] = copy_message(questions, &conversation->messages[i]);
    question->expected = arena_copy(questions->arena, last->text, last->len);
    question->expected_len = last->len;
    question->variables = keep(questions, conversation->variables);
}

/* Read a file of a dataset. */
struct source_file {
    const struct dataset_source *source;
    const char *path;
    struct dataset_prompts prompts;
};

/* Add a conversation or a text; skip a conversation without an answer. */
static bool add_json(struct eval_prompts *questions, struct source_file *file,
                     const struct dataset_record *record, bool plain,
                     struct conversation *scratch, struct error *err)
{
    json_t *json =
        json_read_loose(record->data, record->len, file->path, record->at.line, err);
    struct error wrong = { 0 };
    const char *why;
    bool ok = true;

    if (!json)
        return false;
    dataset_prompts_note(&file->prompts, file->source, json);
    switch (dataset_record_read(file->source, json, plain, scratch, &why, &wrong)) {
    case RECORD_BROKEN:
        ok = error_at(err, wrong.code, file->path, record->at, "%s", wrong.text);
        break;
    case RECORD_CONVERSATION:
        if (scratch->count > 1)
            add_conversation(questions, scratch);
        break;
    case RECORD_TEXT:
        eval_prompts_add(questions, scratch->messages[0].text, scratch->messages[0].len);
        break;
    case RECORD_SKIPPED:
        break;
    }
    json_decref(json);
    return ok;
}

static bool read_file(struct eval_prompts *questions, const struct plan *plan,
                      const struct dataset_source *source, const char *path,
                      int64_t *left, struct error *err)
{
    struct dataset_reader *reader = dataset_reader_open(path, true, err);
    struct source_file file = { .source = source, .path = path };
    struct conversation scratch = { 0 };
    struct dataset_record record;
    struct error wrong = { 0 };
    bool ok = reader;

    while (ok && *left > 0 && dataset_reader_next(reader, &record, &wrong)) {
        --*left;
        if (record.is_text)
            eval_prompts_add(questions, record.data, record.len);
        else
            ok = add_json(questions, &file, &record, plan->stage == STAGE_PT, &scratch,
                          err);
    }
    conversation_free(&scratch);
    dataset_reader_close(reader);
    if (ok && wrong.code != ERROR_NONE)
        ok = error_at(err, wrong.code, wrong.file[0] ? wrong.file : path, wrong.at, "%s",
                      wrong.text);
    return ok && dataset_prompts_check(&file.prompts, source, path, err);
}

static bool read_source(struct eval_prompts *questions, const struct plan *plan,
                        const struct dataset_source *source, struct error *err)
{
    int64_t left = plan->max_samples > 0 ? plan->max_samples : INT64_MAX;
    const char *const *files;
    size_t count;
    bool ok = dataset_source_files(source, questions->arena, &files, &count, err);

    for (size_t i = 0; ok && i < count; i++)
        ok = read_file(questions, plan, source, files[i], &left, err);
    return ok;
}

bool eval_prompts_read(struct eval_prompts *questions, const struct plan *plan,
                       const char *names, struct error *err)
{
    const char *dir = plan->dataset_dir ? plan->dataset_dir : "data";
    char *quoted = dataset_plan_paths(plan, names);
    struct dataset_sources sources;
    bool ok = dataset_sources_find(quoted, dir, questions->arena, &sources, err);

    free(quoted);
    for (size_t i = 0; ok && i < sources.count; i++)
        ok = read_source(questions, plan, &sources.list[i], err);
    return ok;
}

const struct message *eval_prompt_text(const struct eval_prompt *question)
{
    return &question->messages[question->count - 1];
}

bool eval_prompt_encode(const struct eval_prompt *question,
                        const struct template_request *how, struct token_list *out,
                        struct error *err)
{
    const struct message *asked = eval_prompt_text(question);
    struct template_options options = *how->options;
    struct template_request request = *how;

    options.variables = question->variables;
    request.options = &options;
    request.messages = question->messages;
    request.count = question->count;
    if (request.chat)
        return prompt_encode(&request, out, err);
    return tokenizer_encode(request.tokenizer, asked->text, asked->len, true, out, err);
}
