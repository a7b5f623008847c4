/* patcher/history/previous.c - reader of the files next to a job and in its output
 * folder. */
#include "config.h"

#include "patcher/history/previous_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/size.h"
#include "patcher/schema/schema.h"
#include "train/checkpoint/checkpoint_find.h"
#include "train/files/manifest.h"

#define STATE_MAX   ((size_t)64 << 10)
#define METRICS_MAX ((size_t)1 << 20)
#define HISTORY_MAX ((size_t)16 << 20)
#define FOLDER_MAX  100000 /* limit on the names of a folder that are read */

struct previous {
    struct arena *arena;
    struct plan plan; /* names the folders */
    bool absent;      /* NAME.run does not exist */
    struct {
        bool state, text, steps, model;
    } known;
    struct previous_state state;
    struct previous_text text;
    struct previous_steps steps;
    struct previous_model model;
    struct described *described; /* the checkpoints read so far */
};

struct described {
    struct previous_checkpoint checkpoint;
    struct described *next;
};

/* Return false for a link, which may point anywhere. */
static bool is_own_dir(const char *name)
{
    struct stat st;

    return file_lstat(name, &st) && S_ISDIR(st.st_mode);
}

struct previous *previous_new(const struct plan *plan, struct arena *arena)
{
    struct previous *previous = arena_alloc(arena, sizeof(*previous));

    previous->arena = arena;
    previous->plan = *plan;
    previous->absent = !plan->run_dir || !is_own_dir(plan->run_dir);
    return previous;
}

bool previous_belongs_to(const struct previous *previous, const struct plan *plan)
{
    return text_equal(previous->plan.run_dir, plan->run_dir) &&
           text_equal(previous->plan.output_dir, plan->output_dir) &&
           previous->plan.external == plan->external;
}

/* ---- NAME.run ---- */

/* Open NAME.run, which must not be a link either.  Return -1 if it does not exist. */
static int open_run(const struct previous *previous)
{
    const char *name = previous->plan.run_dir;
    int fd = -1;

    if (!previous->absent) {
        fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            fault_note("cannot open the directory", name);
    }
    return fd;
}

static json_t *read_json(int dir, const char *name, size_t max)
{
    struct text text;
    json_t *value = NULL;

    text_init(&text, max);
    if (file_read_at(dir, name, max, &text, NULL, NULL))
        value = previous_json(text.data, text.len);
    text_clear(&text);
    return value;
}

static const char *read_string(const struct previous *previous, const json_t *object,
                               const char *key)
{
    return arena_strdup(previous->arena, json_string_value(json_object_get(object, key)));
}

/* All times have one format, so their order is alphabetical. */
static bool is_waiting(const struct previous *previous, const json_t *object)
{
    const char *queued = json_string_value(json_object_get(object, "queued"));
    const char *started = json_string_value(json_object_get(object, "started"));

    return text_equal(previous->state.name, "ready") && queued &&
           (!started || strcmp(started, queued) < 0);
}

static bool is_running(const struct previous *previous)
{
    char *lock;
    bool locked;

    if (!text_equal(previous->state.name, "running"))
        return false;
    lock = path_join(previous->plan.run_dir, "lock");
    locked = file_is_locked(lock);
    free(lock);
    return locked;
}

const struct previous_state *previous_state(struct previous *previous)
{
    struct previous_state *state = &previous->state;
    json_t *object;
    int dir;

    if (previous->known.state)
        return state;
    previous->known.state = true;
    dir = open_run(previous);
    object = dir >= 0 ? read_json(dir, "state.json", STATE_MAX) : NULL;
    state->name = read_string(previous, object, "state");
    state->digest = read_string(previous, object, "digest");
    if (!state->digest)
        state->digest = "";
    state->resume = json_is_true(json_object_get(object, "resume"));
    state->running = is_running(previous);
    state->waits = is_waiting(previous, object);
    json_decref(object);
    if (dir >= 0)
        close(dir);
    return state;
}

static void bind_text(struct previous *previous, const struct text *text)
{
    struct plan *plan = arena_alloc(previous->arena, sizeof(*plan));
    struct document document;

    document_read(arena_copy(previous->arena, text->data, text->len), text->len,
                  previous->arena, &document);
    if (!document.root)
        return;
    plan->job = previous->plan.job;
    plan->dir = previous->plan.dir;
    plan->run_dir = previous->plan.run_dir;
    schema_bind(&document, previous->arena, plan);
    previous->text.plan = plan;
}

