/*
 * patcher/rules/external.c - the precision of an external job, decided as
 * TrainingArguments, Accelerate, PEFT and LLaMA-Factory decide it.
 */
#include "config.h"

#include "patcher/rules/external.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "patcher/rules/rules_context.h"
#include "precision/scaler.h"

struct view {
    const struct rule_context *context;
    const struct precision_request *request;
    bool factory, deepspeed, fsdp;
    enum format amp;        /* FORMAT_FP16, FORMAT_BF16, or FORMAT_FP32: no autocast */
    enum format loaded;     /* format of the model's weights */
    const char *amp_source; /* the setting that selects it */
    const char *loaded_source;
    const char *trained_source;
};

static void find_amp(struct view *view)
{
    const struct precision_request *request = view->request;
    const struct entry *where;
    const char *launcher = rule_launcher_precision(view->context, &where);

    view->amp = FORMAT_FP32;
    view->amp_source = "neither fp16 nor bf16 is true";
    if (request->fp16 == CHOICE_YES) {
        view->amp = FORMAT_FP16;
        view->amp_source = "fp16: true";
    } else if (request->bf16 == CHOICE_YES) {
        view->amp = FORMAT_BF16;
        view->amp_source = "bf16: true";
    } else if (launcher &&
               (strcmp(launcher, "fp16") == 0 || strcmp(launcher, "bf16") == 0)) {
        view->amp = launcher[0] == 'f' ? FORMAT_FP16 : FORMAT_BF16;
        view->amp_source = "the Accelerate setting";
    } else if (request->fp16 == CHOICE_AUTO || request->bf16 == CHOICE_AUTO) {
        view->amp_source = "the script decides what auto means";
    }
}

static enum format format_of(enum dtype dtype)
{
    return dtype == DTYPE_FLOAT16    ? FORMAT_FP16
           : dtype == DTYPE_BFLOAT16 ? FORMAT_BF16
                                     : FORMAT_FP32;
}

/* Return the format that LLaMA-Factory's infer_optim_dtype selects for the card as
 * torch reports it. */
static enum format infer_format(const struct view *view)
{
    const struct rule_context *context = view->context;
    bool bf16 = rule_capability(context) >= 80 ||
                (rule_on_gpu(context) &&
                 !rule_version_below(context, PACKAGE_TORCH, "2.4.0.dev0"));

    if (!rule_on_gpu(context))
        return FORMAT_FP32;
    return bf16 && context->checkpoint != FORMAT_FP16 &&
                   context->checkpoint != FORMAT_FP32
               ? FORMAT_BF16
               : FORMAT_FP16;
}

static void find_loaded(struct view *view)
{
    const struct rule_context *context = view->context;
    bool by_files = rule_version_at_least(context, PACKAGE_TRANSFORMERS, "5.0.0.dev0") ||
                    !versions_know(context->versions, PACKAGE_TRANSFORMERS);

    if (view->factory) {
        view->loaded = view->amp != FORMAT_FP32   ? view->amp
                       : view->request->pure_bf16 ? FORMAT_BF16
                                                  : infer_format(view);
        view->loaded_source = view->amp != FORMAT_FP32 || view->request->pure_bf16
                                  ? "LLaMA-Factory loads the compute format"
                                  : "LLaMA-Factory queries the card";
    } else if (view->request->model_dtype != DTYPE_AUTO) {
        view->loaded = format_of(view->request->model_dtype);
        view->loaded_source = "model_dtype";
    } else if (by_files && context->checkpoint != FORMAT_COUNT &&
               !context->plan->train_from_scratch) {
        view->loaded = context->checkpoint;
        view->loaded_source = versions_know(context->versions, PACKAGE_TRANSFORMERS)
                                  ? "transformers 5 keeps the format of the files"
                                  : "the files' format, if transformers is 5 or later";
    } else {
        view->loaded = FORMAT_FP32;
        view->loaded_source =
            by_files ? "an assumption, as the model's files are not available"
                     : "transformers 4 loads float32";
    }
}

static enum format find_trained(struct view *view)
{
    const struct rule_context *context = view->context;
    bool lora = context->plan->method == METHOD_LORA;

