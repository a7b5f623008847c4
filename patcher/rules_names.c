/* patcher/rules_names.c - what values name: paths, files, templates, devices. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/file.h"
#include "base/size.h"
#include "patcher/nearest.h"
#include "patcher/schema.h"
#include "patcher/schema_value.h"
#include "precision/probe.h"
#include "train/dataset_source.h"
#include "train/shapes.h"
#include "train/template.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- TS707: what is known, and not done here ---- */

static void several_adapters(struct rule_context *context)
{
    const struct entry *entry = rule_entry(context, "adapter_name_or_path");

    if (entry && strchr(node_value(entry->value)->text, ','))
        rule_tell(context,
                  &(struct finding) { .rule = "TS707",
                                      .severity = SEVERITY_ERROR,
                                      .message = "only one adapter can be started from" },
                  "adapter_name_or_path");
}

/* What another program trains is looked at and mended here, and no more. */
static void not_trained_here(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *block = document_find(context->document, "trainspool");

    if (!context->plan->external || !context->options->will_run)
        return;
    propose_remark(
        &to,
        &(struct finding) {
            .rule = "TS707",
            .severity = SEVERITY_ERROR,
            .message = "target: external is a job of another program: it is checked and "
                       "patched here, and that program trains it",
            .note = "start that program yourself; target: native trains here" },
        node_find(node_value(block->value), "target"));
}

/* Texts of a job, as a person may see them. */
static const char *visible(struct rule_context *context, const char *text)
{
    struct text out;
    const char *copy;

    text_init(&out, 0);
    text_add_visible(&out, text, strlen(text));
    copy = arena_copy(context->arena, out.data, out.len);
    text_clear(&out);
    return copy;
}

/* llama-3 is llama3, and chatmll chatml; llama4 is no llama3. */
static bool is_like(const char *written, const char *name)
{
    const char *digits = "0123456789";
    const char *a = written + strcspn(written, digits);
    const char *b = name + strcspn(name, digits);

    return nearest_folded(written, name) ||
           (nearest_distance(written, name, 1) <= 1 && strcmp(a, b) == 0);
}

/* A name that training would not know either. */
static void unknown_template(struct rule_context *context)
{
    const char *wanted = context->plan->template_name, *names = "", *name, *near = NULL;

    if (!wanted || context->plan->external || template_find(wanted))
        return;
    for (size_t i = 0; (name = template_name(i)); i++) {
        names = arena_printf(context->arena, "%s%s%s", names, i > 0 ? ", " : "", name);
        if (!near && is_like(wanted, name))
            near = name;
    }
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS707",
            .severity = context->options->will_run ? SEVERITY_ERROR : SEVERITY_WARNING,
            .message =
                arena_printf(context->arena, "there is no template %s here%s%s%s",
                             visible(context, wanted), near ? "; did you mean " : "",
                             near ? near : "", near ? "?" : ""),
            .note = arena_printf(context->arena, "there are %s", names) },
        "template");
}

void rule_not_here(struct rule_context *context)
{
    not_trained_here(context);
    if (!context->plan->external) {
        several_adapters(context);
        rule_quantised_here(context);
    }
    unknown_template(context);
}

/* ---- TS705: the device that is wanted, and layers that the model has not ---- */

/* "gpu", "GPU 1", "0,1", "cuda1": as they are written here; or NULL. */
static const char *meant_device(struct rule_context *context, const char *wanted)
{
    static const char *const others[] = { "cuda", "gpu", "nvidia" };
    static const char *const words[] = { "auto", "cpu", "cuda" };
    const char *number = wanted;

    for (size_t i = 0; i < TS_COUNT(others); i++) {
        size_t len = strlen(others[i]);

        if (number == wanted && strncasecmp(wanted, others[i], len) == 0)
            number += len;
    }
    if (number > wanted && *number == 0)
        return "cuda";
    number += strspn(number, " :_-");
    if (*number && number[strspn(number, "0123456789,")] == 0) {
        const char *device = arena_printf(context->arena, "cuda:%s", number);

        return probe_named(device) > 0 ? device : NULL;
    }
    for (size_t i = 0; i < TS_COUNT(words); i++)
        if (nearest_distance(wanted, words[i], 1) <= 1)
            return words[i];
    return NULL;
}

static void wanted_device(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *block = document_find(context->document, "trainspool");
    const struct entry *entry =
        block ? node_find(node_value(block->value), "device") : NULL;
    const char *wanted = entry ? node_value(entry->value)->text : "", *meant;

    if (!entry || context->plan->external || node_is_null(entry->value) ||
        probe_named(wanted) > 0 || strcmp(wanted, "auto") == 0 ||
        strcmp(wanted, "cpu") == 0 || strcmp(wanted, "cuda") == 0)
        return;
    meant = meant_device(context, wanted);
    propose_remark(&to,
                   &(struct finding) {
                       .rule = "TS705",
                       .severity = SEVERITY_ERROR,
                       .message = arena_printf(
                           context->arena,
                           "device must be auto, cpu, cuda, cuda:N or cuda:N,M%s%s%s",
                           meant ? "; did you mean " : "", meant ? meant : "",
                           meant ? "?"
                                 : "; a card that is not in this machine is "
                                   "named with --device") },
                   entry);
}

