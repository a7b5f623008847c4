/* patcher/rules/rules_methods.c - keys without effect: those of a method, stage or
 * schedule that the job does not use, and trackers that receive nothing. */
#include "config.h"

#include "patcher/rules/optimizer_keys.h"
#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"
#include "patcher/schema/schema_value.h"
#include "train/model/model_config.h"

#define GROUP_KEYS 20

enum basis { BY_METHOD, BY_ADAPTERS, BY_STAGE, BY_BITS, BY_TOWERS };

static const struct group {
    const char *needs; /* "finetuning_type: lora" */
    const char *key;   /* that selects something else */
    /* values of external programs that use the keys too; or NULL */
    const char *others;
    enum method method;
    enum stage stage;
    enum basis basis; /* what decides */
    const char *keys[GROUP_KEYS];
} groups[] = {
    { .needs = "finetuning_type: lora",
      .key = "finetuning_type",
      .method = METHOD_LORA,
      .keys = { "lora_rank", "lora_alpha", "lora_dropout", "use_rslora", "use_dora",
                "pissa_init", "loraplus_lr_ratio", "lora_target_parameters" } },
    { .needs = "finetuning_type: oft",
      .key = "finetuning_type",
      .method = METHOD_OFT,
      .keys = { "oft_rank", "oft_block_size", "oft_target" } },
    { .needs = "finetuning_type: lora or oft",
      .key = "finetuning_type",
      .basis = BY_ADAPTERS,
      .keys = { "lora_target", "additional_target", "create_new_adapter" } },
    { .needs = "finetuning_type: freeze",
      .key = "finetuning_type",
      .method = METHOD_FREEZE,
      .keys = { "freeze_trainable_layers", "freeze_trainable_modules" } },
    { .needs = "stage: distill",
      .key = "stage",
      .basis = BY_STAGE,
      .stage = STAGE_DISTILL,
      .keys = { "teacher_model_name_or_path", "teacher_adapter_name_or_path", "kd_ratio",
                "kd_temperature", "kd_beta", "kd_topk" } },
    { .needs = "stage: dpo",
      .key = "stage",
      .others = "ppo kto orpo",
      .basis = BY_STAGE,
      .stage = STAGE_DPO,
      .keys = { "pref_loss", "pref_bco_weight", "ld_alpha", "dpo_label_smoothing",
                "simpo_gamma" } },
    { .needs = "stage: dpo or kto",
      .key = "stage",
      .others = "ppo kto orpo",
      .basis = BY_STAGE,
      .stage = STAGE_DPO,
      .keys = { "pref_beta", "pref_ftx", "ref_model", "ref_model_adapters" } },
    { .needs = "stage: kto",
      .key = "stage",
      .basis = BY_STAGE,
      .stage = STAGE_KTO,
      .keys = { "kto_chosen_weight", "kto_rejected_weight" } },
    { .needs = "stage: rm",
      .key = "stage",
      .basis = BY_STAGE,
      .stage = STAGE_RM,
      .keys = { "center_rewards_coefficient" } },
    { .needs = "stage: sft",
      .key = "stage",
      .basis = BY_STAGE,
      .stage = STAGE_SFT,
      .keys = { "use_dft_loss", "use_eaft_loss", "eaft_alpha", "use_asft_loss",
                "asft_alpha" } },
    { .needs = "stage: grpo",
      .key = "stage",
      .others = "ppo kto orpo",
      .basis = BY_STAGE,
      .stage = STAGE_GRPO,
      .keys = { "reward_funcs", "reward_weights", "num_generations",
                "max_completion_length", "num_iterations", "steps_per_generation",
                "use_bias_correction_kl", "loss_type", "beta", "epsilon", "epsilon_high",
                "delta", "importance_sampling_level", "scale_rewards",
                "multi_objective_aggregation", "mask_truncated_completions" } },
    { .needs = "quantization_bit",
      .key = "quantization_bit",
      .basis = BY_BITS,
      .keys = { "quantization_method", "quantization_type", "double_quantization" } },
    { .needs = "a model that reads images or sound",
      .key = "model_name_or_path",
      .basis = BY_TOWERS,
      .keys = { "media_dir", "image_max_pixels", "image_min_pixels", "crop_to_patches",
                "audio_sampling_rate" } },
};

