/*
 * patcher/profiles/profile.h - the programs that train a job: which keys each version of
 * a trainer knows, their types and defaults, and what it does with the others.
 *
 * The key tables profile_TRAINER.c are written by make_profile.py from the trainer's
 * releases.  Everything else about a trainer is in its row in profile.c.
 */
#ifndef PATCHER_PROFILES_PROFILE_H
#define PATCHER_PROFILES_PROFILE_H

#include "patcher/profiles/versions.h"

/* In the order of the values of trainspool.target. */
enum trainer {
    TRAINER_NATIVE,
    TRAINER_EXTERNAL, /* another program; nothing more is known */
    TRAINER_LLAMAFACTORY,
    TRAINER_TRANSFORMERS, /* a script that parses TrainingArguments */
    TRAINER_TRL,
    TRAINER_AXOLOTL,
    TRAINER_TORCHTUNE,
    TRAINER_UNSLOTH,
    TRAINER_LIGHTNING,
    TRAINERS
};

/* Bits of a key's types; make_profile.py has the same. */
enum profile_type {
    PROFILE_BOOL = 1,
    PROFILE_INT = 2,
    PROFILE_REAL = 4,
    PROFILE_TEXT = 8,
    PROFILE_LIST = 16,
    PROFILE_MAP = 32,
    PROFILE_NULL = 64,
    PROFILE_REQUIRED = 128 /* no default: the parser refuses a file without the key */
};

#define PROFILE_UNKNOWN "?" /* a default that depends on the machine or other packages */

/* A key in a sequence of versions in which it does not change.  A key that changed has
 * several rows; a key with different defaults in several programs, too. */
struct profile_key {
    const char *name;
    unsigned types;            /* enum profile_type; 0: any */
    const char *default_value; /* as YAML, or PROFILE_UNKNOWN; NULL: required */
    const char *values;        /* texts of an enum, separated by blanks; NULL: any */
    const char *deprecated;    /* the trainer's own words; NULL: not deprecated */
    uint32_t programs;         /* bits, in the order of the table's programs */
    uint8_t since, until;      /* first and last version, as indexes */
};

/* The keys of one package, sorted by name (strcmp) and version. */
struct profile_table {
    const char *const *versions; /* covered releases, oldest first */
    size_t version_count;
    const char *const *programs; /* "sft", "dpo": each has its own arguments */
    size_t program_count;
    const struct profile_key *keys;
    size_t key_count;
};

/* What happens to the values and to unknown keys of a file. */
enum profile_parser {
    PARSER_UNKNOWN,
    PARSER_SCRIPT, /* a script's own arguments may come in addition: nothing is certain */
    PARSER_DICT, /* HfArgumentParser.parse_dict: converts nothing, refuses unknown keys */
    PARSER_DEFAULTS, /* TrlParser: converts texts as the command line does */
    PARSER_DROPS,    /* unknown keys are dropped without a word */
};

/* Which weights the trainer casts to float32 before training. */
enum profile_casting {
    CASTS_NOTHING,
    CASTS_ADAPTERS, /* PEFT's autocast_adapter_dtype */
    CASTS_TRAINED   /* everything it trains */
};

struct profile {
    const char *name;       /* as in `target: trl` */
    const char *title;      /* "TRL" */
    enum package package;   /* whose version decides; PACKAGES: none is known */
    enum trainer base;      /* whose arguments it inherits; TRAINERS: none */
    uint32_t base_programs; /* which of them, as bits of the base's programs */
    enum profile_parser parser;
    enum profile_casting casting;
    const char *refusal; /* what it says about an unknown key; or NULL */
    const char *skips;   /* rules that do not apply to it, separated by blanks; or NULL */
    /* The only rules that apply, besides those about the text (TS0xx): the file has keys
     * of its own instead of a job's.  NULL: it has the keys of a job */
    const char *rules;
    const char
        *open; /* blocks whose members are not all known; "" is the file; or NULL */
    const char *links;                 /* where the facts come from */
    const struct profile_table *table; /* NULL: its keys are not known */
};

/* Never NULL. */
const struct profile *profile_at(enum trainer trainer);
/* Return the trainer of that name, or TRAINERS. */
enum trainer profile_named(const char *name);
/* Return whether a rule applies to jobs of the trainer. */
bool profile_has_rule(enum trainer trainer, const char *rule);

/* A trainer at a version, and the program of it that runs. */
struct profile_view {
    enum trainer trainer;
    uint32_t programs; /* bits of the programs that may run */
    /* index of the version in the table of the trainer and in that of its base */
    int own, base;
};
enum {
    PROFILE_ANY_VERSION = -1, /* the version is unknown */
    PROFILE_TOO_OLD = -2      /* older than the table: nothing is known */
};

/* Fill a view for the given versions.  program: "sft"; NULL: any of them. */
void profile_view(enum trainer trainer, const struct versions *versions,
                  const char *program, struct profile_view *out);
/* Return whether the view knows all keys that the trainer accepts: false without a
 * table, or with a version older than it. */
bool profile_is_complete(const struct profile_view *view);
/* Return whether, in addition, the program has no keys that the table cannot know. */
bool profile_is_closed(const struct profile_view *view);
/* Return whether the table was made before this version, so that keys may have come and
 * gone since. */
bool profile_is_newer(enum trainer trainer, const struct version *version);

/* Return a key at the version of the view, or, where that is unknown, at the newest one
 * that has it; NULL: the trainer does not know it. */
const struct profile_key *profile_find(const struct profile_view *view, const char *name);
/*
 * Return the default of a key as YAML; NULL: it is not known, because the trainer lacks
 * the key, or because the default depends on the version, the program or the machine.
 */
const char *profile_default(const struct profile_view *view, const char *name);

/* When a key that the view lacks exists. */
struct profile_history {
    const char *package;    /* "transformers" */
    const char *since;      /* the first version that has it after this one; or NULL */
    const char *until;      /* the last version that had it before this one; or NULL */
    const char *deprecated; /* what `until` said about it, or NULL */
};

/* Return false if no version has the key. */
bool profile_history(const struct profile_view *view, const char *name,
                     struct profile_history *out);
/* Return the first version that no longer has a key; NULL: the newest one has it, or none
 * had. */
const char *profile_removed(enum trainer trainer, const char *name);
/* Return the key at index `at` of those that the view knows; a key may come several
 * times; NULL: past the end. */
const struct profile_key *profile_key_at(const struct profile_view *view, size_t at);

/* Return whether the table has keys in a block of that path: "trainer" of
 * "trainer.precision". */
bool profile_has_block(const struct profile_view *view, const char *path);

extern const struct profile_table profile_llamafactory_table, profile_transformers_table,
    profile_trl_table, profile_axolotl_table, profile_torchtune_table,
    profile_lightning_table, profile_unsloth_table;

#endif
