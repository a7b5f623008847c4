/*
 * kernels/backend.h - a device that runs the operations: a table of functions over their
 * structs, `cpu` or `cuda`.
 *
 * Operations return nothing: the backend records the first failure, skips the operations
 * after it, and reports it at sync, once per step.  Pointers inside operands are in the
 * backend's memory (on the CPU that is ordinary memory).
 */
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

#include <signal.h>

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
    int threads;                 /* CPU: 0 for all available */
    bool no_onednn;              /* CPU: our own matmuls even if oneDNN is installed */
    bool tf32;                   /* CUDA: fp32 operands of matmuls are read as TF32 */
    /* CUDA: bytes of the operands of the largest matmul with round_a and round_b, one
     * per element; 0: allocate on first use */
    size_t rounded_bytes;
    /* CUDA: the folder of the file that keeps the fastest algorithms of matmuls, created
     * if missing; NULL: they are not timed, and the library's first proposal is used */
    const char *choices_dir;
    /* CUDA: bytes in which the gradients of attention may be computed faster, with other
     * bits in each run; 0: they have the same bits in each run */
    size_t gradients_bytes;
    struct log *log; /* for messages worth one line; NULL: none */
};

/*
 * The processes of one run, one for each device.  links: sockets of base/link.h; rank 0
 * has one to each of ranks 1, 2, ..., every other rank has one to rank 0.  They are
 * borrowed, used inside join, and watched later for a rank that has ended.
 */
struct backend_group {
    int rank, ranks;
    const int *links;
    /* CPUs that share no memory: a socket to each rank, -1 for this one; borrowed, until
     * close. NULL: ranks of one machine, or of GPUs, which NCCL connects */
    const int *peers;
    enum format sent; /* FORMAT_FP32 or FORMAT_BF16: how `reduce` sends elements */
    /* a request to stop: rank 0 acts on it, and another rank passes it on to rank 0. NULL:
     * this rank gets none */
    volatile sig_atomic_t *stop;
};

enum { BACKEND_FENCES = 2 };

struct backend_ops {
    const char *name; /* as in `device: cuda` */
    enum device_kind kind;
    size_t alignment; /* of every buffer inside a block, a power of two */
    bool rounds_b;    /* op_matmul accepts an fp32 b with a 16-bit a */

    /* As backend_devices; NULL if the kind has no devices to find. */
    size_t (*devices)(const char *wanted, struct device *out, size_t room, char *note,
                      size_t note_room);
    /* As backend_examine; NULL if nothing is known of their state. */
    void (*examine)(struct device *list, size_t count);
    bool (*measure)(struct device *list, size_t count); /* as backend_measure */
    struct backend *(*open)(const struct backend_options *options, struct error *err);
    void (*close)(struct backend *be);
    /* One line for the log: "cpu: 2 threads, avx512, oneDNN 2.6.3". */
    const char *(*describe)(struct backend *be);
    /* Memory the backend itself holds once it runs (packed panels, plans), in bytes. */
    size_t (*workspace)(struct backend *be);
    /* Optional: the name of what computes attention in 16 bits, such as "cuDNN 9.19.0" or
     * "trainspool"; the bits depend on it.  attention_use: from now on, before the first
     * operation, it is the one with this name; false if that is not possible. */
    const char *(*attention_name)(struct backend *be);
    bool (*attention_use)(struct backend *be, const char *name);
    /* Optional: prepare in the background for attention with operands like these, whose
     * data are not read. */
    void (*attention_expect)(struct backend *be, const struct op_attention *op);

    /* One large block, zeroed; NULL with ERROR_DEVICE or ERROR_SYSTEM and the requested
     * size. */
    void *(*alloc)(struct backend *be, size_t bytes, struct error *err);
    /* The same in host memory that the device reads and writes over its bus; NULL if the
     * device uses host memory anyway. */
    void *(*alloc_host)(struct backend *be, size_t bytes, struct error *err);
    void (*free)(struct backend *be, void *block); /* either kind */
    /* upload reads `from` before it returns; `to` of a download is filled after sync. */
    void (*upload)(struct backend *be, void *to, const void *from, size_t bytes);
    void (*download)(struct backend *be, void *to, const void *from, size_t bytes);
    /* Wait for all earlier operations; report the first failure, once, and clear it. */
    bool (*sync)(struct backend *be, struct error *err);
    /*
     * Optional, NULL if operations are complete when they return.  fence: note the
     * current end of all operations, at most BACKEND_FENCES times ahead of reach.  reach:
     * wait for the earliest fence, as sync would have waited there, while later operations
     * run on.  sync passes all fences.
     */
    void (*fence)(struct backend *be);
    bool (*reach)(struct backend *be, struct error *err);

