/*
 * kernels/cpu/cpu_onednn.c - calls the few functions of oneDNN's C interface that a
 * matmul needs.
 *
 * Versions 2 and 3 describe memory layouts and matmuls differently: in 2 a layout is a
 * struct of the caller, in 3 a handle; everything else is the same. Names and constants
 * are those of dnnl.h and dnnl_types.h of 2.6 and 3.2.
 */
#include "config.h"

#include "kernels/cpu/cpu_onednn.h"

#include "base/size.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STATUS_SUCCESS = 0,
    ENGINE_CPU = 1,
    STREAM_IN_ORDER = 1,
    SCRATCHPAD_USER = 1,
    QUERY_SCRATCHPAD = 136,
    ARG_SRC = 1,
    ARG_DST = 17,
    ARG_WEIGHTS = 33,
    ARG_SCRATCHPAD = 80,
    TYPE_UNDEF = 0,
    TYPE_BF16 = 2,
    TYPE_F32 = 3,
    DIMS = 12,
    LAYOUT_BYTES = 1024,  /* of version 2's struct: 696 in 2.6 */
    PRODUCT_BYTES = 4096, /* 2800 */
    ROWS_OF_PLANS = 256,
    MOST_SCRATCH = 8 << 20,
};

struct version {
    int major, minor, patch;
};

struct argument {
    int number;
    void *memory;
};

/* The layout of a matrix: version 2 fills the bytes, version 3 returns a handle. */
struct layout {
    const void *handle;
    _Alignas(16) char bytes[LAYOUT_BYTES];
};

/* The functions that both versions have, by their names in dnnl.h. */
struct functions {
    const struct version *(*version)(void);
    int (*engine_create)(void **engine, int kind, size_t index);
    int (*engine_destroy)(void *engine);
    int (*stream_create)(void **stream, void *engine, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*primitive_attr_create)(void **attr);
    int (*primitive_attr_destroy)(void *attr);
    int (*primitive_attr_set_scratchpad_mode)(void *attr, int mode);
    int (*primitive_attr_set_post_ops)(void *attr, const void *ops);
    int (*post_ops_create)(void **ops);
    int (*post_ops_destroy)(void *ops);
    const void *(*primitive_desc_query_md)(const void *desc, int what, int index);
    int (*primitive_desc_destroy)(void *desc);
    int (*primitive_create)(void **primitive, const void *desc);
    int (*primitive_destroy)(void *primitive);
    int (*primitive_execute)(const void *primitive, void *stream, int count,
                             const struct argument *arguments);
    size_t (*memory_desc_get_size)(const void *layout);
    int (*memory_create)(void **memory, const void *layout, void *engine, void *data);
    int (*memory_destroy)(void *memory);
};

static const struct {
    const char *name;
    size_t into;
} symbols[] = {
#define SYMBOL(name)                                    \
    {                                                   \
        "dnnl_" #name, offsetof(struct functions, name) \
    }
    SYMBOL(version),
    SYMBOL(engine_create),
    SYMBOL(engine_destroy),
    SYMBOL(stream_create),
    SYMBOL(stream_destroy),
    SYMBOL(primitive_attr_create),
    SYMBOL(primitive_attr_destroy),
    SYMBOL(primitive_attr_set_scratchpad_mode),
    SYMBOL(primitive_attr_set_post_ops),
    SYMBOL(post_ops_create),
    SYMBOL(post_ops_destroy),
    SYMBOL(primitive_desc_query_md),
    SYMBOL(primitive_desc_destroy),
    SYMBOL(primitive_create),
    SYMBOL(primitive_destroy),
    SYMBOL(primitive_execute),
    SYMBOL(memory_desc_get_size),
    SYMBOL(memory_create),
    SYMBOL(memory_destroy),
#undef SYMBOL
};

struct onednn_plan {
    struct onednn_plan *next;
    struct onednn_shape shape;
    struct layout a, b, out;
    void *desc, *primitive; /* primitive NULL: the library has none for this shape */
    const void *scratch;    /* a layout, of desc */
    size_t scratch_bytes;
};

struct onednn {
    void *library;
    struct functions call;
    const struct era *era;
    /* The library's own thread count, set to one in each of our threads; NULL if it has
     * none. */
    void (*set_threads)(int count);
    void *engine;
    size_t threads;
    struct onednn_plan *plans[ROWS_OF_PLANS]; /* by hash */
    char name[32];
    void *streams[]; /* one per thread */
};

