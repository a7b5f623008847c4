/* tests/unit/test_cuda_attention.c - attention by cuDNN equals that of our own kernels;
 * cases that cuDNN does not handle go to our kernels, with the same bits.  cuDNN is
 * emulated: its graph is interpreted. */
#include "config.h"

#include "tests/unit/unit_cuda_attention.h"

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
          .besides = { .slopes = { 8, 1 } } },
        { .shape = { FORMAT_BF16, 2, 1, 64, 0, 0, { 0, 70 } },
          .besides = { .joined = true } },
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
    };

    emulation_cudnn(91900, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