static bool is_used(const struct rule_context *context, const struct group *group)
{
    const struct plan *plan = context->plan;

    switch (group->basis) {
    case BY_STAGE: /* use_asft_loss makes stage sft a distillation; for GRPO and for reward
                    * models, TRL's script decides, not a key */
        return (plan->anchor > 0 ? STAGE_SFT : plan->stage) == group->stage ||
               (group->stage >= STAGE_GRPO && plan->external);
    case BY_BITS:
        return plan->quantization_bit != 0 || rule_model_is_prequantized(context);
    case BY_ADAPTERS:
        return plan_adapts(plan);
    case BY_TOWERS: /* not known without the model's files */
        return plan->external || !context->model || context->model->multimodal;
    case BY_METHOD:
        break;
    }
    return plan->method == group->method;
}

/* Return the entry of a key that is neither empty nor false. */
static const struct entry *find_enabled(const struct rule_context *context,
                                        const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    bool on = true;

    return entry && (scalar_bool(entry->value, &on) == SCALAR_WRONG || on) ? entry : NULL;
}

/* Return the value that selects the method: from the job, or the default. */
static const char *selected_value(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    const char *default_value = schema_find(key)->default_value;

    return entry           ? node_value(entry->value)->text
           : default_value ? default_value
                           : "none";
}

/* Return whether another rule covers the key: a reference model is not only that of stage
 * dpo, and TS916 reports beta where pref_beta has its meaning. */
static bool is_of_both(const struct rule_context *context, const char *key)
{
    if (plan_prefers(context->plan) && strcmp(key, "beta") == 0)
        return true;
    return (context->plan->stage == STAGE_GRPO || context->plan->anchor > 0) &&
           strncmp(key, "ref_model", 9) == 0;
}

static void report_group(struct rule_context *context, const struct group *group)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *first = NULL;
    const char *names = "";
    size_t count = 0;

    for (size_t i = 0; i < GROUP_KEYS && group->keys[i]; i++) {
        const struct entry *entry = find_enabled(context, group->keys[i]);

        if (!entry || is_of_both(context, group->keys[i]) ||
            (group->basis == BY_TOWERS && !rule_is_set(context, group->keys[i])))
            continue;
        names = arena_printf(context->arena, "%s%s%s", names, count++ ? ", " : "",
                             group->keys[i]);
        if (!first || entry->key->at.byte < first->key->at.byte)
            first = entry;
    }
    if (!first)
        return;
    propose_key_remark(&to,
                       &(struct finding) {
                           .rule = "TS712",
                           .severity = SEVERITY_INFO,
                           .message = arena_printf(
                               context->arena, "%s %s to %s and %s no effect with %s: %s",
                               names, count == 1 ? "belongs" : "belong", group->needs,
                               count == 1 ? "has" : "have", group->key,
                               selected_value(context, group->key)) },
                       first);
}

/* Return whether the value is known; the schema reports other values. */
static bool is_known(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    struct value value;

    if (!entry)
        return true;
    value = value_read(schema_find(key), entry->value, context->arena);
    return value.state == VALUE_GOOD || value.state == VALUE_REFUSED;
}

#define PLATEAU      "reduce_lr_on_plateau greedy"
#define PLATEAU_LINE "lr_scheduler_type: reduce_lr_on_plateau"

