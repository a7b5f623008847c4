/* train/teacher/teacher_plan.c - derives the plan of a teacher or a reference from a
 * student's. */
#include "config.h"

#include "train/teacher/teacher_plan.h"

#include "train/files/safetensors.h"
#include "train/model/rope_scaling.h"
#include "train/model/shapes.h"

/* A reference has the positions of the trained model; a teacher has its own. */
static bool read_config(const struct plan *student, const char *folder,
                        struct arena *arena, struct model_config *out, struct error *err)
{
    if (student->stage == STAGE_DISTILL)
        return model_config_read(folder, arena, out, err);
    return rope_scaling_read_config(student, folder, arena, out, err);
}

static bool read_files(const struct plan *student, const char *folder,
                       struct arena *arena, struct teacher_plan *out, enum format *format,
                       struct error *err)
{
    const struct distillation_settings *kd = &student->kd;
    struct safetensors *set;

    if (kd->config &&
        (student->stage == STAGE_DISTILL || student->rope_scaling == ROPE_SCALING_NONE)) {
        out->config = *kd->config;
        *format = kd->format;
        return true;
    }
    if (!read_config(student, folder, arena, &out->config, err))
        return false;
    set = safetensors_open(folder, "model", true, err);
    if (!set)
        return false;
    *format = model_config_weight_format(&out->config, set);
    safetensors_close(set);
    return true;
}

static struct precision precision_of(const struct plan *student, enum format stored)
{
    struct precision p = {
        .mode = MODE_FP32,
        .compute = stored,
        .trainable = FORMAT_FP32,
        .has_frozen = true,
        .frozen = stored,
        .loss_scale = 1,
    };

    if (stored == FORMAT_BF16 && !device_has_bf16(&student->device))
        p.compute = FORMAT_FP32;
    if (stored != FORMAT_FP16 && stored != FORMAT_BF16)
        p.compute = p.frozen = FORMAT_FP32;
    if (p.compute == FORMAT_FP32 && student->precision.compute == FORMAT_TF32)
        p.compute = FORMAT_TF32;
    return p;
}

/* A reference computes in the format of the trained model, so that both start with the
 * same values. */
static struct precision precision_of_reference(const struct plan *student,
                                               enum format stored)
{
    struct precision p = precision_of(student, stored);

    p.compute = student->precision.compute;
    return p;
}

static const char *folder_of(const struct plan *student)
{
    if (student->stage == STAGE_DISTILL)
        return student->kd.teacher;
    return student->preference.reference ? student->preference.reference
                                         : student->model_name_or_path;
}

/* Student and reference read the same rows of features: either both project them or none. */
static bool share_rows(const struct plan *student, struct teacher_plan *out,
                       struct error *err)
{
    const bool projects = shapes_projects(student, &out->config);

    out->plan.generation.projects = projects;
    return projects || !shapes_projects(&out->plan, &out->config) ||
           error_set(err, ERROR_JOB,
                     "the adapter of the reference has a projector of its own, and the "
                     "job does not train the projector, so both would need other rows of "
                     "features; train it, too (additional_target, or "
                     "freeze_multi_modal_projector: false), or use another adapter");
}

bool teacher_plan_make(const struct plan *student, bool keeps, struct arena *arena,
                       struct teacher_plan *out, struct error *err)
{
    bool distills = student->stage == STAGE_DISTILL;
    const char *folder = folder_of(student);
    struct plan *plan = &out->plan;
    enum format stored;

    if (!folder)
        return error_set(
            err, ERROR_JOB, "stage: distill requires teacher_model_name_or_path%s",
            student->kd.logits ? ", or the file that teacher_logits names" : "");
    if (!read_files(student, folder, arena, out, &stored, err))
        return false;
    *plan = *student;
    plan->model_name_or_path = folder;
    plan->adapter_name_or_path =
        distills ? student->kd.adapter : student->preference.adapter;
    plan->method = METHOD_LORA; /* an adapter is merged */
    plan->create_new_adapter = plan->train_from_scratch = false;
    plan->generation = (struct generation) { .alone = true };
    plan->per_device_train_batch_size = (int64_t)plan_batch_sequences(student);
    plan->stage = keeps ? STAGE_DISTILL : STAGE_SFT;
    plan->gradient_accumulation_steps = 1;
    if (keeps || student->zero_stage < 3) /* a file of logits is made by rank 0 alone */
        plan->ranks = 1;
    plan->quantization_bit = 0;
    plan->gradient_checkpointing = false;
    plan->precision = distills ? precision_of(student, stored)
                               : precision_of_reference(student, stored);
    return distills || share_rows(student, out, err);
}

bool teacher_plan_shared_tokens(const struct model_config *teacher,
                                const struct model_config *student, size_t tokens,
                                size_t *shared, struct error *err)
{
    size_t a = teacher->vocab_size, b = student->vocab_size;

    *shared = a < b ? a : b;
    if (a == b || tokens <= *shared)
        return true;
    return error_set(
        err, ERROR_DATA,
        "the teacher has a vocabulary of %zu tokens, the student of %zu (vocab_size "
        "in config.json), and the tokenizer has %zu: logits are compared token by "
        "token, so use a teacher of the same family",
        a, b, tokens);
}
