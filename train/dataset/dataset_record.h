/* train/dataset/dataset_record.h - one record of a data file as a conversation or as
 * plain text. */
#ifndef TRAIN_DATASET_DATASET_RECORD_H
#define TRAIN_DATASET_DATASET_RECORD_H

#include "base/json.h"
#include "train/chat/template.h"
#include "train/media/media_kind.h"
#include "train/dataset/dataset_source.h"

/* An image or a sound of a record: a file, or its bytes. */
struct record_medium {
    enum media_kind kind;
    const char *path; /* NULL: bytes without a name */
    const void *data; /* NULL: in the file */
    size_t len;
    /* The text of the message that it is a part of, and where its placeholder is there;
     * NULL: it is in a column, for the next placeholder. */
    const char *text;
    size_t at;
};

/* The messages of one record, in order. Starts as zeros. Texts point into the record's
 * JSON, or into `own`. */
struct conversation {
    struct message *messages;
    size_t count, room;
    char **own;
    size_t own_count, own_room;
    json_t *own_json;        /* a list; NULL: empty */
    const json_t *variables; /* chat_template_kwargs; NULL: none */
    bool has_numbers;        /* a number was read as text */
    struct record_medium *media;
    size_t media_count, media_room;
    struct dataset_columns columns; /* those that were looked for */
};

void conversation_clear(struct conversation *conversation); /* empties it, keeps memory */
void conversation_free(struct conversation *conversation);

void conversation_add(struct conversation *out, const struct message *message);
/* Take ownership of a text that the JSON does not contain in this form; `text` is empty
 * afterwards. Return a message with the text and without a role, which the caller
 * sets. */
struct message conversation_own(struct conversation *out, struct text *text);
/* The same for JSON, written as text. */
struct message conversation_own_json(struct conversation *out, const json_t *json);
/* Take ownership of a value, and return it. */
const json_t *conversation_keep(struct conversation *out, json_t *json);

enum record_kind {
    RECORD_BROKEN, /* *err is set, without a position */
    /* an optional system message, then alternating user and assistant */
    RECORD_CONVERSATION,
    RECORD_TEXT,   /* one message with the text */
    RECORD_SKIPPED /* *why is the reason why it is left out */
};

/* plain: for stage pt, where the text is the prompt alone (as in LLaMA-Factory). In a
 * record without the prompt column, the query is the question, as if the column were
 * null. */
enum record_kind dataset_record_read(const struct dataset_source *source,
                                     const json_t *record, bool plain,
                                     struct conversation *out, const char **why,
                                     struct error *err);

/* Read a record for stage dpo. RECORD_CONVERSATION: `out` is the question and the chosen
 * answer, and *rejected the other answer to it, with the same lifetime. */
enum record_kind dataset_record_read_pair(const struct dataset_source *source,
                                          const json_t *record, struct conversation *out,
                                          struct message *rejected, const char **why,
                                          struct error *err);

/* Read a record for stage kto: a question, an answer, and whether it is good. */
enum record_kind dataset_record_read_feedback(const struct dataset_source *source,
                                              const json_t *record,
                                              struct conversation *out, bool *good,
                                              const char **why, struct error *err);

/* Read a record for stage grpo: a prompt and the right answer, which is empty if the record
 * has none. */
enum record_kind dataset_record_read_prompt(const struct dataset_source *source,
                                            const json_t *record,
                                            struct conversation *out, const char **why,
                                            struct error *err);

/* The key at `iterator` of json_object_iter, if no part of the record was read from it;
 * NULL: it was, or it is empty. */
const char *dataset_record_unread(const struct conversation *conversation,
                                  void *iterator);

/* The records of a file, with or without the prompt column. If all lack it, the column
 * name is wrong. */
struct dataset_prompts {
    bool present, missing; /* in some record that was noted */
};
void dataset_prompts_note(struct dataset_prompts *prompts,
                          const struct dataset_source *source, const json_t *record);
/* ERROR_DATA if it is missing in all records of `path`. */
bool dataset_prompts_check(const struct dataset_prompts *prompts,
                           const struct dataset_source *source, const char *path,
                           struct error *err);

#endif
