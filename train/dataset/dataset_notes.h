/* train/dataset/dataset_notes.h - sentences about the data that the user should see. */
#ifndef TRAIN_DATASET_DATASET_NOTES_H
#define TRAIN_DATASET_DATASET_NOTES_H

#include <stdbool.h>
#include <stddef.h>

struct dataset_note {
    char *text;
    bool is_info; /* not a warning */
};
struct dataset_notes {
    struct dataset_note *list;
    size_t count;
};
void dataset_notes_add(struct dataset_notes *notes, const char *note); /* a warning */
void dataset_notes_add_info(struct dataset_notes *notes, const char *note);
void dataset_notes_clear(struct dataset_notes *notes);

#endif
