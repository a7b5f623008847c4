/* train/files/safetensors_internal.h - a set of tensors, as the readers of files fill
 * it. */
#ifndef TRAIN_FILES_SAFETENSORS_INTERNAL_H
#define TRAIN_FILES_SAFETENSORS_INTERNAL_H

#include "train/files/safetensors.h"

enum { RANK_MAX = 8 };

/* A dtype of safetensors, with its size. */
struct stored_dtype {
    const char *name;
    size_t bytes;
    enum format format;
};

struct mapping {
    const char *file;
    void *data;
    size_t bytes;
};

struct safetensors {
    struct arena *arena;
    struct mapping *maps; /* one per file; data NULL with headers_only */
    size_t files;
    void **copies; /* of tensors that cannot be mapped; malloc'ed */
    size_t copy_count;
    struct stored_tensor *tensors; /* in the order of the headers */
    size_t count, room;
    const struct stored_tensor **sorted; /* by name */
};

/* One file while it is being read. */
struct weights_file {
    const char *name; /* in the set's arena */
    int fd;
    uint64_t bytes;
    const unsigned char *data; /* mapped; NULL with headers_only */
};

/* Add a tensor; valid until the next one is added. */
struct stored_tensor *safetensors_add(struct safetensors *set);
/* Sort the names; there must be no two equal ones. */
bool safetensors_sort(struct safetensors *set, struct error *err);
/* Remove the tensors without a name, and sort the others again. */
bool safetensors_drop_nameless(struct safetensors *set, struct error *err);
/* Let the set own memory of malloc. */
void safetensors_keep(struct safetensors *set, void *copy);
/* NULL: unknown. */
const struct stored_dtype *stored_dtype_find(const char *name);

/* Read bytes inside the file.  ERROR_DATA if it has become shorter. */
bool weights_file_read(const struct weights_file *file, void *to, size_t bytes,
                       uint64_t at, struct error *err);
/* Return whether the file starts as a pointer of Git LFS does, and report that. */
bool weights_file_is_pointer(const struct weights_file *file, const void *start,
                             struct error *err);

/* Add the tensors of a file in the format of safetensors, or of torch.save. */
bool safetensors_read_header(struct safetensors *set, const struct weights_file *file,
                             struct error *err);
bool torch_weights_read(struct safetensors *set, const struct weights_file *file,
                        struct error *err);

#endif
