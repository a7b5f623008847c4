/* runner/spool/cleaning.c - collects the old files of all jobs, chooses, removes. */
#include "config.h"

#include "runner/spool/cleaning.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/user.h"
#include "patcher/document/document.h"
#include "patcher/history/jobfile.h"
#include "patcher/history/journal.h"
#include "precision/device.h"
#include "precision/memory.h"
#include "runner/job/old_files.h"
#include "runner/job/outputs.h"
#include "runner/options/options.h"

enum { DAY = 24 * 3600 };

bool cleaning_limits_read(const struct options *options, struct old_limits *out,
                          struct error *err)
{
    uint64_t bytes;

    *out = (struct old_limits) { .keep_days = options->keep_days, .max_bytes = -1 };
    if (options->keep_days > INT64_MAX / DAY)
        return error_set(err, ERROR_USAGE, "--keep-days is too large");
    if (!options->max_bytes)
        return true;
    if (!device_parse_bytes(options->max_bytes, &bytes) || bytes > INT64_MAX)
        return error_set(err, ERROR_USAGE,
                         "--max-bytes must be a size such as 500GB or 1.5TB, not %s",
                         options->max_bytes);
    out->max_bytes = (int64_t)bytes;
    return true;
}

/* ---- What jobs that have not ended read and write ---- */

struct used_path {
    char *real; /* malloc'ed */
    bool written;
};

struct used {
    struct used_path *list; /* malloc'ed */
    size_t count;
    bool unknown; /* a job could not be read */
};

static void add_used(void *context, const struct key *key, const char *path)
{
    struct used *used = context;
    char *real = realpath(path, NULL);

    if (!real)
        return;
    used->list = memory_resize(used->list, used->count + 1, sizeof(*used->list));
    used->list[used->count++] = (struct used_path) { real, key->written };
}

static void add_text(const struct job *job, const struct text *text, struct used *used)
{
    struct arena *arena = arena_new();
    struct plan plan;

    outputs_bind_plan(job, text, arena, &plan);
    outputs_each_path(&plan, add_used, used);
    arena_free(arena);
}

/* The text that runs, and the one that will replace it. */
static void add_job(const char *path, struct used *used)
{
    struct text text;
    struct job job;

    job_init(&job, path);
    text_init(&text, DOCUMENT_MAX_BYTES);
    if (file_read(job.path, DOCUMENT_MAX_BYTES, &text, NULL, NULL))
        add_text(&job, &text, used);
    text_clear(&text);
    text_init(&text, DOCUMENT_MAX_BYTES);
    if (job_read_frozen(&job, NULL, &text, NULL))
        add_text(&job, &text, used);
    text_clear(&text);
    job_clear(&job);
}

