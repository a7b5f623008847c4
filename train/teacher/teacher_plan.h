/*
 * train/teacher/teacher_plan.h - the plan by which a distillation's teacher is laid out and read.
 *
 * Nothing of it is trained, and nothing is kept for a backward pass.  Its weights stay in
 * the format that most bytes of its files have, which is also that of its products and
 * activations; bf16 on a GPU before 8.0, which has none, is multiplied in fp32.  There is
 * no dropout in it.
 *
 * The reference of preferences (plan_has_second_model) is laid out likewise, but computes
 * in the format of the plan: where it is the model as it begins, its first losses have
 * the same bits.
 */
#ifndef TRAIN_TEACHER_TEACHER_PLAN_H
#define TRAIN_TEACHER_TEACHER_PLAN_H

#include "base/arena.h"
#include "train/model/model_config.h"
#include "train/plan.h"

struct teacher_plan {
    struct plan plan;
    struct model_config config;
};

/*
 * Of the teacher or the reference of a student's plan.  keeps: it writes down its largest
 * logits (model_keep) and has room for them.  Folders that cannot be read are an error
 * that names them.
 */
bool teacher_plan_make(const struct plan *student, bool keeps, struct arena *arena,
                       struct teacher_plan *out, struct error *err);

/* The words that teacher and student are compared by: the first so many of both, as
 * vocabularies of one tokenizer are padded to several lengths.  `tokens`: how many the
 * tokenizer has.  ERROR_DATA with both sizes where one model lacks some of them. */
bool teacher_plan_words(const struct model_config *teacher,
                        const struct model_config *student, size_t tokens, size_t *words,
                        struct error *err);

#endif
