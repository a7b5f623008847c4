/* train/model/saved_tensors.h - the tensors of saved models, and how each is read. */
#ifndef TRAIN_MODEL_SAVED_TENSORS_H
#define TRAIN_MODEL_SAVED_TENSORS_H

#include "base/arena.h"
#include "train/files/safetensors.h"
#include "train/model/model.h"

/* Return whether a parameter (by index) is one of the base, not of an adapter. */
bool saved_is_base(const struct model *m, size_t index);
/* Return whether it is in TRL's file of a head. */
bool saved_in_value_head(const struct model *m, size_t index);
/* Return the format in which a parameter of the base is saved if it is merged or not
 * trained.  transformers keeps buffers of routers in fp32, as files have them. */
enum format saved_base_format(const struct model *m, size_t index);

/* Return whether a tensor of the base's files belongs to an encoder, or to a projector that
 * is not trained. */
bool saved_is_tower(const struct model *m, const char *name);
/* The same of parameters of runs, which may be adapters in an encoder. */
bool saved_is_of_frozen_tower(const struct model *m, const char *name);
/* Return a parameter as it is in memory, under a name. */
struct tensor_source saved_source(const struct model *m, size_t index, const char *name);
/* List the tensors of the file of a value head, at most two; returns how many. */
size_t saved_list_value_head(const struct model *m, struct tensor_source *sources);
/* Return whether the head is trained because it is the embedding. */
bool saved_trains_tied_head(const struct model *m);
/* Return whether the run saves an adapter, not a whole model. */
bool saved_is_adapter(const struct model *m);
/* List the tensors of the adapter, at most one more than the model has parameters; returns how
 * many. */
size_t saved_list_adapter(const struct model *m, struct arena *arena,
                          struct tensor_source *sources);
/* List the whole base: trained parameters as they are (exact, for a resume), the rest from
 * its files; or, merged, all with adapters.  Returns how many tensors. */
size_t saved_list_whole(const struct model *m, bool merged, struct arena *arena,
                        struct tensor_source *sources);
/* Return whether one of these is read from the base's files. */
bool saved_is_frozen(const struct tensor_source *source);
/* Return an upper bound of that number. */
size_t saved_count_whole(const struct model *m);

#endif
