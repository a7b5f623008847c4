/* train/eval_prompts.c - reading prompts from data records. */
#include "config.h"

#include "train/eval_prompts.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/file.h"
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

/* ---- Media ---- */

/* Write the contents of a medium to the folder, and return the name of the file. */
static const char *save_contents(struct eval_prompts *questions,
                                 const struct record_medium *medium, struct error *err)
{
    char digest[DIGEST_TEXT], *path;
    const char *out = NULL;

    digest_bytes(medium->data, medium->len, digest);
    path = path_join(questions->contents, digest);
    if (file_exists(path) || (file_make_dirs(questions->contents, 0700, err) &&
                              file_replace(path, medium->data, medium->len, 0600, err)))
        out = arena_strdup(questions->arena, path);
    free(path);
    return out;
}

static bool copy_medium(struct eval_prompts *questions,
                        const struct record_medium *medium, struct record_medium *out,
                        struct error *err)
{
    *out = (struct record_medium) { .kind = medium->kind, .at = medium->at };
    if (medium->data && questions->contents)
        out->path = save_contents(questions, medium, err);
    else
        out->path = arena_strdup(questions->arena, medium->path);
    return out->path || error_set(err, ERROR_DATA,
                                  "the record has the bytes of %s, and no "
                                  "path",
                                  media_one(medium->kind));
}

/* Return how many media of columns an answer takes, for its placeholders. */
static size_t count_answered(const struct conversation *conversation,
                             enum media_kind kind)
{
    const struct message *answer = &conversation->messages[conversation->count - 1];
    size_t count = media_placeholders(kind, answer->text, answer->len);

    for (size_t i = 0; i < conversation->media_count; i++)
        count -= conversation->media[i].text == answer->text &&
                 conversation->media[i].kind == kind && count > 0;
    return count;
}

/* Return whether medium `at` stands in the question: the last of a column may be those of the
 * answer. */
static bool is_asked(const struct conversation *conversation, size_t at)
{
    const struct record_medium *medium = &conversation->media[at];
    size_t after = 0;

    if (medium->text)
        return medium->text != conversation->messages[conversation->count - 1].text;
    for (size_t i = at + 1; i < conversation->media_count; i++)
        after +=
            !conversation->media[i].text && conversation->media[i].kind == medium->kind;
    return after >= count_answered(conversation, medium->kind);
}

/* Copy the media of the question's messages; whole: the record has no answer. */
static bool copy_media(struct eval_prompts *questions,
                       const struct conversation *conversation, bool whole,
                       struct error *err)
{
    struct eval_prompt *question = &questions->list[questions->count - 1];

    question->media = arena_array(questions->arena, conversation->media_count,
                                  sizeof(*question->media));
    for (size_t i = 0; i < conversation->media_count; i++) {
        const struct record_medium *medium = &conversation->media[i];
        struct record_medium *copy = &question->media[question->media_count];

        if (!whole && !is_asked(conversation, i))
            continue;
        if (!copy_medium(questions, medium, copy, err))
            return false;
        for (size_t k = 0; k < question->count && medium->text; k++)
            if (conversation->messages[k].text == medium->text)
                copy->text = question->messages[k].text;
        question->media_count++;
    }
    return true;
}

/* ---- Records ---- */

static bool add_conversation(struct eval_prompts *questions,
                             const struct conversation *conversation, struct error *err)
{
    size_t asked = conversation->count - 1;
    const struct message *last = &conversation->messages[asked];
    struct eval_prompt *question = add(questions, asked);

    for (size_t i = 0; i < asked; i++)
        question->messages[i] = copy_message(questions, &conversation->messages[i]);
    question->expected = arena_copy(questions->arena, last->text, last->len);
    question->expected_len = last->len;
    question->variables = keep(questions, conversation->variables);
    return copy_media(questions, conversation, false, err);
}

static bool add_text(struct eval_prompts *questions,
                     const struct conversation *conversation, struct error *err)
{
    eval_prompts_add(questions, conversation->messages[0].text,
                     conversation->messages[0].len);
    return copy_media(questions, conversation, true, err);
}

/* Read a file of a dataset. */
struct source_file {
    const struct dataset_source *source;
    const char *path; /* as long as the prompts */
    struct dataset_prompts prompts;
};

/* Note where the prompts from `first` on are. */
static void note_position(struct eval_prompts *questions, size_t first,
                          const struct source_file *file, struct mark at)
{
    for (size_t i = first; i < questions->count; i++) {
        questions->list[i].file = file->path;
        questions->list[i].at = at;
    }
}

/* Add a conversation or a text; skip a conversation without an answer. */
static bool add_json(struct eval_prompts *questions, struct source_file *file,
                     const struct dataset_record *record, bool plain,
                     struct conversation *scratch, struct error *err)
{
    json_t *json =
        json_read_loose(record->data, record->len, file->path, record->at.line, err);
    const size_t first = questions->count;
    struct error wrong = { 0 };
    const char *why;
    bool ok = true;

    if (!json)
        return false;
    dataset_prompts_note(&file->prompts, file->source, json);
    switch (dataset_record_read(file->source, json, plain, scratch, &why, &wrong)) {
    case RECORD_BROKEN:
        ok = false;
        break;
    case RECORD_CONVERSATION:
        ok = scratch->count < 2 || add_conversation(questions, scratch, &wrong);
        break;
    case RECORD_TEXT:
        ok = add_text(questions, scratch, &wrong);
        break;
    case RECORD_SKIPPED:
        break;
    }
    note_position(questions, first, file, record->at);
    json_decref(json);
    return ok || error_at(err, wrong.code, file->path, record->at, "%s", wrong.text);
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

/* Encode messages whose media are marked. */
static bool encode(const struct template_request *request, struct token_list *out,
                   struct error *err)
{
    const struct message *asked = &request->messages[request->count - 1];
    struct template_media *media = request->options->media;

    if (request->chat)
        return prompt_encode(request, out, err);
    return tokenizer_encode(request->tokenizer, asked->text, asked->len, true, out,
                            err) &&
           (!media || template_media_fill(media, out, err));
}

bool eval_prompt_encode(const struct eval_prompt *question,
                        const struct template_request *how,
                        struct dataset_prompted *prompted, struct token_list *out,
                        struct error *err)
{
    const size_t bytes = question->count * sizeof(*question->messages);
    struct template_options options = *how->options;
    struct template_request request = *how;
    const struct dataset_position position = { question->file ? question->file : "",
                                               question->at.line };
    struct conversation record = { 0 }; /* owns the marked texts */
    struct error wrong = { 0 };
    bool ok = true;

    record.messages = memory_alloc(bytes + 1);
    memcpy(record.messages, question->messages, bytes);
    record.media = question->media;
    record.media_count = question->media_count;
    options.variables = question->variables;
    request.options = &options;
    request.messages = record.messages;
    request.count = question->count;
    if (prompted)
        ok = dataset_prompted_mark(prompted, &position, &record, record.messages,
                                   question->count, &wrong);
    options.media = prompted ? dataset_prompted_media(prompted) : NULL;
    ok = ok && encode(&request, out, &wrong);
    if (ok && prompted)
        dataset_prompted_add(prompted, out);
    record.media = NULL; /* they are the question's */
    record.media_count = 0;
    conversation_free(&record);
    if (ok)
        return true;
    return question->file
               ? error_at(err, wrong.code, question->file, question->at, "%s", wrong.text)
               : error_set(err, wrong.code, "%s", wrong.text);
}
