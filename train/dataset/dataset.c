/* train/dataset/dataset.c - a job's keys to rows: the tokens of all files, selection and
 * order of samples, the train/eval split, and the samples of each row. */
#include "config.h"

#include "train/dataset/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/pcg.h"
#include "train/dataset/dataset_fetch.h"
#include "train/dataset/dataset_mix.h"
#include "train/dataset/dataset_pack.h"
#include "train/dataset/dataset_plan.h"
#include "train/dataset/dataset_internal.h"
#include "train/dataset/dataset_trial.h"

/* State while a dataset is opened. */
struct opening {
    const struct plan *plan;
    enum split split;
    bool read_only;
    struct dataset_reading reading;
    struct dataset_tokens tokens;
    struct dataset_choice choice;
    struct dataset *dataset;
};

static bool is_plain(const struct plan *plan)
{
    return plan->stage == STAGE_PT;
}

static bool lacks_end(const struct dataset_reading *reading, bool plain)
{
    if (tokenizer_eos(reading->tokenizer) >= 0)
        return false;
    return plain ? template_document_end(reading->chat, reading->tokenizer) < 0
                 : reading->chat && template_writes_end(reading->chat);
}

/* Samples per record: a pair has two. */
static size_t samples_per_record(const struct opening *open)
{
    return open->dataset->pairs && !open->dataset->feedback ? 2 : 1;
}

/* Find the template, and add notes about it for the user. */
static bool find_template(struct opening *open, struct error *err)
{
    struct dataset_reading *reading = &open->reading;
    const char *name = open->plan->template_name, *missing;
    bool guessed = !name && !is_plain(open->plan);
    char note[256];

    if (name)
        reading->chat = template_find(name);
    if (name && !reading->chat)
        return error_set(err, ERROR_JOB, "there is no template \"%s\"", name);
    if (guessed) {
        reading->chat = template_guess(reading->tokenizer);
        snprintf(note, sizeof(note),
                 "neither the job nor the model has a template: selected %s, by the "
                 "tokenizer's special tokens",
                 template_row_name(reading->chat));
        if (!template_model_chat(reading->chat))
            dataset_notes_add(&open->dataset->notes, note);
    }
    missing = reading->chat && !is_plain(open->plan)
                  ? template_missing(reading->chat, reading->tokenizer)
                  : NULL;
    if (missing) {
        snprintf(
            note, sizeof(note),
            "the tokenizer has no token %s of template %s: it is encoded as plain text",
            missing, template_row_name(reading->chat));
        dataset_notes_add(&open->dataset->notes, note);
    }
    if (lacks_end(reading, is_plain(open->plan)))
        dataset_notes_add(
            &open->dataset->notes,
            "the tokenizer defines no end-of-text token (eos_token in "
            "tokenizer_config.json, eos_token_id in config.json): texts get none, so "
            "the model does not learn one");
    return true;
}

static bool check_sources(const struct opening *open, struct error *err)
{
    const struct dataset_sources *sources = &open->reading.sources;

    for (size_t i = 0; i < sources->count; i++)
        if (!dataset_source_check(&sources->list[i], open->plan->stage, err))
            return false;
    return dataset_mix_check(open->plan, sources->count, err);
}

static const char *last_warning(const struct dataset_notes *notes)
{
    for (size_t i = notes->count; i-- > 0;)
        if (!notes->list[i].is_info)
            return notes->list[i].text;
    return "it is empty";
}

/* Where the contents of media are saved that the records have in them. */
static void find_media_folder(struct opening *open)
{
    const struct plan *plan = open->plan;
    const char *dir = plan->tokenized_path ? plan->tokenized_path : plan->run_dir;
    char *folder = dir ? path_join(dir, "media") : NULL;

    open->reading.media_folder = arena_strdup(open->reading.arena, folder);
    open->reading.saves_media = folder && !open->read_only;
    free(folder);
}

