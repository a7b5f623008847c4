/* runner/spool/fleet_view.c - writes and reads the view as JSON. */
#include "config.h"

#include "runner/spool/fleet_view.h"

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
#include "base/walk.h"
#include "precision/memory.h"
#include "runner/spool/node_files.h"
#include "runner/spool/node_signs.h"
#include "runner/spool/spool.h"

#define VIEW_FILE SPOOL_INNER "/fleet.json"

enum { VIEW_MODE = 0644 };

static const double shortest = 0.5, after_failure = 5; /* seconds */
static const size_t view_most = 1 << 20;
/* What is free changes all the time. */
static const uint64_t available_step = (uint64_t)64 << 20;

/* ---- In the watch ---- */

static void add_string(struct text *out, const char *key, const char *value)
{
    text_adds(out, key);
    json_add_string(out, value, strlen(value));
}

static void add_bytes(struct text *out, const char *key, uint64_t value)
{
    text_addf(out, "%s%" PRIu64, key, value);
}

static void add_device(const struct fleet *fleet, size_t i, struct text *out)
{
    const struct device *device = &fleet->devices[i].device;
    const struct placement_load load = fleet_load(fleet, i);
    char name[64];

    if (i == 0)
        snprintf(name, sizeof(name), "cpu");
    else
        snprintf(name, sizeof(name), "cuda:%d", device->ordinal);
    text_adds(out, i == 0 ? "" : ",");
    add_string(out, "{\"name\":", name);
    add_string(out, ",\"model\":", device->name);
    add_bytes(out, ",\"memory\":", device->memory);
    add_bytes(out,
              ",\"available\":", device->available / available_step * available_step);
    add_bytes(out, ",\"planned\":", load.planned);
    add_bytes(out, ",\"jobs\":", load.jobs);
    add_string(out, ",\"ill\":", fleet->health[i].ill);
    text_adds(out, "}");
}

/* Return whether others may not read the state of a job: then not what it waits for either. */
static bool is_private(const struct fleet *fleet, const char *name)
{
    struct stat run, state;
    struct job job;
    bool is_open;

    if (!fleet->people.shared)
        return false;
    job_init(&job, name);
    is_open = lstat(job.run_dir, &run) == 0 && run.st_mode & S_IXOTH &&
              lstat(job.state, &state) == 0 && state.st_mode & S_IROTH;
    job_clear(&job);
    return !is_open;
}

static void add_waits(struct fleet *fleet, const struct queue *queue, struct text *out)
{
    const char *before = "";
    char reason[160];

    for (size_t i = 0; i < queue->count && i < PLACEMENT_LOOK; i++) {
        const struct queued *job = &queue->list[queue->head + i];

        fleet_describe_wait(fleet, job, reason);
        if (!reason[0] || !text_is_utf8(job->name, strlen(job->name), NULL))
            continue;
        text_adds(out, before);
        add_string(out, "", job->name);
        add_string(out, ":",
                   is_private(fleet, job->name) ? "waits for devices or its turn"
                                                : reason);
        before = ",";
    }
}

/* Several users wait: only the watch knows what they have used. */
static void add_turns(struct fleet *fleet, struct queue *queue, struct text *out)
{
    struct queued *list[PLACEMENT_LOOK];
    const char *before = "";
    size_t count;

    if (!fleet->people.on || people_waiting(&fleet->people) < 2)
        return;
    count = queue_list(queue, &fleet->people, clock_seconds(), list, PLACEMENT_LOOK);
    for (size_t i = 0; i < count; i++) {
        if (!text_is_utf8(list[i]->name, strlen(list[i]->name), NULL))
            continue;
        text_adds(out, before);
        add_string(out, "", list[i]->name);
        text_addf(out, ":%zu", i + 1);
        before = ",";
    }
}

