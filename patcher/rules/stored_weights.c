/*
 * patcher/rules/stored_weights.c - the formats of loaded and trained weights, decided as
 * transformers, Accelerate, PEFT, TRL and LLaMA-Factory decide them.
 *
 * Read in transformers 4.45, 4.57, 5.1 and 5.15 (modeling_utils.py, _get_dtype;
 * quantizer_bnb_4bit.py), PEFT 0.11 to 0.21 (tuners_utils.py, cast_adapter_dtype;
 * utils/other.py, ModulesToSaveWrapper), TRL 0.9 to 1.16 (trainer/sft_trainer.py,
 * models/utils.py, trainer/model_config.py), LLaMA-Factory 0.9.0 to 0.9.5
 * (model/adapter.py, model/patcher.py) and Accelerate 0.29 to 1.11 (accelerator.py,
 * fsdp_utils.py).  tests/differential/weights.py compares the result with these packages.
 */
#include "config.h"

#include "patcher/rules/stored_weights.h"

#include <string.h>
#include <strings.h>

#include "base/size.h"
#include "patcher/rules/rules_context.h"
#include "patcher/rules/trainer_settings.h"
#include "patcher/rules/trl_quantized.h"
#include "patcher/script/script.h"

#define FIVE "5.0.0.dev0" /* from_pretrained keeps the format of the files since then */

/* The job and facts that several decisions use. */
struct view {
    const struct rule_context *context;
    const struct precision_request *request;
    bool factory, trl, deepspeed, fsdp, quantized;
    bool trl_loads;      /* TRL calls from_pretrained, not the script */
    bool casts_adapters; /* by PEFT */
    struct stored_weights *out;
};

bool stored_weights_narrow(enum format format)
{
    return format == FORMAT_FP16 || format == FORMAT_BF16;
}

/* ---- Autocast ---- */

static void find_autocast(const struct view *view)
{
    const struct precision_request *request = view->request;
    struct stored_weights *out = view->out;
    const struct entry *where;
    const char *launcher = rule_launcher_precision(view->context, &where);

    out->autocast = FORMAT_FP32;
    out->autocast_source =
        request->pure_bf16 ? "pure_bf16 is true" : "neither fp16 nor bf16 is true";
    if (request->fp16 == CHOICE_YES) {
        out->autocast = FORMAT_FP16;
        out->autocast_source = request->bf16 == CHOICE_YES
                                   ? "fp16: true; with bf16: true the Trainer refuses it"
                                   : "fp16: true";
    } else if (request->bf16 == CHOICE_YES) {
        out->autocast = FORMAT_BF16;
        out->autocast_source =
            trainer_settings_bf16(view->context) ? "TRL's default" : "bf16: true";
    } else if (launcher &&
               (strcmp(launcher, "fp16") == 0 || strcmp(launcher, "bf16") == 0)) {
        out->autocast = launcher[0] == 'f' ? FORMAT_FP16 : FORMAT_BF16;
        out->autocast_source = "the Accelerate setting";
    } else if (request->fp16 == CHOICE_AUTO || request->bf16 == CHOICE_AUTO) {
        out->autocast_source = "the script decides what auto means";
    }
}

/* ---- What from_pretrained loads ---- */

static enum format format_of(enum dtype dtype)
{
    return dtype == DTYPE_FLOAT16    ? FORMAT_FP16
           : dtype == DTYPE_BFLOAT16 ? FORMAT_BF16
                                     : FORMAT_FP32;
}

/* transformers asks config.json first, then the files. */
static enum format files_format(const struct rule_context *context)
{
    if (context->model && context->model->dtype != FORMAT_COUNT)
        return context->model->dtype;
    return context->checkpoint;
}

/* Return the format that LLaMA-Factory's infer_optim_dtype selects for the card as
 * torch reports it. */
static enum format infer_format(const struct rule_context *context)
{
    bool bf16 = rule_capability(context) >= 80 ||
                (rule_on_gpu(context) &&
                 !rule_version_below(context, PACKAGE_TORCH, "2.4.0.dev0"));
    /* it reads config.json, never the files */
    enum format said = context->model ? context->model->dtype : context->checkpoint;

