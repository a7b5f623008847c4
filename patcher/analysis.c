/* patcher/analysis.c - document, schema, plan and rules of one text, without edits. */
#include "config.h"

#include "patcher/analysis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "patcher/rules/device_guess.h"
#include "patcher/rules/environment.h"
#include "patcher/rules/external.h"
#include "patcher/findings/propose.h"
#include "patcher/profiles/trainer_view.h"
#include "patcher/rules/rules.h"
#include "patcher/schema/dialect.h"
#include "patcher/script/script.h"
#include "patcher/schema/schema.h"
#include "patcher/rules/suppress.h"
#include "patcher/rules/torch_setup.h"
#include "precision/probe.h"
#include "train/estimate.h"
#include "train/files/safetensors.h"
#include "train/model/optimizer_table.h"
#include "train/job_config.h"
#include "train/model/cross_layers.h"

/* The rule of each fault in document.h. */
static const char *const fault_rules[] = {
    [DOCUMENT_ENCODING] = "TS001",  [DOCUMENT_TAB] = "TS004",
    [DOCUMENT_DUPLICATE] = "TS005", [DOCUMENT_SEVERAL] = "TS006",
    [DOCUMENT_LIMIT] = "TS009",     [DOCUMENT_SYNTAX] = "TS009",
};

static void add(struct analysis *analysis, const char *id, struct mark at,
                const char *message)
{
    const struct rule *rule = rules_find(id);

    findings_add(&analysis->findings, &(struct finding) { .rule = rule->id,
                                                          .severity = rule->severity,
                                                          .apply = APPLY_MANUAL,
                                                          .at = at,
                                                          .message = message });
}

/* Return the name of the key at a position, for a duplicate key. */
static const char *key_at(const struct document *document, size_t byte)
{
    for (size_t i = 0; document->root && i < document->root->count; i++)
        if (document->root->entries[i].key->at.byte == byte)
            return document->root->entries[i].key->text;
    return NULL;
}

static void add_remarks(struct analysis *analysis, struct arena *arena)
{
    const struct document *document = &analysis->document;

    if (document->bom)
        add(analysis, "TS002", document_mark(document, 0),
            "the file begins with a byte order mark, which is kept");
    if (document->crlf || document->mixed_ends)
        add(analysis, "TS003", document_mark(document, 0),
            document->crlf
                ? "the lines end in CRLF; new lines do too"
                : "line ends differ; a new line ends like the line next to it");
    for (size_t i = 0; i < document->remark_count; i++) {
        const struct document_remark *remark = &document->remarks[i];

        add(analysis, fault_rules[remark->fault], remark->at,
            arena_strdup(arena, remark->text));
        analysis->findings.list[analysis->findings.count - 1].cut = remark->bytes;
        if (remark->fault == DOCUMENT_DUPLICATE)
            analysis->findings.list[analysis->findings.count - 1].key =
                key_at(document, remark->at.byte);
    }
}

/* ---- Keys with several values ---- */

/* Return the name under which the schema uses the key, or NULL for an unknown key. */
static const char *used_name(const struct node *key)
{
    const struct key *row = key->kind == NODE_SCALAR ? schema_find(key->text) : NULL;

    return row && row->use == KEY_RENAMED ? row->now : row ? row->name : NULL;
}

/* Return whether the top-level key of an entry that TS005 reports has several values,
 * under one or two names. */
static bool has_several_values(const struct node *root, const struct entry *reported)
{
    const char *name = used_name(reported->key);

    if (strcmp(reported->key->text, "trainspool") == 0)
        return true;
    for (size_t i = 0; name && i < root->count; i++)
        if (text_equal(used_name(root->entries[i].key), name) &&
            !node_same(root->entries[i].value, reported->value))
            return true;
    return false;
}

/* Return whether the key that the finding of TS005 reports may decide an edit: a key of the
 * schema with several values, any key of the block, which sets the policy, and a second
 * `<<`, which is in no entry. */
static bool decides_edits(const struct finding *finding, const struct node *root)
{
    const size_t at = finding->at.byte;

    for (size_t i = 0; i < root->count; i++) {
        const struct entry *entry = &root->entries[i];
        const struct node *value = entry->value;

        if (finding->entry == entry || entry->key->at.byte == at)
            return has_several_values(root, entry);
        if (at >= value->at.byte && at < value->at.byte + value->bytes)
            return strcmp(entry->key->text, "trainspool") == 0;
    }
    return true;
}

