/*
 * precision/scaler.h - the loss scale: grow, back off, skip the step.
 *
 * As torch.amp.GradScaler (start 65536, x2 after 2000 good steps in a row, x0.5 on
 * overflow; torch/amp/grad_scaler.py), with what Megatron and DeepSpeed add: a floor of
 * 1, and an end with a diagnosis after 50 skipped steps in a row instead of an endless
 * loop.
 */
#ifndef PRECISION_SCALER_H
#define PRECISION_SCALER_H

#include "precision/policy.h"

/* All of it is state; a checkpoint keeps it as it is. */
struct scaler {
    enum scaling scaling;
    double scale; /* 1 or more; what the loss is multiplied by */
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
 * After a backward pass: `finite` tells whether every gradient was.  The rule alone, for
 * who applies it where no message can be written (struct op_decide of kernels/ops.h).
 */
void scaler_note(struct scaler *scaler, bool finite);
/* false with *err set (ERROR_DIVERGED, and what to do) when SCALER_MAX_SKIPPED steps or
 * more in a row were skipped. */
bool scaler_diagnose(const struct scaler *scaler, struct error *err);
/*
 * Both.  Returns true if the step may be made: one that is not finite is skipped in every
 * mode (with bf16 and fp32 too: one inf would poison all weights).
 */
bool scaler_update(struct scaler *scaler, bool finite, struct error *err);

#endif
