/* tests/unit/test_cuda_plan.c - a plan is made once, and kept while it is used. */
#include "config.h"

#include "kernels/cuda/cuda_plan.h"

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

static struct cuda_plan *find(const struct plans *p, size_t rows)
{
    struct cuda_plan_key key;

    memset(&key, 0, sizeof(key));
    key.rows = rows;
    key.cols = key.depth = 16;
    key.a_stride = key.b_stride = key.out_stride = 16;
    key.a_aligned = key.b_aligned = key.out_aligned = 8;
    return cuda_plan_find(p->plans, &key);
}

/* A plan is told from one made later by its algorithm, which the finder leaves alone. */
static void mark(struct cuda_plan *plan)
{
    plan->algo.data[7] = ~plan->algo.data[7];
}

static bool is_marked(const struct plans *p, size_t rows, uint64_t plain)
{
    return find(p, rows)->algo.data[7] != plain;
}

/* Twice as many shapes as are kept, and one of them between all others. */
static void test_cuda_plan_keeps_what_is_used(void **state)
{
    struct plans p = plans_open();
    struct cuda_plan *plan;
    uint64_t plain;

    (void)state;
    p.plans = cuda_plans_new(&p.library, p.handle, 1 << 20);
    assert_non_null(p.plans);
    plan = find(&p, 1);
    assert_int_equal(plan->status, CUBLAS_STATUS_SUCCESS);
    plain = plan->algo.data[7];
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
    assert_false(is_marked(&p, 2, plain)); /* given up, and made again */
    plans_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_plan_keeps_what_is_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
