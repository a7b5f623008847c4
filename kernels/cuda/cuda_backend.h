/*
 * kernels/cuda/cuda_backend.h - the state of the CUDA backend, for the C files of this
 * folder.
 *
 * One stream carries everything, so the order of the calls is the order of the work.
 * Every status is checked: the first error is recorded with the operation and its shapes,
 * and later operations are skipped until sync reports it. After an error from which the
 * driver does not recover (an illegal address, a lost GPU, a GPU that does not answer)
 * the backend is dead: every sync reports the error again, and close no longer calls the
 * driver.
 */
#ifndef KERNELS_CUDA_CUDA_BACKEND_H
#define KERNELS_CUDA_CUDA_BACKEND_H

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cuda/cuda_launch.h"

struct cuda_attention; /* cuDNN, where it computes attention: cuda_attention.c */
struct cuda_matmul;    /* the matmul library and its plans: cuda_matmul.c */
struct cuda_tuning;    /* the choice of algorithms: cuda_tuning.c */
struct cuda_graphs;    /* recordings: cuda_graph.c */
struct cuda_group;     /* the other GPUs of a run: cuda_group.c */
struct cuda_staging;   /* page-locked memory for copies: cuda_staging.c */
struct cuda_beats;     /* events that show whether the GPU is alive: cuda_wait.c */

/* A GPU that signals no event for this long hangs: none of our kernels takes seconds. */
#define CUDA_PATIENCE_SECONDS 600

/* Memory that the driver takes for the context, the kernels' code and graphs; it cannot
 * be queried in advance. */
#define CUDA_RESERVE_BYTES ((size_t)256 << 20)

/* Memory that alloc has returned and free has not released. */
struct cuda_block {
    struct cuda_block *next;
    void *data;
    bool on_host; /* page-locked */
};

/* A point in the stream that the host will wait for. */
struct cuda_fence {
    cudaEvent_t event;
    size_t pieces; /* of downloads before it: cuda_staging.c */
    bool failed;   /* something before it */
};

struct cuda_backend {
    struct backend base;
    struct device device;
    struct cuda_launch launch; /* stream, capability, scratch */
    struct cuda_matmul *matmul;
    struct cuda_tuning *tuning;
    struct cuda_attention *attention; /* NULL: our own kernels */
    struct cuda_graphs *graphs;
    struct cuda_staging *staging;
    struct cuda_beats *beats;
    struct cuda_fence fences[BACKEND_FENCES];
    size_t fences_made, fences_seen;
    int64_t usual_wait, usual_reach; /* ns that waiting for all, and for a fence, took */
    struct cuda_group *group;        /* NULL: no other GPUs */
    struct log *log;
    struct cuda_block *blocks; /* returned by alloc */
    void *held;                /* scratch and the library's workspace */
    size_t held_bytes;
    void *gradients; /* room for cuDNN's gradients of attention, part of `held` */
    size_t gradients_bytes;
    bool tf32;
    bool named;          /* TRAINSPOOL_CUDA_SYNC=1: wait after every operation */
    double patience;     /* seconds */
    const char *doing;   /* the last operation, for errors found later */
    char precisely[200]; /* ... with its shapes, if `named` */
    struct error failed; /* the first failure since the last sync */
    bool dead;
    char about[200];
};

static inline struct cuda_backend *cuda_backend_of(struct backend *be)
{
    return (struct cuda_backend *)be;
}

/* Return whether the variable is set, not empty and not 0. */
static inline bool cuda_is_set(const char *variable)
{
    const char *asked = getenv(variable);

    return asked && *asked && strcmp(asked, "0") != 0;
}

/* Return whether nothing has failed; otherwise the caller returns. */
static inline bool cuda_ok(const struct cuda_backend *cuda)
{
    return cuda->failed.code == ERROR_NONE;
}

/* ---- cuda_status.c: error reports ---- */

/* Record a status other than cudaSuccess: "rmsnorm of (2048, 576) bf16: an illegal memory
 * access was encountered; ...", with a remedy. The format names the action. */
void cuda_check(struct cuda_backend *cuda, cudaError_t status, const char *format, ...)
    TS_PRINTF(3, 4);
/* The same into a caller's error. False unless the status is cudaSuccess. */
bool cuda_status(cudaError_t status, struct error *err, const char *format, ...)
    TS_PRINTF(3, 4);

/* Return whether the status says that this build has no code for a GPU. */
bool cuda_lacks_code(cudaError_t status);
/* Return ERROR_CARD, ERROR_CONTEXT or ERROR_DEVICE, for a status that is no success. */
enum error_code cuda_error_code(cudaError_t status);
/* Describe the status of a GPU that cannot be opened, with a remedy. */
void cuda_card_text(cudaError_t status, char *out, size_t room);

