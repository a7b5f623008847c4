/* train/dataset/dataset_record_internal.h - private to the record readers: access to the
 * columns of a record, and error messages for wrong types. */
#ifndef TRAIN_DATASET_DATASET_RECORD_INTERNAL_H
#define TRAIN_DATASET_DATASET_RECORD_INTERNAL_H

#include "train/dataset/dataset_record.h"

/* State while reading one record. Everything is borrowed. */
struct reading {
    const struct dataset_columns *columns;
    const json_t *record;
    struct conversation *out;
    const char **why; /* the reason why it is left out */
    struct error *err;
};

/* The value in `column`, NULL if there is no such column or key. */
const json_t *record_get(const struct reading *reading, const char *column);
/* Missing, or null. */
bool record_is_absent(const json_t *value);
/* Return whether it is absent, or an empty string or list. */
bool record_is_empty(const json_t *value);
/* A string, or a number, which is read as its digits: LLaMA-Factory stops at it, and
 * classification data have such answers. */
bool record_is_text(const json_t *value);
void record_take_text(const struct reading *reading, const json_t *value,
                      struct message *message);
/* Read a text, or "" if it is absent. False with *err for any other type. */
bool record_text(const struct reading *reading, const char *column,
                 struct message *message);

/* Set ERROR_DATA: `key` must be `expected` ("a string", "a list"), not the type of `got`,
 * with a remedy. Return RECORD_BROKEN. */
enum record_kind record_broken(const struct reading *reading, const char *key,
                               const char *expected, const json_t *got);
/* `why` must live as long as the conversation. Return RECORD_SKIPPED. */
enum record_kind record_skipped(const struct reading *reading, const char *why);

/* Return false with *err if the record is not an object, or if it holds the records in a
 * list ({"data": [...]}). */
bool record_is_object(const struct reading *reading);
bool record_is_flat(const struct reading *reading);

/* dataset_record_media.c: in a file named directly, find the columns of media by their
 * usual names. */
void record_detect_media(const struct reading *reading, struct dataset_columns *columns);
/* Add the media of the columns; those that were added before are removed. */
bool record_media(const struct reading *reading);
/* Read a part of a message. Return 1: it is a medium, which was added, with its
 * placeholder in *text (the message's, so far); 0: it is none; -1: *err is set. */
int record_part(const struct reading *reading, const json_t *part, struct text *text);
/* A list of parts as templates read it, with {"type": "image"} for a medium; NULL: it has
 * no medium. The caller owns the reference. */
json_t *record_parts_own(const json_t *parts);
/* Let the parts from `first` on be those of the message with this text. */
void record_parts_end(const struct reading *reading, size_t first, const char *text);

/* Note the columns of the record that are read, its media and its chat_template_kwargs.
 * False with *err if these are not an object. */
bool record_note_columns(const struct reading *reading);

/* Add the tool functions, if any: a list, or a string with a list. */
bool record_tools(const struct reading *reading, const char *column);
/* Add the system message, unless it is absent or empty. */
bool record_system(const struct reading *reading, const char *column);

/* Return whether the record has a question column. False with *err. */
bool record_has_question(const struct reading *reading);
/* Add everything before the answer: system message, tools, history and the question. */
bool record_question(const struct reading *reading);
/* Detect the keys that hold role and text of a message, because forms are often mixed. */
void record_detect_tags(struct dataset_columns *columns, const json_t *message);

/* dataset_record_turns.c: return whether the record is a list `texts` of questions and answers,
 * as in The Cauldron; and read it. */
bool record_has_turns(const struct reading *reading);
enum record_kind record_turns(struct reading *reading);

/* dataset_messages.c: a complete record that is a list of messages; the first `count`
 * messages of a list, with tools and system message of the record; and one message.
 * RECORD_CONVERSATION: it was added. Only the first function checks the turns. */
enum record_kind record_messages(const struct reading *reading);
enum record_kind record_list(const struct reading *reading, const json_t *list,
                             size_t count);
enum record_kind record_message(const struct reading *reading, const json_t *item);
/* TRL's form: the messages of `prompt` are context, those of `completion` are trained on.
 * Each may also be a text. */
enum record_kind record_completion(const struct reading *reading, const json_t *prompt,
                                   const json_t *completion);
/* Return whether the messages of a list continue a conversation: the first is not its
 * system message or its first question. */
bool record_continues(const struct reading *reading, const json_t *list);

#endif
