/* train/dataset/dataset.h - training data: files to samples to batches. The order is a
 * function of seed, epoch and index, so a checkpoint saves the position in the data as
 * one number. */
#ifndef TRAIN_DATASET_DATASET_H
#define TRAIN_DATASET_DATASET_H

#include "base/arena.h"
#include "train/dataset/dataset_faults.h"
#include "train/dataset/dataset_position.h"
#include "train/media/media_kind.h"
#include "train/plan.h"
#include "train/tokenizer/tokenizer.h"

struct dataset;

enum split { SPLIT_TRAIN, SPLIT_EVAL };

/* Read, tokenize and (for stage pt, or with packing) pack all data of the job. Forms:
 * alpaca (instruction, input, output, system, history), messages, conversations
 * (ShareGPT) and text; for stage dpo, a question with a chosen and a rejected answer.
 * Files: .json (an array), .jsonl and .txt, each also .gz. dataset_info.json defines
 * names.
 *
 * The tokens of larger datasets are saved in plan->tokenized_path, or else in run_dir,
 * and mapped the next time (train/dataset/dataset_cache.h).
 *
 * A broken line or record is ERROR_DATA with file, line and remedy. A .txt file that the
 * job names directly is one continuous text (max_samples counts its blocks); if
 * dataset_info.json names it, each line is a document, as in LLaMA-Factory. */
struct dataset *dataset_open(const struct plan *plan, enum split split,
                             const struct tokenizer *tokenizer, struct error *err);
/* Same as dataset_open, but writes nothing: for ranks other than the first. */
struct dataset *dataset_open_readonly(const struct plan *plan, enum split split,
                                      const struct tokenizer *tokenizer,
                                      struct error *err);
/* The same, to count samples and tokens: files of media are not hashed. Records whose media
 * cannot be used are added to trial->faults, and *err is then the first. */
struct dataset_trial;
struct dataset *dataset_open_to_count(const struct plan *plan, enum split split,
                                      const struct tokenizer *tokenizer,
                                      struct dataset_trial *trial, struct error *err);
void dataset_close(struct dataset *dataset);

/* Wherever samples of stage dpo are counted, a sample is a pair: two answers to one
 * question, each a sequence. */
size_t dataset_samples(const struct dataset *dataset); /* after packing */
/* Tokens of the longest sample; for pairs, of the longest sequence. */
size_t dataset_longest(const struct dataset *dataset);
/* Positions that the model must support: tokens of the longest sample before packing,
 * because positions start at 0 in each sample. */
size_t dataset_positions_max(const struct dataset *dataset);
uint64_t dataset_tokens(const struct dataset *dataset);
/* The largest token id, to be compared with the model's vocabulary. */
uint32_t dataset_token_max(const struct dataset *dataset);
/* Sentences for the log that the user should see (records left out, the selected
 * template); index from 0, NULL at the end. */
const char *dataset_note(const struct dataset *dataset, size_t index);
/* Return whether the sentence is information, not a warning. */
bool dataset_note_is_info(const struct dataset *dataset, size_t index);
/* Where the tokens come from, and how long loading them took. */
const char *dataset_origin(const struct dataset *dataset);

/* A sound or an image, whose feature rows replace the embeddings of its tokens. Media that
 * several samples have are one. Lives as long as the dataset. */
struct media_item {
    /* of the file, absolute or relative to the current directory; NULL: the rows come from
     * a file of features, under the key */
    const char *path;
    const char *key;                  /* the path as the record has it */
    struct dataset_position position; /* of the first record that has it */
    uint8_t digest[32];               /* SHA-256 of the content; 0 without a path */
    enum media_kind kind;
    uint32_t rows;
    int32_t grid[3]; /* frames, rows and columns of patches; 0: the model needs none */
    /* size and time of the file when it was read; 0: its name is the digest */
    uint64_t bytes;
    int64_t seconds, nanoseconds;
};
/* The media of the samples that the rows of the dataset have. */
size_t dataset_media(const struct dataset *dataset);
const struct media_item *dataset_medium(const struct dataset *dataset, size_t index);
/* The most feature rows that a batch can have. */
size_t dataset_media_rows_max(const struct dataset *dataset, size_t batch_size);

/* A medium of a batch: its feature rows replace the embeddings of the rows
 * media_at[first] .. media_at[first + item->rows - 1]; or, if the model reads them next to
 * the text, all of these are the row of the medium's token. */
struct batch_medium {
    const struct media_item *item; /* of the dataset */
    uint32_t first, sequence;
};

/* A batch of samples. Each sample is a sequence of rows; a packed row holds several. The
 * sequences are adjacent without padding: attention uses the offsets. For pairs, sequence
 * 2p is the question and the chosen answer of pair p, sequence 2p + 1 the rejected one.
 * The batch owns all arrays, and the next call reuses them. */
