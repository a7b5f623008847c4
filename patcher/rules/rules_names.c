/* patcher/rules/rules_names.c - spelling, type and range of keys and values. */
#include "config.h"

#include "patcher/rules/lora_targets.h"
#include "patcher/rules/rules_context.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/size.h"
#include "base/nearest.h"
#include "patcher/document/lookalike.h"
#include "patcher/schema/schema.h"
#include "patcher/schema/schema_value.h"
#include "precision/policy.h"
#include "precision/probe.h"
#include "train/model/shapes.h"
#include "train/chat/template.h"

/* Correct "gpu", "GPU 1", "0,1", "cuda1"; or NULL. */
static const char *corrected_device(struct rule_context *context, const char *wanted)
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

        return probe_count_named(device) > 0 ? device : NULL;
    }
    for (size_t i = 0; i < TS_COUNT(words); i++)
        if (nearest_distance(wanted, words[i], 1) <= 1)
            return words[i];
    return NULL;
}

static void check_device(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *block = document_find(context->document, "trainspool");
    const struct entry *entry =
        block ? node_find(node_value(block->value), "device") : NULL;
    const char *wanted = entry ? node_value(entry->value)->text : "", *meant;

    if (!entry || context->plan->external || node_is_null(entry->value) ||
        probe_count_named(wanted) > 0 || strcmp(wanted, "auto") == 0 ||
        strcmp(wanted, "cpu") == 0 || strcmp(wanted, "cuda") == 0)
        return;
    meant = corrected_device(context, wanted);
    propose_remark(&to,
                   &(struct finding) {
                       .rule = "TS705",
                       .severity = SEVERITY_ERROR,
                       .message = arena_printf(
                           context->arena,
                           "device must be auto, cpu, cuda, cuda:N or cuda:N,M%s%s%s",
                           meant ? "; did you mean " : "", meant ? meant : "",
                           meant ? "?"
                                 : "; use --device to name a card that is not in this "
                                   "machine") },
                   entry);
}

/* Return whether the model has the layers of the plan, of the sizes that it requires;
 * targets of projections and sizes are known only once they are all laid out. */
static bool has_layers(const struct rule_context *context, const struct plan *plan,
                       struct error *err)
{
    struct shapes shapes;
    struct lora lora;

    if (optimizer_projects(plan) || plan->pissa_init || plan->method == METHOD_OFT)
        return shapes_make(plan, context->model, 0, 0, context->arena, &shapes, err);
    return shapes_check(plan, context->model, &lora, err);
}

/* Report an error at the entry of its key or, if that has its default, at the one of the
 * method. */
static void report_layers(struct rule_context *context, const char *key,
                          const struct error *err)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = document_find(context->document, key);

    if (!entry)
        entry = document_find(context->document, "finetuning_type");

    if (entry)
        propose_remark(
            &to,
            &(struct finding) { .rule = "TS705",
                                .severity = SEVERITY_ERROR,
                                .message = arena_strdup(context->arena, err->text),
                                .note = lookalike_in_node(entry->value, context->arena) },
            entry);
}

/* Not with the name of a longer key. */
static bool begins_with_key(const char *text, const char *key)
{
    return text_starts(text, key) && text[strlen(key)] != '_';
}

/* Report the layers in the job at which a run would fail, its optimizer, or its kind of
 * adapter. */
static void check_layers(struct rule_context *context)
{
    static const char *const keys[] = { "lora_target",
                                        "lora_target_parameters",
                                        "lora_rank",
                                        "oft_target",
                                        "oft_rank",
                                        "oft_block_size",
                                        "additional_target",
                                        "freeze_trainable_modules",
                                        "freeze_trainable_layers",
                                        "use_llama_pro",
                                        "optim",
                                        "pissa_init",
                                        "use_dora",
                                        "use_muon",
                                        "use_adam_mini",
                                        "use_galore",
                                        "use_apollo",
                                        "galore_target",
                                        "apollo_target",
                                        "freeze_vision_tower" };
    struct plan plan = *context->plan;
    struct error err = { 0 };

    plan.adapter_name_or_path = NULL; /* an adapter's own layers are not the job's */
    if (context->device)
        plan.device = *context->device;
    policy_decide(&plan.request, &plan.device, &plan.precision);
    if (!context->model ||
        (context->plan->adapter_name_or_path && !plan.create_new_adapter))
        return;
    if (has_layers(context, &plan, &err)) {
        lora_targets_check_skipped(context);
        lora_targets_check_unread(context);
        return;
    }
    for (size_t i = 0; i < TS_COUNT(keys); i++)
        if (begins_with_key(err.text, keys[i]))
            report_layers(context, keys[i], &err);
    if (text_starts(err.text, "finetuning_type: oft"))
        report_layers(context, "finetuning_type", &err);
}

static void rule_unknown_values(struct rule_context *context)
{
    check_device(context);
    if (context->plan->external)
        lora_targets_check(context);
    else
        check_layers(context);
}

