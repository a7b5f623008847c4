/*
 * runner/job/forecast.c - combines what is known about the model, the data and the
 * machine.
 */
#include "config.h"

#include "runner/job/forecast.h"

#include "base/size.h"

#include "base/file.h"
#include "train/estimate.h"
#include "train/evaluation_plan.h"
#include "train/job_config.h"
#include "train/model/cross_layers.h"
#include "train/model/shapes.h"

static bool read_model(const struct plan *plan, struct arena *arena,
                       struct model_config *config, struct error *err)
{
    const char *dir = plan->model_name_or_path;

    if (!dir)
        return error_set(err, ERROR_JOB, "no model_name_or_path");
    if (!file_is_dir(dir))
        return error_set(err, ERROR_DATA, "%s does not exist here", dir);
    return job_config_read(plan, dir, arena, config, err);
}

static void count_parameters(const struct plan *plan, const struct model_config *config,
                             struct arena *arena, struct forecast *out)
{
    const struct plan counted = plan_only_evaluates(plan) ? evaluation_plan(plan) : *plan;
    struct error ignored = { 0 };
    struct shapes shapes;

    out->has_model = shapes_make(&counted, config, 0, 0, arena, &shapes, &ignored);
    out->parameters = out->has_model ? shapes.elements : 0;
    out->trainable = out->has_model ? shapes.trainable_elements : 0;
    if (!out->has_model || plan->external || plan->disable_dropout)
        return;
    out->embed_dropout = config->embed_dropout;
    out->residual_dropout = config->residual_dropout;
    out->attention_dropout = config->attention_dropout;
}

static void make_time(const struct inspection *inspection,
                      const struct model_config *config, struct forecast *out)
{
    const double steps = (double)out->steps.total;

    if (plan_only_evaluates(&inspection->patch.plan))
        error_set(&out->why_no_time, ERROR_DATA, "nothing is trained");
    else if (!out->has_steps && !inspection->patch.plan.external)
        error_set(&out->why_no_time, ERROR_DATA, "the number of steps is unknown");
    else
        out->has_time =
            eta_find(inspection, config, &out->steps, &out->eta, &out->why_no_time);
    out->time =
        (struct duration) { out->eta.step.low * steps, out->eta.step.expected * steps,
                            out->eta.step.high * steps };
}

static void make_numbers(const struct inspection *inspection, struct forecast *out)
{
    const struct plan *plan = &inspection->patch.plan;
    const struct estimate_data counted = steps_data(&out->steps);
    const struct estimate_data data = estimate_data_of(&counted, plan);
    struct arena *arena = arena_new();
    struct model_config config;

    if (read_model(plan, arena, &config, &out->why_no_memory) &&
        (out->steps.media == 0 ||
         cross_layers_join(&config, arena, &out->why_no_memory))) {
        count_parameters(plan, &config, arena, out);
        plan_media_find(inspection, &config, &out->steps, &out->media);
        out->has_memory =
            estimate_memory(plan, &config, out->steps.rows > 0 ? &data : NULL,
                            &out->memory, &out->why_no_memory);
    }
    if (out->has_model)
        make_time(inspection, &config, out);
    else
        error_set(&out->why_no_time, ERROR_DATA, "the model is unknown");
    if (out->has_memory) {
        memory_finish(&out->memory, plan->memory.limit);
        out->has_resident =
            out->has_steps && estimate_resident(plan, &config, &data, &out->resident);
    }
    arena_free(arena);
}

static void count_steps(const struct inspection *inspection, struct forecast *out)
{
    const struct steps_job what = { .job = inspection->patch.job,
                                    .set = inspection->set };

    out->has_steps =
        inspection->has_steps || steps_query(&what, &out->steps, &out->why_no_steps);
    if (inspection->has_steps)
        out->steps = inspection->steps;
}

void forecast_make(const struct inspection *inspection, struct forecast *out)
{
    *out = (struct forecast) { 0 };
    if (inspection->patch.plan.external)
        error_set(&out->why_no_steps, ERROR_DATA, "the other program reads the data");
    else if (plan_merges(&inspection->patch.plan))
        error_set(&out->why_no_steps, ERROR_DATA, "nothing is trained");
    else
        count_steps(inspection, out);
    make_numbers(inspection, out);
}

void forecast_add_dropout(const struct forecast *forecast, struct text *out)
{
    const struct {
        double share;
        const char *of;
    } dropouts[] = { { forecast->embed_dropout, "the embeddings" },
                     { forecast->residual_dropout, "the output of each sublayer" },
                     { forecast->attention_dropout, "attention weights" } };
    const char *before = "  dropout     ";

    for (size_t i = 0; i < TS_COUNT(dropouts); i++)
        if (dropouts[i].share > 0) {
            text_addf(out, "%s%g of %s", before, dropouts[i].share, dropouts[i].of);
            before = ", ";
        }
    if (before[0] == ',')
        text_adds(out, "; disable_dropout turns it off\n");
}
