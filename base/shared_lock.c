/* base/shared_lock.c - flock, and next to it a lease for other machines. */
#include "config.h"

#include "base/shared_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lease_file.h"
#include "base/lease_sights.h"
#include "base/shared_files.h"
#include "base/size.h"
#include "base/ticks.h"
#include "base/walk.h"

/* Shares of a lease: between two renewals, and without one until the holder stops. */
static const double renewal = 1.0 / 12, patience = 2.0 / 3;

/* ---- The lease file with the highest number ---- */

struct newest {
    int64_t number; /* 0: there is none */
    struct text name;
    struct text content;
    struct lease lease;
    bool readable; /* `lease` is what the content says */
};

static void newest_clear(struct newest *newest)
{
    text_clear(&newest->name);
    text_clear(&newest->content);
}

static void lease_name(const char *lock, int64_t number, struct text *out)
{
    text_init(out, 0);
    text_addf(out, "%s.%" PRId64, lock, number);
}

/* Return the number of a lease file of the lock, or 0: it is another file. */
static int64_t number_of(const char *file, const char *lock)
{
    size_t len = strlen(lock);
    int64_t number;
    char *end;

    if (strncmp(file, lock, len) != 0 || file[len] != '.' || file[len + 1] < '1' ||
        file[len + 1] > '9')
        return 0;
    errno = 0;
    number = strtoll(file + len + 1, &end, 10);
    return *end || errno || number >= INT64_MAX - 1 ? 0 : number;
}

/* Call each(file, number) for all lease files. */
static bool each_lease(const char *lock,
                       void (*each)(int dir, const char *file, int64_t number,
                                    void *context),
                       void *context)
{
    struct walk walk;
    struct dirent *entry;
    DIR *dir;
    int fd = -1;

    if (walk_begin(&walk, lock) >= 0)
        fd = openat(walk.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        int number = errno;

        if (fd >= 0)
            close(fd);
        walk_end(&walk);
        errno = number;
        return false;
    }
    errno = 0;
    while ((entry = readdir(dir))) {
        int64_t number = number_of(entry->d_name, walk.last);

        if (number > 0)
            each(dirfd(dir), entry->d_name, number, context);
        errno = 0;
    }
    fd = errno;
    closedir(dir);
    walk_end(&walk);
    errno = fd;
    return fd == 0;
}

static void take_highest(int dir, const char *file, int64_t number, void *context)
{
    int64_t *highest = context;

    (void)dir;
    (void)file;
    if (number > *highest)
        *highest = number;
}

struct below {
    int64_t number;
};

static void remove_older(int dir, const char *file, int64_t number, void *context)
{
    const struct below *below = context;

    if (number < below->number)
        unlinkat(dir, file, 0);
}

/* Find the lease that counts.  One that vanishes meanwhile was replaced: look again. */
static bool find_newest(const char *lock, struct newest *out, struct error *err)
{
    enum { TRIES = 20 };
    struct error failure = { 0 };

    *out = (struct newest) { 0 };
    text_init(&out->name, 0);
    text_init(&out->content, LEASE_BYTES);
    for (int tries = 0; tries < TRIES; tries++) {
        out->number = 0;
        if (!each_lease(lock, take_highest, &out->number))
            return error_errno(err, "cannot read the folder of %s", lock);
        if (out->number == 0)
            return true;
        text_clear(&out->name);
        lease_name(lock, out->number, &out->name);
        errno = 0;
        if (file_read(out->name.data, LEASE_BYTES, &out->content, NULL, &failure)) {
            out->readable = lease_read(out->content.data, out->content.len, &out->lease);
            return true;
        }
        if (errno != ENOENT && errno != ESTALE)
            return error_set(err, failure.code, "%s", failure.text);
        error_clear(&failure);
    }
    return error_set(err, ERROR_FAULT, "%s changes too often", lock);
}

/* Return whether a process may hold the lease.  `alone`: no process of this machine has the
 * lock. */
