/*
 * train/model/save_share.h - files of tensors that all ranks of a run write to one folder at
 * the same time: each file is written, and hashed, by one rank.
 *
 * Ranks may keep different parts of a weight.  They send them to the rank that writes it, a
 * piece at a time, so no rank holds more than a piece of a tensor of others (of one that is
 * stored transposed, the tensor).
 */
#ifndef TRAIN_MODEL_SAVE_SHARE_H
#define TRAIN_MODEL_SAVE_SHARE_H

#include "base/json.h"
#include "train/files/safetensors.h"

struct model;

struct save_file {
    const char *name;
    const struct tensor_source *sources;
    size_t count;
};

/* A folder, and the ranks that write to it. */
struct save_share {
    const char *dir;
    size_t rank, ranks; /* 0 and 1: a process without others, or in place of them */
    const bool *absent; /* by rank: it does not see the folder. NULL: all do */
    /* what this rank wrote, as in struct manifest_known; or NULL */
    json_t *known;
    /* The first failure to write a file. It does not keep this rank from taking part in
     * what the others write. */
    struct error failed;
};

/*
 * Every rank makes the same call; `model` may be NULL if there is only one.  An old file of the same name is replaced whole.  The
 * ranks that see the folder get files in the order of the list, as many each, and write them
 * at the same time.  false: the ranks did not complete what they do together, so the run must
 * end; otherwise see share->failed.
 */
bool save_share_write(struct save_share *share, struct model *model,
                      const struct save_file *files, size_t count, struct error *err);
/* Write a file of this rank alone. */
void save_share_write_own(struct save_share *share, const struct save_file *file);
/* Note a failure, or that of a small file. */
void save_share_fail(struct save_share *share, const struct error *err);

#endif
