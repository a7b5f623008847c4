/* runner/spool.c - names in a table, what is to be looked at in a list. */
#include "config.h"

#include "runner/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "patcher/journal.h"
#include "runner/claim.h"
#include "runner/drop.h"
#include "runner/names.h"
#include "runner/queue.h"
#include "runner/worker.h"

enum { LOOKS_AT_ONCE = 16, CROWD = 10000 };

/* Seconds. */
static const double scan_every = 30, scan_crowd_every = 60, scan_deaf_every = 1;
static const double again_after_fault = 5, again_while_held = 1;
static const double reopen_first = 0.1, reopen_longest = 5;

struct item {
    char *name;
    struct drop_history history;
    char known[64];       /* source of the file as it was last dealt with */
    char known_state[64]; /* of its state.json then */
    bool pending;         /* in the list */
    double due;
    bool told;         /* that a new text waits for the end of the run */
    struct item *next; /* in the list */
    bool flush;        /* in the list of those whose frozen text is to be flushed */
    struct item *next_flush;
};

struct spool {
    char *path;
    const struct machine *machine;
    struct log *log;
    int dir, inner, lock;
    struct watch *watch;
    struct names names;   /* of struct item */
    struct item *pending; /* a list, latest first */
    struct item *flush;   /* another */
    struct queue queue;
    char *running; /* a job found running, to be adopted */
    char *current; /* the one that was handed out last and has not ended */
    double scan_at, reopen_wait;
    bool absent;
    size_t failures;
};

static struct item *find_item(struct spool *spool, const char *name)
{
    struct item *item = names_find(&spool->names, name);

    if (item)
        return item;
    item = memory_alloc(sizeof(*item));
    item->name = memory_strdup(name);
    names_add(&spool->names, item->name, item);
    return item;
}

static void free_item(void *item)
{
    free(((struct item *)item)->name);
    free(item);
}

static void forget_names(struct spool *spool)
{
    names_clear(&spool->names, free_item);
    queue_clear(&spool->queue);
    free(spool->running);
    free(spool->current);
    spool->pending = spool->flush = NULL;
    spool->running = spool->current = NULL;
}

/* To be looked at, now or at `due` if it was not to be sooner. */
static void want_look(struct spool *spool, struct item *item, double due)
{
    if (!item->pending) {
        item->pending = true;
        item->history.first = clock_seconds();
        item->next = spool->pending;
        spool->pending = item;
        item->due = due;
    } else if (due < item->due) {
        item->due = due;
    }
}

static void on_name(void *context, const char *name, enum watch_hint hint)
{
    struct spool *spool = context;
    struct item *item;

    if (!drop_name_fits(name))
        return;
    item = find_item(spool, name);
    if (hint != WATCH_SEEN)
        item->history.hint = hint;
    want_look(spool, item, 0);
}

static void state_source(const struct job *job, char out[64])
{
    struct stat st;

    out[0] = 0;
    if (lstat(job->state, &st) == 0)
        job_source(&st, out);
}

static void note_known(struct item *item, const struct job *job, const char *source)
{
    snprintf(item->known, sizeof(item->known), "%s", source);
    snprintf(item->history.source, sizeof(item->history.source), "%s", source);
    state_source(job, item->known_state);
    item->told = false;
}

/* Nothing happened to the file or its state since it was dealt with. */
static bool is_old(const struct item *item, const struct job *job)
{
    char state[64];

    if (!item->known[0] || strcmp(item->known, item->history.source) != 0)
        return false;
    state_source(job, state);
    return strcmp(state, item->known_state) == 0;
}

/* A text that a patch or an undo of ours wrote, or replaced. */
static bool is_ours(const struct job *job, const char *digest)
{
    json_t *journal = journal_read(job->path, NULL), *line;
    bool found = false;
    size_t i;

    json_array_foreach(journal, i, line)
    {
        const char *before = json_string_value(json_object_get(line, "before"));
        const char *after = json_string_value(json_object_get(line, "after"));

        found |= (before && strcmp(before, digest) == 0) ||
                 (after && strcmp(after, digest) == 0);
    }
    json_decref(journal);
    return found;
}

