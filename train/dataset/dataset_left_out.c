/* train/dataset/dataset_left_out.c - counts by reason and column, as notes. */
#include "config.h"

#include "train/dataset/dataset_left_out.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

void dataset_left_out_record(struct dataset_left_out *left_out, const char *position,
                             const char *why)
{
    struct dataset_skipped *skipped = left_out->skipped;
    size_t i = 0;

    while (i < left_out->reasons &&
           strncmp(skipped[i].why, why, sizeof(skipped[i].why) - 1) != 0)
        i++;
    if (i == DATASET_REASONS)
        return;
    if (i == left_out->reasons) {
        left_out->reasons++;
        snprintf(skipped[i].why, sizeof(skipped[i].why), "%s", why);
        snprintf(skipped[i].first, sizeof(skipped[i].first), "%s", position);
    }
    skipped[i].count++;
}

static void note_numbers(const struct dataset_left_out *left_out,
                         struct dataset_notes *notes)
{
    char note[160];

    if (left_out->with_numbers == 0)
        return;
    snprintf(note, sizeof(note),
             "%zu record%s a number where a text belongs: it is read as its digits",
             left_out->with_numbers, left_out->with_numbers == 1 ? " has" : "s have");
    dataset_notes_add(notes, note);
}

void dataset_left_out_note_records(const struct dataset_left_out *left_out,
                                   struct dataset_notes *notes)
{
    struct text note;

    text_init(&note, 0);
    for (size_t i = 0; i < left_out->reasons; i++) {
        const struct dataset_skipped *skipped = &left_out->skipped[i];

        text_reset(&note);
        text_addf(&note, "%zu record%s %s %s left out; the first is at %s",
                  skipped->count, skipped->count == 1 ? "" : "s", skipped->why,
                  skipped->count == 1 ? "is" : "are", skipped->first);
        dataset_notes_add(notes, note.data);
    }
    text_clear(&note);
    note_numbers(left_out, notes);
}

static void count_unread(struct dataset_left_out *left_out, const char *column)
{
    struct dataset_unread *unread = left_out->unread;
    size_t i = 0;

    while (i < left_out->unread_count &&
           strncmp(unread[i].column, column, sizeof(unread[i].column) - 1) != 0)
        i++;
    if (i == DATASET_UNREAD)
        return;
    if (i == left_out->unread_count) {
        left_out->unread_count++;
        snprintf(unread[i].column, sizeof(unread[i].column), "%s", column);
    }
    unread[i].count++;
}

void dataset_left_out_columns(struct dataset_left_out *left_out,
                              const struct conversation *conversation, json_t *record)
{
    for (void *at = json_object_iter(record); at;
         at = json_object_iter_next(record, at)) {
        const char *column = dataset_record_unread(conversation, at);

        if (column)
            count_unread(left_out, column);
    }
}

void dataset_left_out_note_columns(const struct dataset_left_out *left_out,
                                   struct dataset_notes *notes)
{
    struct text note;

    text_init(&note, 0);
    for (size_t i = 0; i < left_out->unread_count; i++)
        text_addf(
            &note, "%s%s in %zu record%s",
            i > 0 ? ", " : "columns that are not read: ", left_out->unread[i].column,
            left_out->unread[i].count, left_out->unread[i].count == 1 ? "" : "s");
    if (note.len > 0)
        dataset_notes_add_info(notes, note.data);
    text_clear(&note);
}
