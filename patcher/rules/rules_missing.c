/* patcher/rules/rules_missing.c - TS713: models, adapters and datasets that do not exist
 * or cannot be read. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/size.h"
#include "patcher/document/lookalike.h"
#include "patcher/schema/schema.h"
#include "train/dataset/dataset_source.h"
#include "train/files/safetensors.h"
#include "train/model/model_names.h"
#include "train/tokenizer/tokenizer.h"

#define PERMIT "the owner of the job must be able to read it: see chmod and setfacl"

/* Return a hint about a character in the name that looks like another, or NULL. */
static const char *lookalike_note(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);

    return entry ? lookalike_in_node(entry->value, context->arena) : NULL;
}

static struct finding *report(struct rule_context *context, const char *key,
                              const struct finding *base)
{
    const char *lookalike = lookalike_note(context, key);
    struct finding finding = *base;

    finding.rule = "TS713";
    finding.because = "checked on this machine";
    finding.note = lookalike ? lookalike : base->note;
    return rule_report(context, &finding, key);
}

/* Report what may be different on the machine that the job is for. */
static struct finding *report_unfit(struct rule_context *context, const char *key,
                                    const char *what, const char *note)
{
    return report(context, key,
                  &(struct finding) { .severity = context->options->will_run
                                                      ? SEVERITY_ERROR
                                                      : SEVERITY_WARNING,
                                      .message = what,
                                      .note = note });
}

/* Report what does not exist, or not yet. */
static struct finding *report_missing(struct rule_context *context, const char *key,
                                      const char *what, const char *note)
{
    struct finding *finding = report_unfit(context, key, what, note);

    if (finding)
        finding->absent = true;
    return finding;
}

/* Return whether the job has another tool's key for this one, which TS706 reports. */
static bool has_foreign_alias(const struct rule_context *context, const char *key)
{
    const struct node *root = context->document->root;

    for (size_t i = 0; i < root->count; i++) {
        const struct key *row = root->entries[i].key->kind == NODE_SCALAR
                                    ? schema_find(root->entries[i].key->text)
                                    : NULL;

        if (row && row->use == KEY_OTHER_TOOL && row->now && strcmp(row->now, key) == 0)
            return true;
    }
    return false;
}

/* A model that is not named is missing on every machine.  A file that names no data
 * may not be a training job. */
static void report_not_named(struct rule_context *context, const char *key,
                             const char *what, enum severity severity)
{
    const bool settings = !context->plan->model_name_or_path && !context->plan->dataset;

    if (has_foreign_alias(context, key))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS713",
            .severity = context->options->will_run ? SEVERITY_ERROR : severity,
            .message = arena_printf(context->arena, "%s: %s is not given", what, key),
            .note = settings ? "if these are the settings of your own script, set "
                               "trainspool: {target: external}"
                             : NULL },
        NULL);
}

/* Report a file that cannot be looked at, for example in a folder of another user: waiting
 * for it does not help. NULL: it does not exist. */
static struct finding *report_barred(struct rule_context *context, const char *key,
                                     const char *path)
{
    struct stat st;
    int why = stat(path, &st) == 0 ? 0 : errno;

    if (why == 0 || why == ENOENT || why == ENOTDIR)
        return NULL;
    return report_unfit(context, key,
                        arena_printf(context->arena, "cannot access %s: %s",
                                     rule_printable(context, path), strerror(why)),
                        why == EACCES ? PERMIT : NULL);
}

static bool has_file(const char *dir, const char *name)
{
    char *path = path_join(dir, name);
    bool exists = file_exists(path);

    free(path);
    return exists;
}

