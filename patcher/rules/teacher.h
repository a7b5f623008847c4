/*
 * patcher/rules/teacher.h - format, size and vocabulary of the second model of a job: the
 * teacher of a distillation, or the reference of preference training.  The files in its
 * folder are not trusted; each has a size limit.
 */
#ifndef PATCHER_RULES_TEACHER_H
#define PATCHER_RULES_TEACHER_H

#include "base/arena.h"
#include "train/plan.h"

/* How the vocabularies of two models compare, token by token. */
enum vocabularies {
    VOCABULARIES_UNKNOWN, /* one of them is unknown */
    VOCABULARIES_SAME,
    VOCABULARIES_PADDED, /* the same tokens, with logits padded to different lengths */
    VOCABULARIES_DIFFER
};

/* The names of the two models of a stage, and the keys of the second. */
struct second_model_names {
    const char *key, *adapter;
    const char *student, *teacher;
};

struct teacher {
    const struct second_model_names *names; /* NULL: the stage has no second model */
    const char *path;   /* its folder; NULL: not named, or not on this machine */
    enum format format; /* of most of its bytes; FORMAT_COUNT: unknown */
    uint64_t bytes;     /* of its tensors; 0: unknown */
    const struct model_config *config; /* NULL: trainspool cannot train it */
    /* from its config.json, as in "attention_dropout 0.1"; NULL: none */
    const char *dropout;
    enum vocabularies vocabularies;
    const char *difference; /* in words; NULL if there is none */
};

/* Return the folder of the second model, and of the adapter merged into it; NULL:
 * none. */
const char *teacher_folder(const struct plan *plan);
const char *teacher_adapter(const struct plan *plan);
/* Read the second model of a job, next to model_name_or_path.  Either folder may be
 * missing. */
void teacher_read(const struct plan *plan, struct arena *arena, struct teacher *out);

/* The reference model of stage dpo, chosen like create_ref_model of LLaMA-Factory
 * (train/trainer_utils.py). */
enum ref_model {
    REF_MODEL_NONE,   /* another stage, or a loss without a reference: orpo, simpo */
    REF_MODEL_BASE,   /* the model without the adapter that is trained */
    REF_MODEL_COPY,   /* a second copy of the initial model */
    REF_MODEL_FOLDER, /* ref_model */
    REF_MODELS
};

extern const char *const ref_model_names[REF_MODELS]; /* "none", "base" .. */

enum ref_model ref_model_of(const struct plan *plan);
/* Return the loss as in pref_loss: "sigmoid". */
const char *ref_model_loss(const struct plan *plan);

#endif
