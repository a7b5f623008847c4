/* tests/unit/test_cuda_plan.c - a plan is made once, and kept while it is in use. */
#include "config.h"

#include "kernels/cuda/cuda_plan.h"

#include "base/size.h"

#include "tests/emulation/emulation.h"
#include "tests/unit/unit.h"

struct plans {
    struct cuda_library library;
    cublasLtHandle_t handle;
    struct cuda_plans *plans;
};

static struct plans plans_open(void)
{
    struct plans p = { 0 };
    struct error err = { 0 };

    assert_true(cuda_library_open(&p.library, &err));
    assert_int_equal(p.library.create(&p.handle), CUBLAS_STATUS_SUCCESS);
    return p;
}

static void plans_close(struct plans *p)
{
    cuda_plans_free(p->plans);
    p->library.destroy(p->handle);
    cuda_library_close(&p->library);
}

static struct matmul_key key_of(size_t rows, size_t cols, size_t depth)
{
    struct matmul_key key = { 0 };

    key.rows = rows;
    key.cols = cols;
    key.depth = depth;
    key.a_stride = depth;
    key.b_stride = key.out_stride = cols;
    key.a_aligned = key.b_aligned = key.out_aligned = key.bias_aligned = 8;
    return key;
}

static struct cuda_plan *find_key(const struct plans *p, struct matmul_key key)
{
    struct cuda_plan *plan = cuda_plan_find(p->plans, &key);

    assert_non_null(plan);
    return plan;
}

static struct cuda_plan *find(const struct plans *p, size_t rows)
{
    return find_key(p, key_of(rows, 16, 16));
}

/* The algorithm field, which the finder does not change, marks a plan so that a later one
 * can be distinguished. */
static void mark(struct cuda_plan *plan)
{
    plan->algos[0].data[7] = ~plan->algos[0].data[7];
}

static bool is_marked(const struct plans *p, size_t rows, uint64_t plain)
{
    return find(p, rows)->algos[0].data[7] != plain;
}

/* Twice as many shapes as are kept, with one shape used between all others. */
static void test_cuda_plan_keeps_plans_in_use(void **state)
{
    struct plans p = plans_open();
    struct cuda_plan *plan;
    uint64_t plain;

    (void)state;
    p.plans = cuda_plans_new(&p.library, p.handle, 1 << 20);
    assert_non_null(p.plans);
    plan = find(&p, 1);
    assert_int_equal(plan->status, CUBLAS_STATUS_SUCCESS);
    plain = plan->algos[0].data[7];
    mark(plan);
    mark(find(&p, 2));
    for (size_t rows = 3; rows <= 2 * CUDA_PLANS_MOST; rows++) {
        plan = find(&p, rows);
        assert_int_equal(plan->status, CUBLAS_STATUS_SUCCESS);
        assert_int_equal(plan->key.rows, rows);
        assert_true(cuda_plans_count(p.plans) <= CUDA_PLANS_MOST);
        assert_true(is_marked(&p, 1, plain));
        assert_true(rows > CUDA_PLANS_MOST || cuda_plans_count(p.plans) == rows);
    }
    assert_int_equal(cuda_plans_count(p.plans), CUDA_PLANS_MOST);
    assert_false(is_marked(&p, 2, plain)); /* evicted, and made again */
    plans_close(&p);
}

static int32_t parts_of(const struct plans *p, const struct cuda_plan *plan)
{
    int32_t parts = 0;
    size_t written;

    assert_int_equal(plan->status, CUBLAS_STATUS_SUCCESS);
    assert_int_equal(p->library.algo_get(&plan->algos[0], CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                         &parts, sizeof(parts), &written),
                     CUBLAS_STATUS_SUCCESS);
    return parts;
}

/* The emulated library offers three parts first; a tile is 128 deep. */
static void test_cuda_plan_splits_sums_into_whole_tiles(void **state)
{
    static const struct {
        size_t depth;
        int32_t parts;
    } cases[] = {
        { 384, 3 },  { 6144, 3 }, { 48, 1 },    { 64, 1 },       { 192, 1 },
        { 3120, 1 }, { 2064, 1 }, { 16416, 1 }, { 6144 + 8, 1 },
    };
    struct plans p = plans_open();

    (void)state;
    p.plans = cuda_plans_new(&p.library, p.handle, 1 << 20);
    assert_non_null(p.plans);
    for (int only = 0; only < 2; only++) {
        emulation_offer_only_split(only);
        for (size_t i = 0; i < TS_COUNT(cases); i++)
            assert_int_equal(
                parts_of(&p, find_key(&p, key_of(16, 16 + only, cases[i].depth))),
                cases[i].parts);
    }
    emulation_offer_only_split(false);
    plans_close(&p);
}

