/*
 * kernels/cuda/cuda_tuning.h - which of the algorithms that the library proposes for a
 * matmul is used.
 *
 * In this order: what the checkpoint says from which the run resumed; what a file in the
 * user's cache folder says, one for each kind of card and version of the library; the
 * fastest of them, which is then added to that file. A choice is kept for the whole run.
 * Whatever the file does not say is settled, timed or not, under a lock of the file: so the
 * ranks of a run agree, and a later run of the same job gives the same bits.
 *
 * TRAINSPOOL_TUNE_MATMULS=0 in the environment disables timing; "all" also times matmuls
 * that are too small to be worth it.
 */
#ifndef KERNELS_CUDA_CUDA_TUNING_H
#define KERNELS_CUDA_CUDA_TUNING_H

#include "kernels/cuda/cuda_matmul.h"

/* dir: the cache folder; NULL: without a file, nothing is timed. */
struct cuda_tuning *cuda_tuning_new(const struct cuda_backend *cuda, const char *dir,
                                    struct error *err);
void cuda_tuning_free(struct cuda_tuning *tuning, bool dead); /* NULL is allowed */

/* Move the algorithm to use to the front of a plan. The operands of op are ready in the
 * stream, and so are all that the plan's descriptor points to. Data that op does not
 * overwrite does not change. */
void cuda_tuning_settle(struct cuda_backend *cuda, struct cuda_plan *plan,
                        const struct op_matmul *op);

/* choices and replay_choices of backend.h */
char *cuda_choices(struct backend *be);
void cuda_replay_choices(struct backend *be, const char *text, size_t len);

#endif
