/*
 * patcher/import/import_parts.h - what the files of import.h share: the source, the sheet of the
 * job that is being written, and the account of keys.
 */
#ifndef PATCHER_IMPORT_IMPORT_PARTS_H
#define PATCHER_IMPORT_IMPORT_PARTS_H

#include "patcher/import/import.h"

#define IMPORT_LINES 80 /* more than the keys of a job that an import writes */

/* One line of the job. */
struct import_line {
    const char *value;   /* as YAML; NULL: not in the job */
    const char *note;    /* comment behind it, or NULL */
    const char *remarks; /* comments above it, a line each, or NULL */
};

struct importing {
    struct arena *arena;
    const char *file;
    const char *tool;
    const struct document *source;
    struct error *err; /* the first that went wrong */
    struct import_line lines[IMPORT_LINES];
    struct import_account *account; /* of keys, in the order in which they were met */
};

/* ---- the job ---- */

/* A value as plain text, quoted where YAML needs it.  note may be NULL. */
void import_set(struct importing *im, const char *key, const char *value,
                const char *note);
/* The same for YAML as it stands: a flow map. */
void import_set_yaml(struct importing *im, const char *key, const char *yaml,
                     const char *note);
/* Only if the job does not say it yet. */
void import_preset(struct importing *im, const char *key, const char *value,
                   const char *note);
/* A comment above a line; it is shown if the line is there. */
void import_remark(struct importing *im, const char *key, const char *fmt, ...)
    TS_PRINTF(3, 4);
/* The job's value, as YAML; NULL: not said. */
const char *import_said(const struct importing *im, const char *key);
/* A scalar as YAML that reads back as the same text. */
const char *import_yaml(struct arena *arena, const char *text);
/* The same where it stands in braces or brackets. */
const char *import_yaml_inside(struct arena *arena, const char *text);
/* All lines, by section, then the account. */
void import_write(const struct importing *im, struct text *out);

/* ---- the source ---- */

/* "optimizer.lr": the entry where it has a value; NULL where it is not there or empty. */
const struct entry *import_find(const struct importing *im, const char *path);
/* Is it there, empty or not? */
const struct entry *import_written(const struct importing *im, const char *path);
/* The text of a scalar, with ${...} of torchtune resolved.  NULL, and an error with the
 * place, where it is a list or a map. */
const char *import_text(struct importing *im, const struct node *node);
/* import_text of what import_find finds; NULL where there is nothing. */
const char *import_get(struct importing *im, const char *path);
/* import_text of a member of a map; NULL where it is not there or empty. */
const char *import_text_of(struct importing *im, const struct node *map, const char *key);
/* true, yes, on; anything else, and nothing, is false. */
bool import_is_true(const struct importing *im, const char *path);
/* A number; `default` where there is none.  An error where it is something else. */
double import_number(struct importing *im, const char *path, double default_value);
/* A list of scalars, or one scalar, joined by commas; NULL: a member has no such form. */
const char *import_joined(struct importing *im, const struct node *node);
/* Off or empty: null, false, 0, "", [], {}. */
bool import_is_off(const struct node *node);

/* Something cannot be imported, with its place.  Returns false. */
bool import_refuse(struct importing *im, enum error_code code, const struct node *at,
                   const char *fmt, ...) TS_PRINTF(4, 5);
static inline bool import_failed(const struct importing *im)
{
    return im->err->code != ERROR_NONE;
}

/* ---- the account ---- */

void import_took(struct importing *im, const char *path, const char *into);
void import_left(struct importing *im, const char *path, enum import_fate fate,
                 const char *fmt, ...) TS_PRINTF(4, 5);
/* Why a key counts for nothing: "empty" or "off" where it is that, else `why`. */
const char *import_idle_why(const struct node *value, const char *why);
/* import_left with IMPORT_IDLE and import_idle_why. */
void import_idle(struct importing *im, const char *path, const char *why);
/* An entry below the top level, named by its path. */
void import_note(struct importing *im, const struct entry *entry,
                 const struct import_key *key);
