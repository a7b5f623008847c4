/* patcher/schema/dialect.h - detect which tool a file is for, by its keys. */
#ifndef PATCHER_SCHEMA_DIALECT_H
#define PATCHER_SCHEMA_DIALECT_H

#include "patcher/document/document.h"

enum dialect {
    DIALECT_NATIVE, /* LLaMA-Factory and Hugging Face TrainingArguments: a job */
    DIALECT_AXOLOTL,
    DIALECT_TORCHTUNE,
    DIALECT_V1,         /* LLaMA-Factory v1: nested */
    DIALECT_ACCELERATE, /* settings of the launcher */
    DIALECT_DEEPSPEED,  /* settings of the engine */
    DIALECT_TRL,        /* arguments of TRL's scripts, the alignment handbook's recipes */
    DIALECT_SWIFT,
    DIALECT_LITGPT,
    DIALECT_OTHER, /* an unknown tool: most keys are not keys of a job */
    DIALECT_NONE   /* no key is a key of a job */
};

/* Return the dialect of a document that has a root.  *marker: the key that decides it,
 * for a job too; or NULL. */
enum dialect dialect_find(const struct document *document, const struct entry **marker);
/* Return whether the document has keys that only LLaMA-Factory accepts, of all external
 * programs.  LLaMA-Factory rejects unknown keys; other scripts may define their own. */
bool dialect_is_llama_factory(const struct document *document);
/* Return a sentence for a file that is not a job, with the key that decided it. */
const char *dialect_sentence(enum dialect dialect, const struct entry *marker,
                             struct arena *arena);

#endif
