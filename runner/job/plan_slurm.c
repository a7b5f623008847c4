/* runner/job/plan_slurm.c - shows what a job asks of Slurm, and what it is checked for. */
#include "config.h"

#include "runner/job/plan_slurm.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/size.h"
#include "patcher/schema/slurm_values.h"
#include "runner/job/batch_script.h"
#include "runner/output/report.h"
#include "runner/output/report_json.h"

/* The texts of struct plan_slurm, in the order in which they are shown. */
static const struct key {
    const char *name;
    size_t field;
} keys[] = {
    { "partition", offsetof(struct plan_slurm, partition) },
    { "account", offsetof(struct plan_slurm, account) },
    { "qos", offsetof(struct plan_slurm, qos) },
    { "reservation", offsetof(struct plan_slurm, reservation) },
    { "constraint", offsetof(struct plan_slurm, constraint) },
    { "gres", offsetof(struct plan_slurm, gres) },
    { "time", offsetof(struct plan_slurm, time) },
    { "mem", offsetof(struct plan_slurm, mem) },
};

static const char *option_of(const struct plan *plan, size_t at)
{
    return *(const char *const *)((const char *)&plan->slurm + keys[at].field);
}

/* A job that does not train has one rank. */
static int64_t nodes_of(const struct plan *plan)
{
    return plan_trains(plan) ? plan->nodes : 1;
}

static int64_t tasks_of(const struct plan *plan)
{
    return plan_trains(plan) ? (int64_t)plan_local_ranks(plan) : 1;
}

/* "12 h", "1 h 30 min", "2 days" */
static void add_length(struct text *out, int64_t seconds)
{
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = { { 86400, "days" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };
    const char *before = " (";

    for (size_t i = 0; i < TS_COUNT(units); i++) {
        const int64_t count = seconds / units[i].seconds;

        seconds %= units[i].seconds;
        if (count == 0)
            continue;
        text_addf(out, "%s%" PRId64 " %s", before, count,
                  i == 0 && count == 1 ? "day" : units[i].name);
        before = " ";
    }
    text_addc(out, ')');
}

bool plan_slurm_is_due(const struct plan *plan)
{
    return plan->backend == RUN_SLURM && !plan->external;
}

/* Write the script that sbatch would get. */
static bool write_script(const struct inspection *inspection,
                         const struct options *options, struct text *out,
                         struct error *err)
{
    const struct patch *patch = &inspection->patch;

    return batch_script_preview(options, patch->job, &patch->plan, patch->text,
                                patch->len, out, err);
}

static void add_script(const struct inspection *inspection, const struct options *options,
                       struct text *out)
{
    struct error err = { 0 };
    struct text script;

    text_init(&script, 0);
    if (!write_script(inspection, options, &script, &err)) {
        text_adds(out, "  script      unknown: ");
        report_visible(out, err.text);
        text_addc(out, '\n');
    } else {
        text_addf(out,
                  "  script      what sbatch gets%s; each submission has a name of its "
                  "own\n",
                  inspection->patch.plan.sweep
                      ? " for one job; those of the sweep are tasks of an array"
                      : "");
        for (char *at = script.data, *end; *at; at = end + 1) {
            end = strchr(at, '\n');
            *end = '\0';
            text_adds(out, *at ? "    " : "");
            report_visible(out, at);
            text_addc(out, '\n');
        }
    }
    text_clear(&script);
}

void plan_slurm_text(const struct inspection *inspection, const struct options *options,
                     struct text *out)
{
    const struct plan *plan = &inspection->patch.plan;
    const int64_t nodes = nodes_of(plan), tasks = tasks_of(plan);
    int64_t seconds;

    if (!plan_slurm_is_due(plan))
        return;
    text_addf(out, "  slurm       %" PRId64 " node%s with %" PRId64 " task%s%s", nodes,
              nodes == 1 ? "" : "s", tasks, tasks == 1 ? "" : "s",
              nodes == 1 ? "" : " each");
    if (plan->slurm.cpus_per_task > 0)
        text_addf(out, " of %" PRId64 " CPU%s", plan->slurm.cpus_per_task,
                  plan->slurm.cpus_per_task == 1 ? "" : "s");
    for (size_t i = 0; i < TS_COUNT(keys); i++) {
        const char *value = option_of(plan, i);

        if (!value)
            continue;
        text_addf(out, ", %s ", keys[i].name);
        report_visible(out, value);
        if (value == plan->slurm.time && slurm_is_time(value, &seconds))
            add_length(out, seconds);
    }
    text_addc(out, '\n');
    if (inspection->device) {
        text_adds(out, "              checked for ");
        report_visible(out, inspection->device->name);
        if (inspection->storage.source) {
            text_adds(out, " (");
            report_visible(out, inspection->storage.source);
            text_addc(out, ')');
        }
        text_addc(out, '\n');
    }
    add_script(inspection, options, out);
}

static json_t *script_json(const struct inspection *inspection,
                           const struct options *options)
{
    struct error ignored = { 0 };
    struct text script;
    json_t *string;

    text_init(&script, 0);
    string = write_script(inspection, options, &script, &ignored)
                 ? report_json_string(script.data)
                 : json_null();
    text_clear(&script);
    return string;
}

json_t *plan_slurm_json(const struct inspection *inspection,
                        const struct options *options)
{
    const struct plan *plan = &inspection->patch.plan;
    json_t *object;
    int64_t seconds;

    if (!plan_slurm_is_due(plan))
        return json_null();
    object = json_object();
    json_object_set_new(object, "nodes", json_integer(nodes_of(plan)));
    json_object_set_new(object, "tasks_per_node", json_integer(tasks_of(plan)));
    for (size_t i = 0; i < TS_COUNT(keys); i++)
        json_object_set_new(object, keys[i].name,
                            option_of(plan, i) ? report_json_string(option_of(plan, i))
                                               : json_null());
    json_object_set_new(object, "time_seconds",
                        plan->slurm.time && slurm_is_time(plan->slurm.time, &seconds)
                            ? json_integer(seconds)
                            : json_null());
    json_object_set_new(object, "cpus_per_task",
                        plan->slurm.cpus_per_task > 0
                            ? json_integer(plan->slurm.cpus_per_task)
                            : json_null());
    json_object_set_new(object, "device_source",
                        inspection->storage.source
                            ? report_json_string(inspection->storage.source)
                            : json_null());
    json_object_set_new(object, "script", script_json(inspection, options));
    return object;
}