    if (rule_accelerator(context))
        bf16 = device_has_bf16(context->device);
    else if (!rule_on_gpu(context))
        return FORMAT_FP32;
    return bf16 && said != FORMAT_FP16 && said != FORMAT_FP32 ? FORMAT_BF16 : FORMAT_FP16;
}

static void load_as_factory(const struct view *view)
{
    struct stored_weights *out = view->out;
    bool given = out->autocast != FORMAT_FP32 || view->request->pure_bf16;

    out->base = out->autocast != FORMAT_FP32 ? out->autocast
                : view->request->pure_bf16   ? FORMAT_BF16
                                             : infer_format(view->context);
    out->base_source = given ? "LLaMA-Factory loads the compute format"
                             : "LLaMA-Factory queries the card";
}

/* Load the format of the files, as far as they are known. */
static void load_files(const struct view *view, const char *source)
{
    enum format files = files_format(view->context);
    struct stored_weights *out = view->out;

    out->base = files != FORMAT_COUNT ? files : FORMAT_FP32;
    out->base_source = files != FORMAT_COUNT
                           ? source
                           : "an assumption, as the model's files are not available";
    out->known = files != FORMAT_COUNT;
}

/* Return whether TRL's trainer loads a model by its name as "auto": create_model_from_path
 * of trainer/utils.py, 0.26.0 to 0.26.2. */
static bool loads_auto(const struct view *view)
{
    const struct rule_context *context = view->context;

    return view->trl_loads && context->document->script &&
           rule_version_at_least(context, PACKAGE_TRL, "0.26.0.dev0") &&
           rule_version_below(context, PACKAGE_TRL, "0.27.0.dev0");
}

/* A missing dtype: None in transformers 4, "auto" in transformers 5.  TRL's ModelConfig
 * passes None before 0.27 and float32 since, as does create_model_from_path. */
static void load_by_version(const struct view *view)
{
    const struct rule_context *context = view->context;
    struct stored_weights *out = view->out;

    out->base = FORMAT_FP32;
    if (context->plan->train_from_scratch) {
        out->base_source = "a new model is float32";
    } else if (loads_auto(view)) {
        load_files(view, "TRL 0.26 keeps the format of the files");
    } else if (view->trl_loads && !rule_version_below(context, PACKAGE_TRL, "0.27")) {
        bool both = rule_version_below(context, PACKAGE_TRANSFORMERS, FIVE) &&
                    !view->quantized; /* with either version */

        out->base_source = "TRL loads float32 since 0.27";
        out->known = versions_know(context->versions, PACKAGE_TRL) || both;
    } else if (rule_version_below(context, PACKAGE_TRANSFORMERS, FIVE)) {
        /* bitsandbytes: "Overriding dtype=None with torch.float16" */
        out->base = view->quantized ? FORMAT_FP16 : FORMAT_FP32;
        out->base_source = view->quantized ? "transformers 4 loads float16 next to "
                                             "quantized weights"
                                           : "transformers 4 loads float32";
    } else if (versions_know(context->versions, PACKAGE_TRANSFORMERS)) {
        load_files(view, "transformers 5 keeps the format of the files");
    } else {
        load_files(view, "the files' format, if transformers is 5 or later");
        out->known = false;
    }
}

static void find_base(const struct view *view)
{
    struct stored_weights *out = view->out;

    if (view->factory) {
        load_as_factory(view);
    } else if (view->request->model_dtype != DTYPE_AUTO) {
        out->base = format_of(view->request->model_dtype);
        out->base_source = "model_dtype";
    } else if (rule_entry(view->context, "model_dtype") &&
               !view->context->plan->train_from_scratch) {
        load_files(view, "auto keeps the format of the files");
    } else {
        load_by_version(view);
    }
}

/* ---- What is trained ---- */

static bool casts_as_factory(const struct view *view)
{
    return view->factory && !view->request->pure_bf16;
}

static bool casts_for_fsdp(const struct view *view)
{
    return view->fsdp && view->out->autocast != FORMAT_FP32 &&
           !rule_version_below(view->context, PACKAGE_ACCELERATE, "0.30");
}

