/* train/checkpoint/checkpoint.c - saving, loading and pruning checkpoints. */
#include "config.h"

#include "train/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/size.h"
#include "base/walk.h"
#include "train/checkpoint/torch_state.h"
#include "train/files/manifest.h"
#include "train/files/safetensors.h"
#include "train/model/optimizer_table.h"
#include "train/model/score_head.h"
#include "train/model/shapes.h"

/* Tensors of a trainable parameter in the optimizer file: its moments, and its weight if
 * the model file stores that in another format, or an average instead. */
enum { KEPT_WEIGHT = MOMENTS_MAX, KEPT_COUNT }; /* below KEPT_WEIGHT: enum moment */
#define WEIGHT_SUFFIX ".master"

/* Bytes of the file of choices of all ranks: a rank has fewer than 4 MiB. */
enum { CHOICES_MAX = DEVICE_RANKS_MAX * (4 << 20) };

/* Open the model file of a folder: the whole model, or the adapter. */
static struct safetensors *open_weights(const struct model *model, const char *dir,
                                        struct error *err)
{
    char *adapter = path_join(dir, "adapter_model.safetensors");
    const char *stem = file_exists(adapter) ? "adapter_model" : "model";

    free(adapter);
    return model_open_saved(model, dir, stem, err);
}

static const struct stored_tensor *find_stored(const struct safetensors *set,
                                               const struct parameter *parameter,
                                               const char *suffix)
{
    struct text name;
    const struct stored_tensor *found;

    text_init(&name, 0);
    text_addf(&name, "%s%s", parameter->name, suffix);
    found = safetensors_find(set, name.data);
    text_clear(&name);
    return found;
}

static bool read_kept(const void *context, size_t index, void *to, struct error *err)
{
    struct model *model = (struct model *)context;
    const struct parameter *p = model_parameter(model, index / KEPT_COUNT);
    size_t kept = index % KEPT_COUNT;

    heartbeat_tick(model_heartbeat(model));
    if (kept != KEPT_WEIGHT)
        return model_read_moment(model, (enum moment)kept, p, to, err);
    return model_read_weight(model, p, 0, p->rows, to, err);
}

/* Format and shape of a moment of a parameter; no columns if it has none.  Moments with an
 * element per weight have its shape. */
static struct tensor moment_of(const struct parameter *p, size_t moment)
{
    const struct shape_moment *kept = &p->moments[moment];

    if (kept->count == p->rows * p->cols)
        return tensor_of(NULL, kept->format, p->rows, p->cols);
    return tensor_of(NULL, kept->format, 1, kept->count);
}

static size_t list_sources(struct model *model, const struct safetensors *weights,
                           struct arena *arena, struct tensor_source *sources)
{
    const char *const *suffixes = model_optimizer(model)->suffixes;
    bool averages = model_optimizer(model)->averages;
    size_t count = 0;

    for (size_t i = 0; i < model_parameters(model); i++) {
        const struct parameter *parameter = model_parameter(model, i);
        const struct stored_tensor *stored = model_find_saved(model, weights, parameter);

        for (size_t kept = 0; parameter->trainable && kept < KEPT_COUNT; kept++) {
            bool is_weight = kept == KEPT_WEIGHT;
            struct tensor tensor =
                is_weight ? parameter->weight : moment_of(parameter, kept);

            if (is_weight
                    ? stored && stored->format == tensor.format && !averages
                    : kept >= model_moments(model) || tensor.cols == 0 || !suffixes[kept])
                continue;
            sources[count++] = (struct tensor_source) {
                .name = arena_printf(arena, "%s%s", parameter->name,
                                     is_weight ? WEIGHT_SUFFIX : suffixes[kept]),
                .format = tensor.format,
                .rank = 2,
                .shape = { tensor.rows, tensor.cols },
                .read = read_kept,
                .context = model,
                .index = i * KEPT_COUNT + kept,
            };
        }
    }
    return count;
}

static bool write_optimizer(struct model *model, const char *dir, struct error *err)
{
    struct safetensors *weights = open_weights(model, dir, err);
    struct arena *arena = arena_new();
    char *name = path_join(dir, CHECKPOINT_OPTIMIZER);
    bool ok = weights != NULL;

    if (ok) {
        struct tensor_source *sources = arena_array(
            arena, model_parameters(model) * KEPT_COUNT + 1, sizeof(*sources));
        size_t count = list_sources(model, weights, arena, sources);

        ok = safetensors_write(name, sources, count, err);
    }
    safetensors_close(weights);
    arena_free(arena);
    free(name);
    return ok;
}

