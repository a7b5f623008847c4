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
#include "train/checkpoint/checkpoint_lost.h"
#include "train/checkpoint/optimizer_file.h"
#include "train/checkpoint/team.h"
#include "train/checkpoint/torch_state.h"
#include "train/files/manifest.h"
#include "train/files/safetensors.h"
#include "train/model/optimizer_table.h"
#include "train/model/parallel.h"
#include "train/model/score_head.h"

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

/* What all ranks do: write the model, or its average, and the state of the optimizer. */
static bool write_shared(struct model *model, struct team *team, bool state,
                         struct error *err)
{
    bool ok;

    model_use_average(model, true);
    ok = model_save_together(model, &team->share, err);
    model_use_average(model, false);
    if (ok && state)
        optimizer_file_write(&team->share, model);
    return ok && team_report(team, model_heartbeat(model), err);
}

/* Rank 0: return whether all files are written. */
static bool all_written(const struct team *team, struct error *err)
{
    const struct error *failed = &team->share.failed;

    return failed->code == ERROR_NONE || error_set(err, failed->code, "%s", failed->text);
}

/* Rank 0: write a folder together with the others. */
static bool write_together(struct checkpoint_saving *saving, struct team *team,
                           const char *dir, bool state, struct error *err)
{
    saving->lost = !team_begin(team, saving->group, dir, err) ||
                   !write_shared(saving->model, team, state, err);
    saving->absent = team->absent_count;
    for (size_t r = 1; !saving->lost && state && r < team->share.ranks; r++)
        if (team->absent[r] && team->share.failed.code == ERROR_NONE)
            optimizer_file_write_for(&team->share, saving->model, r);
    return !saving->lost && all_written(team, err);
}

/* Rank 0: the state of the run besides tensors. */
static bool write_state(struct checkpoint_saving *saving, const struct team *team,
                        const struct progress *progress, struct error *err)
{
    const char *dir = team->share.dir;

    return optimizer_file_write_index(&team->share, saving->model, err) &&
           write_choices(progress, dir, err) && write_answers(progress, dir, err) &&
           (!saving->plan->save_torch_state ||
            torch_state_write(saving->model, dir, saving->plan, progress, err));
}