struct batch {
    size_t rows;      /* N */
    size_t sequences; /* sequences of rows that attend to each other */
    size_t longest;
    int32_t *tokens;    /* N */
    int32_t *positions; /* N, from 0 in each sequence */
    int32_t *targets;   /* N, the NEXT token's label; LABEL_NONE if there is none */
    int32_t *offsets;   /* sequences + 1 */
    float *weights;     /* N, of the targets in the loss; NULL: all 1 */
    size_t trained;     /* rows with a target */
    /* sum of the targets' weights, by which the sum of losses is divided; for pairs, the
     * number of pairs, and weights is NULL */
    double weight;
    size_t seen; /* tokens read: all rows */
    /* in the order of the rows; both counts are 0 in a batch of text */
    struct batch_medium *media;
    int32_t *media_at; /* not decreasing */
    size_t media_count, media_rows;
    size_t room_rows, room_sequences, room_media, room_media_rows;
};

/* A question of the dataset for generation: the tokens of a sample up to its last answer,
 * and that answer, which starts at ids[question_len]. Borrowed from the dataset. */
struct dataset_question {
    const uint32_t *ids;
    size_t question_len, count;
};
/* Open the evaluation data that questions are taken from. If cutoff_len has cut samples,
 * *whole is the same data without the cut, because an answer is scored against the
 * complete expected answer; the caller closes it. Otherwise *whole is NULL and the caller
 * uses `eval`. Writes nothing. */
bool dataset_open_whole(const struct plan *plan, const struct dataset *eval,
                        const struct tokenizer *tokenizer, struct dataset **whole,
                        struct error *err);
/* The media of a question, as in a batch that has only its rows. */
struct question_media {
    struct batch_medium *media;
    int32_t *media_at;
    size_t media_count, media_rows;
};
/* Copy the media of a question to the arena. */
struct arena;
void dataset_question_media(const struct dataset *dataset, size_t index,
                            const struct dataset_question *question, struct arena *arena,
                            struct question_media *out);
size_t dataset_questions(const struct dataset *dataset); /* 0 for pairs */
/* Return false if the sample has no question before its answer (train_on_prompt, plain
 * text). */
bool dataset_question(const struct dataset *dataset, size_t index,
                      struct dataset_question *out);
/* Make a batch of one sequence of the question's tokens, with its media and without
 * targets. */
void dataset_question_batch(const struct dataset *dataset, size_t index,
                            const struct dataset_question *question, struct batch *out);
/* Return the tokens of the longest question that has at most `limit`, 0 if there is none.
 * *longer, unless NULL, is the number of questions with more. */
size_t dataset_question_max(const struct dataset *dataset, size_t limit, size_t *longer);

/* The most rows that a batch of this dataset can have. */
size_t dataset_rows_max(const struct dataset *dataset, size_t batch_size);
/* The most sequences that a batch can have: more than batch_size with packing or
 * pairs. */
size_t dataset_sequences_max(const struct dataset *dataset, size_t batch_size);
void batch_clear(struct batch *batch);

/* Make micro-batch `index` of an epoch, with `batch_size` samples. Return false after the
 * last one (the last full one with dataloader_drop_last). SPLIT_TRAIN is shuffled;
 * SPLIT_EVAL has all samples in their order. Not thread-safe: the dataset caches the
 * order of one epoch. */
bool dataset_batch(const struct dataset *dataset, uint64_t epoch, uint64_t index,
                   size_t batch_size, struct batch *out);
/* List the samples of that batch by number, from 0 in the order in which they were read,
 * in the order of the batch's sequences; at most `room` of them. Return how many. Pairs
 * list both sequences: 2i and 2i + 1 for the i-th pair that was read. */
size_t dataset_batch_samples(const struct dataset *dataset, uint64_t epoch,
                             uint64_t index, size_t batch_size, uint32_t *out,
                             size_t room);
/* The same for questions: the numbers that dataset_question takes. */
size_t dataset_batch_questions(const struct dataset *dataset, uint64_t epoch,
                               uint64_t index, size_t batch_size, size_t *out,
                               size_t room);
size_t dataset_batches(const struct dataset *dataset, size_t batch_size);
/* For a range of micro-batches, without making them: the rows with a target, and the sum
 * of their weights, by which the loss of an optimizer step is divided. Both are equal if
 * the data has no weights. The weight of pairs is their number. */
size_t dataset_trained(const struct dataset *dataset, uint64_t epoch, uint64_t first,
                       size_t batches, size_t batch_size);
double dataset_weight(const struct dataset *dataset, uint64_t epoch, uint64_t first,
                      size_t batches, size_t batch_size);

#endif