/* What a run would stop at when it looks for the layers that the job names. */
static void unknown_layers(struct rule_context *context)
{
    static const char *const keys[] = { "lora_target", "additional_target",
                                        "freeze_trainable_modules" };
    const struct proposal to = rule_proposal(context);
    struct plan plan = *context->plan;
    struct error err = { 0 };
    struct lora lora;

    plan.adapter_name_or_path = NULL; /* what an adapter says is no word of the job's */
    if (!context->model ||
        (context->plan->adapter_name_or_path && !plan.create_new_adapter) ||
        shapes_check(&plan, context->model, &lora, &err))
        return;
    for (size_t i = 0; i < TS_COUNT(keys); i++) {
        const struct entry *entry = document_find(context->document, keys[i]);

        if (entry && text_starts(err.text, keys[i]))
            propose_remark(&to,
                           &(struct finding) { .rule = "TS705",
                                               .severity = SEVERITY_ERROR,
                                               .message = arena_strdup(context->arena,
                                                                       err.text) },
                           entry);
    }
}

void rule_words(struct rule_context *context)
{
    wanted_device(context);
    if (!context->plan->external)
        unknown_layers(context);
}

/* ---- TS710: where paths lead ---- */

static const struct path_key {
    const char *name;
    bool written; /* a folder that the job writes to */
} path_keys[] = {
    { "output_dir", true },
    { "export_dir", true },
    { "tokenized_path", true },
    { "model_name_or_path", false },
    { "adapter_name_or_path", false },
    { "dataset_dir", false },
    { "resume_from_checkpoint", false },
    { "dataset", false },
    { "eval_dataset", false },
};

/* The lexical depth below the start never goes under it. */
static bool climbs_out(const char *path)
{
    int depth = 0;

    while (*path) {
        size_t len = strcspn(path, "/");

        if (len == 2 && strncmp(path, "..", 2) == 0) {
            if (--depth < 0)
                return true;
        } else if (len > 0 && !(len == 1 && *path == '.')) {
            depth++;
        }
        path += len + (path[len] == '/');
    }
    return false;
}

static bool is_below(const char *path, const char *root)
{
    size_t len = strlen(root);

    while (len > 1 && root[len - 1] == '/')
        len--;
    return strncmp(path, root, len) == 0 &&
           (path[len] == '/' || path[len] == 0 || (len == 1 && root[0] == '/')) &&
           !climbs_out(path + len);
}

static bool is_allowed(const struct rule_context *context, const char *path, bool written)
{
    const char *const *roots = context->options->roots;
    char *joined;
    bool below = false;

    if (!roots)
        return *path == '/' || !written || !climbs_out(path);
    if (*path != '/' && !climbs_out(path))
        return true;
    joined = path_join(context->plan->dir ? context->plan->dir : ".", path);
    for (size_t i = 0; roots[i] && !below; i++)
        below = is_below(joined, roots[i]);
    free(joined);
    return below;
}

static void check_path(struct rule_context *context, const struct path_key *key,
                       const char *path)
{
    const char *message = NULL;

    if (path[0] == '~' && (path[1] == '/' || path[1] == 0))
        message = " begins with ~, which nobody expands here: write the whole path";
    else if (!is_allowed(context, path, key->written))
        message = context->options->roots
                      ? " leads out of the folders that jobs may use"
                      : " leads out of the job's folder: write the whole path if that is "
                        "meant";
    if (message)
        rule_tell(context,
                  &(struct finding) { .rule = "TS710",
                                      .severity = SEVERITY_ERROR,
                                      .message = arena_printf(context->arena, "%s%s",
                                                              key->name, message) },
                  key->name);
}

void rule_paths(struct rule_context *context)
{
    for (size_t i = 0; i < sizeof(path_keys) / sizeof(path_keys[0]); i++) {
        const struct entry *entry = rule_entry(context, path_keys[i].name);
        const struct node *value = entry ? node_value(entry->value) : NULL;

        if (value && value->kind == NODE_SCALAR && value->len > 0)
            check_path(context, &path_keys[i], value->text);
    }
}

/* ---- TS713: what has to be there ---- */