static bool may_be_held(const char *lock, const struct newest *newest, bool alone)
{
    bool held = true;

    if (newest->number == 0)
        return false;
    if (newest->readable)
        held = !newest->lease.free && !(alone && lease_is_here(&newest->lease));
    /* one that is stale stays so until it is taken: who looks at it may take it next */
    if (!held)
        lease_sight_forget(lock);
    return held && lease_sight_note(lock, newest->number, newest->content.data) <
                       shared_lease_seconds();
}

/* ---- The leases of this process ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
/* One thread at a time writes the leases of this process: a renewal must not follow the end. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

struct held {
    char *lock;
    int64_t number;
    struct lease lease;
    double renewed;                /* clock_seconds before the last renewal was written */
    void (*lost)(const char *why); /* NULL: it is not kept */
    pid_t process;                 /* a child that was forked does not hold it */
};

enum { MOST_HELD = 32 };
static struct held held[MOST_HELD];
static pid_t keeper; /* the process whose threads run */

static struct held *find_held(const char *lock)
{
    for (size_t i = 0; i < MOST_HELD; i++)
        if (held[i].lock && held[i].process == getpid() &&
            strcmp(held[i].lock, lock) == 0)
            return &held[i];
    return NULL;
}

static bool check_all(void);

static bool note_held(const char *lock, int64_t number, const struct lease *lease,
                      double now, struct error *err)
{
    struct held *free_one = NULL;

    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < MOST_HELD && !free_one; i++)
        if (!held[i].lock || held[i].process != getpid())
            free_one = &held[i];
    if (free_one)
        *free_one =
            (struct held) { memory_strdup(lock), number, *lease, now, NULL, getpid() };
    pthread_mutex_unlock(&mutex);
    walk_check_before_changes(check_all);
    return free_one || error_set(err, ERROR_SYSTEM, "too many locks at once: %s", lock);
}