/* The differences between the versions. */
struct era {
    int major;
    bool (*describe)(const struct onednn *onednn, struct layout *layout,
                     const int64_t dims[DIMS], int type, const int64_t strides[DIMS]);
    void (*forget)(const struct onednn *onednn, struct layout *layout);
    int (*append_sum)(const struct onednn *onednn, void *ops);
    int (*plan)(const struct onednn *onednn, struct onednn_plan *plan, const void *attr);
};

/* Store a function's address in a variable of its type. */
static bool find(void *library, const char *name, void *into)
{
    void *address = dlsym(library, name);

    memcpy(into, &address, sizeof(address));
    return address != NULL;
}

static bool describe_2(const struct onednn *onednn, struct layout *layout,
                       const int64_t dims[DIMS], int type, const int64_t strides[DIMS])
{
    int (*init)(void *, int, const int64_t *, int, const int64_t *);

    layout->handle = layout->bytes;
    return find(onednn->library, "dnnl_memory_desc_init_by_strides", &init) &&
           init(layout->bytes, 2, dims, type, strides) == STATUS_SUCCESS;
}

static void forget_2(const struct onednn *onednn, struct layout *layout)
{
    (void)onednn;
    layout->handle = NULL;
}

static int append_sum_2(const struct onednn *onednn, void *ops)
{
    int (*append)(void *, float);

    return find(onednn->library, "dnnl_post_ops_append_sum", &append) ? append(ops, 1)
                                                                      : 1;
}

static int plan_2(const struct onednn *onednn, struct onednn_plan *plan, const void *attr)
{
    _Alignas(16) char product[PRODUCT_BYTES];
    int (*init)(void *, const void *, const void *, const void *, const void *);
    int (*create)(void **, const void *, const void *, void *, const void *);

    if (!find(onednn->library, "dnnl_matmul_desc_init", &init) ||
        !find(onednn->library, "dnnl_primitive_desc_create", &create) ||
        init(product, plan->a.handle, plan->b.handle, NULL, plan->out.handle) !=
            STATUS_SUCCESS)
        return 1;
    return create(&plan->desc, product, attr, onednn->engine, NULL);
}

static bool describe_3(const struct onednn *onednn, struct layout *layout,
                       const int64_t dims[DIMS], int type, const int64_t strides[DIMS])
{
    int (*create)(const void **, int, const int64_t *, int, const int64_t *);

    return find(onednn->library, "dnnl_memory_desc_create_with_strides", &create) &&
           create(&layout->handle, 2, dims, type, strides) == STATUS_SUCCESS;
}

static void forget_3(const struct onednn *onednn, struct layout *layout)
{
    int (*destroy)(const void *);

    if (layout->handle && find(onednn->library, "dnnl_memory_desc_destroy", &destroy))
        destroy(layout->handle);
    layout->handle = NULL;
}

static int append_sum_3(const struct onednn *onednn, void *ops)
{
    int (*append)(void *, float, int32_t, int);

    return find(onednn->library, "dnnl_post_ops_append_sum", &append)
               ? append(ops, 1, 0, TYPE_UNDEF)
               : 1;
}

static int plan_3(const struct onednn *onednn, struct onednn_plan *plan, const void *attr)
{
    int (*create)(void **, void *, const void *, const void *, const void *, const void *,
                  const void *);

    if (!find(onednn->library, "dnnl_matmul_primitive_desc_create", &create))
        return 1;
    return create(&plan->desc, onednn->engine, plan->a.handle, plan->b.handle, NULL,
                  plan->out.handle, attr);
}

static const struct era eras[] = {
    { 3, describe_3, forget_3, append_sum_3, plan_3 },
    { 2, describe_2, forget_2, append_sum_2, plan_2 },
};

static bool describe(const struct onednn *onednn, struct layout *layout, size_t rows,
                     size_t cols, size_t stride, bool trans, enum format format)
{
    int64_t dims[DIMS] = { (int64_t)rows, (int64_t)cols };
    int64_t strides[DIMS] = { trans ? 1 : (int64_t)stride, trans ? (int64_t)stride : 1 };

    return onednn->era->describe(onednn, layout, dims,
                                 format == FORMAT_BF16 ? TYPE_BF16 : TYPE_F32, strides);
}

