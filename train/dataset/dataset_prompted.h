/* train/dataset/dataset_prompted.h - prompts as a dataset whose samples have no answer: their
 * images and sounds are found and placed as those of records are. */
#ifndef TRAIN_DATASET_DATASET_PROMPTED_H
#define TRAIN_DATASET_DATASET_PROMPTED_H

#include "train/dataset/dataset.h"
#include "train/dataset/dataset_record.h"
#include "train/dataset/dataset_tokens.h"

struct dataset_prompted;

/* `reading` is borrowed: its sources are not read. */
struct dataset_prompted *dataset_prompted_new(const struct dataset_reading *reading);
void dataset_prompted_free(struct dataset_prompted *prompted); /* NULL is allowed */

/* The next prompt: replace the placeholders in its messages, which have the media of `record`,
 * as dataset_expand_mark does.  The file of a position is "" without one. */
bool dataset_prompted_mark(struct dataset_prompted *prompted,
                           const struct dataset_position *position,
                           struct conversation *record, struct message *messages,
                           size_t count, struct error *err);
/* Its media, for template_options; NULL: the model reads text alone. */
struct template_media *dataset_prompted_media(struct dataset_prompted *prompted);
/* Add its tokens, once they are encoded. */
void dataset_prompted_add(struct dataset_prompted *prompted,
                          const struct token_list *ids);

/* Return the dataset of all prompts, which the caller closes.  Nothing can be added later. */
struct dataset *dataset_prompted_end(struct dataset_prompted *prompted);
/* A prompt of it, for dataset_question_batch. */
struct dataset_question dataset_prompted_question(const struct dataset *dataset,
                                                  size_t index);

#endif
