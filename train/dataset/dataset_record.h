/* train/dataset/dataset_record.h - one record of a data file as a conversation or as plain
 * text. */
#ifndef TRAIN_DATASET_DATASET_RECORD_H
#define TRAIN_DATASET_DATASET_RECORD_H

#include "base/json.h"
#include "train/chat/template.h"
#include "train/dataset/dataset_source.h"

/* The messages of one record, in order.  Starts as zeros.  Texts point into the record's JSON, or into `own`. */
struct conversation {
    struct message *messages;
    size_t count, room;
    char **own;
    size_t own_count, own_room;
};

void conversation_clear(struct conversation *conversation); /* empties it, keeps memory */
void conversation_free(struct conversation *conversation);

void conversation_add(struct conversation *out, const struct message *message);
/* Keep a text that is not in the JSON as it stands: a message of it, without a role, that
 * is yet to be added.  `text` is left empty. */
struct message conversation_own(struct conversation *out, struct text *text);
/* The same of JSON, written as a text. */
struct message conversation_own_json(struct conversation *out, const json_t *json);

enum record_kind {
    RECORD_BROKEN,       /* *err is set, without a place */
    RECORD_CONVERSATION, /* system or none, then user and assistant in turn */
    RECORD_TEXT,         /* one message, its text */
    RECORD_SKIPPED       /* *why says for which reason it is left out */
};

/* plain: for stage pt, where the prompt alone is the text (LLaMA-Factory does so).  A
 * record without the column of the prompt asks by its query, as a table has null
 * there. */
enum record_kind dataset_record_read(const struct dataset_source *source,
                                     const json_t *record, bool plain,
                                     struct conversation *out, const char **why,
                                     struct error *err);

/* The same for stage dpo.  RECORD_CONVERSATION: a question and the chosen answer, and in
 * *rejected the other one to the same question, of the same lifetime. */
enum record_kind dataset_record_read_pair(const struct dataset_source *source,
                                          const json_t *record, struct conversation *out,
                                          struct message *rejected, const char **why,
                                          struct error *err);

/* Whether a file has the column of the prompt in any record: where not, its name is
 * wrong. */
struct dataset_prompts {
    bool there, missing; /* in some record that was noted */
};
void dataset_prompts_note(struct dataset_prompts *prompts,
                          const struct dataset_source *source, const json_t *record);
/* ERROR_DATA where it is missing in all records of `path`. */
bool dataset_prompts_check(const struct dataset_prompts *prompts,
                           const struct dataset_source *source, const char *path,
                           struct error *err);

#endif