const struct previous_text *previous_text(struct previous *previous)
{
    struct text text;
    int dir;

    if (previous->known.text)
        return previous->text.plan ? &previous->text : NULL;
    previous->known.text = true;
    dir = open_run(previous);
    text_init(&text, DOCUMENT_MAX_BYTES);
    if (dir >= 0 &&
        file_read_at(dir, "job.yaml", DOCUMENT_MAX_BYTES, &text, NULL, NULL)) {
        digest_bytes(text.data, text.len, previous->text.digest);
        bind_text(previous, &text);
    }
    text_clear(&text);
    if (dir >= 0)
        close(dir);
    return previous->text.plan ? &previous->text : NULL;
}

/* ---- Steps ---- */

static void read_metrics(struct previous *previous)
{
    int dir = open_run(previous);
    struct text text;

    text_init(&text, METRICS_MAX);
    if (dir >= 0 && file_read_end_at(dir, "metrics.jsonl", METRICS_MAX, &text, NULL))
        previous_read_lines(&text, previous->arena, &previous->steps);
    text_clear(&text);
    if (dir >= 0)
        close(dir);
}

/* Read the history of the output folder, or of its newest checkpoint. */
static void read_history(struct previous *previous)
{
    const struct previous_checkpoint *newest;
    const char *dir = previous->plan.output_dir;
    char *name = path_join(dir, "trainer_state.json");
    json_t *state = read_json(AT_FDCWD, name, HISTORY_MAX);

    free(name);
    if (!state && (newest = previous_checkpoint(previous, NULL, false))) {
        name = path_join(newest->path, "trainer_state.json");
        state = read_json(AT_FDCWD, name, HISTORY_MAX);
        free(name);
    }
    if (state)
        previous_read_history(state, previous->arena, &previous->steps);
    json_decref(state);
}

const struct previous_steps *previous_steps(struct previous *previous)
{
    if (previous->known.steps)
        return &previous->steps;
    previous->known.steps = true;
    if (previous->plan.external)
        read_history(previous);
    else
        read_metrics(previous);
    return &previous->steps;
}

/* ---- output_dir ---- */

static bool has_file(const char *dir, const char *name)
{
    char *path = path_join(dir, name);
    struct stat st;
    bool exists = file_stat(path, &st) && S_ISREG(st.st_mode);

    free(path);
    return exists;
}

/* Compare when the files were put there: a rename changes ctime, but not mtime. */
static bool is_newer(const char *dir, const char *name, const char *than_dir,
                     const char *than)
{
    char *path = path_join(dir, name), *other = path_join(than_dir, than);
    struct stat a, b;
    bool later =
        file_lstat(path, &a) && file_lstat(other, &b) &&
        (a.st_ctim.tv_sec > b.st_ctim.tv_sec ||
         (a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec > b.st_ctim.tv_nsec));

    free(path);
    free(other);
    return later;
}

static const char *read_owner(const struct previous *previous, const char *dir)
{
    char *name = path_join(dir, MANIFEST_NAME);
    json_t *manifest = json_read_file(name, HISTORY_MAX, NULL);
    const char *job = read_string(previous, manifest, "job");

    json_decref(manifest);
    free(name);
    return job && *job ? job : NULL;
}

const struct previous_model *previous_model(struct previous *previous)
{
    /* LLaMA-Factory's CHECKPOINT_NAMES, extras/constants.py */
    static const char *const names[] = {
        "model.safetensors", "adapter_model.safetensors", "model.safetensors.index.json",
        "adapter_model.bin", "pytorch_model.bin",         "pytorch_model.bin.index.json",
    };
    const char *dir = previous->plan.output_dir;

    if (previous->known.model)
        return &previous->model;
    previous->known.model = true;
    for (size_t i = 0; dir && !previous->model.file && i < TS_COUNT(names); i++)
        if (has_file(dir, names[i]))
            previous->model.file = names[i];
    if (previous->model.file) {
        previous->model.job = read_owner(previous, dir);
        previous->model.later =
            previous_state(previous)->waits &&
            is_newer(dir, previous->model.file, previous->plan.run_dir, "job.yaml");
    }
    return &previous->model;
}

