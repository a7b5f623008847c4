/* patcher/rules/rules_disk.c - room on the disk for the checkpoints. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/size.h"
#include "train/model/shapes.h"

/* Compute the bytes of one checkpoint, and of the model alone. */
static bool measure_checkpoint(const struct rule_context *context, uint64_t *checkpoint,
                               uint64_t *model)
{
    struct plan plan = *context->plan;
    struct error ignored = { 0 };
    struct shapes shapes;

    if (!context->model)
        return false;
    if (context->device)
        plan.device = *context->device;
    plan.ranks = 1; /* files are those of a single rank */
    policy_decide(&plan.request, &plan.device, &plan.precision);
    if (!shapes_make(&plan, context->model, 0, 0, context->arena, &shapes, &ignored))
        return false;
    *model = shapes.weight_bytes;
    if (!plan_adapts(&plan))
        *model += shapes.frozen_bytes;
    *checkpoint = *model;
    if (!plan.save_only_model)
        *checkpoint += (plan.save_torch_state ? 2 : 1) * (uint64_t)shapes.moments_bytes;
    return true;
}

/* Number of checkpoints that exist at the same time: a new one is complete before an old
 * one is removed. */
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
        saves = limit + 1; /* the limit: the number of steps is unknown */
    if (limit > 0 && saves > limit + 1)
        saves = limit + 1;
    return saves < 1 ? 1 : saves < 1e15 ? (uint64_t)saves : (uint64_t)1e15;
}

/* Find the free bytes on the disk of a folder that may not exist yet; false: unknown. */
static bool find_free_bytes(const struct rule_context *context, const char *dir,
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

/* Checkpoints of an interrupted run exist already, and are replaced by new ones. */
static uint64_t count_existing(const struct rule_context *context)
{
    char digest[DIGEST_TEXT];

    if (!previous_state(context->previous)->resume)
        return 0;
    digest_bytes(context->document->data, context->document->len, digest);
    return previous_count(context->previous, digest);
}

/* The card is in another machine, and so are the job and its disk. */
static bool is_elsewhere(const struct rule_context *context)
{
    const struct device *device = context->device;

    return device && device->kind != DEVICE_CPU && !device->here &&
           !context->options->host;
}

static void rule_disk_space(struct rule_context *context)
{
    bool elsewhere = is_elsewhere(context);
    const struct plan *plan = context->plan;
    uint64_t checkpoint, model, room, count = count_checkpoints(plan), need, existing;
    char texts[3][16];

    if ((plan->external && !rule_entry(context, "output_dir")) ||
        !measure_checkpoint(context, &checkpoint, &model) ||
        !find_free_bytes(context, plan->output_dir, &room))
        return;
    existing = count_existing(context);
    count = count > existing ? count - existing : 0;
    if (__builtin_mul_overflow(count, checkpoint, &need) ||
        __builtin_add_overflow(need, model, &need))
        need = UINT64_MAX;
    if (need <= room)
        return;
    memory_text(need, texts[0]);
    memory_text(room, texts[1]);
    memory_text(checkpoint, texts[2]);
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS313",
            .severity = elsewhere ? SEVERITY_INFO : SEVERITY_WARNING,
            .message =
                arena_printf(context->arena,
                             "the model and %" PRIu64 " checkpoint%s of about %s take "
                             "%s, and the disk%s has %s free",
                             count, count == 1 ? "" : "s", texts[2], texts[0],
                             elsewhere ? " of this machine" : "", texts[1]),
            .because = arena_printf(context->arena, "checked on this machine: %s",
                                    plan->output_dir),
            .note = plan->save_total_limit == 0
                        ? "set save_total_limit to keep only the last ones, or a larger "
                          "save_steps to write fewer"
                        : "use a smaller save_total_limit, or an output_dir on another "
                          "disk" },
        plan->save_total_limit ? "save_total_limit" : "save_steps");
}

static const struct rule rows[] = {
    { .id = "TS313",
      .title = "not enough disk space for the checkpoints",
      .severity = SEVERITY_WARNING,
      .run = rule_disk_space,
      .explain =
          "A checkpoint contains the trained weights and their two Adam moments: 12 "
          "bytes per trained parameter, and with freeze also the frozen weights. For a "
          "moment there is one checkpoint more than save_total_limit, because an old one "
          "is removed only after the new one is complete, and the final model is written "
          "last. save_total_limit: 0 keeps all. The rule compares the total with the "
          "free space on the disk of output_dir. If the job is checked for a card of "
          "another machine, the disk is not the job's, and the finding is only an "
          "info.\n\n"
          "A full disk does not end a native run: the last good checkpoint stays, and "
          "saving is retried. But everything trained since then can be lost.",
      .source =
          "train/checkpoint/checkpoint.c, train/model/shapes.h; statvfs of output_dir" },
};

const struct rules rules_disk = { rows, TS_COUNT(rows) };