static void make_view(struct fleet *fleet, struct queue *queue, struct text *out)
{
    const struct placement placement = fleet_placement(fleet);
    const size_t local = placement_local_count(&placement);

    text_addf(out, "{\"slots\":%zu,\"running\":%zu,\"submitted\":%zu,\"devices\":[",
              fleet->slots, local, fleet->count - local);
    for (size_t i = 0; i < fleet->device_count; i++)
        add_device(fleet, i, out);
    text_adds(out, "],\"waits\":{");
    add_waits(fleet, queue, out);
    text_adds(out, "},\"turns\":{");
    add_turns(fleet, queue, out);
    text_adds(out, "}}\n");
}

/* Return the file of a node, malloc'ed. */
static char *view_of(const char *spool, const char *node)
{
    return node[0] ? node_file(spool, node, ".json") : path_join(spool, VIEW_FILE);
}

/* Nothing depends on the file after a crash, so it is not flushed. */
static bool replace(const char *node, const struct text *text)
{
    char *name = view_of(".", node);
    struct text temporary;
    struct stat st;
    bool ok;
    int fd;

    text_init(&temporary, 0);
    text_addf(&temporary, "%s.tmp", name);
    fd = walk_open(temporary.data, O_WRONLY | O_CREAT | O_TRUNC, VIEW_MODE);
    ok = fd >= 0 && file_write_all(fd, text->data, text->len, NULL);
    /* whatever the umask, where several users see the folder */
    if (ok && stat(SPOOL_INNER, &st) == 0 && st.st_mode & S_IROTH)
        fchmod(fd, VIEW_MODE);
    if (fd >= 0)
        close(fd);
    ok = ok && walk_rename(temporary.data, name) == 0;
    text_clear(&temporary);
    free(name);
    return ok;
}

void fleet_writer_poll(struct fleet_writer *writer, struct fleet *fleet,
                       struct queue *queue)
{
    const double now = clock_seconds();
    struct text text;

    writer->skipped = now < writer->due;
    if (writer->skipped)
        return;
    text_init(&text, 0);
    make_view(fleet, queue, &text);
    if (!writer->last || strcmp(writer->last, text.data) != 0) {
        bool ok = replace(writer->node, &text);

        writer->due = now + (ok ? shortest : after_failure);
        free(writer->last);
        writer->last = ok ? text_detach(&text, NULL) : NULL;
    }
    text_clear(&text);
}

double fleet_writer_due(const struct fleet_writer *writer)
{
    return writer->skipped ? writer->due : INFINITY;
}

void fleet_writer_close(struct fleet_writer *writer)
{
    char *name = writer->last ? view_of(".", writer->node) : NULL;

    if (name)
        walk_unlink(name);
    free(name);
    free(writer->last);
    *writer = (struct fleet_writer) { 0 };
}

/* ---- In a reader ---- */

static void read_device(const json_t *from, struct fleet_view_device *out)
{
    snprintf(out->name, sizeof(out->name), "%s",
             json_get_string(from, "name", "", VIEW_FILE, NULL));
    snprintf(out->model, sizeof(out->model), "%s",
             json_get_string(from, "model", "", VIEW_FILE, NULL));
    snprintf(out->ill, sizeof(out->ill), "%s",
             json_get_string(from, "ill", "", VIEW_FILE, NULL));
    out->memory = (double)json_get_int(from, "memory", 0, VIEW_FILE, NULL);
    out->available = (double)json_get_int(from, "available", 0, VIEW_FILE, NULL);
    out->planned = (double)json_get_int(from, "planned", 0, VIEW_FILE, NULL);
    out->jobs = json_get_int(from, "jobs", 0, VIEW_FILE, NULL);
}

/* Read the view of one watch.  Return false if it cannot be read. */
static bool read_view(const char *spool, const char *node, struct fleet_view *out)
{
    char *path = view_of(spool, node);
    struct text text;
    json_t *view = NULL, *device;
    size_t i;

    text_init(&text, view_most);
    if (file_read_at(AT_FDCWD, path, view_most, &text, NULL, NULL))
        view = json_read_text(text.data, text.len, path, 1, NULL);
    text_clear(&text);
    free(path);
    if (!view)
        return false;
    out->slots = json_get_int(view, "slots", 0, VIEW_FILE, NULL);
    out->running = json_get_int(view, "running", 0, VIEW_FILE, NULL);
    out->submitted = json_get_int(view, "submitted", 0, VIEW_FILE, NULL);
    json_array_foreach(json_object_get(view, "devices"), i, device)
    {
        if (i < PROBE_MAX)
            read_device(device, &out->devices[out->device_count++]);
    }
    out->waits = json_incref(json_object_get(view, "waits"));
    out->turns = json_incref(json_object_get(view, "turns"));
    json_decref(view);
    return true;
}

