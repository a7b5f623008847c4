/* train/files/safetensors.h - the format (huggingface/safetensors README): u64
 * little-endian header size, JSON header, bytes. A malformed file is refused: header at
 * most 100 MB and inside the file, shape x dtype equal to the offsets, offsets sorted,
 * gapless, inside, no duplicates. */
#ifndef TRAIN_FILES_SAFETENSORS_H
#define TRAIN_FILES_SAFETENSORS_H

#include "base/arena.h"
#include "base/text.h"
#include "precision/format.h"
#include "precision/packed.h"
#include "train/files/manifest.h"

struct stored_tensor {
    const char *name;
    /* FP32, FP16 or BF16; FORMAT_COUNT for a dtype that is not used in computations */
    enum format format;
    const char *dtype; /* as in the file: "F32" */
    size_t rank;
    const size_t *shape; /* at most 8 sizes */
    size_t bytes;
    const void *data; /* mapped read-only, or a copy in rows */
    /* 0, or of a matrix that is part of a transposed tensor: element (i, j) is element
     * j * pitch + i of the data, and there is no other way to read it */
    size_t pitch;
    /* in such data from a row of the matrix to its next one there are this many rows of
     * the tensor; 0: 1 */
    size_t step;
    /* NULL, or a matrix in few bits, whose rows are all dimensions but the last: then there
     * are no `data`, and format and bytes are those of its values when they are read */
    const struct packed *packed;
    const char *file; /* the file of the set that has it */
};

struct safetensors; /* one file, or all files of a sharded model, mapped read-only */

/* Open a set. `path` is a .safetensors file, or a folder: then `stem`.safetensors, or
 * else `stem`.safetensors.index.json with its shards ("model", "adapter_model"), or else
 * torch's files, read by torch_weights.c: pytorch_model.bin for "model", `stem`.bin for
 * others, and the same with .index.json.
 * headers_only: do not map the data, data is NULL (for memory estimates). */
struct safetensors *safetensors_open(const char *path, const char *stem,
                                     bool headers_only, struct error *err);
void safetensors_close(struct safetensors *set); /* NULL is allowed */
/* Return whether a folder has a file or an index that safetensors_open reads. */
bool safetensors_exist(const char *dir, const char *stem);
size_t safetensors_count(const struct safetensors *set);
const struct stored_tensor *safetensors_at(const struct safetensors *set, size_t index);
const struct stored_tensor *safetensors_find(const struct safetensors *set,
                                             const char *name);
/* The format of most of the bytes; FORMAT_COUNT if it is not used in computations. */
enum format safetensors_format(const struct safetensors *set);
/*
 * Tensors that hold the matrices of all experts: (experts, rows, columns), or transposed
 * (experts, columns, rows).  A name that ends in _bias: their biases (experts, rows).  In
 * _blocks: the matrices in MXFP4 (experts, rows, columns / 32, 16) of U8, with a tensor
 * whose name ends in _scales instead (experts, rows, columns / 32).  With `turns`, the first
 * two dimensions are one, of experts * rows, or experts * columns where it returns true.
 */
struct safetensors_parts {
    size_t experts;
    bool transposed;
    bool interleaved; /* the rows of the matrices of an expert alternate */
    bool (*turns)(const void *context, const char *name); /* or NULL */
    /* Return how many matrices of an expert a tensor holds, each with an equal part of its
     * rows; 0: it is no such tensor. */
    size_t (*count)(const void *context, const char *name);
    /* Append the name of matrix, or bias, `index` of a tensor: those of an expert are
     * adjacent. */
    void (*name)(const void *context, const char *tensor, size_t index, struct text *out);
    const void *context;
};

/* Replace such tensors by their matrices, before anything is found in the set;
 * *split_count: how many there were. */
bool safetensors_split(struct safetensors *set, const struct safetensors_parts *parts,
                       size_t *split_count, struct error *err);
