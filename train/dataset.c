/*
 * train/dataset.c - from a job's keys to samples: read the files, make tokens of their
 * records, take the split's share, cut or pack.
 */
#include "config.h"

#include "train/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "train/dataset_reader.h"
#include "train/dataset_record.h"
#include "train/dataset_rows.h"
#include "train/template.h"

enum { MAX_REASONS = 8 };

/* Samples have 32-bit numbers. */
#define MAX_SAMPLES ((size_t)UINT32_MAX - 1)

/* Records left out for one reason. */
struct left_out {
    const char *why;
    size_t count;
    char first[320]; /* file:line of the first */
};

/* Work in hand. */
struct reading {
    const struct plan *plan;
    const struct tokenizer *tokenizer;
    const struct chat_template *chat; /* NULL: stage pt without a template */
    struct template_options options;
    struct dataset *dataset;
    struct arena *arena;
    struct conversation conversation;
    struct token_list ids;
    float *weights;
    struct left_out left_out[MAX_REASONS];
    size_t reasons;
    int64_t document_end;
};

static bool is_plain(const struct reading *reading)
{
    return reading->plan->stage == STAGE_PT;
}

static bool is_packed(const struct plan *plan)
{
    return plan->neat_packing || plan->packing == CHOICE_YES ||
           (plan->packing == CHOICE_AUTO && plan->stage == STAGE_PT);
}

static void add_note(struct dataset *dataset, const char *note)
{
    dataset->notes =
        memory_resize(dataset->notes, dataset->note_count + 1, sizeof(char *));
    dataset->notes[dataset->note_count++] = memory_strdup(note);
}

static void leave_out(struct reading *reading, const char *path, uint32_t line,
                      const char *why)
{
    size_t i = 0;

    while (i < reading->reasons && reading->left_out[i].why != why)
        i++;
    if (i == MAX_REASONS)
        return;
    if (i == reading->reasons) {
        reading->reasons++;
        reading->left_out[i].why = why;
        snprintf(reading->left_out[i].first, sizeof(reading->left_out[i].first), "%s:%u",
                 path, line);
    }
    reading->left_out[i].count++;
}

static void note_left_out(struct reading *reading)
{
    struct text note;

    text_init(&note, 0);
    for (size_t i = 0; i < reading->reasons; i++) {
        const struct left_out *left = &reading->left_out[i];

        text_reset(&note);
        text_addf(&note, "%zu record%s %s %s left out; the first is at %s", left->count,
                  left->count == 1 ? "" : "s", left->why, left->count == 1 ? "is" : "are",
                  left->first);
        add_note(reading->dataset, note.data);
    }
    text_clear(&note);
}

/* The place is put before what a deeper function has said. */
static bool fail_at(struct error *err, const char *path, struct mark at,
                    const struct error *why)
{
    return error_at(err, why->code, path, at, "%s", why->text);
}

/* A document, or a part of one; alone, one token teaches nothing. */
static void add_document(struct reading *reading, const uint32_t *ids, size_t len)
{
    if (len >= 2 || is_packed(reading->plan))
        dataset_store_add(&reading->dataset->store, ids, NULL, len);
}

/* A text of stage pt, with its end.  A running text is cut at once, so that a share of it
 * can be kept for evaluation, and max_samples counts its blocks. */
static bool add_text(struct reading *reading, const char *text, size_t len, bool running,
                     struct error *err)
{
    size_t cutoff = (size_t)reading->plan->cutoff_len;
    struct token_list *ids = &reading->ids;
    bool packed = is_packed(reading->plan);
    int64_t most = reading->plan->max_samples > 0 ? reading->plan->max_samples : -1;

    ids->count = 0;
    if (!packed && tokenizer_adds_bos(reading->tokenizer) &&
        tokenizer_bos(reading->tokenizer) >= 0)
        token_list_add(ids, (uint32_t)tokenizer_bos(reading->tokenizer));
    if (!tokenizer_encode(reading->tokenizer, text, len, false, ids, err))
        return false;
    if (reading->document_end >= 0)
        token_list_add(ids, (uint32_t)reading->document_end);
    if (!running) {
        add_document(reading, ids->ids,
                     !packed && ids->count > cutoff ? cutoff : ids->count);
        return true;
    }
    for (size_t at = 0; at < ids->count && most-- != 0; at += cutoff)
        add_document(reading, ids->ids + at,
                     ids->count - at < cutoff ? ids->count - at : cutoff);
    return true;
}