static void read_nodes(const char *spool, struct fleet_views *out)
{
    struct node_sign *signs = NULL;
    const size_t count = node_signs_read(spool, &signs);

    out->list = memory_resize(NULL, count + 1, sizeof(*out->list));
    for (size_t i = 0; i < count; i++) {
        struct fleet_view *view = &out->list[out->count++];

        *view = (struct fleet_view) { .age = signs[i].age, .alive = signs[i].alive };
        snprintf(view->node, sizeof(view->node), "%s", signs[i].name);
        if (view->alive)
            read_view(spool, view->node, view);
    }
    free(signs);
}

void fleet_views_read(const char *spool, struct fleet_views *out)
{
    *out = (struct fleet_views) { 0 };
    read_nodes(spool, out);
    if (out->count > 0 || !spool_is_watched(spool))
        return;
    out->list[0] = (struct fleet_view) { .alive = true };
    out->count = read_view(spool, "", &out->list[0]);
}

void fleet_views_clear(struct fleet_views *views)
{
    for (size_t i = 0; i < views->count; i++) {
        json_decref(views->list[i].waits);
        json_decref(views->list[i].turns);
    }
    free(views->list);
    *views = (struct fleet_views) { 0 };
}

const char *fleet_views_wait(const struct fleet_views *views, const char *file)
{
    const char *wait = NULL;

    for (size_t i = 0; i < views->count && !wait; i++)
        wait = json_string_value(json_object_get(views->list[i].waits, file));
    return wait;
}

size_t fleet_views_turn(const struct fleet_views *views, const char *file)
{
    json_int_t turn = 0;

    for (size_t i = 0; i < views->count && turn <= 0; i++)
        turn = json_integer_value(json_object_get(views->list[i].turns, file));
    return turn > 0 ? (size_t)turn : 0;
}

const struct fleet_view *fleet_views_find(const struct fleet_views *views,
                                          const char *node)
{
    for (size_t i = 0; i < views->count; i++)
        if (strcmp(views->list[i].node, node) == 0)
            return &views->list[i];
    return NULL;
}

void fleet_view_describe_slots(const struct fleet_view *view, struct text *out)
{
    if (view->node[0])
        text_addf(out, "node %s: ", view->node);
    if (!view->alive) {
        text_adds(out, "no sign of life");
        if (!isnan(view->age))
            text_addf(out, " for %.0f s", view->age);
        return;
    }
    if (view->slots > 0)
        text_addf(out, "%" PRId64 " of %" PRId64 " slots in use", view->running,
                  view->slots);
    else if (view->running == 0)
        text_adds(out, "no job runs");
    else
        text_addf(out, "%" PRId64 " job%s", view->running,
                  view->running == 1 ? " runs" : "s run");
    if (view->submitted > 0)
        text_addf(out, ", %" PRId64 " in Slurm", view->submitted);
    if (view->node[0])
        text_addf(out, ", last sign of life %.0f s ago", view->age);
}

void fleet_view_describe_device(const struct fleet_view_device *device, struct text *out)
{
    char memory[16], available[16], planned[16];

    if (device->ill[0]) {
        text_addf(out, "%s gets no job: %s", device->name, device->ill);
        return;
    }
    memory_text((uint64_t)device->memory, memory);
    memory_text((uint64_t)device->available, available);
    memory_text((uint64_t)device->planned, planned);
    text_addf(out, "%s: %" PRId64 " job%s, %s of %s planned, %s free", device->name,
              device->jobs, device->jobs == 1 ? "" : "s", planned, memory, available);
}
