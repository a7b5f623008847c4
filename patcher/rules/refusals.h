/*
 * patcher/rules/refusals.h - settings that other trainers refuse before they load a model.
 * A row has a condition over the keys of a job, the versions that check it, and the message
 * of the exception (TS812).
 */
#ifndef PATCHER_RULES_REFUSALS_H
#define PATCHER_RULES_REFUSALS_H

#include "patcher/rules/python_value.h"

/* Tests of the value that the program reads; an absent key has the program's default. */
enum refusal_test {
    REFUSAL_END,  /* no further term */
    REFUSAL_TRUE, /* `if value:` takes the branch */
    REFUSAL_FALSE,
    REFUSAL_GIVEN, /* it is not None */
    REFUSAL_MISSING,
    REFUSAL_IN,     /* it, or an element of the list, is one of the words */
    REFUSAL_NOT_IN, /* it, or the first element of the list, is none of the words */
    REFUSAL_OTHER,  /* it, or any element of the list, is none of the words */
    REFUSAL_ABOVE,  /* it is a number above this one */
    REFUSAL_BELOW,
    REFUSAL_LESS,     /* it is below the value of the other key */
    REFUSAL_SEVERAL,  /* the list, or the text with commas, has no element or several */
    REFUSAL_COUNT,    /* it and the other key differ in the number of elements */
    REFUSAL_LIST,     /* it is a YAML list */
    REFUSAL_STRING,   /* it is a string */
    REFUSAL_NO_INT,   /* it is not a whole number */
    REFUSAL_FRACTION, /* it is a number with a fractional part */
    REFUSAL_ZERO3,    /* DeepSpeed shards the weights */
    REFUSAL_NO_ZERO3,
    REFUSAL_RANKS,   /* the job runs in several processes or under torchrun */
    REFUSAL_SCRIPT,  /* the job runs this TRL script: sft, dpo, grpo */
    REFUSAL_ONLY,    /* it is true, and each word of each element is one of the words */
    REFUSAL_VERSION, /* the package that `key` names is at least this version */
    REFUSAL_BEFORE,  /* the package that `key` names is below this version */
    REFUSAL_BACKEND, /* the job runs on an accelerator of this backend: mps */
};

struct refusal_term {
    const char *key;
    enum refusal_test test;
    const char *with; /* words, a number, a key or a version */
};

#define REFUSAL_TERMS 5

struct refusal {
    struct refusal_term when[REFUSAL_TERMS]; /* all hold; the first names the culprit */
    const char *since, *before;              /* versions that check it; NULL: no bound */
    const char *says;                        /* message of the exception */
    const char *said, *reworded; /* its message before the version `reworded` */
    const char *advice;
    /* rules that report the same fault: after a finding of one, this row is silent; or NULL */
    const char *reported;
};

/* The program's default of a key, as YAML; the default of other keys is null. */
struct refusal_default {
    const char *key, *value;
};

/* What one program refuses. */
struct refusals {
    const char *program;  /* "LLaMA-Factory" */
    enum package package; /* whose versions the rows name */
    const char *oldest;   /* first version with which the rows were compared */
    bool (*applies)(const struct rule_context *context);
    const struct refusal *rows;
    size_t count;
    const struct refusal_default *defaults;
    size_t default_count;
};

extern const struct refusals refusals_llamafactory, refusals_llamafactory_trainer,
    refusals_transformers, refusals_accelerate, refusals_trl, refusals_axolotl,
    refusals_torchtune, refusals_lightning;

/* Return whether the job meets the condition of the row. */
bool refusal_holds(const struct rule_context *context, const struct refusals *refusals,
                   const struct refusal *row);

/* Terms of a row. */
#define TS_TRUE(name)                     \
    {                                     \
        .key = name, .test = REFUSAL_TRUE \
    }
#define TS_FALSE(name)                     \
    {                                      \
        .key = name, .test = REFUSAL_FALSE \
    }
#define TS_GIVEN(name)                     \
    {                                      \
        .key = name, .test = REFUSAL_GIVEN \
    }
#define TS_MISSING(name)                     \
    {                                        \
        .key = name, .test = REFUSAL_MISSING \
    }
#define TS_IN(name, words)                             \
    {                                                  \
        .key = name, .test = REFUSAL_IN, .with = words \
    }
#define TS_NOT_IN(name, words)                             \
    {                                                      \
        .key = name, .test = REFUSAL_NOT_IN, .with = words \
    }
#define TS_OTHER(name, words)                             \
    {                                                     \
        .key = name, .test = REFUSAL_OTHER, .with = words \
    }
#define TS_ABOVE(name, number)                             \
    {                                                      \
        .key = name, .test = REFUSAL_ABOVE, .with = number \
    }
#define TS_BELOW(name, number)                             \
    {                                                      \
        .key = name, .test = REFUSAL_BELOW, .with = number \
    }
#define TS_LESS(name, other)                             \
    {                                                    \
        .key = name, .test = REFUSAL_LESS, .with = other \
    }
#define TS_SEVERAL(name)                     \
    {                                        \
        .key = name, .test = REFUSAL_SEVERAL \
    }
#define TS_OTHER_COUNT(name, key_)                       \
    {                                                    \
        .key = name, .test = REFUSAL_COUNT, .with = key_ \
    }
#define TS_LIST(name)                     \
    {                                     \
        .key = name, .test = REFUSAL_LIST \
    }
#define TS_STRING(name)                     \
    {                                       \
        .key = name, .test = REFUSAL_STRING \
    }
#define TS_NO_INT(name)                     \
    {                                       \
        .key = name, .test = REFUSAL_NO_INT \
    }
#define TS_FRACTION(name)                     \
    {                                         \
        .key = name, .test = REFUSAL_FRACTION \
    }
#define TS_ZERO3                                  \
    {                                             \
        .key = "deepspeed", .test = REFUSAL_ZERO3 \
    }
#define TS_NO_ZERO3                                  \
    {                                                \
        .key = "deepspeed", .test = REFUSAL_NO_ZERO3 \
    }
#define TS_RANKS              \
    {                         \
        .test = REFUSAL_RANKS \
    }
#define TS_SCRIPT(name)                      \
    {                                        \
        .test = REFUSAL_SCRIPT, .with = name \
    }
#define TS_ONLY(name, words)                             \
    {                                                    \
        .key = name, .test = REFUSAL_ONLY, .with = words \
    }
#define TS_VERSION(package, least)                             \
    {                                                          \
        .key = package, .test = REFUSAL_VERSION, .with = least \
    }
#define TS_BEFORE(package, bound)                             \
    {                                                         \
        .key = package, .test = REFUSAL_BEFORE, .with = bound \
    }
#define TS_BACKEND(name)                      \
    {                                         \
        .test = REFUSAL_BACKEND, .with = name \
    }

#endif
