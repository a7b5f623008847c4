/*
 * runner/spool/listing.c - reads a folder once and each state.json once: a spool may have
 * thousands of finished jobs.
 */
#include "config.h"

#include "runner/spool/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/owner.h"
#include "base/user.h"
#include "runner/job/record.h"
#include "runner/options/names.h"
#include "runner/spool/pause.h"
#include "runner/spool/placement.h"
#include "runner/spool/spool.h"

enum { SILENCE_SECONDS = 60 };

struct listing_folder {
    char *path; /* "": the working directory */
    int fd;
    bool shared; /* several users may drop jobs there */
    uid_t owner;
    char *paused; /* why none of its jobs starts; NULL: it is not paused */
    struct fleet_views views;
};

struct listing_entry {
    char *file;   /* of the job, relative to the folder */
    uint64_t key; /* its first bytes after those that all names share, for sorting */
    size_t folder;
    bool removed; /* only its NAME.run exists */
};

void listing_clear(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        free(listing->entries[i].file);
    for (size_t i = 0; i < listing->folder_count; i++) {
        free(listing->folders[i].path);
        free(listing->folders[i].paused);
        fleet_views_clear(&listing->folders[i].views);
        if (listing->folders[i].fd >= 0)
            close(listing->folders[i].fd);
    }
    free(listing->entries);
    free(listing->folders);
    user_names_free(listing->names);
    *listing = (struct listing) { 0 };
}

void listed_clear(struct listed *job)
{
    free(job->path);
    free(job->name);
}

const char *listing_paused(const struct listing *listing, size_t folder,
                           const char **path)
{
    *path = listing->folders[folder].path;
    return listing->folders[folder].paused;
}

const struct fleet_views *listing_views(const struct listing *listing, size_t folder)
{
    return &listing->folders[folder].views;
}

struct fleet_views listing_take_views(struct listing *listing, size_t folder)
{
    const struct fleet_views views = listing->folders[folder].views;

    listing->folders[folder].views = (struct fleet_views) { 0 };
    return views;
}

const char *listed_reason(const struct listed *job)
{
    return job->record.reason[0] ? job->record.reason : job->waits;
}

void listed_device(const struct listed *job, char out[LISTED_DEVICE])
{
    snprintf(out, LISTED_DEVICE, "%s%s",
             strcmp(job->record.wanted, PLACEMENT_SUBMITTED) == 0 ? "slurm " : "",
             job->record.device);
}

const char *listed_state(const struct listed *job)
{
    if (job->unread)
        return "unknown";
    if (job->record.state == JOB_RUNNING && !job->running)
        return "crashed";
    return job->gate == GATE_HELD ? "held" : job_state_names[job->record.state];
}

const char *listing_folder(const struct listing *listing, size_t index)
{
    return listing->folders[listing->entries[index].folder].path;
}

/* Return why no job of the folder starts, malloc'ed, or NULL. */
static char *read_pause(int dir, const char *folder)
{
    char *inner = path_join(folder, SPOOL_INNER);
    struct pause pause;

    pause_read(dir, inner, &pause, NULL);
    free(inner);
    return pause.on ? memory_strdup(pause.reason) : NULL;
}

/* spool: its path; path: "" for the folder of a single job. */
static void add_folder(struct listing *listing, const char *path, int fd,
                       const char *spool)
{
    struct stat st;
    int fault;
    bool known = fd >= 0 && fstat(fd, &st) == 0;

    if (!listing->names)
        listing->names = user_names_new();
    if (listing->folder_count == listing->folder_room) {
        listing->folder_room = listing->folder_room ? 2 * listing->folder_room : 4;
        listing->folders = memory_resize(listing->folders, listing->folder_room,
                                         sizeof(*listing->folders));
    }
    listing->folders[listing->folder_count++] =
        (struct listing_folder) { .path = memory_strdup(path),
                                  .fd = fd,
                                  .shared = !known || owner_shares(&st, &fault),
                                  .owner = known ? st.st_uid : USER_NONE,
                                  .paused = fd >= 0 ? read_pause(fd, ".")
                                                    : read_pause(AT_FDCWD, spool) };
    fleet_views_read(spool, &listing->folders[listing->folder_count - 1].views);
}

/* Add a job to the last folder.  `file` belongs to the listing. */
static void add_entry(struct listing *listing, char *file, bool removed)
{
    if (listing->count == listing->room) {
        listing->room = listing->room ? 2 * listing->room : 16;
        listing->entries =
            memory_resize(listing->entries, listing->room, sizeof(*listing->entries));
    }
    listing->entries[listing->count++] =
        (struct listing_entry) { file, 0, listing->folder_count - 1, removed };
}

