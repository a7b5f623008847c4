/*
 * tests/emulation/emulation_cudnn.cc - cuDNN's backend interface, in place of
 * kernels/cuda/cuda_cudnn.c; emulation_graph.h executes the graphs with plain loops.
 *
 * A graph may consist of any matmuls, pointwise operations, reductions and transposes; a
 * plan can be made for the attention graphs that cuDNN 9.0 has engines for. It refuses
 * more than the real library: an attribute with another type or count, operations in an
 * order in which they cannot run, tensors in a pack that are not in the graph, sequences
 * shorter than the part that is read or written. The first configuration of the heuristic belongs to
 * an engine whose note says that its results vary; executing its plan fails, to catch
 * callers that do not check. Only for gradients, whose results vary with the real library
 * although no note says so, such a plan is executed.
 */
#include "tests/emulation/emulation_graph.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDS = 64, ALIGNMENT = 16 };
enum { NONDETERMINISTIC, DETERMINISTIC, ENGINES }; /* in the order of the heuristic */

static size_t library_version; /* 91900: 9.19.0; 0: not installed */
static int plan_status_set;    /* status of finalizing a plan */

extern "C" void emulation_cudnn(size_t version, int plan_status)
{
    library_version = version;
    plan_status_set = plan_status;
}

struct cudnnContext {
    int device;
    cudaStream_t stream;
};

struct engine {
    int number;
    struct graph graph;
};

struct plan {
    cudnn_handle handle;
    struct engine engine;
};

struct heuristic {
    int mode;
    struct graph graph;
};

struct pack {
    int64_t ids[IDS], count;
    void *pointers[IDS], *workspace;
};

/* ---- Failures ---- */

static thread_local struct {
    int status;
    char text[200];
} failure;

bool graph_require(bool is, enum status status, const char *format, ...)
{
    va_list args;

    if (is)
        return true;
    va_start(args, format);
    vsnprintf(failure.text, sizeof(failure.text), format, args);
    va_end(args);
    failure.status = status;
    return false;
}

static int status_of(bool ok)
{
    return ok ? (int)CUDNN_SUCCESS : failure.status;
}

static void last_error(char *message, size_t room)
{
    snprintf(message, room, "%s", failure.text);
    failure.text[0] = '\0';
}

static const char *status_text(int status)
{
    switch (status) {
    case CUDNN_SUCCESS:
        return "CUDNN_STATUS_SUCCESS";
    case BAD_PARAM:
        return "CUDNN_STATUS_BAD_PARAM";
    case BAD_TYPE:
        return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case NOT_SUPPORTED:
        return "CUDNN_STATUS_NOT_SUPPORTED";
    default:
        return "CUDNN_STATUS_EXECUTION_FAILED";
    }
}

/* ---- Attributes ---- */

enum { PART = CUDNN_TYPE_DESCRIPTOR, ANY_OPERATION = -1 };

/* Offset and size of a member. */
#define TS_AT(type, member) \
    offsetof(struct type, member), sizeof(((struct type *)NULL)->member)

/*
 * `least` and `most` elements are required and allowed: 0 and 1 is optional, 0 and 0
 * read-only. `of`: the kind of a descriptor, whose content is copied, as in the real
 * library.
 */