/* For messages: TENSOR_TEXT in the format, TENSOR_SHAPE(op->x) among the arguments. */
#define TENSOR_TEXT     "(%zu, %zu) %s"
#define TENSOR_SHAPE(t) (t).rows, (t).cols, format_info((t).format)->name

/* ---- cuda_wait.c: waiting with a timeout ---- */

/* Announce driver calls that may not return if the GPU hangs: after this many seconds
 * SIGALRM ends the process, which counts as a crash of its job. 0: the calls have
 * returned. */
void cuda_guard(double seconds);

struct cuda_beats *cuda_beats_new(struct error *err);
void cuda_beats_free(struct cuda_beats *beats, bool dead);
/* Count operations put into the stream: an event is recorded after some of them, and the
 * host waits if it is too far ahead (a full queue would block it forever). */
void cuda_beat(struct cuda_backend *cuda, size_t operations);
/* Poll for an event of the stream. False, with the failure recorded, if the GPU or an
 * operation has failed or nothing has completed for `patience`. usual: nanoseconds that the
 * last such wait took, 0 at first; updated; or NULL. */
bool cuda_wait(struct cuda_backend *cuda, cudaEvent_t event, int64_t *usual);
/*
 * Return the nanoseconds to sleep before the next poll; 0: none. The end of a wait that
 * takes as long as usual, within 2 %, is noticed in 30 us; any other in half a millisecond,
 * or in a hundredth of the wait if that is less and nothing is known of it.
 */
int64_t cuda_nap(int64_t waited, int64_t usual);
/* Wait for all work in the stream. */
bool cuda_wait_all(struct cuda_backend *cuda);

/* ---- cuda_staging.c: asynchronous copies ---- */

struct cuda_staging *cuda_staging_new(struct error *err);
void cuda_staging_free(struct cuda_staging *staging, bool dead);
size_t cuda_staging_bytes(void); /* page-locked host memory */
/* The caller may reuse `from` immediately. */
void cuda_upload(struct backend *be, void *to, const void *from, size_t bytes);
/* The data is valid after cuda_deliver. */
void cuda_download(struct backend *be, void *to, const void *from, size_t bytes);
/* All work in the stream is done: copy out what was downloaded; if not `well`, discard
 * it. */
void cuda_deliver(struct cuda_backend *cuda, bool well);
/* End the piece of downloads that is being filled, and return how many have ended. */
size_t cuda_end_piece(struct cuda_backend *cuda);
/* The first `pieces` of all are done: copy out what was downloaded. */
void cuda_deliver_pieces(struct cuda_backend *cuda, size_t pieces);

/* ---- cuda_ops.c: operations ---- */

/* A kind of operation. Its struct can be copied and begins with its tensors. */
struct cuda_operation {
    const char *name;
    size_t bytes;   /* of the struct */
    size_t tensors; /* that the struct begins with */
    /* Put it into the stream. Returns cudaSuccess if it has already recorded
     * a failure. */
    cudaError_t (*put)(struct cuda_backend *cuda, const void *op);
};

/* Run an operation; while a recording is being made, add it to the recording, which runs
 * at its end. */
void cuda_issue(struct cuda_backend *cuda, const struct cuda_operation *kind,
                const void *op);
/* Put an operation into the stream immediately. */
void cuda_enqueue(struct cuda_backend *cuda, const struct cuda_operation *kind,
                  const void *op);

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

/* For `count` of the ordered rows, compute gathered and logits; then dx and dw from the
 * gathered rows. */
cudaError_t cuda_classifier_logits(struct cuda_backend *cuda,
                                   const struct op_classifier *op, size_t first,
                                   size_t count);
cudaError_t cuda_classifier_gradients(struct cuda_backend *cuda,
                                      const struct op_classifier *op, size_t first,
                                      size_t count);

/* ---- cuda_graph.c: recordings ---- */

/* TRAINSPOOL_NO_GRAPHS=1 in the environment disables recordings. */
struct cuda_graphs *cuda_graphs_new(struct error *err);
void cuda_graphs_free(struct cuda_graphs *graphs, bool dead);
/* begin and end of backend.h. The operations of a new key run immediately, which creates
 * the plans and loads the code; the second time they are recorded; after that they are
 * replayed. */
bool cuda_begin(struct backend *be, const void *key, size_t bytes);
void cuda_end(struct backend *be);
/* If a recording is being made, add the operation to it and return true. */
bool cuda_record(struct cuda_backend *cuda, const struct cuda_operation *kind,
                 const void *op);

/* ---- cuda_device.c: the GPUs of this machine ---- */

/* As backend_devices. */
size_t cuda_devices(const char *wanted, struct device *out, size_t room, char *note,
                    size_t note_room);

/* ---- cuda_health.c: their state ---- */

/* As backend_examine and backend_measure. */
void cuda_examine(struct device *list, size_t count);
bool cuda_measure(struct device *list, size_t count);

#endif
