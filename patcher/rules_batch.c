/* patcher/rules_batch.c - what goes into a batch, and what a run leaves on the disk. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/dataset/dataset_tokens.h"
#include "train/model/shapes.h"

#define CONFIG_MAX ((size_t)1 << 20)

/* ---- TS306: a batch of the evaluation ---- */

void rule_eval_batch(struct rule_context *context)
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
    rule_set(context, &finding, "per_device_eval_batch_size",
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

void rule_positions(struct rule_context *context)
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
    rule_tell(context,
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

bool rule_loss_of_batch(const struct rule_context *context, const char **key)
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

void rule_batch_loss(struct rule_context *context)
{
    const char *key;

    if (!rule_is_true(context, "auto_find_batch_size") ||
        !rule_loss_of_batch(context, &key))
        return;
    rule_tell(
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

/* ---- TS311 ---- */

void rule_offloading(struct rule_context *context)
{
    static const char *const names[] = { "activation_offloading",
                                         "enable_activation_offloading" };

    for (size_t i = 0; i < TS_COUNT(names); i++)
        if (rule_is_true(context, names[i]) && !context->plan->gradient_checkpointing)
            rule_tell(context,
                      &(struct finding) {
                          .rule = "TS311",
                          .severity = SEVERITY_ERROR,
                          .message = arena_printf(
                              context->arena,
                              "%s moves what checkpointing keeps, and checkpointing is "
                              "off",
                              names[i]),
                          .note = "gradient_checkpointing: true" },
                      names[i]);
}

/* ---- TS313: room for the checkpoints ---- */

/* Bytes of one checkpoint, and of the model alone. */
static bool measure(const struct rule_context *context, uint64_t *checkpoint,
                    uint64_t *model)
{
    struct plan plan = *context->plan;
    struct error ignored = { 0 };
    struct shapes shapes;

    if (!context->model)
        return false;
    if (context->device)
        plan.device = *context->device;
    policy_decide(&plan.request, &plan.device, &plan.precision);
    if (!shapes_make(&plan, context->model, 0, 0, context->arena, &shapes, &ignored))
        return false;
    *model = shapes.weight_bytes;
    if (plan.method != METHOD_LORA)
        *model += shapes.frozen_bytes;
    *checkpoint = *model;
    if (!plan.save_only_model)
        *checkpoint += (uint64_t)plan_ranks(&plan) * shapes.moments * shapes.moment_bytes;
    return true;
}

/* Checkpoints that lie there at the same time: a new one is whole before an old one
 * goes. */
static uint64_t count_checkpoints(const struct plan *plan)
{
    double limit = (double)plan->save_total_limit, saves = 1;

    if (plan->save_strategy == WHEN_NO)
        return 0;
    if (plan->save_strategy == WHEN_STEPS && plan->save_steps == 0)
        saves = 1; /* at the end */
    else if (plan->save_strategy == WHEN_STEPS && plan->save_steps < 1)
        saves = 1 / plan->save_steps;
    else if (plan->save_strategy == WHEN_STEPS && plan->max_steps > 0)
        saves = (double)plan->max_steps / plan->save_steps;
    else if (plan->save_strategy == WHEN_EPOCH && plan->max_steps <= 0)
        saves = plan->num_train_epochs;
    else if (limit > 0)
        saves =
            limit + 1; /* as many as may stay: nobody knows how many steps there are */
    if (limit > 0 && saves > limit + 1)
        saves = limit + 1;
    return saves < 1 ? 1 : saves < 1e15 ? (uint64_t)saves : (uint64_t)1e15;
}

/* Bytes a job may still write where a folder is, or will be; false: nobody can tell. */
static bool find_room(const struct rule_context *context, const char *dir,
                      uint64_t *free_bytes)
{
    const char *at = dir;
    struct statvfs disk;

    for (int up = 0; up < 64; up++) {
        char *parent;

        if (statvfs(at, &disk) == 0) {
            *free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
            return true;
        }
        parent = path_dir(at);
        if (strcmp(parent, at) == 0)
            up = 64;
        at = arena_strdup(context->arena, parent);
        free(parent);
    }
    return false;
}

/* Those of an interrupted run are there already, and go as new ones come. */
static uint64_t count_there(const struct rule_context *context)
{
    char digest[DIGEST_TEXT];

    if (!previous_state(context->previous)->resume)
        return 0;
    digest_bytes(context->document->data, context->document->len, digest);
    return previous_count(context->previous, digest);
}

void rule_disk(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    uint64_t one, model, room, count = count_checkpoints(plan), need, there;
    char texts[3][16];

    if ((plan->external && !rule_entry(context, "output_dir")) ||
        !measure(context, &one, &model) || !find_room(context, plan->output_dir, &room))
        return;
    there = count_there(context);
    count = count > there ? count - there : 0;
    if (__builtin_mul_overflow(count, one, &need) ||
        __builtin_add_overflow(need, model, &need))
        need = UINT64_MAX;
    if (need <= room)
        return;
    memory_text(need, texts[0]);
    memory_text(room, texts[1]);
    memory_text(one, texts[2]);
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS313",
            .severity = SEVERITY_WARNING,
            .message =
                arena_printf(context->arena,
                             "the model and %" PRIu64 " checkpoint%s of about %s take "
                             "%s, and the disk has %s free",
                             count, count == 1 ? "" : "s", texts[2], texts[0], texts[1]),
            .because = arena_printf(context->arena, "looked at on this machine: %s",
                                    plan->output_dir),
            .note =
                plan->save_total_limit == 0
                    ? "save_total_limit keeps the last few; a larger save_steps writes "
                      "fewer"
                    : "a smaller save_total_limit, or an output_dir on another disk" },
        plan->save_total_limit ? "save_total_limit" : "save_steps");
}
