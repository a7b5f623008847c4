/*
 * train/teacher/teacher_plan.h - the plan of a distillation's teacher, by which it is
 * laid out and loaded.
 *
 * A teacher is not trained, and nothing is kept for a backward pass.  Its weights stay in
 * the format of most bytes of its files, which is also that of its matmuls and
 * activations; on a GPU before compute capability 8.0, which has no bf16, bf16 weights
 * are multiplied in fp32.  It has no dropout.  If the student's blocks are divided among
 * ranks, so are its.
 *
 * The reference of preferences (plan_has_second_model) is laid out likewise, but computes
 * in the format of the plan: if it is the initial model, its first losses have the same
 * bits.
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
 * Derive the plan of the teacher or the reference from a student's plan. keeps: the plan
 * has room to store its largest logits (model_top_logits). Folders that cannot be read
 * are an error that names them.
 */
bool teacher_plan_make(const struct plan *student, bool keeps, struct arena *arena,
                       struct teacher_plan *out, struct error *err);

/* Return in *shared the number of tokens that teacher and student are compared by: the
 * first ones of both, because the vocabularies of one tokenizer are padded to different
 * lengths.  `tokens`: tokens in the tokenizer.  ERROR_DATA with both sizes if a model
 * lacks some of them. */
bool teacher_plan_shared_tokens(const struct model_config *teacher,
                                const struct model_config *student, size_t tokens,
                                size_t *shared, struct error *err);

#endif
