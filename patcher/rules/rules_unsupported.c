/* patcher/rules/rules_unsupported.c - TS707: known settings that are not supported. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <inttypes.h>
#include <string.h>

#include "base/size.h"
#include "base/nearest.h"
#include "patcher/rules/teacher.h"
#include "patcher/schema/schema.h"
#include "patcher/schema/schema_value.h"
#include "train/chat/template.h"

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

/* The word under a key; "" without one. */
static const char *word(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    const struct node *value = entry ? node_value(entry->value) : NULL;

    return value && value->kind == NODE_SCALAR ? value->text : "";
}

static void refuse_kind(struct rule_context *context)
{
    const char *method = word(context, "quantization_method");

    if (context->plan->quantization_bit != 4)
        refuse(context, "quantization_bit",
               arena_printf(context->arena,
                            "weights in %" PRId64 " bits are not done here, only in 4",
                            context->plan->quantization_bit),
               "write quantization_bit: 4, or take it out");
    if (*method && strcmp(method, "bnb") != 0 && strcmp(method, "bitsandbytes") != 0)
        refuse(context, "quantization_method",
               "weights are quantised here as bitsandbytes does it, and no other way",
               "write quantization_method: bnb, or take it out");
    if (strcmp(word(context, "quantization_type"), "fp4") == 0)
        refuse(context, "quantization_type",
               "weights of 4 bits are nf4 here, and not fp4",
               "write quantization_type: nf4, or take it out");
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
                                        .note =
                                            "the files decide, as in transformers: take "
                                            "it out" },
                    key);
}

/* What the job says otherwise. */
static void report_differences(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    bool twice = context->model->quantised.twice;
    const char *method = word(context, "quantization_method");

    if (plan->quantization_bit != 4)
        report_ignored(context, "quantization_bit",
                       "the files of the model have its weights in 4 bits");
    if (*method && strcmp(method, "bnb") != 0 && strcmp(method, "bitsandbytes") != 0)
        report_ignored(context, "quantization_method",
                       "the files of the model have 4 bits of bitsandbytes");
    if (strcmp(word(context, "quantization_type"), "fp4") == 0)
        report_ignored(context, "quantization_type", "the files of the model have nf4");
    if (plan->double_quantization != twice)
        report_ignored(
            context, "double_quantization",
            twice ? "the files of the model have the scales of their blocks in 8 bits"
                  : "the files of the model have the scales of their blocks in 32 bits");
}

/* Nothing is trained or merged into what is there in 4 bits alone; LLaMA-Factory refuses
 * the same (model/adapter.py, train/tuner.py). */
static void unsupported_for_4bit_files(struct rule_context *context)
{
    static const char other[] = "name the model it was made from, in 16 bits";
    const struct plan *plan = context->plan;

    report_differences(context);
    if (plan->method != METHOD_LORA)
        refuse(
            context,
            rule_entry(context, "finetuning_type") ? "finetuning_type"
                                                   : "model_name_or_path",
            "the files of the model have its weights in 4 bits, and such are not trained",
            arena_printf(context->arena, "write finetuning_type: lora, or %s", other));
    else if (plan->create_new_adapter && plan->adapter_name_or_path)
        refuse(context, "create_new_adapter",
               "an adapter is not merged into a model whose files have 4 bits",
               arena_printf(context->arena, "go on with that adapter, or %s", other));
    if (plan->export_dir)
        refuse(
            context, "export_dir",
            "an adapter is not merged into a model whose files have 4 bits",
            "take it out, and merge the adapter into the model it was made from, in 16 "
            "bits");
}

/* LLaMA-Factory, hparams/parser.py: _verify_model_args. */
static void unsupported_quantization(struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (rule_model_is_4bit(context)) {
        unsupported_for_4bit_files(context);
        return;
    }
    if (plan->quantization_bit == 0)
        return;
    refuse_kind(context);
    if (plan->method != METHOD_LORA)
        refuse(context, "quantization_bit",
               "weights that are trained are not quantised: quantization_bit goes with "
               "finetuning_type: lora alone",
               "take it out, or train with lora");
    else if (plan->create_new_adapter && plan->adapter_name_or_path)
        refuse(context, "create_new_adapter",
               "an adapter is not merged into a quantised model",
               "go on with that adapter, or merge it first: a job without "
               "quantization_bit, with export_dir");
}