/* Withdraw all edits if a key that may decide one has several values: most readers take the
 * last value, but the first may have been meant. */
static void withdraw_undecided(struct analysis *analysis)
{
    struct findings *findings = &analysis->findings;
    bool undecided = false;

    for (size_t i = 0; i < findings->count; i++)
        undecided |= strcmp(findings->list[i].rule, "TS005") == 0 &&
                     decides_edits(&findings->list[i], analysis->document.root);
    for (size_t i = 0; undecided && i < findings->count; i++)
        if (findings->list[i].new_text)
            propose_withdraw(&findings->list[i]);
}

/* ---- The model's folder ---- */

/* Return the error without the folder, which the job has.  TS713 reports a missing
 * config.json. */
static const char *config_error(const struct analyzer *analyzer, const char *path,
                                const struct error *err)
{
    static const char file[] = "config.json";
    char *name = path_join(path, file);
    size_t len = strlen(name);
    bool named = strncmp(err->text, name, len) == 0 && err->text[len] == ':';
    const char *message = named ? err->text + len - strlen(file) : err->text;

    message = file_exists(name) ? arena_strdup(analyzer->arena, message) : NULL;
    free(name);
    return message;
}

/* Return whether a file does not exist, and no more: one without permission does. */
static bool is_absence(const struct error *err)
{
    return err->code == ERROR_SYSTEM && (text_ends(err->text, strerror(ENOENT)) ||
                                         text_ends(err->text, strerror(ENOTDIR)));
}

/* Images need layers that text does without. */
static bool has_media(const struct analyzer *analyzer)
{
    const struct estimate_data *data = analyzer->options->data;

    return data && data->media.items > 0;
}

static void read_model(struct analyzer *analyzer, const struct plan *plan)
{
    const char *path = plan->model_name_or_path;
    const struct plan how = { .cutoff_len = plan->cutoff_len,
                              .train_cross_attention = plan->train_cross_attention,
                              .rope_scaling =
                                  plan->external ? ROPE_SCALING_NONE : plan->rope_scaling,
                              .external = plan->external,
                              .method = plan->method,
                              .stage = plan->stage,
                              .quantization_bit = plan->quantization_bit,
                              .additional_target = plan->additional_target,
                              .adapter_name_or_path = plan->adapter_name_or_path,
                              .create_new_adapter = plan->create_new_adapter,
                              .resize_vocab = plan->resize_vocab,
                              .add_tokens = plan->add_tokens,
                              .add_special_tokens = plan->add_special_tokens,
                              .preference = { .head = plan->preference.head } };
    struct model_config *model;
    struct error ignored = { 0 };
    struct safetensors *set;

    if (analyzer->model_path && path && strcmp(analyzer->model_path, path) == 0)
        return;
    analyzer->model_path = path;
    analyzer->model = NULL;
    analyzer->model_error = NULL;
    analyzer->checkpoint = FORMAT_COUNT;
    analyzer->weights_error = NULL;
    analyzer->weights_absent = false;
    if (!path || !file_is_dir(path))
        return;
    model = arena_alloc(analyzer->arena, sizeof(*model));
    if (job_config_read(&how, path, analyzer->arena, model, &ignored) &&
        (!has_media(analyzer) || cross_layers_join(model, analyzer->arena, &ignored)))
        analyzer->model = model;
    else
        analyzer->model_error = config_error(analyzer, path, &ignored);
    analyzer->checkpoint = model->dtype; /* in case the files do not say */
    error_clear(&ignored);
    set = safetensors_open(path, "model", true, &ignored);
    if (set && (analyzer->model || analyzer->checkpoint == FORMAT_COUNT))
        analyzer->checkpoint = analyzer->model
                                   ? model_config_weight_format(analyzer->model, set)
                                   : safetensors_format(set);
    else if (!set) {
        analyzer->weights_error = arena_strdup(analyzer->arena, ignored.text);
        analyzer->weights_absent = is_absence(&ignored);
    }
    safetensors_close(set);
}

