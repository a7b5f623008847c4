/* train/chat/conversation.h - the messages of one record, in their order. */
#ifndef TRAIN_CHAT_CONVERSATION_H
#define TRAIN_CHAT_CONVERSATION_H

#include "base/json.h"
#include "train/chat/template.h"

/* Starts as zeros.  Texts point into the record's JSON, or into `own`. */
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

#endif
