/*
 * train/teacher/distillation.h - the teacher in a run of stage distill: a model next to
 * the student, or a file of its logits (train/teacher/teacher_logits.h).
 *
 * plan->kd.logits names such a file.  If it does not exist, rank 0 makes it first: the
 * teacher runs over the training data once, and its memory is freed before that of the
 * student is allocated.
 *
 * In a run of stage dpo it is the reference model, if that is a separate model; the
 * student is the model that is trained.
 */
#ifndef TRAIN_TEACHER_DISTILLATION_H
#define TRAIN_TEACHER_DISTILLATION_H

#include "base/heartbeat.h"
#include "base/log.h"
#include "kernels/backend.h"
#include "train/model/model.h"
#include "train/model/model_media.h"

struct distillation;

/* Input of distillation_open.  The caller keeps owning it, until distillation_close. */
struct distillation_options {
    const struct plan *plan;
    struct log *log;
    struct heartbeat *heartbeat;       /* a stop ends the writing of the file; or NULL */
    const struct backend_group *group; /* this process among the ranks; NULL: alone */
    const struct model_config *student;
    const struct dataset *data; /* training data */
    struct backend *backend;
    size_t tokens;                      /* in the tokenizer */
    size_t rows, sequences, media_rows; /* of the largest batch */
    const struct model_media *media;    /* of the second model, as of the first */
};

/* Load the teacher, or make and open the file.  Call this before the student's memory is
 * allocated.  ERROR_DATA, with both sizes, if the models do not share a vocabulary, or if
 * the file was made by another teacher; ERROR_STOPPED if stopped while making the
 * file. */
struct distillation *distillation_open(const struct distillation_options *options,
                                       struct error *err);
void distillation_close(
    /* call it before the backend is closed; accepts NULL */
    struct distillation *distillation);
/* Set the teacher of the student. */
void distillation_attach(struct distillation *distillation, struct model *student);
/* Call before each model_train: loads the batch's logits from the file, if there is
 * one. */
bool distillation_batch(struct distillation *distillation, struct model *student,
                        const struct batch *batch, struct error *err);
/* Return the bytes of the teacher in memory, and a description for the log. */
uint64_t distillation_bytes(const struct distillation *distillation);
void distillation_describe(const struct distillation *distillation, char *out,
                           size_t room);

#endif