/* ---- The teacher of a distillation, the reference of preference training ---- */

static void read_teacher(struct analyzer *analyzer, struct analysis *analysis)
{
    const char *path = teacher_folder(&analysis->plan),
               *student = analysis->plan.model_name_or_path;

    if (!analyzer->teacher_path || !text_equal(analyzer->teacher_path, path) ||
        !text_equal(analyzer->student, student)) {
        analyzer->teacher_path = path;
        analyzer->student = student;
        teacher_read(&analysis->plan, analyzer->arena, &analyzer->teacher);
    }
    analysis->plan.teacher_bytes = analyzer->teacher.bytes;
    analysis->plan.kd.config = analyzer->teacher.config;
    analysis->plan.kd.format = analyzer->teacher.format;
}

/* ---- The packages of another program ---- */

/* Each analysis binds the text again, but reads the folder only once. */
static void read_versions(struct analyzer *analyzer, struct analysis *analysis)
{
    struct versions *installed = &analyzer->installed;

    environment_bind(&analysis->document, analysis->plan.dir, analyzer->arena,
                     &analysis->versions);
    if (analyzer->options->versions)
        versions_override(&analysis->versions, analyzer->options->versions);
    if (!analysis->plan.external || !analysis->versions.folder ||
        analyzer->options->will_run)
        return;
    if (!installed->folder || strcmp(installed->folder, analysis->versions.folder) != 0) {
        *installed = (struct versions) { .folder = analysis->versions.folder };
        environment_read(analyzer->arena, installed);
    }
    versions_add(&analysis->versions, installed);
}

/* ---- The plan ---- */

/* The config.json of a quantized base model decides, as in transformers. */
static void apply_base_quantization(const struct analyzer *analyzer, struct plan *plan)
{
    if (!analyzer->model || !analyzer->model->quantized.enabled || !plan_adapts(plan))
        return;
    plan->quantization_bit = quantized_config_bits(&analyzer->model->quantized);
    plan->double_quantization = analyzer->model->quantized.double_quant;
    if (analyzer->model->quantized.by != QUANTIZER_BITSANDBYTES)
        plan->base_quantization = quantizer_name(analyzer->model->quantized.by);
}

static void apply_torch_base_quantization(const struct analyzer *analyzer,
                                          struct plan *plan)
{
    struct torch_setup *setup;

    if (!plan->torch || !analyzer->model || !analyzer->model->quantized.enabled)
        return;
    setup = arena_alloc(analyzer->arena, sizeof(*setup));
    *setup = *plan->torch;
    setup->quantization_bit = analyzer->model->quantized.affine.bits == 8 ? 8 : 4;
    plan->torch = setup;
}

static void bind(const struct analyzer *analyzer, struct analysis *analysis)
{
    char *dir = path_dir(analyzer->options->job),
         *run = path_run_dir(analyzer->options->job);

    analysis->plan.job = analyzer->options->job;
    analysis->plan.dir = arena_strdup(analyzer->arena, dir);
    analysis->plan.run_dir = arena_strdup(analyzer->arena, run);
    free(dir);
    free(run);
    schema_bind(&analysis->document, analyzer->arena, &analysis->plan);
    analysis->plan.external =
        trainer_of_target(&analysis->document, analyzer->options->target) !=
        TRAINER_NATIVE;
    if (analysis->plan.external &&
        !analyzer->options->will_run) { /* the file may belong to anyone */
        struct torch_setup *setup = arena_alloc(analyzer->arena, sizeof(*setup));

        torch_setup_read(&analysis->document, analysis->plan.dir, analyzer->arena, setup);
        analysis->plan.torch = setup;
    }
    if (analysis->plan.ranks == 1 && probe_count_named(analysis->plan.device_wanted) > 1)
        analysis->plan.ranks = (int64_t)probe_count_named(analysis->plan.device_wanted);
    analysis->has_plan = true;
}

static bool requests_cpu(const struct plan *plan)
{
    return strcmp(plan->device_wanted, "cpu") == 0;
}

/* Return the CPU for a job that requests it: a generic CPU if only a GPU of its machine
 * is known. */
