/* patcher/script/script_internal.h - shared by the files of script.h. */
#ifndef PATCHER_SCRIPT_SCRIPT_INTERNAL_H
#define PATCHER_SCRIPT_SCRIPT_INTERNAL_H

#include "patcher/script/script.h"
#include "patcher/script/script_tree.h"

/* ---- Names ---- */

/* One assignment to a name, to `self.name` or to `name["key"]`. */
struct binding {
    const char *name;           /* "model", "self.model", "kwargs[fp16]" */
    const struct syntax *scope; /* its function, class or module */
    const struct syntax *value; /* NULL: unknown, as for a loop's variable */
    const struct syntax *at;    /* the target */
    int index;                  /* of the value, if that is a tuple; -1: all of it */
    bool is_default;            /* the default of a parameter: callers may pass another */
    int parameter;              /* its position from 1, or 0: not a parameter */
};

/* `import torch as t`: t is torch; `from peft import LoraConfig`: peft.LoraConfig. */
struct import_name {
    const char *name, *path;
};

/* The row of a document: where its value is written. */
struct script_item {
    const struct syntax *call;     /* the call it is an argument of, or a dictionary */
    const struct syntax *argument; /* keyword, pair, or the value itself; NULL: made up */
    const struct syntax *value;    /* the text that an edit replaces */
};

struct script {
    struct syntax_tree tree;
    const struct device *device;
    struct arena *arena;
    struct document *document;
    struct binding *bindings; /* sorted by name, then by position */
    size_t binding_count;
    struct import_name *imports;
    size_t import_count;
    const struct syntax **calls; /* all calls, in the order of the text */
    size_t call_count;
    const struct script_class **classes; /* of the calls; see script_class_of */
    bool *classified;
    size_t budget; /* evaluations left */
    int depth;     /* of evaluations */
    struct script_facts facts;
    struct script_item *items; /* one per row of the document's root */
};

/* Collect the names, imports and calls of the tree. */
void script_names_read(struct script *script);
/* Find the assignment that a use of the name refers to, or NULL. */
const struct binding *script_find(struct script *script, const char *name,
                                  const struct syntax *use);
/* The assignments to a name, in the order of the text. */
const struct binding *script_bindings(const struct script *script, const char *name,
                                      size_t *count);
/* Return the expression that is assigned: for a parameter, what the only call of its
 * function passes.  NULL: unknown.  *certain: no other value is possible. */
const struct syntax *script_assigned(struct script *script, const struct binding *binding,
                                     bool *certain);
/* Return how often a name is read. */
size_t script_count_uses(const struct script *script, const char *name);
/* Return an expression's dotted name with imports resolved, "torch.cuda.is_available";
 * NULL: not a name. */
const char *script_path(const struct script *script, const struct syntax *node);
/* Return the last word of a dotted name. */
const char *script_last(const char *path);
/* Return the name of the function a call calls, with imports resolved, or NULL. */
const char *script_callee(const struct script *script, const struct syntax *call);

/* ---- Values ---- */

enum script_value_kind {
    SCRIPT_UNKNOWN,
    SCRIPT_BOOL,
    SCRIPT_NUMBER,
    SCRIPT_STRING,
    SCRIPT_NULL,
    SCRIPT_DTYPE, /* torch.float16: text is "float16" */
    SCRIPT_LIST,  /* a list or tuple: node */
    SCRIPT_DICT,  /* a dictionary or a call of dict: node */
    SCRIPT_CALL   /* the result of a call that is not known: node */
};

struct script_value {
    enum script_value_kind kind;
    bool computed; /* depends on the device, an option or a default */
    bool boolean;
    double number;
    const char *text;
    const struct syntax *node; /* what was evaluated last: the literal */
    const char *name;          /* the name that led to the literal, or NULL */
};

struct script_value script_bool(const struct syntax *node, bool value);
struct script_value script_number(const struct syntax *node, double value);
/* Return the value, marked as computed. */
struct script_value script_computed(struct script_value value);
struct script_value script_evaluate(struct script *script, const struct syntax *node);
/* Evaluate an operator, a condition or a subscript; SCRIPT_UNKNOWN for any other
 * node. */