/* Read the state file of a checkpoint that trainspool wrote. */
static void read_own(const struct previous *previous, struct previous_checkpoint *out)
{
    char *name = path_join(out->path, "trainspool_state.json");
    json_t *state = json_read_file(name, STATE_MAX, NULL);
    const json_t *seed = json_object_get(state, "seed");

    out->mode = read_string(previous, state, "mode");
    out->optimizer = read_string(previous, state, "optimizer");
    out->scaling = read_string(previous, json_object_get(state, "scaler"), "scaling");
    out->seed = json_is_integer(seed) ? (int64_t)json_integer_value(seed) : -1;
    json_decref(state);
    free(name);
}

static void read_checkpoint(const struct previous *previous, const char *path,
                            struct previous_checkpoint *out)
{
    char *name = path_join(path, "trainer_state.json");
    json_t *state = read_json(AT_FDCWD, name, HISTORY_MAX);
    const json_t *batch = json_object_get(state, "train_batch_size");

    free(name);
    out->path = arena_strdup(previous->arena, path);
    out->base = path_base(out->path);
    out->step = checkpoint_step(out->base);
    out->job = read_owner(previous, path);
    out->whole = checkpoint_can_resume(path, false, NULL);
    out->seed = -1;
    out->batch = json_is_integer(batch) ? (int64_t)json_integer_value(batch) : -1;
    out->foreign = state && !has_file(path, MANIFEST_NAME);
    out->torch_state = has_file(path, "optimizer.pt") && has_file(path, "scheduler.pt");
    out->scaler_file = has_file(path, "scaler.pt");
    read_own(previous, out);
    json_decref(state);
}

static const struct previous_checkpoint *describe(struct previous *previous,
                                                  const char *path)
{
    struct described *known = previous->described;

    while (known && strcmp(known->checkpoint.path, path) != 0)
        known = known->next;
    if (known)
        return &known->checkpoint;
    known = arena_alloc(previous->arena, sizeof(*known));
    read_checkpoint(previous, path, &known->checkpoint);
    known->next = previous->described;
    previous->described = known;
    return &known->checkpoint;
}

/* Find the newest folder checkpoint-N as transformers does: by its number alone. */
static char *find_foreign(const char *dir)
{
    DIR *folder = file_open_dir(dir);
    const struct dirent *entry;
    char *last = NULL;
    int64_t most = -1;

    for (int i = 0; folder && i < FOLDER_MAX && (entry = file_next(folder, dir)); i++) {
        int64_t step = checkpoint_step(entry->d_name);
        char *name;

        if (step <= most)
            continue;
        name = path_join(dir, entry->d_name);
        if (!file_is_dir(name)) {
            free(name);
            continue;
        }
        free(last);
        last = name;
        most = step;
    }
    if (folder)
        closedir(folder);
    return last;
}

static char *find_own(const char *dir, const char *digest, bool whole)
{
    struct checkpoint_found *found;
    size_t count;
    char *first;

    if (whole)
        return checkpoint_last(dir, digest, false, NULL);
    count = checkpoint_list(dir, digest, &found, NULL);
    first = count > 0 ? found[0].name : NULL;
    for (size_t i = 1; i < count; i++)
        free(found[i].name);
    free(found);
    return first;
}

const struct previous_checkpoint *previous_checkpoint(struct previous *previous,
                                                      const char *digest, bool whole)
{
    const char *dir = previous->plan.output_dir;
    const struct previous_checkpoint *found = NULL;
    char *name;

    if (!dir || (previous->absent && text_equal(dir, previous->plan.run_dir)))
        return NULL;
    name = previous->plan.external ? find_foreign(dir) : find_own(dir, digest, whole);
    if (name)
        found = describe(previous, name);
    free(name);
    return found;
}

size_t previous_count(struct previous *previous, const char *digest)
{
    struct checkpoint_found *found = NULL;
    size_t count = 0;

    if (!previous->absent && !previous->plan.external && previous->plan.output_dir)
        count = checkpoint_list(previous->plan.output_dir, digest, &found, NULL);
    for (size_t i = 0; i < count; i++)
        free(found[i].name);
    free(found);
    return count;
}

const struct previous_checkpoint *previous_named(struct previous *previous,
                                                 const char *path)
{
    return file_is_dir(path) ? describe(previous, path) : NULL;
}