static const struct attribute {
    int name, type, least, most;
    size_t into, bytes;
    int of;
} attributes[] = {
    { CUDNN_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, 1, TS_AT(how, mode), 0 },
    { CUDNN_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, 1, TS_AT(how, precision), 0 },
    { CUDNN_POINTWISE_AXIS, CUDNN_TYPE_INT64, 0, 1, TS_AT(how, axis), 0 },
    { CUDNN_HEURISTIC_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1, TS_AT(heuristic, mode), 0 },
    { CUDNN_HEURISTIC_GRAPH, PART, 1, 1, TS_AT(heuristic, graph), CUDNN_GRAPH },
    { CUDNN_HEURISTIC_RESULTS, PART, 0, 0, 0, 0, CUDNN_ENGINE_CONFIG },
    { CUDNN_ENGINE_CONFIG_ENGINE, PART, 0, 0, 0, 0, CUDNN_ENGINE },
    { CUDNN_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, 1, TS_AT(plan, handle), 0 },
    { CUDNN_PLAN_ENGINE_CONFIG, PART, 1, 1, TS_AT(plan, engine), CUDNN_ENGINE_CONFIG },
    { CUDNN_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 0, 0, 0, 0, 0 },
    { CUDNN_OP_POINTWISE_DESC, PART, 1, 1, TS_AT(operation, how), CUDNN_POINTWISE },
    { CUDNN_OP_POINTWISE_X, PART, 1, 1, TS_AT(operation, tensors[X]), CUDNN_TENSOR },
    { CUDNN_OP_POINTWISE_B, PART, 0, 1, TS_AT(operation, tensors[B]), CUDNN_TENSOR },
    { CUDNN_OP_POINTWISE_T, PART, 0, 1, TS_AT(operation, tensors[T]), CUDNN_TENSOR },
    { CUDNN_OP_POINTWISE_Y, PART, 1, 1, TS_AT(operation, tensors[Y]), CUDNN_TENSOR },
    { CUDNN_GRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, 1, TS_AT(graph, handle), 0 },
    { CUDNN_GRAPH_OPS, PART, 1, OPS, TS_AT(graph, ops), ANY_OPERATION },
    { CUDNN_TENSOR_ALIGNMENT, CUDNN_TYPE_INT64, 1, 1, TS_AT(tensor, own.alignment), 0 },
    { CUDNN_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, TS_AT(tensor, own.type), 0 },
    { CUDNN_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, RANK, RANK, TS_AT(tensor, own.dims), 0 },
    { CUDNN_TENSOR_STRIDES, CUDNN_TYPE_INT64, RANK, RANK, TS_AT(tensor, own.strides), 0 },
    { CUDNN_TENSOR_ID, CUDNN_TYPE_INT64, 1, 1, TS_AT(tensor, own.id), 0 },
    { CUDNN_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 0, 1, TS_AT(tensor, own.is_virtual),
      0 },
    { CUDNN_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 0, 1, TS_AT(tensor, own.by_value),
      0 },
    { CUDNN_TENSOR_RAGGED_OFFSET, PART, 0, 1, TS_AT(tensor, offsets), CUDNN_TENSOR },
    { CUDNN_VARIANT_PACK_IDS, CUDNN_TYPE_INT64, 1, IDS, TS_AT(pack, ids), 0 },
    { CUDNN_VARIANT_PACK_POINTERS, CUDNN_TYPE_VOID_PTR, 1, IDS, TS_AT(pack, pointers),
      0 },
    { CUDNN_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, 1, TS_AT(pack, workspace),
      0 },
    { CUDNN_ENGINE_NUMERICAL_NOTES, CUDNN_TYPE_NUMERICAL_NOTE, 0, 0, 0, 0, 0 },
    { CUDNN_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, TS_AT(how, precision), 0 },
    { CUDNN_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, 0, 1, TS_AT(how, padding), 0 },
    { CUDNN_OP_MATMUL_DESC, PART, 1, 1, TS_AT(operation, how), CUDNN_MATMUL },
    { CUDNN_OP_MATMUL_A, PART, 1, 1, TS_AT(operation, tensors[X]), CUDNN_TENSOR },
    { CUDNN_OP_MATMUL_B, PART, 1, 1, TS_AT(operation, tensors[B]), CUDNN_TENSOR },
    { CUDNN_OP_MATMUL_C, PART, 1, 1, TS_AT(operation, tensors[Y]), CUDNN_TENSOR },
    { CUDNN_OP_MATMUL_M, PART, 0, 1, TS_AT(operation, tensors[M]), CUDNN_TENSOR },
    { CUDNN_OP_MATMUL_N, PART, 0, 1, TS_AT(operation, tensors[N]), CUDNN_TENSOR },
    { CUDNN_OP_MATMUL_K, PART, 0, 1, TS_AT(operation, tensors[K]), CUDNN_TENSOR },
    { CUDNN_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR, 1, 1, TS_AT(how, mode),
      0 },
    { CUDNN_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, TS_AT(how, precision), 0 },
    { CUDNN_OP_REDUCTION_DESC, PART, 1, 1, TS_AT(operation, how), CUDNN_REDUCTION },
    { CUDNN_OP_REDUCTION_X, PART, 1, 1, TS_AT(operation, tensors[X]), CUDNN_TENSOR },
    { CUDNN_OP_REDUCTION_Y, PART, 1, 1, TS_AT(operation, tensors[Y]), CUDNN_TENSOR },
    { CUDNN_OP_RESHAPE_X, PART, 1, 1, TS_AT(operation, tensors[X]), CUDNN_TENSOR },
    { CUDNN_OP_RESHAPE_Y, PART, 1, 1, TS_AT(operation, tensors[Y]), CUDNN_TENSOR },
};