/* True if the version of TRL is unknown, since the newest one casts. */
static bool casts_quantized_to_bf16(const struct view *view)
{
    bool known = true;

    return trl_quantized_casts(view->context, &known);
}

static bool prepares_quantized(const struct view *view)
{
    return view->quantized &&
           (view->trl ? trl_quantized_prepares(view->context) : !view->factory);
}

/* bnb_4bit_quant_storage: bfloat16, for FSDP; the default is uint8. */
static bool has_floating_storage(const struct rule_context *context)
{
    static const char key[] = "bnb_4bit_quant_storage";
    const struct entry *map = rule_entry(context, "quantization_config"),
                       *entry = rule_entry(context, key);
    const struct node *value;

    if (!entry && map && node_value(map->value)->kind == NODE_MAP)
        entry = node_find(node_value(map->value), key);
    value = entry ? node_value(entry->value) : NULL;
    return value && value->kind == NODE_SCALAR && strstr(value->text, "float");
}

/* Return whether a key names one of the modules, in a text or in a list. */
static bool names_module(const struct rule_context *context, const char *key,
                         const char *module)
{
    const struct entry *entry = key ? rule_entry(context, key) : NULL;
    const struct node *value = entry ? node_value(entry->value) : NULL;

    if (!value || value->kind == NODE_SCALAR)
        return value && strstr(value->text, module);
    for (size_t i = 0; value->kind == NODE_LIST && i < value->count; i++) {
        const struct node *item = node_value(value->items[i]);

        if (item->kind == NODE_SCALAR && strstr(item->text, module))
            return true;
    }
    return false;
}

/* Versions of TRL without that cast, peft_module_casting_to_bf16: with bf16 the embeddings
 * and the head of a 4-bit model. */
static bool casts_head_to_bf16(const struct view *view)
{
    static const char *const modules[] = { "lm_head", "embed_tokens", "wte", "wpe" };

    if (!view->trl || !view->quantized || view->request->bf16 != CHOICE_YES ||
        rule_is_true(view->context, "load_in_8bit"))
        return false;
    for (size_t i = 0; i < TS_COUNT(modules); i++)
        if (names_module(view->context, view->out->whole_key, modules[i]))
            return true;
    return false;
}

/* PEFT creates adapters in float32 and moves them to the format of a base weight that is
 * a floating-point tensor.  A quantized weight is none, except where
 * bnb_4bit_quant_storage is, as in TRL since 0.10. */
static bool stores_adapters_apart(const struct view *view)
{
    return view->quantized && !has_floating_storage(view->context) &&
           !(view->trl && !view->context->document->script &&
             rule_is_true(view->context, "load_in_4bit") &&
             rule_version_at_least(view->context, PACKAGE_TRL, "0.10"));
}

static bool casts_adapters(const struct view *view)
{
    return view->casts_adapters;
}

static bool has_masters(const struct view *view)
{
    return view->deepspeed && !view->request->pure_bf16;
}

enum {
    ALL = 1 << WEIGHTS_ALL,
    ADAPTERS = 1 << WEIGHTS_ADAPTERS,
    WHOLE = 1 << WEIGHTS_WHOLE
};

/* Casts of trained weights; the first that applies to a part decides. */
static const struct cast {
    bool (*applies)(const struct view *view);
    int parts;
    enum format to;
    const char *source;
} casts[] = {
    { casts_as_factory, ALL | ADAPTERS | WHOLE, FORMAT_FP32, "LLaMA-Factory casts them" },
    { has_masters, ALL | ADAPTERS | WHOLE, FORMAT_FP32,
      "DeepSpeed keeps float32 copies" },
    { casts_for_fsdp, ALL | ADAPTERS | WHOLE, FORMAT_FP32,
      "Accelerate casts them for FSDP" },
    { casts_quantized_to_bf16, ADAPTERS | WHOLE, FORMAT_BF16,
      "TRL casts what it trains next to quantized weights to bfloat16" },
    { casts_adapters, ADAPTERS, FORMAT_FP32, "PEFT casts adapters since 0.12" },
    { stores_adapters_apart, ADAPTERS, FORMAT_FP32,
      "adapters of quantized weights are float32" },
    { casts_head_to_bf16, WHOLE, FORMAT_BF16,
      "TRL casts the head and the embeddings of a 4-bit model to bfloat16" },
    { prepares_quantized, WHOLE, FORMAT_FP32,
      "prepare_model_for_kbit_training casts them" },
};

