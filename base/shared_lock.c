/* base/shared_lock.c - flock, and next to it a lease for other machines. */
#include "config.h"

#include "base/shared_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
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
#include "base/shared_files.h"
#include "base/size.h"
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
        if (file_read(out->name.data, LEASE_BYTES, &out->content, NULL, err)) {
            out->readable = lease_read(out->content.data, out->content.len, &out->lease);
            return true;
        }
        if (errno != ENOENT)
            return false;
        *err = (struct error) { 0 };
    }
    return error_set(err, ERROR_FAULT, "%s changes too often", lock);
}

/* ---- What this process saw of the leases of other machines ---- */

struct sight {
    char *name, *content;
    double since; /* clock_seconds at which the content was first seen */
    bool changed; /* it was another one before: the holder lives, or lived */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct sight *items;
    size_t count, room;
} sights;

static struct sight *find_sight(const char *name)
{
    for (size_t i = 0; i < sights.count; i++)
        if (strcmp(sights.items[i].name, name) == 0)
            return &sights.items[i];
    return NULL;
}

static struct sight *add_sight(const char *name)
{
    if (sights.count == sights.room) {
        sights.room = sights.room ? 2 * sights.room : 16;
        sights.items = memory_resize(sights.items, sights.room, sizeof(*sights.items));
    }
    sights.items[sights.count] = (struct sight) { .name = memory_strdup(name) };
    return &sights.items[sights.count++];
}

static void forget_sight(const char *name)
{
    struct sight *sight;

    pthread_mutex_lock(&mutex);
    sight = find_sight(name);
    if (sight) {
        free(sight->name);
        free(sight->content);
        *sight = sights.items[--sights.count];
    }
    pthread_mutex_unlock(&mutex);
}

/* Return whether the lease has been seen unchanged for a whole lease. */
static bool is_stale(const struct newest *newest)
{
    double now = clock_seconds(), since = now;
    struct sight *sight;

    pthread_mutex_lock(&mutex);
    sight = find_sight(newest->name.data);
    if (!sight)
        sight = add_sight(newest->name.data);
    if (!sight->content || strcmp(sight->content, newest->content.data) != 0) {
        sight->changed = sight->content != NULL;
        free(sight->content);
        sight->content = memory_strdup(newest->content.data);
        sight->since = now;
    }
    since = sight->since;
    pthread_mutex_unlock(&mutex);
    return now - since >= shared_lease_seconds();
}

/* Return whether a process may hold the lease.  `alone`: no process of this machine has the
 * lock. */
static bool may_be_held(const struct newest *newest, bool alone)
{
    bool held = true;

    if (newest->number == 0)
        return false;
    if (newest->readable)
        held = !newest->lease.free && !(alone && lease_is_here(&newest->lease));
    /* one that is stale stays so until it is taken: who looks at it may take it next */
    if (!held)
        forget_sight(newest->name.data);
    return held && !is_stale(newest);
}

/* ---- The leases of this process ---- */

struct held {
    char *lock;
    int64_t number;
    struct lease lease;
    double renewed;                /* clock_seconds before the last renewal was written */
    void (*lost)(const char *why); /* NULL: it is not kept */
};

enum { MOST_HELD = 32 };
static struct held held[MOST_HELD];
static bool keeps; /* the threads run */

static struct held *find_held(const char *lock)
{
    for (size_t i = 0; i < MOST_HELD; i++)
        if (held[i].lock && strcmp(held[i].lock, lock) == 0)
            return &held[i];
    return NULL;
}

static bool note_held(const char *lock, int64_t number, const struct lease *lease,
                      double now, struct error *err)
{
    struct held *free_one = NULL;

    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < MOST_HELD && !free_one; i++)
        if (!held[i].lock)
            free_one = &held[i];
    if (free_one)
        *free_one = (struct held) { memory_strdup(lock), number, *lease, now, NULL };
    pthread_mutex_unlock(&mutex);
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

/* Write the lease in place: a reader that sees a part of it sees a change. */
static bool rewrite(const char *lock, int64_t number, const struct lease *lease)
{
    struct text name, content;
    bool ok = false;
    int fd;

    lease_name(lock, number, &name);
    text_init(&content, LEASE_BYTES);
    lease_write(lease, &content);
    fd = walk_open(name.data, O_WRONLY, 0);
    if (fd >= 0)
        ok = pwrite(fd, content.data, content.len, 0) == (ssize_t)content.len &&
             fsync(fd) == 0;
    if (fd >= 0 && close(fd) != 0)
        ok = false;
    text_clear(&content);
    text_clear(&name);
    return ok;
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

    if (ok && may_be_held(&newest, alone)) {
        *busy = true;
        ok = false;
    }
    ok = ok && lease_new(&lease, err) &&
         create_next(lock, newest.number + 1, &lease, busy, err) &&
         note_held(lock, newest.number + 1, &lease, now, err);
    if (ok && newest.number > 0)
        forget_sight(newest.name.data);
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
        if (!*busy && err)
            *err = failure;
        return -1;
    }
    if (!shared_files(fd)) {
        if (alone)
            return fd;
        *err = failure;
    } else if (take_lease(name, alone, busy, err)) {
        return fd;
    }
    close(fd);
    return -1;
}

