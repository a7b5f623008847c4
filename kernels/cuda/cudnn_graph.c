/* kernels/cuda/cudnn_graph.c - descriptors of tensors, operations and plans. */
#include "config.h"

#include "kernels/cuda/cudnn_graph.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIGS_MOST = 8, ALIGNMENT = 16 };

/* ---- Descriptors ---- */

static bool status_ok(struct cudnn_graph *g, int status, const char *doing)
{
    if (g->status == CUDNN_SUCCESS && status != CUDNN_SUCCESS) {
        g->status = status;
        g->doing = doing;
        g->cudnn->last_error(g->why, sizeof(g->why));
        g->why[strcspn(g->why, "\n")] = '\0';
    }
    return g->status == CUDNN_SUCCESS;
}

static cudnn_descriptor make(struct cudnn_graph *g, enum cudnn_kind kind)
{
    struct cudnn_plan *plan = g->plan;
    cudnn_descriptor *desc = &plan->descriptors[plan->count];

    assert(plan->count < CUDNN_GRAPH_DESCRIPTORS);
    if (g->status != CUDNN_SUCCESS ||
        !status_ok(g, g->cudnn->desc_create(kind, desc), "cannot create a descriptor"))
        return NULL;
    plan->count++;
    return *desc;
}

static void set(struct cudnn_graph *g, cudnn_descriptor desc,
                enum cudnn_attribute attribute, enum cudnn_type type, int64_t count,
                const void *elements)
{
    if (g->status == CUDNN_SUCCESS)
        status_ok(g, g->cudnn->desc_set(desc, attribute, type, count, elements),
                  "cannot set an attribute");
}

static void set_number(struct cudnn_graph *g, cudnn_descriptor desc,
                       enum cudnn_attribute attribute, int64_t number)
{
    set(g, desc, attribute, CUDNN_TYPE_INT64, 1, &number);
}

static void set_bool(struct cudnn_graph *g, cudnn_descriptor desc,
                     enum cudnn_attribute attribute, bool is)
{
    set(g, desc, attribute, CUDNN_TYPE_BOOLEAN, 1, &is);
}

/* For an enumeration, which is an int here. */
static void set_word(struct cudnn_graph *g, cudnn_descriptor desc,
                     enum cudnn_attribute attribute, enum cudnn_type type, int word)
{
    set(g, desc, attribute, type, 1, &word);
}

/* Optional if NULL. */
static void set_desc(struct cudnn_graph *g, cudnn_descriptor desc,
                     enum cudnn_attribute attribute, cudnn_descriptor other)
{
    if (other)
        set(g, desc, attribute, CUDNN_TYPE_DESCRIPTOR, 1, &other);
}

static void finish(struct cudnn_graph *g, cudnn_descriptor desc, const char *what)
{
    if (g->status == CUDNN_SUCCESS)
        status_ok(g, g->cudnn->finalize(desc), what);
}

static void finish_op(struct cudnn_graph *g, cudnn_descriptor op)
{
    assert(g->op_count < CUDNN_GRAPH_OPS_MOST);
    finish(g, op, "cannot finalize an operation");
    if (g->status == CUDNN_SUCCESS)
        g->ops[g->op_count++] = op;
}

/* ---- Tensors ---- */

struct cudnn_shape cudnn_shape_transposed(struct cudnn_shape s)
{
    return (struct cudnn_shape) {
        { s.dims[0], s.dims[1], s.dims[3], s.dims[2] },
        { s.strides[0], s.strides[1], s.strides[3], s.strides[2] },
    };
}

struct cudnn_shape cudnn_shape_list(int64_t count)
{
    return (struct cudnn_shape) { { count, 1, 1, 1 }, { 1, 1, 1, 1 } };
}

struct cudnn_shape cudnn_shape_rows(const struct cudnn_graph *g, int64_t elements)
{
    int64_t heads = g->scores[1], rows = g->scores[2];

    return (
        struct cudnn_shape) { { g->scores[0], heads, rows, elements },
                              { heads * rows * elements, rows * elements, elements, 1 } };
}

enum place { IN_GRAPH, IN_MEMORY, BY_VALUE };

static cudnn_descriptor tensor(struct cudnn_graph *g, int64_t id, enum place place,
                               int data_type, const struct cudnn_shape *shape,
                               cudnn_descriptor offsets)
{
    cudnn_descriptor desc = make(g, CUDNN_TENSOR);

    set_number(g, desc, CUDNN_TENSOR_ID, id);
    set_number(g, desc, CUDNN_TENSOR_ALIGNMENT, ALIGNMENT);
    set_word(g, desc, CUDNN_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, data_type);
    set(g, desc, CUDNN_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape->dims);
    set(g, desc, CUDNN_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape->strides);
    set_bool(g, desc, CUDNN_TENSOR_IS_VIRTUAL, place == IN_GRAPH);
    set_bool(g, desc, CUDNN_TENSOR_IS_BY_VALUE, place == BY_VALUE);
    set_desc(g, desc, CUDNN_TENSOR_RAGGED_OFFSET, offsets);
    finish(g, desc, "cannot finalize a tensor");
    if (place != IN_GRAPH)
        g->plan->ids |= (uint64_t)1 << id;
    return desc;
}

