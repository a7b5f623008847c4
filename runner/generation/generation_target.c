/*
 * runner/generation/generation_target.c - turns the name of a model or job into a plan
 * that only generates.
 */
#include "config.h"

#include "runner/generation/generation_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "patcher/schema/schema.h"
#include "train/checkpoint/checkpoint_find.h"

#define CONFIG_BYTES_MAX ((size_t)1 << 20)

static bool has(const char *dir, const char *name)
{
    char *path = path_join(dir, name);
    bool there = file_exists(path);

    free(path);
    return there;
}

/* A whole model has weights next to its config.json; an adapter has only its base model's
 * config. */
static bool is_adapter(const char *dir)
{
    return has(dir, "adapter_config.json");
}

static bool is_model(const char *dir)
{
    return has(dir, "config.json") && !is_adapter(dir);
}

/* Find the base model that the adapter names: relative to here, or to the adapter's
 * folder. */
static const char *find_base(struct generation_target *target, const char *dir,
                             struct error *err)
{
    char *path = path_join(dir, "adapter_config.json"), *adjacent;
    json_t *root = json_read_file(path, CONFIG_BYTES_MAX, err);
    const char *name =
        root ? json_get_string(root, "base_model_name_or_path", NULL, path, err) : NULL;
    const char *base = NULL;

    if (name && is_model(name)) {
        base = arena_strdup(target->arena, name);
    } else if (name && name[0] != '/') {
        adjacent = path_join(dir, name);
        base = is_model(adjacent) ? arena_strdup(target->arena, adjacent) : NULL;
        free(adjacent);
    }
    if (root && !base)
        error_set(err, ERROR_DATA,
                  "%s: cannot find %s, the base model of the adapter; write its folder "
                  "there",
                  path, name ? name : "(none)");
    json_decref(root);
    free(path);
    return base;
}

/* Reset what the plan says about training. */
static void generate_alone(struct plan *plan, const char *model, const char *adapter)
{
    plan->model_name_or_path = model;
    plan->adapter_name_or_path = adapter;
    plan->method = adapter ? METHOD_LORA : METHOD_FULL;
    plan->stage = plan->stage == STAGE_PT ? STAGE_PT : STAGE_SFT;
    plan->train_from_scratch = false;
    plan->gradient_accumulation_steps = 1;
    plan->per_device_train_batch_size = 1;
    plan->ranks = 1;
    plan->precision.has_frozen = true;
    if (!plan_is_quantized(plan))
        plan->precision.frozen =
            FORMAT_FP32; /* keep matrices in the compute format anyway */
    plan->precision.trainable = FORMAT_FP32;
    plan->generation.on = plan->generation.alone = true;
}

/* How images and sounds are prepared. */
static const char *const media_keys[] = { "image_max_pixels", "image_min_pixels",
                                          "audio_sampling_rate" };

/* A folder does not say the precision: use fp32, or on a GPU the format in which it
 * computes fast. */
static bool open_folder(struct generation_target *target, const struct machine *machine,
                        const char *dir, struct error *err)
{
    struct plan *plan = &target->plan;
    bool adapter = is_adapter(dir);
    const char *model = adapter ? find_base(target, dir, err) : dir;

    *plan = (struct plan) { .dir = ".",
                            .seed = 42,
                            .enable_thinking = true,
                            .per_device_eval_batch_size = 8,
                            .generation = { .max_new_tokens = 256,
                                            .temperature = 1,
                                            .top_p = 1,
                                            .repetition_penalty = 1 } };
    for (size_t i = 0; i < TS_COUNT(media_keys); i++)
        schema_set(media_keys[i], schema_find(media_keys[i])->default_value,
                   target->arena, plan, NULL);
    if (!model || !machine_device(machine, "", 0, &plan->device, err))
        return false;
    plan->precision.loss_scale = 1;
    plan->precision.compute =
        plan->device.kind == DEVICE_CUDA && device_has_bf16(&plan->device) ? FORMAT_BF16
                                                                           : FORMAT_FP32;
    target->folder = dir;
    generate_alone(plan, model, adapter ? dir : NULL);
    return true;
}

static bool no_model(const struct plan *plan, const char *job, struct error *err)
{
    char *last = checkpoint_last(plan->output_dir, NULL, false, NULL);

    if (last)
        error_set(
            err, ERROR_DATA,
            "%s: there is no model in %s yet, only a checkpoint; name its folder, %s",
            job, plan->output_dir, last);
    else
        error_set(err, ERROR_DATA,
                  "%s: there is no model in %s yet; run the job, or name a folder such "
                  "as %s",
                  job, plan->output_dir,
                  plan->model_name_or_path ? plan->model_name_or_path : "models/x");
    free(last);
    return false;
}

static bool open_job(struct generation_target *target, const struct machine *machine,
                     const char *job, struct error *err)
{
    struct inspect_options how = { .machine = machine, .job = job };
    struct plan *plan = &target->plan;
    const char *made;

    target->is_job = true;
    if (!inspect_job(&how, &target->inspection, err))
        return false;
    if (!target->inspection.patch.has_plan)
        return error_set(err, ERROR_JOB, "%s: the file is not a job", job);
    *plan = target->inspection.patch.plan;
    made = target->folder = plan->output_dir;
    if (is_adapter(made) && plan->adapter_name_or_path && plan->create_new_adapter)
        return error_set(err, ERROR_DATA,
                         "%s was trained on top of another adapter; give the job an "
                         "export_dir, and name that folder",
                         made);
    if (is_adapter(made))
        generate_alone(plan, plan->model_name_or_path, made);
    else if (is_model(made))
        generate_alone(plan, made, NULL);
    else
        return no_model(plan, job, err);
    if (is_model(made)) /* its config.json has the scaling */
        plan->rope_scaling = ROPE_SCALING_NONE;
    return true;
}

bool generation_target_open(struct generation_target *target,
                            const struct machine *machine, const char *operand,
                            struct error *err)
{
    *target = (struct generation_target) { .arena = arena_new() };
    if (is_model(operand) || is_adapter(operand))
        return open_folder(target, machine, operand, err);
    if (file_is_dir(operand))
        return error_set(err, ERROR_DATA,
                         "%s has neither config.json nor adapter_config.json: it is not "
                         "a model, checkpoint or adapter",
                         operand);
    if (!file_exists(operand))
        return error_set(err, ERROR_DATA,
                         "there is no %s; name the folder of a model, a checkpoint or "
                         "an adapter, or a job",
                         operand);
    return open_job(target, machine, operand, err);
}

void generation_target_close(struct generation_target *target)
{
    inspect_clear(&target->inspection);
    arena_free(target->arena);
}
