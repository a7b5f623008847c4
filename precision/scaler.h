/*
 * precision/scaler.h - the loss scale: grow, back off, skip the step.
 * Follows torch.amp.GradScaler (start 65536, x2 after 2000 good steps in a row, x0.5 on
 * overflow; torch/amp/grad_scaler.py), with two additions from Megatron and DeepSpeed: a
 * floor of 1, and an abort with a diagnosis after 50 skipped steps in a row instead of an
 * endless loop.
 */
#ifndef PRECISION_SCALER_H
#define PRECISION_SCALER_H

#include "precision/policy.h"

/* All of it is state; a checkpoint stores it unchanged. */
struct scaler {
    enum scaling scaling;
    double scale; /* 1 or more; the loss is multiplied by it */
    double growth, backoff;
    int64_t interval; /* good steps before it grows */
    int64_t good;     /* good steps since the last change */
    int64_t skipped;  /* steps skipped in all */
    int64_t skipped_in_row;
};

#define SCALER_START       65536.0
#define SCALER_MAX_SKIPPED 50

void scaler_init(struct scaler *scaler, const struct precision *precision);
/*
 * Update the scale after a backward pass; `finite` says whether every gradient was
 * finite. precision/scaler_rule.h has the rule, which also runs on a GPU.
 */
void scaler_record(struct scaler *scaler, bool finite);
/* Return false with *err set (ERROR_DIVERGED, and what to do) if SCALER_MAX_SKIPPED or
 * more steps in a row were skipped. */
bool scaler_diagnose(const struct scaler *scaler, struct error *err);
/*
 * Call scaler_record and scaler_diagnose.  Return true if the step may be applied: a step
 * that is not finite is skipped in every mode (with bf16 and fp32 too: one inf would
 * poison all weights).
 */
bool scaler_update(struct scaler *scaler, bool finite, struct error *err);

#endif