/* Common folder names for models, which are not owners on the hub. */
static bool is_usual_folder(const char *name, size_t len)
{
    static const char *const usual[] = {
        "models",      "model",         "data",
        "dataset",     "datasets",      "output",
        "outputs",     "out",           "saves",
        "save",        "saved",         "checkpoint",
        "checkpoints", "ckpt",          "ckpts",
        "weights",     "runs",          "run",
        "results",     "result",        "exp",
        "exps",        "experiments",   "logs",
        "work_dirs",   "pretrained",    "pretrained_models",
        "base_models", "llm",           "llms",
        "hf_models",   "model_zoo",     "adapters",
        "adapter",     "lora",          "loras",
        "merged",      "merged_models", "export",
        "exports",     "artifacts",     "cache",
        "tmp",         "files",         "assets",
        "resources",   "trained",       "finetuned",
        "local",       "hub",           "trainer_output",
    };

    for (size_t i = 0; i < TS_COUNT(usual); i++)
        if (strlen(usual[i]) == len && memcmp(usual[i], name, len) == 0)
            return true;
    return false;
}

/* "Qwen/Qwen3-0.6B": an owner and a name, as on the hub, unless the owner is a folder next
 * to the job or in the working directory. */
static bool is_hub_name(const struct rule_context *context, const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const size_t owner = strspn(name, letters),
                 rest = name[owner] == '/' ? strspn(name + owner + 1, letters) : 0;

    return owner > 0 && rest > 0 && name[owner + 1 + rest] == 0 && name[0] != '.' &&
           !is_usual_folder(name, owner) &&
           !has_file(context->plan->dir ? context->plan->dir : ".",
                     arena_copy(context->arena, name, owner)) &&
           !has_file(".", arena_copy(context->arena, name, owner));
}

static const char *download_note(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    const char *name = entry ? node_value(entry->value)->text : "";

    if (model_name_unsupported(name) || model_name_quantized(name))
        return "TS716 says why a download would not help";
    if (!is_hub_name(context, name))
        return name[0] == '/' ? "nothing is downloaded: name a folder on this machine"
                              : "nothing is downloaded: name a folder on this machine; a "
                                "relative path is relative to the job file";
    return arena_printf(
        context->arena,
        "nothing is downloaded; in the job's folder, run `hf download %s --local-dir %s`",
        name, name);
}

static void check_folder(struct rule_context *context, const char *key, const char *dir,
                         const char *file)
{
    if (has_file(dir, file))
        return;
    if (file_exists(dir) && !file_is_dir(dir)) {
        report_unfit(
            context, key,
            arena_printf(context->arena, "%s is a file", rule_printable(context, dir)),
            "name the folder that contains it");
        return;
    }
    if (report_barred(context, key, arena_printf(context->arena, "%s/%s", dir, file)))
        return;
    report_missing(context, key,
                   file_is_dir(dir) ? arena_printf(context->arena, "%s has no %s",
                                                   rule_printable(context, dir), file)
                                    : arena_printf(context->arena, "%s does not exist",
                                                   rule_printable(context, dir)),
                   download_note(context, key));
}

/* Check an adapter's folder; for a whole model, say which key to use. */
static void check_adapter(struct rule_context *context, const char *key, const char *dir)
{
    if (!has_file(dir, "adapter_config.json") && has_file(dir, "config.json"))
        report_unfit(context, key,
                     arena_printf(context->arena, "%s has no adapter_config.json",
                                  rule_printable(context, dir)),
                     "it is a whole model: use model_name_or_path to train it further");
    else
        check_folder(context, key, dir, "adapter_config.json");
}

/* Unsupported weights by file name ending, and the remedy. */
static const struct {
    const char *ending, *what, *remedy;
} foreign_weights[] = {
    { ".gguf", "a llama.cpp file",
      "name the folder of the original model; GGUF is made from it and cannot be trained" },
    { ".bin", "not one of pytorch_model.bin and pytorch_model.bin.index.json",
      "name the file pytorch_model.bin, or copy the index of its shards, "
      "pytorch_model.bin.index.json, too" },
    { ".pth", "a checkpoint in the authors' own format",
      "name the folder that was converted for transformers (often NAME-hf)" },
    { ".pt", "a PyTorch pickle", "convert it to model.safetensors" },
    { ".ckpt", "a PyTorch Lightning checkpoint", "convert it to model.safetensors" },
    { ".h5", "a Keras file", "use the safetensors of the model" },
    { ".msgpack", "a Flax file", "use the safetensors of the model" },
    { ".onnx", "an ONNX graph", "use the safetensors of the model" },
};

