/* patcher/rules/rules_batch.c - batch and length: the evaluation batch, cutoff_len, and
 * losses that depend on the batch. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/dataset/dataset_plan.h"

#define CONFIG_MAX ((size_t)1 << 20)

static void rule_eval_batch(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    int64_t train = plan->per_device_train_batch_size,
            eval = plan->per_device_eval_batch_size;
    const char *key;
    struct finding finding = {
        .rule = "TS306",
        .severity = plan->external ? SEVERITY_WARNING : SEVERITY_INFO,
        .apply = APPLY_UNSAFE,
    };

    /* losses of stage kto depend on the batch; stage grpo evaluates without a loss */
    if (eval <= train || !rule_evaluates(context, &key) || plan->stage == STAGE_KTO ||
        plan->stage == STAGE_GRPO)
        return;
    finding.message = arena_printf(
        context->arena,
        "evaluation uses batches of %" PRId64 " samples%s, training batches of %" PRId64
        ": %s",
        eval, rule_entry(context, "per_device_eval_batch_size") ? "" : ", the default",
        train,
        plan->external ? "the evaluation may run out of memory late in the run, although "
                         "training fits"
                       : "it automatically uses smaller batches if it needs more memory");
    finding.note = "the evaluation loss is the same except for rounding";
    rule_propose(context, &finding, "per_device_eval_batch_size",
                 arena_printf(context->arena, "%" PRId64, train),
                 "per_device_train_batch_size");
}

/* Read the positions from a config.json of an unsupported architecture; 0: not given. */
static int64_t read_positions(const struct rule_context *context)
{
    static const char *const names[] = { "max_position_embeddings", "n_positions",
                                         "max_seq_len", "seq_length" };
    const char *dir = context->plan->model_name_or_path;
    char *name = dir ? path_join(dir, "config.json") : NULL;
    json_t *config = name ? json_read_loose_file(name, CONFIG_MAX, NULL) : NULL;
    const json_t *text = json_object_get(config, "text_config");
    int64_t positions = 0;

    for (size_t i = 0; positions <= 0 && i < TS_COUNT(names); i++) {
        positions = json_integer_value(json_object_get(config, names[i]));
        if (positions <= 0)
            positions = json_integer_value(json_object_get(text, names[i]));
    }
    json_decref(config);
    free(name);
    return positions;
}

/* A sampled answer follows its prompt, and memory is planned for the longest of both. */
static void report_long_answers(struct rule_context *context, int64_t most)
{
    const struct plan *plan = context->plan;

    if (plan->cutoff_len > most ||
        plan->cutoff_len + plan->grpo.max_completion_length <= most)
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS308",
            .severity = SEVERITY_WARNING,
            .message =
                arena_printf(context->arena,
                             "cutoff_len %" PRId64 " and max_completion_length %" PRId64
                             " together exceed the %" PRId64 " positions of the model",
                             plan->cutoff_len, plan->grpo.max_completion_length, most),
            .because = "max_position_embeddings of the model's config.json",
            .note = "only answers to long prompts are affected; lower one of them" },
        rule_entry(context, "max_completion_length") ? "max_completion_length"
                                                     : "cutoff_len");
}

static void rule_cutoff_beyond_positions(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    bool packed = dataset_is_packed(plan);
    int64_t most;

    if (plan_merges(plan))
        return; /* there are no samples */
    if (rule_entry(context, "rope_scaling") &&
        !(context->model && context->model->rotary == 0))
        return; /* it extends the positions */
    if (context->model && model_config_positions(context->model) == SIZE_MAX)
        return;
    most =
        context->model ? (int64_t)context->model->max_positions : read_positions(context);
    if (most > 0 && plan->stage == STAGE_GRPO && !plan->external)
        report_long_answers(context, most);
    if (most <= 0 || plan->cutoff_len <= most)
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS308",
            .severity = SEVERITY_WARNING,
            .message = arena_printf(
                context->arena,
                "cutoff_len %" PRId64 "%s exceeds the %" PRId64 " positions of the model",
                plan->cutoff_len,
                rule_entry(context, "cutoff_len") ? "" : ", the default,", most),
            .because = "max_position_embeddings of the model's config.json",
            .note =
                arena_printf(context->arena, "%scutoff_len: %" PRId64 " truncates them",
                             packed ? "" : "only longer samples are affected; ", most) },
        "cutoff_len");
}

static void rule_batch_dependent_loss(struct rule_context *context)
{
    const char *key;

    if (!rule_is_true(context, "auto_find_batch_size") ||
        !rule_loss_depends_on_batch(context, &key))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS310",
            .severity = SEVERITY_WARNING,
            .message = "the loss compares samples within a micro batch: a smaller micro "
                       "batch with more accumulation changes the loss",
            .because = arena_printf(context->arena, "%s: %s", key,
                                    node_value(rule_entry(context, key)->value)->text),
            .note = "find the batch size once, write it into the job, and turn "
                    "auto_find_batch_size off" },
        "auto_find_batch_size");
}

static const struct rule rows[] = {
    { .id = "TS306",
      .title = "evaluation batch larger than the training batch",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_eval_batch,
      .explain =
          "per_device_eval_batch_size defaults to 8, regardless of the training batch "
          "size. A script that trains with 1 sample at a time and evaluates with 8 may "
          "run out of memory at its first evaluation, hours later. The logits are the "
          "large part: batch x cutoff_len x vocabulary values.\n\n"
          "In a native run, an evaluation that would need more memory than the training "
          "automatically uses smaller batches, so the finding is only information. "
          "`--unsafe` gives both the same batch size. The evaluation loss is a mean over "
          "tokens and stays the same except for rounding. Stage kto compares with the mean "
          "of a batch, so its evaluations keep theirs, and there is no finding.",
      .source = "transformers training_args.py: defaults; train/run.c: eval_size" },
    { .id = "TS308",
      .title = "cutoff_len exceeds the model's positions",
      .severity = SEVERITY_WARNING,
      .run = rule_cutoff_beyond_positions,
      .explain =
          "max_position_embeddings in config.json is the longest text that the model "
          "supports. With rotary positions (Llama, Qwen) a longer text runs, but at "
          "angles the model has never seen, and the loss beyond that position is high. "
          "With learned positions (GPT-2) there is no row to read, and a script fails "
          "with an index out of range.\n\n"
          "Shorter samples are not affected, so this may be harmless: train.log reports "
          "the longest sample. Otherwise lower cutoff_len, or use a model that was "
          "extended (rope_scaling in its config.json). A patch never changes cutoff_len.\n\n"
          "In stage grpo a sampled answer of max_completion_length follows its prompt, so "
          "both together count.",
      .source = "config.json of the model; train/model/rope.c" },
    { .id = "TS310",
      .title = "batch cannot be split without changing the loss",
      .severity = SEVERITY_WARNING,
      .run = rule_batch_dependent_loss,
      .explain =
          "Most losses are a mean over samples or tokens: accumulating 4 micro batches "
          "of 2 equals one batch of 8. KTO is different: it compares each sample with a "
          "reference point that is estimated from the other samples of its micro batch. "
          "auto_find_batch_size shrinks the micro batch when memory runs out, and so "
          "silently changes the loss that is minimized. For the same reason TS302 "
          "offers no split for such a job.\n\n"
          "Find the batch that fits once and write it into the file.",
      .source =
          "KTO, arXiv 2402.01306, the reference point; accelerate utils/memory.py" },
};

const struct rules rules_batch = { rows, TS_COUNT(rows) };