bool import_is_noted(const struct importing *im, const struct entry *entry);
size_t import_keys(const struct importing *im, const struct import_key **out);
/* Whatever of the source is not in the account yet is put there as unknown. */
void import_note_rest(struct importing *im, const char *why);

/* ---- tables ---- */

/* A key that goes over as it is. */
struct import_copy {
    const char *from, *to;
    const char *note; /* or NULL */
};
/* Keys that do not, for one reason: words separated by blanks; `liger_*` is all that
 * begin so, `profiler` all below it. */
struct import_group {
    enum import_fate fate;
    const char *why;
    const char *keys;
};

/* May the key have this value in a job that is to run here? */
bool import_can_be(struct importing *im, const char *key, const char *value);
/* The value of `from`, written as the job's schema wants it; an error where it cannot be
 * one of the key's.  True if it is in the job now. */
bool import_copy(struct importing *im, const char *from, const char *to,
                 const char *note);
void import_copies(struct importing *im, const struct import_copy *rows, size_t count);
void import_groups(struct importing *im, const struct import_group *rows, size_t count);

/* ---- data sets ---- */

/* One data set of either tool. */
struct import_data {
    const char *path; /* on a hub, or of a file here */
    /* of a hub, or NULL; files with commas between */
    const char *split, *name, *revision, *files;
    const char *folder; /* of it, or NULL */
    bool is_local;
    bool ranking;        /* each record has two answers */
    const char *columns; /* JSON of dataset_info.json's "columns", or NULL: found out */
    const char *tags;    /* the same of "tags" */
    const char *form;    /* "formatting" there; NULL: alpaca */
};
/* Is it a part of a local file?  Then dataset_info.json says so, and which columns. */
bool import_takes_part(const struct import_data *set);
/* Is it a job of stage dpo, whose records are pairs of answers? */
bool import_is_of_pairs(const struct importing *im);
/* A part of a local file that dataset_info.json cannot name is not taken: said where the
 * data is named (`key`) and in the account.  `entry` is its split, `path` the set's
 * place. */
void import_split(struct importing *im, const char *key, struct import_data *set,
                  const struct entry *entry, const char *path);
/* A word for dataset_info.json, without what would need an escape there. */
const char *import_json_word(struct importing *im, const char *word);
bool import_same_data(const struct import_data *a, const struct import_data *b);
/* The words of `dataset` or `eval_dataset`, with remarks on how to come by the files. */
void import_data(struct importing *im, const char *key, const struct import_data *sets,
                 size_t count);

/* ---- the tools ---- */

bool import_axolotl(struct importing *im);
/* What rl asks for: stage dpo with its loss, or an error; where it is not there,
 * nothing. */
void import_axolotl_preference(struct importing *im);
/* Of a data set: the columns of its two answers, as JSON.  True: they have other names
 * than everybody's. */
bool import_axolotl_answers(struct importing *im, const struct node *map,
                            const char **columns);
/* The columns of one whose `type` is a name, or itself the map (type NULL). */
void import_axolotl_pair(struct importing *im, const struct node *map, const char *type,
                         struct import_data *set);
void import_axolotl_data(struct importing *im);
/* Rows of several samples, and samples that are too long; is_text: stage pt. */
void import_axolotl_packing(struct importing *im, bool is_text);
/* Saving, resuming, evaluation and the best model. */
void import_axolotl_saving(struct importing *im);
extern const struct import_group import_axolotl_groups[];
extern const size_t import_axolotl_group_count;

bool import_torchtune(struct importing *im);
void import_torchtune_data(struct importing *im);
/* Optimizer, schedule, steps, saving, evaluation: what comes once the model is known. */
void import_torchtune_training(struct importing *im);
/* "torch.optim.AdamW" in PATH._component_: the last word; "" where there is none. */
const char *import_torchtune_component(struct importing *im, const char *path);

#endif
