/*
 * train/estimate.h - estimate of the memory that a run of a plan takes: from the layout
 * of train/model/shapes.h for a native run, from train/torch_memory.h for target
 * external.  The precision must be decided.
 */
#ifndef TRAIN_ESTIMATE_H
#define TRAIN_ESTIMATE_H

#include "train/model/model_config.h"
#include "train/plan.h"
#include "train/tower/tower_cost.h"

/* Images and sounds of the data.  0 everywhere: there are none, or they are unknown. */
struct estimate_media {
    size_t items;   /* different ones */
    size_t rows;    /* their rows of features */
    size_t batch;   /* of them, those of the largest batch */
    size_t largest; /* those of the largest item */
};

/* Values that are known only from the data. */
struct estimate_data {
    size_t rows, sequences; /* of the largest batch; 0: unknown, assume full batches */
    /* tokens of the longest prompt to answer; 0: unknown, or none */
    size_t asked;
    uint64_t resident; /* bytes of program, tokenizer and data; 0: unknown */
    size_t longest;    /* tokens of the longest sample; 0: unknown */
    size_t batch; /* the per_device_train_batch_size that rows and sequences belong to */
    struct estimate_media media;
};

/* Return the data as they would be with the batch and the length of a plan: exact for the
 * batch that was counted, else an upper bound. */
struct estimate_data estimate_data_of(const struct estimate_data *counted,
                                      const struct plan *plan);

/*
 * Estimate the memory of the plan; data NULL: unknown.  total is the expected value: for
 * a native run on a CPU the exact size of the block, with full batches if the data are
 * unknown (low then counts one row per sample, unless samples are packed).  limit stays
 * 0.  Fails if the plan does not fit the model.  Counts the teacher of a distillation
 * too: the size of its block if its files are known (plan->kd.config), else the size of
 * the files.  The encoder of images or sounds runs before the model is loaded, so it counts only
 * as far as it takes more; one that is trained counts with what it computes for the largest item.
 */
bool estimate_memory(const struct plan *plan, const struct model_config *config,
                     const struct estimate_data *data, struct memory_use *out,
                     struct error *err);

/* Estimate what the encoder of a run takes to compute the rows of features of an item with
 * media->largest of them, or to train with it, on the plan's device.  False if it computes
 * none: the data have no media, the job gives the rows, or the model has no encoder that is
 * supported. */
bool estimate_encoder(const struct plan *plan, const struct model_config *config,
                      const struct estimate_media *media, struct tower_cost *out);

/*
 * Estimate the peak resident memory of the process of a native run, as reported by
 * getrusage: reading the data, the block if the device is a CPU, buffers for loading and
 * saving (at most two of the largest tensor, in fp32).  Pages of mapped files are
 * released as they are read.  Returns false if `resident` is unknown, or if the device is
 * a GPU, because the host memory of its driver is unknown.
 */
bool estimate_resident(const struct plan *plan, const struct model_config *config,
                       const struct estimate_data *data, struct memory_range *out);

/*
 * Return the bytes of host memory that loading the model takes at once: with PyTorch the
 * whole model in each process (train/torch_memory.h); in a native run one tensor and its
 * conversion on a GPU, and nothing besides the block on a CPU.  0: unknown.
 */
uint64_t estimate_loading(const struct plan *plan, const struct model_config *config);

#endif
