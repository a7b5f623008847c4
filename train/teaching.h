/*
 * train/teaching.h - who teaches in a run of stage distill: a teacher of flesh and blood beside
 * the student.
 */
#ifndef TRAIN_TEACHING_H
#define TRAIN_TEACHING_H

#include "train/model.h"
#include "train/trainer.h"

struct teaching;

/* What it takes; all of it stays the caller's, and is needed until teaching_close. */
struct teaching_options {
    const struct plan *plan;
    const struct trainer_options *run;
    const struct model_config *student;
    const struct dataset *data;
    struct backend *backend;
    size_t tokens;          /* of the tokenizer */
    size_t rows, sequences; /* of the largest batch */
};

/* Take the teacher's memory and load it: before the student's.  ERROR_DATA where the two do
 * not share a vocabulary, with both sizes. */
struct teaching *teaching_open(const struct teaching_options *options, struct error *err);
void teaching_close(struct teaching *teaching); /* before its backend; NULL is allowed */
/* From here on the student is taught. */
void teaching_begin(struct teaching *teaching, struct model *student);
/* Bytes that it holds; and a line on it for the log. */
uint64_t teaching_bytes(const struct teaching *teaching);
void teaching_describe(const struct teaching *teaching, char *out, size_t room);

#endif