void listing_add_job(struct listing *listing, const char *path)
{
    char *dir = path_dir(path);

    add_folder(listing, "", AT_FDCWD, dir);
    free(dir);
    add_entry(listing, memory_strdup(path), false);
}

static char *copy_of(const char *string, size_t len)
{
    char *copy = memory_alloc(len + 1);

    memcpy(copy, string, len);
    return copy;
}

/* Names of jobs without their endings. */
struct stems {
    char **list; /* malloc'ed, and so is each */
    size_t count, room;
};

static void add_stem(struct stems *stems, const char *name, size_t cut)
{
    if (stems->count == stems->room) {
        stems->room = stems->room ? 2 * stems->room : 64;
        stems->list = memory_resize(stems->list, stems->room, sizeof(char *));
    }
    stems->list[stems->count++] = copy_of(name, strlen(name) - cut);
}

static void clear_stems(struct stems *stems)
{
    for (size_t i = 0; i < stems->count; i++)
        free(stems->list[i]);
    free(stems->list);
}

/* Add the job files, and note the names of both kinds. Return false, with errno, if there
 * may be more. */
static bool read_names(struct listing *listing, DIR *stream, struct stems *jobs,
                       struct stems *runs)
{
    const struct dirent *entry;

    while ((errno = 0, entry = readdir(stream))) {
        const char *name = entry->d_name;
        size_t cut = text_ends(name, ".yaml") ? 5 : text_ends(name, ".yml") ? 4 : 0;

        if (name[0] == '.')
            continue;
        if (cut > 0) {
            add_entry(listing, memory_strdup(name), false);
            add_stem(jobs, name, cut);
        } else if (text_ends(name, ".run")) {
            add_stem(runs, name, strlen(".run"));
        }
    }
    return errno == 0;
}

/* Add the jobs that only have a NAME.run.  A job whose file has no ending is not one of a
 * spool. */
static void add_removed_jobs(struct listing *listing, int dir, const struct stems *jobs,
                             const struct stems *runs)
{
    struct names known = { 0 };
    struct stat st;

    for (size_t i = 0; i < jobs->count; i++)
        if (!names_find(&known, jobs->list[i]))
            names_add(&known, jobs->list[i], jobs->list[i]);
    for (size_t i = 0; i < runs->count; i++) {
        struct text file;

        if (names_find(&known, runs->list[i]) || fstatat(dir, runs->list[i], &st, 0) == 0)
            continue;
        text_init(&file, 0);
        text_addf(&file, "%s.yaml", runs->list[i]);
        add_entry(listing, text_detach(&file, NULL), true);
    }
    names_clear(&known, NULL);
}

static size_t shared_bytes(const char *a, const char *b, size_t most)
{
    size_t n = 0;

    while (n < most && a[n] && a[n] == b[n])
        n++;
    return n;
}

/* A name ends before .yaml: a sweep comes before its jobs, which continue with `-`. */
static unsigned rank(char letter)
{
    return letter == '.' ? 1 : (unsigned char)letter;
}

/* The order of these numbers is that of the texts. */
static uint64_t key_of(const char *text)
{
    uint64_t key = 0;

    for (int i = 0; i < 8; i++)
        key = key << 8 | (*text ? rank(*text++) : 0);
    return key;
}

static int compare_names(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return (int)rank(*a) - (int)rank(*b);
}

static int by_file(const void *a, const void *b)
{
    const struct listing_entry *one = a, *two = b;

    return one->key != two->key ? (one->key < two->key ? -1 : 1)
                                : compare_names(one->file, two->file);
}

static void sort_entries(struct listing_entry *entries, size_t count)
{
    size_t shared = count > 0 ? strlen(entries[0].file) : 0;

    for (size_t i = 1; i < count; i++)
        shared = shared_bytes(entries[0].file, entries[i].file, shared);
    for (size_t i = 0; i < count; i++)
        entries[i].key = key_of(entries[i].file + shared);
    if (count > 0)
        qsort(entries, count, sizeof(*entries), by_file);
}

bool listing_add_folder(struct listing *listing, const char *dir, struct error *err)
{
    struct stems jobs = { 0 }, runs = { 0 };
    size_t from = listing->count;
    bool ok;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int copy = fd >= 0 ? dup(fd) : -1;
    DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;

    if (!stream) {
        error_set(err, ERROR_USAGE, "cannot read %s: %s", dir, strerror(errno));
        if (copy >= 0)
            close(copy);
        if (fd >= 0)
            close(fd);
        return false;
    }
    add_folder(listing, dir, fd, dir);
    ok = read_names(listing, stream, &jobs, &runs) ||
         error_errno(err, "cannot read the folder %s", dir);
    add_removed_jobs(listing, fd, &jobs, &runs);
    closedir(stream);
    clear_stems(&jobs);
    clear_stems(&runs);
    sort_entries(listing->entries + from, listing->count - from);
    return ok;
}