static bool is_within(const char *path, const char *folder)
{
    size_t len = strlen(folder);

    return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* Return whether one of these jobs may read a checkpoint, or saves its own next to it. */
static bool is_used(const struct used *used, const struct old_file *file)
{
    char *path = path_join(file->folder, file->name), *real = realpath(path, NULL);
    char *folder = realpath(file->folder, NULL);
    bool found = !real || !folder || used->unknown;

    for (size_t i = 0; !found && i < used->count; i++)
        found = used->list[i].written ? strcmp(used->list[i].real, folder) == 0
                                      : is_within(used->list[i].real, real);
    free(folder);
    free(real);
    free(path);
    return found;
}

/* ---- Which files ---- */

static int oldest_first(const void *a, const void *b)
{
    const struct old_file *one = a, *two = b;
    int order;

    if (one->made != two->made)
        return one->made < two->made ? -1 : 1;
    order = strcmp(one->folder, two->folder);
    return order ? order : strcmp(one->name, two->name);
}

static bool is_same(const struct old_file *one, const struct old_file *two)
{
    return strcmp(one->folder, two->folder) == 0 && strcmp(one->name, two->name) == 0;
}

static void report_unread(struct cleaning *cleaning, const char *path,
                          struct old_files *files)
{
    struct text line;

    if (!files->err.code)
        return;
    text_init(&line, 0);
    text_addf(&line, "%s: removing nothing: %s", path, files->err.text);
    cleaning->report(cleaning->context, true, line.data);
    cleaning->failed++;
    text_clear(&line);
    error_clear(&files->err);
}

static void collect_job(struct cleaning *cleaning, const struct listed *listed,
                        struct old_files *files, struct used *used)
{
    struct job_record record;
    struct user_scope scope;
    struct job job;

    job_init(&job, listed->path);
    if (job_enter_owner(&job, &scope, NULL)) {
        if (!listed->running && old_files_may_go(&job, &record))
            old_files_find(listed->path, files);
        else
            add_job(listed->path, used);
        user_leave(&scope);
        report_unread(cleaning, listed->path, files);
    } else {
        used->unknown = true;
    }
    job_clear(&job);
}

static void collect(struct cleaning *cleaning, const struct listing *listing,
                    struct old_files *files, struct used *used)
{
    for (size_t i = 0; i < listing->count; i++) {
        struct listed listed;

        if (!listing_read(listing, i, &listed))
            continue;
        collect_job(cleaning, &listed, files, used);
        listed_clear(&listed);
    }
    if (files->count > 0)
        qsort(files->list, files->count, sizeof(*files->list), oldest_first);
}

/* Return whether the limits are those of this file: of all, or of its job (path). */
static bool concerns(const struct old_file *file, const char *path)
{
    return !path || strcmp(file->job, path) == 0;
}

/* Mark what exceeds the limits. The files are in order of age; path: of the job whose files
 * count; NULL: all. */
static void mark(const struct old_limits *limits, const struct old_files *files,
                 const char *path, bool *marks)
{
    const int64_t now = (int64_t)clock_wall();
    int64_t left = 0;

    for (size_t i = 0; i < files->count; i++)
        if (!marks[i] && concerns(&files->list[i], path))
            left += files->list[i].bytes;
    for (size_t i = 0; i < files->count; i++) {
        const struct old_file *file = &files->list[i];
        bool old = limits->keep_days >= 0 && now - file->made > limits->keep_days * DAY;

        if (marks[i] || !concerns(file, path))
            continue;
        if (!old && (limits->max_bytes < 0 || left <= limits->max_bytes))
            break;
        left -= file->bytes;
        marks[i] = true;
    }
}

static struct old_limits limits_of(const struct cleaning *cleaning,
                                   const struct old_limits *limits)
{
    return (struct old_limits) { cleaning->no_ages ? -1 : limits->keep_days,
                                 limits->max_bytes };
}

/* Mark what exceeds the limits of its own job. */
static void mark_by_job(const struct cleaning *cleaning, const struct old_files *files,
                        bool *marks)
{
    bool *seen = memory_alloc(files->count + 1);

    for (size_t i = 0; i < files->count; i++) {
        const struct old_file *file = &files->list[i];
        const struct old_limits own = limits_of(cleaning, &file->own);

        if (seen[i] || (own.keep_days < 0 && own.max_bytes < 0))
            continue;
        mark(&own, files, file->job, marks);
        for (size_t j = i; j < files->count; j++)
            seen[j] |= concerns(&files->list[j], file->job);
    }
    free(seen);
}

/* Move the files that exceed a limit to the front, in order; return their number. */
static size_t choose(const struct cleaning *cleaning, struct old_files *files)
{
    const struct old_limits all = limits_of(cleaning, &cleaning->limits);
    struct old_file *list = memory_alloc((files->count + 1) * sizeof(*list));
    bool *marks = memory_alloc(files->count + 1);
    size_t count = 0, excess;

    mark_by_job(cleaning, files, marks);
    mark(&all, files, NULL, marks);
    for (size_t i = 0; i < files->count; i++)
        if (marks[i])
            list[count++] = files->list[i];
    excess = count;
    for (size_t i = 0; i < files->count; i++)
        if (!marks[i])
            list[count++] = files->list[i];
    if (count > 0)
        memcpy(files->list, list, count * sizeof(*list));
    free(marks);
    free(list);
    return excess;
}

/* ---- Their removal, job by job ---- */

static void report_file(const struct cleaning *cleaning, const struct old_file *file)
{
    const int64_t days = ((int64_t)clock_wall() - file->made) / DAY;
    char size[16];
    struct text line;

    memory_text((uint64_t)file->bytes, size);
    text_init(&line, 0);
    text_addf(&line, "%s %s/%s (%s", cleaning->dry_run ? "would remove" : "removed",
              file->folder, file->name, size);
    if (file->made > 0 && days > 0)
        text_addf(&line, ", %" PRId64 " day%s old", days, days == 1 ? "" : "s");
    text_addc(&line, ')');
    cleaning->report(cleaning->context, false, line.data);
    text_clear(&line);
}

/* A failure to note it is reported, but the files are gone. */
static void note(struct cleaning *cleaning, const struct job *job, json_t *names,
                 int64_t bytes)
{
    const int fd = job_open_log(job, NULL);
    struct log *log = fd >= 0 ? log_new(fd, LOG_INFO) : NULL;
    struct error err = { 0 };
    const json_t *name;
    size_t i;

    json_array_foreach(names, i, name)
        log_line(log, LOG_INFO, "clean: removed %s", json_string_value(name));
    log_free(log);
    if (fd >= 0)
        close(fd);
    if (!journal_add_removal(job->path, names, bytes, &err))
        cleaning->report(cleaning->context, true, err.text);
}

static void remove_files(struct cleaning *cleaning, const struct job *job,
                         const struct old_file *const *files, size_t count)
{
    json_t *names = json_array();
    int64_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        struct error err = { 0 };

        if (!old_file_remove(files[i], &err)) {
            cleaning->report(cleaning->context, true, err.text);
            cleaning->failed++;
            continue;
        }
        report_file(cleaning, files[i]);
        json_array_append_new(names,
                              json_visible(files[i]->name, strlen(files[i]->name)));
        bytes += files[i]->bytes;
        cleaning->removed++;
        cleaning->bytes += files[i]->bytes;
    }
    if (json_array_size(names) > 0)
        note(cleaning, job, names, bytes);
    else
        json_decref(names);
}

