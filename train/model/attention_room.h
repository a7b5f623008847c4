/* train/model/attention_room.h - memory for gradients of attention by cuDNN. */
#ifndef TRAIN_MODEL_ATTENTION_ROOM_H
#define TRAIN_MODEL_ATTENTION_ROOM_H

#include "train/model/model_config.h"
#include "train/plan.h"

/*
 * Bytes of backend_options.gradients_bytes for batches of this many rows and sequences: 0
 * unless the job allows gradients whose bits differ from run to run and the device has
 * kernels for them (compute capability 9.0 or newer, 16 bits). For each row that a
 * sequence might have and each query head:
 *
 *     4        delta, fp32
 *     4 D      dq, summed in fp32
 *     2 * 2 D  dk and dv in 16 bits, if several query heads share a key head
 *
 * as plans of cuDNN 9.19 for 9.0 request (docs/performance.md), and 1 MiB.
 */
size_t attention_room_bytes(const struct plan *plan, const struct model_config *config,
                            size_t rows, size_t sequences);

#endif
