/*
 * patcher/schema/schema_rows.h - how a row of the table is written; for the files that hold a
 * section of it.
 *
 * Names, meaning and defaults are those of LLaMA-Factory (src/llamafactory/hparams/) and
 * of Hugging Face TrainingArguments (transformers 4 and 5); where the two disagree
 * LLaMA-Factory wins.  Keys without a default here have none there.
 */
#ifndef PATCHER_SCHEMA_SCHEMA_ROWS_H
#define PATCHER_SCHEMA_SCHEMA_ROWS_H

#include "patcher/schema/schema_keys.h"

#include "base/size.h"

#define TS_INTO(field) offsetof(struct plan, field)
#define TS_NO_END      1e15 /* upper bound of what has only a lower one */

/* A key that is done: name, type, default. Further fields follow by name. */
#define TS_USED(key, kind, value) \
    .name = key, .type = kind, .use = KEY_USED, .default_value = value
/* Accepted, no effect. */
#define TS_IDLE(key, kind, value, what)                                        \
    {                                                                          \
        .name = key, .type = kind, .use = KEY_IGNORED, .default_value = value, \
        .help = what                                                           \
    }
/* The same, where results are others than the job's owner expects. */
#define TS_UNLIKE(key, kind, value, what, done)                                \
    {                                                                          \
        .name = key, .type = kind, .use = KEY_IGNORED, .default_value = value, \
        .help = what, .instead = done                                          \
    }
/* The same, told by a rule of its own. */
#define TS_TOLD(key, id, kind, value, what)                                    \
    {                                                                          \
        .name = key, .type = kind, .use = KEY_IGNORED, .default_value = value, \
        .rule = id, .help = what                                               \
    }
#define TS_TOLD_OF(key, id, words, value, what)                             \
    {                                                                       \
        .name = key, .type = KEY_ENUM, .use = KEY_IGNORED, .values = words, \
        .default_value = value, .rule = id, .help = what                    \
    }
/* The same of a map with known names. */
#define TS_IN(key, kind, names) \
    .name = key, .type = kind, .use = KEY_IGNORED, .members = names
/* The same of words. */
#define TS_IDLE_OF(key, words, value, what)                                 \
    {                                                                       \
        .name = key, .type = KEY_ENUM, .use = KEY_IGNORED, .values = words, \
        .default_value = value, .help = what                                \
    }
/* Refused when switched on. */
#define TS_NOT(key, kind, value, fine, what, advice)                            \
    {                                                                           \
        .name = key, .type = kind, .use = KEY_REJECTED, .default_value = value, \
        .harmless = fine, .help = what, .instead = advice                       \
    }
#define TS_NOT_OF(key, words, value, fine, what, advice)                          \
    {                                                                             \
        .name = key, .type = KEY_ENUM, .use = KEY_REJECTED, .values = words,      \
        .default_value = value, .harmless = fine, .help = what, .instead = advice \
    }
/* Another name of a key; with a rule, one that is renamed in the file. */
#define TS_ALIAS(key, to, id)                                   \
    {                                                           \
        .name = key, .use = KEY_RENAMED, .now = to, .rule = id, \
        .help = "another name of " to                           \
    }
/* A word of another tool. */
#define TS_FOREIGN(key, whose, to, advice)                                             \
    {                                                                                  \
        .name = key, .use = KEY_FOREIGN, .tools = whose, .now = to, .instead = advice, \
        .help = "of another tool"                                                      \
    }

#define ONE_DEVICE "several GPUs of this machine are trainspool: {ranks: N}"
#define NO_NETWORK "nothing is downloaded or uploaded here"

#endif