/* What the backends chose to compute with, so that a run that resumes gives the same
 * bits. */
static bool write_choices(const struct progress *progress, const char *dir,
                          struct error *err)
{
    const char *text = progress->choices;
    char *name = path_join(dir, CHECKPOINT_CHOICES);
    bool ok = !text || !text[0] || file_create(name, text, strlen(text), 0666, err);

    free(name);
    return ok;
}

/* Sampled answers that the next step uses again. */
static bool write_answers(const struct progress *progress, const char *dir,
                          struct error *err)
{
    const char *text = progress->answers;
    char *name = path_join(dir, CHECKPOINT_ANSWERS);
    bool ok = !text || file_create(name, text, strlen(text), 0666, err);

    free(name);
    return ok;
}

/* Write the model, or its average. */
static bool write_model(struct model *model, const char *dir, struct error *err)
{
    bool ok;

    model_use_average(model, true);
    ok = model_save(model, dir, err);
    model_use_average(model, false);
    return ok;
}

static bool write_folder(struct model *model, const char *dir, const struct plan *plan,
                         const struct progress *progress,
                         const struct progress_history *history, struct error *err)
{
    return file_make_dir(dir, 0777, err) && write_model(model, dir, err) &&
           (plan->save_only_model ||
            (write_optimizer(model, dir, err) && write_choices(progress, dir, err) &&
             write_answers(progress, dir, err) &&
             (!plan->save_torch_state ||
              torch_state_write(model, dir, plan, progress, err)))) &&
           progress_write(dir, plan, progress, history, err) &&
           manifest_write(dir, plan->job_digest, NULL, model_heartbeat(model), err);
}

/* Rename a file or folder of another job to NAME.old-K. */
static bool move_aside(const char *name, struct error *err)
{
    struct text other;
    bool ok = false;

    text_init(&other, 0);
    for (int i = 1; i < 10000 && !ok; i++) {
        text_reset(&other);
        text_addf(&other, "%s.old-%d", name, i);
        if (!file_exists(other.data))
            ok = walk_rename(name, other.data) == 0 ||
                 error_errno(err, "cannot move %s", name);
    }
    text_clear(&other);
    return ok;
}

bool checkpoint_save(struct model *model, const struct plan *plan,
                     const struct progress *progress,
                     const struct progress_history *history, struct error *err)
{
    char *name = checkpoint_name(plan->output_dir, progress->step), *temporary;
    struct text text;
    bool ok = false;

    text_init(&text, 0);
    text_addf(&text, "%s/." CHECKPOINT_PREFIX "%" PRId64 ".tmp", plan->output_dir,
              progress->step);
    temporary = text_detach(&text, NULL);
    if (file_exists(name) && checkpoint_belongs_to(name, plan->job_digest)) {
        ok = true;
        goto out;
    }
    if (!file_make_dirs(plan->output_dir, 0777, err) || !file_remove_tree(temporary, err))
        goto out;
    if (!write_folder(model, temporary, plan, progress, history, err) ||
        (file_exists(name) && !move_aside(name, err)))
        goto out;
    if (walk_rename(temporary, name) != 0) {
        error_errno(err, "cannot rename %s", temporary);
        goto out;
    }
    ok = file_sync_dir(plan->output_dir, err);
out:
    if (!ok)
        file_remove_tree(temporary, NULL);
    free(temporary);
    free(name);
    return ok;
}

/* Return whether every value of a format is one of another format. */
static bool widens(enum format from, enum format to)
{
    return (from == FORMAT_FP16 || from == FORMAT_BF16) && to == FORMAT_FP32;
}

/* Check that the stored tensor exists and has the size of `to`, and its format or one that
 * widens to it: a run that is healed may resume in float32. */
