/* precision/scaler.c - the loss scale: grow, back off, skip the step. */
#include "config.h"

#include "precision/scaler.h"

#include "base/error.h"
#include "precision/scaler_rule.h"

void scaler_init(struct scaler *scaler, const struct precision *precision)
{
    *scaler = (struct scaler) {
        .scaling = precision->scaling,
        .scale = precision->scaling == SCALING_NONE ? 1 : precision->loss_scale,
        .growth = 2,
        .backoff = 0.5,
        .interval = 2000,
    };
}

void scaler_record(struct scaler *scaler, bool finite)
{
    scaler_rule(scaler, finite);
}

bool scaler_diagnose(const struct scaler *scaler, struct error *err)
{
    if (scaler->skipped_in_row < SCALER_MAX_SKIPPED)
        return true;
    if (scaler->scaling == SCALING_DYNAMIC)
        return error_set(err, ERROR_DIVERGED,
                         "%d steps in a row had gradients that are inf or NaN, with the "
                         "loss scale down to %g: float16 cannot hold this model's "
                         "values; use bf16, or policy: fp32, or a smaller learning_rate",
                         SCALER_MAX_SKIPPED, scaler->scale);
    if (scaler->scaling == SCALING_STATIC)
        return error_set(err, ERROR_DIVERGED,
                         "%d steps in a row had gradients that are inf or NaN at the "
                         "static loss_scale %g; use loss_scale: dynamic, or a smaller "
                         "one",
                         SCALER_MAX_SKIPPED, scaler->scale);
    return error_set(err, ERROR_DIVERGED,
                     "%d steps in a row had gradients that are inf or NaN; the training "
                     "has diverged: use a smaller learning_rate, and check the data",
                     SCALER_MAX_SKIPPED);
}

bool scaler_update(struct scaler *scaler, bool finite, struct error *err)
{
    scaler_record(scaler, finite);
    if (!finite)
        scaler_diagnose(scaler, err);
    return finite;
}
