/*
 * train/estimate.h - the memory a run of a plan takes: by the layout of train/model/shapes.h
 * where it trains here, by train/torch_memory.h for target external.  Precision is
 * decided.
 */
#ifndef TRAIN_ESTIMATE_H
#define TRAIN_ESTIMATE_H

#include "train/model/model_config.h"
#include "train/plan.h"

/* What only the data tell. */
struct estimate_data {
    size_t rows,
        sequences; /* of the largest batch; 0: not known, full ones are counted */
    /* tokens of the longest question to answer; 0: not known, or none */
    size_t asked;
    uint64_t resident; /* bytes of program, tokenizer and data; 0: not known */
};

/*
 * data NULL: not known.  total is what is expected: for a native run on a CPU the block
 * to the byte, of full batches where the data are not known (low then counts one row a
 * sample, unless samples are packed).  limit is left 0.  False where the plan and the
 * model do not go together.  A distillation's teacher is counted: its own block, where
 * its files are known (plan->kd.config), else their bytes.
 */
bool estimate_memory(const struct plan *plan, const struct model_config *config,
                     const struct estimate_data *data, struct memory_use *out,
                     struct error *err);

/*
 * The most that a native run's process has of the host's memory, as getrusage tells it:
 * what reading the data took, the block where the device is a CPU, buffers of loading and
 * saving (at most two of the largest tensor, in fp32).  Pages of mapped files go as they
 * are read. False where `resident` is not known, or the device is a GPU, whose driver
 * takes what it takes.
 */
bool estimate_resident(const struct plan *plan, const struct model_config *config,
                       const struct estimate_data *data, struct memory_range *out);

/*
 * Bytes of the host's memory that loading the model takes at once: of PyTorch all of it
 * in each process (train/torch_memory.h); of ours, on a GPU, one tensor and its
 * conversion, on a CPU nothing besides the block.  0: not known.
 */
uint64_t estimate_loading(const struct plan *plan, const struct model_config *config);

#endif