static bool check_stored(const struct stored_tensor *stored, struct tensor to,
                         const char *name, struct error *err)
{
    if (!stored)
        return error_set(
            err, ERROR_DATA,
            "the checkpoint has no %s: it was saved with another model or method, or "
            "with save_only_model: true",
            name);
    if (to.format == FORMAT_CODES
            ? strcmp(stored->dtype, format_info(to.format)->safetensors) != 0 ||
                  stored->bytes != tensor_bytes(to)
            : (stored->format != to.format && !widens(stored->format, to.format)) ||
                  stored->bytes != to.rows * to.cols * format_info(stored->format)->bytes)
        return error_set(
            err, ERROR_DATA,
            "the checkpoint has %s as %zu bytes of %s, this run requires %zu of %s", name,
            stored->bytes, stored->dtype, tensor_bytes(to),
            format_info(to.format)->safetensors);
    return true;
}

/* A stored tensor in the format that the run requires. */
struct wide {
    struct stored_tensor tensor;
    void *data; /* malloc'ed, if it was widened */
};

static bool wide_open(const struct stored_tensor *stored, struct tensor to,
                      struct wide *out, struct error *err)
{
    *out = (struct wide) { .tensor = *stored };
    if (stored->format == to.format || to.format == FORMAT_CODES)
        return true;
    out->data = malloc(tensor_bytes(to));
    if (!out->data)
        return error_set(err, ERROR_MEMORY, "cannot allocate %zu MiB to read a tensor",
                         tensor_bytes(to) >> 20);
    format_convert(out->data, to.format, stored->data, stored->format, to.rows * to.cols);
    out->tensor.data = out->data;
    out->tensor.format = to.format;
    out->tensor.bytes = tensor_bytes(to);
    return true;
}

static void upload_master(struct model *model, const struct parameter *parameter,
                          const struct stored_tensor *from)
{
    struct backend *be = model_backend(model);

    model_write_weight(model, parameter, 0, parameter->rows, from->data);
    if (parameter->copy.data && !parameter->sharded && !parameter->gathered)
        be->ops->convert(
            be, &(struct op_convert) { .out = parameter->copy, .x = parameter->weight });
}

/* The files of a checkpoint; kept and head may be NULL. */
struct saved_files {
    struct safetensors *weights, *kept, *head;
};

static bool load_weight(struct model *model, struct parameter *parameter,
                        const struct saved_files *files, struct error *err)
{
    const struct stored_tensor *master =
        files->kept ? find_stored(files->kept, parameter, WEIGHT_SUFFIX) : NULL;
    const struct stored_tensor *stored =
        master ? master : model_find_saved(model, files->weights, parameter);
    struct wide wide;
    bool ok;

    if (!stored && files->head)
        stored = safetensors_find(files->head, parameter->name);
    ok = check_stored(stored, parameter->weight, parameter->name, err) &&
         wide_open(stored, parameter->weight, &wide, err);
    if (!ok)
        return false;
    if (master)
        upload_master(model, parameter, &wide.tensor);
    else
        ok = model_load_tensor(model, parameter, &wide.tensor, err);
    free(wide.data);
    return ok;
}

static bool load_moments(struct model *model, struct parameter *parameter,
                         const struct safetensors *kept, struct error *err)
{
    for (size_t i = 0; i < model_moments(model); i++) {
        const char *suffix = model_optimizer(model)->suffixes[i];
        struct tensor moment = moment_of(parameter, i);
        const struct stored_tensor *stored;
        struct wide wide;

        if (moment.cols == 0 || !suffix)
            continue;
        stored = find_stored(kept, parameter, suffix);
        if (!check_stored(stored, moment, parameter->name, err) ||
            !wide_open(stored, moment, &wide, err))
            return false;
        model_write_moment(model, (enum moment)i, parameter, wide.tensor.data);
        free(wide.data);
    }
    return true;
}

static bool load_tensors(struct model *model, const char *dir, bool moments,
                         struct error *err)
{
    struct backend *be = model_backend(model);
    char *name = path_join(dir, CHECKPOINT_OPTIMIZER);
    struct saved_files files = { .weights = open_weights(model, dir, err) };
    bool ok = files.weights != NULL;

