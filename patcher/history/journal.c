/* patcher/history/journal.c - one line per change, and undo. */
#include "config.h"

#include "patcher/history/journal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/fault.h"
#include "patcher/history/backup.h"
#include "patcher/document/document.h"
#include "patcher/history/jobfile.h"

enum { JOURNAL_MAX_BYTES = 16 << 20 };

/* The action of a line that is no change of the text. */
static const char removal[] = "clean";

static char *journal_path(const char *job)
{
    char *run = path_run_dir(job), *path = path_join(run, "changes.jsonl");

    free(run);
    return path;
}

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *edit_json(const struct finding *finding)
{
    json_t *edit = json_object();

    json_object_set_new(edit, "rule", json_string(finding->rule));
    json_object_set_new(edit, "key", text_or_null(finding->key));
    json_object_set_new(edit, "line", json_integer(finding->at.line));
    json_object_set_new(edit, "byte_offset", json_integer((json_int_t)finding->at.byte));
    json_object_set_new(edit, "byte_length", json_integer((json_int_t)finding->cut));
    json_object_set_new(edit, "old", text_or_null(finding->old_text));
    json_object_set_new(edit, "new", text_or_null(finding->new_text));
    json_object_set_new(edit, "message", text_or_null(finding->message));
    json_object_set_new(edit, "because", text_or_null(finding->because));
    return edit;
}

static json_t *edits_json(const struct findings *findings)
{
    json_t *list = json_array();

    for (size_t i = 0; i < findings->count; i++)
        if (findings->list[i].resolved && findings->list[i].old_text &&
            findings->list[i].new_text)
            json_array_append_new(list, edit_json(&findings->list[i]));
    return list;
}

static json_t *entry_json(const char *job, const struct journal_entry *entry)
{
    json_t *line = json_object(), *rules = json_array();
    char now[32];

    clock_iso(now);
    for (const char *const *rule = entry->rules; rule && *rule; rule++)
        json_array_append_new(rules, json_string(*rule));
    json_object_set_new(line, "time", json_string(now));
    json_object_set_new(line, "action", json_string(entry->action));
    json_object_set_new(line, "job", json_string(path_base(job)));
    json_object_set_new(line, "before", json_string(entry->before));
    json_object_set_new(line, "after", json_string(entry->after));
    json_object_set_new(line, "rules", rules);
    if (entry->findings)
        json_object_set_new(line, "edits", edits_json(entry->findings));
    json_object_set_new(line, "policy", text_or_null(entry->policy));
    json_object_set_new(line, "device", text_or_null(entry->device));
    json_object_set_new(line, "backup", text_or_null(entry->backup));
    return line;
}

/* Append a line, which is released. */
static bool append(const char *job, json_t *line, struct error *err)
{
    char *run, *path;
    struct text text;
    bool ok;

    if (!backup_run_dir(job, &run, err)) {
        json_decref(line);
        return false;
    }
    path = journal_path(job);
    text_init(&text, 0);
    ok = json_write(line, &text)
             ? file_append_line(path, text.data, text.len, 0600, true, err)
             : error_set(err, ERROR_SYSTEM, "cannot write a line of %s", path);
    text_clear(&text);
    json_decref(line);
    free(path);
    free(run);
    return ok;
}

bool journal_add(const char *job, const struct journal_entry *entry, struct error *err)
{
    return append(job, entry_json(job, entry), err);
}

bool journal_add_removal(const char *job, json_t *names, int64_t bytes, struct error *err)
{
    json_t *line = json_object();
    char now[32];

    clock_iso(now);
    json_object_set_new(line, "time", json_string(now));
    json_object_set_new(line, "action", json_string(removal));
    json_object_set_new(line, "job", json_string(path_base(job)));
    json_object_set_new(line, "removed", names);
    json_object_set_new(line, "bytes", json_integer(bytes));
    return append(job, line, err);
}

/* Return whether a line is a change of the text. */
static bool is_change(const json_t *line)
{
    const char *action = json_string_value(json_object_get(line, "action"));

    return action && strcmp(action, removal) != 0;
}

json_t *journal_parse(const char *data, size_t len)
{
    json_t *out = json_array();
    const char *end = data + len;

    while (data < end) {
        const char *newline = memchr(data, '\n', (size_t)(end - data));
        const char *stop = newline ? newline : end;
        struct error ignored = { 0 };
        json_t *line = json_read_text(data, (size_t)(stop - data), "", 1, &ignored);

        if (is_change(line))
            json_array_append(out, line);
        json_decref(line);
        data = stop + 1;
    }
    return out;
}

json_t *journal_read(const char *job, struct error *err)
{
    char *path = journal_path(job);
    struct text text;
    json_t *out = NULL;

    text_init(&text, 0);
    if (!file_exists(path) || file_read(path, JOURNAL_MAX_BYTES, &text, NULL, err))
        out = journal_parse(text.data, text.len);
    text_clear(&text);
    free(path);
    return out;
}