static const struct rule rows[] = {
    { .id = "TS701",
      .title = "known key in another spelling",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .explain =
          "Logging_steps, num train epochs, --learning-rate, learningRate: each equals "
          "a key except for case, spaces, dashes and underscores. Names are exact, so "
          "another tool rejects the key, or ignores it and trains with the default.\n\n"
          "The patch corrects the spelling and keeps value, comment and position. If "
          "the correct key is given as well, nothing is edited: only you know which one "
          "counts. Members of trainspool: and of lr_scheduler_kwargs are reported, not "
          "edited.",
      .source = "LLaMA-Factory#3914" },
    { .id = "TS702",
      .title = "unknown key, similar to a known one",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_UNSAFE,
      .explain =
          "Exactly one key is one or two letters away; two swapped neighboring letters "
          "count as one. LLaMA-Factory rejects such a key without a suggestion; Axolotl "
          "and torchtune ignore it and train with the default instead of your value.\n\n"
          "The correction is a guess, so the edit requires `--unsafe`; it keeps value, "
          "comment and position. In an external job it is a warning, as the script may "
          "have a key of that name, unless keys such as stage and template show that "
          "the script is LLaMA-Factory's.",
      .source =
          "LLaMA-Factory parser.py, #3914; MakazhanAlpamys/Soup#627; Damerau, 1964" },
    { .id = "TS703",
      .title = "unknown key",
      .severity = SEVERITY_ERROR,
      .explain =
          "The key is not a key of trainspool, of LLaMA-Factory or of TrainingArguments, "
          "under any current or former name. If several keys are equally similar, or "
          "begin with the written name, the finding names up to three of them.\n\n"
          "trainspool-job(5) lists all keys, and `trainspool schema` prints them for an "
          "editor, which then completes and checks them while you type. Put your own "
          "notes into comments. In an external job this is a warning: the script may "
          "have its own keys.",
      .source = "LLaMA-Factory#5633" },
    { .id = "TS704",
      .title = "value of the wrong type",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .explain =
          "The key decides which type its value must have, not the YAML reader: `1e-4` "
          "is a number where the key requires one, and `dataset: no` stays a name. A "
          "value that is reported here cannot be read as that type; the finding says "
          "which forms are accepted and suggests a similar word if there is one. An "
          "empty value counts as not given. None, Python's word for null, is a string in "
          "YAML, so it is reported for names and paths, too.\n\n"
          "Nothing is edited, because the intended value is unknown. If the key has no "
          "effect in a native run, it is a warning: the tool that it comes from would "
          "fail.",
      .source = "trainspool-job(5)" },
    { .id = "TS705",
      .title = "value out of range or not in the list",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_unknown_values,
      .explain =
          "The finding says what is allowed and, if there is one, the nearest value: "
          "with letters, case or separators changed, and with the words of other tools "
          "(bf16 for bfloat16, qlora, flash_attention_2, gpu). The layers of "
          "lora_target, additional_target and freeze_trainable_modules are compared "
          "with the model if its folder exists: a run would fail at a name that none of "
          "its layers has. lora_target is read as PEFT reads it: it is an error if no "
          "name matches; if some do not, they are skipped, which is a warning. q_proj of "
          "a Llama is in c_attn of a GPT-2 and in query_key_value of a GPT-NeoX.\n\n"
          "The bounds are those of the quantity itself: a batch below 1, a fraction "
          "above 1, or a dropout of 1 is impossible. save_steps, eval_steps and "
          "logging_steps may be 0 if their strategy is no or epoch, as in transformers. "
          "The learning rate and the betas have their own rule (TS410). If the key has "
          "no effect in a native run, it is a warning.",
      .source = "trainspool-job(5)" },
    { .id = "TS706",
      .title = "another tool's file or key",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .explain =
          "Other tools use the same words for other things. batch_size is the total of "
          "a step in Axolotl and that of one device in torchtune; an empty "
          "max_grad_norm is 1.0 in Axolotl and off in LLaMA-Factory. Therefore nothing "
          "is guessed.\n\n"
          "A whole file of another tool is recognized by keys that only it has, and "
          "reported once, without a list of its keys: Axolotl, torchtune, LLaMA-Factory "
          "v1, Accelerate, DeepSpeed, TRL, ms-swift, LitGPT, AutoTrain, Ludwig, verl, "
          "Unsloth Studio, Lightning, NeMo, Megatron-LM, GPT-NeoX, OpenRLHF, H2O LLM "
          "Studio, MLX LM, LLM Foundry, Oumi, mistral-finetune, mergekit, and files such "
          "as a model's config.json or a Kubernetes manifest. Such a file is not a job: "
          "`plan` shows no plan, and the exit status is 2. `trainspool import` converts "
          "files of Axolotl, torchtune and LLaMA-Factory v1 to jobs, with comments for what has no "
          "equivalent; a file for TRL's scripts can be checked unchanged with "
          "`trainspool: {target: external}`. A job that contains another tool's key stays "
          "a job: each such key is reported, with its equivalent if there is one.",
      .source = "axolotl schemas/config.py; torchtune recipes; trl scripts/utils.py; "
                "DeepSpeed runtime/config.py; docs/precision.md" },
    { .id = "TS708",
      .title = "known keys without effect",
      .severity = SEVERITY_INFO,
      .after_edits = true,
      .explain =
          "The keys are valid in other tools and have no effect here: data loader "
          "workers, tracking services, settings of libraries that are not used. They "
          "stay in the file. A key whose absence changes the result (num_beams, "
          "tool_format) is a warning that says what happens instead. The list is that of "
          "the text after the safe edits.",
      .source = "trainspool-job(5)" },
    { .id = "TS709",
      .title = "secret in the file",
      .severity = SEVERITY_WARNING,
      .explain =
          "Tokens and keys in a job end up in backups, copies and version control: "
          "hf_hub_token, swanlab_api_key, unknown keys with such names, and variables "
          "that trainspool.env passes to an external command. The value is never "
          "printed, logged or put into a report, and only the owner can read "
          "backups.\n\n"
          "A native job needs no token, as nothing is downloaded or uploaded: remove "
          "it. A script finds a token in the environment in which trainspool is "
          "started, or in its own login (`hf auth login`, `wandb login`); `${HF_TOKEN}` "
          "in the file refers to the variable and is no secret. Revoke the token if the "
          "file was shared.",
      .source = "trainspool-job(5)" },
};

const struct rules rules_names = { rows, TS_COUNT(rows) };
