/*
 * runner/job/cluster_device.c - finds the GPU of a job that Slurm runs by its gres, or by
 * what sinfo says.
 */
#include "config.h"

#include "runner/job/cluster_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/size.h"
#include "patcher/document/document.h"
#include "patcher/profiles/trainer_view.h"
#include "patcher/schema/slurm_values.h"
#include "patcher/setting.h"
#include "runner/job/cluster_nodes.h"

enum { MODELS_MAX = 32 };

/* ---- The text ---- */

/* What a text asks of Slurm; NULL: nothing. */
struct request {
    bool slurm;
    const char *device, *check_device, *partition, *constraint, *gres;
    bool use_cpu;
};

static const char *scalar_of(const struct node *map, const char *key)
{
    const struct entry *entry = node_find(map, key);
    const struct node *value = entry ? node_value(entry->value) : NULL;

    return value && value->kind == NODE_SCALAR && value->text[0] && !node_is_null(value)
               ? value->text
               : NULL;
}

static bool is_text(const char *a, const char *b)
{
    return a && strcasecmp(a, b) == 0;
}

static struct request read_request(const struct cluster_job *job, struct arena *arena)
{
    struct request request = { .slurm = false };
    const char *data = job->data, *backend;
    const struct entry *block;
    const struct node *map;
    struct document document;
    size_t len = job->len;

    if (job->set && job->set[0])
        setting_apply(job->set, arena, &data, &len, NULL);
    document_read(data, len, arena, &document);
    block = document.root ? document_find(&document, "trainspool") : NULL;
    map = block ? node_value(block->value) : NULL;
    if (!map || map->kind != NODE_MAP)
        return request;
    backend = scalar_of(map, "backend");
    request = (struct request) {
        .slurm = backend && strcmp(backend, "slurm") == 0 &&
                 trainer_of_target(&document, job->machine->target) == TRAINER_NATIVE,
        .device = scalar_of(map, "device"),
        .check_device = scalar_of(map, "check_device"),
        .partition = scalar_of(map, "partition"),
        .constraint = scalar_of(map, "constraint"),
        .gres = scalar_of(map, "gres"),
    };
    request.use_cpu =
        !request.device && is_text(scalar_of(document.root, "use_cpu"), "true");
    return request;
}

static bool has_word(const char *text, size_t len)
{
    static const char word[] = "slurm";

    return memmem(text, len, word, sizeof(word) - 1) != NULL;
}

/* Most texts need not be read to know that they are no such job. */
bool cluster_job_is_due(const struct cluster_job *job)
{
    bool mentioned = has_word(job->data, job->len), due;
    struct arena *arena;

    for (size_t i = 0; !mentioned && job->set && job->set[i]; i++)
        mentioned = has_word(job->set[i], strlen(job->set[i]));
    if (!mentioned || job->machine->local) /* --device auto: this machine */
        return false;
    arena = arena_new();
    due = read_request(job, arena).slurm;
    arena_free(arena);
    return due;
}

/* ---- Models ---- */

/* The models of the table that GPUs may have. */
struct models {
    struct device list[MODELS_MAX];
    size_t count;
    const char *smallest; /* a name that the table has in several sizes; or NULL */
};

/* Return the row's name if there are several sizes of it, and the text has none. */
static const char *name_without_size(const struct device *device, const char *text)
{
    const struct device_row *rows;
    const size_t count = device_rows(&rows);
    char folded[96], size[16];

    device_normalize_name(text, folded, sizeof(folded));
    for (size_t i = 0; i < count; i++) {
        const size_t len = strlen(rows[i].name);

        if (!rows[i].size[0] || strncmp(device->name, rows[i].name, len) != 0 ||
            strcmp(device->name + len + (device->name[len] == ' '), rows[i].size) != 0)
            continue;
        snprintf(size, sizeof(size), "%ug", rows[i].gib);
        return strstr(folded, size) ? NULL : rows[i].name;
    }
    return NULL;
}

/* Add the GPU of the table that has this name; not a capability, of unknown memory, nor a
 * part of a GPU, such as a100_1g.5gb. */
static bool add_model(struct models *models, const char *name)
{
    struct device device;

    if (!device_find(name, &device, NULL) || device.kind != DEVICE_CUDA ||
        device.memory == 0 || models->count == MODELS_MAX)
        return false;
    for (size_t i = 0; i < models->count; i++)
        if (strcmp(models->list[i].name, device.name) == 0)
            return true;
    if (name_without_size(&device, name))
        models->smallest = name_without_size(&device, name);
    models->list[models->count++] = device;
    return true;
}

static void take_models(const struct models *models, struct device *out)
{
    const struct device *taken[MODELS_MAX];

    for (size_t i = 0; i < models->count; i++)
        taken[i] = &models->list[i];
    machine_weakest(taken, models->count, out);
}

/* ---- sinfo ---- */

/* Add what a feature names, such as a100, gpu_a100 or GPU_SKU:A100. */
static bool add_feature(struct models *models, char *feature)
{
    const char *after = strrchr(feature, ':');

    after = after ? after : strchr(feature, '=');
    if (strncasecmp(feature, "gpu_", 4) == 0 && !after)
        after = feature + 3;
    return add_model(models, feature) || (after && add_model(models, after + 1));
}

static bool add_features(struct models *models, const char *features, struct arena *arena)
{
    char *copy = arena_strdup(arena, features), *rest = NULL;
    bool any = false;

    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        any |= add_feature(models, word);
    return any;
}

static bool has_type(const struct slurm_gpus *gpus, const char *type)
{
    for (size_t i = 0; i < gpus->types; i++)
        if (strcmp(gpus->type[i], type) == 0)
            return true;
    return false;
}