/* transformers/optimization.py */
static const struct argument {
    const char *name, *schedules; /* separated by spaces */
    const char *instead;          /* a schedule that accepts it; or NULL */
} arguments[] = {
    { "min_lr",
      "cosine_with_min_lr cosine_warmup_with_min_lr reduce_lr_on_plateau greedy",
      "lr_scheduler_type: cosine_with_min_lr" },
    { "min_lr_rate", "cosine_with_min_lr cosine_warmup_with_min_lr",
      "lr_scheduler_type: cosine_with_min_lr" },
    { "min_lr_ratio", "warmup_stable_decay", "lr_scheduler_type: warmup_stable_decay" },
    { "power", "polynomial", "lr_scheduler_type: polynomial" },
    { "lr_end", "polynomial", "lr_scheduler_type: polynomial" },
    { "num_cycles",
      "cosine cosine_with_restarts cosine_with_min_lr cosine_warmup_with_min_lr "
      "warmup_stable_decay",
      NULL },
    { "num_decay_steps", "warmup_stable_decay",
      "lr_scheduler_type: warmup_stable_decay" },
    { "num_stable_steps", "warmup_stable_decay",
      "lr_scheduler_type: warmup_stable_decay" },
    { "decay_type", "warmup_stable_decay", NULL },
    { "warmup_type", "warmup_stable_decay", NULL },
    { "timescale", "inverse_sqrt", NULL },
    { "warmup_lr_rate", "cosine_warmup_with_min_lr", NULL },
    { "factor", PLATEAU, PLATEAU_LINE },
    { "patience", PLATEAU, PLATEAU_LINE },
    { "threshold", PLATEAU, PLATEAU_LINE },
    { "threshold_mode", PLATEAU, PLATEAU_LINE },
    { "mode", PLATEAU, PLATEAU_LINE },
    { "cooldown", PLATEAU, PLATEAU_LINE },
    { "eps", PLATEAU, PLATEAU_LINE },
};

static void report_argument(struct rule_context *context, const struct argument *argument,
                            const struct entry *entry, const char *schedule)
{
    const struct proposal to = rule_proposal(context);

    propose_key_remark(
        &to,
        &(struct finding) {
            .rule = "TS712",
            .severity = context->plan->external ? SEVERITY_ERROR : SEVERITY_WARNING,
            .message =
                arena_printf(context->arena, "the schedule %s does not accept %s: %s",
                             schedule, argument->name,
                             context->plan->external ? "Trainer raises a TypeError"
                                                     : "it has no effect"),
            .note = argument->instead
                        ? arena_printf(context->arena, "use %s, which accepts it",
                                       argument->instead)
                        : NULL },
        entry);
}

static void report_unused_arguments(struct rule_context *context)
{
    const struct entry *kwargs = rule_entry(context, "lr_scheduler_kwargs"), *entry;
    const char *schedule = selected_value(context, "lr_scheduler_type");
    const struct node *map = kwargs ? node_value(kwargs->value) : NULL;

    if (!map || map->kind != NODE_MAP || !is_known(context, "lr_scheduler_type"))
        return;
    for (size_t i = 0; i < TS_COUNT(arguments); i++)
        if ((entry = node_find(map, arguments[i].name)) && !node_is_null(entry->value) &&
            !value_is_listed(arguments[i].schedules, schedule))
            report_argument(context, &arguments[i], entry, schedule);
}

/* Report a member of the block that belongs to another stage. */
static void report_unused_member(struct rule_context *context, const char *key,
                                 const char *stage)
{
    const struct entry *entry = rule_block_entry(context, key);
    const struct proposal to = rule_proposal(context);

    if (entry && is_known(context, "stage"))
        propose_key_remark(
            &to,
            &(struct finding) {
                .rule = "TS712",
                .severity = SEVERITY_INFO,
                .message = arena_printf(context->arena,
                                        "%s belongs to stage: %s and has no effect with "
                                        "stage: %s",
                                        key, stage, selected_value(context, "stage")) },
            entry);
}

static void report_unused_members(struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (plan->kd.logits && plan->stage != STAGE_DISTILL)
        report_unused_member(context, "teacher_logits", "distill");
    if (plan->preference.head != REWARD_HEAD_AUTO && plan->stage != STAGE_RM)
        report_unused_member(context, "reward_head", "rm");
}

static void report_contradiction(struct rule_context *context, const char *key,
                                 const char *required, const char *why)
{
    rule_report(context,
                &(struct finding) {
                    .rule = "TS712",
                    .severity = SEVERITY_ERROR,
                    .message = arena_printf(
                        context->arena, "%s requires finetuning_type: %s, not %s%s", key,
                        required, selected_value(context, "finetuning_type"), why) },
                key);
}

/* Report what ends a run before its first step (train/model/shapes.c). */
static void report_contradictions(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const bool lora = plan_adapts(plan);

    if (!is_known(context, "finetuning_type"))
        return;
    if (!lora && rule_entry(context, "adapter_name_or_path"))
        report_contradiction(context, "adapter_name_or_path", "lora", "");
    if (lora && plan->train_from_scratch && !plan->external)
        report_contradiction(context, "train_from_scratch", "full or freeze",
                             ": the weights are random, so there is nothing to adapt "
                             "yet");
}

