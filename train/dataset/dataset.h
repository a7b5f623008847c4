/*
 * train/dataset/dataset.h - files -> samples -> batches.  The order is a function of seed, epoch
 * and index; the place in the data is one number that a checkpoint can save.
 */
#ifndef TRAIN_DATASET_DATASET_H
#define TRAIN_DATASET_DATASET_H

#include "train/plan.h"
#include "train/tokenizer/tokenizer.h"

struct dataset;

enum split { SPLIT_TRAIN, SPLIT_EVAL };

/*
 * Read, tokenise and (for stage pt, or packing) pack all of the job's data.  Forms:
 * alpaca (instruction, input, output, system, history), messages, conversations
 * (ShareGPT), text; for stage dpo a question with a chosen and a rejected answer; as
 * .json (an array), .jsonl, .txt, each also .gz; names by dataset_info.json.
 * The tokens of larger data are kept in plan->tokenized_path, or else run_dir, and mapped
 * the next time (train/dataset/dataset_cache.h).
 * A broken line or record is ERROR_DATA with file, line and remedy.  A .txt named
 * directly is one running text (max_samples counts its blocks); named in
 * dataset_info.json, each line is a document, as in LLaMA-Factory.
 */
struct dataset *dataset_open(const struct plan *plan, enum split split,
                             const struct tokenizer *tokenizer, struct error *err);
/* The same, and nothing is written: to count, or for ranks that are not the first. */
struct dataset *dataset_peek(const struct plan *plan, enum split split,
                             const struct tokenizer *tokenizer, struct error *err);
void dataset_close(struct dataset *dataset);

/* Of stage dpo a sample here is a pair, wherever samples are counted: two answers to one
 * question, each a run of its own. */
size_t dataset_samples(const struct dataset *dataset); /* after packing */
/* Tokens of the longest sample; of pairs those of the longest run. */
size_t dataset_longest(const struct dataset *dataset);
/* Places a model must know: tokens of the longest sample before packing, for each begins
 * anew. */
size_t dataset_places(const struct dataset *dataset);
uint64_t dataset_tokens(const struct dataset *dataset);
/* The highest token there is, to be held against the model's vocabulary. */
uint32_t dataset_token_max(const struct dataset *dataset);
/* What a person should know (records left out, the template that was chosen): sentences
 * for the log; index from 0, NULL at the end. */
const char *dataset_note(const struct dataset *dataset, size_t index);
/* Where its tokens are from, and how long that took. */
const char *dataset_origin(const struct dataset *dataset);

/*
 * A batch of samples, each a run of rows of its own, or several where they are packed:
 * runs lie one after another, and there is no padding, as attention goes by the offsets.
 * Of pairs run 2p is the chosen answer of the p-th behind its question, run 2p + 1 the
 * rejected one. All arrays are the batch's own and are used again by the next call.
 */
struct batch {
    size_t rows;      /* N */
    size_t sequences; /* runs of rows that attend to each other */
    size_t longest;
    int32_t *tokens;    /* N */
    int32_t *positions; /* N, from 0 in each run */
    int32_t *targets;   /* N, the NEXT token's label; LABEL_NONE where there is none */
    int32_t *offsets;   /* sequences + 1 */
    float *weights;     /* N, of the targets in the loss; NULL: each is 1 */
    size_t trained;     /* rows with a target */
    /* of them, summed up: what the sum of losses is divided by; of pairs their number,
     * and weights is NULL */
    double weight;
    size_t seen; /* tokens read: all rows */
    size_t room_rows, room_sequences;
};

/*
 * Questions of the data, to be answered: a sample's tokens up to its last answer, and
 * that answer, which begins at `asked`.  Borrowed from the data set.
 */
struct dataset_question {
    const uint32_t *ids;
    size_t asked, count;
};
/*
 * The evaluation data to take questions from: with samples that cutoff_len has cut *whole
 * is the same data uncut, to be closed, for an answer is judged by the whole of what was
 * expected; else NULL, and `eval` itself serves.  Nothing is written.
 */
bool dataset_open_whole(const struct plan *plan, const struct dataset *eval,
                        const struct tokenizer *tokenizer, struct dataset **whole,
                        struct error *err);
size_t dataset_questions(const struct dataset *dataset); /* of pairs 0 */
/* False where the sample has no question before its answer (train_on_prompt, plain
 * text). */
bool dataset_question(const struct dataset *dataset, size_t index,
                      struct dataset_question *out);
/* Tokens of the longest question that has at most `most`, 0: there is none.  *longer, if
 * wanted: how many have more. */
size_t dataset_asked_max(const struct dataset *dataset, size_t most, size_t *longer);

/* Rows that a batch of this dataset has at most. */
size_t dataset_rows_max(const struct dataset *dataset, size_t batch_size);
/* Runs that it has at most: more than batch_size where samples are packed, or pairs. */
size_t dataset_sequences_max(const struct dataset *dataset, size_t batch_size);
void batch_clear(struct batch *batch);

/* The index-th micro-batch of `batch_size` samples of an epoch; false past its end (or
 * past its last full one, with dataloader_drop_last).  Shuffled for SPLIT_TRAIN;
 * SPLIT_EVAL has all samples in their order.  Not for two threads at once: the order of
 * an epoch is kept. */
bool dataset_batch(const struct dataset *dataset, uint64_t epoch, uint64_t index,
                   size_t batch_size, struct batch *out);
/* Which samples that batch has, by their numbers from 0 as they were read, in the order
 * of its runs; at most `room` of them.  How many.  Each run of a pair is told: 2i and 2i
 * + 1 of the i-th that was read. */
size_t dataset_batch_samples(const struct dataset *dataset, uint64_t epoch,
                             uint64_t index, size_t batch_size, uint32_t *out,
                             size_t room);
size_t dataset_batches(const struct dataset *dataset, size_t batch_size);
/* Of a window of micro-batches, without making them: rows with a target, and their
 * weights summed up, which is what the loss of an optimizer step is divided by.  Without
 * weights in the data both are one number.  The weight of pairs is how many they are. */
size_t dataset_trained(const struct dataset *dataset, uint64_t epoch, uint64_t first,
                       size_t batches, size_t batch_size);
double dataset_weight(const struct dataset *dataset, uint64_t epoch, uint64_t first,
                      size_t batches, size_t batch_size);

#endif