static struct finding *missing(struct rule_context *context, const char *key,
                               const char *what, const char *note)
{
    return rule_tell(context,
                     &(struct finding) { .rule = "TS713",
                                         .severity = context->options->will_run
                                                         ? SEVERITY_ERROR
                                                         : SEVERITY_WARNING,
                                         .message = what,
                                         .because = "looked for on this machine",
                                         .note = note },
                     key);
}

/* Another tool's word for the key, which TS706 tells of. */
static bool is_meant(const struct rule_context *context, const char *key)
{
    const struct node *root = context->document->root;

    for (size_t i = 0; i < root->count; i++) {
        const struct key *row = root->entries[i].key->kind == NODE_SCALAR
                                    ? schema_find(root->entries[i].key->text)
                                    : NULL;

        if (row && row->use == KEY_FOREIGN && row->now && strcmp(row->now, key) == 0)
            return true;
    }
    return false;
}

/* No machine has a model that is not named.  A file without data may be for something else
 * than training. */
static void not_named(struct rule_context *context, const char *key, const char *what,
                      enum severity severity)
{
    const bool settings = !context->plan->model_name_or_path && !context->plan->dataset;

    if (is_meant(context, key))
        return;
    rule_tell(context,
              &(struct finding) {
                  .rule = "TS713",
                  .severity = context->options->will_run ? SEVERITY_ERROR : severity,
                  .message = arena_printf(context->arena, "%s: %s is not given", what, key),
                  .note = settings ? "where these are the settings of a script of your own, "
                                     "say so: trainspool: {target: external}"
                                   : NULL },
              NULL);
}

static bool has_file(const char *dir, const char *name)
{
    char *path = path_join(dir, name);
    bool there = file_exists(path);

    free(path);
    return there;
}

/* Folders that people keep models in, which no owner on the hub is called. */
static bool is_usual_folder(const char *name, size_t len)
{
    static const char *const usual[] = {
        "models", "model",   "data", "datasets",    "outputs", "output",
        "saves",  "weights", "ckpt", "checkpoints", "runs",    "pretrained"
    };

    for (size_t i = 0; i < TS_COUNT(usual); i++)
        if (strlen(usual[i]) == len && memcmp(usual[i], name, len) == 0)
            return true;
    return false;
}

/* "Qwen/Qwen3-0.6B": an owner and a name, as the hub has them. */
static bool is_of_hub(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_-.";
    size_t owner = strspn(name, letters), rest;

    if (owner == 0 || name[owner] != '/' || name[0] == '.' ||
        is_usual_folder(name, owner))
        return false;
    rest = strspn(name + owner + 1, letters);
    return rest > 0 && name[owner + 1 + rest] == 0;
}

static const char *how_to_get(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    const char *name = entry ? node_value(entry->value)->text : "";

    if (!is_of_hub(name))
        return name[0] == '/' ? "nothing is downloaded: name a folder of this machine"
                              : "nothing is downloaded: name a folder of this machine; a "
                                "relative path begins where the job lies";
    return arena_printf(
        context->arena,
        "nothing is downloaded; beside the job, `hf download %s --local-dir "
        "%s` gets it",
        name, name);
}

static void check_folder(struct rule_context *context, const char *key, const char *dir,
                         const char *file)
{
    if (has_file(dir, file))
        return;
    if (file_exists(dir) && !file_is_dir(dir)) {
        missing(context, key,
                arena_printf(context->arena, "%s is a file", visible(context, dir)),
                "name the folder it lies in");
        return;
    }
    missing(
        context, key,
        file_is_dir(dir)
            ? arena_printf(context->arena, "%s has no %s", visible(context, dir), file)
            : arena_printf(context->arena, "%s is not there", visible(context, dir)),
        how_to_get(context, key));
}

/* An adapter's folder; a whole model in its place is told where it belongs. */
static void check_adapter(struct rule_context *context, const char *key, const char *dir)
{
    if (!has_file(dir, "adapter_config.json") && has_file(dir, "config.json"))
        missing(context, key,
                arena_printf(context->arena, "%s has no adapter_config.json",
                             visible(context, dir)),
                "it is a whole model: model_name_or_path goes on with one");
    else
        check_folder(context, key, dir, "adapter_config.json");
}

static bool has_weights(const char *dir)
{
    return has_file(dir, "model.safetensors") ||
           has_file(dir, "model.safetensors.index.json");
}