enum { ATTRIBUTES = sizeof(attributes) / sizeof(attributes[0]) };

union body {
    struct tensor tensor;
    struct how how;
    struct operation op;
    struct graph graph;
    struct engine engine; /* and its configuration */
    struct plan plan;
    struct heuristic heuristic;
    struct pack pack;
};

struct descriptor {
    const struct kind *kind;
    bool finalized;
    int64_t counts[ATTRIBUTES]; /* elements set, by row of the table */
    union body body;
};

/* ---- Checks of a descriptor ---- */

static bool handle_check(cudnn_handle handle)
{
    return graph_require(handle && handle->device == runtime_ordinal(), BAD_PARAM,
                         "the handle belongs to another device");
}

static bool plan_check(void *body)
{
    const struct plan *plan = (const struct plan *)body;

    return graph_require(!plan_status_set, (status)plan_status_set,
                         "finalizing plans is set to fail") &&
           handle_check(plan->handle) && handle_check(plan->engine.graph.handle) &&
           graph_require(runtime_device()->capability >= 80, NOT_SUPPORTED,
                         "attention requires compute capability 8.0") &&
           graph_is_attention(&plan->engine.graph);
}

static bool pack_check(void *body)
{
    const struct pack *pack = (const struct pack *)body;

    for (int64_t i = 0; i < pack->count; i++)
        for (int64_t j = 0; j < i; j++)
            if (!graph_require(pack->ids[i] != pack->ids[j], BAD_PARAM,
                               "a pack has the id %lld twice", (long long)pack->ids[i]))
                return false;
    return true;
}

static bool graph_desc_check(void *body)
{
    return graph_check(body) && handle_check(((struct graph *)body)->handle);
}

static bool heuristic_check(void *body)
{
    return handle_check(((struct heuristic *)body)->graph.handle);
}

static bool engine_check(void *body)
{
    (void)body;
    return graph_require(false, BAD_PARAM,
                         "engines come from the heuristic and cannot be created");
}

/* ---- Descriptors ---- */