static void queue_job(struct spool *spool, const struct job *job,
                      const struct job_record *record)
{
    queue_add(&spool->queue, path_base(job->path), record->priority,
              clock_seconds() + worker_patience(record));
}

static bool is_current(const struct spool *spool, const struct job *job)
{
    return spool->current && strcmp(spool->current, path_base(job->path)) == 0;
}

/* A job whose text is known: go on where its state says. */
static void follow(struct spool *spool, const struct job *job, struct job_record *record)
{
    struct error err = { 0 };

    if (record->state == JOB_RUNNING && !job_locked(job)) {
        if (!worker_settle(job, -1, true, record, &err))
            log_line(spool->log, LOG_ERROR, "job %s: %s", job->name, err.text);
        else if (record->state != JOB_RUNNING)
            log_line(spool->log, LOG_WARN, "job %s: crashed: %s", job->name,
                     record->reason);
    }
    if (is_current(spool, job))
        return;
    if (record->state == JOB_RUNNING && !spool->running)
        spool->running = memory_strdup(path_base(job->path));
    else if (record->state == JOB_READY)
        queue_job(spool, job, record);
}

static void tell_claim(struct spool *spool, const struct job *job,
                       const struct job_record *record, const struct inspection *look)
{
    size_t fixed = 0;

    for (size_t i = 0; i < look->patch.findings.count; i++)
        fixed += look->patch.findings.list[i].fixed;
    if (record->state == JOB_READY)
        log_line(spool->log, LOG_INFO, "job %s: ready, %zu edit%s made", job->name, fixed,
                 fixed == 1 ? "" : "s");
    else
        log_line(spool->log, LOG_WARN, "job %s: rejected: %s", job->name, record->reason);
}

/* Back to `new`, whatever it was; the caller holds the lock. */
static bool make_new(const struct job *job, struct job_record *record, struct error *err)
{
    if (record->state == JOB_RUNNING &&
        !job_event(job, record, EVENT_CRASHED, "a new text was dropped", err))
        return false;
    if (record->state != JOB_NEW && !job_event(job, record, EVENT_CHANGED, NULL, err))
        return false;
    record->step = record->total = 0;
    record->loss = NAN;
    record->resume |= !record->digest[0]; /* a state that a power cut took */
    job_forget(job);
    return true;
}

/* A fault of the job is its rejection; a fault of the machine may pass. */
static bool may_pass(const struct error *err)
{
    return err->code == ERROR_SYSTEM || err->code == ERROR_NONE;
}

static void want_flush(struct spool *spool, struct item *item)
{
    if (item->flush)
        return;
    item->flush = true;
    item->next_flush = spool->flush;
    spool->flush = item;
}

static bool claim_locked(struct spool *spool, struct item *item, const struct job *job,
                         const struct drop *drop, struct error *err)
{
    struct claim_options how = { .machine = spool->machine, .lazy = true, .waits = true };
    struct job_record record;
    struct inspection look = { 0 };
    bool ok = job_read(job, &record, err) && make_new(job, &record, err);

    if (ok && !drop->reason[0]) {
        ok = claim_job(job, &how, &record, &look, err);
        if (!ok && may_pass(err)) {
            inspect_clear(&look);
            return false;
        }
    }
    if (drop->reason[0] || (!ok && err->code != ERROR_SYSTEM)) {
        snprintf(record.source, sizeof(record.source), "%s", item->history.source);
        record.digest[0] = 0;
        ok = claim_reject(job, &record, drop->reason[0] ? drop->reason : err->text, NULL);
    }
    if (ok) {
        note_known(item, job, record.source);
        tell_claim(spool, job, &record, &look);
        spool->failures += record.state == JOB_REJECTED;
        if (record.state == JOB_READY) {
            queue_job(spool, job, &record);
            want_flush(spool, item);
        }
    }
    inspect_clear(&look);
    return ok;
}

