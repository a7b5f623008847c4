/* tests/unit/test_cuda_attention.c - attention and its gradients by cuDNN equal those of
 * our own kernels; cases that cuDNN does not handle go to our kernels, with the same
 * bits.  cuDNN is emulated: its graph is interpreted. */
#include "config.h"

#include "kernels/cuda/cuda_attention.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit_cuda.h"

struct shape {
    enum format format;
    size_t heads, kv_heads, head_size, window, longest;
    int32_t offsets[8]; /* up to the last nonzero one */
};

static const struct shape shapes[] = {
    { FORMAT_BF16, 1, 1, 8, 0, 0, { 0, 9 } },
    { FORMAT_BF16, 4, 2, 64, 0, 0, { 0, 50, 133 } },
    { FORMAT_FP16, 4, 1, 64, 0, 0, { 0, 71, 130, 201 } },
    { FORMAT_FP16, 2, 2, 128, 20, 66, { 0, 0, 64, 64, 130, 130, 130, 130 } },
    { FORMAT_BF16, 2, 1, 256, 1, 0, { 0, 67 } },
    { FORMAT_BF16, 3, 1, 80, 33, 128, { 0, 128, 190 } },
};

/* Cases for our own kernels although cuDNN is requested. */
struct besides {
    float softcap, p;
    size_t shift;   /* q begins this many elements after an aligned address */
    int capability; /* 90 by default */
};

struct result {
    struct tensor out, lse;
    float *values[2]; /* number of values */
    size_t plans;     /* built by cuDNN */
};

static size_t runs_of(const struct shape *shape)
{
    size_t runs = TS_COUNT(shape->offsets) - 1;

    while (shape->offsets[runs] == 0)
        runs--;
    return runs;
}

static struct op_attention make(struct backend *be, const struct shape *shape,
                                struct besides besides)
{
    size_t runs = runs_of(shape), rows = (size_t)shape->offsets[runs];
    size_t q = shape->heads * shape->head_size, kv = shape->kv_heads * shape->head_size;
    size_t stride = q + 2 * kv + 16; /* adjacent, as in a model, and separate */
    size_t bytes = (runs + 1) * sizeof(int32_t);
    int32_t *offsets = unit_cuda_block(be, bytes);
    struct tensor qkv = unit_cuda_matrix(be, shape->format, rows, stride - 8, stride, 3);

    be->ops->upload(be, offsets, shape->offsets, bytes);
    return (struct op_attention) {
        .out = unit_cuda_matrix(be, shape->format, rows, q, q + 8, 4),
        .lse = unit_cuda_matrix(be, FORMAT_FP32, shape->heads, rows, rows + 3, 5),
        .q = tensor_columns(qkv, besides.shift, q),
        .k = tensor_columns(qkv, q, kv),
        .v = tensor_columns(qkv, q + kv, kv),
        .offsets = offsets,
        .sequences = runs,
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .head_size = shape->head_size,
        .window = shape->window,
        .longest = shape->longest,
        .scale = 1 / sqrtf((float)shape->head_size),
        .softcap = besides.softcap,
        .dropout = { .p = besides.p, .stream = 7, .seed = 9 },
    };
}

static struct backend *open_card(struct besides besides, bool cudnn)
{
    struct backend *be;

    setenv("TRAINSPOOL_CUDNN", cudnn ? "1" : "0", 1);
    be = unit_cuda_alone(besides.capability ? besides.capability : 90, (size_t)2 << 30);
    unsetenv("TRAINSPOOL_CUDNN");
    return be;
}

static void read_result(struct backend *be, struct result *result)
{
    struct cuda_attention *attention = cuda_backend_of(be)->attention;

    result->values[0] = unit_cuda_read(be, result->out);
    result->values[1] = unit_cuda_read(be, result->lse);
    result->plans = attention ? cuda_attention_plans(attention) : 0;
}

static struct result run_on(struct backend *be, const struct shape *shape,
                            struct besides besides)
{
    struct op_attention op = make(be, shape, besides);
    struct result result = { .out = op.out, .lse = op.lse };

    be->ops->attention(be, &op);
    read_result(be, &result);
    return result;
}

static struct result run(const struct shape *shape, struct besides besides, bool cudnn)
{
    struct backend *be = open_card(besides, cudnn);
    struct result result = run_on(be, shape, besides);