/* A kind with its first and its last attribute. */
static const struct kind {
    int kind, first, last;
    bool (*check)(void *body);
} kinds[] = {
    { CUDNN_TENSOR, CUDNN_TENSOR_ALIGNMENT, CUDNN_TENSOR_RAGGED_OFFSET, tensor_check },
    { CUDNN_POINTWISE, CUDNN_POINTWISE_MODE, CUDNN_POINTWISE_AXIS, pointwise_check },
    { CUDNN_MATMUL, CUDNN_MATMUL_COMP_TYPE, CUDNN_MATMUL_PADDING_VALUE, compute_check },
    { CUDNN_REDUCTION, CUDNN_REDUCTION_OPERATOR, CUDNN_REDUCTION_COMP_TYPE,
      compute_check },
    { CUDNN_OP_POINTWISE, CUDNN_OP_POINTWISE_DESC, CUDNN_OP_POINTWISE_T,
      op_pointwise_check },
    { CUDNN_OP_MATMUL, CUDNN_OP_MATMUL_A, CUDNN_OP_MATMUL_K, op_matmul_check },
    { CUDNN_OP_REDUCTION, CUDNN_OP_REDUCTION_X, CUDNN_OP_REDUCTION_DESC,
      op_reduction_check },
    { CUDNN_OP_RESHAPE, CUDNN_OP_RESHAPE_X, CUDNN_OP_RESHAPE_Y, op_reshape_check },
    { CUDNN_GRAPH, CUDNN_GRAPH_HANDLE, CUDNN_GRAPH_OPS, graph_desc_check },
    { CUDNN_HEURISTIC, CUDNN_HEURISTIC_MODE, CUDNN_HEURISTIC_RESULTS, heuristic_check },
    { CUDNN_ENGINE_CONFIG, CUDNN_ENGINE_CONFIG_ENGINE, CUDNN_ENGINE_CONFIG_ENGINE,
      engine_check },
    { CUDNN_ENGINE, CUDNN_ENGINE_NUMERICAL_NOTES, CUDNN_ENGINE_NUMERICAL_NOTES,
      engine_check },
    { CUDNN_PLAN, CUDNN_PLAN_HANDLE, CUDNN_PLAN_WORKSPACE_SIZE, plan_check },
    { CUDNN_VARIANT_PACK, CUDNN_VARIANT_PACK_IDS, CUDNN_VARIANT_PACK_WORKSPACE,
      pack_check },
};

static bool belongs(const struct attribute *row, const struct descriptor *d)
{
    return row->name >= d->kind->first && row->name <= d->kind->last;
}

static const struct attribute *attribute_of(const struct descriptor *d, int name)
{
    for (const struct attribute &row : attributes)
        if (row.name == name && belongs(&row, d))
            return &row;
    graph_require(false, BAD_PARAM, "descriptors of kind %d have no attribute %d",
                  d->kind->kind, name);
    return NULL;
}

static int64_t count_of(const struct descriptor *d, int name)
{
    return d->counts[attribute_of(d, name) - attributes];
}

static int desc_create(int kind, cudnn_descriptor *desc)
{
    for (const struct kind &row : kinds)
        if (row.kind == kind) {
            struct descriptor *d = (struct descriptor *)calloc(1, sizeof(*d));

            d->kind = &row;
            if (kind == CUDNN_POINTWISE)
                d->body.how.axis = -1;
            *desc = d;
            return CUDNN_SUCCESS;
        }
    return status_of(
        graph_require(false, NOT_SUPPORTED, "unknown kind of descriptor: %d", kind));
}

static int desc_destroy(cudnn_descriptor desc)
{
    free(desc);
    return CUDNN_SUCCESS;
}

static bool kind_matches(const struct kind *kind, int expected)
{
    return expected == ANY_OPERATION
               ? kind->kind == CUDNN_OP_POINTWISE || kind->kind == CUDNN_OP_MATMUL ||
                     kind->kind == CUDNN_OP_REDUCTION || kind->kind == CUDNN_OP_RESHAPE
               : kind->kind == expected;
}

static bool is_known(int type, int64_t number)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
        return number == 0 || number == 1;
    case CUDNN_TYPE_DATA_TYPE:
        return graph_bytes((int)number) > 0;
    case CUDNN_TYPE_POINTWISE_MODE:
        return graph_mode((int)number) > 0;
    case CUDNN_TYPE_REDUCTION_OPERATOR:
        return number == CUDNN_REDUCE_ADD || number == CUDNN_REDUCE_MAX;
    case CUDNN_TYPE_HEUR_MODE:
        return number == CUDNN_HEURISTIC_A;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
        return number != 0;
    default:
        return true;
    }
}

