/* train/jinja/jinja_value.h - values of a template: Python's types as far as templates
 * need them. They are in the arena of a run and are immutable, except namespaces. */
#ifndef TRAIN_JINJA_JINJA_VALUE_H
#define TRAIN_JINJA_JINJA_VALUE_H

#include "train/jinja/jinja_run.h"

struct jinja_list {
    struct jinja_value *items;
    size_t count;
    size_t next; /* of an iterator: items already taken */
    /* of a view: "dict_keys"; of a range: its complete text */
    const char *label;
};

struct jinja_entry {
    struct jinja_value key, value;
};

struct jinja_dict { /* also for namespaces */
    struct jinja_entry *entries;
    size_t count, room;
};

/* A {% for %} in progress, the variable `loop`. */
struct jinja_loop {
    const struct jinja_list *items;
    size_t index;
    struct jinja_value changed; /* the last argument of loop.changed() */
};

#define JINJA_TEXT(string) jinja_string((string), sizeof(string) - 1)

struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(bool truth);
struct jinja_value jinja_int(int64_t integer);
struct jinja_value jinja_real(double real);
/* Borrow the bytes, which must live as long as the run. */
struct jinja_value jinja_string(const char *data, size_t len);
struct jinja_value jinja_copy(struct jinja_run *run, const char *data, size_t len);
/* Take the content of the text; the text is then empty and can be reused. */
struct jinja_value jinja_take(struct jinja_run *run, struct text *text);
struct jinja_value jinja_list_new(struct jinja_run *run, enum jinja_kind kind,
                                  size_t count);
struct jinja_value jinja_pair(struct jinja_run *run, struct jinja_value a,
                              struct jinja_value b); /* a tuple of two */
struct jinja_value jinja_dict_new(struct jinja_run *run, enum jinja_kind kind);
/* An undefined value: `name` of `object`, or a variable if object is NULL. */
struct jinja_value jinja_undefined(struct jinja_run *run,
                                   const struct jinja_value *object,
                                   struct jinja_value name);
struct jinja_value jinja_undefined_hint(const char *hint); /* the complete message */

/* Convert JSON to values of the same meaning. */
struct jinja_value jinja_from_json(struct jinja_run *run, const json_t *json);

bool jinja_truth(const struct jinja_value *value);
bool jinja_is_number(const struct jinja_value *value); /* bool, int or float */
double jinja_as_real(const struct jinja_value *number);
const char *jinja_type(const struct jinja_value *value); /* Python's name of its type */

bool jinja_equal(struct jinja_run *run, const struct jinja_value *a,
                 const struct jinja_value *b);
/* Negative, 0 or positive; fail with Python's message if the values have no order. */
int jinja_compare(struct jinja_run *run, const struct jinja_value *a,
                  const struct jinja_value *b, const char *sign);
bool jinja_contains(struct jinja_run *run, const struct jinja_value *all,
                    const struct jinja_value *one);

/* In Python, lists and dicts are not hashable, and tuples only if their items are. */
bool jinja_is_hashable(struct jinja_run *run, const struct jinja_value *key);
/* NULL if the key is absent; fail if it is not hashable. */
const struct jinja_value *jinja_dict_find(struct jinja_run *run,
                                          const struct jinja_dict *dict,
                                          const struct jinja_value *key);
void jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict,
                    const struct jinja_value *key, const struct jinja_value *value);

/* The items that a `for` over the value sees; consumes an iterator. Fail if it is not
 * iterable. */
struct jinja_list jinja_items(struct jinja_run *run, const struct jinja_value *value);
bool jinja_is_iterable(const struct jinja_value *value);
/* -1, and failure, if it has no length. */
int64_t jinja_length(struct jinja_run *run, const struct jinja_value *value);
/* Keys, values or (key, value) pairs, by `label`: dict_keys, dict_values, dict_items. */
struct jinja_value jinja_view(struct jinja_run *run, const struct jinja_dict *dict,
                              const char *label);

#endif
