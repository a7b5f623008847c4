/* patcher/rules/rules_unsupported.c - TS707: known settings that are not supported. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/size.h"
#include "base/nearest.h"
#include "patcher/rules/teacher.h"
#include "patcher/schema/schema.h"
#include "patcher/schema/schema_value.h"
#include "train/chat/template.h"
#include "train/model/lora.h"
#include "train/model/model_gguf.h"

static void refuse(struct rule_context *context, const char *key, const char *message,
                   const char *note)
{
    rule_report(context,
                &(struct finding) { .rule = "TS707",
                                    .severity = SEVERITY_ERROR,
                                    .message = message,
                                    .note = note },
                key);
}

/* Return the value of a key; "" without one. */
static const char *value_of(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    const struct node *value = entry ? node_value(entry->value) : NULL;

    return value && value->kind == NODE_SCALAR ? value->text : "";
}

static void refuse_quantization_type(struct rule_context *context)
{
    const char *method = value_of(context, "quantization_method");

    if (context->plan->quantization_bit != 4)
        refuse(context, "quantization_bit",
               arena_printf(context->arena, "quantization_bit must be 4, not %" PRId64,
                            context->plan->quantization_bit),
               "set quantization_bit: 4, or remove it");
    if (*method && strcmp(method, "bnb") != 0 && strcmp(method, "bitsandbytes") != 0)
        refuse(context, "quantization_method",
               "quantization_method must be bnb: only the format of bitsandbytes is "
               "supported",
               "set quantization_method: bnb, or remove it");
    if (strcmp(value_of(context, "quantization_type"), "fp4") == 0)
        refuse(context, "quantization_type", "quantization_type must be nf4, not fp4",
               "set quantization_type: nf4, or remove it");
}

static void report_ignored(struct rule_context *context, const char *key,
                           const char *message)
{
    if (rule_entry(context, key))
        rule_report(context,
                    &(struct finding) { .rule = "TS707",
                                        .severity = SEVERITY_WARNING,
                                        .because = "quantization_config of the model",
                                        .message = message,
                                        .note = "the files decide, as in transformers: "
                                                "remove the key" },
                    key);
}

/* LLaMA-Factory warns of quantization_bit, and ignores the others, too. */
static void report_ignored_next_to(struct rule_context *context, const char *format)
{
    static const char *const keys[] = { "quantization_bit", "quantization_method",
                                        "quantization_type", "double_quantization" };
    const char *message =
        arena_printf(context->arena, "the files of the model are in %s, with %u bits",
                     format, quantized_config_bits(&context->model->quantized));

    for (size_t i = 0; i < TS_COUNT(keys); i++)
        if (strcasecmp(value_of(context, keys[i]), format) != 0)
            report_ignored(context, keys[i], message);
}

/* Report settings that contradict the files. */
static void report_differences(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    bool twice = context->model->quantized.double_quant;
    const char *method = value_of(context, "quantization_method");

    if (context->model->quantized.by != QUANTIZER_BITSANDBYTES) {
        report_ignored_next_to(context, quantizer_name(context->model->quantized.by));
        return;
    }
    if (plan->quantization_bit != 4)
        report_ignored(context, "quantization_bit", "the files of the model are 4-bit");
    if (*method && strcmp(method, "bnb") != 0 && strcmp(method, "bitsandbytes") != 0)
        report_ignored(context, "quantization_method",
                       "the files of the model are in the 4-bit format of bitsandbytes");
    if (strcmp(value_of(context, "quantization_type"), "fp4") == 0)
        report_ignored(context, "quantization_type", "the files of the model are nf4");
    if (plan->double_quantization != twice)
        report_ignored(
            context, "double_quantization",
            twice ? "the files of the model store the scales of their blocks in 8 bits"
                  : "the files of the model store the scales of their blocks in 32 bits");
}

/* Quantized weights without an original cannot be trained or merged into; LLaMA-Factory
 * rejects the same (model/adapter.py, train/tuner.py). */
