/* patcher/import/import_internal.h - shared by the files of import.h: the source, the job
 * being written, and the outcomes of keys. */
#ifndef PATCHER_IMPORT_IMPORT_INTERNAL_H
#define PATCHER_IMPORT_IMPORT_INTERNAL_H

#include "patcher/import/import.h"

#define IMPORT_LINES 120 /* upper bound of the keys that an import writes */

/* One line of the job. */
struct import_line {
    const char *value;   /* as YAML; NULL: not in the job */
    const char *note;    /* comment after it, or NULL */
    const char *remarks; /* comments above it, one per line, or NULL */
};

struct importing {
    struct arena *arena;
    const char *file;
    const char *tool;
    const struct document *source;
    struct error *err; /* the first error */
    struct import_line lines[IMPORT_LINES];
    /* outcomes of keys, in the order in which they were recorded */
    struct outcome_list *outcomes;
};

/* ---- the job ---- */

/* Set a value given as plain text, quoted if YAML requires it.  note may be NULL. */
void import_set(struct importing *im, const char *key, const char *value,
                const char *note);
/* Set a value given as YAML: a flow map. */
void import_set_yaml(struct importing *im, const char *key, const char *yaml,
                     const char *note);
/* Set the value only if the job does not have the key yet. */
void import_set_default(struct importing *im, const char *key, const char *value,
                        const char *note);
/* Add a comment above a line; it is written only if the line is. */
void import_remark(struct importing *im, const char *key, const char *fmt, ...)
    TS_PRINTF(3, 4);
/* Return the job's value as YAML; NULL: not set. */
const char *import_value(const struct importing *im, const char *key);
/* Return a scalar as YAML that reads back as the same text. */
const char *import_yaml(struct arena *arena, const char *text);
/* The same, for use inside braces or brackets. */
const char *import_yaml_inside(struct arena *arena, const char *text);
/* Return whether an import can write the key. */
bool import_has_line(const char *key);
/* Write all lines by section, then the outcomes of keys. */
void import_write(const struct importing *im, struct text *out);

/* ---- the source ---- */

/* Find an entry with a value, as in "optimizer.lr"; NULL if it is missing or empty. */
const struct entry *import_find(const struct importing *im, const char *path);
/* Find an entry, empty or not. */
const struct entry *import_find_written(const struct importing *im, const char *path);
/* Return the text of a scalar, with torchtune's ${...} resolved.  NULL, and an error with
 * its position, for a list or a map. */
const char *import_text(struct importing *im, const struct node *node);
/* import_text of the entry found by import_find; NULL if there is none. */
const char *import_get(struct importing *im, const char *path);
/* import_text of a member of a map; NULL if it is missing or empty. */
const char *import_text_of(struct importing *im, const struct node *map, const char *key);
/* Return whether the value is true, yes or on; false if it is missing. */
bool import_is_true(const struct importing *im, const char *path);
/* Return a number, or the default if it is missing.  Sets an error for other values. */
double import_number(struct importing *im, const char *path, double default_value);
/* Join a list of scalars, or one scalar, with commas; NULL if a member is not a
 * scalar. */
const char *import_joined(struct importing *im, const struct node *node);
/* Return whether a value is off or empty: null, false, 0, "", [], {}. */
bool import_is_off(const struct node *node);

/* Set an error with its position.  Returns false. */
bool import_refuse(struct importing *im, enum error_code code, const struct node *at,
                   const char *fmt, ...) TS_PRINTF(4, 5);
static inline bool import_failed(const struct importing *im)
{
    return im->err->code != ERROR_NONE;
}

/* ---- outcomes of keys ---- */

void import_mark_carried(struct importing *im, const char *path, const char *into);
void import_mark_dropped(struct importing *im, const char *path,
                         enum import_outcome outcome, const char *fmt, ...)
    TS_PRINTF(4, 5);
