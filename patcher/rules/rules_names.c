/* patcher/rules/rules_names.c - keys and values: spelling, type, range, device and layer names, paths. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/size.h"
#include "base/nearest.h"
#include "patcher/schema/schema.h"
#include "patcher/schema/schema_value.h"
#include "precision/probe.h"
#include "train/model/shapes.h"
#include "train/chat/template.h"

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
                                 : "; a card that is not in this machine is named with "
                                   "--device") },
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
            propose_remark(
                &to,
                &(struct finding) { .rule = "TS705",
                                    .severity = SEVERITY_ERROR,
                                    .message = arena_strdup(context->arena, err.text) },
                entry);
    }
}

static void rule_unknown_values(struct rule_context *context)
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
    { "teacher_model_name_or_path", false },
    { "teacher_adapter_name_or_path", false },
    { "ref_model", false },
    { "ref_model_adapters", false },
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
                      : " leads out of the job's folder: write the whole path if that "
                        "is meant";
    if (message)
        rule_report(context,
                    &(struct finding) { .rule = "TS710",
                                        .severity = SEVERITY_ERROR,
                                        .message = arena_printf(context->arena, "%s%s",
                                                                key->name, message) },
                    key->name);
}

static void rule_paths_outside(struct rule_context *context)
{
    for (size_t i = 0; i < sizeof(path_keys) / sizeof(path_keys[0]); i++) {
        const struct entry *entry = rule_entry(context, path_keys[i].name);
        const struct node *value = entry ? node_value(entry->value) : NULL;

        if (value && value->kind == NODE_SCALAR && value->len > 0)
            check_path(context, &path_keys[i], value->text);
    }
}

static const struct rule rows[] = {
    { .id = "TS701",
      .title = "a known key in another spelling",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .explain = "Logging_steps, num train epochs, --learning-rate, learningRate: equal "
                 "to a key but for case, blanks, dashes and underscores. Names are "
                 "exact, so another tool stops at it or passes over it and trains with "
                 "the preset.\n\n"
                 "`patch` writes the key as it is spelt; value, comment and place stay. "
                 "Where the right name is given as well nothing is edited: only you "
                 "know which of the two counts. Members of trainspool: and of "
                 "lr_scheduler_kwargs are told, and edited by hand.",
      .source = "LLaMA-Factory#3914" },
    { .id = "TS702",
      .title = "an unknown key, one letter or two from a known one",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_UNSAFE,
      .explain =
          "One key, and no other, is one or two letters away; two neighbours in the "
          "wrong order count as one. LLaMA-Factory stops at such a key and names no "
          "remedy; Axolotl and torchtune pass over it and train with the preset instead "
          "of your value.\n\n"
          "That it was meant is a guess, so the edit waits for `--unsafe`; value, "
          "comment and place stay. In an external job it is a warning, as the script "
          "may have a key of that name, unless keys like stage and template say that "
          "the script is LLaMA-Factory's.",
      .source =
          "LLaMA-Factory parser.py, #3914; MakazhanAlpamys/Soup#627; Damerau, 1964" },
    { .id = "TS703",
      .title = "an unknown key",
      .severity = SEVERITY_ERROR,
      .explain = "It is in no table: not one of trainspool's keys, of LLaMA-Factory's "
                 "or of TrainingArguments, under no name they ever had there. Where "
                 "several keys are equally near, or begin with what is written, up to "
                 "three of them are named.\n\n"
                 "trainspool-job(5) lists all keys, and `trainspool schema` prints them "
                 "for an editor, which then completes and checks them while you type. A "
                 "note of your own belongs into a comment. In an external job this is a "
                 "warning: the script may have keys of its own.",
      .source = "LLaMA-Factory#5633" },
    { .id = "TS704",
      .title = "a value of the wrong type",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .explain =
          "The key decides what its value must be, never a reader of YAML: `1e-4` is a "
          "number where one is wanted and `dataset: no` stays a name. So what is told "
          "here fits in no way, and the message says which forms are taken, and which "
          "word was perhaps meant. An empty value means `not given`.\n\n"
          "Nothing is edited, as a wrong value says nothing of the right one. It is a "
          "warning where the key has no effect here: the tool it came from would stop.",
      .source = "trainspool-job(5)" },
    { .id = "TS705",
      .title = "a value outside its range or list",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_unknown_values,
      .explain =
          "The message says what is allowed, and the nearest word where there is one: "
          "letters changed, case and separators, and words that other tools have for "
          "the same (bf16 for bfloat16, qlora, flash_attention_2, gpu). Layers of "
          "lora_target, additional_target and freeze_trainable_modules are held against "
          "the model where its folder is there: a run would stop at a name that none of "
          "its layers has. q_proj of a Llama is in c_attn of a GPT-2 and in "
          "query_key_value of a GPT-NeoX.\n\n"
          "Bounds are those of the thing itself: a batch below 1, a share above 1, a "
          "dropout of 1. save_steps, eval_steps and logging_steps may be 0 where their "
          "strategy is no or epoch, as in transformers. The learning rate and the betas "
          "have rules of their own (TS410). It is a warning where the key has no effect "
          "here.",
      .source = "trainspool-job(5)" },
    { .id = "TS706",
      .title = "another tool's file, or another tool's word",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .explain =
          "Other tools use the same words for other things. batch_size is the total of "
          "a step in Axolotl and that of one device in torchtune; an empty "
          "max_grad_norm is 1.0 in Axolotl and off in LLaMA-Factory. So nothing is "
          "guessed.\n\n"
          "A whole file of Axolotl, torchtune, LLaMA-Factory v1, Accelerate, DeepSpeed, "
          "TRL, ms-swift or LitGPT is known by keys that only it has, and told once, "
          "without a list of its keys: `trainspool import` prints those of Axolotl and "
          "torchtune as jobs, with what could not be carried over as comments, and one "
          "for TRL's scripts is checked as it is with `trainspool: {target: external}`. "
          "A job with another tool's word in it stays a job: each such word is told "
          "with its place, and with the name it has here where there is one.",
      .source = "axolotl schemas/config.py; torchtune recipes; trl scripts/utils.py; "
                "DeepSpeed runtime/config.py; docs/precision.md" },
    { .id = "TS708",
      .title = "known keys without effect",
      .severity = SEVERITY_INFO,
      .explain =
          "They are right for other tools and have nothing to do here: workers of a "
          "data loader, tracking services, settings of libraries that are not used. "
          "They stay in the file. One without which results are others (num_beams, "
          "tool_format) is a warning, and says what is done.",
      .source = "trainspool-job(5)" },
    { .id = "TS709",
      .title = "a secret in the file",
      .severity = SEVERITY_WARNING,
      .explain =
          "Tokens and keys in a job end up in backups, copies and version control: "
          "hf_hub_token, swanlab_api_key, unknown keys of such names, and what "
          "trainspool.env gives an external command. The value is never printed, logged "
          "or put into a report, and backups are readable by their owner only.\n\n"
          "A job that is trained here needs none, as nothing is downloaded or uploaded: "
          "take it out. A script finds it in the environment trainspool is started in, "
          "or in a login of its own (`hf auth login`, `wandb login`); `${HF_TOKEN}` in "
          "the file says where it is and is no secret. Revoke it if the file was shared.",
      .source = "trainspool-job(5)" },
    { .id = "TS710",
      .title = "a path leads out of its folder",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .target = RULE_NATIVE,
      .run = rule_paths_outside,
      .explain =
          "A relative path is relative to the job file. What a job writes to "
          "(output_dir, export_dir, tokenized_path) must not climb out of the job's "
          "folder with `..`; write the whole path if it is meant. Where a spool allows "
          "certain folders only, all paths must lie below them. `~` is a shell's word "
          "and is not expanded.",
      .source = "a job in a watched folder may come from somebody else" },
};

const struct rules rules_names = { rows, TS_COUNT(rows) };
