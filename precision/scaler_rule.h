/*
 * precision/scaler_rule.h - the update rule of the loss scale, for host and device
 * (scaler_record, kernels/step_decision.h).
 */
#ifndef PRECISION_SCALER_RULE_H
#define PRECISION_SCALER_RULE_H

#include "precision/scaler.h"

#ifdef __CUDACC__
#define SCALER_CALL static __host__ __device__ inline
#else
#define SCALER_CALL static inline
#endif

SCALER_CALL void scaler_rule(struct scaler *scaler, bool finite)
{
    if (!finite) {
        scaler->skipped++;
        scaler->skipped_in_row++;
        scaler->good = 0;
        if (scaler->scaling == SCALING_DYNAMIC) {
            scaler->scale *= scaler->backoff;
            if (scaler->scale < 1)
                scaler->scale = 1;
        }
        return;
    }
    scaler->skipped_in_row = 0;
    if (scaler->scaling == SCALING_DYNAMIC && ++scaler->good == scaler->interval) {
        scaler->good = 0;
        if (scaler->scale * scaler->growth < 0x1p127) /* stays an fp32 */
            scaler->scale *= scaler->growth;
    }
}

#endif