static void test_cuda_plan_adds_a_bias_to_more_than_a_row(void **state)
{
    static const struct {
        size_t rows, cols;
        unsigned char aligned;
        bool adds;
    } cases[] = { { 16, 16, 4, true },
                  { 16, 16, 3, false },
                  { 1, 16, 8, false },
                  { 16, 1, 8, false } };
    struct plans p = plans_open();

    (void)state;
    p.plans = cuda_plans_new(&p.library, p.handle, 1 << 20);
    assert_non_null(p.plans);
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct matmul_key key = key_of(cases[i].rows, cases[i].cols, 16);
        struct cuda_plan *plan;

        key.bias = true;
        key.bias_aligned = cases[i].aligned;
        plan = find_key(&p, key);
        assert_int_equal(plan->status, CUBLAS_STATUS_SUCCESS);
        assert_int_equal(plan->adds_bias, cases[i].adds);
    }
    for (int i = 0; i < 3; i++) { /* 16 bits; rows that are not aligned */
        struct matmul_key key = key_of(16, 16, 16);

        key.bias = true;
        key.a_format = key.b_format = key.out_format = FORMAT_BF16;
        key.out_aligned = i == 1 ? 3 : 8;
        key.a_stride += i == 2 ? 4 : 0;
        assert_int_equal(find_key(&p, key)->adds_bias, i == 0);
    }
    plans_close(&p);
}

/* The emulated heuristic names no algorithm for fp8 unless it was given scale factors. */
static void test_cuda_plan_passes_scale_factors(void **state)
{
    static const struct emulation_device device = { "Emulated", 90, 4, (size_t)2 << 30 };
    struct matmul_key key = key_of(16, 16, 32);
    struct plans p;

    (void)state;
    emulation_reset(&device, 1);
    p = plans_open();
    p.plans = cuda_plans_new(&p.library, p.handle, 1 << 20);
    assert_non_null(p.plans);
    key.a_format = key.b_format = FORMAT_FP8_E4M3;
    key.trans_b = true;
    key.b_stride = 32;
    assert_int_equal(find_key(&p, key)->status, CUBLAS_STATUS_SUCCESS);
    plans_close(&p);
}

static size_t fast_plans;

static cublasStatus_t count_fast(cublasLtMatmulDesc_t desc,
                                 cublasLtMatmulDescAttributes_t attribute,
                                 const void *value, size_t bytes)
{
    (void)desc;
    if (attribute == CUBLASLT_MATMUL_DESC_FAST_ACCUM) {
        assert_int_equal(bytes, 1);
        fast_plans += *(const int8_t *)value == 1;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* e5m2 are gradients. */
static void test_cuda_plan_accumulates_fast_only_forward(void **state)
{
    static const struct {
        enum format a, b;
        size_t fast;
    } cases[] = {
        { FORMAT_FP8_E4M3, FORMAT_FP8_E4M3, 1 },
        { FORMAT_FP8_E5M2, FORMAT_FP8_E4M3, 0 },
        { FORMAT_BF16, FORMAT_BF16, 0 },
    };
    struct plans p = plans_open();

    (void)state;
    p.library.desc_set = count_fast;
    p.plans = cuda_plans_new(&p.library, p.handle, 1 << 20);
    assert_non_null(p.plans);
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct matmul_key key = key_of(16, 16, 32);

        key.a_format = (unsigned char)cases[i].a;
        key.b_format = (unsigned char)cases[i].b;
        fast_plans = 0;
        find_key(&p, key);
        assert_int_equal(fast_plans, cases[i].fast);
    }
    plans_close(&p);
}

/* A plan that failed for lack of memory may be found later. */
static void test_cuda_plan_retries_after_lack_of_memory(void **state)
{
    struct plans p = plans_open();

    (void)state;
    p.plans = cuda_plans_new(&p.library, p.handle, 1 << 20);
    assert_non_null(p.plans);
    emulation_exhaust_library(true);
    assert_int_equal(find(&p, 2)->status, CUBLAS_STATUS_ALLOC_FAILED);
    emulation_exhaust_library(false);
    assert_int_equal(find(&p, 2)->status, CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cuda_plans_count(p.plans), 1);
    plans_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_plan_keeps_plans_in_use),
        cmocka_unit_test(test_cuda_plan_splits_sums_into_whole_tiles),
        cmocka_unit_test(test_cuda_plan_adds_a_bias_to_more_than_a_row),
        cmocka_unit_test(test_cuda_plan_passes_scale_factors),
        cmocka_unit_test(test_cuda_plan_accumulates_fast_only_forward),
        cmocka_unit_test(test_cuda_plan_retries_after_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