cudnn_descriptor cudnn_graph_inside(struct cudnn_graph *g, int data_type,
                                    struct cudnn_shape shape)
{
    return tensor(g, g->next_id++, IN_GRAPH, data_type, &shape, NULL);
}

cudnn_descriptor cudnn_graph_inside_ragged(struct cudnn_graph *g, int data_type,
                                           struct cudnn_shape shape,
                                           cudnn_descriptor offsets)
{
    return tensor(g, g->next_id++, IN_GRAPH, data_type, &shape, offsets);
}

cudnn_descriptor cudnn_graph_value(struct cudnn_graph *g, int64_t id)
{
    struct cudnn_shape one = cudnn_shape_list(1);

    return tensor(g, id, BY_VALUE, CUDNN_FLOAT, &one, NULL);
}

cudnn_descriptor cudnn_graph_memory(struct cudnn_graph *g, int64_t id, int data_type,
                                    struct cudnn_shape shape, cudnn_descriptor offsets)
{
    return tensor(g, id, IN_MEMORY, data_type, &shape, offsets);
}

static cudnn_descriptor scores(struct cudnn_graph *g, int data_type)
{
    return cudnn_graph_inside(g, data_type, cudnn_shape_rows(g, g->scores[2]));
}

/* ---- Operations ---- */

cudnn_descriptor cudnn_graph_pointwise(struct cudnn_graph *g, struct cudnn_pointwise_op p)
{
    cudnn_descriptor how = make(g, CUDNN_POINTWISE), op;

    set_word(g, how, CUDNN_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, (int)p.mode);
    set_word(g, how, CUDNN_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, p.precision);
    if (p.mode == CUDNN_GEN_INDEX)
        set_number(g, how, CUDNN_POINTWISE_AXIS, p.axis);
    finish(g, how, "cannot finalize a pointwise operation");
    op = make(g, CUDNN_OP_POINTWISE);
    set_desc(g, op, CUDNN_OP_POINTWISE_DESC, how);
    set_desc(g, op, CUDNN_OP_POINTWISE_X, p.x);
    set_desc(g, op, CUDNN_OP_POINTWISE_B, p.b);
    set_desc(g, op, CUDNN_OP_POINTWISE_T, p.t);
    set_desc(g, op, CUDNN_OP_POINTWISE_Y, p.y);
    finish_op(g, op);
    return p.y;
}

cudnn_descriptor cudnn_graph_apply(struct cudnn_graph *g, enum cudnn_pointwise mode,
                                   int data_type, cudnn_descriptor x,
                                   cudnn_descriptor other)
{
    return cudnn_graph_pointwise(g,
                                 (struct cudnn_pointwise_op) { .mode = mode,
                                                               .precision = data_type,
                                                               .y = scores(g, data_type),
                                                               .x = x,
                                                               .b = other });
}

cudnn_descriptor cudnn_graph_index(struct cudnn_graph *g, cudnn_descriptor x,
                                   int64_t axis)
{
    return cudnn_graph_pointwise(
        g, (struct cudnn_pointwise_op) { .mode = CUDNN_GEN_INDEX,
                                         .precision = CUDNN_INT32,
                                         .y = scores(g, CUDNN_INT32),
                                         .x = x,
                                         .axis = axis });
}

cudnn_descriptor cudnn_graph_select(struct cudnn_graph *g, cudnn_descriptor x,
                                    cudnn_descriptor seen, cudnn_descriptor hidden)
{
    return cudnn_graph_pointwise(
        g, (struct cudnn_pointwise_op) { .mode = CUDNN_SELECT,
                                         .precision = CUDNN_FLOAT,
                                         .y = scores(g, CUDNN_FLOAT),
                                         .x = x,
                                         .b = hidden,
                                         .t = seen });
}

cudnn_descriptor cudnn_graph_product(struct cudnn_graph *g, struct cudnn_product p)
{
    static const double nothing = 0;
    cudnn_descriptor how = make(g, CUDNN_MATMUL), op;

    set_word(g, how, CUDNN_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_FLOAT);
    if (p.pads)
        set(g, how, CUDNN_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, 1, &nothing);
    finish(g, how, "cannot finalize a matmul");
    op = make(g, CUDNN_OP_MATMUL);
    set_desc(g, op, CUDNN_OP_MATMUL_DESC, how);
    set_desc(g, op, CUDNN_OP_MATMUL_A, p.a);
    set_desc(g, op, CUDNN_OP_MATMUL_B, p.b);
    set_desc(g, op, CUDNN_OP_MATMUL_C, p.c);
    set_desc(g, op, CUDNN_OP_MATMUL_M, p.m);
    set_desc(g, op, CUDNN_OP_MATMUL_N, p.n);
    set_desc(g, op, CUDNN_OP_MATMUL_K, p.k);
    finish_op(g, op);
    return p.c;
}