/* Return "empty" or "off" if the value is, otherwise `why`. */
const char *import_idle_reason(const struct node *value, const char *why);
/* Record IMPORT_IDLE with import_idle_reason. */
void import_mark_idle(struct importing *im, const char *path, const char *why);
/* Record the outcome of an entry below the top level, named by its path. */
void import_add_outcome(struct importing *im, const struct entry *entry,
                        const struct import_key *key);
bool import_has_outcome(const struct importing *im, const struct entry *entry);
size_t import_keys(const struct importing *im, const struct import_key **out);
/* Record all remaining keys of the source as unknown. */
void import_mark_rest_unknown(struct importing *im, const char *why);

/* ---- tables ---- */

/* A key that is copied unchanged. */
struct import_copy {
    const char *from, *to;
    const char *note; /* or NULL */
};
/* Keys that are not carried over for one reason, separated by blanks; `liger_*` matches
 * the prefix, `profiler` everything below it. */
struct import_group {
    enum import_outcome outcome;
    const char *why;
    const char *keys;
};

/* Return whether a job that runs natively may have this value. */
bool import_is_valid(struct importing *im, const char *key, const char *value);
/* Copy the value of `from`, converted to the type of the job's key; an error if it is not
 * valid.  Return whether the job has it. */
bool import_copy(struct importing *im, const char *from, const char *to,
                 const char *note);
void import_copies(struct importing *im, const struct import_copy *rows, size_t count);
void import_groups(struct importing *im, const struct import_group *rows, size_t count);
/* The same for one entry, which need not be one of the source's. */
void import_group_of_entry(struct importing *im, const struct entry *entry,
                           const struct import_group *rows, size_t count);
/* The same for the members of a map that have no outcome yet. */
void import_groups_of(struct importing *im, const char *block,
                      const struct import_group *rows, size_t count);

/* ---- datasets ---- */

/* One dataset of either tool. */
struct import_data {
    const char *path; /* on a hub, or a local file */
    /* on a hub, or NULL; files are separated by commas */
    const char *split, *name, *revision, *files;
    const char *folder; /* folder on the hub, or NULL */
    bool is_local;
    bool ranking; /* each record has two answers */
    bool media;   /* records have images or sound */
    /* JSON of "columns" in dataset_info.json, or NULL: detected automatically */
    const char *columns;
    const char *tags;    /* likewise "tags" */
    const char *samples; /* "num_samples" in dataset_info.json, or NULL: all */
    const char *form;    /* "formatting" in dataset_info.json; NULL: alpaca */
};
/* Return whether only a part of a local file is used, which dataset_info.json must
 * say. */
bool import_data_is_part(const struct import_data *set);
/* Return whether the stage is dpo, whose records are pairs of answers. */
bool import_is_preference(const struct importing *im);
/* A path that starts with ./, ../, / or ~/ is a folder of this machine, which load_dataset
 * reads from disk (datasets.load_dataset, "a local directory"). */
void import_local_folder(struct importing *im, struct import_data *set);
/*
 * If dataset_info.json cannot name the part of a local file, use the whole file and
 * report it where the data is named (`key`) and in the outcomes.  `entry` is its split,
 * `path` the dataset's position.
 */
void import_split(struct importing *im, const char *key, struct import_data *set,
                  const struct entry *entry, const char *path);
/* Return a name for dataset_info.json, without characters that JSON would have to
 * escape. */
const char *import_json_name(struct importing *im, const char *word);
bool import_same_data(const struct import_data *a, const struct import_data *b);
/* Set `dataset` or `eval_dataset`, with comments on how to get the files. */
void import_data(struct importing *im, const char *key, const struct import_data *sets,
                 size_t count);

/* ---- the tools ---- */

bool import_axolotl(struct importing *im);
/* Import rl: stage dpo with its loss, or an error; nothing if the key is missing. */
void import_axolotl_preference(struct importing *im);
/* Set reward_funcs to the rewards that trainspool has in place of TRL's: names separated by
 * commas.  False, with an error at `at` that starts with `where`, for any other.
 * punish_cache: the argument of get_soft_overlong_punishment, or NULL. */