/*
 * Replace weights in FP8, NVFP4 and MXFP4 by the matrices that they stand for, in a set
 * that holds nothing else of their names: `format` is the one that their values get.
 *
 *     NAME.weight          F8_E4M3 (rows, columns), and one of
 *     NAME.weight_scale_inv, .weight_scale, .scale, .qscale_weight
 *                          the scales: one; or of each row; or of blocks of `block_rows`
 *                          rows and `block_cols` columns; or of another number of blocks,
 *                          all of the same shape.  F32, F16, BF16, or E8M0 (U8, F8_E8M0)
 *     NAME.weight_packed   U8 (rows, columns / 2), or .weight of this shape
 *     NAME.weight_scale    NVFP4: F8_E4M3 (rows, columns / 16), each times .weight_scale_2,
 *                          or divided by .weight_global_scale, of one F32.
 *                          MXFP4: E8M0 (rows, columns / 32)
 *
 * FP8 may have the matrices of all experts in one tensor, also without .weight: codes
 * (experts, rows, columns), and scales of so many dimensions or fewer, the first of them
 * that of the experts.  It stays one; safetensors_split divides it.
 *
 * Tensors with the scales of inputs, keys and values are removed.  Sources: transformers
 * 5.24, integrations/finegrained_fp8.py and quantizers/quantizer_finegrained_fp8.py;
 * compressed-tensors 0.20; NVIDIA's Model Optimizer.
 */
struct safetensors_packing {
    enum format format;
    size_t block_rows, block_cols; /* 0: the shapes of tensors say */
};

bool safetensors_unpack(struct safetensors *set, const struct safetensors_packing *how,
                        struct error *err);
/* Release the memory of mapped data that was read; it stays mapped. */
void safetensors_release(const struct safetensors *set);

/* A tensor to write: data is read one tensor at a time, so a model is never in memory
 * twice. */
struct tensor_source {
    const char *name;
    enum format format;
    /* a dtype that is not a format, instead of the format: "I32" */
    const char *dtype;
    size_t rank, shape[8];
    /* Write all bytes of the tensor to `to`. */
    bool (*read)(const void *context, size_t index, void *to, struct error *err);
    const void *context;
    size_t index;
    /* Optional: write bytes [at, at + bytes), which are multiples of `part`. */
    bool (*read_part)(const void *context, size_t index, size_t at, size_t bytes,
                      void *to, struct error *err);
    size_t part;
    /* several ranks read it together (train/model/save_share.h): `to` is NULL in those that
     * do not write it */
    bool shared;
};

/* Create `name`, which must not exist (fsynced; the caller makes it visible by renaming
 * it or its folder), header padded to 8 bytes, metadata {"format":"pt"}. Tensors in the
 * order given. Removes the file on failure. */
bool safetensors_write(const char *name, const struct tensor_source *sources,
                       size_t count, struct error *err);

/*
 * The same in steps, for callers that read the tensors themselves: create the file with its
 * header; append the bytes of all tensors, in pieces of any size; finish, which flushes and
 * closes it, or abandon, which removes it.  Each error names the file.
 */
struct safetensors_writer;

struct safetensors_writer *safetensors_create(const char *name,
                                              const struct tensor_source *sources,
                                              size_t count, struct error *err);
bool safetensors_append(struct safetensors_writer *writer, const void *data, size_t bytes,
                        struct error *err);
/* *out (or NULL): size and digest. A failure removes the file. */
bool safetensors_finish(struct safetensors_writer *writer, struct manifest_file *out,
                        struct error *err);
void safetensors_abandon(struct safetensors_writer *writer); /* NULL is allowed */

/* Bytes of a tensor; ERROR_DATA if they are too many. */
bool safetensors_source_bytes(const struct tensor_source *source, size_t *bytes,
                              struct error *err);
/* Make only the header of such a file, for callers that write the data after it
 * themselves: one tensor after another, in the order given. `out` is empty. */
bool safetensors_header(const struct tensor_source *sources, size_t count,
                        struct text *out, struct error *err);
/* Bytes of one element of a dtype of the format; 0: unknown dtype. */
size_t safetensors_dtype_bytes(const char *dtype);

#endif
