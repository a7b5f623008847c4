/* train/dataset/dataset_notes.c - a growing list of sentences. */
#include "config.h"

#include "train/dataset/dataset_notes.h"

#include <stdlib.h>

#include "base/arena.h"

static void add_note(struct dataset_notes *notes, const char *note, bool is_info)
{
    notes->list =
        memory_resize(notes->list, notes->count + 1, sizeof(struct dataset_note));
    notes->list[notes->count++] = (struct dataset_note) { memory_strdup(note), is_info };
}

void dataset_notes_add(struct dataset_notes *notes, const char *note)
{
    add_note(notes, note, false);
}

void dataset_notes_add_info(struct dataset_notes *notes, const char *note)
{
    add_note(notes, note, true);
}

void dataset_notes_clear(struct dataset_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        free(notes->list[i].text);
    free(notes->list);
    *notes = (struct dataset_notes) { 0 };
}
