/* patcher/rules/rules_batch.c - batch and length: the evaluation batch, cutoff_len, and
 * losses that depend on the batch. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/dataset/dataset_tokens.h"

#define CONFIG_MAX ((size_t)1 << 20)

/* ---- TS306: a batch of the evaluation ---- */

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

    if (eval <= train || !rule_evaluates(context, &key))
        return;
    finding.message = arena_printf(
        context->arena,
        "an evaluation takes %" PRId64 " samples at once%s, the training %" PRId64 ": %s",
        eval, rule_entry(context, "per_device_eval_batch_size") ? "" : ", the preset",
        train,
        plan->external ? "memory that is enough for the training may run out there, late"
                       : "where that wants more memory it makes do with smaller batches");
    finding.note = "the evaluation loss is the same but for rounding";
    rule_propose(context, &finding, "per_device_eval_batch_size",
                 arena_printf(context->arena, "%" PRId64, train),
                 "per_device_train_batch_size");
}

/* ---- TS308: more positions than the model knows ---- */

/* Of a config.json whose architecture is not known here; 0: it does not say. */
static int64_t read_positions(const struct rule_context *context)
{
    static const char *const names[] = { "max_position_embeddings", "n_positions",
                                         "max_seq_len", "seq_length" };
    const char *dir = context->plan->model_name_or_path;
    char *name = dir ? path_join(dir, "config.json") : NULL;
    json_t *config = name ? json_read_file(name, CONFIG_MAX, NULL) : NULL;
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

static void rule_cutoff_beyond_positions(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    bool packed = dataset_is_packed(plan);
    int64_t most;

    if (plan_merges(plan))
        return; /* there are no samples */
    if (rule_entry(context, "rope_scaling"))
        return; /* its business is to make them more */
    most =
        context->model ? (int64_t)context->model->max_positions : read_positions(context);
    if (most <= 0 || plan->cutoff_len <= most)
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS308",
                    .severity = SEVERITY_WARNING,
                    .message = arena_printf(
                        context->arena,
                        "cutoff_len %" PRId64 "%s is beyond the %" PRId64
                        " positions that the model was made for",
                        plan->cutoff_len,
                        rule_entry(context, "cutoff_len") ? "" : ", the preset,", most),
                    .because = "max_position_embeddings of the model's config.json",
                    .note = arena_printf(
                        context->arena, "%scutoff_len: %" PRId64 " cuts them",
                        packed ? "" : "only longer samples are concerned; ", most) },
                "cutoff_len");
}

/* ---- TS310: a loss that depends on who else is in the batch ---- */

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
            .message = "the loss compares samples with the others of their micro batch: "
                       "a smaller one with more accumulation is another loss",
            .because = arena_printf(context->arena, "%s: %s", key,
                                    node_value(rule_entry(context, key)->value)->text),
            .note = "find the batch once, write it down, and leave auto_find_batch_size "
                    "off" },
        "auto_find_batch_size");
}

static const struct rule rows[] = {
    { .id = "TS306",
      .title = "a batch of the evaluation is larger than one of the training",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .run = rule_eval_batch,
      .explain =
          "The preset of per_device_eval_batch_size is 8, whatever the training's batch "
          "is. A script that trains with 1 sample at once and evaluates with 8 may run "
          "out of memory at its first evaluation, hours later. Logits are the large "
          "part: batch x cutoff_len x vocabulary numbers.\n\n"
          "Trained here, an evaluation that would want more memory than the training "
          "takes smaller batches by itself, so it is only information. `--unsafe` makes "
          "both equal. The evaluation loss is a mean over tokens and stays the same but "
          "for rounding.",
      .source = "transformers training_args.py: presets; train/run.c: eval_size" },
    { .id = "TS308",
      .title = "cutoff_len is beyond the model's positions",
      .severity = SEVERITY_WARNING,
      .run = rule_cutoff_beyond_positions,
      .explain =
          "max_position_embeddings of config.json is the longest text the model was "
          "made for. With rotary positions (Llama, Qwen) a longer one runs, at angles "
          "it never saw, and the loss behind that point is high. With learned positions "
          "(GPT-2) there is no row to read, and a script fails with an index out of "
          "range.\n\n"
          "Samples that are shorter are not concerned, so this may be harmless: look at "
          "the longest sample in train.log. Else lower cutoff_len, or take a model that "
          "was extended (rope_scaling in its config.json). cutoff_len is never changed "
          "by a patch.",
      .source = "config.json of the model; train/model/rope.c" },
    { .id = "TS310",
      .title = "the batch cannot be split without changing the loss",
      .severity = SEVERITY_WARNING,
      .run = rule_batch_dependent_loss,
      .explain =
          "Most losses are a mean over samples or tokens, and accumulating 4 micro "
          "batches of 2 is the same as one of 8. KTO is not such a loss: it compares "
          "each sample with a reference point that is estimated from the others of its "
          "micro batch. auto_find_batch_size makes the micro batch smaller when memory "
          "runs out, and so changes what is minimised, silently. For the same reason "
          "TS302 offers no split of such a job.\n\n"
          "Find the batch that fits once and write it into the file.",
      .source =
          "KTO, arXiv 2402.01306, the reference point; accelerate utils/memory.py" },
};

const struct rules rules_batch = { rows, TS_COUNT(rows) };
