/* patcher/history/history.c - replay the patches of a journal to find where their lines
 * are now. */
#include "config.h"

#include "patcher/history/history.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/digest.h"
#include "base/file.h"
#include "patcher/history/backup.h"
#include "patcher/document/diff.h"
#include "patcher/document/document.h"
#include "patcher/document/edits.h"
#include "patcher/history/journal.h"

struct replay {
    const struct backup *backups;
    size_t backup_count;
    const struct text *current;
    struct history *out;
};

static size_t number_field(const json_t *from, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(from, name));

    return value > 0 ? (size_t)value : 0;
}

static const char *text_field(const json_t *from, const char *name)
{
    const char *value = json_string_value(json_object_get(from, name));

    return value ? value : "";
}

/* Read a text that a backup has; `side` selects the text "before" or "after" a change. */
static bool read_backup(const struct replay *replay, const json_t *entry,
                        const char *side, struct text *out)
{
    struct error ignored = { 0 };

    for (size_t i = 0; i < replay->backup_count; i++)
        if (strcmp(replay->backups[i].digest, text_field(entry, side)) == 0)
            return file_read(replay->backups[i].path, DOCUMENT_MAX_BYTES, out, NULL,
                             &ignored);
    return false;
}

/* Apply the edits of an entry to `before`, for a text that is no longer in any file. */
static bool apply_edits(const json_t *entry, const struct text *before, struct text *out)
{
    struct edits *edits = edits_new();
    char digest[DIGEST_TEXT];
    json_t *edit;
    size_t i;
    bool ok = true;

    json_array_foreach(json_object_get(entry, "edits"), i, edit)
    {
        size_t at = number_field(edit, "byte_offset"),
               cut = number_field(edit, "byte_length");

        ok = ok && at <= before->len && cut <= before->len - at &&
             edits_replace(edits, at, cut, text_field(edit, "new"), NULL);
    }
    ok = ok && edits_apply(edits, before->data, before->len, out, NULL);
    edits_free(edits);
    digest_bytes(out->data, out->len, digest);
    return ok && strcmp(digest, text_field(entry, "after")) == 0;
}

static size_t line_of(const struct text *text, size_t byte)
{
    size_t line = 1;

    for (size_t i = 0; i < byte && i < text->len; i++)
        line += text->data[i] == '\n';
    return line;
}

static void add_change(struct history *out, json_t *edit, const char *time, size_t line)
{
    out->list = memory_resize(out->list, out->count + 1, sizeof(*out->list));
    out->list[out->count++] = (struct history_change) { edit, time, line };
}

/* Add each edit with its line, mapped from the text after the patch to the current
 * text. */
static void map_edits(struct replay *replay, const json_t *entry,
                      const struct text *after)
{
    size_t *lines =
        diff_follow(after->data, after->len, replay->current->data, replay->current->len);
    size_t count = line_of(after, after->len), i, shift = 0; /* modulo SIZE_MAX + 1 */
    json_t *edit;

    json_array_foreach(json_object_get(entry, "edits"), i, edit)
    {
        const char *new_text = text_field(edit, "new");
        size_t at = number_field(edit, "byte_offset") + shift;
        size_t line = line_of(after, at + strspn(new_text, "\r\n"));

        add_change(replay->out, edit, text_field(entry, "time"),
                   line <= count ? lines[line - 1] : 0);
        shift += strlen(new_text) - number_field(edit, "byte_length");
    }
    free(lines);
}

static void replay_entry(struct replay *replay, const json_t *entry)
{
    struct text before, after;

    if (strcmp(text_field(entry, "action"), "patch") != 0)
        return;
    text_init(&before, DOCUMENT_MAX_BYTES);
    text_init(&after, 0);
    if (json_is_array(json_object_get(entry, "edits")) &&
        read_backup(replay, entry, "before", &before) &&
        apply_edits(entry, &before, &after))
        map_edits(replay, entry, &after);
    else
        replay->out->unknown_patches++;
    text_clear(&before);
    text_clear(&after);
}

bool history_read(const char *job, const struct text *current, struct history *out,
                  struct error *err)
{
    struct replay replay = { .current = current, .out = out };
    struct backup *backups = NULL;
    json_t *entry;
    size_t i;

    *out = (struct history) { .journal = journal_read(job, err) };
    if (!out->journal || !backup_list(job, &backups, &replay.backup_count, err))
        return false;
    replay.backups = backups;
    json_array_foreach(out->journal, i, entry) replay_entry(&replay, entry);
    backup_free(backups, replay.backup_count);
    return true;
}

/* Read the text after a change: from the backup that an undo made, or by applying the
 * edits. */
static bool read_after(const struct replay *replay, const json_t *entry, struct text *out)
{
    struct text before;
    bool ok = read_backup(replay, entry, "after", out);

    text_init(&before, DOCUMENT_MAX_BYTES);
    if (!ok && read_backup(replay, entry, "before", &before))
        ok = apply_edits(entry, &before, out);
    text_clear(&before);
    return ok;
}

static bool read_before(const struct replay *replay, const json_t *entry,
                        struct text *out)
{
    return read_backup(replay, entry, "before", out);
}

/* Read the text before or after the last change. */
static bool read_last(const char *job,
                      bool (*read)(const struct replay *replay, const json_t *entry,
                                   struct text *out),
                      struct text *out)
{
    struct replay replay = { 0 };
    struct backup *backups = NULL;
    json_t *journal = journal_read(job, NULL);
    size_t count = json_array_size(journal);
    bool ok = count > 0 && backup_list(job, &backups, &replay.backup_count, NULL);

    replay.backups = backups;
    ok = ok && read(&replay, json_array_get(journal, count - 1), out);
    backup_free(backups, replay.backup_count);
    json_decref(journal);
    return ok;
}

bool history_text_after(const char *job, struct text *out)
{
    return read_last(job, read_after, out);
}

bool history_text_before(const char *job, struct text *out)
{
    return read_last(job, read_before, out);
}

void history_clear(struct history *history)
{
    json_decref(history->journal);
    free(history->list);
    *history = (struct history) { 0 };
}
