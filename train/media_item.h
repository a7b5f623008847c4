/* train/media_item.h - reads the file of a medium of the data; errors name its record. */
#ifndef TRAIN_MEDIA_ITEM_H
#define TRAIN_MEDIA_ITEM_H

#include "base/heartbeat.h"
#include "train/dataset/dataset.h"
#include "train/media/media_input.h"

/* ERROR_DATA for a file that cannot be read, or has changed since the data were: its digest
 * names the rows of what it was. */
bool media_item_read(struct media_reader *reader, const struct media_item *item,
                     struct media_input *out, struct error *err);
/* Copy an error to *err, with the position of the record if it is one of the data. Return
 * false. */
bool media_item_fail(const struct media_item *item, const struct error *why,
                     struct error *err);

/* Decode the files of all media of a dataset, or NULL, for a run that reads them again in its
 * steps. Stop at the first that is damaged, or has samples that are not finite. */
bool media_items_verify(const struct plan *plan, const struct dataset *data,
                        struct heartbeat *heartbeat, struct error *err);

#endif
