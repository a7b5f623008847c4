/* train/model/adapter_targets.h - names of modules that get an adapter, or are trained as a
 * whole, as PEFT reads them. */
#ifndef TRAIN_MODEL_ADAPTER_TARGETS_H
#define TRAIN_MODEL_ADAPTER_TARGETS_H

#include "train/model/lora.h"

/* A list of target names, and the context of its error messages. */
struct target_list {
    const struct architecture *architecture;
    const char *key; /* of the list */
    bool linear;     /* accept only linear layers */
    enum error_code code;
    const char *file; /* of the list; NULL: the job */
    /* skip a name that no module has, as PEFT does if another one matches */
    bool skips;
    /* a name matches layers that the list does not have: those of an encoder */
    bool matched;
    bool low_rank; /* leave out what PEFT refuses to adapt by LoRA */
    /* the path of a head for tokens in a model that computes scores, which nothing reads: its
     * names mark nothing; NULL: the model has none */
    const char *unread;
};

/* Return the targets of a job, and their key.  LLaMA-Factory 0.9.4 reads lora_target with
 * either kind of adapter, and ignores oft_target. */
const char *adapter_targets_names(const struct plan *plan, const char **key);
/* Return the list lora_target or oft_target of a job, without its names. */
struct target_list adapter_targets_of_job(const struct architecture *a,
                                          const struct plan *plan, const char *key);
/* The same for additional_target. */
struct target_list adapter_targets_of_saved(const struct model_config *config);

/* Return whether a module can have an adapter: a linear layer, but not experts that files
 * have in one tensor, which are no layers for PEFT. */
bool adapter_targets_can(const struct architecture *a, enum module module);

/* Return whether a name matches the module.  `linear`: the name is the end of a path;
 * else it is the end of a name, as in modules_to_save. */
bool adapter_targets_match(const struct architecture *a, enum module module,
                           const char *name, size_t len, bool linear);
/* Return the last part of a module's path, or the whole path if the last part would also
 * match a module without a mark ("c_proj"). */
const char *adapter_targets_name(const struct architecture *a, const bool *marks,
                                 enum module module, bool linear);

/* Mark the modules of one name, which may be several: "c_proj", "norm". */
bool adapter_targets_mark(const struct target_list *list, const char *name, size_t len,
                          bool *marks, struct error *err);
/* Mark those of names separated by commas. */
bool adapter_targets_mark_names(const struct target_list *list, const char *names,
                                bool *marks, struct error *err);
/* Append the names that it skips, separated by commas, those of the head that nothing reads,
 * and every name that there is. */
void adapter_targets_add_skipped(const struct target_list *list, const char *names,
                                 struct text *out);
void adapter_targets_add_unread(const struct target_list *list, const char *names,
                                struct text *out);
void adapter_targets_add_known(const struct target_list *list, struct text *out);
/* Mark every linear layer of the blocks that the list can have. */
void adapter_targets_all(const struct target_list *list, bool *marks);
/* Set an error for a regular expression, of a key, that matches the name of no layer. */
bool adapter_targets_fail_pattern(const struct architecture *a, const char *key,
                                  enum error_code code, struct error *err);
/* Compute the scale; fail with `code` if no layer is adapted. */
bool adapter_targets_finish(struct lora *out, const char *where, enum error_code code,
                            struct error *err);

#endif
