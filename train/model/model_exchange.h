/* train/model/model_exchange.h - weights and gradients between ranks. */
#ifndef TRAIN_MODEL_MODEL_EXCHANGE_H
#define TRAIN_MODEL_MODEL_EXCHANGE_H

#include "train/model/model_internal.h"

/* Take part in the backward pass of a micro-batch that only other ranks have. */
void model_follow_backward(struct model *model);

/* model_gather.c.  If blocks are sharded: make the matrices of block `layer` ready, and
 * begin to gather those of block `next`, if there is such a block. */
void model_use_block(struct model *model, size_t layer, size_t next);
/* Return whether the window of a block has its matrices. */
bool model_holds_block(const struct model *model, size_t layer);
/* What the windows hold has changed. */
void model_drop_windows(struct model *model);
/* Copy the folded adapters of a block to its window. */
void model_fill_window(const struct pass *pass, size_t layer);
/* Announce a pass that other ranks do not know of. */
void model_announce(struct model *model);
/* Take part in the forward pass of another rank. */
void model_follow_forward(struct model *model);
/* Upload bytes of a frozen parameter; of a gathered one those in this rank's shard. */
void model_upload_frozen(struct model *model, const struct parameter *p, void *to,
                         const void *from, size_t bytes);
/* Return whether this rank keeps a part of a parameter. */
bool model_keeps(const struct model *model, const struct parameter *p);

/* Elements, or bytes, that are divided among ranks in equal pieces of `shard`. */
struct divided {
    size_t at, count, item; /* item: bytes of each */
    size_t shard;
    char *data; /* of the first */
};
/* Return what this rank has of them. */
struct model_shard model_part(const struct model *model, size_t at, size_t count,
                              size_t shard);
/* Send each piece from its rank to the others. */
void model_send_pieces(struct model *model, const struct divided *all);

/* model_send.c: while a rank is the writer, model_read_weight of a sharded weight sends it
 * the parts of all ranks.  All make the same calls, the others with `to` NULL. */
void model_set_writer(struct model *model, size_t rank);
/* The same of elements of the segments. */
bool model_send_weight(const struct model *model, size_t first, size_t count, void *to,
                       struct error *err);

/* model_shard.c: set this rank's part of a sharded weight to its copy. */
void model_widen_copy(struct model *model, const struct parameter *p);
/* Begin the reductions of a micro-batch. */
void model_begin_reductions(struct model *model);
/* Before the backward pass of the levels down to `level`: wait until their lane is free.
 * A safeguard: trained levels that follow each other have different lanes today. */
void model_free_lane(struct model *model, size_t level);
/* Reduce the gradients of `level` and above, as far as buckets are full. */
void model_reduce_to_level(struct model *model, size_t level);
/* Reduce all remaining gradients, before the next operation. */
void model_reduce_remaining(struct model *model);
/* Return the next level that fills a bucket; 0 if none does. */
size_t model_next_reduction(const struct model *model);
/* After the last micro-batch of this rank: take part in the reductions of other ranks'. */
void model_reduce_others(struct model *model);

#endif