    if (ok && (moments || (file_exists(name) && !model_optimizer(model)->averages)))
        ok = (files.kept = safetensors_open(name, NULL, false, err)) != NULL;
    if (ok && safetensors_exist(dir, SCORE_HEAD_FILE))
        ok = (files.head = safetensors_open(dir, SCORE_HEAD_FILE, false, err)) != NULL;
    for (size_t i = 0; ok && i < model_parameters(model); i++) {
        struct parameter *parameter = model_parameter(model, i);

        if (parameter->trainable)
            ok = load_weight(model, parameter, &files, err) &&
                 (!moments || load_moments(model, parameter, files.kept, err));
    }
    if (ok)
        ok = be->ops->sync(be, err); /* before the mappings are closed */
    safetensors_close(files.weights);
    safetensors_close(files.kept);
    safetensors_close(files.head);
    free(name);
    return ok;
}

static bool replay_choices(struct model *model, const char *dir, struct error *err)
{
    struct backend *be = model_backend(model);
    char *name = path_join(dir, CHECKPOINT_CHOICES);
    struct text text;
    bool ok = true;

    text_init(&text, 0);
    if (be->ops->replay_choices && file_exists(name)) {
        ok = file_read(name, CHOICES_MAX, &text, NULL, err);
        if (ok)
            be->ops->replay_choices(be, text.data, text.len);
    }
    text_clear(&text);
    free(name);
    return ok;
}

/* A name that this version does not know, and no name, are left to load_moments. */
static bool check_optimizer(const struct model *model, const struct progress *progress,
                            struct error *err)
{
    int index = optimizer_find(progress->optimizer);

    if (index < 0 || model_moments(model) == 0 ||
        optimizer_of(&(struct plan) { .optimizer = index }) == model_optimizer(model))
        return true;
    return error_set(
        err, ERROR_JOB,
        "the checkpoint was saved with %s%s%s, the state of another optimizer "
        "than this job's",
        optimizer_has_key(index) ? "use_" : "optim: ", progress->optimizer,
        optimizer_has_key(index) ? ": true" : "");
}

bool checkpoint_load(struct model *model, const char *name, struct progress *progress,
                     struct progress_history *history, struct error *err)
{
    return manifest_check(name, true, model_heartbeat(model), err) &&
           progress_read(name, progress, history, err) &&
           check_optimizer(model, progress, err) && replay_choices(model, name, err) &&
           load_tensors(model, name, true, err);
}

bool checkpoint_load_weights(struct model *model, const char *name, struct error *err)
{
    model_loaded_average(model);
    return manifest_check(name, true, model_heartbeat(model), err) &&
           load_tensors(model, name, false, err);
}

bool checkpoint_prune(const char *dir, const char *digest, int64_t keep,
                      const char *protect, struct error *err)
{
    struct checkpoint_found *found;
    struct error why = { 0 };
    size_t count;
    bool ok;

    if (keep <= 0)
        return true;
    count = checkpoint_list(dir, digest, &found, &why);
    ok = why.code == ERROR_NONE || error_set(err, why.code, "%s", why.text);
    for (size_t i = 0; i < count; i++) {
        bool kept = (int64_t)i < keep || (protect && strcmp(found[i].name, protect) == 0);

        if (ok && !kept)
            ok = file_remove_tree(found[i].name, err);
        free(found[i].name);
    }
    free(found);
    return ok;
}

bool checkpoint_begin(const char *dir, const char *digest, int64_t after,
                      struct error *err)
{
    struct checkpoint_found *found;
    struct error why = { 0 };
    size_t count = checkpoint_list(dir, digest, &found, &why);
    bool ok = why.code == ERROR_NONE || error_set(err, why.code, "%s", why.text);

    for (size_t i = 0; i < count; i++) {
        if (ok && found[i].step > after)
            ok = move_aside(found[i].name, err);
        free(found[i].name);
    }
    free(found);
    return ok && (count == 0 || file_sync_dir(dir, err));
}

/* Return NULL at the end, and if the folder cannot be read, which sets *ok to false. */
static const struct dirent *next_entry(DIR *folder, const char *name, bool *ok,
                                       struct error *err)
{
    const struct dirent *entry;

    errno = 0;
    entry = readdir(folder);
    if (!entry && errno)
        *ok = error_errno(err, "cannot read the folder %s", name);
    return entry;
}