static void refuse_for_quantized_files(struct rule_context *context)
{
    static const char other[] = "name the 16-bit model it was made from";
    const struct plan *plan = context->plan;

    report_differences(context);
    if (!plan_adapts(plan))
        refuse(context,
               rule_entry(context, "finetuning_type") ? "finetuning_type"
                                                      : "model_name_or_path",
               "the files of the model are quantized, and such weights cannot be trained",
               arena_printf(context->arena, "set finetuning_type: lora, or %s", other));
    else if (plan->create_new_adapter && plan->adapter_name_or_path)
        refuse(context, "create_new_adapter",
               "cannot merge an adapter into a model whose files are quantized",
               arena_printf(context->arena, "continue with that adapter, or %s", other));
    if (plan->export_dir)
        refuse(context, "export_dir",
               "cannot merge an adapter into a model whose files are quantized",
               "remove it, and merge the adapter into the 16-bit model it was made from");
}

/* LLaMA-Factory, hparams/parser.py: _verify_model_args. */
static void refuse_quantization(struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (rule_model_is_prequantized(context)) {
        refuse_for_quantized_files(context);
        return;
    }
    if (plan->quantization_bit == 0)
        return;
    refuse_quantization_type(context);
    if (!plan_adapts(plan))
        refuse(context, "quantization_bit",
               "trained weights cannot be quantized: quantization_bit requires "
               "finetuning_type: lora",
               "remove it, or train with lora");
    else if (plan->create_new_adapter && plan->adapter_name_or_path)
        refuse(context, "create_new_adapter",
               "cannot merge an adapter into a quantized model",
               "continue with that adapter, or merge it first: a job without "
               "quantization_bit, with export_dir");
}

static void refuse_preference(struct rule_context *context)
{
    double weight;

    if (context->plan->stage != STAGE_DPO)
        return;
    if (rule_number(context, "pref_bco_weight", &weight) && weight > 0)
        refuse(context, "pref_bco_weight",
               "the binary classifier loss (pref_bco_weight) is not supported",
               "remove it, or set it to 0");
    if (rule_entry(context, "ld_alpha"))
        refuse(
            context, "ld_alpha",
            "a separate weight for the extra length of the longer answer (ld_alpha) is "
            "not supported",
            "remove it");
}

/* Return whether training continues from an adapter with modules that are trained in full. */
static bool continues_saved(const struct rule_context *context)
{
    const struct plan *plan = context->plan;
    struct error ignored = { 0 };
    struct lora lora;

    if (!plan->adapter_name_or_path || plan->create_new_adapter || !context->model ||
        !lora_read(plan, context->model, &lora, &ignored))
        return false;
    for (size_t i = 0; i < MODULES; i++)
        if (lora.saved[i])
            return true;
    return false;
}

static const char *growth_key(const struct plan *plan)
{
    return plan->add_tokens           ? "add_tokens"
           : plan->add_special_tokens ? "add_special_tokens"
                                      : "resize_vocab";
}

static void refuse_saved(struct rule_context *context)
{
    static const char message[] =
        "the reference is the model without its adapter, but modules that are trained in "
        "full next to the adapter have no original copy";

    if (ref_model_of(context->plan) != REF_MODEL_BASE)
        return;
    if (context->plan->additional_target)
        refuse(context, "additional_target", message,
               "remove it, or name the model as ref_model, which is then loaded a second "
               "time");
    else if (continues_saved(context))
        refuse(context, "adapter_name_or_path", message,
               "name the model as ref_model, which is then loaded a second time, or set "
               "create_new_adapter: true");
    else if (plan_grows_vocabulary(context->plan)) /* lora_read: trains the embeddings */
        refuse(context, growth_key(context->plan), message,
               "remove it; to prefer with new tokens, train them with stage: sft first, "
               "merge that adapter (export_dir), and name the merged model");
}

static void refuse_several_adapters(struct rule_context *context)
{
    static const struct {
        const char *key, *message;
    } of[] = {
        { "adapter_name_or_path", "training can continue from only one adapter" },
        { "teacher_adapter_name_or_path", "only one adapter can be merged into the "
                                          "model" },
        { "ref_model_adapters", "only one adapter can be merged into the model" },
    };

    for (size_t i = 0; i < TS_COUNT(of); i++) {
        const struct entry *entry = rule_entry(context, of[i].key);

        if (entry && strchr(node_value(entry->value)->text, ','))
            rule_report(context,
                        &(struct finding) { .rule = "TS707",
                                            .severity = SEVERITY_ERROR,
                                            .message = of[i].message },
                        of[i].key);
    }
}