/* Our own scratch memory, and accumulation into the destination. */
static bool set_attributes(const struct onednn *onednn, const struct onednn_shape *shape,
                           void *attr)
{
    const struct functions *call = &onednn->call;
    void *ops = NULL;
    bool ok;

    if (call->primitive_attr_set_scratchpad_mode(attr, SCRATCHPAD_USER) != STATUS_SUCCESS)
        return false;
    if (!shape->add)
        return true;
    if (call->post_ops_create(&ops) != STATUS_SUCCESS)
        return false;
    ok = onednn->era->append_sum(onednn, ops) == STATUS_SUCCESS &&
         call->primitive_attr_set_post_ops(attr, ops) == STATUS_SUCCESS;
    call->post_ops_destroy(ops);
    return ok;
}

static bool make(const struct onednn *onednn, struct onednn_plan *plan)
{
    const struct functions *call = &onednn->call;
    const struct onednn_shape *shape = &plan->shape;
    void *attr = NULL;
    bool ok;

    if (!describe(onednn, &plan->a, shape->rows, shape->depth, shape->a_stride,
                  shape->trans_a, shape->in) ||
        !describe(onednn, &plan->b, shape->depth, shape->cols, shape->b_stride,
                  shape->trans_b, shape->in) ||
        !describe(onednn, &plan->out, shape->rows, shape->cols, shape->out_stride, false,
                  shape->out) ||
        call->primitive_attr_create(&attr) != STATUS_SUCCESS)
        return false;
    ok = set_attributes(onednn, shape, attr) &&
         onednn->era->plan(onednn, plan, attr) == STATUS_SUCCESS;
    call->primitive_attr_destroy(attr);
    if (!ok)
        return false;
    plan->scratch = call->primitive_desc_query_md(plan->desc, QUERY_SCRATCHPAD, 0);
    plan->scratch_bytes = plan->scratch ? call->memory_desc_get_size(plan->scratch) : 0;
    return plan->scratch_bytes <= MOST_SCRATCH &&
           call->primitive_create(&plan->primitive, plan->desc) == STATUS_SUCCESS;
}

static bool same(const struct onednn_shape *a, const struct onednn_shape *b)
{
    return a->rows == b->rows && a->cols == b->cols && a->depth == b->depth &&
           a->a_stride == b->a_stride && a->b_stride == b->b_stride &&
           a->out_stride == b->out_stride && a->in == b->in && a->out == b->out &&
           a->trans_a == b->trans_a && a->trans_b == b->trans_b && a->add == b->add;
}

static size_t row_of(const struct onednn_shape *shape)
{
    size_t hash = shape->rows;

    hash = hash * 31 + shape->cols;
    hash = hash * 31 + shape->depth;
    hash = hash * 31 + shape->a_stride;
    return hash * 8 + shape->trans_a * 4 + shape->trans_b * 2 + shape->add;
}

const struct onednn_plan *onednn_find(struct onednn *onednn,
                                      const struct onednn_shape *shape)
{
    struct onednn_plan **row = &onednn->plans[row_of(shape) % ROWS_OF_PLANS];
    struct onednn_plan *plan;

    for (plan = *row; plan && !same(&plan->shape, shape); plan = plan->next)
        ;
    if (!plan) {
        plan = calloc(1, sizeof(*plan));
        if (!plan)
            return NULL;
        plan->shape = *shape;
        plan->next = *row;
        *row = plan;
        if (onednn->set_threads)
            onednn->set_threads(1);
        if (!make(onednn, plan))
            plan->primitive = NULL;
    }
    return plan->primitive ? plan : NULL;
}