    backend_close(be);
    assert_int_equal(emulation_bytes_held(), 0);
    return result;
}

static void result_clear(struct result *result)
{
    free(result->values[0]);
    free(result->values[1]);
}

/*
 * Means of values up to 1.  Their weights are rounded to 16 bits, once before and once
 * after the division by their sum, and so is the result: two half units each.
 */
static void assert_near(const struct result *a, const struct result *b, size_t which,
                        double bound)
{
    struct tensor t = which == 0 ? a->out : a->lse;

    for (size_t i = 0; i < t.rows; i++)
        for (size_t j = 0; j < t.cols; j++) {
            double x = (double)a->values[which][i * t.stride + j];
            double y = (double)b->values[which][i * t.stride + j];

            if (!(fabs(x - y) <= bound))
                fail_msg("(%zu, %zu) of %s: %g, not %g", i, j, which ? "lse" : "out", x,
                         y);
        }
}

static void test_cuda_attention_by_cudnn_matches_our_kernels(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(shapes); i++) {
        double epsilon = format_info(shapes[i].format)->epsilon;
        struct result ours = run(&shapes[i], (struct besides) { 0 }, false);
        struct result theirs = run(&shapes[i], (struct besides) { 0 }, true);

        assert_int_equal(ours.plans, 0);
        assert_int_equal(theirs.plans, 1);
        assert_near(&theirs, &ours, 0, 4 * epsilon / 2);
        assert_near(&theirs, &ours, 1, 1e-5);
        result_clear(&ours);
        result_clear(&theirs);
    }
}

/* Nothing outside the operands is written. */
static void test_cuda_attention_by_cudnn_stays_in_its_columns(void **state)
{
    struct result ours = run(&shapes[1], (struct besides) { 0 }, false);
    struct result theirs = run(&shapes[1], (struct besides) { 0 }, true);

    (void)state;
    for (size_t i = 0; i < ours.out.rows; i++)
        for (size_t j = ours.out.cols; j < ours.out.stride; j++)
            assert_true(ours.values[0][i * ours.out.stride + j] ==
                        theirs.values[0][i * ours.out.stride + j]);
    for (size_t i = 0; i < ours.lse.rows; i++)
        for (size_t j = ours.lse.cols; j < ours.lse.stride; j++)
            assert_true(ours.values[1][i * ours.lse.stride + j] ==
                        theirs.values[1][i * ours.lse.stride + j]);
    result_clear(&ours);
    result_clear(&theirs);
}

static void test_cuda_attention_uses_our_kernels_for_other_cases(void **state)
{
    static const struct {
        struct shape shape;
        struct besides besides;
    } cases[] = {
        { .shape = { FORMAT_FP32, 2, 1, 64, 0, 0, { 0, 70 } } },
        { .shape = { FORMAT_BF16, 2, 1, 12, 0, 0, { 0, 70 } } },
        { .shape = { FORMAT_BF16, 2, 1, 64, 0, 0, { 0, 70 } },
          .besides = { .softcap = 20 } },
        { .shape = { FORMAT_BF16, 2, 1, 64, 0, 0, { 0, 70 } },
          .besides = { .p = 0.25f } },
        { .shape = { FORMAT_BF16, 2, 1, 64, 0, 0, { 0, 70 } },
          .besides = { .shift = 1 } },
        { .shape = { FORMAT_FP16, 2, 1, 64, 0, 0, { 0, 70 } },
          .besides = { .capability = 75 } },
        /* mostly rows that do not exist */
        { .shape = { FORMAT_FP16, 2, 1, 64, 0, 0, { 0, 1, 2, 3, 4, 5, 6, 190 } } },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct result ours = run(&cases[i].shape, cases[i].besides, false);
        struct result theirs = run(&cases[i].shape, cases[i].besides, true);

        assert_int_equal(theirs.plans, 0);
        assert_near(&theirs, &ours, 0, 0);
        assert_near(&theirs, &ours, 1, 0);
        result_clear(&ours);
        result_clear(&theirs);
    }
}

/* One plan for each shape, however often it occurs. */
static void test_cuda_attention_by_cudnn_has_one_plan_per_shape(void **state)
{
    struct besides nothing = { 0 };
    struct result alone[2] = { run(&shapes[1], nothing, true),
                               run(&shapes[2], nothing, true) };
    struct backend *be = open_card(nothing, true);

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct result here = run_on(be, &shapes[1 + i % 2], nothing);

        assert_int_equal(here.plans, i == 0 ? 1 : 2);
        assert_near(&here, &alone[i % 2], 0, 0);
        assert_near(&here, &alone[i % 2], 1, 0);
        result_clear(&here);
    }
    backend_close(be);
    result_clear(&alone[0]);
    result_clear(&alone[1]);
}

