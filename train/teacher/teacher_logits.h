/*
 * train/teacher/teacher_logits.h - what is kept of a teacher, in a file: its largest logits at
 * every token of the data that is learnt.
 *
 * A safetensors file of R rows, those with a label, of S samples, with the k logits of
 * each:
 *
 *     ids      (R, k) I32   words, ascending in each row
 *     logits   (R, k) F32   of these words, before any temperature
 *     starts   (S + 1) I64  the first row of each sample; behind them R
 *     samples  (S, 64) U8   SHA-256 of each, in hexadecimal digits
 *     words    (1) I64      the vocabulary that they are the largest of
 *     teacher  (64) U8      of the teacher: SHA-256, in digits
 *
 * A sample's digest is that of its tokens and then of its labels (what each row is to say
 * next,
 * -100 where it learns nothing), 4 bytes each, least first.  So a sample is found
 * wherever it lies in a batch, in any order, packed or not; and other data, another
 * tokenizer, template, cutoff_len or mask, which have other samples, are an error.  The
 * teacher's digest is of the names, shapes and first 4 KiB of its tensors, and of its
 * adapter's.
 */
#ifndef TRAIN_TEACHER_TEACHER_LOGITS_H
#define TRAIN_TEACHER_TEACHER_LOGITS_H

#include "base/digest.h"
#include "train/dataset/dataset.h"

/* What a file is of. */
struct teacher_logits_kind {
    size_t kept, words;
    char teacher[DIGEST_TEXT];
};

/* ---- Reading ---- */

struct teacher_logits; /* mapped read-only */

/* ERROR_DATA where it is no such file, or a broken one. */
struct teacher_logits *teacher_logits_open(const char *name, struct error *err);
void teacher_logits_close(struct teacher_logits *file); /* NULL is allowed */
const struct teacher_logits_kind *teacher_logits_kind(const struct teacher_logits *file);
size_t teacher_logits_samples(const struct teacher_logits *file);
/* Of each row n of a batch with a label: ids[n * kept] .. and values[n * kept] ..;
 * ERROR_DATA where one of its samples is not in the file. */
bool teacher_logits_find(const struct teacher_logits *file, const struct batch *batch,
                         int32_t *ids, float *values, struct error *err);

/* ---- Making, train/teacher/teacher_writer.c ---- */

struct teacher_writer;

/* A file that will be `name`: so many samples and rows are to come. */
struct teacher_writer *teacher_writer_new(const char *name,
                                          const struct teacher_logits_kind *kind,
                                          size_t samples, size_t rows, struct error *err);
/* The samples of a batch, with numbers as teacher_logits_find has them. */
bool teacher_writer_add(struct teacher_writer *writer, const struct batch *batch,
                        const int32_t *ids, const float *values, struct error *err);
/* All is there: the file is flushed and gets its name. */
bool teacher_writer_end(struct teacher_writer *writer, struct error *err);
/* and the file, if it was not ended */
void teacher_writer_free(struct teacher_writer *writer);

/* The digest of a run of a batch; of the teacher in a folder, with its adapter or
 * NULL. */
void teacher_logits_digest(const struct batch *batch, size_t run, char out[DIGEST_TEXT]);
bool teacher_logits_teacher(const char *dir, const char *adapter, char out[DIGEST_TEXT],
                            struct error *err);

#endif