/* Files of a training that have no weights of the model. */
static bool is_state(const char *name)
{
    return strcmp(name, "training_args.bin") == 0 || text_starts(name, "optimizer.") ||
           text_starts(name, "scheduler.");
}

/* Return the first row whose ending a file in the folder has, or TS_COUNT. */
static size_t find_foreign_weights(const char *dir)
{
    DIR *folder = file_open_dir(dir);
    size_t found = TS_COUNT(foreign_weights);
    struct dirent *entry;

    while (folder && (entry = file_next(folder, dir)))
        for (size_t i = 0; i < found; i++)
            if (text_ends(entry->d_name, foreign_weights[i].ending) &&
                !is_state(entry->d_name))
                found = i;
    if (folder)
        closedir(folder);
    return found;
}

static bool has_weights(const char *dir)
{
    return safetensors_exist(dir, "model");
}

static void report_foreign_weights(struct rule_context *context, const char *dir)
{
    size_t found = find_foreign_weights(dir);

    if (found < TS_COUNT(foreign_weights))
        report_unfit(context, "model_name_or_path",
                     arena_printf(context->arena,
                                  "%s has no model.safetensors, and its weights are not "
                                  "supported: %s is %s",
                                  rule_printable(context, dir),
                                  foreign_weights[found].ending,
                                  foreign_weights[found].what),
                     foreign_weights[found].remedy);
}

/* Check the files next to a config.json.  A missing config.json is already reported. */
static void check_model_files(struct rule_context *context, const char *dir)
{
    const struct plan *plan = context->plan;

    if (!has_file(dir, "config.json"))
        return;
    if (!plan->train_from_scratch && !has_weights(dir))
        report_foreign_weights(context, dir);
    if (!plan->train_from_scratch && has_weights(dir) && context->weights_error)
        (context->weights_absent ? report_missing : report_unfit)(
            context, "model_name_or_path",
            arena_printf(context->arena, "cannot read the weights: %s",
                         rule_printable(context, context->weights_error)),
            text_ends(context->weights_error, strerror(EACCES)) ? PERMIT
            : context->weights_absent
                ? "the index of the weights names the file: copy or download it, too"
                : NULL);
    if (!tokenizer_exists(dir))
        report_missing(context, "model_name_or_path",
                       arena_printf(context->arena,
                                    "%s has no tokenizer: tokenizer.json, "
                                    "tokenizer.model, tekken.json, or vocab.json and "
                                    "merges.txt",
                                    rule_printable(context, dir)),
                       "copy the tokenizer's files into the folder, too");
}

static void check_model(struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (!plan->model_name_or_path) {
        report_not_named(context, "model_name_or_path", "the job names no model",
                         SEVERITY_ERROR);
    } else if (file_is_dir(plan->model_name_or_path) &&
               !has_file(plan->model_name_or_path, "config.json") &&
               find_foreign_weights(plan->model_name_or_path) <
                   TS_COUNT(foreign_weights)) {
        report_foreign_weights(context, plan->model_name_or_path);
    } else {
        check_folder(context, "model_name_or_path", plan->model_name_or_path,
                     "config.json");
        check_model_files(context, plan->model_name_or_path);
    }
    if (plan->adapter_name_or_path && !strchr(plan->adapter_name_or_path, ','))
        check_adapter(context, "adapter_name_or_path", plan->adapter_name_or_path);
}

/* Check the teacher of a distillation, or the file of its logits, or a reference that the
 * job names. */