bool checkpoint_remove_temporary(const char *dir, struct error *err)
{
    DIR *folder = opendir(dir);
    const struct dirent *entry;
    bool ok = true;

    if (!folder && errno != ENOENT)
        return error_errno(err, "cannot open the folder %s", dir);
    while (folder && ok && (entry = next_entry(folder, dir, &ok, err))) {
        char *name;

        if (!text_starts(entry->d_name, "." CHECKPOINT_PREFIX) ||
            !text_ends(entry->d_name, ".tmp"))
            continue;
        name = path_join(dir, entry->d_name);
        ok = file_remove_tree(name, err);
        free(name);
    }
    if (folder)
        closedir(folder);
    return ok;
}

/* Rename a file to its final name.  An existing file of another job or of the user is
 * moved aside first, unless it has the same content. */
static bool move_file(const char *old, const char *new, bool ours, struct error *err)
{
    char before[DIGEST_TEXT], after[DIGEST_TEXT];
    struct stat st;
    bool exists = !ours && lstat(new, &st) == 0;

    if (!ours && !exists && errno != ENOENT)
        return error_errno(err, "cannot examine %s", new);
    if (exists &&
        !(digest_file(new, before, NULL) && digest_file(old, after, NULL) &&
          strcmp(before, after) == 0) &&
        !move_aside(new, err))
        return false;
    return walk_rename(old, new) == 0 ||
           error_errno(err, "cannot rename %s to %s", old, new);
}

/* Move every file of `from` into `to`, the manifest last: without it, the files in `to`
 * do not count as output of this job. */
static bool move_files(const char *from, const char *to, const char *job,
                       struct error *err)
{
    bool ours = job && manifest_has_job(to, job);
    DIR *folder = opendir(from);
    const struct dirent *entry;
    bool ok = folder || error_errno(err, "cannot read the folder %s", from);

    for (int manifest = 0; ok && manifest < 2; manifest++) {
        rewinddir(folder);
        while (ok && (entry = next_entry(folder, from, &ok, err))) {
            char *old, *new;

            if (entry->d_name[0] == '.' ||
                (strcmp(entry->d_name, MANIFEST_NAME) == 0) != (manifest == 1))
                continue;
            old = path_join(from, entry->d_name);
            new = path_join(to, entry->d_name);
            ok = move_file(old, new, ours || manifest == 1, err);
            free(old);
            free(new);
        }
    }
    if (folder)
        closedir(folder);
    return ok && file_sync_dir(to, err);
}

/* Write the model with `save` and a manifest to a temporary folder, then move the files
 * into `dir`. */
static bool publish(struct model *model, const char *dir, const struct plan *plan,
                    bool (*save)(struct model *model, const char *dir, struct error *err),
                    struct error *err)
{
    char *temporary = path_join(dir, "." CHECKPOINT_PREFIX "final.tmp");
    bool ok = file_make_dirs(dir, 0777, err) && file_remove_tree(temporary, err) &&
              file_make_dir(temporary, 0777, err) && save(model, temporary, err) &&
              manifest_write(temporary, plan->job_digest, NULL, model_heartbeat(model),
                             err) &&
              move_files(temporary, dir, plan->job_digest, err);

    file_remove_tree(temporary, NULL);
    free(temporary);
    return ok;
}

bool checkpoint_publish(struct model *model, const struct plan *plan, struct error *err)
{
    char *converted = path_join(plan->output_dir, "pissa_converted");
    bool ok = publish(model, plan->output_dir, plan, model_save, err) &&
              (!plan->pissa_init || !plan->pissa_convert ||
               publish(model, converted, plan, model_save_converted, err));

    free(converted);
    return ok;
}

/* Return the number of a file, which a replaced file does not keep; 0: there is none. */
static uint64_t file_number(const char *name)
{
    struct stat st;

    return lstat(name, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* A model in one file and one in several are different files: move aside the one that an
 * earlier export left, which programs would read. */
bool checkpoint_export(struct model *model, const struct plan *plan, struct error *err)
{
    char *forms[] = { path_join(plan->export_dir, "model.safetensors"),
                      path_join(plan->export_dir, "model.safetensors.index.json") };
    const uint64_t before[] = { file_number(forms[0]), file_number(forms[1]) };
    bool ok = publish(model, plan->export_dir, plan, model_export, err);
    const uint64_t after[] = { file_number(forms[0]), file_number(forms[1]) };

    for (size_t i = 0; i < 2; i++) {
        if (ok && before[i] && after[i] == before[i] && after[!i] != before[!i])
            ok = move_aside(forms[i], err);
        free(forms[i]);
    }
    return ok;
}
