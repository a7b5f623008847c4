/* train/merge.c - merging an adapter into its model without training. */
#include "config.h"

#include "train/merge.h"

#include <math.h>

#include <stdlib.h>

#include "base/arena.h"
#include "base/fault.h"
#include "base/file.h"
#include "train/chat/chat.h"
#include "train/checkpoint/checkpoint.h"
#include "train/job_config.h"
#include "train/merge_plan.h"
#include "train/model/model.h"
#include "train/model/vocabulary_growth.h"
#include "train/model/shapes.h"

struct merge {
    struct plan plan;
    const struct trainer_options *options;
    struct arena *arena;
    struct model_config config;
    struct backend *be;
    struct tokenizer *tokenizer;
    struct template_saving saving;
    struct model *model;
};

/* A model without a tokenizer is merged, too. */
static bool prepare_saving(struct merge *merge, struct error *err)
{
    const struct plan *plan = &merge->plan;
    char *name = path_join(plan->model_name_or_path, "tokenizer.json");
    bool required = file_exists(name);
    const struct new_tokens more = plan_new_tokens(plan, &merge->config);

    free(name);
    if (!tokenizer_exists(plan->model_name_or_path))
        return true;
    /* files of other formats are copied even if they are not supported */
    merge->tokenizer =
        chat_tokenizer_open_with(plan->model_name_or_path, &more, required ? err : NULL);
    if (!merge->tokenizer)
        return !required;
    template_saving_make(merge->tokenizer, plan->template_name, plan->default_system,
                         &merge->saving);
    model_set_saving(merge->model, &merge->saving);
    return true;
}

static bool open_model(struct merge *merge, struct error *err)
{
    const struct plan *plan = &merge->plan;
    struct model_options options = {
        .plan = plan, .config = &merge->config, .rows_max = 1, .sequences_max = 1
    };
    struct backend_options with = {
        .device = &plan->device,
        .threads = (int)plan->threads,
        .no_onednn = merge->options->no_onednn,
        .tf32 = plan->precision.compute == FORMAT_TF32,
        .log = merge->options->log,
    };

    merge->arena = arena_new();
    if (!job_config_read(plan, plan->model_name_or_path, merge->arena, &merge->config,
                         err))
        return false;
    merge->plan = merge_plan(plan, &merge->config);
    with.rounded_bytes = shapes_fp8_bytes(plan, &merge->config, options.rows_max);
    options.backend = merge->be = backend_open(&with, err);
    if (!merge->be)
        return false;
    merge->model = model_new(&options, err);
    if (!merge->model)
        return false;
    model_set_heartbeat(merge->model, merge->options->heartbeat);
    return model_load(merge->model, err) && prepare_saving(merge, err) &&
           fault_answered(err);
}

static void describe(const struct merge *merge)
{
    const struct trainer_options *options = merge->options;
    const struct run_info facts = {
        .backend = merge->be->ops->describe(merge->be),
        .threads = (int)merge->plan.threads,
        .parameters = model_total_elements(merge->model),
        .loss = NAN,
        .memory = *model_memory(merge->model),
    };

    log_line(options->log, LOG_INFO, "device: %s", facts.backend);
    if (merge->plan.adapter_name_or_path)
        log_line(options->log, LOG_INFO,
                 "merge: adapter %s into model %s, without training",
                 merge->plan.adapter_name_or_path, merge->plan.model_name_or_path);
    else
        log_line(options->log, LOG_INFO, "export: model %s, without training",
                 merge->plan.model_name_or_path);
    if (options->opened)
        options->opened(options->context, &facts);
}

static bool write_model(const struct merge *merge, struct error *err)
{
    const struct trainer_options *options = merge->options;

    if (!heartbeat_tick(options->heartbeat))
        return error_set(err, ERROR_STOPPED, "stopped before the model was written");
    if (!checkpoint_export(
            &(struct checkpoint_saving) { .model = merge->model, .plan = &merge->plan },
            err))
        return false;
    log_line(options->log, LOG_INFO, "done: %s, model in %s",
             merge->plan.adapter_name_or_path ? "merged" : "exported",
             merge->plan.export_dir);
    return true;
}

bool merge_run(const struct plan *plan, const struct trainer_options *options,
               struct error *err)
{
    struct merge merge = { .plan = merge_plan(plan, NULL), .options = options };
    bool ok = open_model(&merge, err);

    if (ok) {
        describe(&merge);
        ok = write_model(&merge, err);
    }
    model_free(merge.model);
    template_saving_clear(&merge.saving);
    tokenizer_close(merge.tokenizer);
    backend_close(merge.be);
    arena_free(merge.arena);
    return ok;
}