static void check_teacher(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const struct second_model_names *names = context->teacher->names;
    const char *logits = plan->stage == STAGE_DISTILL ? plan->kd.logits : NULL;
    const char *folder = teacher_folder(plan), *adapter = teacher_adapter(plan);

    if (!names || (logits && file_exists(logits)))
        return;
    if (!folder && logits)
        report_missing(
            context, "stage",
            arena_printf(context->arena,
                         "%s does not exist, and the job names no teacher to create it",
                         rule_printable(context, logits)),
            "teacher_model_name_or_path must name the folder of a larger model");
    if (!folder || !rule_entry(context, names->key))
        return; /* none is named, or it is the model itself */
    check_folder(context, names->key, folder, "config.json");
    if (adapter && !strchr(adapter, ','))
        check_adapter(context, names->adapter, adapter);
}

/* Check that the file of a source, or all files in its folder, exist and have supported
 * types. */
static struct finding *check_source(struct rule_context *context, const char *key,
                                    const struct dataset_source *source)
{
    const char *const *files;
    struct finding *barred;
    struct error err = { 0 };
    size_t count;

    if (!file_exists(source->path) &&
        (barred = report_barred(context, key, source->path)))
        return barred;
    if (!file_exists(source->path))
        return report_missing(context, key,
                              arena_printf(context->arena, "%s does not exist",
                                           rule_printable(context, source->path)),
                              NULL);
    if (dataset_source_files(source, context->arena, &files, &count, &err))
        return NULL;
    /* the file exists and no machine can read it */
    return report(context, key,
                  &(struct finding) { .severity = SEVERITY_ERROR,
                                      .message = rule_error_text(context, &err) });
}

/* Check an entry of dataset_info.json as training would find it, and its files. */
static struct finding *check_entry(struct rule_context *context, const char *key,
                                   struct dataset_lookup *lookup, const char *name)
{
    struct dataset_source source;
    struct error err = { 0 };

    if (!dataset_lookup_find(lookup, name, &source, &err) ||
        (!context->plan->external &&
         !dataset_source_check(&source, context->plan->stage, &err)))
        return report_missing(context, key, rule_error_text(context, &err), NULL);
    return check_source(context, key, &source);
}

/* Check a file or folder, next to the job, in dataset_dir or in the working directory. */
static struct finding *check_file(struct rule_context *context, const char *key,
                                  const char *name)
{
    const char *const dirs[] = { context->plan->dir ? context->plan->dir : ".",
                                 context->plan->dataset_dir, "." };
    struct finding *barred = NULL;

    for (size_t i = 0; i < TS_COUNT(dirs); i++)
        if (has_file(dirs[i], name)) {
            char *path = path_join(dirs[i], name);
            const struct dataset_source source = {
                .path = arena_strdup(context->arena, path),
            };

            free(path);
            return check_source(context, key, &source);
        }
    for (size_t i = 0; i < TS_COUNT(dirs) && !barred; i++) {
        char *path = path_join(dirs[i], name);

        barred = report_barred(context, key, path);
        free(path);
    }
    return barred ? barred
                  : report_missing(context, key,
                                   arena_printf(context->arena, "%s does not exist",
                                                rule_printable(context, name)),
                                   NULL);
}

/* Narrow the finding to one of several names in a value. `from` is an offset in the value
 * as the plan has it, a list with a comma between its items. */
static void narrow_to_name(const struct rule_context *context, struct finding *finding,
                           size_t from, size_t len)
{
    const struct node *node = finding->entry ? finding->entry->value : NULL;
    size_t item = 0;

    while (node && node->kind == NODE_LIST && item < node->count) {
        size_t bytes = node_value(node->items[item])->len;

        if (from <= bytes)
            node = node->items[item];
        else
            from -= bytes + 1;
        item++;
    }
    if (node && node->kind == NODE_SCALAR) {
        propose_word(context->document, node, from, len, finding);
    } else if (node && node->kind == NODE_ALIAS) {
        finding->at = node->at;
        finding->cut = node->bytes;
    }
}