/* Return whether a process holds the lock, or may hold it: a lock that another user may
 * not open shows nothing, and then the record counts. */
static bool is_running(const char *path)
{
    struct job job;
    bool held;

    job_init(&job, path);
    held = job_is_locked(&job) || (access(job.lock, R_OK) != 0 && errno == EACCES);
    job_clear(&job);
    return held;
}

static void read_wait(const struct fleet_views *views, struct listed *job)
{
    const char *waits = fleet_views_wait(views, path_base(job->path));

    snprintf(job->waits, sizeof(job->waits), "%s", waits ? waits : "");
    job->turn = fleet_views_turn(views, path_base(job->path));
}

static void read_gate(const struct listing_folder *folder, const char *run,
                      struct listed *job)
{
    struct job_record *record = &job->record;
    struct gate gate;

    gate_read(folder->fd, run, &gate, NULL);
    if (gate.kind != GATE_HELD && record->state != JOB_READY)
        return; /* what an earlier text waited for */
    job->gate = gate.kind;
    if (gate.kind != GATE_OPEN)
        record_set_text(record->reason, sizeof(record->reason), gate.reason);
    else if (folder->paused && record->state == JOB_READY)
        record_set_text(record->reason, sizeof(record->reason), folder->paused);
    else if (record->state == JOB_READY)
        read_wait(&folder->views, job);
}

/* Say so if the process that runs the job shows no sign of life (guard.h); the wall clock
 * is good enough for people. */
static void note_silence(const struct listing_folder *folder, const char *run,
                         struct job_record *record)
{
    char *lock = path_join(run, "lock");
    struct stat st;
    double silence = 0;

    if (fstatat(folder->fd, lock, &st, AT_SYMLINK_NOFOLLOW) == 0)
        silence = clock_wall() - (double)st.st_mtim.tv_sec;
    if (silence >= SILENCE_SECONDS)
        snprintf(record->reason, sizeof(record->reason), "no sign of life for %.0f s",
                 silence);
    free(lock);
}

static void read_record(const struct listing_folder *folder, const char *run,
                        struct listed *job)
{
    struct error err = { 0 };
    char *state;

    if (!path_run_is_free(job->path, &err)) { /* its folder belongs to another job */
        record_init(&job->record);
        job->record.state = JOB_REJECTED;
        record_set_text(job->record.reason, sizeof(job->record.reason), err.text);
        return;
    }
    state = path_join(run, "state.json");
    if (!job_read_at(folder->fd, state, &job->record, &err)) {
        job->unread = true;
        record_set_text(job->record.reason, sizeof(job->record.reason), err.text);
    }
    job->running = job->record.state == JOB_RUNNING && is_running(job->path);
    if (job->running)
        note_silence(folder, run, &job->record);
    if (!job->unread && gate_matters(job->record.state))
        read_gate(folder, run, job);
    free(state);
}

/* In a folder of one user, all jobs run as that user, and need not be looked at. */
static void read_owner(const struct listing *listing, const struct listing_folder *folder,
                       const char *file, struct listed *out)
{
    struct stat st = { .st_uid = folder->owner };

    out->owner = USER_NONE;
    out->user[0] = 0;
    if (folder->shared && fstatat(folder->fd, file, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    out->owner = st.st_uid;
    user_names_find(listing->names, out->owner, out->user);
}

bool listing_shows(const struct listing *listing, const struct listed *job)
{
    return !listing->chosen || job->owner == listing->only;
}

bool listing_read(const struct listing *listing, size_t index, struct listed *out)
{
    const struct listing_entry *entry = &listing->entries[index];
    const struct listing_folder *folder = &listing->folders[entry->folder];
    char *run = path_run_dir(entry->file);
    const char *base = path_base(run);

    out->path = path_join(folder->path, entry->file);
    out->name = copy_of(base, strlen(base) - strlen(".run"));
    out->unread = out->running = false;
    out->waits[0] = 0;
    out->turn = 0;
    out->gate = GATE_OPEN;
    read_record(folder, run, out);
    read_owner(listing, folder, entry->removed ? run : entry->file, out);
    free(run);
    if (!entry->removed || out->unread || out->record.state == JOB_RUNNING ||
        out->record.state == JOB_READY)
        return true;
    listed_clear(out);
    return false;
}
