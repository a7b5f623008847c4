/* patcher/schema/dialect.h - whose file a text is: the keys that only one tool has tell. */
#ifndef PATCHER_SCHEMA_DIALECT_H
#define PATCHER_SCHEMA_DIALECT_H

#include "patcher/document/document.h"

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
    DIALECT_OTHER, /* mostly keys of no job: of a tool that is not known */
    DIALECT_NONE   /* not one key of a job */
};

/* *marker: the key that tells, of a job too; or NULL.  The document has a root. */
enum dialect dialect_find(const struct document *document, const struct entry **marker);
/* Has it keys that of all external programs only LLaMA-Factory takes?  It stops at keys
 * that it does not know; another script may have keys of its own. */
bool dialect_is_llama_factory(const struct document *document);
/* A sentence for a file that is no job, naming the key that told. */
const char *dialect_sentence(enum dialect dialect, const struct entry *marker,
                             struct arena *arena);

#endif
