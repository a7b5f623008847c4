/* train/jinja/jinja_run.h - one rendering: its memory, limits and failure state. The
 * first failure is kept; after it, every function returns none immediately, and the
 * caller checks jinja_failed(). */
#ifndef TRAIN_JINJA_JINJA_RUN_H
#define TRAIN_JINJA_JINJA_RUN_H

#include "base/arena.h"
#include "base/size.h"
#include "train/jinja/jinja.h"

enum jinja_kind {
    JINJA_ABSENT, /* an argument that was not given */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_REAL,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_RANGE,
    JINJA_VIEW,     /* of a dict: keys, values, items */
    JINJA_ITERATOR, /* consumed by the first reader */
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_FUNCTION, /* a macro, a method of a value, a built-in function */
    JINJA_LOOP,
    JINJA_KINDS
};

struct jinja_value {
    uint8_t kind;    /* enum jinja_kind */
    uint8_t object;  /* undefined: kind of the object; ABSENT: a variable */
    bool is_message; /* undefined: the text is the complete message */
    bool is_escaped; /* string: of `safe` or `escape`; + escapes what is added to it */
    uint32_t len;    /* string, undefined: bytes of text */
    union {
        bool truth;
        int64_t integer;
        double real;
        const char *text;
        struct jinja_list *list;
        struct jinja_dict *dict;
        struct jinja_function *function;
        struct jinja_loop *loop;
    };
};

struct jinja_variable {
    const char *name; /* compared by address: the parser stores each name once */
    struct jinja_value value;
    struct jinja_variable *next;
};

struct jinja_scope {
    struct jinja_scope *parent;
    struct jinja_variable *variables;
};

struct jinja_node;

struct jinja_run {
    const struct jinja *jinja;
    struct arena *arena;
    struct error *err;
    bool refused;  /* the template called raise_exception */
    uint32_t line; /* current line */
    size_t steps, depth, bytes;
    size_t steps_max, bytes_max; /* of this rendering */
    struct jinja_scope *scope;
    struct jinja_value variables; /* passed by the caller, a dict */
    struct jinja_output *out;     /* spans go here */
    struct text *text;            /* current output: that of `out`, or of a macro */
};

/*
 * Limits of a rendering. A step is a node of the template, or an operation on 16 bytes of
 * text. A conversation of 1000 short messages takes about 10^5 steps, 1 s is enough for
 * about 10^7. Each further byte of the variables allows for 8 steps, in which a text is
 * read 128 times, and for 64 bytes of memory, which hold 16 copies of a text with one
 * value per word.
 */
#define JINJA_STEPS_FREE     ((size_t)4 << 20)
#define JINJA_STEPS_PER_BYTE ((size_t)8)
#define JINJA_STEP_BYTES     ((size_t)16)
#define JINJA_BYTES_FREE     ((size_t)32 << 20)
#define JINJA_BYTES_PER_BYTE ((size_t)64)
#define JINJA_BYTES_MAX      ((size_t)256 << 20)
#define JINJA_DEPTH_MAX      ((size_t)400)

bool jinja_failed(const struct jinja_run *run);
/* Set the error, with the template's name and the current line; return none. */
struct jinja_value jinja_fail(struct jinja_run *run, const char *fmt, ...)
    TS_PRINTF(2, 3);
/* Fail with the name of what is undefined. */
struct jinja_value jinja_fail_undefined(struct jinja_run *run,
                                        const struct jinja_value *undefined);
/* Count work on this many bytes; return false if the limit is exceeded or the run has
 * failed. */
bool jinja_work(struct jinja_run *run, size_t bytes);
/* Return zeroed memory; NULL if the limit is exceeded, and the run has failed. */
void *jinja_alloc(struct jinja_run *run, size_t count, size_t size);
/* Enter one level, and leave it; false if the limit is reached. */
bool jinja_enter(struct jinja_run *run);
void jinja_leave(struct jinja_run *run);

/* Expressions: jinja_evaluate.c. */
struct jinja_value jinja_evaluate(struct jinja_run *run, const struct jinja_node *node);
/* value[key] and value.name, as transformers' sandbox allows them. */
struct jinja_value jinja_item(struct jinja_run *run, const struct jinja_value *value,
                              const struct jinja_value *key);
struct jinja_value jinja_attribute(struct jinja_run *run, const struct jinja_value *value,
                                   const struct jinja_value *name);
/* Statements: jinja_execute.c. */
enum jinja_flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };
enum jinja_flow jinja_execute(struct jinja_run *run, const struct jinja_node *node);
/* Return the text that they print, as a string. */
struct jinja_value jinja_capture(struct jinja_run *run, const struct jinja_node *body);
void jinja_set(struct jinja_run *run, const char *name, const struct jinja_value *value);

#endif