static bool has_target(const struct reading *reading)
{
    for (size_t i = 1; i < reading->ids.count; i++)
        if (reading->weights[i] > 0)
            return true;
    return false;
}

/* *added: something of it can be learnt. */
static bool add_conversation(struct reading *reading, bool *added, struct error *err)
{
    reading->ids.count = 0;
    if (!template_encode(reading->chat, reading->tokenizer, &reading->options,
                         reading->conversation.messages, reading->conversation.count,
                         &reading->ids, &reading->weights, err))
        return false;
    *added = has_target(reading);
    if (*added)
        dataset_store_add(&reading->dataset->store, reading->ids.ids, reading->weights,
                          reading->ids.count);
    return true;
}

static bool add_json(struct reading *reading, const struct dataset_source *source,
                     const struct dataset_record *record, struct error *err)
{
    const char *why = NULL;
    struct error wrong = { 0 };
    bool ok = true, added = true;
    json_t *json =
        json_read_loose(record->data, record->len, source->path, record->at.line, err);

    if (!json)
        return false;
    switch (dataset_record_read(source, json, is_plain(reading), &reading->conversation,
                                &why, &wrong)) {
    case RECORD_BROKEN:
        ok = false;
        break;
    case RECORD_CONVERSATION:
        ok = add_conversation(reading, &added, &wrong);
        break;
    case RECORD_TEXT:
        ok = add_text(reading, reading->conversation.messages[0].text,
                      reading->conversation.messages[0].len, false, &wrong);
        break;
    case RECORD_SKIPPED:
        leave_out(reading, source->path, record->at.line, why);
        break;
    }
    if (!added)
        leave_out(reading, source->path, record->at.line,
                  "of which nothing is left to learn (cutoff_len is short, or the answer "
                  "has loss_weight 0)");
    json_decref(json);
    return ok || fail_at(err, source->path, record->at, &wrong);
}

static bool add_record(struct reading *reading, const struct dataset_source *source,
                       const struct dataset_record *record, struct error *err)
{
    struct error wrong = { 0 };

    if (reading->dataset->store.count >= MAX_SAMPLES)
        return error_set(err, ERROR_DATA, "more than %zu samples", MAX_SAMPLES);
    if (!record->is_text)
        return add_json(reading, source, record, err);
    if (!is_plain(reading))
        return error_at(
            err, ERROR_DATA, source->path, record->at,
            "the file is plain text, which stage: pt learns; stage: sft wants "
            "questions and answers");
    return add_text(reading, record->data, record->len, !source->lines, &wrong) ||
           fail_at(err, source->path, record->at, &wrong);
}

static bool read_source(struct reading *reading, const struct dataset_source *source,
                        struct error *err)
{
    struct dataset_reader *reader = dataset_reader_open(source->path, source->lines, err);
    int64_t most = reading->plan->max_samples, count = 0;
    struct dataset_record record;
    struct error wrong = { 0 };
    bool ok = reader;

    while (ok && (most <= 0 || count < most) &&
           dataset_reader_next(reader, &record, &wrong)) {
        ok = add_record(reading, source, &record, err);
        count++;
    }
    dataset_reader_close(reader);
    return ok &&
           (wrong.code == ERROR_NONE ||
            fail_at(err, wrong.file[0] ? wrong.file : source->path, wrong.at, &wrong));
}

/* A file named in a job lies beside the job, wherever this process is: the names with the
 * job's folder before those that are there.  malloc'ed. */
static char *names_beside(const struct plan *plan, const char *names)
{
    struct text out;

    text_init(&out, 0);
    while (*names) {
        size_t blanks = strspn(names, ", "), len = strcspn(names + blanks, ",");
        char *name = memory_strdup(names + blanks), *path;

        name[len] = 0;
        path = path_join(plan->dir ? plan->dir : ".", name);
        text_add(&out, names, blanks);
        text_adds(&out, dataset_reader_knows(name) && file_exists(path) ? path : name);
        names += blanks + len;
        free(path);
        free(name);
    }
    return text_detach(&out, NULL);
}

