/* runner/job/old_files.c - lists folders by descriptor, one kind after the other. */
#include "config.h"

#include "runner/job/old_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/walk.h"
#include "patcher/history/backup.h"
#include "patcher/history/journal.h"
#include "runner/job/old_checkpoints.h"
#include "precision/device.h"
#include "runner/job/outputs.h"
#include "patcher/document/document.h"
#include "train/files/manifest.h"

#define EVENTS_START "events.out.tfevents."
#define EVENTS_END   ".trainspool"

void old_files_add(struct old_files *files, const struct old_file *file)
{
    if (files->count == files->room) {
        files->room = files->room ? 2 * files->room : 64;
        files->list = memory_resize(files->list, files->room, sizeof(*files->list));
    }
    files->list[files->count] = *file;
    files->list[files->count].job = memory_strdup(file->job);
    files->list[files->count].folder = memory_strdup(file->folder);
    files->list[files->count].name = memory_strdup(file->name);
    files->count++;
}

static void clear_one(struct old_file *file)
{
    free(file->job);
    free(file->folder);
    free(file->name);
}

void old_files_clear(struct old_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        clear_one(&files->list[i]);
    free(files->list);
    *files = (struct old_files) { 0 };
}

DIR *old_files_open(struct old_files *out, int dir, const char *folder)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;

    if (!listing)
        error_errno(&out->err, "cannot open the folder %s", folder);
    if (!listing && fd >= 0)
        close(fd);
    return listing;
}

const struct dirent *old_files_next(struct old_files *out, DIR *listing,
                                    const char *folder)
{
    const struct dirent *entry;

    errno = 0;
    entry = readdir(listing);
    if (!entry && errno)
        error_errno(&out->err, "cannot read the folder %s", folder);
    return entry;
}

bool old_files_may_go(const struct job *job, struct job_record *record)
{
    return job_check_dir(job, geteuid(), NULL) && job_read(job, record, NULL) &&
           (record->state == JOB_DONE || record->state == JOB_FAILED ||
            record->state == JOB_STOPPED || record->state == JOB_REJECTED);
}

