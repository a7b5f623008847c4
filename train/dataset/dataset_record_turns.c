/* train/dataset/dataset_record_turns.c - records whose column `texts` is a list of questions and
 * answers, as The Cauldron and torchtune's datasets of that form have it. */
#include "config.h"

#include "base/size.h"
#include "train/dataset/dataset_record_internal.h"
#include "train/media/media_family.h"

static const char column[] = "texts";

bool record_has_turns(const struct reading *reading)
{
    const json_t *list = record_get(reading, column), *first = json_array_get(list, 0);

    return json_is_array(list) && (!first || json_object_get(first, "user") ||
                                   json_object_get(first, "assistant"));
}

/* A question with the placeholders of all media in front, as torchtune's
 * TheCauldronToMessages has them: datasets/multimodal/_the_cauldron.py. */
static struct message with_media(const struct reading *reading,
                                 const struct message *message)
{
    struct text text;

    text_init(&text, 0);
    for (size_t i = 0; i < reading->out->media_count; i++)
        text_adds(&text, media_placeholder(reading->out->media[i].kind));
    text_add(&text, message->text, message->len);
    return conversation_own(reading->out, &text);
}

static bool add_text(const struct reading *reading, const json_t *turn, enum role role)
{
    const char *key = role == ROLE_USER ? "user" : "assistant";
    const json_t *value = json_object_get(turn, key);
    struct message message = { 0 };

    if (!json_is_object(turn)) {
        record_broken(reading, column,
                      "a list of objects {\"user\": ..., \"assistant\": ...}", turn);
        return false;
    }
    if (!record_is_text(value)) {
        record_broken(reading, key, "a string", value);
        return false;
    }
    record_take_text(reading, value, &message);
    if (reading->out->count == 0 && reading->out->media_count > 0)
        message = with_media(reading, &message);
    message.role = role;
    message.weight = 1;
    conversation_add(reading->out, &message);
    return true;
}

enum record_kind record_turns(struct reading *reading)
{
    const json_t *list = record_get(reading, column);
    struct dataset_columns columns = { .messages = column };

    record_detect_media(reading, &columns);
    reading->columns = &columns;
    if (!record_note_columns(reading))
        return RECORD_BROKEN;
    if (json_array_size(list) == 0)
        return record_skipped(reading, "without a question");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *turn = json_array_get(list, i);

        if (!add_text(reading, turn, ROLE_USER) ||
            !add_text(reading, turn, ROLE_ASSISTANT))
            return RECORD_BROKEN;
    }
    return RECORD_CONVERSATION;
}
