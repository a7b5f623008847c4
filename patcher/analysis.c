/* patcher/analysis.c - document, schema, plan, rules: the way of a text, without an edit. */
#include "config.h"

#include "patcher/analysis.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "patcher/rules/environment.h"
#include "patcher/rules/external.h"
#include "patcher/findings/propose.h"
#include "patcher/rules.h"
#include "patcher/schema/schema.h"
#include "patcher/suppress.h"
#include "patcher/rules/torch_setup.h"
#include "precision/probe.h"
#include "train/estimate.h"
#include "train/files/safetensors.h"

/* The rule of each fault, document.h. */
static const char *const fault_rules[] = {
    [DOCUMENT_ENCODING] = "TS001",  [DOCUMENT_TAB] = "TS004",
    [DOCUMENT_DUPLICATE] = "TS005", [DOCUMENT_SEVERAL] = "TS006",
    [DOCUMENT_LIMIT] = "TS009",     [DOCUMENT_SYNTAX] = "TS009",
};

static void add(struct look *look, const char *id, struct mark at, const char *message)
{
    const struct rule *rule = rules_find(id);

    findings_add(&look->findings, &(struct finding) { .rule = rule->id,
                                                      .severity = rule->severity,
                                                      .apply = APPLY_MANUAL,
                                                      .at = at,
                                                      .message = message });
}

/* The name of the key at a place, for a key given twice. */
static const char *key_at(const struct document *document, size_t byte)
{
    for (size_t i = 0; document->root && i < document->root->count; i++)
        if (document->root->entries[i].key->at.byte == byte)
            return document->root->entries[i].key->text;
    return NULL;
}

static void add_remarks(struct look *look, struct arena *arena)
{
    const struct document *document = &look->document;

    look->is_job = document->root != NULL;
    if (document->bom)
        add(look, "TS002", document_mark(document, 0),
            "the file begins with a byte order mark, which is kept");
    if (document->crlf || document->mixed_ends)
        add(look, "TS003", document_mark(document, 0),
            document->crlf ? "the lines end in CRLF; new lines will too"
                           : "the lines end in different ways; a new line ends as its "
                             "neighbour does");
    for (size_t i = 0; i < document->remark_count; i++) {
        const struct document_remark *remark = &document->remarks[i];

        add(look, fault_rules[remark->fault], remark->at,
            arena_strdup(arena, remark->text));
        look->findings.list[look->findings.count - 1].cut = remark->bytes;
        if (remark->fault == DOCUMENT_DUPLICATE)
            look->findings.list[look->findings.count - 1].key =
                key_at(document, remark->at.byte);
    }
}

/* ---- The model's folder ---- */

/* Without the name of the file, which the job has; of one that is not there TS713
 * tells. */
static const char *said_of_config(const struct looker *looker, const char *path,
                                  const struct error *err)
{
    char *name = path_join(path, "config.json");
    size_t len = strlen(name);
    bool named = strncmp(err->text, name, len) == 0 && err->text[len] == ':';
    const char *said =
        named ? err->text + len + strspn(err->text + len, ": ") : err->text;

    said = file_exists(name) ? arena_strdup(looker->arena, said) : NULL;
    free(name);
    return said;
}

static void read_model(struct looker *looker, const char *path)
{
    struct model_config *model;
    struct error ignored = { 0 };
    struct safetensors *set;

    if (looker->model_path && path && strcmp(looker->model_path, path) == 0)
        return;
    looker->model_path = path;
    looker->model = NULL;
    looker->model_error = NULL;
    looker->checkpoint = FORMAT_COUNT;
    looker->weights_error = NULL;
    if (!path || !file_is_dir(path))
        return;
    model = arena_alloc(looker->arena, sizeof(*model));
    if (model_config_read(path, looker->arena, model, &ignored)) {
        looker->model = model;
        looker->checkpoint = model->dtype; /* where the files are not there to say */
    } else {
        looker->model_error = said_of_config(looker, path, &ignored);
    }
    error_clear(&ignored);
    set = safetensors_open(path, "model", true, &ignored);
    if (set)
        looker->checkpoint = looker->model ? model_config_stored(looker->model, set)
                                           : safetensors_format(set);
    else
        looker->weights_error = arena_strdup(looker->arena, ignored.text);
    safetensors_close(set);
}

/* ---- The teacher of a distillation, the reference of preferences ---- */

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void read_teacher(struct looker *looker, struct look *look)
{
    const char *path = teacher_folder(&look->plan),
               *student = look->plan.model_name_or_path;

    if (!looker->teacher_path || !same(looker->teacher_path, path) ||
        !same(looker->student, student)) {
        looker->teacher_path = path;
        looker->student = student;
        teacher_read(&look->plan, looker->arena, &looker->teacher);
    }
    look->plan.teacher_bytes = looker->teacher.bytes;
    look->plan.kd.config = looker->teacher.config;
    look->plan.kd.format = looker->teacher.format;
}

/* ---- The packages of another program ---- */

/* The text is bound anew at each look, the folder is read once. */
static void read_versions(struct looker *looker, struct look *look)
{
    struct versions *installed = &looker->installed;

    environment_bind(&look->document, look->plan.dir, looker->arena, &look->versions);
    if (!look->plan.external || !look->versions.folder || looker->options->will_run)
        return;
    if (!installed->folder || strcmp(installed->folder, look->versions.folder) != 0) {
        *installed = (struct versions) { .folder = look->versions.folder };
        environment_read(looker->arena, installed);
    }
    versions_add(&look->versions, installed);
}