/* True: dealt with; else it is looked at again later. */
static bool claim(struct spool *spool, struct item *item, const struct job *job,
                  const struct drop *drop)
{
    struct error err = { 0 };
    bool busy = false, ok;
    int lock = -1;

    if (job_make_dir(job, &err))
        lock = job_lock(job, &busy, &err);
    if (busy) {
        if (!item->told)
            log_line(spool->log, LOG_INFO,
                     "job %s: a new text waits for the end of the run", job->name);
        item->told = true;
        item->due = clock_seconds() + again_while_held;
        return false;
    }
    ok = lock >= 0 && claim_locked(spool, item, job, drop, &err);
    if (lock >= 0)
        close(lock);
    if (!ok) {
        log_line(spool->log, LOG_ERROR, "job %s: %s; trying again", job->name, err.text);
        item->due = clock_seconds() + again_after_fault;
    }
    return ok;
}

/* Is this the text that the record is about? */
static bool is_known_text(struct spool *spool, struct item *item, const struct job *job,
                          const struct job_record *record, const struct drop *drop)
{
    char digest[65];

    if (record->state == JOB_NEW)
        return false;
    if (record->source[0] && strcmp(record->source, item->history.source) == 0)
        return true;
    if (drop->reason[0] || !drop_digest(spool->dir, item->name, drop, digest))
        return false;
    if (strcmp(digest, record->digest) == 0)
        return true;
    /* an undo after the end is no new job; of a rejected one it may be the remedy */
    return record->state != JOB_REJECTED && is_ours(job, digest);
}

static bool deal_with(struct spool *spool, struct item *item, const struct job *job,
                      const struct drop *drop)
{
    struct job_record record;
    struct error err = { 0 };

    if (!job_read(job, &record, &err)) {
        log_line(spool->log, LOG_ERROR, "job %s: %s", job->name, err.text);
        item->due = clock_seconds() + again_after_fault;
        return false;
    }
    if (!is_known_text(spool, item, job, &record, drop))
        return claim(spool, item, job, drop);
    follow(spool, job, &record);
    note_known(item, job, item->history.source);
    return true;
}

/* The very file that the state is about needs no waiting until it is complete. */
static bool is_recorded(const struct item *item, const struct job *job)
{
    struct job_record record;

    return job_read(job, &record, NULL) && record.state != JOB_NEW && record.source[0] &&
           strcmp(record.source, item->history.source) == 0;
}

/* True: nothing is left to look at. */
static bool look_at(struct spool *spool, struct item *item)
{
    double now = clock_seconds();
    struct drop drop;
    struct job job;
    enum drop_verdict verdict =
        drop_look(spool->dir, item->name, now, &item->history, &drop);
    bool done;

    if (verdict == DROP_GONE)
        return true;
    job_init(&job, item->name);
    if (is_old(item, &job)) {
        done = true;
    } else if (verdict == DROP_WAIT && !is_recorded(item, &job)) {
        item->due = now + drop.again;
        done = false;
    } else {
        done = deal_with(spool, item, &job, &drop);
    }
    job_clear(&job);
    return done;
}

static void look_at_due(struct spool *spool)
{
    struct item **at = &spool->pending;
    double now = clock_seconds();
    int looks = 0;

    while (*at && looks < LOOKS_AT_ONCE) {
        struct item *item = *at;

        if (item->due > now) {
            at = &item->next;
            continue;
        }
        looks++;
        if (look_at(spool, item)) {
            item->pending = false;
            *at = item->next;
        } else {
            at = &item->next;
        }
    }
}

