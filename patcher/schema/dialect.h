/* patcher/schema/dialect.h - recognizes the tool that a file belongs to by its keys. */
#ifndef PATCHER_SCHEMA_DIALECT_H
#define PATCHER_SCHEMA_DIALECT_H

#include "patcher/profiles/profile.h"

enum dialect {
    DIALECT_NATIVE, /* LLaMA-Factory and Hugging Face TrainingArguments: a job */
    DIALECT_AXOLOTL,
    DIALECT_TORCHTUNE,
    DIALECT_V1,         /* LLaMA-Factory v1: nested */
    DIALECT_ACCELERATE, /* a launcher's settings */
    DIALECT_DEEPSPEED,  /* an engine's settings */
    DIALECT_TRL,        /* arguments of TRL's scripts, the alignment handbook's recipes */
    DIALECT_SWIFT,
    DIALECT_LITGPT,
    DIALECT_AUTOTRAIN,
    DIALECT_LUDWIG,
    DIALECT_VERL,
    DIALECT_UNSLOTH,
    DIALECT_LIGHTNING,
    DIALECT_NEMO,
    DIALECT_MEGATRON,
    DIALECT_NEOX,
    DIALECT_OPENRLHF,
    DIALECT_H2O,
    DIALECT_MLX,
    DIALECT_FOUNDRY, /* LLM Foundry */
    DIALECT_OUMI,
    DIALECT_MISTRAL, /* mistral-finetune */
    DIALECT_MERGEKIT,
    DIALECT_PEFT,          /* adapter_config.json */
    DIALECT_MODEL,         /* config.json */
    DIALECT_TRAINER_STATE, /* trainer_state.json */
    DIALECT_KUBERNETES,
    DIALECT_SKYPILOT,
    DIALECT_MLFLOW,
    DIALECT_WANDB, /* a sweep */
    DIALECT_COMPOSE,
    DIALECT_CONDA,
    DIALECT_HYDRA, /* any tool whose blocks name classes with _target_ */
    DIALECT_OTHER, /* an unknown tool: most keys are not keys of a job */
    DIALECT_NONE   /* no key of a job at all */
};

/* Return the tool that the file belongs to.  *marker is the key that decided, for a job as
 * well, or NULL.  The document must have a root. */
enum dialect dialect_find(const struct document *document, const struct entry **marker);
/* Return whether such a file is a job of that program: --target may claim a file that has
 * no block trainspool. */
bool dialect_is_of(enum dialect dialect, enum trainer trainer);
/* Return whether the file is a job of that program. */
bool dialect_is_job(const struct document *document, enum trainer trainer);
/* Return whether the job has keys that, among external programs, only LLaMA-Factory
 * accepts.  LLaMA-Factory rejects unknown keys; another script may define more keys. */
bool dialect_is_llama_factory(const struct document *document);
/* Return the message for a file that is not a job; it names the marker. */
const char *dialect_sentence(enum dialect dialect, const struct entry *marker,
                             struct arena *arena);

#endif
