/* train/dataset/dataset_expand.h - images and sounds of records: a placeholder in a text
 * becomes the tokens that their feature rows replace.
 *
 * The rules are LLaMA-Factory's (data/mm_plugin.py): each <image> and each <audio> of the
 * messages, except the system message, stands for the next medium of the record's column,
 * and there are as many of one as of the other. A medium that is a part of a message, as
 * OpenAI's form has it, stands where it is. */
#ifndef TRAIN_DATASET_DATASET_EXPAND_H
#define TRAIN_DATASET_DATASET_EXPAND_H

#include "train/dataset/dataset_record.h"
#include "train/dataset/dataset_tokens.h"

struct dataset_expand;

/* Media are added to the store. Both are borrowed. */
struct dataset_expand *dataset_expand_new(const struct dataset_reading *reading,
                                          struct dataset_store *store);
void dataset_expand_free(struct dataset_expand *expand);

/* Replace the placeholders in `count` messages, which have the media of `record`, by the
 * text of a medium; texts belong to `record`. ERROR_DATA if
 * placeholders and media do not match, if model or template does not read such media, or
 * if one cannot be read. */
bool dataset_expand_mark(struct dataset_expand *expand,
                         const struct dataset_position *position,
                         struct conversation *record, struct message *messages,
                         size_t count, struct error *err);
/* Return whether it failed because of this record: others may be fine. */
bool dataset_expand_blames_record(const struct dataset_expand *expand);
/* The media of these messages, for template_options; NULL: the job reads text alone. */
struct template_media *dataset_expand_media(struct dataset_expand *expand);
/* The media that template_encode has kept, by their index in the store; valid until the
 * next conversation. To be called once for each encoding. */
const struct media_span *dataset_expand_spans(struct dataset_expand *expand,
                                              size_t *count);

/* Append a note, for media whose files are not in media_dir. */
void dataset_expand_note(const struct dataset_expand *expand,
                         struct dataset_notes *notes);

#endif
