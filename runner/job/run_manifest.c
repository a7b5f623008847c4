/* runner/job/run_manifest.c - writes run.json when everything is open, before the first
 * step. */
#include "config.h"

#include "runner/job/run_manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "runner/job/plan_json.h"
#include "runner/job/plan_rewards.h"
#include "runner/output/report_json.h"
#include "train/criterion.h"

static json_t *model_object(const struct plan *plan, const struct run_info *facts)
{
    json_t *object = json_object();

    json_object_set_new(object, "path", report_json_string(plan->model_name_or_path));
    json_object_set_new(object, "method", json_string(plan_method_name(plan)));
    if (plan->method == METHOD_OFT)
        json_object_set_new(object, "oft_block_size", json_integer(plan->oft_block_size));
    if (plan->method == METHOD_LORA)
        json_object_set_new(object, "lora_rank", json_integer(plan->lora_rank));
    json_object_set_new(object, "parameters",
                        json_integer((json_int_t)facts->parameters));
    json_object_set_new(object, "trainable", json_integer((json_int_t)facts->trainable));
    return object;
}

static json_t *data_object(const struct run_info *facts)
{
    static const char *const names[] = { "samples", "eval_samples", "tokens", "longest" };
    int64_t values[] = { (int64_t)facts->samples, (int64_t)facts->eval_samples,
                         (int64_t)facts->tokens, (int64_t)facts->longest };

    return plan_json_integers(names, values, 4);
}

/* Say which evaluation is the best. */
static json_t *evaluation_object(const struct plan *plan)
{
    json_t *object = json_object();

    json_object_set_new(object, "metric", json_string(criterion_name(plan)));
    json_object_set_new(object, "greater_is_better",
                        json_boolean(criterion_is_better(plan, 1, 0)));
    return object;
}

static json_t *steps_object(const struct run_info *facts)
{
    static const char *const names[] = { "per_epoch", "total", "first" };
    int64_t values[] = { facts->steps_per_epoch, facts->steps, facts->first };

    return plan_json_integers(names, values, 3);
}

/* Return what follows `key` and a colon in the first such line of a system file; empty if
 * there is none. */
static void system_line(const char *name, const char *key, char out[128])
{
    FILE *file = fopen(name, "re");
    char line[256], *value;

    out[0] = 0;
    while (file && !out[0] && fgets(line, sizeof(line), file))
        if (text_starts(line, key) && (value = strchr(line, ':'))) {
            value += 1 + strspn(value + 1, " \t");
            snprintf(out, 128, "%.*s", (int)strcspn(value, "\n"), value);
        }
    if (file)
        fclose(file);
}

static json_t *environment_object(const struct plan *plan, const struct run_info *facts)
{
    json_t *object = json_object();
    struct utsname system;
    char cpu[128], driver[128] = "", line[256] = "";

    system_line("/proc/cpuinfo", "model name", cpu);
    if (plan->device.kind == DEVICE_CUDA)
        system_line("/proc/driver/nvidia/version", "NVRM version", driver);
    if (uname(&system) == 0)
        snprintf(line, sizeof(line), "%.60s %.100s %.60s", system.sysname, system.release,
                 system.machine);
    json_object_set_new(object, "device", report_json_device(&plan->device));
    json_object_set_new(object, "backend", report_json_string(facts->backend));
    json_object_set_new(object, "driver",
                        driver[0] ? report_json_string(driver) : json_null());
    json_object_set_new(object, "cpu", report_json_string(cpu));
    json_object_set_new(object, "system", report_json_string(line));
    json_object_set_new(object, "threads", json_integer(facts->threads));
    return object;
}

static json_t *facts_object(const struct plan *plan, const struct run_info *facts)
{
    json_t *object = json_object();
    char now[32], program[DIGEST_TEXT];

    clock_iso(now);
    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "version", json_string(PACKAGE_VERSION));
    json_object_set_new(object, "program_sha256",
                        digest_file("/proc/self/exe", program, NULL)
                            ? json_string(program)
                            : json_null());
    json_object_set_new(object, "started", json_string(now));
    json_object_set_new(object, "job", report_json_string(plan->job));
    json_object_set_new(object, "model", model_object(plan, facts));
    json_object_set_new(object, "data", data_object(facts));
    json_object_set_new(object, "precision", plan_json_precision(plan));
    json_object_set_new(object, "distillation", plan_json_distillation(plan));
    json_object_set_new(object, "preference", plan_json_preference(plan));
    json_object_set_new(object, "reinforcement", plan_rewards_json(plan));
    json_object_set_new(object, "batch", plan_json_batch(plan));
    json_object_set_new(object, "steps",
                        plan_only_evaluates(plan) ? json_null() : steps_object(facts));
    json_object_set_new(object, "evaluation", evaluation_object(plan));
    json_object_set_new(object, "memory", plan_json_memory(&facts->memory));
    json_object_set_new(object, "environment", environment_object(plan, facts));
    return object;
}

bool run_manifest_write(const struct job *job, const struct plan *plan,
                        const struct run_info *facts, struct error *err)
{
    json_t *object = facts_object(plan, facts);
    char *name = path_join(job->run_dir, "run.json");
    struct text text;
    bool ok;

    text_init(&text, 0);
    ok = json_write(object, &text) && text_addc(&text, '\n')
             ? file_replace(name, text.data, text.len, 0644, err)
             : error_set(err, ERROR_SYSTEM, "%s does not fit into memory", name);
    json_decref(object);
    text_clear(&text);
    free(name);
    return ok;
}
