/*
 * kernels/cuda/cuda_graph.c - records the operations of a step once and replays them.
 *
 * A launch costs the host a few microseconds, a graph of hundreds of kernels about as
 * much as one launch. The operations between begin and end are stored and put into the
 * stream at the end, under capture; if the driver does not accept them, the stored
 * operations are issued directly.
 */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/*
 * A job has some dozens of shapes of passes; a job with more does not gain from keeping
 * them all. A backward pass is one recording or, with other GPUs, one for each sum of
 * gradients, which may be as many as there are layers: so there is room for thousands,
 * and a hash to find one. Their device memory is estimated by their operations, in any
 * number of parts. The limits are 64 passes of 2048, in 64 parts each; 32 layers with
 * adapters and recomputed blocks have about 2000.
 */
enum { GRAPHS = 64 * 64, OPERATIONS = 64 * 2048, SLOTS = 1024 };

/*
 * Bytes of device memory that a recording must leave free: code that is loaded on its
 * first call needs some. A node takes about 10 KiB (10240 in executable_graph_cache.cuh
 * of NVIDIA's CCCL), and some operations are two nodes.
 */
enum { LEFT_ALONE = 128 << 20, BYTES_OF_AN_OPERATION = 16 << 10 };

struct note {
    const struct cuda_operation *kind;
    size_t at; /* of its operands in `operands` */
};

struct graph {
    struct graph *next; /* of its slot */
    uint64_t used;      /* time of last use: the lowest is evicted first */
    cudaGraphExec_t exec;
    size_t operations;
    bool refused; /* the driver cannot record it */
    size_t bytes;
    unsigned char key[];
};

struct cuda_graphs {
    bool off;
    uint64_t clock;
    struct graph *slots[SLOTS];
    size_t count, operations; /* of all; of those that can be replayed */
    struct graph *recording;  /* NULL: not recording */
    struct note *notes;
    size_t note_count, note_room;
    char *operands;
    size_t operand_bytes, operand_room;
};

static void remove_graph(struct cuda_graphs *graphs, struct graph **at, bool dead)
{
    struct graph *graph = *at;

    *at = graph->next;
    graphs->count--;
    if (graph->exec)
        graphs->operations -= graph->operations;
    if (graph->exec && !dead)
        cudaGraphExecDestroy(graph->exec);
    free(graph);
}

struct cuda_graphs *cuda_graphs_new(struct error *err)
{
    struct cuda_graphs *graphs = calloc(1, sizeof(*graphs));

    if (!graphs) {
        error_errno(err, "cannot allocate memory");
        return NULL;
    }
    graphs->off = cuda_is_set("TRAINSPOOL_NO_GRAPHS");
    return graphs;
}

void cuda_graphs_free(struct cuda_graphs *graphs, bool dead)
{
    if (!graphs)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        while (graphs->slots[i])
            remove_graph(graphs, &graphs->slots[i], dead);
    free(graphs->notes);
    free(graphs->operands);
    free(graphs);
}

/* ---- The keys ---- */

/* FNV-1a */
static size_t hash(const unsigned char *key, size_t bytes)
{
    uint64_t value = 0xcbf29ce484222325u;

    for (size_t i = 0; i < bytes; i++)
        value = (value ^ key[i]) * 0x100000001b3u;
    return (size_t)(value >> 32) % SLOTS;
}

/* Return the slot where it is, or would be. */
static struct graph **find(struct cuda_graphs *graphs, const void *key, size_t bytes)
{
    struct graph **at = &graphs->slots[hash(key, bytes)];

    while (*at && ((*at)->bytes != bytes || memcmp((*at)->key, key, bytes) != 0))
        at = &(*at)->next;
    return at;
}

/* Return the least recently used one, of all or of those that can be replayed. Its graph
 * may still be running: the driver keeps what it needs until it completes. */
static bool evict_one(struct cuda_graphs *graphs, bool recorded)
{
    struct graph **oldest = NULL;

    for (size_t i = 0; i < SLOTS; i++)
        for (struct graph **at = &graphs->slots[i]; *at; at = &(*at)->next)
            if ((!recorded || (*at)->exec) && (!oldest || (*at)->used < (*oldest)->used))
                oldest = at;
    if (oldest)
        remove_graph(graphs, oldest, false);
    return oldest != NULL;
}

static void record_key(struct cuda_graphs *graphs, const void *key, size_t bytes)
{
    struct graph *graph = calloc(1, sizeof(*graph) + bytes);

    if (!graph)
        return; /* next time it is replayed, or never */
    if (graphs->count == GRAPHS)
        evict_one(graphs, false);
    memcpy(graph->key, key, bytes);
    graph->bytes = bytes;
    graph->used = ++graphs->clock;
    *find(graphs, key, bytes) = graph;
    graphs->count++;
}

/* ---- Stored operations ---- */

static bool grow(void **data, size_t *room, size_t wanted, size_t each)
{
    size_t more = *room ? *room : 64;
    void *grown;

    while (more < wanted)
        more *= 2;
    if (more == *room)
        return true;
    grown = realloc(*data, more * each);
    if (!grown)
        return false;
    *data = grown;
    *room = more;
    return true;
}

