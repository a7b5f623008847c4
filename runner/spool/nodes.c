/* runner/spool/nodes.c - one small file per node, written in place: other machines see the
 * bytes of an open file sooner than that its name means another one. */
#include "config.h"

#include "runner/spool/nodes.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/shared_files.h"
#include "base/shared_lock.h"
#include "base/walk.h"
#include "runner/spool/node_files.h"

enum { BEAT_MODE = 0644, USERS_MAX = 1024 };
static const double silent_seconds = 10, forget_after = 7 * 86400;

static const char turn_file[] = NODE_FILES "/turn";

struct node {
    char name[NODE_NAME_ROOM];
    struct node_beat beat;
    double seen;         /* when it changed last, by clock_seconds */
    struct probe *probe; /* malloc'ed; NULL: not known */
    bool cpu;
    bool alive, found;
};

/* A job that another node runs. */
struct node_job {
    char *job; /* malloc'ed */
    char node[NODE_NAME_ROOM];
    uid_t user;
};

struct nodes {
    char name[NODE_NAME_ROOM];
    struct node_beat own;
    bool local;
    struct log *log;
    int lock, file, turn;
    struct node *list;
    size_t count, room;
    struct node_job *jobs;
    size_t job_count, job_room;
    bool leads, known; /* known: it was decided once */
    double polled, due;
};

double nodes_silence(void)
{
    return fmax(fmin(silent_seconds, shared_lease_seconds()), 3 * NODE_BEAT_SECONDS);
}

/* ---- Names ---- */

static bool is_letter(char letter)
{
    return isalnum((unsigned char)letter) || letter == '-' || letter == '_' ||
           letter == '.';
}

void nodes_host(char out[NODE_NAME_ROOM])
{
    char host[256] = "";

    if (gethostname(host, sizeof(host) - 1) != 0 || !host[0])
        strcpy(host, "localhost");
    snprintf(out, NODE_NAME_ROOM, "%.*s", NODE_NAME_ROOM - 1, host);
    for (char *at = out; *at; at++)
        *at = is_letter(*at) && (at > out || *at != '.') ? *at : '-';
}

bool nodes_name_is_valid(const char *name, struct error *err)
{
    bool valid = name[0] && name[0] != '.' && strlen(name) < NODE_NAME_ROOM;

    for (const char *at = name; *at; at++)
        valid &= is_letter(*at);
    return valid || error_set(err, ERROR_USAGE,
                              "--node must have up to %d letters, digits, '.', '-' or "
                              "'_', and not begin with '.', not '%.80s'",
                              NODE_NAME_ROOM - 1, name);
}

const char *nodes_name(const struct nodes *nodes)
{
    return nodes ? nodes->name : "";
}

/* ---- The others ---- */

static struct node *find(const struct nodes *nodes, const char *name)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (strcmp(nodes->list[i].name, name) == 0)
            return &nodes->list[i];
    return NULL;
}

static struct node *add(struct nodes *nodes, const char *name)
{
    struct node *node;

    if (nodes->count == nodes->room) {
        nodes->room = nodes->room ? 2 * nodes->room : 8;
        nodes->list = memory_resize(nodes->list, nodes->room, sizeof(*nodes->list));
    }
    node = &nodes->list[nodes->count++];
    *node = (struct node) { .seen = clock_seconds() };
    snprintf(node->name, sizeof(node->name), "%s", name);
    return node;
}

static bool holds_lock(const char *name)
{
    char *lock = node_file(".", name, ".lock");
    bool held = file_is_locked(lock);

    free(lock);
    return held;
}

/* Return whether the devices of the node may have changed. */
static bool read_devices(struct node *node, uint64_t start)
{
    struct probe probe;

    if (node->probe && node->beat.start == start)
        return false;
    free(node->probe);
    node->probe = NULL;
    if (node_probe_read(".", node->name, &probe, &node->cpu)) {
        node->probe = memory_alloc(sizeof(probe));
        *node->probe = probe;
    }
    return true;
}

/* Return whether it came, went, or may have other devices. */
static bool look_at(struct nodes *nodes, struct node *node)
{
    struct node_beat beat = { .count = 0 };
    const uint64_t start = node->beat.start;
    bool alive, changed;

    node->found = true;
    if (!node_beat_read(".", node->name, &beat)) {
        node_beat_clear(&beat);
        node->found = errno != ENOENT;
    } else if (beat.count != node->beat.count) {
        node->seen = clock_seconds();
        node_beat_clear(&node->beat);
        node->beat = beat;
    } else {
        node_beat_clear(&beat);
    }
    alive = node->found && clock_seconds() - node->seen < nodes_silence() &&
            (!nodes->local || holds_lock(node->name));
    if (alive != node->alive)
        log_line(nodes->log, alive ? LOG_INFO : LOG_WARN, "watch: node %s %s", node->name,
                 alive         ? "shares the folder"
                 : node->found ? "shows no sign of life"
                               : "has left");
    changed = alive != node->alive;
    node->alive = alive;
    return (alive && read_devices(node, start)) || changed;
}