    /*
     * Optional, NULL if the backend does not gain from it.  The caller promises that the
     * operations from `begin` to `end`, with their operands, are the same whenever `key`
     * (`bytes` long) is.  false: the backend has replayed them from a recording; issue
     * neither them nor `end`.  There is no upload, download or sync between the two.
     */
    bool (*begin)(struct backend *be, const void *key, size_t bytes);
    void (*end)(struct backend *be);

    /*
     * Optional, NULL if the backend does not support several ranks.  After join, each
     * rank makes the same calls of reduce ... send in the same order,
     * not between begin and end.  They start after all work issued before and run
     * concurrently with later work, which must not touch their operands until `meet`;
     * recordings do not include them.  Sums have a fixed order.  If a rank ends, the
     * others' next sync fails instead of waiting for it.  join allocates the device
     * memory they need, so it comes before alloc.
     */
    bool (*join)(struct backend *be, const struct backend_group *group,
                 struct error *err);
    /* data of rank `root` = sum over the ranks, fp32; the others keep their data.  With
     * backend_group.sent bf16 each rank's elements are rounded to it, and on GPUs so is
     * each partial sum; an inf or NaN stays one, and a sum too large for bf16 is inf. */
    void (*reduce)(struct backend *be, float *data, size_t count, int root);
    /* Optional, NULL if nothing is faster than several calls of reduce: the same for a range
     * whose element i is summed in rank (first + i) / shard. */
    void (*reduce_shards)(struct backend *be, float *data, size_t count, size_t first,
                          size_t shard);
    /* data of every rank = sum over the ranks; a few values */
    void (*all_reduce)(struct backend *be, double *data, size_t count);
    /* data has one piece of `bytes` for each rank; each rank sends its piece to all */
    void (*all_gather)(struct backend *be, void *data, size_t bytes);
    /* data of every rank = that of rank `root` */
    void (*broadcast)(struct backend *be, void *data, size_t bytes, int root);
    /* data of rank `to` = that of rank `from`; the others' data, which have room for as
     * many bytes, may be overwritten */
    void (*send)(struct backend *be, void *data, size_t bytes, int from, int to);
    /* Work issued after this starts after they complete. */
    void (*meet)(struct backend *be);
    /* The same for those issued before the last `mark`; later ones may still run. */
    void (*mark)(struct backend *be);
    void (*meet_mark)(struct backend *be);

    /*
     * Optional, NULL if the bits of a result depend on nothing but the device.  Otherwise
     * choices returns, as malloc'ed text, what has been chosen so far (NULL: nothing), and
     * after replay_choices, which comes before the first recording, the same is chosen
     * again.  It logs a line if the text is for another device or version.  That text may
     * be of several ranks (matmul_choices_join).
     */
    char *(*choices)(struct backend *be);
    void (*replay_choices)(struct backend *be, const char *text, size_t len);

    /* void (*NAME)(struct backend *be, const struct op_NAME *op), for each operation */
#define BACKEND_MEMBER(name, ...) \
    void (*name)(struct backend * be, const struct op_##name *op);
    OPERATIONS(BACKEND_MEMBER)
#undef BACKEND_MEMBER
};

extern const struct backend_ops backend_cpu;
extern const struct backend_ops backend_cuda; /* only with CUDA */

/* Open the backend for a device.  ERROR_DEVICE if this build has none for it. */
struct backend *backend_open(const struct backend_options *options, struct error *err);
void backend_close(struct backend *be); /* NULL is allowed */

/*
 * List the GPUs of this machine as the CUDA backend sees them; returns 0 and a note
 * without CUDA or a driver.  To read the free memory and to check for code takes a
 * context of about 400 MB on the GPU, so only the GPUs that `wanted` selects
 * (probe_name_matches) are queried.  For the others `available` is 0, and they count as
 * runnable.
 */
size_t backend_devices(const char *wanted, struct device *out, size_t room, char *note,
                       size_t note_room);
/* Write into `ill` of the GPUs why they should get no job, if their driver says that they
 * do not work; and their bus and context. Ends the context of backend_devices. */
void backend_examine(struct device *list, size_t count);
/* Measure what is free on GPUs, given by their bus, for a process without a context, and
 * find out whether they are well. No context is made. Return false if the driver cannot. */
bool backend_measure(struct device *list, size_t count);

#endif
