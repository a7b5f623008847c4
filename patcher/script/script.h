/*
 * patcher/script/script.h - a Python training script, read as if it were a job.
 *
 * script_read makes a document whose keys and values have the positions of the arguments
 * in the script, so that the rules and edits of jobs apply to it.  A script is never
 * executed: an argument counts if it is a literal, a name assigned to one, or an
 * expression of the device, as in torch.cuda.is_available().
 */
#ifndef PATCHER_SCRIPT_SCRIPT_H
#define PATCHER_SCRIPT_SCRIPT_H

#include "patcher/document/document.h"
#include "precision/device.h"

/* Return whether a job of this name is a script: NAME.py, or a notebook, NAME.ipynb,
 * which is reported as not supported. */
bool script_is_name(const char *job);
/* Whether this build can read scripts. */
bool script_supported(void);

/* A fault of a loop written by hand, for the rules TS128 to TS131 and TS902. */
enum script_fault_kind {
    LOOP_CLIPS_SCALED,   /* TS128: gradients are clipped before they are unscaled */
    LOOP_NO_SCALER,      /* TS129: fp16 autocast without a scaler */
    LOOP_NO_UPDATE,      /* TS130: scaler.step without scaler.update */
    LOOP_UNSCALES_TWICE, /* TS130 */
    LOOP_STEPS_SCALED,   /* TS130: optimizer.step after scaler.scale(loss).backward() */
    LOOP_HALF_MODULE,    /* TS902: another float16 module in the optimizer */
    LOOP_FURTHER,        /* TS131: a second training, which is not read */
    LOOP_FAULTS
};

struct script_fault_at {
    enum script_fault_kind kind;
    size_t at, bytes;
    const char *name; /* of the scaler, the module or the optimizer, or NULL */
    size_t edit_at, edit_cut;
    const char *edit; /* the text that corrects it, or NULL */
};

/* An argument that is not a row of the document.  Its value is as in a row, or the text of
 * the script if that is known only when the script runs. */
struct script_left {
    struct entry entry;
    bool unread; /* the value is not known */
};

/* What rules read besides the document. */
struct script_facts {
    const struct script_fault_at *faults; /* in the order of the text */
    size_t fault_count;
    /* the keyword `tokenizer` of Trainer(...), or bytes 0; of_transformers: the class
     * itself, not a subclass */
    size_t tokenizer_at, tokenizer_bytes;
    bool tokenizer_of_transformers;
    /* last words of the names; NULL: there is none */
    const char *model_class, *trainer_class, *arguments_class;
    /* arguments of load_dataset, if they are known */
    const char *data_path, *data_name, *data_files, *data_split;
    /* reward_funcs of the trainer: full names with commas, "trl.rewards.accuracy_reward";
     * "?" for what is not a name.  NULL: no such argument */
    const char *rewards;
    /* soft_punish_cache and max_completion_len of get_soft_overlong_punishment among them,
     * or NULL */
    const char *punish_cache, *punish_length;
    /* arguments of the trainer, of TRL's and PEFT's classes, and of the model that a job
     * has no row for, in the order of the script */
    const struct script_left *left;
    size_t left_count;
    bool quantizes;     /* the model has a quantization_config */
    bool keeps_dropout; /* disable_dropout=False among TRL's arguments */
    bool is_loop;       /* no TrainingArguments: the script has its own loop */
    bool names_model;   /* the trainer is passed a name and loads the model itself */
};

struct script_source {
    const char *name;
    const struct device *device; /* NULL: unknown */
};

/*
 * Read a script.  The device evaluates expressions such as torch.cuda.is_available(); without one
 * they are unknown.  Faults are in the document's remarks, as for a job.
 */
void script_read(const struct script_source *source, const char *data, size_t len,
                 struct arena *arena, struct document *out);

/* Return what the script of a document says besides its rows; none for a job. */
const struct script_facts *script_facts_of(const struct document *document);

#endif