/* LLaMA-Factory's DataArguments rejects them, too. */
static void refuse_opposite_masks(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const struct entry *prompt = rule_entry(context, "train_on_prompt"),
                       *history = rule_entry(context, "mask_history");
    bool later = prompt && history && prompt->key->at.byte > history->key->at.byte;

    if (plan->train_on_prompt && plan->mask_history)
        rule_report(context,
                    &(struct finding) { .rule = "TS707",
                                        .severity = SEVERITY_ERROR,
                                        .message = "train_on_prompt also trains on the "
                                                   "questions, but mask_history only on "
                                                   "the last answer: they contradict "
                                                   "each other",
                                        .note = "keep one of the two" },
                    later ? "train_on_prompt" : "mask_history");
}

/* External jobs are checked and patched, but not trained. */
static void refuse_external(struct rule_context *context)
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
            .message = context->document->script
                           ? "this is a Python script: trainspool checks and patches it, "
                             "and Python runs it"
                           : "target: external is a job of another program: trainspool "
                             "checks and patches it, and that program trains it",
            .note = context->document->script
                        ? "trainspool import makes a job of it, which trains here"
                        : "start that program yourself, or set target: native to train "
                          "with trainspool" },
        block ? node_find(node_value(block->value), "target") : NULL);
}

/* llama-3 means llama3, and chatmll means chatml; llama4 does not mean llama3. */
static bool is_similar(const char *written, const char *name)
{
    const char *digits = "0123456789";
    const char *a = written + strcspn(written, digits);
    const char *b = name + strcspn(name, digits);

    return nearest_is_same_name(written, name) ||
           (nearest_distance(written, name, 1) <= 1 && strcmp(a, b) == 0);
}

/* Report a template name that training does not know. */
static void check_template_name(struct rule_context *context)
{
    const char *wanted = context->plan->template_name, *names = "", *name, *near = NULL;

    if (!wanted || context->plan->external || template_find(wanted))
        return;
    for (size_t i = 0; (name = template_name(i)); i++) {
        names = arena_printf(context->arena, "%s%s%s", names, i > 0 ? ", " : "", name);
        if (!near && is_similar(wanted, name))
            near = name;
    }
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS707",
            .severity = SEVERITY_ERROR,
            .message = arena_printf(context->arena, "there is no template %s%s%s%s",
                                    rule_printable(context, wanted),
                                    near ? "; did you mean " : "", near ? near : "",
                                    near ? "?" : ""),
            .note = arena_printf(context->arena, "available templates: %s", names) },
        "template");
}

static void refuse_evaluation(struct rule_context *context, const char *key,
                              const char *message, const char *note)
{
    rule_report(context,
                &(struct finding) { .rule = "TS707",
                                    .severity = SEVERITY_ERROR,
                                    .message = message,
                                    .note = note },
                key);
}

/* Evaluations without training that are not supported.  LLaMA-Factory, too, refuses
 * do_predict without generation (hparams/parser.py), and predicts only in stage sft. */
static void refuse_only_evaluates(struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (plan->stage == STAGE_GRPO)
        refuse_evaluation(context,
                          rule_entry(context, "do_train") ? "do_train" : "do_predict",
                          "a job in stage grpo cannot only evaluate",
                          "set stage: sft with predict_with_generate: true to answer "
                          "questions, or train with eval_strategy");
    else if (plan_prefers(plan) && plan->stage != STAGE_RM)
        refuse_evaluation(context,
                          rule_entry(context, "do_train") ? "do_train" : "do_predict",
                          plan->stage == STAGE_KTO
                              ? "a job in stage kto cannot only evaluate: its rewards "
                                "compare the model with itself before training"
                              : "a job in stage dpo cannot only evaluate: its rewards "
                                "compare the model with itself before training",
                          "set stage: sft to evaluate the model on chosen answers, or "
                          "train with eval_strategy");
    else if (plan->do_predict && plan->stage == STAGE_PT)
        refuse_evaluation(context, "do_predict",
                          "do_predict answers prompts, and plain text (stage: pt) has "
                          "none",
                          "set stage: sft, or do_eval: true instead of do_predict");
    else if (plan->do_predict && !plan->predict_with_generate && plan->stage != STAGE_RM)
        refuse_evaluation(context, "do_predict",
                          "do_predict generates answers, which requires "
                          "predict_with_generate: true",
                          "set predict_with_generate: true, as LLaMA-Factory requires");
}