/* ---- Whether it is used ---- */

static struct backend *open_with(const char *asked, int capability, size_t version)
{
    struct backend *be;

    emulation_cudnn(version, 0);
    if (asked)
        setenv("TRAINSPOOL_CUDNN", asked, 1);
    be = unit_cuda_alone(capability, (size_t)2 << 30);
    unsetenv("TRAINSPOOL_CUDNN");
    emulation_cudnn(91900, 0);
    return be;
}

static void test_cuda_attention_uses_cudnn_from_hopper_on(void **state)
{
    static const struct {
        const char *asked;
        int capability;
        size_t version;
        const char *name;
    } cases[] = {
        { NULL, 90, 91900, "trainspool for 9.0, else cuDNN 9.19.0 (emulated)" },
        { "1", 90, 91900, "cuDNN 9.19.0 (emulated)" },
        { "", 100, 91900, "cuDNN 9.19.0 (emulated)" },
        { NULL, 89, 91900, "trainspool" },
        { "1", 80, 91900, "cuDNN 9.19.0 (emulated)" },
        { "0", 90, 91900, "trainspool for 9.0" },
        { "0", 100, 91900, "trainspool" },
        { NULL, 90, 0, "trainspool for 9.0" },     /* missing */
        { NULL, 90, 91001, "trainspool for 9.0" }, /* too old */
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct backend *be =
            open_with(cases[i].asked, cases[i].capability, cases[i].version);

        assert_string_equal(be->ops->attention_name(be), cases[i].name);
        backend_close(be);
    }
}

/* A resumed run continues with what computed attention before. */
static void test_cuda_attention_can_be_chosen_by_name(void **state)
{
    const char *name = "trainspool for 9.0, else cuDNN 9.19.0 (emulated)";
    struct backend *be = open_with(NULL, 90, 91900);
    struct result result;

    (void)state;
    assert_false(be->ops->attention_use(be, "cuDNN 9.19.0 (emulated)"));
    assert_true(be->ops->attention_use(be, name));
    /* now a failure is an error */
    assert_false(be->ops->attention_use(be, "trainspool"));
    backend_close(be);

    be = open_with(NULL, 90, 91900);
    assert_true(be->ops->attention_use(be, "trainspool for 9.0"));
    assert_string_equal(be->ops->attention_name(be), "trainspool for 9.0");
    assert_false(be->ops->attention_use(be, name));
    result = run_on(be, &shapes[5], (struct besides) { 0 });
    assert_int_equal(result.plans, 0);
    result_clear(&result);
    backend_close(be);

    be = open_with("1", 90, 91900);
    assert_false(be->ops->attention_use(be, "trainspool"));
    backend_close(be);
}

/* Kernels of another capability have other bits: ours are used, but they are not the same. */
static void test_cuda_attention_of_another_capability_has_another_name(void **state)
{
    static const struct {
        int capability;
        const char *recorded, *name;
        bool same;
    } cases[] = {
        { 90, "trainspool", "trainspool for 9.0", false },
        { 90, "trainspool for 9.0", "trainspool for 9.0", true },
        { 80, "trainspool", "trainspool", true },
        { 80, "trainspool for 9.0", "trainspool", false },
        { 100, "trainspool for 9.0", "trainspool", false },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct backend *be = open_with(NULL, cases[i].capability, 91900);

        assert_int_equal(be->ops->attention_use(be, cases[i].recorded), cases[i].same);
        assert_string_equal(be->ops->attention_name(be), cases[i].name);
        backend_close(be);
    }
}

/* On 9.0, heads of 64 and 128 are ours unless cuDNN is insisted on. */
static void test_cuda_attention_prefers_our_kernels_for_hopper(void **state)
{
    static const size_t plans[] = { 1, 0, 0, 1, 1, 1 }; /* by shape */

    (void)state;
    for (size_t i = 0; i < TS_COUNT(shapes); i++) {
        struct backend *be = open_with(NULL, 90, 91900);
        struct result result = run_on(be, &shapes[i], (struct besides) { 0 });

        assert_int_equal(result.plans, plans[i]);
        result_clear(&result);
        backend_close(be);
    }
}