void shared_unlock(int fd, const char *name)
{
    struct held was;

    if (drop_held(name, &was)) {
        was.lease.free = true;
        was.lease.count++;
        rewrite(name, was.number, &was.lease);
    }
    close(fd);
}

void shared_lock_pass(int fd, const char *name)
{
    struct held was;

    drop_held(name, &was);
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
    if (ok) {
        newest.lease.count++;
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

    item->lease.count++;
    if (find_newest(item->lock, &newest, NULL))
        ours = newest.number == item->number &&
               (!newest.readable || newest.lease.token == item->lease.token);
    if (ours && newest.number == item->number &&
        rewrite(item->lock, item->number, &item->lease))
        item->renewed = now;
    newest_clear(&newest);
    return ours;
}

static void *keep_all(void *unused)
{
    double lease = shared_lease_seconds();
    struct timespec pause = { .tv_sec = (time_t)(lease * renewal) };

    (void)unused;
    pause.tv_nsec = (long)((lease * renewal - (double)pause.tv_sec) * 1e9);
    for (;;) {
        nanosleep(&pause, NULL);
        for (size_t i = 0; i < MOST_HELD; i++) {
            struct held copy;
            bool ours;

            pthread_mutex_lock(&mutex);
            copy = held[i];
            if (copy.lost)
                copy.lock = memory_strdup(copy.lock);
            pthread_mutex_unlock(&mutex);
            if (!copy.lost)
                continue;
            ours = renew(&copy);
            pthread_mutex_lock(&mutex);
            if (held[i].lock && held[i].lease.token == copy.lease.token) {
                held[i].renewed = copy.renewed;
                held[i].lease.count = copy.lease.count;
            } else {
                ours = true; /* it was unlocked meanwhile */
            }
            pthread_mutex_unlock(&mutex);
            free(copy.lock);
            if (!ours)
                copy.lost(
                    "another machine has taken the lock of the job: this one gave no "
                    "sign of life");
        }
    }
    return NULL;
}

/* Call lost() of a lease that may belong to another machine by now. */
static void check_all(void)
{
    double limit = patience * shared_lease_seconds(), now = clock_seconds();
    void (*lost)(const char *) = NULL;

    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < MOST_HELD; i++)
        if (held[i].lost && now - held[i].renewed > limit)
            lost = held[i].lost;
    pthread_mutex_unlock(&mutex);
    if (lost)
        lost(
            "the shared file system did not answer in time, or this machine stood still: "
            "the lock of the job may belong to another machine");
}

/* The file system may hold up the thread that renews for any time. */
static void *guard_all(void *unused)
{
    struct timespec pause = { .tv_nsec = 200000000 };

    (void)unused;
    for (;;) {
        nanosleep(&pause, NULL);
        check_all();
    }
    return NULL;
}

static bool start_thread(void *(*run)(void *), struct error *err)
{
    pthread_t thread;
    sigset_t all, before;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed)
        pthread_detach(thread);
    errno = failed;
    return !failed || error_errno(err, "cannot start a thread");
}

bool shared_lock_keep(const char *name, void (*lost)(const char *why), struct error *err)
{
    bool start = false;
    struct held *found;

    pthread_mutex_lock(&mutex);
    found = find_held(name);
    if (found) {
        found->lost = lost;
        start = !keeps;
        keeps = true;
    }
    pthread_mutex_unlock(&mutex);
    if (!start)
        return true;
    walk_check_before_changes(check_all);
    return start_thread(keep_all, err) && start_thread(guard_all, err);
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
    busy = !find_newest(name, &newest, NULL) || may_be_held(&newest, alone);
    newest_clear(&newest);
    return busy;
}

bool shared_lock_is_doubtful(const char *name)
{
    struct newest newest;
    struct sight *sight = NULL;
    bool doubtful;

    if (find_newest(name, &newest, NULL) && newest.number > 0) {
        pthread_mutex_lock(&mutex);
        sight = find_sight(newest.name.data);
        doubtful = sight && !sight->changed;
        pthread_mutex_unlock(&mutex);
    } else {
        doubtful = false;
    }
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