/* ---- The plan ---- */

/* The config.json of a base in 4 bits decides, as in transformers. */
static void take_base(const struct looker *looker, struct plan *plan)
{
    if (!looker->model || !looker->model->quantised.on || plan->method != METHOD_LORA)
        return;
    plan->quantization_bit = 4;
    plan->double_quantization = looker->model->quantised.twice;
}

static void take_base_of_torch(const struct looker *looker, struct plan *plan)
{
    struct torch_setup *setup;

    if (!plan->torch || !looker->model || !looker->model->quantised.on)
        return;
    setup = arena_alloc(looker->arena, sizeof(*setup));
    *setup = *plan->torch;
    setup->quantization_bit = 4;
    plan->torch = setup;
}

static void bind(const struct looker *looker, struct look *look)
{
    char *dir = path_dir(looker->options->job), *run = path_run_dir(looker->options->job);

    look->plan.job = looker->options->job;
    look->plan.dir = arena_strdup(looker->arena, dir);
    look->plan.run_dir = arena_strdup(looker->arena, run);
    free(dir);
    free(run);
    schema_bind(&look->document, looker->arena, &look->plan);
    if (look->plan.external && !looker->options->will_run) { /* it is anybody's file */
        struct torch_setup *setup = arena_alloc(looker->arena, sizeof(*setup));

        torch_setup_read(&look->document, look->plan.dir, looker->arena, setup);
        look->plan.torch = setup;
    }
    if (look->plan.ranks == 1 && probe_named(look->plan.device_wanted) > 1)
        look->plan.ranks = (int64_t)probe_named(look->plan.device_wanted);
    look->has_plan = true;
}

static bool wants_cpu(const struct plan *plan)
{
    return strcmp(plan->device_wanted, "cpu") == 0;
}

/* The CPU of a job that asks for it: some CPU, where only a GPU of its machine is
 * known. */
static const struct device *device_of(const struct looker *looker,
                                      const struct plan *plan)
{
    static const struct device some = { .kind = DEVICE_CPU,
                                        .name = "CPU",
                                        .ordinal = -1 };
    const struct device *device = looker->options->device;

    if (!device || device->kind != DEVICE_CUDA || !wants_cpu(plan))
        return device;
    return looker->options->host ? looker->options->host : &some;
}

/* Another program runs elsewhere as a rule: that there is no GPU here says nothing of it
 * (axolotl#1924). */
static const struct device *find_device(const struct looker *looker,
                                        const struct plan *plan)
{
    const struct device *device = device_of(looker, plan);
    bool guessed =
        device && device->here && device->kind == DEVICE_CPU && !wants_cpu(plan);

    return plan->external && guessed ? NULL : device;
}

/* What one process may use: those of a CPU share its memory. */
static uint64_t find_limit(const struct plan *plan, const struct device *device)
{
    struct error ignored = { 0 };
    uint64_t limit;

    if (!device || !memory_limit(plan->memory_limit, device, &limit, &ignored))
        return 0;
    return device->kind == DEVICE_CPU ? limit / plan_ranks(plan) : limit;
}

static struct rule_context context_of(const struct looker *looker, struct look *look)
{
    const struct device *device = find_device(looker, &look->plan);

    return (struct rule_context) {
        .document = &look->document,
        .plan = &look->plan,
        .device = device,
        .options = looker->options,
        .model = looker->model,
        .model_error = looker->model_error,
        .checkpoint = looker->checkpoint,
        .weights_error = looker->weights_error,
        .previous = looker->previous,
        .teacher = &looker->teacher,
        .versions = &look->versions,
        .available = find_limit(&look->plan, device),
        .findings = &look->findings,
        .arena = looker->arena,
    };
}

void look_at(struct looker *looker, const char *data, size_t len, struct look *out)
{
    struct rule_context context;

    *out = (struct look) { 0 };
    findings_init(&out->findings, looker->arena);
    findings_init(&out->ignored, looker->arena);
    document_read(data, len, looker->arena, &out->document);
    add_remarks(out, looker->arena);
    if (!out->document.root)
        return;
    schema_check(&out->document, &out->findings);
    bind(looker, out);
    read_model(looker, out->plan.model_name_or_path);
    take_base_of_torch(looker, &out->plan);
    out->plan.request.checkpoint = looker->checkpoint;
    read_versions(looker, out);
    read_teacher(looker, out);
    if (!looker->previous || !previous_is_of(looker->previous, &out->plan))
        looker->previous = previous_new(&out->plan, looker->arena);
    context = context_of(looker, out);
    if (out->plan.external)
        external_presets(&context, &out->plan);
    rules_run(&context);
    suppress(&out->document, looker->options, &out->findings, &out->ignored);
    propose_settle_groups(&out->findings);
}

void look_decide(const struct looker *looker, struct look *look, struct plan *plan)
{
    static const struct device unknown = { .kind = DEVICE_CPU,
                                           .name = "unknown",
                                           .ordinal = -1 };
    const struct rule_context context = context_of(looker, look);
    const struct device *device = device_of(looker, plan);
    struct error ignored = { 0 };

    take_base(looker, plan);
    plan->device = device ? *device : unknown;
    if (plan->external)
        external_decide(&context, plan);
    else
        policy_decide(&plan->request, &plan->device, &plan->precision);
    if (!looker->model ||
        !estimate_memory(plan, looker->model, NULL, &plan->memory, &ignored))
        plan->memory = (struct memory_use) { 0 };
    memory_finish(&plan->memory, find_limit(plan, device));
}