bool onednn_multiply(struct onednn *onednn, const struct onednn_plan *plan, const void *a,
                     const void *b, void *out, struct pool_worker *worker)
{
    const struct functions *call = &onednn->call;
    void *scratch =
        plan->scratch_bytes ? pool_scratch(worker, plan->scratch_bytes) : NULL;
    struct argument arguments[4] = { { ARG_SRC, NULL },
                                     { ARG_WEIGHTS, NULL },
                                     { ARG_DST, NULL },
                                     { ARG_SCRATCHPAD, NULL } };
    const void *layouts[4] = { plan->a.handle, plan->b.handle, plan->out.handle,
                               plan->scratch };
    void *data[4] = { (void *)(uintptr_t)a, (void *)(uintptr_t)b, out, scratch };
    int count = scratch ? 4 : 3;
    bool ok = true;

    if (onednn->set_threads)
        onednn->set_threads(1);
    for (int i = 0; ok && i < count; i++)
        ok = call->memory_create(&arguments[i].memory, layouts[i], onednn->engine,
                                 data[i]) == STATUS_SUCCESS;
    ok = ok && call->primitive_execute(plan->primitive,
                                       onednn->streams[pool_worker_number(worker)], count,
                                       arguments) == STATUS_SUCCESS;
    for (int i = 0; i < count; i++)
        if (arguments[i].memory)
            call->memory_destroy(arguments[i].memory);
    return ok;
}

static void free_plan(struct onednn *onednn, struct onednn_plan *plan)
{
    if (plan->primitive)
        onednn->call.primitive_destroy(plan->primitive);
    if (plan->desc)
        onednn->call.primitive_desc_destroy(plan->desc);
    onednn->era->forget(onednn, &plan->a);
    onednn->era->forget(onednn, &plan->b);
    onednn->era->forget(onednn, &plan->out);
    free(plan);
}

/* The library stays loaded: its threading runtime does not support unloading. */
void onednn_close(struct onednn *onednn)
{
    if (!onednn)
        return;
    for (size_t i = 0; i < ROWS_OF_PLANS; i++)
        while (onednn->plans[i]) {
            struct onednn_plan *next = onednn->plans[i]->next;

            free_plan(onednn, onednn->plans[i]);
            onednn->plans[i] = next;
        }
    for (size_t i = 0; i < onednn->threads; i++)
        if (onednn->streams[i])
            onednn->call.stream_destroy(onednn->streams[i]);
    if (onednn->engine)
        onednn->call.engine_destroy(onednn->engine);
    free(onednn);
}

enum { NEWEST_MINOR = 20 };

/* Try by major version; also by minor version, as some distributions name it (Debian 13:
 * libdnnl.so.3.6). */
static void *open_library(int major)
{
    char name[32];
    void *library;

    snprintf(name, sizeof(name), "libdnnl.so.%d", major);
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    for (int minor = NEWEST_MINOR; minor >= 0 && !library; minor--) {
        snprintf(name, sizeof(name), "libdnnl.so.%d.%d", major, minor);
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

static bool load(struct onednn *onednn, const struct era *era)
{
    const struct version *version;

    onednn->library = open_library(era->major);
    if (!onednn->library)
        return false;
    for (size_t i = 0; i < TS_COUNT(symbols); i++)
        if (!find(onednn->library, symbols[i].name,
                  (char *)&onednn->call + symbols[i].into))
            return false;
    version = onednn->call.version();
    if (version->major != era->major)
        return false;
    snprintf(onednn->name, sizeof(onednn->name), "oneDNN %d.%d.%d", version->major,
             version->minor, version->patch);
    find(onednn->library, "omp_set_num_threads", &onednn->set_threads);
    onednn->era = era;
    return true;
}

static bool start(struct onednn *onednn)
{
    const struct functions *call = &onednn->call;

    if (call->engine_create(&onednn->engine, ENGINE_CPU, 0) != STATUS_SUCCESS) {
        onednn->engine = NULL;
        return false;
    }
    for (size_t i = 0; i < onednn->threads; i++)
        if (call->stream_create(&onednn->streams[i], onednn->engine, STREAM_IN_ORDER) !=
            STATUS_SUCCESS) {
            onednn->streams[i] = NULL;
            return false;
        }
    return true;
}

struct onednn *onednn_open(size_t threads)
{
    struct onednn *onednn =
        calloc(1, sizeof(*onednn) + threads * sizeof(onednn->streams[0]));
    bool loaded = false;

    if (!onednn)
        return NULL;
    onednn->threads = threads;
    for (size_t i = 0; i < TS_COUNT(eras) && !loaded; i++)
        loaded = load(onednn, &eras[i]);
    if (loaded && start(onednn))
        return onednn;
    onednn_close(onednn);
    return NULL;
}

const char *onednn_name(const struct onednn *onednn)
{
    return onednn->name;
}