/* Forget the lease of a lock; copy it to *out.  Return whether there was one. */
static bool drop_held(const char *lock, struct held *out)
{
    struct held *found;

    pthread_mutex_lock(&mutex);
    found = find_held(lock);
    if (found) {
        *out = *found;
        free(found->lock);
        *found = (struct held) { 0 };
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

/* Return whether an open file is that lease, or none any more: a folder that was removed and
 * made again has other leases under the same names. */
static bool is_lease(int fd, const struct lease *lease)
{
    char content[LEASE_BYTES];
    ssize_t len = pread(fd, content, sizeof(content), 0);
    struct lease found;

    if (len >= 0 &&
        (!lease_read(content, (size_t)len, &found) || found.token == lease->token))
        return true;
    errno = len < 0 ? errno : ESTALE;
    return false;
}

/* Write the lease in place: a reader that sees a part of it sees a change. */
static bool rewrite(const char *lock, int64_t number, const struct lease *lease)
{
    struct text name, content;
    bool ok = false;
    int fd;

    lease_name(lock, number, &name);
    text_init(&content, LEASE_BYTES);
    lease_write(lease, &content);
    fd = walk_open(name.data, O_RDWR, 0);
    if (fd >= 0)
        ok = is_lease(fd, lease) &&
             pwrite(fd, content.data, content.len, 0) == (ssize_t)content.len &&
             fsync(fd) == 0;
    if (fd >= 0 && close(fd) != 0)
        ok = false;
    text_clear(&content);
    text_clear(&name);
    return ok;
}

/* Counts grow with the clock of this start of the machine: a child can see how old the lease
 * is that its parent passed. */
static int64_t next_count(int64_t last)
{
    int64_t now = (int64_t)(clock_seconds() * 1000);

    return now > last ? now : last + 1;
}

static bool is_expired(double renewed, double now)
{
    return now - renewed > patience * shared_lease_seconds();
}

/* ---- Taking the lock ---- */

/* Return whether the lease of this process counts.  A slow process may have created one with a
 * number that others have used and removed: a higher one exists then, and the next holder
 * removes this one.  A server that answers late may say that a name exists because it has
 * just given it to this process. */
static bool is_newest(const char *lock, int64_t number, const struct lease *lease,
                      bool *busy, struct error *err)
{
    struct newest newest;
    bool ours = false;

    if (find_newest(lock, &newest, err)) {
        ours = newest.number == number && newest.readable &&
               newest.lease.token == lease->token;
        *busy = !ours;
    }
    newest_clear(&newest);
    return ours;
}

/* Create the lease file with the next number.  Return false with *busy if another process
 * was faster. */
static bool create_next(const char *lock, int64_t number, const struct lease *lease,
                        bool *busy, struct error *err)
{
    struct text name, temporary, content;
    struct below below = { number };
    bool ok;

    lease_name(lock, number, &name);
    text_init(&content, LEASE_BYTES);
    text_init(&temporary, 0);
    lease_write(lease, &content);
    text_addf(&temporary, "%s.new-%016" PRIx64, lock, lease->token);
    ok = file_create(temporary.data, content.data, content.len, 0644, err);
    if (ok && walk_rename_new(temporary.data, name.data) != 0) {
        ok = errno == EEXIST || error_errno(err, "cannot create %s", name.data);
        walk_unlink(temporary.data);
    }
    ok = ok && is_newest(lock, number, lease, busy, err);
    if (ok)
        each_lease(lock, remove_older, &below);
    text_clear(&temporary);
    text_clear(&content);
    text_clear(&name);
    return ok;
}

/* Take the lease of a lock whose flock this process has, or which has none. */
static bool take_lease(const char *lock, bool alone, bool *busy, struct error *err)
{
    struct newest newest;
    struct lease lease;
    double now = clock_seconds();
    bool ok = find_newest(lock, &newest, err);

    if (ok && may_be_held(lock, &newest, alone)) {
        *busy = true;
        ok = false;
    }
    ok = ok && lease_new(&lease, err);
    lease.count = ok ? next_count(0) : 0;
    ok = ok && create_next(lock, newest.number + 1, &lease, busy, err) &&
         note_held(lock, newest.number + 1, &lease, now, err);
    if (ok)
        lease_sight_forget(lock);
    newest_clear(&newest);
    return ok;
}

static bool has_no_flock(int number)
{
    return number == ENOLCK || number == EOPNOTSUPP || number == ENOSYS;
}

int shared_lock(const char *name, bool *busy, struct error *err)
{
    struct error failure = { 0 };
    int fd = file_lock(name, busy, &failure);
    bool alone = fd >= 0;

    if (fd < 0 && !*busy && has_no_flock(errno))
        fd = walk_open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0) {
        if (!*busy)
            error_set(err, failure.code, "%s", failure.text);
        return -1;
    }
    if (!shared_files(fd)) {
        if (alone)
            return fd;
        error_set(err, failure.code, "%s", failure.text);
    } else if (take_lease(name, alone, busy, err)) {
        return fd;
    }
    close(fd);
    return -1;
}

void shared_unlock(int fd, const char *name)
{
    struct held was;

    pthread_mutex_lock(&writing);
    if (drop_held(name, &was)) {
        was.lease.free = true;
        was.lease.count = next_count(was.lease.count);
        rewrite(name, was.number, &was.lease);
    }
    pthread_mutex_unlock(&writing);
    close(fd);
}

void shared_lock_pass(int fd, const char *name)
{
    struct held was;

    pthread_mutex_lock(&writing);
    drop_held(name, &was);
    pthread_mutex_unlock(&writing);
    close(fd);
}

bool shared_lock_adopt(int fd, const char *name, struct error *err)
{
    struct newest newest;
    double now = clock_seconds();
    bool ok;

    if (!shared_files(fd))
        return true;
    ok = find_newest(name, &newest, err);
    if (ok && (!newest.readable || newest.lease.free || !lease_is_here(&newest.lease)))
        ok = error_set(err, ERROR_SYSTEM, "%s: another machine has taken the lock", name);
    /* another machine may be about to take it */
    if (ok && is_expired((double)newest.lease.count / 1000, now))
        ok = error_set(err, ERROR_FAULT, "%s: this process started too late to keep it",
                       name);
    if (ok) {
        newest.lease.count = next_count(newest.lease.count);
        ok = rewrite(name, newest.number, &newest.lease) ||
             error_errno(err, "cannot write %s", newest.name.data);
    }
    ok = ok && note_held(name, newest.number, &newest.lease, now, err);
    newest_clear(&newest);
    return ok;
}

/* ---- Keeping it ---- */

/* Renew a lease.  Return false if another machine has taken it. */
static bool renew(struct held *item)
{
    struct newest newest;
    double now = clock_seconds();
    bool ours = true;

    item->lease.count = next_count(item->lease.count);
    if (find_newest(item->lock, &newest, NULL))
        ours = newest.number == item->number &&
               (!newest.readable || newest.lease.token == item->lease.token);
    if (ours && newest.number == item->number &&
        rewrite(item->lock, item->number, &item->lease))
        item->renewed = now;
    newest_clear(&newest);
    return ours;
}

/* Renew one of the leases that are kept. */
static void keep_one(size_t i)
{
    struct held copy;
    bool ours = true;

    pthread_mutex_lock(&writing);
    pthread_mutex_lock(&mutex);
    copy = held[i];
    pthread_mutex_unlock(&mutex);
    if (copy.lost) { /* shared_unlock waits */
        ours = renew(&copy);
        pthread_mutex_lock(&mutex);
        held[i].renewed = copy.renewed;
        held[i].lease.count = copy.lease.count;
        pthread_mutex_unlock(&mutex);
    }
    pthread_mutex_unlock(&writing);
    if (!ours)
        copy.lost(
            "another machine has taken the lock of the job: this one gave no sign of "
            "life");
}

static void keep_all(void)
{
    for (size_t i = 0; i < MOST_HELD; i++)
        keep_one(i);
}

/* Call lost() of a lease that may belong to another machine by now.  Return false if there is
 * one that is not kept. */
static bool check_all(void)
{
    const double now = clock_seconds();
    void (*lost)(const char *) = NULL;
    bool ours = true;

    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < MOST_HELD; i++) {
        if (!held[i].lock || held[i].process != getpid() ||
            !is_expired(held[i].renewed, now))
            continue;
        ours = false;
        lost = held[i].lost ? held[i].lost : lost;
    }
    pthread_mutex_unlock(&mutex);
    if (lost)
        lost(
            "the shared file system did not answer in time, or this machine stood still: "
            "the lock of the job may belong to another machine");
    return ours;
}