bool journal_names(const char *job, const char *digest, bool *known, struct error *err)
{
    json_t *journal, *line;
    size_t i;

    fault_clear();
    journal = journal_read(job, NULL);
    *known = false;
    json_array_foreach(journal, i, line)
    {
        const char *before = json_string_value(json_object_get(line, "before"));
        const char *after = json_string_value(json_object_get(line, "after"));

        *known |= (before && strcmp(before, digest) == 0) ||
                  (after && strcmp(after, digest) == 0);
    }
    json_decref(journal);
    return fault_none(err);
}

/* ---- Undo ---- */

struct undo {
    const char *job, *id;
    bool force;
    struct jobfile file; /* the current file */
    json_t *journal;
    const json_t *last;
    struct backup *backups;
    size_t backup_count;
};

static const char *last_field(const struct undo *undo, const char *key)
{
    const char *text = json_string_value(json_object_get(undo->last, key));

    return text ? text : "";
}

static const struct backup *choose_backup(const struct undo *undo, struct error *err)
{
    const char *name = last_field(undo, "backup");

    if (undo->id)
        return backup_find(undo->backups, undo->backup_count, undo->id, err);
    if (!undo->last && undo->backup_count > 0)
        return &undo->backups[0]; /* a patch that was killed before it wrote its line */
    if (!undo->last || !*name) {
        error_set(err, ERROR_JOB, "nothing to undo: %s has never been changed",
                  undo->job);
        return NULL;
    }
    for (size_t i = 0; i < undo->backup_count; i++)
        if (strcmp(path_base(undo->backups[i].path), name) == 0)
            return &undo->backups[i];
    error_set(err, ERROR_JOB, "the backup %s no longer exists", name);
    return NULL;
}

static bool may_replace(struct undo *undo, struct error *err)
{
    const char *barrier = jobfile_barrier(&undo->file);

    if (barrier)
        return error_set(err, ERROR_JOB, "cannot change %s: %s", undo->job, barrier);
    if (undo->last && !undo->force &&
        strcmp(last_field(undo, "after"), undo->file.digest) != 0)
        return error_set(
            err, ERROR_JOB,
            "%s was changed after the last patch; --force undoes that change too (the "
            "current text is kept as a backup)",
            undo->job);
    return true;
}

static bool restore(const struct undo *undo, const struct backup *backup,
                    struct error *err)
{
    struct journal_entry entry = { .action = "undo", .before = undo->file.digest };
    char *kept = NULL;
    struct text text;
    bool stale = false, ok;

    text_init(&text, 0);
    ok = file_read(backup->path, DOCUMENT_MAX_BYTES, &text, NULL, err) &&
         backup_write(undo->job, undo->file.text.data, undo->file.text.len, &kept, err) &&
         jobfile_replace(&undo->file, text.data, text.len, &stale, err);
    if (ok && stale)
        ok = error_set(err, ERROR_JOB,
                       "%s changed while it was being restored; try again", undo->job);
    entry.after = backup->digest;
    entry.backup = kept ? path_base(kept) : NULL;
    ok = ok && journal_add(undo->job, &entry, err);
    free(kept);
    text_clear(&text);
    return ok;
}

static bool undo_locked(struct undo *undo, char **restored, struct error *err)
{
    const struct backup *backup;

    undo->journal = journal_read(undo->job, err);
    if (!undo->journal || !jobfile_read(&undo->file, undo->job, err) ||
        !backup_list(undo->job, &undo->backups, &undo->backup_count, err))
        return false;
    if (json_array_size(undo->journal) > 0)
        undo->last = json_array_get(undo->journal, json_array_size(undo->journal) - 1);
    backup = choose_backup(undo, err);
    if (!backup || !may_replace(undo, err))
        return false;
    if (strcmp(backup->digest, undo->file.digest) != 0 && !restore(undo, backup, err))
        return false;
    if (restored)
        *restored = memory_strdup(backup->path);
    return true;
}

bool journal_undo(const char *job, const char *id, bool force, char **restored,
                  struct error *err)
{
    struct undo undo = { .job = job, .id = id, .force = force };
    char *run = path_run_dir(job);
    bool known = file_is_dir(run), ok = false;
    int lock;

    free(run);
    if (restored)
        *restored = NULL;
    if (!known && !file_exists(job))
        return error_set(err, ERROR_USAGE, "there is no job %s", job);
    if (!known)
        return error_set(err, ERROR_JOB, "nothing to undo: %s has never been changed",
                         job);
    lock = jobfile_lock(job, err);
    if (lock < 0)
        return false;
    text_init(&undo.file.text, 0);
    ok = undo_locked(&undo, restored, err);
    jobfile_clear(&undo.file);
    backup_free(undo.backups, undo.backup_count);
    json_decref(undo.journal);
    jobfile_unlock(job, lock);
    return ok;
}
