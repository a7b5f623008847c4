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
    PROFILE_REQUIRED = 128, /* no default: the parser refuses a file without the key */
    PROFILE_OTHER = 256     /* or a type that the table cannot express */
};

#define PROFILE_UNKNOWN "?" /* a default that depends on the machine or other packages */

/* A key in a sequence of versions in which it does not change.  A key that changed has
 * several rows; a key with different defaults in several programs, too. */
struct profile_key {
    const char *name;
    unsigned types;            /* enum profile_type; 0: any */
    const char *default_value; /* as YAML, or PROFILE_UNKNOWN; NULL: required */
    const char *values;        /* texts of an enum, separated by blanks; NULL: any */
    const char *deprecated;    /* the trainer's message; NULL: not deprecated */
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

/* What the program does with values and unknown keys of a file. */
enum profile_parser {
    PARSER_UNKNOWN,
    PARSER_SCRIPT, /* the script may define further arguments, so any key may be valid */
    PARSER_DICT, /* HfArgumentParser.parse_dict: converts nothing, refuses unknown keys */
    PARSER_DEFAULTS, /* TrlParser: converts texts as the command line does */
    PARSER_DROPS     /* ignores unknown keys silently */
};

/* What refuses values that the types of the table do not accept. */
enum profile_typing { TYPING_NONE, TYPING_PYDANTIC, TYPING_JSONARGPARSE };

struct profile {
    const char *name;       /* as in `target: trl` */
    const char *title;      /* "TRL" */
    enum package package;   /* package with the keys; PACKAGES: unknown */
    enum trainer base;      /* trainer whose arguments it inherits; TRAINERS: none */
    uint32_t base_programs; /* programs of the base that it inherits, as bits */
    enum profile_parser parser;
    const char *refusal; /* its message about an unknown key, or NULL */
    const char *skips;   /* rules that do not apply, separated by blanks; or NULL */
    /* the only rules that apply, besides those about the text (TS0xx): the file has its own
     * keys instead of a job's.  NULL: it has the keys of a job */
    const char *rules;
    /* blocks that may have unlisted members; "" is the file; or NULL */
    const char *open;
    enum profile_typing typing;
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
/* Return whether the view is of this program alone. */
bool profile_runs(const struct profile_view *view, const char *program);
/* Return whether the view has all keys that the trainer accepts: false without a table, or if
 * the version is older than the table. */
bool profile_is_complete(const struct profile_view *view);
/* Return whether the program also accepts no other keys, as a script does. */
bool profile_is_closed(const struct profile_view *view);
/* Return whether the version is later than the table, so that keys may differ. */
bool profile_is_newer(enum trainer trainer, const struct version *version);

/* Return a key at the version of the view, or, if the version is unknown, at the newest one
 * with the key; NULL if the trainer has no such key. */
const struct profile_key *profile_find(const struct profile_view *view, const char *name);
/*
 * Return the default of a key as YAML; NULL: it is not known, because the trainer lacks
 * the key, or because the default depends on the version, the program or the machine.
 */
const char *profile_default(const struct profile_view *view, const char *name);

/* The versions with a key that the view lacks. */
struct profile_history {
    const char *package;    /* "transformers" */
    const char *since;      /* first later version with the key, or NULL */
    const char *until;      /* last earlier version with the key, or NULL */
    const char *deprecated; /* deprecation message of `until`, or NULL */
};

/* Return false if no version has the key. */
bool profile_history(const struct profile_view *view, const char *name,
                     struct profile_history *out);
/* Return the first version without a removed key; NULL if the newest version has the key, or
 * no version has it. */
const char *profile_removed(enum trainer trainer, const char *name);
/* Return key `at` of the view, or NULL past the end.  A key may occur several times. */
const struct profile_key *profile_key_at(const struct profile_view *view, size_t at);

/* Return whether the table has keys in a block of that path: "trainer" of
 * "trainer.precision". */
bool profile_has_block(const struct profile_view *view, const char *path);

extern const struct profile_table profile_llamafactory_table, profile_transformers_table,
    profile_trl_table, profile_axolotl_table, profile_torchtune_table,
    profile_lightning_table, profile_unsloth_table;

#endif
