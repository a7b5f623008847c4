/* precision/memory.h - the bytes a plan needs, and the bytes there are. */
#ifndef PRECISION_MEMORY_H
#define PRECISION_MEMORY_H

#include "precision/device.h"

struct memory_use {
    uint64_t weights;     /* trainable and frozen, with 16-bit working copies */
    uint64_t gradients;
    uint64_t optimizer;   /* both moments */
    uint64_t activations; /* what the backward pass needs, and its own gradients */
    uint64_t workspace;   /* classifier chunks, packed panels, tokens */
    uint64_t total;
    uint64_t limit;       /* what the job may use; 0: not known */
    bool fits;            /* total <= limit, or limit not known */
};

/* `wanted` is memory_limit of the job: NULL (95 % of what is available), "80%" (of what is
 * available), or bytes ("12GiB").  ERROR_JOB if it is none of these. */
bool memory_limit(const char *wanted, const struct device *device, uint64_t *out,
                  struct error *err);
/* Sum up, compare. */
void memory_finish(struct memory_use *use, uint64_t limit);
/* "1.9 GiB" */
void memory_text(uint64_t bytes, char out[16]);

#endif
