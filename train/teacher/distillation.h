/*
 * train/teacher/distillation.h - who teaches in a run of stage distill: a teacher beside the student,
 * or a file of what was kept of one (train/teacher/teacher_logits.h).
 *
 * plan->kd.logits names such a file.  Where it is not there it is made first, by rank 0:
 * the teacher goes over the training data once, and its memory is given back before the
 * student's is taken.
 *
 * In a run of stage dpo it is the reference that answers are held against, where that is
 * a model of its own; the student is what is trained.
 */
#ifndef TRAIN_TEACHER_DISTILLATION_H
#define TRAIN_TEACHER_DISTILLATION_H

#include <signal.h>

#include "base/log.h"
#include "kernels/backend.h"
#include "train/model/model.h"

struct distillation;

/* What it takes; all of it stays the caller's, and is needed until distillation_close. */
struct distillation_options {
    const struct plan *plan;
    struct log *log;
    /* set by a signal: stop writing the file; NULL: never */
    const volatile sig_atomic_t *stop;
    const struct backend_group *group; /* this process among the ranks; NULL: alone */
    const struct model_config *student;
    const struct dataset *data; /* of the training */
    struct backend *backend;
    size_t tokens;          /* of the tokenizer */
    size_t rows, sequences; /* of the largest batch */
};

/* Before the student's memory is taken: load the teacher, or make and open the file.
 * ERROR_DATA where the models do not share a vocabulary, with both sizes, or where the
 * file is of another teacher; ERROR_STOPPED while it was being made. */
struct distillation *distillation_open(const struct distillation_options *options,
                                       struct error *err);
void distillation_close(
    struct distillation *distillation); /* before its backend; NULL is allowed */
/* From here on the student is taught, */
void distillation_begin(struct distillation *distillation, struct model *student);
/* before each model_train. */
bool distillation_batch(struct distillation *distillation, struct model *student,
                        const struct batch *batch, struct error *err);
/* Bytes that it holds beside the student; and a line on it for the log. */
uint64_t distillation_bytes(const struct distillation *distillation);
void distillation_describe(const struct distillation *distillation, char *out,
                           size_t room);

#endif