static bool read_sources(struct reading *reading, const char *names, struct error *err)
{
    struct dataset_sources sources;
    const char *dir = reading->plan->dataset_dir ? reading->plan->dataset_dir : "data";
    char *beside = names_beside(reading->plan, names);
    bool found = dataset_sources_find(beside, dir, reading->arena, &sources, err);

    free(beside);
    if (!found)
        return false;
    for (size_t i = 0; i < sources.count; i++)
        if (!read_source(reading, &sources.list[i], err))
            return false;
    return true;
}

/* The template, and what a person should know of it. */
static bool find_template(struct reading *reading, struct error *err)
{
    const char *name = reading->plan->template_name, *missing;
    bool guessed = !name && !is_plain(reading);
    char note[256];

    if (name)
        reading->chat = template_find(name);
    if (name && !reading->chat)
        return error_set(err, ERROR_JOB, "there is no template \"%s\"", name);
    if (guessed) {
        reading->chat = template_guess(reading->tokenizer);
        snprintf(
            note, sizeof(note),
            "the job names no template: %s is taken, by the tokenizer's special tokens",
            template_row_name(reading->chat));
        add_note(reading->dataset, note);
    }
    missing = reading->chat && !is_plain(reading)
                  ? template_missing(reading->chat, reading->tokenizer)
                  : NULL;
    if (missing) {
        snprintf(
            note, sizeof(note),
            "the tokenizer has no token %s of template %s: it is written as plain text",
            missing, template_row_name(reading->chat));
        add_note(reading->dataset, note);
    }
    return true;
}