struct script_value script_operate(struct script *script, const struct syntax *node);
/* Return the truth of a value: 1, 0, or -1 if it is unknown. */
int script_truth(const struct script_value *value);
/* Return the value as YAML, or NULL if it has none. */
const char *script_yaml(struct script *script, const struct script_value *value);
/* Return the text of strings and numbers in a list, with commas; NULL if another value is
 * among them. */
const char *script_list_text(struct script *script, const struct syntax *list);

/* ---- Calls ---- */

/* An argument of a call, after `*` and `**` are resolved. */
struct script_argument {
    const char *name; /* NULL: by position */
    size_t position;  /* of an argument without a name */
    const struct syntax *value;
    const struct syntax *written; /* keyword, pair, or value */
    const struct syntax *holder;  /* the call or the dictionary that has it */
    bool computed;                /* from a dictionary chosen by an expression */
};

/* Call `take` for each argument in order; of several with one name, only the last is
 * used by Python. */
void script_arguments(struct script *script, const struct syntax *call,
                      void (*take)(void *context, const struct script_argument *argument),
                      void *context);
/* Find an argument by its name, or by its position (-1: none). */
bool script_argument_find(struct script *script, const struct syntax *call,
                          const char *name, int position, struct script_argument *out);
/* Evaluate an argument; SCRIPT_UNKNOWN if it is absent. */
struct script_value script_argument_value(struct script *script,
                                          const struct syntax *call, const char *name,
                                          int position);
/* Return the text that names an argument, or all of it if it has no name. */
const struct syntax *script_argument_keyword(const struct script_argument *argument);
/* Return the members of a dictionary or a call of dict as arguments. */
void script_members(struct script *script, const struct syntax *dict,
                    void (*take)(void *context, const struct script_argument *argument),
                    void *context);

/* ---- The document ---- */

struct script_call_class;

/* What a class is for. */
enum script_role {
    ROLE_NONE,
    ROLE_ARGUMENTS, /* TrainingArguments and its subclasses */
    ROLE_ADAPTER,   /* LoraConfig */
    ROLE_QUANTIZATION,
    ROLE_TRAINER,
    ROLE_MODEL,   /* from_pretrained of a model */
    ROLE_WRAPPER, /* a function that returns its first argument, changed */
    ROLE_ADAPTED, /* the same, with adapters */
    ROLE_SCALER,
    ROLE_AUTOCAST,
    ROLE_ACCELERATOR,
    ROLE_LIGHTNING,
    ROLE_OPTIMIZER,
    ROLE_CLIP
};

struct script_class {
    const char *name; /* last word of the callee */
    enum script_role role;
    bool exact;          /* all arguments are those of the key table */
    const char *stage;   /* the job's stage, or NULL */
    const char *target;  /* as in trainspool.target, or NULL: external */
    const char *program; /* of the target: "sft", or NULL */
};

/* An argument that has another name or place in a job. */
struct script_key {
    enum script_role role;
    const char *argument;
    int position; /* -1: only by name */
    const char *key;
};

/* Return the row of a call, or NULL. */
const struct script_class *script_class_of(const struct script *script,
                                           const struct syntax *call);
/* Return the row of the arguments that TRL's trainer makes if it is passed none, or NULL. */
const struct script_class *script_class_of_trainer(const struct script *script,
                                                   const struct syntax *trainer);
/* Return the key of an argument, or NULL if a job has none. */
const char *script_key_of(const struct script_class *row,
                          const struct script_argument *argument);
/* Return whether a key may be added to TrainingArguments. */
bool script_may_add(const char *key);

/* The model that a script trains, and how it got there. */
struct script_model {
    const struct syntax *load;  /* from_pretrained, or NULL */
    const struct syntax *adapt; /* get_peft_model, or NULL */
    const struct syntax *cast;  /* the last half(), to(dtype), float(), or NULL */
    const char *cast_dtype;
    const struct syntax *cast_at; /* the text that names the format */
    bool cast_after_adapt;
    const char *names[8]; /* the names it had */
    size_t name_count;
};

/* Follow the value of an expression back to where the model is loaded. */
void script_model_trace(struct script *script, const struct syntax *node,
                        struct script_model *out);
/* Find the last cast of the model before `before`. */
void script_model_casts(struct script *script, size_t before, struct script_model *out);

/* Fill document.root and items. */
void script_document(struct script *script);
/* Fill facts. */
void script_loop(struct script *script);

#endif
