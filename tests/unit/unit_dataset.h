/* tests/unit/unit_dataset.h - for tests of a job's data: a directory, a tokenizer of
 * single letters, plans, records, and the inputs and targets of a batch. */
#ifndef TESTS_UNIT_UNIT_DATASET_H
#define TESTS_UNIT_UNIT_DATASET_H

#include "tests/unit/unit_tokenizer.h"
#include "train/dataset/dataset.h"
#include "train/chat/template.h"

static char *dir;
static struct tokenizer *tokenizer;

static inline int unit_dataset_start(void **state)
{
    (void)state;
    dir = unit_dir_new();
    tokenizer = unit_tokenizer(UNIT_SPECIALS);
    return 0;
}

static inline int unit_dataset_stop(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    unit_dir_free(dir);
    return 0;
}

/* A plan whose datasets are files of the directory. */
static inline struct plan unit_dataset_plan(const char *dataset)
{
    return (struct plan) {
        .stage = STAGE_SFT,
        .dataset = dataset,
        .dataset_dir = dir,
        .template_name = "empty",
        .packing = CHOICE_AUTO,
        .cutoff_len = 64,
        .seed = 42,
        .data_seed = -1,
    };
}

static inline struct dataset *unit_dataset_open(const struct plan *plan, enum split split)
{
    struct error err = { 0 };
    struct dataset *dataset = dataset_open(plan, split, tokenizer, &err);

    if (!dataset)
        fail_msg("%s:%u: %s", err.file, err.at.line, err.text);
    return dataset;
}

/* Records "q" * (i % 5 + 1) -> a letter and "b" * (i % 7); i names the letter. */
static inline void unit_dataset_records(const char *name, size_t count)
{
    struct text file;

    text_init(&file, 0);
    for (size_t i = 0; i < count; i++)
        text_addf(&file, "{\"prompt\": \"%.*s\", \"response\": \"%c%.*s\"}\n",
                  (int)(i % 5) + 1, "qqqqq", (char)('A' + i), (int)(i % 7), "bbbbbbb");
    unit_write(dir, name, &file);
    text_clear(&file);
}

/* Write a sequence's inputs and targets as "read>learned". */
static inline void unit_dataset_run(const struct batch *batch, size_t run,
                                    struct text *out)
{
    text_reset(out);
    for (int32_t i = batch->offsets[run]; i < batch->offsets[run + 1]; i++) {
        assert_int_equal(batch->positions[i], i - batch->offsets[run]);
        text_addc(out, (char)batch->tokens[i]);
    }
    text_addc(out, '>');
    for (int32_t i = batch->offsets[run]; i < batch->offsets[run + 1]; i++)
        if (batch->targets[i] != LABEL_NONE)
            text_addc(out, (char)batch->targets[i]);
}

/* Append the answers' letters in the order of an epoch. */
static inline void unit_dataset_letters(const struct dataset *dataset, uint64_t epoch,
                                        size_t size, char *out)
{
    struct batch batch = { 0 };
    size_t trained = 0;

    for (uint64_t i = 0; dataset_batch(dataset, epoch, i, size, &batch); i++) {
        for (size_t row = 0; row < batch.rows; row++)
            if (batch.tokens[row] >= 'A' && batch.tokens[row] <= 'Z')
                *out++ = (char)batch.tokens[row];
        trained += batch.trained;
    }
    *out = 0;
    assert_int_equal(trained, dataset_trained(dataset, epoch, 0,
                                              dataset_batches(dataset, size), size));
    batch_clear(&batch);
}

static inline int unit_dataset_by_letter(const void *a, const void *b)
{
    return *(const char *)a - *(const char *)b;
}

#endif