/* What lies beside a config.json.  One that is not there has been told. */
static void check_beside(struct rule_context *context, const char *dir)
{
    const struct plan *plan = context->plan;

    if (!has_file(dir, "config.json"))
        return;
    if (!plan->train_from_scratch && !has_weights(dir) &&
        (has_file(dir, "pytorch_model.bin") ||
         has_file(dir, "pytorch_model.bin.index.json")))
        missing(context, "model_name_or_path",
                arena_printf(context->arena,
                             "%s has its weights in pytorch_model.bin, a pickle, which is "
                             "not read",
                             visible(context, dir)),
                "AutoModelForCausalLM.from_pretrained(...).save_pretrained(...) of "
                "transformers writes them as model.safetensors");
    if (!plan->train_from_scratch && has_weights(dir) && context->weights_error)
        missing(context, "model_name_or_path",
                arena_printf(context->arena, "the weights cannot be read: %s",
                             visible(context, context->weights_error)),
                NULL);
    if (!has_file(dir, "tokenizer.json"))
        missing(context, "model_name_or_path",
                arena_printf(context->arena, "%s has no tokenizer.json",
                             visible(context, dir)),
                "AutoTokenizer.from_pretrained(...).save_pretrained(...) of transformers "
                "makes one of other files");
}

static void check_model(struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (!plan->model_name_or_path) {
        not_named(context, "model_name_or_path", "the job names no model",
                  SEVERITY_ERROR);
    } else {
        check_folder(context, "model_name_or_path", plan->model_name_or_path,
                     "config.json");
        check_beside(context, plan->model_name_or_path);
    }
    if (plan->adapter_name_or_path && !strchr(plan->adapter_name_or_path, ','))
        check_adapter(context, "adapter_name_or_path", plan->adapter_name_or_path);
}

/* A distillation's: a teacher, or the file of its logits in its place. */
static void check_teacher(struct rule_context *context)
{
    const struct distillation *kd = &context->plan->kd;

    if (context->plan->stage != STAGE_DISTILL || (kd->logits && file_exists(kd->logits)))
        return;
    if (kd->teacher)
        check_folder(context, "teacher_model_name_or_path", kd->teacher, "config.json");
    else if (kd->logits)
        missing(context, "stage",
                arena_printf(context->arena,
                             "%s is not there, and the job names no teacher to make it",
                             visible(context, kd->logits)),
                "teacher_model_name_or_path: a folder with a larger model");
    if (kd->teacher && kd->adapter)
        check_adapter(context, "teacher_adapter_name_or_path", kd->adapter);
}

/* The file of a source, or all in its folder: are they there, and of kinds that are read? */
static struct finding *check_source(struct rule_context *context, const char *key,
                                    const struct dataset_source *source)
{
    const char *const *files;
    struct error err = { 0 };
    size_t count;

    if (!file_exists(source->path))
        return missing(context, key,
                       arena_printf(context->arena, "%s is not there",
                                    visible(context, source->path)),
                       NULL);
    if (!dataset_source_files(source, context->arena, &files, &count, &err))
        return missing(context, key, rule_said(context, &err), NULL);
    return NULL;
}

/* An entry of dataset_info.json as training would find it, and its files. */
static struct finding *check_entry(struct rule_context *context, const char *key,
                                   struct dataset_lookup *lookup, const char *name)
{
    struct dataset_source source;
    struct error err = { 0 };

    if (!dataset_lookup_find(lookup, name, &source, &err))
        return missing(context, key, rule_said(context, &err), NULL);
    return check_source(context, key, &source);
}

/* A file or folder, beside the job or in dataset_dir. */
static struct finding *check_file(struct rule_context *context, const char *key,
                                  const char *name)
{
    const char *const dirs[] = { context->plan->dir ? context->plan->dir : ".",
                                 context->plan->dataset_dir };

    for (size_t i = 0; i < TS_COUNT(dirs); i++)
        if (has_file(dirs[i], name)) {
            char *path = path_join(dirs[i], name);
            const struct dataset_source source = {
                .path = arena_strdup(context->arena, path),
            };

            free(path);
            return check_source(context, key, &source);
        }
    return missing(
        context, key,
        arena_printf(context->arena, "%s is not there", visible(context, name)), NULL);
}

/* One of several names in a value: the finding is about its bytes alone.  `from` counts
 * in the value as the plan has it, a list with a comma between its items. */
static void narrow(const struct rule_context *context, struct finding *finding,
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
        struct finding *finding = dataset_names_path(name)
                                      ? check_file(context, key, name)
                                      : check_entry(context, key, lookup, name);

        if (finding)
            narrow(context, finding, (size_t)(at - names), len);
        at += len;
    }
}

void rule_missing(struct rule_context *context)
{
    struct dataset_lookup *lookup;

    if (context->plan->external)
        return; /* another program may well download it */
    check_model(context);
    check_teacher(context);
    lookup = dataset_lookup_open(context->plan->dataset_dir, context->arena);
    if (context->plan->dataset)
        check_dataset(context, "dataset", lookup, context->plan->dataset);
    else
        not_named(context, "dataset", "the job names no data", SEVERITY_WARNING);
    if (context->plan->eval_dataset)
        check_dataset(context, "eval_dataset", lookup, context->plan->eval_dataset);
    dataset_lookup_close(lookup);
}