/* Under both locks, so that neither a start nor a patch comes between. A job that runs
 * again keeps everything. */
static void remove_of_job(struct cleaning *cleaning, const char *path,
                          const struct old_file *const *files, size_t count)
{
    struct job_record record;
    struct user_scope scope;
    struct job job;
    bool busy = false;
    int lock = -1, patch = -1;

    job_init(&job, path);
    if (job_enter_owner(&job, &scope, NULL))
        lock = job_lock(&job, &busy, NULL);
    if (lock >= 0 && old_files_may_go(&job, &record))
        patch = jobfile_lock(path, NULL);
    if (patch >= 0)
        remove_files(cleaning, &job, files, count);
    if (patch >= 0)
        jobfile_unlock(path, patch);
    if (lock >= 0)
        job_unlock(&job, lock);
    user_leave(&scope);
    job_clear(&job);
}

static void remove_all(struct cleaning *cleaning, const struct old_files *files,
                       size_t excess)
{
    const struct old_file **of_job = memory_alloc((excess + 1) * sizeof(*of_job));
    bool *handled = memory_alloc(excess + 1);

    for (size_t i = 0; i < excess; i++) {
        size_t count = 0;

        for (size_t j = i; j < excess && !handled[i]; j++)
            if (!handled[j] && strcmp(files->list[i].job, files->list[j].job) == 0)
                of_job[count++] = &files->list[j];
        for (size_t j = i; j < excess; j++)
            handled[j] |= strcmp(files->list[i].job, files->list[j].job) == 0;
        if (count > 0)
            remove_of_job(cleaning, files->list[i].job, of_job, count);
    }
    free(handled);
    free(of_job);
}

static void show_all(struct cleaning *cleaning, const struct old_files *files,
                     size_t excess)
{
    for (size_t i = 0; i < excess; i++) {
        report_file(cleaning, &files->list[i]);
        cleaning->removed++;
        cleaning->bytes += files->list[i].bytes;
    }
}

void cleaning_run(struct cleaning *cleaning, const struct listing *listing)
{
    struct old_files files = { 0 };
    struct used used = { 0 };
    size_t kept = 0, excess;

    collect(cleaning, listing, &files, &used);
    for (size_t i = 0; i < files.count; i++) { /* keeps the order */
        struct old_file file = files.list[i];

        /* jobs with the same text may share their output */
        if (file.kind == OLD_CHECKPOINT &&
            (is_used(&used, &file) ||
             (kept > 0 && is_same(&files.list[kept - 1], &file))))
            continue;
        files.list[i] = files.list[kept];
        files.list[kept++] = file;
    }
    excess = choose(cleaning, &(struct old_files) { .list = files.list, .count = kept });
    if (cleaning->dry_run)
        show_all(cleaning, &files, excess);
    else
        remove_all(cleaning, &files, excess);
    old_files_clear(&files);
    for (size_t i = 0; i < used.count; i++)
        free(used.list[i].real);
    free(used.list);
}