/* The file system may hold up the thread that renews for any time. */
static void guard_all(void)
{
    check_all();
}

bool shared_lock_keep(const char *name, void (*lost)(const char *why), struct error *err)
{
    const struct tick ticks[] = { { keep_all, renewal * shared_lease_seconds() },
                                  { guard_all, 0.2 } };
    bool start = false;
    struct held *found;

    pthread_mutex_lock(&mutex);
    found = find_held(name);
    if (found) {
        found->lost = lost;
        start = keeper != getpid();
        keeper = getpid();
    }
    pthread_mutex_unlock(&mutex);
    return !start || ticks_start(ticks, TS_COUNT(ticks), err);
}

/* ---- Looking at it ---- */

bool shared_is_locked(const char *name)
{
    int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    struct newest newest;
    bool shared, busy, alone = false;

    if (fd < 0)
        return file_is_locked(name);
    shared = shared_files(fd);
    if (shared) {
        alone = flock(fd, LOCK_SH | LOCK_NB) == 0;
        busy = !alone && errno == EWOULDBLOCK;
        if (alone)
            flock(fd, LOCK_UN);
    } else {
        busy = file_lock_is_held(fd);
    }
    close(fd);
    if (busy || !shared)
        return busy;
    busy = !find_newest(name, &newest, NULL) || may_be_held(name, &newest, alone);
    newest_clear(&newest);
    return busy;
}

bool shared_lock_is_doubtful(const char *name)
{
    struct newest newest;
    bool doubtful = find_newest(name, &newest, NULL) && newest.number > 0 &&
                    lease_sight_is_still(name, newest.number);

    newest_clear(&newest);
    return doubtful;
}

void shared_lock_holder(const char *name, char host[SHARED_HOST])
{
    struct newest newest;

    host[0] = 0;
    if (!shared_files_at(name))
        return;
    if (find_newest(name, &newest, NULL) && newest.number > 0 && newest.readable &&
        !newest.lease.free && !lease_is_here(&newest.lease))
        snprintf(host, SHARED_HOST, "%s", newest.lease.host);
    newest_clear(&newest);
}
