/* patcher/rules/rules_context.c - properties of a job that several rules check, and
 * functions that report findings. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/digest.h"
#include "base/size.h"
#include "patcher/rules/stored_weights.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"

const struct entry *rule_line(const struct rule_context *context, const char *key)
{
    const struct entry *entry = document_find(context->document, key);
    const struct key *const *aliases;
    size_t count;

    if (entry)
        return entry;
    aliases = schema_aliases(key, &count);
    for (size_t i = 0; !entry && i < count; i++)
        entry = document_find(context->document, aliases[i]->name);
    return entry;
}

const struct entry *rule_entry(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_line(context, key);

    return entry && !node_is_null(entry->value) ? entry : NULL;
}

const struct entry *rule_block_entry(const struct rule_context *context, const char *key)
{
    const struct entry *block = document_find(context->document, "trainspool");

    return block ? node_find(node_value(block->value), key) : NULL;
}

bool rule_is_true(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    bool value = false;

    return entry && scalar_bool(entry->value, &value) != SCALAR_WRONG && value;
}

bool rule_number(const struct rule_context *context, const char *key, double *value)
{
    const struct entry *entry = rule_entry(context, key);

    return entry && scalar_number(entry->value, value) != SCALAR_WRONG;
}

bool rule_on_gpu(const struct rule_context *context)
{
    return context->device && context->device->kind == DEVICE_CUDA &&
           !rule_on_cpu(context);
}

const struct accelerator_row *rule_accelerator(const struct rule_context *context)
{
    return context->device && !rule_on_cpu(context) ? context->device->accelerator : NULL;
}

bool rule_knows_bf16(const struct rule_context *context, bool *has)
{
    const struct accelerator_row *other = rule_accelerator(context);

    *has = rule_on_cpu(context) || (context->device && device_has_bf16(context->device));
    if (other)
        return other->bf16 != NOT_KNOWN;
    return context->device || rule_on_cpu(context);
}

int rule_capability(const struct rule_context *context)
{
    return rule_on_gpu(context) ? 10 * context->device->major + context->device->minor
                                : 0;
}

bool rule_lacks_bf16(const struct rule_context *context)
{
    return rule_on_gpu(context) && !device_has_bf16(context->device);
}

bool rule_has_tensor_cores(const struct rule_context *context)
{
    return rule_on_gpu(context) && device_has_fp16_tensor_cores(context->device);
}

bool rule_model_is_prequantized(const struct rule_context *context)
{
    return context->model && context->model->quantized.enabled;
}

bool rule_is_quantized(const struct rule_context *context)
{
    return rule_entry(context, "quantization_bit") ||
           rule_model_is_prequantized(context) || rule_is_true(context, "load_in_4bit") ||
           rule_is_true(context, "load_in_8bit");
}

bool rule_on_cpu(const struct rule_context *context)
{
    const char *wanted = context->plan->device_wanted;

    return (wanted && strcmp(wanted, "cpu") == 0) ||
           (context->device && context->device->kind == DEVICE_CPU);
}

bool rule_is_policy(const struct rule_context *context, enum policy policy)
{
    return context->plan->policy == policy;
}

bool rule_base_is_float16(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    if (context->plan->external && !rule_is_llamafactory(context)) {
        const struct stored_weights weights = stored_weights_now(context);

        return weights.base == FORMAT_FP16;
    }
    return request->model_dtype == DTYPE_FLOAT16 ||
           (request->model_dtype == DTYPE_AUTO && context->checkpoint == FORMAT_FP16);
}

bool rule_trains_float16(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    if (context->plan->external)
        return rule_external_trains_float16(context);
    if (plan_adapts(context->plan) || request->pure_bf16)
        return false;
    return request->model_dtype == DTYPE_FLOAT16 ||
           (request->model_dtype == DTYPE_AUTO && context->checkpoint == FORMAT_FP16 &&
            !context->plan->train_from_scratch);
}

bool rule_requests_fp16(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    if (request->fp16 == CHOICE_YES)
        return true;
    return (request->fp16 == CHOICE_AUTO || request->bf16 == CHOICE_AUTO) &&
           context->device && rule_runs_fp16(context);
}

bool rule_runs_fp16(const struct rule_context *context)
{
    struct precision decided;

    if (!context->device)
        return rule_requests_fp16(context);
    policy_decide(&context->plan->request, context->device, &decided);
    return decided.mode == MODE_FP16_MIXED || decided.mode == MODE_FP16_PURE;
}

const char *rule_device_text(const struct rule_context *context)
{
    const struct device *device = context->device;
    char capability[16];

    if (!device)
        return rule_on_cpu(context) ? "the job asks for the CPU" : NULL;
    if (device->kind == DEVICE_CPU)
        return arena_printf(context->arena, "%s, no GPU", device->name);
    if (device->accelerator)
        return arena_printf(context->arena, "%s of %s", device->name,
                            device->accelerator->maker);
    device_capability_text(device, capability);
    if (device->here)
        return arena_printf(context->arena, "device %d: %s, compute capability %s",
                            device->ordinal, device->name, capability);
    return arena_printf(context->arena, "%s, compute capability %s%s%s", device->name,
                        capability, context->options->device_source ? ", named by " : "",
                        context->options->device_source ? context->options->device_source
                                                        : "");
}

bool rule_is_submitted(const struct rule_context *context)
{
    return context->plan->backend == RUN_SLURM && !context->plan->external &&
           !context->options->launched && !context->options->frozen;
}

struct proposal rule_proposal(const struct rule_context *context)
{
    return (struct proposal) { context->document, context->findings };
}

const char *rule_printable(const struct rule_context *context, const char *text)
{
    struct text out;
    const char *copy;

    text_init(&out, 0);
    text_add_visible(&out, text, strlen(text));
    copy = arena_copy(context->arena, out.data, out.len);
    text_clear(&out);
    return copy;
}

const char *rule_error_text(const struct rule_context *context, const struct error *err)
{
    if (err->at.line == 0)
        return arena_strdup(context->arena, err->text);
    return arena_printf(context->arena, "%s:%" PRIu32 ":%" PRIu32 ": %s", err->file,
                        err->at.line, err->at.column, err->text);
}

int rule_group(const struct rule_context *context)
{
    return (int)context->findings->count + 1;
}

/* In TS1xx and TS2xx the device is the reason. */
static bool depends_on_device(const struct finding *finding)
{
    return finding->rule[2] == '1' || finding->rule[2] == '2';
}