    if (view->request->pure_bf16) {
        view->trained_source = "pure_bf16";
        return FORMAT_BF16;
    }
    view->trained_source = view->factory     ? "LLaMA-Factory casts them"
                           : view->deepspeed ? "DeepSpeed keeps float32 copies"
                                             : NULL;
    if (view->trained_source)
        return FORMAT_FP32;
    if (view->fsdp && view->amp != FORMAT_FP32 &&
        !rule_version_below(context, PACKAGE_ACCELERATE, "0.30")) {
        view->trained_source = "Accelerate casts them for FSDP";
        return FORMAT_FP32;
    }
    if (lora && !rule_version_below(context, PACKAGE_PEFT, "0.12") &&
        rule_casts_adapters(context)) {
        view->trained_source = versions_know(context->versions, PACKAGE_PEFT)
                                   ? "PEFT casts adapters"
                                   : "PEFT casts adapters since 0.12";
        return FORMAT_FP32;
    }
    view->trained_source =
        lora ? "adapters have the format of the base model" : view->loaded_source;
    return view->loaded;
}

static enum mode find_mode(const struct view *view, enum format trained)
{
    if (trained == FORMAT_BF16)
        return MODE_BF16_PURE;
    if (view->amp == FORMAT_FP16)
        return MODE_FP16_MIXED;
    if (view->amp == FORMAT_BF16)
        return MODE_BF16_MIXED;
    if (trained == FORMAT_FP16)
        return MODE_FP16_PURE;
    return view->request->tf32 == CHOICE_YES && view->context->device &&
                   device_has_tf32(view->context->device)
               ? MODE_TF32
               : MODE_FP32;
}

static void write_message(const struct view *view, struct precision *out)
{
    int len = view->amp == FORMAT_FP32
                  ? snprintf(out->message, sizeof(out->message), "no autocast, as %s",
                             view->amp_source)
                  : snprintf(out->message, sizeof(out->message), "%s autocast by %s",
                             format_dtype(view->amp), view->amp_source);
    size_t room = sizeof(out->message) - (size_t)len;

    if (out->trainable == FORMAT_FP16 && view->amp == FORMAT_FP16 && !view->fsdp)
        snprintf(out->message + len, room,
                 "; trained weights would be float16 (%s), which the scaler refuses",
                 view->trained_source);
    else
        snprintf(out->message + len, room, "; trained weights %s: %s%s",
                 format_dtype(out->trainable), view->trained_source,
                 rule_is_set(view->context, "quantization_bit")
                     ? "; the base model is stored in quantization_bit bits"
                 : rule_trains_all(view->context)
                     ? "; all of them, as no key configures adapters"
                     : "");
}

static const char *program_text(const struct view *view)
{
    const struct rule_context *context = view->context;
    const char *text = view->factory ? "LLaMA-Factory" : "another program",
               *versions = "";

    for (size_t i = 0; i < PACKAGES; i++) {
        const struct package_version *known = &context->versions->packages[i];

        if (versions_know(context->versions, (enum package)i))
            versions = arena_printf(context->arena, "%s%s%s %s", versions,
                                    *versions ? ", " : "", package_names[i],
                                    known->given ? known->given : known->found);
    }
    return *versions ? arena_printf(context->arena, "%s, with %s", text, versions) : text;
}

void external_decide(const struct rule_context *context, struct plan *plan)
{
    struct precision *out = &plan->precision;
    struct view view = { .context = context,
                         .request = &plan->request,
                         .factory = rule_is_llamafactory(context),
                         .deepspeed = rule_is_set(context, "deepspeed"),
                         .fsdp = rule_is_set(context, "fsdp") };

    find_amp(&view);
    find_loaded(&view);
    *out = (struct precision) {
        .trainable = find_trained(&view),
        .has_frozen = plan->request.has_frozen,
        .frozen = view.loaded,
        .scaling = view.amp == FORMAT_FP16 ? SCALING_DYNAMIC : SCALING_NONE,
        .loss_scale = view.amp == FORMAT_FP16 ? SCALER_START : 1,
        .max_grad_norm = plan->request.max_grad_norm,
        .fp8 = plan->request.fp8 && view.amp == FORMAT_BF16,
    };
    out->mode = find_mode(&view, out->trainable);
    out->compute = view.amp != FORMAT_FP32  ? view.amp
                   : out->mode == MODE_TF32 ? FORMAT_TF32
                                            : view.loaded;
    write_message(&view, out);
    plan->program = program_text(&view);
}

/* Off unless the job asks for them; only LLaMA-Factory has them on by default. */
void external_defaults(const struct rule_context *context, struct plan *plan)
{
    if (rule_is_llamafactory(context))
        return;
    if (!rule_entry(context, "gradient_checkpointing") &&
        !rule_entry(context, "disable_gradient_checkpointing"))
        plan->gradient_checkpointing = false;
    if (rule_trains_all(context)) {
        plan->method = METHOD_FULL;
        plan->request.all_trainable = true;
        plan->request.has_frozen = false;
    }
}
