/*
 * kernels/backend.h - a device that can do the operations: a table of functions over
 * their structs, `cpu` and `cuda`.
 *
 * Operations return nothing: the backend remembers the first that failed, skips the rest,
 * and tells it at sync, once a step.  Pointers inside operands are in the backend's
 * memory (on the CPU that is ordinary memory).
 */
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

#include "base/error.h"
#include "base/log.h"
#include "kernels/operations.h"
#include "kernels/ops.h"
#include "precision/device.h"

struct backend_ops;

/* Each kind of backend has this as the first member of its own struct. */
struct backend {
    const struct backend_ops *ops;
};

struct backend_options {
    const struct device *device; /* kind and ordinal */
    int threads;                 /* CPU: 0 for all that may be used */
    bool no_onednn;              /* CPU: our own products, whatever is installed */
    bool tf32;                   /* CUDA: fp32 operands of a product are read as TF32 */
    /* CUDA: what the operands of the largest product with round_a, round_b take, a
     * byte each number; 0: got when first met */
    size_t rounded_bytes;
    struct log *log; /* for what is worth a line once; NULL: not told */
};

/*
 * The processes of one run, one for each device of this machine.  links: sockets of
 * base/link.h, of rank 0 to ranks 1, 2, ...; of each other to rank 0 alone.  They are
 * borrowed, used inside join, and watched later for a rank that has ended.
 */
struct backend_group {
    int rank, ranks;
    const int *links;
};

struct backend_ops {
    const char *name; /* as in `device: cuda` */
    enum device_kind kind;
    size_t alignment; /* of every buffer inside a block, a power of two */
    bool rounds_b;    /* op_matmul takes an fp32 b beside an a in 16 bits */

    /* As backend_devices; NULL where the kind has nothing to look for. */
    size_t (*devices)(const char *wanted, struct device *out, size_t room, char *note,
                      size_t note_room);
    struct backend *(*open)(const struct backend_options *options, struct error *err);
    void (*close)(struct backend *be);
    /* One line for the log: "cpu: 2 threads, avx512, oneDNN 2.6.3". */
    const char *(*describe)(struct backend *be);
    /* Memory the backend itself holds once it runs (packed panels, plans), in bytes. */
    size_t (*workspace)(struct backend *be);

    /* One large block, zeroed; NULL with ERROR_DEVICE or ERROR_SYSTEM and the size
     * wanted. */
    void *(*alloc)(struct backend *be, size_t bytes, struct error *err);
    void (*free)(struct backend *be, void *block);
    /* `from` is read before upload returns; what download wants is in `to` after sync. */
    void (*upload)(struct backend *be, void *to, const void *from, size_t bytes);
    void (*download)(struct backend *be, void *to, const void *from, size_t bytes);
    /* Wait for all before it; tell the first failure, once, and be usable again. */
    bool (*sync)(struct backend *be, struct error *err);

    /*
     * Optional, NULL where there is nothing to gain: the operations from `begin` to `end`
     * are the same, operands and all, whenever `key` (`bytes` long) is.  false: they have
     * been done from a recording; issue none of them, nor `end`.  No upload, download or
     * sync stands between the two.
     */
    bool (*begin)(struct backend *be, const void *key, size_t bytes);
    void (*end)(struct backend *be);

    /*
     * Optional, NULL where a backend works alone.  After join, each rank makes the same
     * calls of reduce, all_reduce and all_gather in the same order, not inside begin and
     * end.  They wait for what was issued before, run beside what is issued after, which
     * must leave their operands alone until `meet`, and are no recording's part.  Sums
     * have a fixed order.  A rank that ends fails the others' next sync instead of making
     * them wait for it.  What memory they take of the device is taken when join returns:
     * it comes before alloc.
     */
    bool (*join)(struct backend *be, const struct backend_group *group,
                 struct error *err);
    /* data of rank `root` = sum over the ranks of theirs, fp32, which stay as they are */
    void (*reduce)(struct backend *be, float *data, size_t count, int root);
    /* data of every rank = sum over the ranks; a few numbers */
    void (*all_reduce)(struct backend *be, double *data, size_t count);
    /* data has one piece of `bytes` for each rank: every rank's own goes to the others */
    void (*all_gather)(struct backend *be, void *data, size_t bytes);
    /* What is issued from here on comes after them. */
    void (*meet)(struct backend *be);

    /* void (*NAME)(struct backend *be, const struct op_NAME *op), for each operation */
#define BACKEND_MEMBER(name, ...) \
    void (*name)(struct backend * be, const struct op_##name *op);
    OPERATIONS(BACKEND_MEMBER)
#undef BACKEND_MEMBER
};

extern const struct backend_ops backend_cpu;
extern const struct backend_ops backend_cuda; /* only with CUDA */

/* Open the backend for a device.  ERROR_DEVICE where this build has none for it. */
struct backend *backend_open(const struct backend_options *options, struct error *err);
void backend_close(struct backend *be); /* NULL is allowed */

/*
 * GPUs of this machine as the CUDA backend sees them; 0 and a note without CUDA or a
 * driver. What memory is free and whether there is code takes a context of some 400 MB on
 * the card, and is asked of those alone that `wanted` means (probe_means).  The others
 * are left in peace: `available` is 0, and they count as runnable.
 */
size_t backend_devices(const char *wanted, struct device *out, size_t room, char *note,
                       size_t note_room);

#endif