static bool write_folder(struct checkpoint_saving *saving, const char *dir,
                         const struct progress *progress,
                         const struct progress_history *history, struct error *err)
{
    const struct plan *plan = saving->plan;
    bool state = !plan->save_only_model, ok;
    struct manifest_known known;
    struct team team;

    if (!file_make_dir(dir, 0777, err))
        return false;
    if (!parallel_send_save(saving->group, progress->step, err)) {
        saving->lost = true;
        return false;
    }
    ok = write_together(saving, &team, dir, state, err) &&
         (!state || write_state(saving, &team, progress, err)) &&
         progress_write(dir, plan, progress, history, err);
    known = team_known(&team);
    ok = ok && manifest_write(dir, plan->job_digest, &known,
                              model_heartbeat(saving->model), err);
    team_end(&team);
    return ok;
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

/* The folder of a step while it is written. */
static char *temporary_name(const char *dir, int64_t step)
{
    struct text text;

    text_init(&text, 0);
    text_addf(&text, "%s/." CHECKPOINT_PREFIX "%" PRId64 ".tmp", dir, step);
    return text_detach(&text, NULL);
}

/* The same of the result. */
static char *temporary_result(const char *dir)
{
    return path_join(dir, "." CHECKPOINT_PREFIX "final.tmp");
}

bool checkpoint_save(struct checkpoint_saving *saving, const struct progress *progress,
                     const struct progress_history *history, struct error *err)
{
    const char *dir = saving->plan->output_dir;
    char *name = checkpoint_name(dir, progress->step);
    char *temporary = temporary_name(dir, progress->step);
    bool ok = false;

    saving->lost = false;
    if (file_exists(name) && checkpoint_belongs_to(name, saving->plan->job_digest)) {
        ok = true;
        goto out;
    }
    if (!file_make_dirs(dir, 0777, err) || !file_remove_tree(temporary, err))
        goto out;
    if (!write_folder(saving, temporary, progress, history, err) ||
        (file_exists(name) && !move_aside(name, err)))
        goto out;
    if (walk_rename(temporary, name) != 0) {
        error_errno(err, "cannot rename %s", temporary);
        goto out;
    }
    ok = file_sync_dir(dir, err);
out:
    if (!ok)
        file_remove_tree(temporary, NULL);
    free(temporary);
    free(name);
    return ok;
}

bool checkpoint_follow(struct checkpoint_saving *saving, int64_t step, struct error *err)
{
    const struct plan *plan = saving->plan;
    char *dir = step == CHECKPOINT_RESULT ? temporary_result(plan->output_dir)
                                          : temporary_name(plan->output_dir, step);
    struct team team;
    bool ok = team_begin(&team, saving->group, dir, err) &&
              write_shared(saving->model, &team,
                           step != CHECKPOINT_RESULT && !plan->save_only_model, err);

    saving->lost = !ok;
    team_end(&team);
    free(dir);
    return ok;
}

static void upload_master(struct model *model, const struct parameter *parameter,
                          const void *data)
{
    struct backend *be = model_backend(model);

    model_write_weight(model, parameter, 0, parameter->rows, data);
    if (parameter->copy.data && !parameter->sharded && !parameter->gathered)
        be->ops->convert(
            be, &(struct op_convert) { .out = parameter->copy, .x = parameter->weight });
}

/* The files of a checkpoint; kept and head may be NULL. */
struct saved_files {
    struct safetensors *weights, *head;
    struct optimizer_file *kept;
};

/* Load a weight from the files of the model. */
static bool load_stored(struct model *model, struct parameter *parameter,
                        const struct saved_files *files, struct error *err)
{
    const size_t count = parameter->rows * parameter->cols;
    const enum format format = parameter->weight.format;
    const struct stored_tensor *stored =
        model_find_saved(model, files->weights, parameter);
    struct stored_tensor wide;
    void *copy = NULL;
    bool ok;

    if (!stored && files->head)
        stored = safetensors_find(files->head, parameter->name);
    if (!optimizer_file_check(stored, count, format, parameter->name, err))
        return false;
    wide = *stored;
    if (wide.format != format) {
        wide.data = optimizer_file_widen(stored, count, format, &copy, err);
        wide.format = format;
        wide.bytes = count * format_info(format)->bytes;
    }
    ok = wide.data && model_load_tensor(model, parameter, &wide, err);
    free(copy);
    return ok;
}

static bool load_weight(struct model *model, struct parameter *parameter,
                        const struct saved_files *files, struct error *err)
{
    struct optimizer_weight master = { 0 };

    if (files->kept && !optimizer_file_weight(files->kept, parameter, &master, err))
        return false;
    if (!master.data)
        return load_stored(model, parameter, files, err);
    upload_master(model, parameter, master.data);
    free(master.copy);
    return true;
}

static bool load_tensors(struct model *model, const char *dir, bool moments,
                         struct error *err)
{
    struct backend *be = model_backend(model);
    struct saved_files files = { .weights = open_weights(model, dir, err) };
    bool ok = files.weights != NULL;

    if (ok &&
        (moments || (optimizer_file_exists(dir) && !model_optimizer(model)->averages)))
        ok = (files.kept = optimizer_file_open(dir, err)) != NULL;
    if (ok && moments)
        ok = checkpoint_lost_check(
            &(struct checkpoint_lost) { dir, files.weights, files.kept }, model, err);
    if (ok && safetensors_exist(dir, SCORE_HEAD_FILE))
        ok = (files.head = safetensors_open(dir, SCORE_HEAD_FILE, false, err)) != NULL;
    for (size_t i = 0; ok && i < model_parameters(model); i++) {
        struct parameter *parameter = model_parameter(model, i);

        if (parameter->trainable)
            ok = load_weight(model, parameter, &files, err) &&
                 (!moments || optimizer_file_load(files.kept, model, parameter, err));
    }
    if (ok)
        ok = be->ops->sync(be, err); /* before the mappings are closed */
    safetensors_close(files.weights);
    optimizer_file_close(files.kept);
    safetensors_close(files.head);
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
    return progress_read(name, progress, history, err) &&
           check_optimizer(model, progress, err) && replay_choices(model, name, err) &&
           load_tensors(model, name, true, err);
}

bool checkpoint_load_weights(struct model *model, const char *name,
                             const struct backend_group *group, struct error *err)
{
    model_loaded_average(model);
    return manifest_check_part(name, parallel_rank(group), parallel_ranks(group),
                               model_heartbeat(model), err) &&
           load_tensors(model, name, false, err);
}

/* Remove a checkpoint, which first gets the name of one that is incomplete: if this process is
 * killed meanwhile, the next run of the job removes the rest. */
static bool remove_checkpoint(const char *dir, const struct checkpoint_found *found,
                              struct error *err)
{
    char *temporary = temporary_name(dir, found->step);
    bool ok = file_remove_tree(temporary, err);

    if (ok && walk_rename(found->name, temporary) != 0)
        ok = error_errno(err, "cannot rename %s", found->name);
    ok = ok && file_remove_tree(temporary, err);
    free(temporary);
    return ok;
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
            ok = remove_checkpoint(dir, &found[i], err);
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

/* Write the model with `save`, or, if NULL, together with the other ranks. */
static bool write_result(struct checkpoint_saving *saving, const char *dir,
                         bool (*save)(struct model *model, const char *dir,
                                      struct error *err),
                         struct error *err)
{
    const struct plan *plan = saving->plan;
    struct heartbeat *heartbeat = model_heartbeat(saving->model);
    struct manifest_known known;
    struct team team;
    bool ok;

    if (save)
        return save(saving->model, dir, err) &&
               manifest_write(dir, plan->job_digest, NULL, heartbeat, err);
    if (!parallel_send_save(saving->group, CHECKPOINT_RESULT, err)) {
        saving->lost = true;
        return false;
    }
    ok = write_together(saving, &team, dir, false, err);
    known = team_known(&team);
    ok = ok && manifest_write(dir, plan->job_digest, &known, heartbeat, err);
    team_end(&team);
    return ok;
}

/* Return the number of a file, which a replaced file does not keep; 0: there is none. */
static uint64_t file_number(const char *name)
{
    struct stat st;

    return lstat(name, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* Write the model and a manifest to a temporary folder, then move the files into `dir`.  A
 * model in one file and one in several are different files: move aside the one that an
 * earlier run left, which programs would read. */
static bool publish(struct checkpoint_saving *saving, const char *dir,
                    bool (*save)(struct model *model, const char *dir, struct error *err),
                    struct error *err)
{
    char *temporary = temporary_result(dir);
    char *forms[] = { path_join(dir, "model.safetensors"),
                      path_join(dir, "model.safetensors.index.json") };
    const uint64_t before[] = { file_number(forms[0]), file_number(forms[1]) };
    uint64_t after[2];
    bool ok = file_make_dirs(dir, 0777, err) && file_remove_tree(temporary, err) &&
              file_make_dir(temporary, 0777, err);

    model_use_average(saving->model, true); /* the last save has ended it */
    ok = ok && write_result(saving, temporary, save, err) &&
         move_files(temporary, dir, saving->plan->job_digest, err);
    for (size_t i = 0; i < 2; i++)
        after[i] = file_number(forms[i]);
    for (size_t i = 0; i < 2; i++) {
        if (ok && before[i] && after[i] == before[i] && after[!i] != before[!i])
            ok = move_aside(forms[i], err);
        free(forms[i]);
    }
    file_remove_tree(temporary, NULL);
    free(temporary);
    return ok;
}

bool checkpoint_publish(struct checkpoint_saving *saving, struct error *err)
{
    const struct plan *plan = saving->plan;
    char *converted = path_join(plan->output_dir, "pissa_converted");
    bool ok;

    saving->lost = false;
    ok = publish(saving, plan->output_dir, NULL, err) &&
         (!plan->pissa_init || !plan->pissa_convert ||
          publish(saving, converted, model_save_converted, err));
    free(converted);
    return ok;
}

bool checkpoint_export(struct checkpoint_saving *saving, struct error *err)
{
    return publish(saving, saving->plan->export_dir, model_export, err);
}
