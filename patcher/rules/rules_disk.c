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

static void rule_disk_space(struct rule_context *context)
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
    rule_report(
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

static const struct rule rows[] = {
    { .id = "TS313",
      .title = "the disk has no room for the checkpoints",
      .severity = SEVERITY_WARNING,
      .run = rule_disk_space,
      .explain =
          "A checkpoint holds the trained weights and Adam's two moments of them: 12 "
          "bytes a trained parameter, with freeze also the frozen weights. One more "
          "than save_total_limit lie there for a moment, since an old one goes only "
          "after the new one is whole, and the model itself comes last. "
          "save_total_limit 0 keeps all. What that takes is compared with what is free "
          "where output_dir is.\n\n"
          "A full disk does not end a run here: the last good checkpoint stays, and it "
          "is tried again. But what is trained since then can be lost.",
      .source =
          "train/checkpoint/checkpoint.c, train/model/shapes.h; statvfs of output_dir" },
};

const struct rules rules_disk = { rows, TS_COUNT(rows) };
