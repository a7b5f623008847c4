/*
 * train/files/unpickle.h - reader of Python's pickle format, protocol 2, for files that
 * are not trusted.  A pickle is a program for a small machine.  This one has the opcodes
 * of plain values only, and what it may name or call is a table of the caller's: nothing
 * is imported or executed.  Memory and time are in proportion to the pickle.
 */
#ifndef TRAIN_FILES_UNPICKLE_H
#define TRAIN_FILES_UNPICKLE_H

#include "base/arena.h"

enum pickled_kind {
    PICKLED_NONE,
    PICKLED_BOOL,
    PICKLED_INT,
    PICKLED_REAL,
    PICKLED_TEXT,
    PICKLED_TUPLE,
    PICKLED_LIST,
    PICKLED_DICT,
    PICKLED_GLOBAL,
    PICKLED_OBJECT, /* made by the caller */
};

struct pickled;

/* A value, in the arena. */
struct pickled {
    enum pickled_kind kind;
    union {
        int64_t integer;  /* of BOOL and INT */
        const char *text; /* without NULs */
        struct {
            const struct pickled **items;
            size_t count;
        } tuple;
        struct pickled_pair *pairs; /* of DICT: the last one first */
        const struct pickle_global *global;
        const void *object;
    };
};

struct pickled_pair {
    const struct pickled *key, *value;
    struct pickled_pair *before;
};

/* What a pickle may name. */
struct pickle_global {
    const char *module, *name;
    /* Return the result of a call with a tuple; NULL with *err.  NULL: not callable. */
    const struct pickled *(*call)(const struct pickled *arguments, void *context,
                                  struct error *err);
    const void *meaning;
};

struct pickle_rules {
    const struct pickle_global *globals;
    size_t count;
    /* Return the object of a persistent id; NULL with *err. */
    const struct pickled *(*persistent)(const struct pickled *id, void *context,
                                        struct error *err);
    void *context;
};

/* Return the value of a pickle; NULL with ERROR_DATA. */
const struct pickled *unpickle(const void *data, size_t len,
                               const struct pickle_rules *rules, struct arena *arena,
                               struct error *err);

#endif