/* Add a regular file of an open folder. */
static bool add_file(int dir, const struct old_file *what, struct old_files *out)
{
    struct old_file file = *what;
    struct stat st;

    if (fstatat(dir, file.name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        return false;
    file.bytes = st.st_size;
    file.made = st.st_mtim.tv_sec;
    old_files_add(out, &file);
    return true;
}

/* ---- Backups: the first one is the original, which `review` shows ---- */

/* Return the name of the backup that an undo would restore, or "", malloc'ed. */
static char *undo_target(const char *job)
{
    json_t *journal = journal_read(job, NULL);
    size_t count = json_array_size(journal);
    const char *name = json_string_value(
        json_object_get(count > 0 ? json_array_get(journal, count - 1) : NULL, "backup"));
    char *copy = memory_strdup(name ? name : "");

    json_decref(journal);
    return copy;
}

static void add_backups(const struct job *job, struct old_files *out)
{
    char *folder = path_join(job->run_dir, "backups"), *target = undo_target(job->path);
    int dir = walk_open(folder, O_RDONLY | O_DIRECTORY, 0);
    struct backup *backups = NULL;
    size_t count = 0;

    /* only texts whose digest is that of their name */
    if (dir >= 0)
        backup_list(job->path, &backups, &count, &out->err);
    for (size_t i = 1; i + 1 < count; i++) {
        char *name = memory_strdup(path_base(backups[i].path));

        if (strcmp(name, target) != 0)
            add_file(dir,
                     &(struct old_file) { .kind = OLD_BACKUP,
                                          .job = job->path,
                                          .folder = folder,
                                          .name = name },
                     out);
        free(name);
    }
    backup_free(backups, count);
    if (dir >= 0)
        close(dir);
    free(target);
    free(folder);
}

/* ---- TensorBoard files: one per attempt ---- */

static void drop_newest(struct old_files *files, size_t from)
{
    size_t newest = from;

    for (size_t i = from; i < files->count; i++) {
        const struct old_file *one = &files->list[i], *two = &files->list[newest];

        if (one->made > two->made ||
            (one->made == two->made && strcmp(one->name, two->name) > 0))
            newest = i;
    }
    if (files->count == from)
        return;
    clear_one(&files->list[newest]);
    files->list[newest] = files->list[--files->count];
}

static void add_events(const struct job *job, int run, struct old_files *out)
{
    DIR *folder = old_files_open(out, run, job->run_dir);
    const struct dirent *entry;
    size_t from = out->count;

    while (folder && (entry = old_files_next(out, folder, job->run_dir)))
        if (text_starts(entry->d_name, EVENTS_START) &&
            text_ends(entry->d_name, EVENTS_END))
            add_file(run,
                     &(struct old_file) { .kind = OLD_EVENTS,
                                          .job = job->path,
                                          .folder = job->run_dir,
                                          .name = (char *)entry->d_name },
                     out);
    drop_newest(out, from);
    if (folder)
        closedir(folder);
}

/* ---- Checkpoints ---- */

/* What the text of a job says: the folder for its output, malloc'ed; NULL: it is NAME.run,
 * or unknown; and its limits. */
struct wish {
    char *output;
    struct old_limits limits;
};

static void read_wish(const struct job *job, const struct job_record *record,
                      struct wish *out)
{
    struct arena *arena = arena_new();
    struct text text;
    struct plan plan;
    uint64_t bytes;

    *out = (struct wish) { .limits = { -1, -1 } };
    text_init(&text, DOCUMENT_MAX_BYTES);
    if (record->frozen[0] && job_read_frozen(job, record->frozen, &text, NULL)) {
        outputs_bind_plan(job, &text, arena, &plan);
        if (plan.output_dir && strcmp(plan.output_dir, job->run_dir) != 0)
            out->output = memory_strdup(plan.output_dir);
        out->limits.keep_days = plan.keep_days;
        if (plan.max_bytes && device_parse_bytes(plan.max_bytes, &bytes))
            out->limits.max_bytes = bytes < INT64_MAX ? (int64_t)bytes : -1;
    }
    text_clear(&text);
    arena_free(arena);
}

void old_files_find(const char *path, struct old_files *out)
{
    struct job_record record;
    struct wish wish;
    struct job job;
    const size_t from = out->count;
    int run = -1;

    fault_clear();
    job_init(&job, path);
    if (old_files_may_go(&job, &record) && !job_is_locked(&job))
        run = walk_open(job.run_dir, O_RDONLY | O_DIRECTORY, 0);
    if (run >= 0) {
        add_backups(&job, out);
        add_events(&job, run, out);
        /* whatever is in NAME.run belongs to the job, also from an earlier text of it */
        old_checkpoints_add(&job, job.run_dir, &record, false, out);
        read_wish(&job, &record, &wish);
        if (wish.output)
            old_checkpoints_add(&job, wish.output, &record, true, out);
        for (size_t i = from; i < out->count; i++)
            out->list[i].own = wish.limits;
        free(wish.output);
        close(run);
    }
    fault_none(&out->err); /* of the functions that only return what they found */
    while (out->err.code && out->count > from)
        clear_one(&out->list[--out->count]);
    job_clear(&job);
}

bool old_file_remove(const struct old_file *file, struct error *err)
{
    int dir = walk_open(file->folder, O_RDONLY | O_DIRECTORY, 0);
    struct stat st;
    bool ok;

    if (dir < 0)
        return error_errno(err, "cannot open %s", file->folder);
    if (file->kind == OLD_CHECKPOINT)
        ok = old_checkpoint_remove(dir, file->name, err);
    else if (fstatat(dir, file->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
             !S_ISREG(st.st_mode))
        ok = error_set(err, ERROR_SYSTEM, "%s is no longer a file", file->name);
    else
        ok = (walk_may_change() && unlinkat(dir, file->name, 0) == 0) ||
             errno == ENOENT ||
             error_errno(err, "cannot remove %s/%s", file->folder, file->name);
    close(dir);
    return ok;
}
