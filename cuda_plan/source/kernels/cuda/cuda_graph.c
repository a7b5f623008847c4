/*
 * kernels/cuda/cuda_graph.c - a step's list of operations, recorded once and played
 * again.
 *
 * A launch costs the host some microseconds, a graph of hundreds of kernels about as much
 * as one.  The operations between begin and end are noted down and put into the stream at
 * its end, under capture; if the driver does not take them, the same notes are put in as
 * they are.
 */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/* A job has some dozens of shapes of passes; one with more is not worth keeping them all. */
enum { GRAPHS = 64 };

struct note {
    const struct cuda_kind *kind;
    size_t at; /* of its operands in `operands` */
};

struct graph {
    void *key;
    size_t bytes;
    uint64_t used; /* when: the least is given up first */
    cudaGraphExec_t exec;
    size_t operations;
    bool refused; /* the driver cannot record it */
};

struct cuda_graphs {
    bool off;
    uint64_t clock;
    struct graph graphs[GRAPHS];
    struct graph *recording; /* NULL: none is being made */
    struct note *notes;
    size_t note_count, note_room;
    char *operands;
    size_t operand_bytes, operand_room;
};

struct cuda_graphs *cuda_graphs_new(struct error *err)
{
    struct cuda_graphs *graphs = calloc(1, sizeof(*graphs));
    const char *asked = getenv("TRAINSPOOL_NO_GRAPHS");

    if (!graphs) {
        error_errno(err, "cannot get memory");
        return NULL;
    }
    graphs->off = asked && *asked && strcmp(asked, "0") != 0;
    return graphs;
}

void cuda_graphs_free(struct cuda_graphs *graphs, bool dead)
{
    if (!graphs)
        return;
    for (size_t i = 0; i < GRAPHS; i++) {
        if (graphs->graphs[i].exec && !dead)
            cudaGraphExecDestroy(graphs->graphs[i].exec);
        free(graphs->graphs[i].key);
    }
    free(graphs->notes);
    free(graphs->operands);
    free(graphs);
}

/* ---- The keys ---- */

static struct graph *find(struct cuda_graphs *graphs, const void *key, size_t bytes)
{
    for (size_t i = 0; i < GRAPHS; i++) {
        struct graph *graph = &graphs->graphs[i];

        if (graph->key && graph->bytes == bytes && memcmp(graph->key, key, bytes) == 0)
            return graph;
    }
    return NULL;
}

/* In the place of the one not used for longest.  Its graph may still be playing: the
 * driver keeps what it needs until it has. */
static void remember(struct cuda_graphs *graphs, const void *key, size_t bytes)
{
    struct graph *graph = &graphs->graphs[0];
    void *copy = malloc(bytes ? bytes : 1);

    if (!copy)
        return; /* it is played next time, or never */
    memcpy(copy, key, bytes);
    for (size_t i = 1; i < GRAPHS; i++)
        if (graphs->graphs[i].used < graph->used)
            graph = &graphs->graphs[i];
    if (graph->exec)
        cudaGraphExecDestroy(graph->exec);
    free(graph->key);
    *graph = (struct graph) { .key = copy, .bytes = bytes, .used = ++graphs->clock };
}

/* ---- The notes ---- */

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

bool cuda_note(struct cuda_backend *cuda, const struct cuda_kind *kind, const void *op)
{
    struct cuda_graphs *graphs = cuda->graphs;
    size_t at = size_round(graphs->operand_bytes, 16);

    if (!graphs->recording)
        return false;
    if (!grow((void **)&graphs->notes, &graphs->note_room, graphs->note_count + 1,
              sizeof(*graphs->notes)) ||
        !grow((void **)&graphs->operands, &graphs->operand_room, at + kind->bytes, 1)) {
        error_set(&cuda->failed, ERROR_SYSTEM, "cannot get memory to record a step");
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

    for (size_t i = 0; i < graphs->note_count && cuda_well(cuda); i++) {
        cuda_put(cuda, graphs->notes[i].kind, graphs->operands + graphs->notes[i].at);
        if (beats)
            cuda_beat(cuda, 1);
    }
}

/* ---- Recording and playing ---- */

static void play(struct cuda_backend *cuda, struct graph *graph)
{
    graph->used = ++cuda->graphs->clock;
    cuda->doing = "a recorded step";
    cuda_check(cuda, cudaGraphLaunch(graph->exec, cuda->launch.stream),
               "a recorded step");
    cuda_beat(cuda, graph->operations);
}

/* Relaxed, as only this thread speaks to the card, and a kernel may have to be loaded. */
static cudaError_t capture(struct cuda_backend *cuda, cudaGraph_t *out)
{
    cudaError_t status, ended;

    status = cudaStreamBeginCapture(cuda->launch.stream, cudaStreamCaptureModeRelaxed);
    if (status != cudaSuccess)
        return status;
    put_notes(cuda, false);
    ended = cudaStreamEndCapture(cuda->launch.stream, out);
    return cuda_well(cuda) ? ended : cudaErrorStreamCaptureInvalidated;
}

/* Its memory on the card is taken here: when it is played, there is no other way left. */
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

/* Nothing has been done yet when this fails. */
static bool record(struct cuda_backend *cuda, struct graph *graph)
{
    cudaGraph_t captured = NULL;
    cudaError_t status = capture(cuda, &captured);

    cuda_guard(cuda->patience);
    if (status == cudaSuccess)
        status = make_ready(cuda, graph, captured);
    cuda_guard(0);
    if (captured)
        cudaGraphDestroy(captured);
    graph->operations = cuda->graphs->note_count;
    if (status == cudaSuccess)
        return true;
    cudaGetLastError();
    graph->refused = true;
    log_line(cuda->log, LOG_INFO,
             "device: steps of one shape are not recorded, but done one operation at a "
             "time (%s)",
             cuda_well(cuda) ? cudaGetErrorString(status) : cuda->failed.text);
    if (!cuda->dead)
        error_clear(&cuda->failed);
    return false;
}

bool cuda_begin(struct backend *be, const void *key, size_t bytes)
{
    struct cuda_backend *cuda = cuda_backend_of(be);
    struct cuda_graphs *graphs = cuda->graphs;
    struct graph *graph;

    if (graphs->off || cuda->named || !cuda_well(cuda))
        return true;
    graph = find(graphs, key, bytes);
    if (!graph) {
        remember(graphs, key, bytes);
    } else if (graph->exec) {
        play(cuda, graph);
        return false;
    } else if (!graph->refused) {
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
    if (!graph || !cuda_well(cuda))
        return;
    if (record(cuda, graph))
        play(cuda, graph);
    else
        put_notes(cuda, true);
}