/* Return whether a node has what the job asks for by its type. */
static bool has_wanted(const struct slurm_gpus *node, const struct slurm_gpus *wanted)
{
    for (size_t i = 0; i < wanted->types; i++)
        if (!has_type(node, wanted->type[i]))
            return false;
    return node->any;
}

/* Add the models of a node; false: one of its GPUs is not known. */
static bool add_node(struct models *models, const struct slurm_gpus *node,
                     const struct slurm_gpus *wanted, const char *features,
                     struct arena *arena)
{
    bool known = !node->untyped;

    for (size_t i = 0; i < node->types; i++)
        if (wanted->types == 0 || wanted->untyped || has_type(wanted, node->type[i]))
            known &= add_model(models, node->type[i]);
    return known || add_features(models, features, arena);
}

/* Read the lines of sinfo.  False, with the reason: the models are not known. */
static bool read_nodes(const char *lines, const struct request *request,
                       const struct slurm_gpus *wanted, struct arena *arena,
                       struct models *models, struct error *err)
{
    char *copy = arena_strdup(arena, lines), *rest = NULL;

    for (char *line = strtok_r(copy, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *features = strrchr(line, '|');
        struct slurm_gpus node;

        if (!features)
            continue;
        *features++ = '\0';
        slurm_read_node_gres(line, &node);
        if (!has_wanted(&node, wanted) ||
            (request->constraint && !slurm_matches(request->constraint, features)))
            continue;
        if (!add_node(models, &node, wanted, features, arena))
            return error_set(
                err, ERROR_DEVICE,
                "sinfo names no known model for nodes with %.80s and features "
                "%.120s",
                line, features);
    }
    return models->count > 0 ||
           error_set(err, ERROR_DEVICE, "sinfo shows no node with %.100s%s%.100s",
                     request->gres, request->constraint ? " and constraint " : "",
                     request->constraint ? request->constraint : "");
}

static bool find_by_sinfo(const struct cluster_job *job, const struct request *request,
                          const struct slurm_gpus *wanted, struct arena *arena,
                          struct models *models, struct error *err)
{
    const char *partition = request->partition ? request->partition : "";
    struct error why = { 0 };
    const char *lines;

    if ((*partition && !slurm_is_name(partition)) ||
        (request->constraint && !slurm_is_constraint(request->constraint)))
        return false; /* TS726 */
    lines = cluster_nodes_ask(job->machine->cluster, partition, arena, &why);
    return lines ? read_nodes(lines, request, wanted, arena, models, err)
                 : error_set(err, ERROR_DEVICE, "gres: %s names no model, and %s",
                             request->gres, why.text);
}

/* ---- The device ---- */

static bool take_cpu(const struct request *request, struct checked_device *out,
                     struct error *err)
{
    if (request->device && strncasecmp(request->device, "cuda", 4) == 0)
        return error_set(err, ERROR_DEVICE,
                         "device: %s, but gres has no GPU, such as gpu:1",
                         request->device);
    out->source = request->use_cpu                  ? "use_cpu: true"
                  : is_text(request->device, "cpu") ? "device: cpu"
                                                    : "no GPU in gres";
    return device_find("cpu", &out->device, err);
}

/* Take the weakest of the models, and say what names it. */
static void take(const struct models *models, const char *what, const char *value,
                 struct checked_device *out)
{
    struct text text;

    take_models(models, &out->device);
    text_init(&text, 0);
    text_addf(&text, "%s%s", what, value);
    if (models->smallest &&
        strncmp(out->device.name, models->smallest, strlen(models->smallest)) == 0)
        text_addf(&text, ", the smallest %s", models->smallest);
    out->text = text_detach(&text, NULL);
    out->source = out->text;
}

static bool find_gpu(const struct cluster_job *job, const struct request *request,
                     const struct slurm_gpus *gpus, struct arena *arena,
                     struct checked_device *out, struct error *err)
{
    struct models models = { .count = 0 };
    bool known = gpus->types > 0 && !gpus->untyped;

    for (size_t i = 0; i < gpus->types; i++)
        known &= add_model(&models, gpus->type[i]);
    if (known) {
        take(&models, "gres: ", request->gres, out);
    } else {
        models = (struct models) { .count = 0 };
        if (!find_by_sinfo(job, request, gpus, arena, &models, err))
            return false;
        take(&models, request->partition ? "sinfo of partition " : "sinfo",
             request->partition ? request->partition : "", out);
    }
    out->device.peers =
        (int)(gpus->count < DEVICE_RANKS_MAX ? gpus->count : DEVICE_RANKS_MAX);
    return true;
}

static bool find(const struct cluster_job *job, const struct request *request,
                 struct arena *arena, struct checked_device *out, struct error *err)
{
    struct slurm_gpus gpus = { .any = false };

    if (request->check_device && !is_text(request->check_device, "auto")) {
        out->source = "trainspool.check_device";
        return device_find(request->check_device, &out->device, err);
    }
    if (request->use_cpu || is_text(request->device, "cpu"))
        return take_cpu(request, out, err);
    if (request->gres && !slurm_read_gres(request->gres, &gpus))
        return false;
    return gpus.any ? find_gpu(job, request, &gpus, arena, out, err)
                    : take_cpu(request, out, err);
}

bool cluster_device_find(const struct cluster_job *job, struct checked_device *out,
                         struct error *err)
{
    const struct machine *machine = job->machine;
    struct request request;
    struct arena *arena;
    bool ok = true;

    *out =
        (struct checked_device) { .device = machine->device, .source = machine->source };
    if (!machine->named) {
        arena = arena_new();
        request = read_request(job, arena);
        ok = find(job, &request, arena, out, err);
        arena_free(arena);
    }
    out->elsewhere = true;
    out->device.here = false;
    return ok;
}