/* The time of the server, by which files are written. */
static double age_of(const struct nodes *nodes, const char *name)
{
    char *file = node_file(".", name, ".beat");
    struct stat own, other;
    double age = 0;

    if (fstat(nodes->file, &own) == 0 && lstat(file, &other) == 0)
        age = (double)(own.st_mtim.tv_sec - other.st_mtim.tv_sec);
    free(file);
    return age;
}

static void forget(struct nodes *nodes, size_t i)
{
    node_beat_clear(&nodes->list[i].beat);
    free(nodes->list[i].probe);
    nodes->list[i] = nodes->list[--nodes->count];
}

static void note_name(void *context, const char *name)
{
    struct nodes *nodes = context;

    if (strcmp(name, nodes->name) != 0 && !find(nodes, name))
        add(nodes, name);
}

/* Return whether others came or went. */
static bool read_others(struct nodes *nodes)
{
    const double now = clock_seconds();
    bool changed = false;

    node_files_each(".", note_name, nodes);
    for (size_t i = 0; i < nodes->count;) {
        struct node *node = &nodes->list[i];

        /* this process was stopped: the others could not be seen */
        if (now - nodes->polled > 3 * NODE_BEAT_SECONDS)
            node->seen = now;
        changed |= look_at(nodes, node);
        if (!node->alive && nodes->leads && age_of(nodes, node->name) > forget_after)
            node_files_remove(".", node->name);
        if (node->found)
            i++;
        else
            forget(nodes, i);
    }
    nodes->polled = now;
    return changed;
}

static bool decide_lead(struct nodes *nodes)
{
    const char *first = nodes->name;
    bool leads;

    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->list[i].alive && strcmp(nodes->list[i].name, first) < 0)
            first = nodes->list[i].name;
    leads = first == nodes->name;
    if (nodes->known && leads == nodes->leads)
        return false;
    nodes->known = true;
    nodes->leads = leads;
    log_line(nodes->log, LOG_INFO, "watch: node %s takes in the jobs", first);
    return true;
}

bool nodes_lead(const struct nodes *nodes)
{
    return !nodes || nodes->leads;
}

bool nodes_live(const struct nodes *nodes, const char *name)
{
    const struct node *node;

    if (!nodes || strcmp(name, nodes->name) == 0)
        return true;
    node = find(nodes, name);
    return node && node->alive;
}

/* ---- This node ---- */

/* Open the file of the beats again if someone removed it: to the others this node is gone. */
static void keep_file(struct nodes *nodes)
{
    char *file = node_file(".", nodes->name, ".beat");

    if (file_was_replaced(nodes->file, file)) {
        int again = walk_open(file, O_RDWR | O_CREAT, BEAT_MODE);

        if (again >= 0) {
            fchmod(again, BEAT_MODE);
            close(nodes->file);
            nodes->file = again;
        }
    }
    free(file);
}

static void beat(struct nodes *nodes, const struct people *running)
{
    keep_file(nodes);
    node_beat_clear(&nodes->own);
    for (size_t i = 0; i < running->count && nodes->own.users < USERS_MAX; i++)
        if (running->list[i].here > 0)
            node_beat_add(&nodes->own, running->list[i].user, running->list[i].here);
    nodes->own.count++;
    node_beat_write(nodes->file, &nodes->own);
    nodes->due = clock_seconds() + NODE_BEAT_SECONDS;
}

bool nodes_poll(struct nodes *nodes, const struct people *running)
{
    bool changed;

    if (!nodes || clock_seconds() < nodes->due)
        return false;
    changed = read_others(nodes);
    changed |= decide_lead(nodes);
    beat(nodes, running);
    return changed;
}

double nodes_due(const struct nodes *nodes)
{
    return nodes ? nodes->due : INFINITY;
}

/* Return whether another machine of the same name beats, whose lock this one does not see. */
static bool is_taken(const char *name, const char *machine)
{
    static const struct timespec wait = { .tv_sec = 2 * NODE_BEAT_SECONDS,
                                          .tv_nsec = 500000000 };
    struct node_beat before = { .count = 0 }, after = { .count = 0 };
    bool taken = node_beat_read(".", name, &before) && before.machine[0] &&
                 strcmp(before.machine, machine) != 0;

    if (taken) {
        nanosleep(&wait, NULL);
        taken = node_beat_read(".", name, &after) && before.count != after.count;
    }
    node_beat_clear(&before);
    node_beat_clear(&after);
    return taken;
}