static void assert_open_fails(size_t version, const char *text)
{
    struct emulation_device device = { "Emulated", 90, 4, (size_t)2 << 30 };
    struct error err = { 0 };

    emulation_reset(&device, 1);
    emulation_cudnn(version, 0);
    setenv("TRAINSPOOL_CUDNN", "1", 1);
    assert_null(unit_cuda_try(0, NULL, &err));
    unsetenv("TRAINSPOOL_CUDNN");
    emulation_cudnn(91900, 0);
    assert_non_null(strstr(err.text, text));
    assert_int_equal(emulation_bytes_held(), 0);
}

static void test_cuda_attention_requires_the_requested_cudnn(void **state)
{
    (void)state;
    assert_open_fails(0, "cannot find cuDNN");
    assert_open_fails(91001, "cuDNN 9.10.1 (emulated) is too old");
}

/* Packed sequences before Hopper, with a cuDNN version that does not support them, go to
 * our kernels. */
static void test_cuda_attention_uses_our_kernels_on_old_cards(void **state)
{
    static const size_t versions[] = { 91800, 91801 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(versions); i++) {
        struct result theirs;

        emulation_cudnn(versions[i], 0);
        theirs = run(&shapes[1], (struct besides) { .capability = 80 }, true);
        assert_int_equal(theirs.plans, i);
        result_clear(&theirs);
    }
    emulation_cudnn(91900, 0);
}

/* The choice of kernels must not depend on a failure that may not recur: such a failure
 * ends the job, while cases that cuDNN does not support go to our kernels. */
static void test_cuda_attention_reports_failures(void **state)
{
    enum { NOT_SUPPORTED = 3000, OUT_OF_MEMORY = 4003 };
    static const int statuses[] = { NOT_SUPPORTED, OUT_OF_MEMORY };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(statuses); i++) {
        struct backend *be = open_card((struct besides) { 0 }, true);
        struct op_attention op = make(be, &shapes[1], (struct besides) { 0 });
        struct error err = { 0 };

        emulation_cudnn(91900, statuses[i]);
        be->ops->attention(be, &op);
        emulation_cudnn(91900, 0);
        assert_int_equal(be->ops->sync(be, &err), statuses[i] == NOT_SUPPORTED);
        if (statuses[i] != NOT_SUPPORTED)
            assert_non_null(strstr(err.text, "a plan: "));
        backend_close(be);
    }
}

/* A library that fails before it has computed anything is not used, unless it is insisted
 * on. */
static void test_cuda_attention_without_a_working_cudnn_is_ours(void **state)
{
    struct backend *be = open_with(NULL, 90, 91900);
    struct result result;

    (void)state;
    emulation_cudnn(91900, 4003);
    result = run_on(be, &shapes[5], (struct besides) { 0 });
    emulation_cudnn(91900, 0);
    assert_int_equal(result.plans, 0);
    assert_string_equal(be->ops->attention_name(be), "trainspool for 9.0");
    result_clear(&result);
    result = run_on(be, &shapes[0], (struct besides) { 0 });
    assert_int_equal(result.plans, 0);
    result_clear(&result);
    backend_close(be);
}

/* A plan that was made in the background is used, and none is left if nothing uses it or
 * if making it failed. */
static void test_cuda_attention_is_prepared_in_the_background(void **state)
{
    static const int statuses[] = { 0, 4003 };
    struct besides nothing = { 0 };
    struct backend *be = open_with(NULL, 90, 91900);
    struct op_attention op = make(be, &shapes[5], nothing);

    (void)state;
    be->ops->attention_expect(be, &op);
    be->ops->attention_expect(be, &op);
    backend_close(be);
    assert_int_equal(emulation_bytes_held(), 0);
    for (size_t i = 0; i < TS_COUNT(statuses); i++) {
        struct result alone = run(&shapes[5], nothing, statuses[i] == 0), result;

        be = open_with(NULL, 90, 91900);
        op = make(be, &shapes[5], nothing);
        result = (struct result) { .out = op.out, .lse = op.lse };
        emulation_cudnn(91900, statuses[i]);
        be->ops->attention_expect(be, &op);
        be->ops->attention(be, &op);
        emulation_cudnn(91900, 0);
        read_result(be, &result);
        assert_int_equal(result.plans, alone.plans);
        assert_near(&result, &alone, 0, 0);
        result_clear(&result);
        result_clear(&alone);
        backend_close(be);
    }
}

