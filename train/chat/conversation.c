/* train/chat/conversation.c - the messages of one record, and the texts that only they
 * have. */
#include "config.h"

#include "train/chat/conversation.h"

#include <stdlib.h>

#include "base/arena.h"

void conversation_clear(struct conversation *conversation)
{
    for (size_t i = 0; i < conversation->own_count; i++)
        free(conversation->own[i]);
    conversation->own_count = conversation->count = 0;
}

void conversation_free(struct conversation *conversation)
{
    conversation_clear(conversation);
    free(conversation->own);
    free(conversation->messages);
    *conversation = (struct conversation) { 0 };
}

void conversation_add(struct conversation *out, const struct message *message)
{
    if (out->count == out->room) {
        out->room = out->room ? 2 * out->room : 16;
        out->messages = memory_resize(out->messages, out->room, sizeof(struct message));
    }
    out->messages[out->count++] = *message;
}

struct message conversation_own(struct conversation *out, struct text *text)
{
    struct message message = { 0 };

    if (out->own_count == out->own_room) {
        out->own_room = out->own_room ? 2 * out->own_room : 16;
        out->own = memory_resize(out->own, out->own_room, sizeof(char *));
    }
    message.text = out->own[out->own_count++] = text_detach(text, &message.len);
    return message;
}

struct message conversation_own_json(struct conversation *out, const json_t *json)
{
    struct text text;

    text_init(&text, 0);
    json_write(json, &text);
    return conversation_own(out, &text);
}