static const struct device *device_of(const struct analyzer *analyzer,
                                      const struct plan *plan)
{
    static const struct device some = { .kind = DEVICE_CPU,
                                        .name = "CPU",
                                        .ordinal = -1 };
    const struct device *device = analyzer->options->device;

    if (!device || device->kind == DEVICE_CPU || !requests_cpu(plan))
        return device;
    return analyzer->options->host ? analyzer->options->host : &some;
}

/* Other programs usually run on another machine, so a missing GPU here means nothing
 * (axolotl#1924). */
static const struct device *find_device(const struct analyzer *analyzer,
                                        const struct plan *plan)
{
    const struct device *device = device_of(analyzer, plan);
    bool guessed =
        device && device->here && device->kind == DEVICE_CPU && !requests_cpu(plan);

    return plan->external && guessed ? NULL : device;
}

/* Return the memory of one process: the processes of a CPU share its memory. */
static uint64_t find_limit(const struct plan *plan, const struct device *device)
{
    struct error ignored = { 0 };
    uint64_t limit;

    if (!device || !memory_limit(plan->memory_limit, device, &limit, &ignored))
        return 0;
    return device->kind == DEVICE_CPU ? limit / plan_local_ranks(plan) : limit;
}

/* Let the ranks divide what does not fit otherwise: the lowest stage that fits with the
 * largest batch, or full ones if the data are not counted, in a device that nothing else
 * uses.  The choice must not depend on what is free, because the gradients of some stages
 * differ by rounding. */
static void decide_stage(const struct analyzer *analyzer, const struct device *device,
                         struct plan *plan)
{
    const struct estimate_data *counted = analyzer->options->data;
    struct plan trial = *plan;
    struct error ignored = { 0 };
    struct memory_use use = { 0 };
    struct estimate_data data;
    uint64_t limit, own;

    if (plan->external || plan->zero_stage > 0 || plan_ranks(plan) == 1 ||
        !analyzer->model || !device || device->memory == 0)
        return;
    trial.device = *device;
    own = device->here && device->kind == DEVICE_CUDA ? MEMORY_CUDA_CONTEXT : 0;
    trial.device.available = device->memory > own ? device->memory - own : 0;
    limit = find_limit(plan, &trial.device);
    policy_decide(&trial.request, &trial.device, &trial.precision);
    if (counted)
        data = estimate_data_of(counted, plan);
    plan->zero_stage = 1;
    plan->stage_chosen = true;
    for (trial.zero_stage = 1; trial.zero_stage <= 3; trial.zero_stage++) {
        if (!estimate_memory(&trial, analyzer->model, counted ? &data : NULL, &use,
                             &ignored))
            return;
        memory_finish(&use, limit);
        if (use.fits) {
            plan->zero_stage = trial.zero_stage;
            return;
        }
    }
}

/* With a paged optimizer, keep the moments in host memory if they do not fit on the GPU. */
static void decide_offload(const struct analyzer *analyzer, const struct device *device,
                           struct plan *plan)
{
    const uint64_t limit = find_limit(plan, device);
    struct error ignored = { 0 };
    struct estimate_data data;
    struct memory_use use;
    struct plan trial = *plan;

    if (plan->external || plan->offload_optimizer != CHOICE_AUTO ||
        !optimizer_is_paged(plan->optim) || !analyzer->model || limit == 0 ||
        device->kind != DEVICE_CUDA)
        return;
    if (analyzer->options->data)
        data = estimate_data_of(analyzer->options->data, plan);
    trial.device = *device;
    policy_decide(&trial.request, &trial.device, &trial.precision);
    if (!estimate_memory(&trial, analyzer->model, analyzer->options->data ? &data : NULL,
                         &use, &ignored))
        return;
    memory_finish(&use, limit);
    if (!use.fits)
        plan->offload_optimizer = CHOICE_YES;
}

static struct rule_context context_of(const struct analyzer *analyzer,
                                      struct analysis *analysis)
{
    const struct device *device = find_device(analyzer, &analysis->plan);

