/* runner/job/plan_alternatives.c - tries each alternative on a copy of the plan. */
#include "config.h"

#include "runner/job/plan_alternatives.h"

#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "patcher/rules/alternatives.h"
#include "runner/job/plan_json.h"
#include "runner/output/report.h"
#include "runner/output/report_json.h"
#include "train/job_config.h"
#include "train/model/cross_layers.h"

/* The unchanged job and the inputs that the estimates of all rows share. */
struct base_job {
    struct memory_fit_case request;
    struct model_config config;
    struct estimate_data data;
    struct arena *arena;
    struct error why_not; /* no estimate is possible */
};

static bool open_base(const struct inspection *inspection, const struct steps *steps,
                      struct base_job *base)
{
    const struct plan *plan = &inspection->patch.plan;
    const char *dir = plan->model_name_or_path;

    *base = (struct base_job) { .arena = arena_new() };
    if (steps)
        base->data = steps_data(steps);
    base->request = (struct memory_fit_case) {
        .plan = plan,
        .model = &base->config,
        .device = inspection->device ? inspection->device : &plan->device,
        .available = plan->memory.limit,
        .data = steps && steps->rows > 0 ? &base->data : NULL,
        /* KTO compares each answer with the others of its batch (TS310) */
        .whole_batch =
            plan->torch && plan->torch->stage && strcmp(plan->torch->stage, "kto") == 0,
    };
    if (!dir || !file_is_dir(dir))
        return error_set(&base->why_not, ERROR_DATA, "%s does not exist here",
                         dir ? dir : "the model");
    return job_config_read(plan, dir, base->arena, &base->config, &base->why_not) &&
           (!steps || steps->media == 0 ||
            cross_layers_join(&base->config, base->arena, &base->why_not));
}

static const char *fit_word(const struct memory_use *use)
{
    return use->limit == 0        ? "no limit known"
           : !use->fits           ? "does not fit"
           : memory_is_close(use) ? "may not fit"
                                  : "fits";
}

static void add_row(const struct alternative *row,
                    const struct alternative_result *result, struct text *out)
{
    char bytes[16];

    text_addf(out, "    %-17s", row ? row->name : "as is");
    if (result->why_not) {
        text_addf(out, " %s\n", *result->why_not ? result->why_not : "already set");
        return;
    }
    memory_text(result->use.total, bytes);
    text_addf(out, " %-9s  %-14s  time x%.2f", result->known ? bytes : "unknown",
              result->known ? fit_word(&result->use) : "", result->time);
    if (row)
        text_addf(out, "  %s\n                      %s", result->setting, row->cost);
    text_addc(out, '\n');
}

void plan_alternatives_text(const struct inspection *inspection,
                            const struct steps *steps, struct text *out)
{
    struct alternative_result result;
    const struct alternative *rows;
    const size_t count = alternatives(&rows);
    struct base_job base;

    text_adds(out, "  alternatives");
    if (open_base(inspection, steps, &base)) {
        text_adds(out, ", each alone; time by the number of matmuls, not measured\n");
        alternative_try(&base.request, NULL, &result);
        add_row(NULL, &result, out);
        for (size_t i = 0; i < count; i++) {
            alternative_try(&base.request, &rows[i], &result);
            add_row(&rows[i], &result, out);
        }
    } else {
        text_adds(out, " unknown: ");
        report_visible(out, base.why_not.text);
        text_addc(out, '\n');
    }
    arena_free(base.arena);
}

static json_t *row_object(const struct alternative *row,
                          const struct alternative_result *result)
{
    const bool tried = !result->why_not, counted = tried && result->known;
    json_t *object = json_object();

    json_object_set_new(object, "name", json_string(row ? row->name : "as is"));
    json_object_set_new(object, "setting",
                        row ? json_string(result->setting) : json_null());
    json_object_set_new(object, "cost", row ? json_string(row->cost) : json_null());
    json_object_set_new(object, "applies", json_boolean(tried));
    json_object_set_new(object, "reason",
                        tried ? json_null()
                              : json_string(*result->why_not
                                                ? result->why_not
                                                : "the job already has this setting"));
    json_object_set_new(object, "memory",
                        counted ? plan_json_memory(&result->use) : json_null());
    json_object_set_new(object, "fits",
                        counted && result->use.limit > 0 ? json_boolean(result->use.fits)
                                                         : json_null());
    json_object_set_new(object, "relative_time",
                        tried ? json_real(result->time) : json_null());
    return object;
}

json_t *plan_alternatives_json(const struct inspection *inspection,
                               const struct steps *steps)
{
    struct alternative_result result;
    const struct alternative *rows;
    const size_t count = alternatives(&rows);
    json_t *list = json_array();
    struct base_job base;

    if (open_base(inspection, steps, &base)) {
        alternative_try(&base.request, NULL, &result);
        json_array_append_new(list, row_object(NULL, &result));
        for (size_t i = 0; i < count; i++) {
            alternative_try(&base.request, &rows[i], &result);
            json_array_append_new(list, row_object(&rows[i], &result));
        }
    }
    arena_free(base.arena);
    return list;
}