/* Return the key after which a new line is inserted by default: the last one before
 * the block trainspool:, which usually comes last.  NULL: insert at the end. */
static const struct entry *default_anchor(const struct rule_context *context)
{
    const struct node *root = context->document->root;
    size_t written = 0;

    while (written < root->count && !root->entries[written].from_merge)
        written++;
    if (written < 2 || strcmp(root->entries[written - 1].key->text, "trainspool") != 0)
        return NULL;
    return &root->entries[written - 2];
}

struct finding *rule_propose(struct rule_context *context, const struct finding *base,
                             const char *key, const char *value, const char *after)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_line(context, key), *anchor = NULL;
    struct finding finding = *base;

    if (!finding.because && depends_on_device(base))
        finding.because = rule_device_text(context);
    if (entry)
        return propose_value(&to, &finding, entry, value);
    finding.key = key;
    if (after)
        anchor = rule_line(context, after);
    if (!anchor)
        anchor = default_anchor(context);
    return propose_line(&to, &finding, anchor, value);
}

struct finding *rule_report(struct rule_context *context, const struct finding *base,
                            const char *key)
{
    const struct proposal to = rule_proposal(context);
    struct finding finding = *base;

    if (!finding.because && depends_on_device(base))
        finding.because = rule_device_text(context);
    if (!finding.key)
        finding.key = key;
    return propose_remark(&to, &finding, key ? rule_line(context, key) : NULL);
}

bool rule_loss_depends_on_batch(const struct rule_context *context, const char **key)
{
    const struct entry *stage = rule_entry(context, "stage"),
                       *loss = rule_entry(context, "pref_loss");
    const char *name = stage ? node_value(stage->value)->text : "";

    *key = "stage";
    if (strcmp(name, "kto") == 0)
        return true;
    *key = "pref_loss";
    name = strcmp(name, "dpo") == 0 && loss ? node_value(loss->value)->text : "";
    return strcmp(name, "kto_pair") == 0 || strcmp(name, "bco_pair") == 0;
}

/* Return whether a name contains a word, such as "t5" in "google/flan-t5-base". */
static bool has_word(const char *name, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = name; (at = strcasestr(at, word)); at++)
        if ((at == name || !isalnum((unsigned char)at[-1])) &&
            !isalpha((unsigned char)at[len]))
            return true;
    return false;
}

/* By name: families with activations known to exceed 65504, if the files do not
 * decide. */
bool rule_is_bf16_model(const struct rule_context *context)
{
    static const char *const families[] = { "t5", "mt5", "gemma", "glm4", "glm-4" };
    const char *name = context->plan->model_name_or_path;
    const char *last = name ? strrchr(name, '/') : NULL;

    if (context->checkpoint == FORMAT_BF16)
        return true;
    for (size_t i = 0; name && i < TS_COUNT(families); i++)
        if (has_word(last ? last + 1 : name, families[i]))
            return true;
    return false;
}

/* Only on this machine: on another one auto may mean something else. */
bool rule_is_auto_fp16(const struct rule_context *context)
{
    return context->plan->request.fp16 != CHOICE_YES && !context->plan->external &&
           rule_requests_fp16(context);
}

const char *rule_auto_key(const struct rule_context *context)
{
    return context->plan->request.bf16 == CHOICE_AUTO ? "bf16" : "fp16";
}

const char *rule_digest(const struct rule_context *context)
{
    char digest[DIGEST_TEXT];

    if (context->options->origin && context->options->origin[0])
        return context->options->origin;
    digest_bytes(context->document->data, context->document->len, digest);
    return arena_strdup(context->arena, digest);
}

struct rule_resume rule_find_resume(const struct rule_context *context)
{
    const char *wanted = context->plan->resume_from_checkpoint;
    struct rule_resume resume = { 0 };
    bool last;

    if (wanted && strcmp(wanted, "false") == 0)
        wanted = NULL;
    last = wanted ? strcmp(wanted, "true") == 0 : context->options->resume;
    resume.asked = wanted || last;
    resume.named = last ? NULL : wanted;
    if (context->options->resume || last)
        resume.from = previous_checkpoint(context->previous, rule_digest(context), true);
    if (!resume.from && resume.named)
        resume.from = previous_named(context->previous, resume.named);
    if (!resume.from && last)
        resume.from = previous_checkpoint(context->previous, NULL, true);
    return resume;
}

bool rule_evaluates(const struct rule_context *context, const char **key)
{
    const struct plan *plan = context->plan;
    const struct {
        const char *key;
        bool asked;
    } asks[] = {
        { "eval_strategy", plan->eval_strategy != WHEN_NO },
        { "eval_on_start", plan->eval_on_start == CHOICE_YES },
        { "do_eval", rule_is_true(context, "do_eval") },
        { "do_predict", rule_is_true(context, "do_predict") },
        { "load_best_model_at_end", plan->load_best_model_at_end },
    };

    for (size_t i = 0; i < TS_COUNT(asks); i++)
        if (asks[i].asked) {
            *key = asks[i].key;
            return true;
        }
    return false;
}