    return (struct rule_context) {
        .document = &analysis->document,
        .plan = &analysis->plan,
        .device = device,
        .options = analyzer->options,
        .model = analyzer->model,
        .model_error = analyzer->model_error,
        .checkpoint = analyzer->checkpoint,
        .weights_error = analyzer->weights_error,
        .weights_absent = analyzer->weights_absent,
        .previous = analyzer->previous,
        .teacher = &analyzer->teacher,
        .versions = &analysis->versions,
        .view = &analysis->view,
        .available = find_limit(&analysis->plan, device),
        .findings = &analysis->findings,
        .arena = analyzer->arena,
    };
}

/* The device that expressions of a script ask for.  A CPU here says nothing about the
 * machine that runs the script. */
static const struct device *script_device(const struct analyzer *analyzer)
{
    const struct device *device = analyzer->options->device;

    return device && device->here && device->kind == DEVICE_CPU ? NULL : device;
}

static void read_document(const struct analyzer *analyzer, const char *data, size_t len,
                          struct document *out)
{
    const struct script_source source = { analyzer->options->job,
                                          script_device(analyzer) };

    if (script_is_name(source.name))
        script_read(&source, data, len, analyzer->arena, out);
    else
        document_read(data, len, analyzer->arena, out);
}

void analyze_text(struct analyzer *analyzer, const char *data, size_t len,
                  struct analysis *out)
{
    struct rule_context context;

    *out = (struct analysis) { 0 };
    findings_init(&out->findings, analyzer->arena);
    findings_init(&out->ignored, analyzer->arena);
    read_document(analyzer, data, len, &out->document);
    add_remarks(out, analyzer->arena);
    if (!out->document.root)
        return;
    bind(analyzer, out);
    read_versions(analyzer, out);
    trainer_view(&out->document, analyzer->options->target, &out->versions, &out->view);
    out->plan.trainer = profile_at(out->view.trainer)->name;
    schema_check(&out->document, &out->view, !plan_only_evaluates(&out->plan),
                 &out->findings);
    out->is_job = dialect_is_job(&out->document, out->view.trainer);
    if (!out->is_job) {
        out->has_plan = false;
        suppress(&out->document, analyzer->options, &out->findings, &out->ignored);
        return;
    }
    read_model(analyzer, &out->plan);
    apply_torch_base_quantization(analyzer, &out->plan);
    out->plan.request.checkpoint = analyzer->checkpoint;
    read_teacher(analyzer, out);
    if (!analyzer->previous || !previous_belongs_to(analyzer->previous, &out->plan))
        analyzer->previous = previous_new(&out->plan, analyzer->arena);
    context = context_of(analyzer, out);
    decide_stage(analyzer, context.device, &out->plan);
    decide_offload(analyzer, context.device, &out->plan);
    if (out->plan.external) {
        struct plan read = out->plan;

        external_defaults(&context, &out->plan);
        out->misread = external_read_strings(&context, &read);
    }
    if (analyzer->options->guessed && !out->plan.external && !requests_cpu(&out->plan))
        rules_run_guessed(&context);
    else
        rules_run(&context);
    withdraw_undecided(out);
    suppress(&out->document, analyzer->options, &out->findings, &out->ignored);
    propose_resolve_groups(&out->findings);
}

void analysis_decide(const struct analyzer *analyzer, struct analysis *analysis,
                     struct plan *plan)
{
    static const struct device unknown = { .kind = DEVICE_CPU,
                                           .name = "unknown",
                                           .ordinal = -1 };
    const struct rule_context context = context_of(analyzer, analysis);
    const struct device *device = device_of(analyzer, plan);
    struct error ignored = { 0 };
    struct estimate_data data;

    apply_base_quantization(analyzer, plan);
    plan->device = device ? *device : unknown;
    if (plan->external) {
        external_read_strings(&context, plan);
        external_decide(&context, plan);
    } else {
        policy_decide(&plan->request, &plan->device, &plan->precision);
        decide_stage(analyzer, device, plan);
        decide_offload(analyzer, device, plan);
    }
    if (analyzer->options->data)
        data = estimate_data_of(analyzer->options->data, plan);
    if (!analyzer->model ||
        !estimate_memory(plan, analyzer->model, analyzer->options->data ? &data : NULL,
                         &plan->memory, &ignored))
        plan->memory = (struct memory_use) { 0 };
    memory_finish(&plan->memory, find_limit(plan, device));
}