/* Find the sources, and read their tokens. */
static bool read_tokens(struct opening *open, bool own_eval, struct error *err)
{
    const struct plan *plan = open->plan;
    const char *names = own_eval ? plan->eval_dataset : plan->dataset;
    const struct dataset_fetch fetch = { &open->reading,
                                         own_eval ? "eval.tokens" : "train.tokens",
                                         open->read_only };
    const char *dir = plan->dataset_dir ? plan->dataset_dir : "data";
    char *paths = dataset_plan_paths(plan, names);
    struct dataset_reading *reading = &open->reading;
    struct dataset_tokens *tokens = &open->tokens;
    bool ok =
        dataset_sources_find(paths, dir, reading->arena, &reading->sources, err) &&
        check_sources(open, err) &&
        dataset_fetch(&fetch, tokens, open->dataset->origin, &open->dataset->notes, err);

    free(paths);
    for (size_t i = 0; i < tokens->notes.count; i++)
        (tokens->notes.list[i].is_info ? dataset_notes_add_info : dataset_notes_add)(
            &open->dataset->notes, tokens->notes.list[i].text);
    if (ok && tokens->store.count == 0)
        ok = error_set(err, ERROR_DATA, "%s has no record to train on: %s", names,
                       last_warning(&tokens->notes));
    return ok;
}

/* Select records: the two samples of a pair stay together. */
static bool mix(struct opening *open, struct error *err)
{
    const struct dataset_sources *sources = &open->reading.sources;
    struct dataset_part *parts = memory_alloc(sources->count * sizeof(*parts));
    size_t first = 0;
    bool ok;

    for (size_t i = 0; i < sources->count; i++) {
        size_t count = open->tokens.parts[i] / samples_per_record(open);

        parts[i] = (struct dataset_part) { &sources->list[i], first, count };
        first += count;
    }
    ok = dataset_mix(open->plan, parts, sources->count, &open->choice, err);
    free(parts);
    return ok;
}

/* Samples that val_size reserves for evaluation; rounds a share as scikit-learn does. */
static size_t eval_count(const struct plan *plan, size_t count)
{
    double share = plan->val_size;
    size_t eval;

    if (share >= 1)
        return share < (double)count ? (size_t)share : count;
    eval = (size_t)(share * (double)count);
    return (double)eval < share * (double)count ? eval + 1 : eval;
}

/* Keep the samples of this split: the first of numpy's permutation by the seed are for
 * evaluation, as in Hugging Face's train_test_split, and both splits keep that order. */
static bool take_split(struct opening *open, struct error *err)
{
    struct dataset_choice *choice = &open->choice;
    size_t count = choice->count, eval = eval_count(open->plan, count);
    size_t kept = open->split == SPLIT_EVAL ? eval : count - eval;
    struct pcg random;
    uint32_t *order;

    if (kept == 0)
        return error_set(
            err, ERROR_DATA, "val_size leaves nothing %s: there are %zu samples",
            open->split == SPLIT_EVAL ? "to evaluate" : "to train on", count);
    order = memory_resize(NULL, count, sizeof(uint32_t));
    pcg_seed(&random, (uint64_t)open->plan->seed);
    pcg_permutation(&random, order, count);
    if (open->split == SPLIT_TRAIN)
        memmove(order, order + eval, kept * sizeof(uint32_t));
    for (size_t i = 0; i < kept; i++)
        order[i] = choice->samples[order[i]];
    free(choice->samples);
    *choice = (struct dataset_choice) { order, kept, false };
    return true;
}

/* Stage pt with packing: the selected documents as one text, in blocks. */
static void cut(struct opening *open)
{
    struct dataset *dataset = open->dataset;
    const struct tokenizer *tokenizer = open->reading.tokenizer;
    struct dataset_choice *choice = &open->choice;
    struct dataset_store joined = { 0 };

    if (!choice->all) {
        dataset_store_join(&dataset->store, choice->samples, choice->count, &joined);
        dataset_store_clear(&dataset->store);
        dataset->store = joined;
    }
    dataset_store_cut(&dataset->store, (size_t)open->plan->cutoff_len, &dataset->blocks);
    dataset->data = &dataset->blocks;
    if (tokenizer_adds_bos(tokenizer))
        dataset->first_token = tokenizer_bos(tokenizer);
    choice->count = dataset->blocks.count;
    choice->samples = memory_resize(choice->samples, choice->count + 1, sizeof(uint32_t));
    for (size_t i = 0; i < choice->count; i++)
        choice->samples[i] = (uint32_t)i;
}

