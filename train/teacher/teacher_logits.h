/*
 * train/teacher/teacher_logits.h - files of a teacher's largest logits for every trained
 * token of the data.
 *
 * A safetensors file of S samples with R rows that have a label, and k logits per row:
 *
 *     ids      (R, k) I32   token ids, ascending in each row
 *     logits   (R, k) F32   logits of these tokens, before any temperature
 *     starts   (S + 1) I64  the first row of each sample; after them R
 *     samples  (S, 64) U8   SHA-256 of each, in hexadecimal digits
 *     words    (1) I64      size of the vocabulary that they were selected from
 *     teacher  (64) U8      of the teacher: SHA-256, in digits
 *
 * The digest of a sample is that of its tokens and then of its labels (the next token of
 * each row, -100 if the row is not trained), 4 bytes each, little-endian.  So a sample is
 * found at any position in a batch, in any order, packed or not; and other data, or
 * another tokenizer, template, cutoff_len or mask, which have other samples, are an
 * error.  The digest of the teacher is that of the names, types, sizes and first 4 KiB of
 * its tensors and of its adapter's.
 */
#ifndef TRAIN_TEACHER_TEACHER_LOGITS_H
#define TRAIN_TEACHER_TEACHER_LOGITS_H

#include "base/digest.h"
#include "train/dataset/dataset.h"

/* Contents of a file: logits per row, size of the vocabulary, digest of the teacher. */
struct teacher_logits_kind {
    size_t kept, vocabulary;
    char teacher[DIGEST_TEXT];
};

/* ---- Reading ---- */

struct teacher_logits; /* mapped read-only */

/* ERROR_DATA if it is not such a file, or is broken. */
struct teacher_logits *teacher_logits_open(const char *name, struct error *err);
void teacher_logits_close(struct teacher_logits *file); /* accepts NULL */
const struct teacher_logits_kind *teacher_logits_kind(const struct teacher_logits *file);
size_t teacher_logits_samples(const struct teacher_logits *file);
/* For each row n of a batch that has a label, set ids[n * kept] .. and values[n * kept]
 * ..; ERROR_DATA if one of its samples is not in the file. */
bool teacher_logits_find(const struct teacher_logits *file, const struct batch *batch,
                         int32_t *ids, float *values, struct error *err);

/* ---- Writing, train/teacher/teacher_writer.c ---- */

struct teacher_writer;

/* Create a file that will be named `name` and will have this many samples and rows. */
struct teacher_writer *teacher_writer_new(const char *name,
                                          const struct teacher_logits_kind *kind,
                                          size_t samples, size_t rows, struct error *err);
/* Add the samples of a batch; ids and values as from teacher_logits_find. */
bool teacher_writer_add(struct teacher_writer *writer, const struct batch *batch,
                        const int32_t *ids, const float *values, struct error *err);
/* Finish the file: flush it and give it its name. */
bool teacher_writer_finish(struct teacher_writer *writer, struct error *err);
/* also removes the file if it is not finished */
void teacher_writer_free(struct teacher_writer *writer);

/* Compute the digest of a sequence of a batch, and that of the teacher in a folder, with
 * its adapter or NULL. */
void teacher_logits_digest(const struct batch *batch, size_t sequence,
                           char out[DIGEST_TEXT]);
bool teacher_logits_teacher(const char *dir, const char *adapter, char out[DIGEST_TEXT],
                            struct error *err);

#endif