static void report_unused_loss(struct rule_context *context, const char *key,
                               const char *message)
{
    if (find_enabled(context, key))
        rule_report(context,
                    &(struct finding) {
                        .rule = "TS712", .severity = SEVERITY_INFO, .message = message },
                    key);
}

/* Losses of a token exclude each other: LLaMA-Factory train/sft/trainer.py. */
static void report_unused_losses(struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (plan->token_loss == TOKEN_LOSS_PLAIN && plan->stage != STAGE_SFT)
        return;
    if (plan->token_loss != TOKEN_LOSS_PLAIN)
        report_unused_loss(context, "label_smoothing_factor",
                           plan->use_dft_loss
                               ? "label_smoothing_factor has no effect with use_dft_loss"
                           : plan->use_eaft_loss
                               ? "label_smoothing_factor has no effect with use_eaft_loss"
                               : "label_smoothing_factor has no effect with "
                                 "use_asft_loss");
    if (plan->use_dft_loss)
        report_unused_loss(context, "use_eaft_loss",
                           "use_eaft_loss has no effect with use_dft_loss");
    else if (!plan->use_eaft_loss)
        report_unused_loss(context, "eaft_alpha",
                           "eaft_alpha belongs to use_eaft_loss, which is off");
    if (plan->use_dft_loss || plan->use_eaft_loss)
        report_unused_loss(context, "use_asft_loss",
                           "use_asft_loss has no effect with use_dft_loss or "
                           "use_eaft_loss");
    else if (!plan->use_asft_loss)
        report_unused_loss(context, "asft_alpha",
                           "asft_alpha belongs to use_asft_loss, which is off");
}

/* Models without experts, and those whose class in transformers computes no such loss. */
static void report_unused_balance(struct rule_context *context)
{
    const struct model_config *model = context->model;

    if (!model || context->plan->external || context->plan->moe_aux_loss_coef == 0 ||
        (model->experts > 0 && !model->architecture->experts.unbalanced))
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS712",
                    .severity = SEVERITY_INFO,
                    .message = arena_printf(
                        context->arena, "moe_aux_loss_coef has no effect: %s",
                        model->experts == 0
                            ? "the model has no experts"
                            : "models of this type have no load balancing loss, here or "
                              "in transformers") },
                "moe_aux_loss_coef");
}

static void rule_unused_method_keys(struct rule_context *context)
{
    for (size_t i = 0; i < TS_COUNT(groups); i++)
        if (!is_used(context, &groups[i]) && is_known(context, groups[i].key) &&
            !value_is_listed(groups[i].others, selected_value(context, groups[i].key)))
            report_group(context, &groups[i]);
    report_unused_arguments(context);
    report_unused_losses(context);
    report_unused_members(context);
    report_unused_balance(context);
    optimizer_keys_check(context);
    report_contradictions(context);
}

/* transformers/integrations/integration_utils.py */
static const char *const trackers[] = {
    "all",     "azure_ml", "clearml", "codecarbon", "comet_ml", "dagshub",
    "dvclive", "flyte",    "mlflow",  "neptune",    "none",     "tensorboard",
    "trackio", "swanlab",  "wandb",   NULL,
};

static const struct key tracker = { .name = "report_to",
                                    .type = KEY_ENUM,
                                    .values = trackers };

/* Return whether the tracker is always written here, or is none. */
static bool is_local(const char *name)
{
    return strcmp(name, "none") == 0 || strcmp(name, "tensorboard") == 0 || *name == 0;
}

static bool is_tracker(const char *name)
{
    for (size_t i = 0; trackers[i]; i++)
        if (strcmp(trackers[i], name) == 0)
            return true;
    return false;
}

static void report_misspelled(struct rule_context *context, const char *name,
                              const char *near)
{
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS705",
            .severity = context->plan->external ? SEVERITY_ERROR : SEVERITY_WARNING,
            .message = arena_printf(context->arena,
                                    "report_to: %s is not a tracker; did you mean %s?",
                                    name, near) },
        "report_to");
}