bool cuda_record(struct cuda_backend *cuda, const struct cuda_operation *kind,
                 const void *op)
{
    struct cuda_graphs *graphs = cuda->graphs;
    size_t at = size_round(graphs->operand_bytes, 16);

    if (!graphs->recording)
        return false;
    if (!grow((void **)&graphs->notes, &graphs->note_room, graphs->note_count + 1,
              sizeof(*graphs->notes)) ||
        !grow((void **)&graphs->operands, &graphs->operand_room, at + kind->bytes, 1)) {
        error_set(&cuda->failed, ERROR_SYSTEM, "cannot allocate memory to record a step");
        return true;
    }
    memcpy(graphs->operands + at, op, kind->bytes);
    graphs->notes[graphs->note_count++] = (struct note) { kind, at };
    graphs->operand_bytes = at + kind->bytes;
    return true;
}

static void put_notes(struct cuda_backend *cuda, bool beats)
{
    struct cuda_graphs *graphs = cuda->graphs;

    for (size_t i = 0; i < graphs->note_count && cuda_ok(cuda); i++) {
        cuda_enqueue(cuda, graphs->notes[i].kind, graphs->operands + graphs->notes[i].at);
        if (beats)
            cuda_beat(cuda, 1);
    }
}

/* ---- Recording and replaying ---- */

static void replay(struct cuda_backend *cuda, struct graph *graph)
{
    cuda->doing = "a recorded step";
    cuda_check(cuda, cudaGraphLaunch(graph->exec, cuda->launch.stream),
               "a recorded step");
    cuda_beat(cuda, graph->operations);
}

/* Relaxed, because only this thread calls the driver, and a kernel may have to
 * be loaded. */
static cudaError_t capture(struct cuda_backend *cuda, cudaGraph_t *out)
{
    cudaError_t status, ended;

    status = cudaStreamBeginCapture(cuda->launch.stream, cudaStreamCaptureModeRelaxed);
    if (status != cudaSuccess)
        return status;
    put_notes(cuda, false);
    ended = cudaStreamEndCapture(cuda->launch.stream, out);
    return cuda_ok(cuda) ? ended : cudaErrorStreamCaptureInvalidated;
}

/* Device memory is allocated here: at replay there is no alternative path left. */
static cudaError_t make_ready(struct cuda_backend *cuda, struct graph *graph,
                              cudaGraph_t captured)
{
    cudaGraphExec_t exec = NULL;
    cudaError_t status = cudaGraphInstantiate(&exec, captured, 0);

    if (status != cudaSuccess)
        return status;
    status = cudaGraphUpload(exec, cuda->launch.stream);
    if (status == cudaSuccess)
        graph->exec = exec;
    else
        cudaGraphExecDestroy(exec);
    return status;
}

/* Evict the least recently replayed recordings if all together exceed the limit. */
static void make_room(struct cuda_graphs *graphs)
{
    while (graphs->operations + graphs->note_count > OPERATIONS &&
           evict_one(graphs, true))
        continue;
}

static bool has_room(const struct cuda_backend *cuda)
{
    size_t wanted = LEFT_ALONE + cuda->graphs->note_count * BYTES_OF_AN_OPERATION;
    size_t available = 0, total;

    if (cudaMemGetInfo(&available, &total) == cudaSuccess)
        return available >= wanted;
    cudaGetLastError();
    return true;
}

/* No operation has run yet when this fails. */
static bool record(struct cuda_backend *cuda, struct graph *graph)
{
    struct cuda_graphs *graphs = cuda->graphs;
    cudaGraph_t captured = NULL;
    cudaError_t status = capture(cuda, &captured);

    cuda_guard(cuda->patience);
    if (status == cudaSuccess)
        status = make_ready(cuda, graph, captured);
    cuda_guard(0);
    if (captured)
        cudaGraphDestroy(captured);
    if (status == cudaSuccess) {
        graph->operations = graphs->note_count;
        graphs->operations += graph->operations;
        return true;
    }
    cudaGetLastError();
    graph->refused = true;
    log_line(cuda->log, LOG_INFO,
             "device: steps of one shape are not recorded but run one operation at a "
             "time (%s)",
             cuda_ok(cuda) ? cudaGetErrorString(status) : cuda->failed.text);
    if (!cuda->dead)
        error_clear(&cuda->failed);
    return false;
}

bool cuda_begin(struct backend *be, const void *key, size_t bytes)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    struct cuda_graphs *graphs = cuda->graphs;
    struct graph *graph;

    if (graphs->off || cuda->named || !cuda_ok(cuda))
        return true;
    graph = *find(graphs, key, bytes);
    if (!graph) {
        record_key(graphs, key, bytes);
        return true;
    }
    graph->used = ++graphs->clock;
    if (graph->exec) {
        replay(cuda, graph);
        return false;
    }
    if (!graph->refused) {
        graphs->recording = graph;
        graphs->note_count = 0;
        graphs->operand_bytes = 0;
    }
    return true;
}

void cuda_end(struct backend *be)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    struct graph *graph = cuda->graphs->recording;

    cuda->graphs->recording = NULL;
    if (!graph || !cuda_ok(cuda))
        return;
    make_room(cuda->graphs);
    if (has_room(cuda) && record(cuda, graph))
        replay(cuda, graph);
    else
        put_notes(cuda, true);
}
