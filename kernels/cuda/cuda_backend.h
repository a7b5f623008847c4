/*
 * kernels/cuda/cuda_backend.h - a GPU at work, for the C files of this folder.
 *
 * One stream carries everything, so the order of the calls is the order of the work.
 * Every status is looked at: the first that is bad is kept, with the operation and its
 * shapes, and what follows is skipped until sync tells it.  After one that the driver
 * does not recover from (an illegal address, a lost card, a card that does not answer)
 * the backend is dead: every sync tells it again, and close touches the driver no more.
 */
#ifndef KERNELS_CUDA_CUDA_BACKEND_H
#define KERNELS_CUDA_CUDA_BACKEND_H

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cuda/cuda_launch.h"

struct cuda_attention; /* cuDNN, for those who ask for it: cuda_attention.c */
struct cuda_matmul;    /* the library of products and its plans: cuda_matmul.c */
struct cuda_graphs;    /* recordings: cuda_graph.c */
struct cuda_group;     /* the other GPUs of a run: cuda_group.c */
struct cuda_staging;   /* page-locked memory that copies go through: cuda_staging.c */
struct cuda_beats;     /* events by which the card is known to be alive: cuda_wait.c */

/* A card of which no event has come for so long hangs: no kernel of ours takes
 * seconds. */
#define CUDA_PATIENCE_SECONDS 600

/* What the driver takes for the context, the kernels' code and graphs; none of it can be
 * asked for beforehand. */
#define CUDA_RESERVE_BYTES ((size_t)256 << 20)

/* Memory that alloc has handed out and free has not got back. */
struct cuda_block {
    struct cuda_block *next;
    void *data;
};

struct cuda_backend {
    struct backend base;
    struct device device;
    struct cuda_launch launch; /* stream, capability, scratch */
    struct cuda_matmul *matmul;
    struct cuda_attention *attention; /* NULL: by our own kernels */
    struct cuda_graphs *graphs;
    struct cuda_staging *staging;
    struct cuda_beats *beats;
    struct cuda_group *group; /* NULL: alone */
    struct log *log;
    struct cuda_block *blocks; /* handed out by alloc */
    void *held;                /* scratch and the library's workspace */
    size_t held_bytes;
    bool tf32;
    bool named;          /* TRAINSPOOL_CUDA_SYNC=1: wait after every operation */
    double patience;     /* seconds */
    const char *doing;   /* the last operation, for what is found later */
    char precisely[200]; /* ... with its shapes, if `named` */
    struct error failed; /* the first failure since the last sync */
    bool dead;
    char about[200];
};

static inline struct cuda_backend *cuda_backend_of(struct backend *be)
{
    return (struct cuda_backend *)be;
}

/* Does the environment say yes: is the variable there, not empty and not 0? */
static inline bool cuda_is_set(const char *variable)
{
    const char *asked = getenv(variable);

    return asked && *asked && strcmp(asked, "0") != 0;
}

/* Has nothing failed yet?  Else the caller leaves. */
static inline bool cuda_well(const struct cuda_backend *cuda)
{
    return cuda->failed.code == ERROR_NONE;
}

/* ---- cuda_status.c: what went wrong ---- */

/* Keep a status that is not cudaSuccess: "rmsnorm of (2048, 576) bf16: an illegal memory
 * access was encountered; ...", with the remedy.  The format says what was being done. */
void cuda_check(struct cuda_backend *cuda, cudaError_t status, const char *format, ...)
    TS_PRINTF(3, 4);
/* The same into an error of the caller's.  False unless it is cudaSuccess. */
bool cuda_status(cudaError_t status, struct error *err, const char *format, ...)
    TS_PRINTF(3, 4);

/* Does the status say that this build has no code for a card? */
bool cuda_lacks_code(cudaError_t status);
/* Of a card that cannot even be opened: what the status says, and the remedy. */
void cuda_card_text(cudaError_t status, char *out, size_t room);

/* For messages: TENSOR_TEXT in the format, TENSOR_SHAPE(op->x) among the arguments. */
#define TENSOR_TEXT     "(%zu, %zu) %s"
#define TENSOR_SHAPE(t) (t).rows, (t).cols, format_info((t).format)->name

/* ---- cuda_wait.c: waiting with an end ---- */

/* Calls of the driver follow that may not come back from a card that hangs: after so many
 * seconds SIGALRM ends the process, which is a crash of its job.  0: they have come
 * back. */
