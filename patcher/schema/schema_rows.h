/*
 * patcher/schema/schema_rows.h - macros for the rows of the key table, for the files that
 * hold a section of it.
 *
 * Names, meanings and defaults are those of LLaMA-Factory (src/llamafactory/hparams/) and
 * of Hugging Face TrainingArguments (transformers 4 and 5); where the two disagree,
 * LLaMA-Factory wins.  Keys without a default here have none there.
 *
 * The help of a key with an effect is a clause that begins with a verb or a noun: what
 * the key does, its unit, and any default that the row cannot express.  The help of an
 * ignored key says what it is or why it needs no effect, that of a rejected key is a noun
 * phrase: "KEY (HELP) is not supported".  After a change, run `make manual`.
 */
#ifndef PATCHER_SCHEMA_SCHEMA_ROWS_H
#define PATCHER_SCHEMA_SCHEMA_ROWS_H

#include "patcher/schema/schema_keys.h"

#include "base/size.h"

#define TS_FIELD(field) offsetof(struct plan, field)
#define TS_NO_MAX       1e15 /* upper bound of keys that have only a lower one */

/* A key with an effect: name, type, default.  Further fields follow by name. */
#define TS_USED(key, kind, value) \
    .name = key, .type = kind, .use = KEY_USED, .default_value = value
/* Accepted, no effect. */
#define TS_IGNORED(key, kind, value, what)                                     \
    {                                                                          \
        .name = key, .type = kind, .use = KEY_IGNORED, .default_value = value, \
        .help = what                                                           \
    }
/* Ignored, one of a list of values. */
#define TS_IGNORED_ENUM(key, words, value, what)                            \
    {                                                                       \
        .name = key, .type = KEY_ENUM, .use = KEY_IGNORED, .values = words, \
        .default_value = value, .help = what                                \
    }
/* Ignored, a map with known members.  Further fields follow by name. */
#define TS_IGNORED_MAP(key, kind, names) \
    .name = key, .type = kind, .use = KEY_IGNORED, .members = names
/* Ignored, and the results differ from what the author of the job expects. */
#define TS_DIFFERS(key, kind, value, what, done)                               \
    {                                                                          \
        .name = key, .type = kind, .use = KEY_IGNORED, .default_value = value, \
        .help = what, .instead = done                                          \
    }
/* Ignored, and reported by the rule `id` instead of TS708. */
#define TS_REPORTED(key, id, kind, value, what)                                \
    {                                                                          \
        .name = key, .type = kind, .use = KEY_IGNORED, .default_value = value, \
        .rule = id, .help = what                                               \
    }
#define TS_REPORTED_ENUM(key, id, words, value, what)                       \
    {                                                                       \
        .name = key, .type = KEY_ENUM, .use = KEY_IGNORED, .values = words, \
        .default_value = value, .rule = id, .help = what                    \
    }
/* Places the model on processes or devices in other programs: ignored, reported by TS724. */
#define TS_LAUNCH(key, kind, value, fine, what)                                \
    {                                                                          \
        .name = key, .type = kind, .use = KEY_IGNORED, .default_value = value, \
        .harmless = fine, .rule = "TS724", .help = what                        \
    }
/* An error if it is switched on. */
#define TS_REJECTED(key, kind, value, fine, what, advice)                       \
    {                                                                           \
        .name = key, .type = kind, .use = KEY_REJECTED, .default_value = value, \
        .harmless = fine, .help = what, .instead = advice                       \
    }
#define TS_REJECTED_ENUM(key, words, value, fine, what, advice)                   \
    {                                                                             \
        .name = key, .type = KEY_ENUM, .use = KEY_REJECTED, .values = words,      \
        .default_value = value, .harmless = fine, .help = what, .instead = advice \
    }
/* Another name of a key; with a rule, a name that the rule replaces in the file. */
#define TS_ALIAS(key, to, id)                                                          \
    {                                                                                  \
        .name = key, .use = KEY_RENAMED, .now = to, .rule = id, .help = "alias of " to \
    }
/* A key of another tool. */
#define TS_FOREIGN(key, whose, to, advice)                             \
    {                                                                  \
        .name = key, .use = KEY_OTHER_TOOL, .tools = whose, .now = to, \
        .instead = advice, .help = "key of another tool"               \
    }

#define ONE_DEVICE "to train on several GPUs of this machine, use trainspool: {ranks: N}"
#define NO_NETWORK "trainspool downloads and uploads nothing"
/* followed by the folder */
#define UPLOAD \
    "trainspool uploads nothing: remove it, and after the run use hf upload NAME "

#endif