cudnn_descriptor cudnn_graph_reduce(struct cudnn_graph *g, enum cudnn_reduction kind,
                                    cudnn_descriptor x, cudnn_descriptor y)
{
    cudnn_descriptor how = make(g, CUDNN_REDUCTION), op;

    set_word(g, how, CUDNN_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR, (int)kind);
    set_word(g, how, CUDNN_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_FLOAT);
    finish(g, how, "cannot finalize a reduction");
    op = make(g, CUDNN_OP_REDUCTION);
    set_desc(g, op, CUDNN_OP_REDUCTION_DESC, how);
    set_desc(g, op, CUDNN_OP_REDUCTION_X, x);
    set_desc(g, op, CUDNN_OP_REDUCTION_Y, y);
    finish_op(g, op);
    return y;
}

cudnn_descriptor cudnn_graph_reshape(struct cudnn_graph *g, cudnn_descriptor x,
                                     cudnn_descriptor y)
{
    cudnn_descriptor op = make(g, CUDNN_OP_RESHAPE);

    set_desc(g, op, CUDNN_OP_RESHAPE_X, x);
    set_desc(g, op, CUDNN_OP_RESHAPE_Y, y);
    finish_op(g, op);
    return y;
}

/* ---- The plan ---- */

static cudnn_descriptor finish_graph(struct cudnn_graph *g, cudnn_handle handle)
{
    cudnn_descriptor graph = make(g, CUDNN_GRAPH);

    set(g, graph, CUDNN_GRAPH_OPS, CUDNN_TYPE_DESCRIPTOR, (int64_t)g->op_count, g->ops);
    if (handle)
        set(g, graph, CUDNN_GRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    finish(g, graph, "cannot finalize the graph of attention");
    return graph;
}

/* Return whether the engine declares that it may give different bits next time. */
static bool is_nondeterministic(struct cudnn_graph *g, cudnn_descriptor config)
{
    cudnn_descriptor engine = make(g, CUDNN_ENGINE);
    int notes[CUDNN_NOTES];
    int64_t count = 0;

    if (g->status != CUDNN_SUCCESS ||
        !status_ok(g,
                   g->cudnn->desc_get(config, CUDNN_ENGINE_CONFIG_ENGINE,
                                      CUDNN_TYPE_DESCRIPTOR, 1, &count, &engine),
                   "cannot read an engine") ||
        !status_ok(g,
                   g->cudnn->desc_get(engine, CUDNN_ENGINE_NUMERICAL_NOTES,
                                      CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NOTES, &count,
                                      notes),
                   "cannot read the notes of an engine"))
        return true;
    for (int64_t i = 0; i < count && i < CUDNN_NOTES; i++)
        if (notes[i] == CUDNN_NONDETERMINISTIC)
            return true;
    return false;
}

/* Create the plan with this configuration; false leaves the graph unchanged for the
 * next. */
static bool try_config(struct cudnn_graph *g, const struct cudnn_choice *choice,
                       cudnn_descriptor config)
{
    cudnn_descriptor plan = make(g, CUDNN_PLAN);
    int64_t count;

    set_desc(g, plan, CUDNN_PLAN_ENGINE_CONFIG, config);
    if (choice->handle)
        set(g, plan, CUDNN_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &choice->handle);
    set_desc(g, plan, CUDNN_PLAN_DEVICE, choice->device);
    finish(g, plan, "cannot finalize a plan");
    if (g->status == CUDNN_SUCCESS)
        status_ok(g,
                  g->cudnn->desc_get(plan, CUDNN_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                     &count, &g->plan->workspace),
                  "cannot read the size of the workspace");
    if (g->status != CUDNN_SUCCESS)
        return false;
    g->plan->plan = plan;
    return true;
}

static int64_t ask_heuristic(struct cudnn_graph *g, cudnn_descriptor device,
                             cudnn_descriptor graph,
                             cudnn_descriptor configs[CONFIGS_MOST])
{
    cudnn_descriptor heuristic = make(g, CUDNN_HEURISTIC);
    int64_t count = 0;

    set_desc(g, heuristic, CUDNN_HEURISTIC_GRAPH, graph);
    set_word(g, heuristic, CUDNN_HEURISTIC_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEURISTIC_A);
    set_desc(g, heuristic, CUDNN_HEURISTIC_DEVICE, device);
    finish(g, heuristic, "cannot finalize the heuristic");
    for (int i = 0; i < CONFIGS_MOST; i++)
        configs[i] = make(g, CUDNN_ENGINE_CONFIG);
    if (g->status == CUDNN_SUCCESS)
        status_ok(g,
                  g->cudnn->desc_get(heuristic, CUDNN_HEURISTIC_RESULTS,
                                     CUDNN_TYPE_DESCRIPTOR, CONFIGS_MOST, &count,
                                     configs),
                  "cannot read the heuristic");
    return count;
}

/* Statuses from 3000 on mean that cuDNN does not support the request
 * (CUDNN_STATUS_CATEGORY). */
static bool is_refusal(int status)
{
    return status / 1000 == 3;
}

/* Best first; if one is refused, try the next. */
static bool choose(struct cudnn_graph *g, const struct cudnn_choice *choice)
{
    cudnn_descriptor graph = finish_graph(g, choice->handle), configs[CONFIGS_MOST];
    int64_t count = ask_heuristic(g, choice->device, graph, configs);

    for (int64_t i = 0; i < count && i < CONFIGS_MOST; i++) {
        if ((choice->varies || !is_nondeterministic(g, configs[i])) &&
            try_config(g, choice, configs[i]))
            return true;
        if (g->status != CUDNN_SUCCESS && !is_refusal(g->status))
            return false;
        if (i + 1 < count)
            g->status = CUDNN_SUCCESS;
    }
    if (g->status == CUDNN_SUCCESS) {
        g->doing = "attention of this shape";
        snprintf(g->why, sizeof(g->why), "%s",
                 count > 0 ? "no engine that gives the same bits each time"
                           : "no engine");
    }
    return false;
}

bool cudnn_graph_plan(struct cudnn_graph *g, const struct cudnn_choice *choice,
                      bool *none, struct error *err)
{
    *none = false;
    g->plan->cudnn = g->cudnn;
    g->plan->handle = choice->handle;
    if (choose(g, choice))
        return true;
    *none = g->status == CUDNN_SUCCESS || is_refusal(g->status);
    return error_set(err, ERROR_DEVICE, "%s: %s: %s%s%s", g->cudnn->name, g->doing,
                     g->status == CUDNN_SUCCESS ? "" : g->cudnn->text(g->status),
                     g->status == CUDNN_SUCCESS ? "" : ": ", g->why);
}

/* Fill the pack: pointers of all tensors that the plan receives. */
static int fill_pack(const struct cudnn_plan *plan, cudnn_descriptor pack,
                     void *const *tensors, void *workspace)
{
    const struct cuda_cudnn *cudnn = plan->cudnn;
    int64_t ids[CUDNN_GRAPH_IDS], count = 0;
    void *pointers[CUDNN_GRAPH_IDS];
    int status;

    for (int64_t id = 0; id < CUDNN_GRAPH_IDS; id++)
        if (plan->ids >> id & 1) {
            ids[count] = id;
            pointers[count++] = tensors[id];
        }
    status = cudnn->desc_set(pack, CUDNN_VARIANT_PACK_IDS, CUDNN_TYPE_INT64, count, ids);
    if (status == CUDNN_SUCCESS)
        status = cudnn->desc_set(pack, CUDNN_VARIANT_PACK_POINTERS, CUDNN_TYPE_VOID_PTR,
                                 count, pointers);
    if (status == CUDNN_SUCCESS)
        status = cudnn->desc_set(pack, CUDNN_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                 1, &workspace);
    return status == CUDNN_SUCCESS ? cudnn->finalize(pack) : status;
}

bool cudnn_plan_run(const struct cudnn_plan *plan, void *const *tensors, void *workspace,
                    struct error *err)
{
    const struct cuda_cudnn *cudnn = plan->cudnn;
    cudnn_descriptor pack = NULL;
    int status = cudnn->desc_create(CUDNN_VARIANT_PACK, &pack);
    char why[200] = "";

    if (status == CUDNN_SUCCESS)
        status = fill_pack(plan, pack, tensors, workspace);
    if (status == CUDNN_SUCCESS)
        status = cudnn->execute(plan->handle, plan->plan, pack);
    if (status != CUDNN_SUCCESS)
        cudnn->last_error(why, sizeof(why));
    if (pack)
        cudnn->desc_destroy(pack);
    return status == CUDNN_SUCCESS ||
           error_set(err, ERROR_DEVICE,
                     "%s: attention: %s (%.*s); set TRAINSPOOL_CUDNN=0", cudnn->name,
                     cudnn->text(status), (int)strcspn(why, "\n"), why);
}

void cudnn_plan_free(struct cudnn_plan *plan)
{
    if (!plan)
        return;
    while (plan->count > 0)
        plan->cudnn->desc_destroy(plan->descriptors[--plan->count]);
    free(plan);
}