static bool put_element(const struct attribute *row, void *to, size_t bytes,
                        const void *from)
{
    const struct descriptor *part = NULL;
    int64_t number = 0;

    if (row->type != CUDNN_TYPE_DESCRIPTOR) {
        memcpy(to, from, bytes);
        memcpy(&number, from, bytes); /* little-endian: the low bytes come first */
        return graph_require(is_known(row->type, number), BAD_PARAM,
                             "attribute %d must not be %lld", row->name,
                             (long long)number);
    }
    memcpy(&part, from, sizeof(part));
    if (!graph_require(
            part && kind_matches(part->kind, row->of) && part->finalized, BAD_PARAM,
            "attribute %d must be a finalized descriptor of its kind", row->name))
        return false;
    memcpy(to, &part->body, bytes);
    return true;
}

static int desc_set(cudnn_descriptor desc, int name, int type, int64_t count,
                    const void *elements)
{
    struct descriptor *d = (struct descriptor *)desc;
    const struct attribute *row;
    size_t bytes, from;
    bool ok;

    if (!graph_require(d && elements, BAD_PARAM,
                       "attribute %d: no descriptor or no elements", name) ||
        !(row = attribute_of(d, name)) ||
        !graph_require(row->most > 0 && !d->finalized, BAD_PARAM,
                       "attribute %d cannot be set", name) ||
        !graph_require(type == row->type, BAD_TYPE, "attribute %d must not have type %d",
                       name, type) ||
        !graph_require(count > 0 && count >= row->least && count <= row->most, BAD_PARAM,
                       "attribute %d must not have %lld elements", name,
                       (long long)count))
        return failure.status;
    bytes = row->bytes / (size_t)row->most;
    from = type == CUDNN_TYPE_DESCRIPTOR ? sizeof(cudnn_descriptor) : bytes;
    ok = true;
    for (size_t i = 0; ok && i < (size_t)count; i++)
        ok = put_element(row, (char *)&d->body + row->into + i * bytes, bytes,
                         (const char *)elements + i * from);
    if (ok)
        d->counts[row - attributes] = count;
    return status_of(ok);
}

static int finalize(cudnn_descriptor desc)
{
    struct descriptor *d = (struct descriptor *)desc;

    if (!graph_require(d && !d->finalized, BAD_PARAM,
                       "no descriptor, or already finalized"))
        return failure.status;
    for (const struct attribute &row : attributes)
        if (!graph_require(!belongs(&row, d) || row.least == 0 ||
                               d->counts[&row - attributes] > 0,
                           BAD_PARAM, "attribute %d is missing", row.name))
            return failure.status;
    if (d->kind->kind == CUDNN_GRAPH)
        d->body.graph.count = count_of(d, CUDNN_GRAPH_OPS);
    if (d->kind->kind == CUDNN_VARIANT_PACK) {
        d->body.pack.count = count_of(d, CUDNN_VARIANT_PACK_IDS);
        if (!graph_require(d->body.pack.count == count_of(d, CUDNN_VARIANT_PACK_POINTERS),
                           BAD_PARAM, "a pack has different numbers of pointers and ids"))
            return failure.status;
    }
    d->finalized = d->kind->check(&d->body);
    return status_of(d->finalized);
}

/* Fill a descriptor that the caller has created. */
static bool fill(cudnn_descriptor desc, int kind, int number, const struct graph *graph)
{
    struct descriptor *d = (struct descriptor *)desc;

    if (!graph_require(d && d->kind->kind == kind && !d->finalized, BAD_PARAM,
                       "a result requires a new descriptor of kind %d", kind))
        return false;
    d->body.engine.number = number;
    d->body.engine.graph = *graph;
    d->finalized = true;
    return true;
}

