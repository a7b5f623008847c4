/* train/dataset/dataset_media_files.h - the files of images and sounds, each read once: how
 * many rows of features it has. */
#ifndef TRAIN_DATASET_DATASET_MEDIA_FILES_H
#define TRAIN_DATASET_DATASET_MEDIA_FILES_H

#include "train/dataset/dataset_record.h"
#include "train/dataset/dataset_tokens.h"

struct dataset_media_files;

/* Media are added to the store. Both are borrowed. */
struct dataset_media_files *dataset_media_files_new(const struct dataset_reading *reading,
                                                    struct dataset_store *store);
void dataset_media_files_free(struct dataset_media_files *files);

/* What the model reads, by its config.json; NULL: text alone, or it is not supported. */
const struct media_family *
dataset_media_files_family(const struct dataset_media_files *files);
/* model_type of config.json; NULL: unknown. */
const char *dataset_media_files_model(const struct dataset_media_files *files);

/* Find a medium of the record at `position`, and set its index in the store. ERROR_DATA if
 * it is missing or cannot be read. */
bool dataset_media_files_find(struct dataset_media_files *files,
                              const struct dataset_position *position,
                              const struct record_medium *medium, uint32_t *index,
                              struct error *err);

/* Return false once the settings of the model, or the user's features, cannot be read. */
bool dataset_media_files_are_usable(const struct dataset_media_files *files);

/* Convert the digits of base/digest.h. */
void dataset_media_files_digest(const char text[], uint8_t digest[32]);

/* Append a note, for files that are not in media_dir. */
void dataset_media_files_note(const struct dataset_media_files *files,
                              struct dataset_notes *notes);

#endif
