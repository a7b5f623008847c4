/* runner/job/old_checkpoints.c - reads the manifest of each folder checkpoint-N. */
#include "config.h"

#include "runner/job/old_checkpoints.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/walk.h"
#include "train/checkpoint/checkpoint_find.h"
#include "train/files/manifest.h"

#define REMOVED ".removed" /* ends the hidden name of a folder that is being removed */
#define STATE   "trainer_state.json"

enum { STATE_MAX = 64 << 20 };

/* Return whether a name is checkpoint-N, or what a later run with another text made of it:
 * checkpoint-N.old-K. */
static bool is_checkpoint(const char *name)
{
    const char *at = name + strlen(CHECKPOINT_PREFIX);
    size_t digits;

    if (!text_starts(name, CHECKPOINT_PREFIX))
        return false;
    digits = strspn(at, "0123456789");
    at += digits;
    if (digits > 0 && text_starts(at, ".old-")) {
        at += strlen(".old-");
        digits = strspn(at, "0123456789");
        at += digits;
    }
    return digits > 0 && *at == '\0';
}

/* Return whether a name is that of a checkpoint whose removal was cut short. */
static bool is_removed(const char *name)
{
    char rest[256];
    size_t len = strlen(name);

    if (name[0] != '.' || !text_ends(name, REMOVED) || len >= sizeof(rest))
        return false;
    snprintf(rest, sizeof(rest), "%.*s", (int)(len - 1 - strlen(REMOVED)), name + 1);
    return is_checkpoint(rest);
}