static const char *const uncast[WEIGHTS_PARTS] = {
    [WEIGHTS_ADAPTERS] = "adapters have the format of the base model",
    [WEIGHTS_WHOLE] = "modules trained whole are copies in the format of the base model",
};

static enum format find_part(const struct view *view, enum weights_part part,
                             const char **source, bool *known)
{
    for (size_t i = 0; i < TS_COUNT(casts); i++)
        if (casts[i].parts >> part & 1 && casts[i].applies(view)) {
            *known &= casts[i].applies != casts_quantized_to_bf16 ||
                      versions_know(view->context->versions, PACKAGE_TRL);
            *source = casts[i].source;
            return casts[i].to;
        }
    *source = uncast[part] ? uncast[part] : view->out->base_source;
    if (view->request->pure_bf16)
        *source = "pure_bf16";
    *known &= view->out->known;
    return view->request->pure_bf16 ? FORMAT_BF16 : view->out->base;
}

/* Return the key that makes PEFT train modules whole, or NULL.  A classifier has a new
 * head, which PEFT adds to modules_to_save (peft_model.py,
 * PeftModelForSequenceClassification). */
static const char *find_whole_key(const struct rule_context *context)
{
    static const char *const keys[] = { "additional_target", "modules_to_save",
                                        "lora_modules_to_save" };
    const struct entry *task = rule_entry(context, "lora_task_type");

    for (size_t i = 0; i < TS_COUNT(keys); i++)
        if (rule_is_set(context, keys[i]))
            return keys[i];
    return task && strcasecmp(node_value(task->value)->text, "SEQ_CLS") == 0
               ? "lora_task_type"
               : NULL;
}

/* Return whether a format stops more runs than another: float16, then bfloat16. */
static bool is_narrower(enum format format, enum format than)
{
    return format != FORMAT_COUNT &&
           (than == FORMAT_COUNT || (format == FORMAT_FP16 && than != FORMAT_FP16) ||
            (format == FORMAT_BF16 && than == FORMAT_FP32));
}

static void find_trained(const struct view *view)
{
    bool lora = plan_adapts(view->context->plan), known = true;
    struct stored_weights *out = view->out;
    const bool trains[WEIGHTS_PARTS] = {
        [WEIGHTS_ALL] = !lora,
        [WEIGHTS_ADAPTERS] = lora,
        [WEIGHTS_WHOLE] = lora && out->whole_key,
    };
    const char *source;

    out->trained = FORMAT_COUNT;
    for (int part = 0; part < WEIGHTS_PARTS; part++) {
        out->parts[part] = FORMAT_COUNT;
        if (!trains[part])
            continue;
        out->parts[part] = find_part(view, (enum weights_part)part, &source, &known);
        if (!is_narrower(out->parts[part], out->trained))
            continue;
        out->trained = out->parts[part];
        out->trained_source = source;
    }
    out->known = known;
}

/* Without autocast a matmul computes in the format of its weights: adapters add to what
 * the base computes.  Full training in LLaMA-Factory has cast all of them. */
static enum format find_compute(const struct view *view)
{
    const struct stored_weights *out = view->out;
    bool cast = casts_as_factory(view) && view->request->all_trainable &&
                !view->deepspeed && !view->fsdp;

    if (out->autocast != FORMAT_FP32)
        return out->autocast;
    return cast ? out->trained : out->base;
}