bool import_reward_functions(struct importing *im, const char *functions,
                             const char *punish_cache, const struct node *at,
                             const char *where);
/* Set what a job of TRL's RewardTrainer has besides its stage: the head of transformers'
 * ...ForSequenceClassification, and no dropout unless the source keeps it. */
void import_reward_model(struct importing *im, bool keeps_dropout);
/* Set the error for another reward; return false. */
bool import_refuse_reward(struct importing *im, const struct node *at, const char *where,
                          const char *name);
/* Import scale_rewards, which was a switch in older versions, from this key. */
void import_reward_scale(struct importing *im, const char *key);
/* Import rl: grpo or gdpo as stage grpo, or set an error; false: rl is something else. */
bool import_axolotl_reinforcement(struct importing *im);
/* Return the columns of a dataset's two answers as JSON in *columns, and whether their
 * names differ from the usual ones. */
bool import_axolotl_answer_columns(struct importing *im, const struct node *map,
                                   const char **columns);
/* Set the columns of a dataset whose `type` is a name, or is itself the map (type
 * NULL). */
void import_axolotl_pair(struct importing *im, const struct node *map, const char *type,
                         struct import_data *set);
void import_axolotl_data(struct importing *im);
/* Return whether the stage is kto, whose records mark answers as good or bad. */
bool import_is_feedback(const struct importing *im);
/* Import rl: kto. */
void import_axolotl_feedback(struct importing *im);
/* Set the columns of a dataset for it: of a map of fields, or of a named type (custom
 * NULL).  Return false for another type. */
bool import_axolotl_answer(struct importing *im, const struct node *custom,
                           const char *type, struct import_data *set);
/* Import the losses DFT and EAFT. */
void import_axolotl_loss(struct importing *im);
/* Import micro_batch_size and the accumulation of a step. */
void import_axolotl_batch(struct importing *im);
/* Import packing and the treatment of samples that are too long; is_text: stage pt. */
void import_axolotl_packing(struct importing *im, bool is_text);
/* Import saving, resuming, evaluation and the best model. */
void import_axolotl_saving(struct importing *im);
/* Import tokens and special_tokens. */
void import_axolotl_tokens(struct importing *im);
/* Import training on images or sound, which processor_type turns on.  Return false, with an
 * error, for a model whose encoder is not supported. */
bool import_axolotl_media(struct importing *im);
/* Choose the template that has images, after the data. */
void import_axolotl_media_template(struct importing *im);
extern const struct import_group import_axolotl_groups[];
extern const size_t import_axolotl_group_count;

bool import_v1(struct importing *im);
/* Import train_dataset, and the stage that its data or its name require. */
void import_v1_data(struct importing *im);
/* Import model, method and quantization, after the data.  Return false on errors. */
bool import_v1_model(struct importing *im);

bool import_torchtune(struct importing *im);
bool import_script(struct importing *im);
/* Import the loss of the stages dpo and kto.  Return false, with an error, for one that a
 * job does not have. */
bool import_script_loss(struct importing *im);
/* Import or list the arguments of a script that a job has no key for.  Return false on
 * errors. */
bool import_script_left(struct importing *im);
/* Return whether the loss is one of stage dpo. */
bool import_torchtune_is_preference(struct importing *im);
/* Import model, method, teacher and reference.  Return false on errors. */
bool import_torchtune_model(struct importing *im);
/* Of Llama 3.2 Vision: what a recipe trains, which may be refused; whether its data has images. */
bool import_torchtune_is_vision(struct importing *im);
bool import_torchtune_vision(struct importing *im, bool lora);
bool import_torchtune_has_images(struct importing *im);
/* Import cutoff_len. */
void import_torchtune_length(struct importing *im);
void import_torchtune_data(struct importing *im);
/* Import optimizer, schedule, steps, saving and evaluation, after the model. */
void import_torchtune_training(struct importing *im);
/* Return the last word of PATH._component_, as in "torch.optim.AdamW"; "" if there is
 * none. */
const char *import_torchtune_component(struct importing *im, const char *path);

#endif