/* Each record is a row with all its samples. */
static void fill_rows(struct opening *open)
{
    struct dataset *dataset = open->dataset;
    const struct dataset_choice *choice = &open->choice;
    size_t per_record = samples_per_record(open);

    dataset->members =
        memory_resize(NULL, per_record * choice->count + 1, sizeof(uint32_t));
    dataset->rows = choice->count;
    for (size_t row = 0; row < choice->count; row++)
        for (size_t i = 0; i < per_record; i++)
            dataset->members[per_record * row + i] =
                (uint32_t)(per_record * choice->samples[row] + i);
    for (size_t row = 0; row <= choice->count; row++)
        dataset->starts[row] = per_record * row;
}

static void arrange(struct opening *open)
{
    struct dataset *dataset = open->dataset;
    struct dataset_choice *choice = &open->choice;
    bool packed = dataset_is_packed(open->plan);

    dataset->store = open->tokens.store;
    open->tokens.store = (struct dataset_store) { 0 };
    dataset->data = &dataset->store;
    if (packed && is_plain(open->plan))
        cut(open);
    dataset->starts = memory_resize(NULL, choice->count + 1, sizeof(size_t));
    if (packed && !is_plain(open->plan)) {
        dataset->members = memory_resize(NULL, choice->count + 1, sizeof(uint32_t));
        dataset->rows = dataset_pack(dataset->data, choice->samples, choice->count,
                                     (size_t)open->plan->cutoff_len, dataset->members,
                                     dataset->starts);
    } else {
        fill_rows(open);
    }
    dataset_media_list(dataset);
    dataset->order = memory_alloc(sizeof(struct dataset_order));
    dataset->order->rows = memory_resize(NULL, dataset->rows + 1, sizeof(uint32_t));
}

/* Stage grpo: leave out samples without a question, or with one longer than cutoff_len. */
static bool keep_questions(struct opening *open, struct error *err)
{
    struct dataset *dataset = open->dataset;
    const size_t all = dataset->rows, limit = (size_t)open->plan->cutoff_len;
    struct dataset_question q;
    char note[160];

    dataset->rows = 0;
    for (size_t i = 0; i < all; i++)
        if (dataset_question(dataset, i, &q) && q.question_len <= limit)
            dataset->members[dataset->rows++] = dataset->members[i];
    if (dataset->rows == all)
        return true;
    if (dataset->rows == 0)
        return error_set(err, ERROR_JOB,
                         "cutoff_len is %zu, and all %zu prompts are longer or empty; "
                         "raise it",
                         limit, all);
    snprintf(note, sizeof(note),
             "skipping %zu of %zu prompts, which are longer than cutoff_len, %zu tokens, "
             "or empty",
             all - dataset->rows, all, limit);
    dataset_notes_add(&dataset->notes, note);
    return true;
}

static bool check_keys(const struct plan *plan, enum split split, struct error *err)
{
    if (plan->cutoff_len < 2 || plan->cutoff_len > INT32_MAX)
        return error_set(err, ERROR_JOB, "cutoff_len must be 2 or more");
    if (plan->mask_history && plan->train_on_prompt)
        return error_set(err, ERROR_JOB,
                         "mask_history and train_on_prompt are opposites");
    if (plan->eval_dataset && plan->val_size > 0)
        return error_set(err, ERROR_JOB,
                         "eval_dataset and val_size cannot both be set: remove one");
    if (split == SPLIT_EVAL && !plan->eval_dataset && plan->val_size <= 0)
        return error_set(err, ERROR_JOB,
                         "there is nothing to evaluate: set eval_dataset or val_size");
    return (split == SPLIT_EVAL && plan->eval_dataset) || plan->dataset ||
           error_set(err, ERROR_JOB, "the job names no dataset");
}

static bool fill(struct opening *open, struct error *err)
{
    const struct plan *plan = open->plan;
    bool own_eval = open->split == SPLIT_EVAL && plan->eval_dataset;

    if (!find_template(open, err) || !read_tokens(open, own_eval, err) ||
        !mix(open, err) || (plan->val_size > 0 && !take_split(open, err)))
        return false;
    arrange(open);
    return plan->stage != STAGE_GRPO || open->split != SPLIT_TRAIN ||
           keep_questions(open, err);
}

static struct dataset *open_data(struct opening open, struct error *err)
{
    const struct plan *plan = open.plan;
    enum split split = open.split;
    bool ok;