/* Issued, recorded, replayed: with the current offsets each time. */
static void test_cuda_attention_by_cudnn_can_be_recorded(void **state)
{
    struct backend *be = open_card((struct besides) { 0 }, true);
    struct op_attention op = make(be, &shapes[1], (struct besides) { 0 });
    struct result first = { .out = op.out, .lse = op.lse }, now = first;
    static const int32_t other[] = { 0, 100, 133 };
    int issued = 0;

    (void)state;
    be->ops->attention(be, &op);
    read_result(be, &first);
    for (int i = 0; i < 4; i++) {
        be->ops->upload(be, (void *)op.offsets, i % 2 ? other : shapes[1].offsets,
                        sizeof(other));
        if (be->ops->begin(be, "step", 4)) {
            issued++;
            be->ops->attention(be, &op);
            be->ops->end(be);
        }
        if (i % 2)
            continue;
        read_result(be, &now);
        assert_near(&first, &now, 0, 0);
        assert_near(&first, &now, 1, 0);
        assert_int_equal(now.plans, 1);
        result_clear(&now);
    }
    assert_int_equal(issued, 2);
    result_clear(&first);
    backend_close(be);
}

/* ---- Gradients ---- */

static struct op_attention_backward make_backward(struct backend *be,
                                                  const struct op_attention *op)
{
    size_t rows = op->q.rows, q = op->q.cols, kv = op->k.cols;
    enum format format = op->q.format;

    return (struct op_attention_backward) {
        .dq = unit_cuda_matrix(be, format, rows, q, q + 8, 6),
        .dk = unit_cuda_matrix(be, format, rows, kv, kv + 16, 7),
        .dv = unit_cuda_matrix(be, format, rows, kv, kv, 8),
        .delta = unit_cuda_matrix(be, FORMAT_FP32, op->heads, rows, rows, 9),
        .dout = unit_cuda_matrix(be, format, rows, q, q + 24, 10),
        .forward = *op,
    };
}

/* Open a card whose gradients may vary, within this much memory. */
static struct backend *open_varying(size_t gradients_bytes)
{
    static const struct emulation_device card = { "Emulated", 90, 4, (size_t)2 << 30 };
    struct device device;
    char note[160];
    struct backend_options options = { .device = &device,
                                       .gradients_bytes = gradients_bytes };
    struct error err = { 0 };
    struct backend *be;

    emulation_reset(&card, 1);
    assert_int_equal(backend_cuda.devices("cuda", &device, 1, note, sizeof(note)), 1);
    setenv("TRAINSPOOL_CUDNN", "1", 1);
    be = backend_cuda.open(&options, &err);
    unsetenv("TRAINSPOOL_CUDNN");
    if (!be)
        fail_msg("%s", err.text);
    return be;
}

enum { DQ, DK, DV, GRADIENTS };

struct gradients {
    struct tensor tensors[GRADIENTS];
    float *values[GRADIENTS];
    size_t plans;
};

/* The log-sum-exp is that of our kernels or of cuDNN. */
static struct gradients run_backward(struct backend *be, const struct shape *shape,
                                     struct besides besides)
{
    struct op_attention op = make(be, shape, besides);
    struct op_attention_backward back = make_backward(be, &op);
    struct cuda_attention *attention = cuda_backend_of(be)->attention;
    struct gradients grads = { .tensors = { back.dq, back.dk, back.dv } };

    be->ops->attention(be, &op);
    be->ops->attention_backward(be, &back);
    for (size_t i = 0; i < GRADIENTS; i++)
        grads.values[i] = unit_cuda_read(be, grads.tensors[i]);
    grads.plans = attention ? cuda_attention_plans(attention) : 0;
    backend_close(be);
    return grads;
}

static void gradients_clear(struct gradients *grads)
{
    for (size_t i = 0; i < GRADIENTS; i++)
        free(grads->values[i]);
}

/* Columns outside the operands are the same; elements differ by at most `bound` times the
 * largest one, or by what fp32 rounds of a sum that is 0. */