static int compare_up(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

/* Samples that val_size keeps for evaluation, as scikit-learn counts a share. */
static size_t eval_share(const struct plan *plan, size_t count)
{
    double share = plan->val_size;
    size_t eval;

    if (share >= 1)
        return share < (double)count ? (size_t)share : count;
    eval = (size_t)(share * (double)count);
    return (double)eval < share * (double)count ? eval + 1 : eval;
}

/* Keep the split's share: the first of a permutation by the seed are for evaluation. */
static bool take_share(struct dataset *dataset, const struct plan *plan, enum split split,
                       struct error *err)
{
    size_t count = dataset->store.count, eval = eval_share(plan, count);
    size_t kept = split == SPLIT_EVAL ? eval : count - eval;
    uint32_t *order;

    if (kept == 0)
        return error_set(err, ERROR_DATA,
                         "val_size leaves nothing %s: there are %zu samples",
                         split == SPLIT_EVAL ? "to evaluate" : "to train on", count);
    order = memory_resize(NULL, count, sizeof(uint32_t));
    random_permutation((uint64_t)plan->seed, RANDOM_SPLIT, 0, order, count);
    if (split == SPLIT_TRAIN)
        memmove(order, order + eval, kept * sizeof(uint32_t));
    qsort(order, kept, sizeof(uint32_t), compare_up);
    dataset_store_keep(&dataset->store, order, kept);
    free(order);
    return true;
}

/* Each sample a row. */
static void make_rows(struct dataset *dataset)
{
    size_t count = dataset->store.count;

    dataset->members = memory_resize(NULL, count + 1, sizeof(uint32_t));
    dataset->starts = memory_resize(NULL, count + 1, sizeof(size_t));
    for (size_t i = 0; i <= count; i++) {
        dataset->members[i] = (uint32_t)i;
        dataset->starts[i] = i;
    }
    dataset->rows = count;
}

static void arrange(struct reading *reading)
{
    struct dataset *dataset = reading->dataset;
    const struct tokenizer *tokenizer = reading->tokenizer;
    size_t cutoff = (size_t)reading->plan->cutoff_len;
    bool packed = is_packed(reading->plan);

    if (packed && is_plain(reading))
        dataset_store_cut(&dataset->store, cutoff,
                          tokenizer_adds_bos(tokenizer) ? tokenizer_bos(tokenizer) : -1);
    if (packed && !is_plain(reading))
        dataset->rows = dataset_store_pack(&dataset->store, cutoff, &dataset->members,
                                           &dataset->starts);
    else
        make_rows(dataset);
    dataset->order = memory_alloc(sizeof(struct dataset_order));
    dataset->order->rows = memory_resize(NULL, dataset->rows + 1, sizeof(uint32_t));
}

static bool check_keys(const struct plan *plan, enum split split, struct error *err)
{
    if (plan->stage == STAGE_DISTILL)
        return error_set(err, ERROR_JOB, "stage: distill is not supported yet");
    if (plan->cutoff_len < 2 || plan->cutoff_len > INT32_MAX)
        return error_set(err, ERROR_JOB, "cutoff_len must be 2 or more");
    if (plan->mask_history && plan->train_on_prompt)
        return error_set(err, ERROR_JOB,
                         "mask_history and train_on_prompt are opposites");
    if (plan->eval_dataset && plan->val_size > 0)
        return error_set(err, ERROR_JOB,
                         "eval_dataset and val_size cannot both be given: take one away");
    if (split == SPLIT_EVAL && !plan->eval_dataset && plan->val_size <= 0)
        return error_set(err, ERROR_JOB,
                         "there is nothing to evaluate: give eval_dataset or val_size");
    return (split == SPLIT_EVAL && plan->eval_dataset) || plan->dataset ||
           error_set(err, ERROR_JOB, "the job names no dataset");
}

static bool fill(struct reading *reading, enum split split, struct error *err)
{
    const struct plan *plan = reading->plan;
    bool own_eval = split == SPLIT_EVAL && plan->eval_dataset;
    const char *names = own_eval ? plan->eval_dataset : plan->dataset;

    if (!find_template(reading, err))
        return false;
    reading->document_end = template_document_end(reading->chat, reading->tokenizer);
    if (!read_sources(reading, names, err))
        return false;
    note_left_out(reading);
    if (reading->dataset->store.count == 0)
        return error_set(err, ERROR_DATA, "%s has no record that can be learnt: %s",
                         names,
                         reading->dataset->note_count > 0
                             ? reading->dataset->notes[reading->dataset->note_count - 1]
                             : "it is empty");
    if (plan->val_size > 0 && !take_share(reading->dataset, plan, split, err))
        return false;
    arrange(reading);
    return true;
}

struct dataset *dataset_open(const struct plan *plan, enum split split,
                             const struct tokenizer *tokenizer, struct error *err)
{
    struct reading reading = {
        .plan = plan,
        .tokenizer = tokenizer,
        .options = { .default_system = plan->default_system,
                     .train_on_prompt = plan->train_on_prompt,
                     .mask_history = plan->mask_history,
                     .cutoff_len = (size_t)plan->cutoff_len },
    };
    bool ok;

    if (!check_keys(plan, split, err))
        return NULL;
    reading.arena = arena_new();
    reading.dataset = memory_alloc(sizeof(struct dataset));
    reading.dataset->seed =
        (uint64_t)(plan->data_seed >= 0 ? plan->data_seed : plan->seed);
    reading.dataset->shuffled = split == SPLIT_TRAIN && !plan->disable_shuffling;
    reading.dataset->drop_last = split == SPLIT_TRAIN && plan->dataloader_drop_last;
    ok = fill(&reading, split, err);
    conversation_free(&reading.conversation);
    token_list_clear(&reading.ids);
    free(reading.weights);
    arena_free(reading.arena);
    if (ok)
        return reading.dataset;
    dataset_close(reading.dataset);
    return NULL;
}

const char *dataset_note(const struct dataset *dataset, size_t index)
{
    return index < dataset->note_count ? dataset->notes[index] : NULL;
}

void dataset_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    dataset_store_clear(&dataset->store);
    free(dataset->members);
    free(dataset->starts);
    if (dataset->order)
        free(dataset->order->rows);
    free(dataset->order);
    for (size_t i = 0; i < dataset->note_count; i++)
        free(dataset->notes[i]);
    free(dataset->notes);
    free(dataset);
}