/* A job that asks for no training and for nothing else. */
static void refuse_no_training(struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (plan_only_evaluates(plan))
        refuse_only_evaluates(context);
    else if (plan->do_train == CHOICE_NO && !plan_merges(plan))
        refuse_evaluation(context, "do_train",
                          "do_train: false turns training off, and the job asks for "
                          "nothing else",
                          "to evaluate the model, set do_eval: true or do_predict: true; "
                          "to merge an adapter, set export_dir and remove dataset; to "
                          "train, set do_train: true or remove the line");
}

/* A file for llama.cpp, which does not compute every model. */
static void refuse_gguf(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    struct error why = { 0 };

    if (plan->export_gguf == EXPORT_GGUF_NONE)
        return;
    if (!plan->export_dir)
        refuse(context, "export_gguf",
               "export_gguf requires export_dir, the folder that it writes to",
               "set export_dir, or remove export_gguf");
    else if (context->model &&
             !model_gguf_check(context->model, plan->model_name_or_path, &why))
        refuse(context, "export_gguf", arena_strdup(context->arena, why.text),
               "remove it: export_dir alone writes the model's own format");
}

static void rule_unsupported(struct rule_context *context)
{
    refuse_external(context);
    if (!context->plan->external) {
        refuse_no_training(context);
        refuse_several_adapters(context);
        refuse_opposite_masks(context);
        refuse_quantization(context);
        refuse_preference(context);
        refuse_saved(context);
        refuse_gguf(context);
    }
    check_template_name(context);
}

static const struct rule rows[] = {
    { .id = "TS707",
      .title = "known setting that is not supported",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_unsupported,
      .explain =
          "The key belongs to LLaMA-Factory or Hugging Face and turns on something that "
          "trainspool does not support. Ignoring it would train something other than "
          "what the job says. If it is off, empty or at its default, it does no harm "
          "(TS708).\n\n"
          "In stage dpo, pref_bco_weight and ld_alpha are not supported. In stages dpo, "
          "kto and grpo, neither is additional_target, a vocabulary that grows "
          "(resize_vocab, add_tokens), or an adapter in adapter_name_or_path with "
          "modules_to_save, if the reference is the model without its adapter: modules "
          "that are trained in full next to the adapter have no original copy left.\n\n"
          "do_train: false turns training off, and so does do_predict without do_train: "
          "true: such a job evaluates (do_eval, do_predict) or merges an adapter, and "
          "one that asks for neither is an error. do_predict requires "
          "predict_with_generate and prompts, and stage dpo cannot only evaluate. A job "
          "without either key is trained. train_on_prompt and mask_history contradict each "
          "other; keep one.\n\n"
          "Quantized models are supported in the 4-bit format of bitsandbytes (nf4) with "
          "lora. Not supported: other bit counts, other methods, fp4, quantization_bit "
          "with trained weights, and merging an adapter into a quantized model "
          "(create_new_adapter), which LLaMA-Factory rejects, too.\n\n"
          "export_gguf requires export_dir, and a model and a tokenizer that llama.cpp "
          "computes alike.\n\n"
          "A base model whose files are already quantized (quantization_config in its "
          "config.json, as in folders named ...-bnb-4bit, ...-GPTQ-Int4 or ...-AWQ) needs "
          "no quantization_bit and "
          "supports lora only: neither finetuning_type: full or freeze nor "
          "create_new_adapter or export_dir. A setting that contradicts the files, such "
          "as another quantization_bit, is a warning: the files decide, as in "
          "transformers.",
      .source = "trainspool-job(5)" },
};

const struct rules rules_unsupported = { rows, TS_COUNT(rows) };