static void assert_gradients_near(const struct gradients *a, const struct gradients *b,
                                  double bound)
{
    static const char *const names[] = { "dq", "dk", "dv" };

    for (size_t n = 0; n < GRADIENTS; n++) {
        struct tensor t = a->tensors[n];
        double largest = 0;

        for (size_t i = 0; i < t.rows; i++)
            for (size_t j = 0; j < t.cols; j++)
                largest = fmax(largest, fabs((double)b->values[n][i * t.stride + j]));
        for (size_t i = 0; i < t.rows * t.stride; i++) {
            double x = (double)a->values[n][i], y = (double)b->values[n][i];
            double allowed = i % t.stride < t.cols ? bound * largest + 1e-6 : 0;

            if (!(fabs(x - y) <= allowed))
                fail_msg("%s (%zu, %zu): %g, not %g +- %g", names[n], i / t.stride,
                         i % t.stride, x, y, allowed);
        }
    }
}

static struct gradients our_gradients(const struct shape *shape, struct besides besides)
{
    return run_backward(open_card(besides, false), shape, besides);
}

/* Both round weights and their gradients to 16 bits before they are multiplied, and the
 * result; cuDNN also the sums over the heads that share keys. */
static void test_cuda_attention_gradients_by_cudnn_match_ours(void **state)
{
    struct besides nothing = { 0 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(shapes); i++) {
        struct gradients ours = our_gradients(&shapes[i], nothing);
        struct gradients theirs =
            run_backward(open_varying((size_t)64 << 20), &shapes[i], nothing);

        assert_int_equal(ours.plans, 0);
        assert_int_equal(theirs.plans, 2);
        assert_gradients_near(&theirs, &ours, 4 * format_info(shapes[i].format)->epsilon);
        gradients_clear(&ours);
        gradients_clear(&theirs);
    }
}

/* The same bits in each run, or too little memory: our kernels use the log-sum-exp from
 * cuDNN. */
static void test_cuda_attention_gradients_are_ours(void **state)
{
    static const size_t rooms[] = { 0, 100000 };
    struct besides nothing = { 0 };
    struct gradients ours = our_gradients(&shapes[1], nothing);

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rooms); i++) {
        struct gradients mixed =
            run_backward(open_varying(rooms[i]), &shapes[1], nothing);

        assert_int_equal(mixed.plans, 1);
        assert_gradients_near(&mixed, &ours, 4 * format_info(FORMAT_BF16)->epsilon);
        gradients_clear(&mixed);
    }
    gradients_clear(&ours);
}

static void test_cuda_attention_gradients_are_ours_in_other_cases(void **state)
{
    static const struct besides cases[] = { { .softcap = 20 }, { .p = 0.25f } };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct gradients ours = our_gradients(&shapes[1], cases[i]);
        struct gradients same =
            run_backward(open_varying((size_t)64 << 20), &shapes[1], cases[i]);

        assert_int_equal(same.plans, 0);
        assert_gradients_near(&same, &ours, 0);
        gradients_clear(&ours);
        gradients_clear(&same);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_attention_by_cudnn_matches_our_kernels),
        cmocka_unit_test(test_cuda_attention_by_cudnn_stays_in_its_columns),
        cmocka_unit_test(test_cuda_attention_uses_our_kernels_for_other_cases),
        cmocka_unit_test(test_cuda_attention_by_cudnn_has_one_plan_per_shape),
        cmocka_unit_test(test_cuda_attention_requires_the_requested_cudnn),
        cmocka_unit_test(test_cuda_attention_uses_our_kernels_on_old_cards),
        cmocka_unit_test(test_cuda_attention_reports_failures),
        cmocka_unit_test(test_cuda_attention_by_cudnn_can_be_recorded),
        cmocka_unit_test(test_cuda_attention_uses_cudnn_from_hopper_on),
        cmocka_unit_test(test_cuda_attention_can_be_chosen_by_name),
        cmocka_unit_test(test_cuda_attention_of_another_capability_has_another_name),
        cmocka_unit_test(test_cuda_attention_prefers_our_kernels_for_hopper),
        cmocka_unit_test(test_cuda_attention_without_a_working_cudnn_is_ours),
        cmocka_unit_test(test_cuda_attention_is_prepared_in_the_background),
        cmocka_unit_test(test_cuda_attention_gradients_by_cudnn_match_ours),
        cmocka_unit_test(test_cuda_attention_gradients_are_ours),
        cmocka_unit_test(test_cuda_attention_gradients_are_ours_in_other_cases),
    };

    emulation_cudnn(91900, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