/* Different for each shape. */
static int64_t workspace_of(const struct graph *graph)
{
    const int64_t *dims = graph->ops[0].tensors[Y].own.dims;

    return 256 + 4 * dims[0] * dims[1] * dims[2];
}

static int desc_get(cudnn_descriptor desc, int name, int type, int64_t room,
                    int64_t *count, void *elements)
{
    struct descriptor *d = (struct descriptor *)desc;
    const struct attribute *row;
    int64_t found = 1;
    bool ok = true;

    if (!graph_require(d && d->finalized && count && room > 0, BAD_PARAM,
                       "attribute %d: descriptor not finalized, or no room", name) ||
        !(row = attribute_of(d, name)) ||
        !graph_require(row->most == 0 && type == row->type, BAD_PARAM,
                       "attribute %d cannot be read as type %d", name, type))
        return failure.status;
    if (name == CUDNN_HEURISTIC_RESULTS)
        found = ENGINES;
    if (name == CUDNN_ENGINE_NUMERICAL_NOTES)
        found = d->body.engine.number == NONDETERMINISTIC;
    for (int i = 0; elements && ok && i < found && i < room; i++)
        switch (name) {
        case CUDNN_HEURISTIC_RESULTS:
            ok = fill(((cudnn_descriptor *)elements)[i], CUDNN_ENGINE_CONFIG, i,
                      &d->body.heuristic.graph);
            break;
        case CUDNN_ENGINE_CONFIG_ENGINE:
            ok = fill(*(cudnn_descriptor *)elements, CUDNN_ENGINE, d->body.engine.number,
                      &d->body.engine.graph);
            break;
        case CUDNN_ENGINE_NUMERICAL_NOTES:
            *(int *)elements = CUDNN_NONDETERMINISTIC;
            break;
        case CUDNN_PLAN_WORKSPACE_SIZE:
            *(int64_t *)elements = workspace_of(&d->body.plan.engine.graph);
            break;
        }
    *count = found;
    return status_of(ok);
}

/* ---- Execution ---- */

static void *pointer_of(const struct pack *pack, int64_t id)
{
    for (int64_t i = 0; i < pack->count; i++)
        if (pack->ids[i] == id)
            return pack->pointers[i];
    return NULL;
}

static bool bind(struct tensor *t, const struct pack *pack)
{
    const struct layout *offsets = &t->offsets;
    size_t bytes =
        is_ragged(t) ? 1 : (size_t)(graph_span(&t->own) * graph_bytes(t->own.type));
    long long id = t->own.id;

    if (!has(&t->own) || t->own.is_virtual)
        return true;
    t->data = (char *)pointer_of(pack, t->own.id);
    t->starts = has(offsets) ? (const int32_t *)pointer_of(pack, offsets->id) : NULL;
    if (!graph_require(t->data && (t->starts || !has(offsets)), BAD_PARAM,
                       "tensor %lld or its offsets are not in the pack", id))
        return false;
    if (t->own.by_value) {
        if (!graph_require(!runtime_is_device(t->data, 1), BAD_PARAM,
                           "tensor %lld is by value but not in host memory", id))
            return false;
        t->value = graph_load(t->data, t->own.type, 0);
        return true;
    }
    return graph_require((uintptr_t)t->data % ALIGNMENT == 0 &&
                             (uintptr_t)t->starts % ALIGNMENT == 0 &&
                             (uintptr_t)t->data % (uintptr_t)t->own.alignment == 0,
                         BAD_PARAM, "tensor %lld or its offsets are not aligned", id) &&
           graph_require(
               runtime_is_device(t->data, bytes) &&
                   (!t->starts ||
                    runtime_is_device(t->starts, (size_t)graph_span(offsets) * 4)),
               BAD_PARAM, "tensor %lld or its offsets are not in device memory", id);
}