static void check_dataset(struct rule_context *context, const char *key,
                          struct dataset_lookup *lookup, const char *names)
{
    const char *at = names;

    while (*(at += strspn(at, ", "))) {
        size_t len = strcspn(at, ",");
        const char *name = arena_copy(context->arena, at, len);
        struct finding *finding = dataset_name_is_path(name)
                                      ? check_file(context, key, name)
                                      : check_entry(context, key, lookup, name);

        if (finding)
            narrow_to_name(context, finding, (size_t)(at - names), len);
        at += len;
    }
}

/* Return the longest part of the path that exists, malloc'ed; NULL if there is none, which
 * is possible if the working directory was deleted. */
static char *existing_part(const char *path)
{
    char *part = memory_strdup(path);

    while (part && !file_exists(part)) {
        char *parent = path_dir(part);

        if (strcmp(parent, part) == 0) {
            free(parent);
            parent = NULL;
        }
        free(part);
        part = parent;
    }
    return part;
}

/* Check that the folder of results can be created. */
static void check_output(struct rule_context *context, const char *key, const char *path)
{
    char *part = path ? existing_part(path) : NULL;

    if (part && !file_is_dir(part))
        report(context, key,
               &(struct finding) {
                   .severity = SEVERITY_ERROR,
                   .message = arena_printf(context->arena, "%s is a file, not a folder",
                                           rule_printable(context, part)) });
    free(part);
}

static void rule_missing_files(struct rule_context *context)
{
    struct dataset_lookup *lookup;

    if (context->plan->external)
        return; /* another program may download it */
    check_model(context);
    check_teacher(context);
    check_output(context, "output_dir", context->plan->output_dir);
    check_output(context, "export_dir", context->plan->export_dir);
    lookup = dataset_lookup_open(context->plan->dataset_dir, context->arena);
    if (context->plan->dataset)
        check_dataset(context, "dataset", lookup, context->plan->dataset);
    else if (!plan_merges(context->plan) &&
             !(plan_only_evaluates(context->plan) && context->plan->eval_dataset))
        report_not_named(context, "dataset", "the job names no data", SEVERITY_WARNING);
    if (context->plan->eval_dataset && !plan_merges(context->plan))
        check_dataset(context, "eval_dataset", lookup, context->plan->eval_dataset);
    dataset_lookup_close(lookup);
}

static const struct rule rows[] = {
    { .id = "TS713",
      .title = "missing or unreadable model or data",
      .severity = SEVERITY_WARNING,
      .mandatory = true,
      .run = rule_missing_files,
      .explain =
          "Nothing is downloaded. model_name_or_path names a folder with config.json, "
          "*.safetensors or pytorch_model*.bin, and a tokenizer: tokenizer.json or, "
          "without it, tokenizer.model, tekken.json, or vocab.json and merges.txt. dataset "
          "names a .json, .jsonl or .txt file (also .gz), a .csv, .tsv, .parquet, .arrow "
          "or .feather file, or an entry of dataset_info.json in dataset_dir. Weights in "
          "pytorch_model.bin are read without executing anything; safetensors next to "
          "them have precedence. Weights in GGUF and in other formats are not supported: "
          "use transformers to save them again. "
          "Incomplete weights are reported, too: a missing or truncated file of "
          "several, or a Git LFS pointer instead of the file. The finding is a warning "
          "in `check`, as the job may be for another machine, and an error in `run` and "
          "`watch`. If model and data exist, `check` and `plan` read tokenizer and data as "
          "the run would, `check` for a few seconds at most, and what would stop the run "
          "is an error. A job with export_dir, an adapter and no data is a merge, which "
          "needs none; a job that only evaluates needs only eval_dataset.",
      .source = "trainspool-job(5)" },
};

const struct rules rules_missing = { rows, TS_COUNT(rows) };