static int open_in(int dir, const char *name)
{
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool read_facts(int dir, const char *name, struct manifest_facts *out)
{
    int fd = open_in(dir, name);
    bool ok = fd >= 0 && manifest_read_facts(fd, out);

    if (fd >= 0)
        close(fd);
    return ok;
}

/* The checkpoints that stay: names in the folder, "": none. */
struct kept {
    char last[64];      /* the last one of the current text */
    char resumable[64]; /* the last one of them that a run can continue from */
    char best[64];      /* the one that a run with load_best_model_at_end ends with */
    char newest[256];   /* the newest one of any text, if the current one made none */
};

static void set_name(char *out, size_t room, const char *name)
{
    snprintf(out, room, "%s", name ? path_base(name) : "");
}

/* Read which checkpoint was the best when `last` was saved. */
static void find_best(int dir, const char *last, struct kept *kept)
{
    int fd = open_in(dir, last);
    struct text text;
    json_t *state = NULL;

    text_init(&text, 0);
    if (fd >= 0 && file_read_at(fd, STATE, STATE_MAX, &text, NULL, NULL))
        state = json_read_text(text.data, text.len, STATE, 1, NULL);
    set_name(kept->best, sizeof(kept->best),
             json_string_value(json_object_get(state, "best_model_checkpoint")));
    json_decref(state);
    text_clear(&text);
    if (fd >= 0)
        close(fd);
}

/* digest: of the current text, "" if there is none. */
static void find_current(int dir, const char *folder, const char *digest,
                         struct kept *kept, struct error *err)
{
    struct checkpoint_found *found = NULL;
    size_t count = digest[0] ? checkpoint_list(folder, digest, &found, err) : 0;

    for (size_t i = 0; i < count; i++) {
        if (i == 0)
            set_name(kept->last, sizeof(kept->last), found[i].name);
        if (!kept->resumable[0] && checkpoint_can_resume(found[i].name, false, NULL))
            set_name(kept->resumable, sizeof(kept->resumable), found[i].name);
    }
    for (size_t i = 0; i < count; i++)
        free(found[i].name);
    free(found);
    if (kept->last[0])
        find_best(dir, kept->last, kept);
}

static bool is_kept(const struct kept *kept, const char *name)
{
    return strcmp(name, kept->last) == 0 || strcmp(name, kept->resumable) == 0 ||
           strcmp(name, kept->best) == 0 || strcmp(name, kept->newest) == 0;
}

static void find_newest(int dir, const char *folder, struct kept *kept,
                        struct old_files *out)
{
    DIR *listing = old_files_open(out, dir, folder);
    const struct dirent *entry;
    struct manifest_facts facts;
    int64_t made = INT64_MIN, step = -1;

    while (listing && (entry = old_files_next(out, listing, folder))) {
        if (!is_checkpoint(entry->d_name) || !read_facts(dir, entry->d_name, &facts) ||
            facts.made < made ||
            (facts.made == made && checkpoint_step(entry->d_name) < step))
            continue;
        made = facts.made;
        step = checkpoint_step(entry->d_name);
        set_name(kept->newest, sizeof(kept->newest), entry->d_name);
    }
    if (listing)
        closedir(listing);
}

/* Add a folder if trainspool made everything in it. */
static void add_checkpoint(int dir, const struct old_file *what, const char *digest,
                           struct old_files *out)
{
    struct old_file file = *what;
    struct manifest_facts facts;

    if (!read_facts(dir, file.name, &facts) || !facts.untouched ||
        (digest && strcmp(digest, facts.job) != 0))
        return;
    file.bytes = facts.bytes;
    file.made = facts.made;
    old_files_add(out, &file);
}

/* Add a folder whose removal was cut short: `made` is long ago. */
static void add_rest(int dir, const struct old_file *file, const char *digest,
                     struct old_files *out)
{
    struct manifest_facts facts;

    if (!digest ||
        (read_facts(dir, file->name, &facts) && strcmp(digest, facts.job) == 0))
        old_files_add(out, file);
}

void old_checkpoints_add(const struct job *job, const char *folder,
                         const struct job_record *record, bool own, struct old_files *out)
{
    int dir = walk_open(folder, O_RDONLY | O_DIRECTORY, 0);
    DIR *listing = dir >= 0 ? old_files_open(out, dir, folder) : NULL;
    const struct dirent *entry;
    struct kept kept = { .last = "" };

    if (listing)
        find_current(dir, folder, record->frozen, &kept, &out->err);
    if (listing && !kept.last[0])
        find_newest(dir, folder, &kept, out);
    while (listing && (entry = old_files_next(out, listing, folder))) {
        struct old_file file = { .kind = OLD_CHECKPOINT,
                                 .job = job->path,
                                 .folder = (char *)folder,
                                 .name = (char *)entry->d_name };

        if (is_removed(entry->d_name))
            add_rest(dir, &file, own ? record->frozen : NULL, out);
        else if (is_checkpoint(entry->d_name) && !is_kept(&kept, entry->d_name))
            add_checkpoint(dir, &file, own ? record->frozen : NULL, out);
    }
    if (listing)
        closedir(listing);
    if (dir >= 0)
        close(dir);
}

/* Remove the files of a folder with a hidden name, and the folder if nothing is left. */
static bool remove_hidden(int dir, const char *name, struct error *err)
{
    int fd = open_in(dir, name);
    bool ok;

    if (fd < 0)
        return error_errno(err, "cannot open %s", name);
    ok = manifest_remove_files(fd, err);
    ok = ok && ((walk_may_change() && unlinkat(dir, name, AT_REMOVEDIR) == 0) ||
                error_errno(err, "cannot remove %s", name));
    close(fd);
    return ok;
}

bool old_checkpoint_remove(int dir, const char *name, struct error *err)
{
    struct manifest_facts facts;
    char hidden[300];

    if (is_removed(name))
        return remove_hidden(dir, name, err);
    if (!read_facts(dir, name, &facts) || !facts.untouched)
        return error_set(err, ERROR_SYSTEM, "%s was changed meanwhile", name);
    snprintf(hidden, sizeof(hidden), ".%s%s", name, REMOVED);
    if (!walk_may_change() || renameat(dir, name, dir, hidden) != 0)
        return error_errno(err, "cannot rename %s", name);
    return remove_hidden(dir, hidden, err);
}
