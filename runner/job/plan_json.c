/*
 * runner/job/plan_json.c - builds the objects of plan --json, without what only the plan
 * command knows.
 */
#include "config.h"

#include "runner/job/plan_json.h"

#include <math.h>

#include "base/size.h"
#include "patcher/rules/teacher.h"
#include "runner/output/report_json.h"

/* 65536, not 65536.0 */
static json_t *whole(double value)
{
    if (value >= 1 && value <= 9007199254740992.0 && value == floor(value))
        return json_integer((json_int_t)value);
    return json_number(value);
}

json_t *plan_json_precision(const struct plan *plan)
{
    const struct precision *precision = &plan->precision;
    json_t *object = json_object();

    json_object_set_new(object, "mode", json_string(mode_names[precision->mode]));
    json_object_set_new(object, "compute_dtype",
                        json_string(format_dtype(precision->compute)));
    json_object_set_new(object, "trainable_dtype",
                        json_string(format_dtype(precision->trainable)));
    json_object_set_new(object, "frozen_dtype",
                        precision->has_frozen
                            ? json_string(format_dtype(precision->frozen))
                            : json_null());
    json_object_set_new(object, "quantization_bit",
                        plan_is_quantized(plan) ? json_integer(plan->quantization_bit)
                                                : json_null());
    json_object_set_new(object, "loss_scaling",
                        json_string(scaling_names[precision->scaling]));
    json_object_set_new(object, "loss_scale", whole(precision->loss_scale));
    json_object_set_new(object, "max_grad_norm", json_number(precision->max_grad_norm));
    json_object_set_new(object, "message", report_json_string(precision->message));
    return object;
}

static json_t *path_or_null(const char *path)
{
    return path ? report_json_string(path) : json_null();
}

json_t *plan_json_distillation(const struct plan *plan)
{
    const struct distillation_settings *kd = &plan->kd;
    json_t *object;

    if (plan->stage != STAGE_DISTILL)
        return json_null();
    object = json_object();
    json_object_set_new(object, "teacher", path_or_null(kd->teacher));
    json_object_set_new(object, "adapter", path_or_null(kd->adapter));
    json_object_set_new(object, "teacher_logits", path_or_null(kd->logits));
    json_object_set_new(object, "dtype",
                        kd->config ? json_string(format_dtype(kd->format)) : json_null());
    json_object_set_new(object, "bytes", json_integer((json_int_t)plan->teacher_bytes));
    json_object_set_new(object, "kd_ratio", json_number(kd->ratio));
    json_object_set_new(object, "kd_temperature", json_number(kd->temperature));
    json_object_set_new(object, "kd_beta", json_number(kd->beta));
    json_object_set_new(object, "kd_topk",
                        kd->topk > 0 ? json_integer(kd->topk) : json_null());
    return object;
}

json_t *plan_json_preference(const struct plan *plan)
{
    const struct preference *preference = &plan->preference;
    const struct distillation_settings *second = &plan->kd;
    json_t *object;

    if (!plan_prefers(plan))
        return json_null();
    object = json_object();
    json_object_set_new(object, "pref_loss", json_string(ref_model_loss(plan)));
    if (plan->stage == STAGE_RM) {
        json_object_set_new(object, "center_rewards_coefficient",
                            json_number(preference->center));
        return object;
    }
    json_object_set_new(object, "pref_beta", json_number(preference->beta));
    json_object_set_new(object, "pref_ftx", json_number(preference->ftx));
    json_object_set_new(object, "dpo_label_smoothing",
                        json_number(preference->label_smoothing));
    if (plan->stage == STAGE_KTO) {
        json_object_set_new(object, "kto_chosen_weight",
                            json_number(preference->chosen_weight));
        json_object_set_new(object, "kto_rejected_weight",
                            json_number(preference->rejected_weight));
    }
    json_object_set_new(object, "simpo_gamma", json_number(preference->simpo_gamma));
    json_object_set_new(object, "reference",
                        json_string(ref_model_names[ref_model_of(plan)]));
    json_object_set_new(object, "ref_model", path_or_null(teacher_folder(plan)));
    json_object_set_new(object, "ref_model_adapters",
                        path_or_null(teacher_adapter(plan)));
    json_object_set_new(object, "dtype",
                        second->config ? json_string(format_dtype(second->format))
                                       : json_null());
    json_object_set_new(object, "bytes", json_integer((json_int_t)plan->teacher_bytes));
    return object;
}

json_t *plan_json_integers(const char *const names[], const int64_t values[],
                           size_t count)
{
    json_t *object = json_object();

    for (size_t i = 0; i < count; i++)
        json_object_set_new(object, names[i], json_integer(values[i]));
    return object;
}

json_t *plan_json_batch(const struct plan *plan)
{
    static const char *const names[] = { "per_device_train_batch_size",
                                         "gradient_accumulation_steps", "devices",
                                         "effective" };
    int64_t values[] = { plan->per_device_train_batch_size,
                         plan->gradient_accumulation_steps, (int64_t)plan_ranks(plan),
                         plan->per_device_train_batch_size *
                             plan->gradient_accumulation_steps *
                             (int64_t)plan_ranks(plan) };

    if (!plan_trains(plan))
        return json_null();
    return plan_json_integers(names, values, 4);
}

json_t *plan_json_evaluation(const struct plan *plan)
{
    json_t *object;

    if (!plan_only_evaluates(plan))
        return json_null();
    object = json_object();
    json_object_set_new(object, "loss", json_boolean(plan_evaluates_loss(plan)));
    json_object_set_new(object, "answers", json_boolean(plan->generation.on));
    json_object_set_new(object, "per_device_eval_batch_size",
                        json_integer(plan->per_device_eval_batch_size));
    return object;
}

json_t *plan_json_memory(const struct memory_use *use)
{
    static const char *const names[] = { "weights",     "gradients", "optimizer",
                                         "activations", "workspace", "total",
                                         "low",         "high",      "limit",
                                         "host" };
    int64_t values[] = { (int64_t)use->weights,   (int64_t)use->gradients,
                         (int64_t)use->optimizer, (int64_t)use->activations,
                         (int64_t)use->workspace, (int64_t)use->total,
                         (int64_t)use->low,       (int64_t)use->high,
                         (int64_t)use->limit,     (int64_t)use->host };

    return plan_json_integers(names, values, TS_COUNT(names));
}
