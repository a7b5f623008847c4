/* train/dataset/dataset_record_parts.h - for the forms of records alone: what is read, and how it
 * is told that it is something else. */
#ifndef TRAIN_DATASET_DATASET_RECORD_PARTS_H
#define TRAIN_DATASET_DATASET_RECORD_PARTS_H

#include "train/dataset/dataset_record.h"

/* Reading of one record.  All is borrowed. */
struct reading {
    const struct dataset_columns *columns;
    const json_t *record;
    struct conversation *out;
    const char **why; /* it is left out */
    struct error *err;
};

/* The value under `column`, NULL where there is no such column or key. */
const json_t *record_get(const struct reading *reading, const char *column);
/* Missing, or null. */
bool record_is_absent(const json_t *value);
/* A string, or nothing as ""; false with *err: something else. */
bool record_text(const struct reading *reading, const char *column,
                 struct message *message);

/* ERROR_DATA: `key` must be `wanted` ("a string", "a list") and is what `got` is, with
 * what to do about it.  RECORD_BROKEN. */
enum record_kind record_broken(const struct reading *reading, const char *key,
                               const char *wanted, const json_t *got);
/* `why` stays.  RECORD_SKIPPED. */
enum record_kind record_skipped(const struct reading *reading, const char *why);

/* False with *err: it is no object, or its records are in a list of it ({"data":
 * [...]}). */
bool record_is_object(const struct reading *reading);
bool record_is_flat(const struct reading *reading);

/* Add the functions there are: a list, or a string of one; none is fine. */
bool record_tools(const struct reading *reading, const char *column);
/* Add the system message, where there is one that says anything. */
bool record_system(const struct reading *reading, const char *column);

/* Is there a question in the columns of one?  False with *err. */
bool record_asks(const struct reading *reading);
/* Add what comes before an answer: system message, tools, history, and the question. */
bool record_question(const struct reading *reading);
/* Where a message says its role and its text: by its keys, as forms are often mixed. */
void record_tags(struct dataset_columns *columns, const json_t *message);

/* dataset_messages.c: all of a record that is a list of messages; the first `count`
 * messages of a list with tools and system message of the record; and one message.
 * RECORD_CONVERSATION: it was added.  Of all, turns are looked at by the first alone. */
enum record_kind record_messages(const struct reading *reading);
enum record_kind record_list(const struct reading *reading, const json_t *list,
                             size_t count);
enum record_kind record_message(const struct reading *reading, const json_t *item);

#endif