void cuda_guard(double seconds);

struct cuda_beats *cuda_beats_new(struct error *err);
void cuda_beats_free(struct cuda_beats *beats, bool dead);
/* So many operations have been put into the stream: now and then an event goes behind
 * them, and the host waits if it is too far ahead (a full queue would block it without
 * end). */
void cuda_beat(struct cuda_backend *cuda, size_t operations);
/* Wait for an event of the stream by asking.  False, and the failure kept, if the card or
 * an operation has failed or nothing has moved for `patience`. */
bool cuda_wait(struct cuda_backend *cuda, cudaEvent_t event);
/* Wait for all that is in the stream. */
bool cuda_wait_all(struct cuda_backend *cuda);

/* ---- cuda_staging.c: copies that do not make the host wait ---- */

struct cuda_staging *cuda_staging_new(struct error *err);
void cuda_staging_free(struct cuda_staging *staging, bool dead);
size_t cuda_staging_bytes(void); /* page-locked, of the host */
/* The caller may use `from` again at once. */
void cuda_upload(struct backend *be, void *to, const void *from, size_t bytes);
/* The data is there after cuda_deliver. */
void cuda_download(struct backend *be, void *to, const void *from, size_t bytes);
/* All is done in the stream: hand out what was downloaded; if not `well`, forget it. */
void cuda_deliver(struct cuda_backend *cuda, bool well);

/* ---- cuda_ops.c: operations ---- */

/* One kind of operation.  Its struct can be copied and begins with its tensors. */
struct cuda_kind {
    const char *name;
    size_t bytes;   /* of the struct */
    size_t tensors; /* that it begins with */
    /* Put it into the stream.  A failure that it has kept itself is cudaSuccess here. */
    cudaError_t (*put)(struct cuda_backend *cuda, const void *op);
};

/* Do an operation; while a recording is being made, note it down: it is done at its
 * end. */
void cuda_do(struct cuda_backend *cuda, const struct cuda_kind *kind, const void *op);
/* Put it into the stream, now. */
void cuda_put(struct cuda_backend *cuda, const struct cuda_kind *kind, const void *op);

/* Each operation, for the table of cuda_backend.c. */
#define CUDA_OPERATION(name, ...) \
    void cuda_##name(struct backend *be, const struct op_##name *op);
OPERATIONS(CUDA_OPERATION)
#undef CUDA_OPERATION

/* The `put` of each operation that is more than one launcher (STEPS): op is a struct
 * op_NAME. */
#define CUDA_PUT_LAUNCH(name)
#define CUDA_PUT_STEPS(name) \
    cudaError_t cuda_##name##_put(struct cuda_backend *cuda, const void *op);
#define CUDA_PUT(name, tensors, cpu, cuda, ...) CUDA_PUT_##cuda(name)
OPERATIONS(CUDA_PUT)
#undef CUDA_PUT
#undef CUDA_PUT_STEPS
#undef CUDA_PUT_LAUNCH

/* ---- cuda_classifier.c: parts of the classifier, for cuda_distill.c ---- */

/* Of `count` of the ordered rows: gathered and logits; dx and dw, of what was
 * gathered. */
cudaError_t cuda_classifier_logits(struct cuda_backend *cuda,
                                   const struct op_classifier *op, size_t first,
                                   size_t count);
cudaError_t cuda_classifier_gradients(struct cuda_backend *cuda,
                                      const struct op_classifier *op, size_t first,
                                      size_t count);

/* ---- cuda_graph.c: recordings ---- */

/* TRAINSPOOL_NO_GRAPHS=1 in the environment: none are made. */
struct cuda_graphs *cuda_graphs_new(struct error *err);
void cuda_graphs_free(struct cuda_graphs *graphs, bool dead);
/* backend.h's begin and end.  A key met for the first time is done as it comes, which
 * makes the plans and loads the code; the second time it is recorded; then it is
 * played. */
bool cuda_begin(struct backend *be, const void *key, size_t bytes);
void cuda_end(struct backend *be);
/* Is a recording being made?  Then keep the operation for it. */
bool cuda_note(struct cuda_backend *cuda, const struct cuda_kind *kind, const void *op);

/* ---- cuda_device.c: what is in this machine ---- */

/* As backend_devices. */
size_t cuda_devices(const char *wanted, struct device *out, size_t room, char *note,
                    size_t note_room);

#endif