static struct stored_weights native_weights(const struct rule_context *context,
                                            const struct precision_request *request)
{
    static const struct device unknown = { .kind = DEVICE_CPU, .ordinal = -1 };
    struct precision decided;

    policy_decide(request, context->device ? context->device : &unknown, &decided);
    return (struct stored_weights) {
        .autocast = decided.compute == FORMAT_TF32 ? FORMAT_FP32 : decided.compute,
        .compute = decided.compute,
        .scaler = false, /* ours unscales gradients that are always float32 */
        .base = decided.frozen,
        .parts = { decided.trainable, decided.trainable, decided.trainable },
        .trained = decided.trainable,
        .known = true,
        .base_known = true,
        .autocast_source = "the policy",
        .base_source = "the policy",
        .trained_source = "the policy",
    };
}

static struct stored_weights external_weights(const struct rule_context *context,
                                              const struct precision_request *request)
{
    struct stored_weights out = { .known = true, .whole_key = find_whole_key(context) };
    const struct view view = {
        .context = context,
        .request = request,
        .factory = rule_is_llamafactory(context),
        .trl = rule_is_trl(context),
        .trl_loads =
            rule_is_trl(context) && (!context->document->script ||
                                     script_facts_of(context->document)->names_model),
        .deepspeed = rule_uses_deepspeed(context),
        .fsdp = rule_uses_fsdp(context),
        .quantized = rule_has_quantized_weights(context),
        .casts_adapters = !rule_version_below(context, PACKAGE_PEFT, "0.12") &&
                          rule_casts_adapters(context),
        .out = &out,
    };

    find_autocast(&view);
    out.scaler = out.autocast == FORMAT_FP16 && !view.deepspeed;
    out.scaler_allows_float16 = view.fsdp;
    find_base(&view);
    out.base_known = out.known;
    find_trained(&view);
    out.compute = find_compute(&view);
    return out;
}

struct stored_weights stored_weights_of(const struct rule_context *context,
                                        const struct precision_request *request)
{
    return context->plan->external ? external_weights(context, request)
                                   : native_weights(context, request);
}

struct stored_weights stored_weights_now(const struct rule_context *context)
{
    return stored_weights_of(context, &context->plan->request);
}

/* ---- What follows ---- */

bool stored_weights_refuse(const struct stored_weights *weights, enum format format)
{
    return weights->scaler &&
           (format == FORMAT_BF16 ||
            (format == FORMAT_FP16 && !weights->scaler_allows_float16));
}

bool stored_weights_stop_scaler(const struct stored_weights *weights,
                                enum weights_part part)
{
    return weights->known && stored_weights_refuse(weights, weights->parts[part]);
}

bool stored_weights_stop_any_scaler(const struct stored_weights *weights)
{
    for (int part = 0; part < WEIGHTS_PARTS; part++)
        if (stored_weights_stop_scaler(weights, (enum weights_part)part))
            return true;
    return false;
}

const char *stored_weights_refusal(enum format format)
{
    return format == FORMAT_BF16 ? "for which PyTorch's loss scaler has no kernel"
                                 : "which the loss scaler cannot unscale";
}

bool stored_weights_reach_float32(const struct rule_context *context, const char **why)
{
    struct precision_request request = context->plan->request;
    struct stored_weights weights;

    request.fp16 = request.bf16 = CHOICE_NO;
    weights = stored_weights_of(context, &request);
    if (!context->plan->external || !weights.known ||
        !stored_weights_narrow(weights.compute))
        return true;
    *why =
        arena_printf(context->arena, "with neither fp16 nor bf16 it computes in %s: %s",
                     format_dtype(weights.compute), weights.base_source);
    return false;
}

/* A run with a scaler is mixed: it computes in float16 under autocast. */
enum mode stored_weights_mode(const struct rule_context *context,
                              const struct stored_weights *weights)
{
    enum format compute = weights->compute;
    const struct device *device = context->device;

    if (compute == FORMAT_BF16)
        return weights->trained == FORMAT_BF16 ? MODE_BF16_PURE : MODE_BF16_MIXED;
    if (compute == FORMAT_FP16)
        return weights->trained == FORMAT_FP16 && weights->autocast != FORMAT_FP16
                   ? MODE_FP16_PURE
                   : MODE_FP16_MIXED;
    return context->plan->request.tf32 == CHOICE_YES && device && device_has_tf32(device)
               ? MODE_TF32
               : MODE_FP32;
}