static bool take_place(struct nodes *nodes, bool *busy, struct error *err)
{
    char *lock = node_file(".", nodes->name, ".lock");
    char *file = node_file(".", nodes->name, ".beat");
    bool ok;

    nodes->lock = file_lock(lock, busy, err);
    ok = nodes->lock >= 0;
    if (ok && is_taken(nodes->name, nodes->own.machine)) {
        *busy = true;
        ok = false;
    }
    if (ok) {
        nodes->file = walk_open(file, O_RDWR | O_CREAT, BEAT_MODE);
        ok = (nodes->file >= 0 && fchmod(nodes->file, BEAT_MODE) == 0) ||
             error_errno(err, "cannot create %s", file);
    }
    free(lock);
    free(file);
    return ok;
}

struct nodes *nodes_open(const char *name, const struct node_devices *own, bool local,
                         struct log *log, bool *busy, struct error *err)
{
    struct nodes *nodes = memory_alloc(sizeof(*nodes));

    *nodes = (struct nodes) { .local = local,
                              .log = log,
                              .lock = -1,
                              .file = -1,
                              .turn = -1,
                              .polled = clock_seconds() };
    snprintf(nodes->name, sizeof(nodes->name), "%s", name);
    node_machine(nodes->own.machine);
    nodes->own.start = (uint64_t)(clock_wall() * 1e6);
    if (take_place(nodes, busy, err) &&
        node_probe_write(name, own->probe, own->cpu, err)) {
        struct node_beat last = { .count = 0 };

        /* one that others have not seen of the last watch */
        if (node_beat_read(".", name, &last))
            nodes->own.count = last.count + 1;
        node_beat_clear(&last);
        nodes_poll(nodes, &(struct people) { .count = 0 });
        return nodes;
    }
    nodes_close(nodes);
    return NULL;
}

void nodes_close(struct nodes *nodes)
{
    if (!nodes)
        return;
    if (nodes->file >= 0) {
        close(nodes->file);
        node_files_remove(".", nodes->name);
    }
    if (nodes->lock >= 0)
        close(nodes->lock);
    if (nodes->turn >= 0)
        shared_unlock(nodes->turn, turn_file);
    while (nodes->count > 0)
        forget(nodes, 0);
    for (size_t i = 0; i < nodes->job_count; i++)
        free(nodes->jobs[i].job);
    node_beat_clear(&nodes->own);
    free(nodes->jobs);
    free(nodes->list);
    free(nodes);
}

/* ---- What runs where ---- */

size_t nodes_devices(const struct nodes *nodes, struct node_devices out[], size_t room)
{
    size_t count = 0;

    for (size_t i = 0; nodes && i < nodes->count && count < room; i++)
        if (nodes->list[i].alive && nodes->list[i].probe)
            out[count++] =
                (struct node_devices) { nodes->list[i].name, nodes->list[i].probe,
                                        nodes->list[i].cpu };
    return count;
}

void nodes_note_job(struct nodes *nodes, const char *job, const char *node, uid_t user)
{
    size_t i = 0;

    if (!nodes)
        return;
    while (i < nodes->job_count && strcmp(nodes->jobs[i].job, job) != 0)
        i++;
    if (i < nodes->job_count) {
        free(nodes->jobs[i].job);
        nodes->jobs[i] = nodes->jobs[--nodes->job_count];
    }
    if (!node[0])
        return;
    if (nodes->job_count == nodes->job_room) {
        nodes->job_room = nodes->job_room ? 2 * nodes->job_room : 16;
        nodes->jobs = memory_resize(nodes->jobs, nodes->job_room, sizeof(*nodes->jobs));
    }
    nodes->jobs[nodes->job_count] = (struct node_job) { memory_strdup(job), "", user };
    snprintf(nodes->jobs[nodes->job_count++].node, NODE_NAME_ROOM, "%s", node);
}

void nodes_count(const struct nodes *nodes, struct people *people)
{
    for (size_t i = 0; nodes && i < nodes->count; i++)
        for (size_t j = 0; nodes->list[i].alive && j < nodes->list[i].beat.users; j++)
            people_find(people, nodes->list[i].beat.user[j].id)->running +=
                nodes->list[i].beat.user[j].running;
    /* the trainers of a watch that died continue */
    for (size_t i = 0; nodes && i < nodes->job_count; i++)
        if (!nodes_live(nodes, nodes->jobs[i].node))
            people_find(people, nodes->jobs[i].user)->running++;
}

bool nodes_take_turn(struct nodes *nodes)
{
    struct error err = { 0 };
    bool busy = false;

    if (!nodes || nodes->turn >= 0)
        return true;
    nodes->turn = shared_lock(turn_file, &busy, &err);
    if (nodes->turn < 0 && !busy)
        log_line(nodes->log, LOG_ERROR, "watch: %s", err.text);
    if (nodes->turn >= 0)
        read_others(nodes);
    return nodes->turn >= 0;
}

void nodes_end_turn(struct nodes *nodes, const struct people *running)
{
    if (!nodes || nodes->turn < 0)
        return;
    beat(nodes, running);
    shared_unlock(nodes->turn, turn_file);
    nodes->turn = -1;
}