static void scan(struct spool *spool)
{
    double every = spool->watch ? scan_every : scan_deaf_every;
    int fd = openat(spool->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *found;

    if (!dir) {
        log_line(spool->log, LOG_ERROR, "watch: cannot read %s: %s", spool->path,
                 strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    while (dir && (found = readdir(dir)))
        on_name(spool, found->d_name, WATCH_SEEN);
    if (dir)
        closedir(dir);
    if (spool->watch && spool->names.count > CROWD)
        every = scan_crowd_every;
    spool->scan_at = clock_seconds() + every;
}

/* A job that a watch before this one left running, before any other is started. */
static void find_running(struct spool *spool)
{
    for (struct item *item = spool->pending; item && !spool->running; item = item->next) {
        struct job job;

        job_init(&job, item->name);
        if (job_locked(&job))
            spool->running = memory_strdup(item->name);
        job_clear(&job);
    }
}

/* Only its owner, this user or root, may decide what runs here. */
static bool trust_dir(int dir, const char *path, struct error *err)
{
    struct stat st;

    if (fstat(dir, &st) != 0)
        return error_errno(err, "cannot look at %s", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return error_set(err, ERROR_USAGE, "%s belongs to another user", path);
    if (st.st_mode & S_IWOTH && !(st.st_mode & S_ISVTX))
        return error_set(err, ERROR_USAGE,
                         "%s may be written to by everybody; chmod o-w %s", path, path);
    return true;
}

static bool open_inner(struct spool *spool, bool *busy, struct error *err)
{
    if (mkdirat(spool->dir, SPOOL_INNER, 0700) != 0 && errno != EEXIST)
        return error_errno(err, "cannot make %s/%s", spool->path, SPOOL_INNER);
    spool->inner =
        openat(spool->dir, SPOOL_INNER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (spool->inner < 0)
        return error_errno(err, "cannot open %s/%s", spool->path, SPOOL_INNER);
    spool->lock = file_lock(SPOOL_INNER "/lock", busy, err);
    return spool->lock >= 0;
}

static bool open_watch(struct spool *spool, struct error *err)
{
    char *above = path_dir(spool->path);
    struct watched watched = { .dir = spool->dir,
                               .inner = spool->inner,
                               .parent = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                               .name = path_base(spool->path) };

    spool->watch = watch_open(&watched, err);
    if (watched.parent >= 0)
        close(watched.parent);
    free(above);
    return spool->watch != NULL;
}

/* Watch, then scan; never the other way round. */
static bool open_dir(struct spool *spool, bool *busy, struct error *err)
{
    struct error deaf = { 0 };

    spool->dir = open(spool->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (spool->dir < 0)
        return error_set(err, ERROR_USAGE, "cannot open %s: %s", spool->path,
                         strerror(errno));
    if (!trust_dir(spool->dir, spool->path, err))
        return false;
    if (fchdir(spool->dir) != 0)
        return error_errno(err, "cannot enter %s", spool->path);
    if (!open_inner(spool, busy, err))
        return false;
    if (!open_watch(spool, &deaf))
        log_line(spool->log, LOG_WARN, "watch: %s: %s; looking each second", spool->path,
                 deaf.text);
    spool->absent = false;
    scan(spool);
    find_running(spool);
    return true;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_dir(struct spool *spool)
{
    watch_close(spool->watch);
    spool->watch = NULL;
    close_fd(&spool->lock);
    close_fd(&spool->inner);
    close_fd(&spool->dir);
    forget_names(spool);
}

/* The path must mean the same folder when the current directory is another one. */
static char *absolute(const char *path)
{
    char *here = getcwd(NULL, 0);
    char *joined = path_join(here ? here : "", path);
    size_t len = strlen(joined);

    while (len > 1 && joined[len - 1] == '/') /* a final slash would follow a link */
        joined[--len] = 0;
    free(here);
    return joined;
}

struct spool *spool_open(const char *path, const struct machine *machine, struct log *log,
                         bool *busy, struct error *err)
{
    struct spool *spool = memory_alloc(sizeof(*spool));

    *spool = (struct spool) { .path = absolute(path),
                              .machine = machine,
                              .log = log,
                              .dir = -1,
                              .inner = -1,
                              .lock = -1,
                              .reopen_wait = reopen_first };
    if (open_dir(spool, busy, err))
        return spool;
    spool_close(spool);
    return NULL;
}

void spool_close(struct spool *spool)
{
    if (!spool)
        return;
    close_dir(spool);
    free(spool->path);
    free(spool);
}

int spool_fd(const struct spool *spool)
{
    return watch_fd(spool->watch);
}

/* Mounts, replacements: the path means another folder than the one that is open. */
static bool is_same_dir(const struct spool *spool)
{
    struct stat path, dir;

    return stat(spool->path, &path) == 0 && fstat(spool->dir, &dir) == 0 &&
           path.st_dev == dir.st_dev && path.st_ino == dir.st_ino;
}

static void lose(struct spool *spool)
{
    if (spool->absent)
        return;
    log_line(spool->log, LOG_WARN, "watch: %s is not there any more; waiting for it",
             spool->path);
    spool->absent = true;
    spool->scan_at = 0;
}

void spool_read(struct spool *spool)
{
    struct watch_news news;

    if (!spool->watch)
        return;
    watch_read(spool->watch, on_name, spool, &news);
    if (news.gone || (news.doubt && !is_same_dir(spool)))
        lose(spool);
    if (news.overflow)
        log_line(spool->log, LOG_WARN, "watch: too many events at once; scanning");
    if (news.overflow || news.woken)
        scan(spool);
}

static void reopen(struct spool *spool)
{
    struct error err = { 0 };
    bool busy = false;

    close_dir(spool);
    if (open_dir(spool, &busy, &err)) {
        log_line(spool->log, LOG_INFO, "watch: %s is there again", spool->path);
        spool->reopen_wait = reopen_first;
        return;
    }
    spool->absent = true;
    spool->scan_at = clock_seconds() + spool->reopen_wait;
    spool->reopen_wait = fmin(2 * spool->reopen_wait, reopen_longest);
}

void spool_look(struct spool *spool, bool idle)
{
    bool time = clock_seconds() >= spool->scan_at;

    if (!spool->absent && time && !is_same_dir(spool))
        lose(spool);
    if (spool->absent && time && idle)
        reopen(spool);
    else if (spool->absent && time)
        spool->scan_at = clock_seconds() + reopen_longest;
    else if (time)
        scan(spool);
    if (!spool->absent)
        look_at_due(spool);
}

void spool_flush(struct spool *spool)
{
    while (spool->flush) {
        struct item *item = spool->flush;
        struct error err = { 0 };
        struct job job;

        job_init(&job, item->name);
        if (!job_flush(&job, &err))
            log_line(spool->log, LOG_ERROR, "job %s: %s", job.name, err.text);
        job_clear(&job);
        item->flush = false;
        spool->flush = item->next_flush;
    }
}

double spool_due(const struct spool *spool)
{
    double due = spool->scan_at;

    if (spool->absent)
        return due;
    for (const struct item *item = spool->pending; item; item = item->next)
        due = fmin(due, item->due);
    return fmin(due, queue_due(&spool->queue));
}

bool spool_is_empty(const struct spool *spool)
{
    return !spool->pending && !spool->running && queue_count(&spool->queue) == 0;
}

char *spool_next(struct spool *spool, bool *running)
{
    char *name = spool->running;

    *running = name != NULL;
    spool->running = NULL;
    if (!name && !spool->absent)
        name = queue_next(&spool->queue, clock_seconds());
    if (name) {
        free(spool->current);
        spool->current = memory_strdup(name);
    }
    return name;
}

void spool_ended(struct spool *spool, const char *name, const struct job_record *record)
{
    free(spool->current);
    spool->current = NULL;
    spool->failures += record->state == JOB_FAILED;
    if (spool->absent) {
        spool->scan_at = 0; /* nothing holds us back from opening it anew */
        return;
    }
    /* a new text, or a state that somebody changed, is found by looking */
    want_look(spool, find_item(spool, name), 0);
}

void spool_again(struct spool *spool, const char *name)
{
    struct item *item = find_item(spool, name);

    free(spool->current);
    spool->current = NULL;
    item->known[0] = 0;
    want_look(spool, item, clock_seconds() + again_after_fault);
}

size_t spool_failures(const struct spool *spool)
{
    return spool->failures;
}

bool spool_is_watched(const char *path)
{
    char *lock = path_join(path, SPOOL_INNER "/lock");
    bool locked = file_locked(lock);

    free(lock);
    return locked;
}