static void unsupported_preference(struct rule_context *context)
{
    double weight;

    if (context->plan->stage != STAGE_DPO)
        return;
    if (rule_number(context, "pref_bco_weight", &weight) && weight > 0)
        refuse(context, "pref_bco_weight",
               "the loss of a binary classifier (pref_bco_weight) is not done here",
               "leave it out, or 0");
    if (rule_entry(context, "ld_alpha"))
        refuse(
            context, "ld_alpha",
            "another weight for what the longer answer has more (ld_alpha) is not done "
            "here",
            "leave it out");
    if (context->plan->additional_target && ref_model_of(context->plan) == REF_MODEL_BASE)
        refuse(
            context, "additional_target",
            "the reference is the model without its adapter, and of modules that are "
            "trained whole beside it there is no original",
            "leave it out, or name the model as ref_model, which is then read a second "
            "time");
}

static void several_adapters(struct rule_context *context)
{
    static const struct {
        const char *key, *message;
    } of[] = {
        { "adapter_name_or_path", "only one adapter can be started from" },
        { "teacher_adapter_name_or_path", "only one adapter can be merged into it" },
        { "ref_model_adapters", "only one adapter can be merged into it" },
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

/* LLaMA-Factory's DataArguments refuses them, too. */
static void opposites(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const struct entry *prompt = rule_entry(context, "train_on_prompt"),
                       *history = rule_entry(context, "mask_history");
    bool later = prompt && history && prompt->key->at.byte > history->key->at.byte;

    if (plan->train_on_prompt && plan->mask_history)
        rule_report(context,
                    &(struct finding) { .rule = "TS707",
                                        .severity = SEVERITY_ERROR,
                                        .message = "train_on_prompt trains on the "
                                                   "questions, too, and mask_history on "
                                                   "the last answer alone: they are "
                                                   "opposites",
                                        .note = "keep one of the two" },
                    later ? "train_on_prompt" : "mask_history");
}

/* What another program trains is looked at and mended here, and no more. */
static void external_not_trained(struct rule_context *context)
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
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS707",
            .severity = context->options->will_run ? SEVERITY_ERROR : SEVERITY_WARNING,
            .message = arena_printf(context->arena, "there is no template %s here%s%s%s",
                                    rule_printable(context, wanted),
                                    near ? "; did you mean " : "", near ? near : "",
                                    near ? "?" : ""),
            .note = arena_printf(context->arena, "there are %s", names) },
        "template");
}

/* A job that says it trains nothing, or only that it answers: in LLaMA-Factory, whose
 * default is do_train: false, that is another run.  (do_eval alone is what jobs of scripts
 * have that train whatever do_train says.) */
static void no_training_requested(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    bool says_no = plan->do_train == CHOICE_NO;

    if (plan->do_train == CHOICE_YES || plan_merges(plan) ||
        (!says_no && !rule_is_true(context, "do_predict")))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS707",
            .severity = SEVERITY_ERROR,
            .message = says_no
                           ? "do_train: false asks for no training, and a run here is one"
                           : "do_predict without do_train: true asks for answers alone, "
                             "and a run here trains",
            .note = "trainspool generate asks a model; a job with export_dir and an "
                    "adapter, and without dataset, merges; do_train: true, or no such "
                    "line, trains" },
        says_no ? "do_train" : "do_predict");
}

static void rule_unsupported(struct rule_context *context)
{
    external_not_trained(context);
    if (!context->plan->external) {
        no_training_requested(context);
        several_adapters(context);
        opposites(context);
        unsupported_quantization(context);
        unsupported_preference(context);
    }
    unknown_template(context);
}

static const struct rule rows[] = {
    { .id = "TS707",
      .title = "a known key that is not done here",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_unsupported,
      .explain =
          "The key is LLaMA-Factory's or Hugging Face's and switches something on that "
          "this program does not do. Silence would train another job than the one "
          "written. Off, empty or at its preset it does no harm (TS708).\n\n"
          "Of stage dpo pref_bco_weight and ld_alpha are not done, nor "
          "additional_target where the reference is the model without its adapter: of "
          "modules trained whole beside it there is no original left.\n\n"
          "do_train: false asks for no training at all, as do_predict does without "
          "do_train: true: LLaMA-Factory's run is then another one. Without either a "
          "job is trained. train_on_prompt and mask_history are opposites, of which one "
          "is done.\n\n"
          "Of quantised models there are those of bitsandbytes in 4 bits (nf4) under "
          "lora: other bits, methods and fp4 are not done, nor is quantization_bit "
          "where the weights are trained, or an adapter would be merged into it "
          "(create_new_adapter), which LLaMA-Factory refuses, too.\n\n"
          "A base whose files have 4 bits already (quantization_config in its "
          "config.json, as in folders named ...-bnb-4bit) has them without "
          "quantization_bit, and goes with lora alone: neither finetuning_type: full or "
          "freeze nor create_new_adapter or export_dir. A warning is what the job says "
          "otherwise, as another quantization_bit: the files decide, as in transformers.",
      .source = "trainspool-job(5)" },
};

const struct rules rules_unsupported = { rows, TS_COUNT(rows) };