static bool bind_all(struct graph *graph, const struct pack *pack)
{
    for (int64_t i = 0; i < pack->count; i++) {
        const struct layout *l = graph_find(graph, pack->ids[i]);

        if (!graph_require(l && !l->is_virtual, BAD_PARAM,
                           "tensor %lld of the pack is not in the graph",
                           (long long)pack->ids[i]))
            return false;
    }
    for (int64_t i = 0; i < graph->count; i++)
        for (struct tensor &t : graph->ops[i].tensors)
            if (!bind(&t, pack))
                return false;
    return true;
}

static int execute(cudnn_handle handle, cudnn_descriptor of_plan,
                   cudnn_descriptor of_pack)
{
    struct descriptor *plan = (struct descriptor *)of_plan,
                      *pack = (struct descriptor *)of_pack;
    struct job *job;
    bool ok;

    if (!graph_require(plan && plan->finalized && plan->kind->kind == CUDNN_PLAN &&
                           pack && pack->finalized &&
                           pack->kind->kind == CUDNN_VARIANT_PACK,
                       BAD_PARAM, "expected a plan and a variant pack") ||
        !handle_check(handle) ||
        !graph_require(plan->body.plan.handle == handle, BAD_PARAM,
                       "the plan belongs to another handle") ||
        !graph_require(plan->body.plan.engine.number != NONDETERMINISTIC ||
                           graph_is_backward(&plan->body.plan.engine.graph),
                       FAILED, "the results of this engine vary"))
        return failure.status;
    job = (struct job *)emulation_memory(sizeof(*job));
    job->graph = plan->body.plan.engine.graph;
    job->workspace = pack->body.pack.workspace;
    job->bytes = (size_t)workspace_of(&job->graph);
    ok = bind_all(&job->graph, &pack->body.pack) &&
         graph_require(runtime_is_device(job->workspace, job->bytes), BAD_PARAM,
                       "the workspace must be %zu bytes of device memory", job->bytes) &&
         graph_require(streams_add_call(graph_run, job, sizeof(*job), handle->stream) ==
                           cudaSuccess,
                       FAILED, "the stream accepts no work");
    free(job);
    return status_of(ok);
}

static int create(cudnn_handle *handle)
{
    if (!graph_require(!streams_capturing(), FAILED,
                       "cannot create a handle while a stream is captured"))
        return failure.status;
    *handle = (cudnn_handle)calloc(1, sizeof(**handle));
    (*handle)->device = runtime_ordinal();
    return CUDNN_SUCCESS;
}

static int destroy(cudnn_handle handle)
{
    free(handle);
    return CUDNN_SUCCESS;
}

static int set_stream(cudnn_handle handle, cudaStream_t stream)
{
    if (!handle_check(handle))
        return failure.status;
    handle->stream = stream;
    return CUDNN_SUCCESS;
}

static size_t version(void)
{
    return library_version;
}

extern "C" bool cuda_cudnn_open(struct cuda_cudnn *out, struct error *err)
{
    const char *installed = getenv("EMULATION_CUDNN");

    *out = {};
    if (!library_version && installed)
        library_version = strtoul(installed, NULL, 10);
    if (!library_version)
        return error_set(err, ERROR_DEVICE, "cannot find cuDNN");
    out->handle = out;
    snprintf(out->name, sizeof(out->name), "cuDNN %zu.%zu.%zu (emulated)",
             library_version / 10000 % 100, library_version / 100 % 100,
             library_version % 100);
    out->version = version;
    out->text = status_text;
    out->last_error = last_error;
    out->create = create;
    out->destroy = destroy;
    out->set_stream = set_stream;
    out->desc_create = desc_create;
    out->desc_destroy = desc_destroy;
    out->desc_set = desc_set;
    out->desc_get = desc_get;
    out->finalize = finalize;
    out->execute = execute;
    return true;
}

extern "C" void cuda_cudnn_close(struct cuda_cudnn *cudnn)
{
    *cudnn = {};
}
