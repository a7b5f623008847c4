/*
 * train/checkpoint/optimizer_file.h - moments in a checkpoint, and weights that its model
 * files do not have as they are.
 *
 * A process alone writes trainspool_optimizer.safetensors.  Of several ranks each writes its
 * part, without the others, to trainspool_optimizer-00001-of-00004.safetensors and so on, and
 * rank 0 writes an index.  A tensor of which a rank has only elements [first, end) is there
 * as NAME[first:end].  Any number of ranks reads any number of files.
 */
#ifndef TRAIN_CHECKPOINT_OPTIMIZER_FILE_H
#define TRAIN_CHECKPOINT_OPTIMIZER_FILE_H

#include "train/model/model.h"
#include "train/model/save_share.h"

/* Return whether a checkpoint has such files. */
bool optimizer_file_exists(const char *dir);

/* Write the file of this rank, if it has a part; a process alone, all. */
void optimizer_file_write(struct save_share *share, struct model *model);
/* Rank 0: write the file of another rank, which does not see the folder. */
void optimizer_file_write_for(struct save_share *share, struct model *model, size_t rank);
/* Rank 0: write the index, unless it is alone. */
bool optimizer_file_write_index(const struct save_share *share, struct model *model,
                                struct error *err);

struct optimizer_file;

struct optimizer_file *optimizer_file_open(const char *dir, struct error *err);
void optimizer_file_close(struct optimizer_file *file); /* NULL is allowed */

/* A tensor in a format that the run requires. */
struct optimizer_weight {
    const void *data; /* NULL: the file does not have it */
    void *copy;       /* malloc'ed, or NULL: what data points to */
};

/* Find the weight of a parameter. */
bool optimizer_file_weight(const struct optimizer_file *file, const struct parameter *p,
                           struct optimizer_weight *out, struct error *err);
/* ERROR_JOB if the checkpoint has moments of a tensor that this run freezes, so that it would
 * begin again with the weights of the model's files. */
bool optimizer_file_check_frozen(const struct optimizer_file *file, struct model *model,
                                 const char *dir, struct error *err);
/* Fail for such a tensor. */
bool optimizer_file_refuse_frozen(const char *name, const char *dir, struct error *err);
/* Load this rank's moments of a parameter. */
bool optimizer_file_load(const struct optimizer_file *file, struct model *model,
                         const struct parameter *p, struct error *err);

/* Check that a stored tensor has `count` elements and the format, or one that widens to it;
 * NULL: it is missing. */
bool optimizer_file_check(const struct stored_tensor *stored, size_t count,
                          enum format format, const char *name, struct error *err);
/* Return a stored tensor in a format; *copy is malloc'ed, or NULL if it has that format. */
const void *optimizer_file_widen(const struct stored_tensor *stored, size_t count,
                                 enum format format, void **copy, struct error *err);

#endif