/* List the trackers except local ones, and report misspelled ones. */
static const char *find_trackers(struct rule_context *context, const struct entry *entry)
{
    struct value value =
        value_read(schema_find("report_to"), entry->value, context->arena);
    const char *at = value.state == VALUE_GOOD ? value.text : "", *copy;
    struct text names;

    text_init(&names, 0);
    while (*at) {
        size_t len = strcspn(at, ", ");
        const char *name = arena_copy(context->arena, at, len);
        const char *near = is_tracker(name) ? NULL : value_nearest(&tracker, name);

        if (near)
            report_misspelled(context, name, near);
        else if (!is_local(name))
            text_addf(&names, "%s%s", names.len > 0 ? ", " : "", name);
        at += len + strspn(at + len, ", ");
    }
    copy = arena_copy(context->arena, names.data, names.len);
    text_clear(&names);
    return copy;
}

static void report_untracked(struct rule_context *context, const char *key,
                             const char *whom)
{
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS711",
            .severity = SEVERITY_INFO,
            .message = arena_printf(
                context->arena,
                "trainspool sends nothing to %s: metrics stay on this machine", whom),
            .note = "see metrics.jsonl, the event files for TensorBoard and "
                    "report.html next to the job" },
        key);
}

static void rule_unused_trackers(struct rule_context *context)
{
    const struct entry *entry = rule_entry(context, "report_to");
    const char *names = entry ? find_trackers(context, entry) : "";

    if (context->plan->external)
        return;
    if (*names)
        report_untracked(context, "report_to",
                         strcmp(names, "all") == 0 ? "trackers" : names);
    if (rule_is_true(context, "use_swanlab"))
        report_untracked(context, "use_swanlab", "swanlab");
}

static const struct rule rows[] = {
    { .id = "TS711",
      .title = "tracker that receives nothing",
      .severity = SEVERITY_INFO,
      .run = rule_unused_trackers,
      .explain =
          "report_to: wandb, use_swanlab and similar keys send metrics over the "
          "network; trainspool never does. All results are next to the job: "
          "metrics.jsonl with one object per logged step, event files for TensorBoard, "
          "and report.html with the curves. `wandb sync` and similar commands can "
          "import the event files later.\n\n"
          "The script of an external job follows report_to, so there only a misspelled "
          "tracker is reported.",
      .source = "transformers integrations/integration_utils.py; LLaMA-Factory "
                "finetuning_args.py: SwanLabArguments" },
    { .id = "TS712",
      .title = "keys of a method that the job does not use",
      .severity = SEVERITY_INFO,
      .run = rule_unused_method_keys,
      .explain =
          "lora_rank in full fine-tuning, freeze_trainable_layers with LoRA, kd_ratio "
          "without stage: distill, pref_beta without stage: dpo: these keys are read "
          "and have no effect. Usually a job was copied and its finetuning_type "
          "changed, or the key was intended and finetuning_type was forgotten: it "
          "defaults to lora, as in LLaMA-Factory. There is one finding per method; "
          "remove the lines, or select the method they belong to.\n\n"
          "An optimizer has such keys, too: adam_beta2 with adafactor, galore_rank without "
          "use_galore, use_muon with LoRA+. moe_aux_loss_coef has no effect on a model "
          "without experts, or whose class in transformers has no load balancing loss, such "
          "as GLM-4 MoE and DeepSeek. Keys of images have no effect on a model of text.\n\n"
          "Each argument in lr_scheduler_kwargs belongs to certain schedules: min_lr is "
          "for cosine_with_min_lr and not for cosine, which decays to 0. A native run "
          "ignores an argument that does not belong to its schedule, with a warning; "
          "transformers raises a TypeError.\n\n"
          "adapter_name_or_path without LoRA is an error, because the adapter would be "
          "ignored: merge it into the model first, or train with lora. So is "
          "train_from_scratch with LoRA in a native run: adapters of random weights learn "
          "nothing of use.",
      .source = "LLaMA-Factory finetuning_args.py, parser.py: _verify_model_args; "
                "transformers optimization.py" },
};

const struct rules rules_methods = { rows, TS_COUNT(rows) };
