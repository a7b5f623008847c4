/*
 * patcher/rules/teacher.h - what is known from its folder of the model that stands beside the
 * one that is trained: a distillation's teacher, or the reference of preferences.
 * Formats, bytes, vocabularies.  Nothing of it is trusted; every file has a limit.
 */
#ifndef PATCHER_RULES_TEACHER_H
#define PATCHER_RULES_TEACHER_H

#include "base/arena.h"
#include "train/plan.h"

/* What two models would say to each other, token by token. */
enum vocabularies {
    VOCABULARIES_UNKNOWN, /* one of them does not say */
    VOCABULARIES_SAME,
    VOCABULARIES_PADDED, /* the same tokens, rows of logits padded to other lengths */
    VOCABULARIES_DIFFER
};

/* What the two models of a stage are called, and the keys of the second. */
struct teaching_words {
    const char *key, *adapter;
    const char *student, *teacher;
};

struct teacher {
    const struct teaching_words *words; /* NULL: a stage without */
    const char *path; /* its folder; NULL: none is named, or it is not on this machine */
    enum format format;                /* of most of its bytes; FORMAT_COUNT: not known */
    uint64_t bytes;                    /* of its tensors; 0: not known */
    const struct model_config *config; /* NULL: it is none that could be trained here */
    const char *dropout; /* "attention_dropout 0.1", of its config.json; NULL: none */
    enum vocabularies vocabularies;
    const char *difference; /* in words; NULL where they do not differ */
};

/* The folders of the second model, and of the adapter that is merged into it; NULL:
 * none. */
const char *teacher_folder(const struct plan *plan);
const char *teacher_adapter(const struct plan *plan);
/* That of a job, beside model_name_or_path; either folder may be missing. */
void teacher_read(const struct plan *plan, struct arena *arena, struct teacher *out);

/* The reference model of stage dpo, as create_ref_model of LLaMA-Factory
 * (train/trainer_utils.py) chooses it. */
enum ref_model {
    REF_MODEL_NONE,   /* another stage, or a loss that has none: orpo, simpo */
    REF_MODEL_BASE,   /* the model without the adapter that is trained */
    REF_MODEL_COPY,   /* the model as it begins, a second time */
    REF_MODEL_FOLDER, /* ref_model */
    REF_MODELS
};

extern const char *const ref_model_names[REF_MODELS]; /* "none", "base" .. */

enum ref_model ref_model_of(const struct plan *plan);
/* "sigmoid", as pref_loss has it. */
const char *ref_model_loss(const struct plan *plan);

#endif