    if (!check_keys(plan, split, err))
        return NULL;
    open.reading.arena = arena_new();
    find_media_folder(&open);
    open.dataset = memory_alloc(sizeof(struct dataset));
    open.dataset->pairs = plan_prefers(plan);
    open.dataset->feedback = plan->stage == STAGE_KTO;
    open.dataset->cutoff_len = (size_t)plan->cutoff_len;
    open.dataset->seed = (uint64_t)(plan->data_seed >= 0 ? plan->data_seed : plan->seed);
    open.dataset->shuffled = split == SPLIT_TRAIN && !plan->disable_shuffling;
    open.dataset->drop_last =
        split == SPLIT_TRAIN && (plan->dataloader_drop_last || plan->stage == STAGE_GRPO);
    open.reading.whole = open.reading.whole || plan->stage == STAGE_GRPO;
    open.dataset->end_token = (int32_t)tokenizer_eos(open.reading.tokenizer);
    open.dataset->first_token = -1;
    ok = fill(&open, err);
    dataset_tokens_clear(&open.tokens);
    free(open.choice.samples);
    arena_free(open.reading.arena);
    if (ok)
        return open.dataset;
    dataset_close(open.dataset);
    return NULL;
}

struct dataset *dataset_open(const struct plan *plan, enum split split,
                             const struct tokenizer *tokenizer, struct error *err)
{
    return open_data((struct opening) { .plan = plan,
                                        .split = split,
                                        .reading = { .plan = plan,
                                                     .tokenizer = tokenizer,
                                                     .started = clock_wall() } },
                     err);
}

struct dataset *dataset_open_readonly(const struct plan *plan, enum split split,
                                      const struct tokenizer *tokenizer,
                                      struct error *err)
{
    return open_data(
        (struct opening) { .plan = plan,
                           .split = split,
                           .read_only = true,
                           .reading = { .plan = plan, .tokenizer = tokenizer } },
        err);
}

struct dataset *dataset_open_to_count(const struct plan *plan, enum split split,
                                      const struct tokenizer *tokenizer,
                                      struct dataset_trial *trial, struct error *err)
{
    struct opening open = { .plan = plan,
                            .split = split,
                            .read_only = true,
                            .reading = { .plan = plan,
                                         .counts_only = true,
                                         .trial = trial,
                                         .tokenizer = tokenizer } };
    struct dataset *dataset;

    trial->contents = false;
    dataset = open_data(open, err);
    if (dataset)
        dataset->decoded = trial->contents;
    return dataset;
}

/* Return whether any sample was cut. A cut sample has cutoff_len tokens; a sample that
 * just fits has as many, which does no harm. */
static bool is_cut(const struct dataset *dataset, size_t cutoff_len)
{
    for (size_t i = 0; i < dataset->starts[dataset->rows]; i++)
        if (dataset->data->samples[dataset->members[i]].len >= cutoff_len)
            return true;
    return false;
}

bool dataset_open_whole(const struct plan *plan, const struct dataset *eval,
                        const struct tokenizer *tokenizer, struct dataset **whole,
                        struct error *err)
{
    struct plan plain = *plan;

    *whole = NULL;
    if (dataset_questions(eval) == 0 || !is_cut(eval, (size_t)plan->cutoff_len))
        return true;
    plain.packing = CHOICE_NO;
    plain.neat_packing = false;
    *whole = open_data(
        (struct opening) {
            .plan = &plain,
            .split = SPLIT_EVAL,
            .read_only = true,
            .reading = { .plan = &plain, .whole = true, .tokenizer = tokenizer } },
        err);
    return *whole != NULL;
}

const char *dataset_origin(const struct dataset *dataset)
{
    return dataset->origin;
}

const char *dataset_note(const struct dataset *dataset, size_t index)
{
    return index < dataset->notes.count ? dataset->notes.list[index].text : NULL;
}

bool dataset_note_is_info(const struct dataset *dataset, size_t index)
{
    return dataset->notes.list[index].is_info;
}

void dataset_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    dataset_store_clear(&dataset->blocks);
    dataset_store_clear(&dataset->store);
    dataset_notes_clear(&dataset->notes);
    free(dataset->members);
    free(dataset->starts);
    free(dataset->media);
    free(dataset->media_of);
    if (dataset->order)
        free(dataset->order->rows);
    free(dataset->order);
    free(dataset);
}
