/* tests/unit/test_cuda_graph.c - replaying a recording gives the requested result. */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include "base/size.h"
#include "tests/unit/unit_cuda.h"

enum { SIZE = 24 };

/* A small "step": y = x w, x += y, z = x in 16 bits. */
struct step {
    struct tensor x, w, y, z;
    int issued; /* how often its operations were issued */
};

static struct step step_open(struct backend *be)
{
    return (struct step) { .x = unit_cuda_matrix(be, FORMAT_FP32, SIZE, SIZE, SIZE, 1),
                           .w = unit_cuda_matrix(be, FORMAT_FP32, SIZE, SIZE, SIZE, 2),
                           .y = unit_cuda_matrix(be, FORMAT_FP32, SIZE, SIZE, SIZE, 3),
                           .z = unit_cuda_matrix(be, FORMAT_BF16, SIZE, SIZE, SIZE, 4) };
}

static void step_issue(struct backend *be, struct step *step)
{
    step->issued++;
    be->ops->matmul(be,
                    &(struct op_matmul) {
                        .out = step->y, .a = step->x, .b = step->w, .alpha = 0.125f });
    be->ops->add(be, &(struct op_add) { .out = step->x, .a = step->x, .b = step->y });
    be->ops->convert(be, &(struct op_convert) { .out = step->z, .x = step->x });
}

static void step_do(struct backend *be, struct step *step, const char *key)
{
    if (!be->ops->begin(be, key, strlen(key)))
        return;
    step_issue(be, step);
    be->ops->end(be);
}

/* x after this many steps; malloc'ed */
static float *run(int count, bool recorded, int *issued)
{
    struct backend *be = unit_cuda_alone(80, (size_t)2 << 30);
    struct step step = step_open(be);
    float *x;

    for (int i = 0; i < count; i++)
        if (recorded)
            step_do(be, &step, "step");
        else
            step_issue(be, &step);
    x = unit_cuda_read(be, step.x);
    if (issued)
        *issued = step.issued;
    backend_close(be);
    assert_int_equal(emulation_bytes_held(), 0);
    return x;
}

static void same(const float *a, const float *b)
{
    assert_memory_equal(a, b, SIZE * SIZE * sizeof(float));
}

/* Issued, recorded, and then replayed: the operations are issued twice. */
static void test_cuda_graph_gives_the_same_bits(void **state)
{
    int issued;

    (void)state;
    for (int count = 1; count < 6; count++) {
        float *plain = run(count, false, NULL), *recorded = run(count, true, &issued);

        same(plain, recorded);
        assert_int_equal(issued, count < 2 ? count : 2);
        free(plain);
        free(recorded);
    }
}

static void test_cuda_graph_can_be_turned_off(void **state)
{
    float *plain = run(4, false, NULL), *off;
    int issued;

    (void)state;
    setenv("TRAINSPOOL_NO_GRAPHS", "1", 1);
    off = run(4, true, &issued);
    unsetenv("TRAINSPOOL_NO_GRAPHS");
    assert_int_equal(issued, 4);
    same(plain, off);
    free(plain);
    free(off);
}

/* Work that the driver cannot record is run anyway, once, and recording is not tried
 * again. */
static void test_cuda_graph_runs_work_that_cannot_be_recorded(void **state)
{
    struct backend *be;
    struct step step;
    float *plain = run(4, false, NULL), *x;

    (void)state;
    be = unit_cuda_alone(80, (size_t)2 << 30);
    step = step_open(be);
    step_do(be, &step, "step");
    emulation_break_capture(cudaErrorStreamCaptureInvalidated);
    step_do(be, &step, "step");
    emulation_break_capture(cudaSuccess);
    step_do(be, &step, "step");
    step_do(be, &step, "step");
    assert_int_equal(step.issued, 4);
    x = unit_cuda_read(be, step.x);
    same(plain, x);
    free(plain);
    free(x);
    backend_close(be);
}

/* A recording that does not fit in the card's memory is freed, and the step is run
 * anyway; an earlier recording is still replayed. */
static void test_cuda_graph_frees_a_recording_that_does_not_fit(void **state)
{
    float *plain = run(9, false, NULL), *x;
    struct backend *be = unit_cuda_alone(80, (size_t)2 << 30);
    struct step step = step_open(be);

    (void)state;
    for (int i = 0; i < 3; i++)
        step_do(be, &step, "before");
    assert_int_equal(step.issued, 2);
    emulation_break_graph(cudaErrorMemoryAllocation);
    for (int i = 0; i < 4; i++)
        step_do(be, &step, "step");
    assert_int_equal(step.issued, 6);
    step_do(be, &step, "before");
    step_do(be, &step, "before");
    assert_int_equal(step.issued, 6);
    x = unit_cuda_read(be, step.x);
    same(plain, x);
    emulation_break_graph(cudaSuccess);
    free(plain);
    free(x);
    backend_close(be);
    assert_int_equal(emulation_bytes_held(), 0);
}

/* Nothing is recorded if the card is nearly full; earlier recordings are replayed. */
static void test_cuda_graph_leaves_memory_free(void **state)
{
    float *plain = run(9, false, NULL), *x;
    struct backend *be = unit_cuda_alone(80, (size_t)2 << 30);
    struct step step = step_open(be);
    size_t available, total;
    void *most = NULL;

    (void)state;
    for (int i = 0; i < 3; i++)
        step_do(be, &step, "before");
    assert_int_equal(step.issued, 2);
    cudaMemGetInfo(&available, &total);
    cudaMalloc(&most, available - (100 << 20));
    for (int i = 0; i < 4; i++)
        step_do(be, &step, "step");
    assert_int_equal(step.issued, 6);
    step_do(be, &step, "before");
    assert_int_equal(step.issued, 6);
    cudaFree(most);
    step_do(be, &step, "step");
    assert_int_equal(step.issued, 7); /* while it is recorded */
    x = unit_cuda_read(be, step.x);
    same(plain, x);
    free(plain);
    free(x);
    backend_close(be);
}

/* An operation that fails during recording is issued again directly, and reports its
 * name. */
static void test_cuda_graph_names_an_operation_that_fails_while_recording(void **state)
{
    struct backend *be = unit_cuda_alone(80, (size_t)2 << 30);
    struct step step = step_open(be);
    struct error err = { 0 };

    (void)state;
    step_do(be, &step, "step");
    unit_cuda_sync(be);
    be->ops->begin(be, "step", 4);
    emulation_break_launch(0, cudaErrorLaunchOutOfResources);
    step_issue(be, &step);
    be->ops->end(be);
    unit_cuda_sync(be); /* only once, and that was during recording */
    be->ops->begin(be, "other", 5);
    emulation_break_launch(0, cudaErrorLaunchOutOfResources);
    step_issue(be, &step);
    be->ops->end(be);
    assert_false(be->ops->sync(be, &err));
    assert_non_null(strstr(err.text, "add of (24, 24) fp32"));
    backend_close(be);
}

/* A pass with other GPUs has as many parts as layers. */
static void test_cuda_graph_keeps_a_pass_in_many_parts(void **state)
{
    float *plain = run(4 * 80, false, NULL), *x;
    struct backend *be = unit_cuda_alone(80, (size_t)2 << 30);
    struct step step = step_open(be);
    char key[20];

    (void)state;
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < 80; i++) {
            snprintf(key, sizeof(key), "%d", i);
            step_do(be, &step, key);
        }
    assert_int_equal(step.issued, 2 * 80);
    x = unit_cuda_read(be, step.x);
    same(plain, x);
    free(plain);
    free(x);
    backend_close(be);
}

/* Issue this many operations; return whether they were replayed. */
static bool zeros_do(struct backend *be, struct step *step, int key, int operations)
{
    if (!be->ops->begin(be, &key, sizeof(key)))
        return true;
    for (int i = 0; i < operations; i++)
        be->ops->zero(be, &(struct op_zero) { .out = step->z });
    be->ops->end(be);
    return false;
}

static int zeros_round(struct backend *be, struct step *step, int keys)
{
    int played = 0;

    for (int i = 0; i < keys; i++)
        played += zeros_do(be, step, i, 1);
    return played;
}

/* Cycling through more recordings than are kept evicts each before it recurs. */
static void test_cuda_graph_keeps_a_bounded_number(void **state)
{
    struct backend *be = unit_cuda_alone(80, (size_t)2 << 30);
    struct step step = step_open(be);
    const int most = 64 * 64;

    (void)state;
    for (int round = 0; round < 4; round++)
        assert_int_equal(zeros_round(be, &step, most), round < 2 ? 0 : most);
    for (int round = 0; round < 3; round++)
        zeros_round(be, &step, most + 1);
    assert_int_equal(zeros_round(be, &step, most + 1), 0);
    unit_cuda_sync(be);
    backend_close(be);
}

/* Fewer long ones are kept: those replayed last.  A part seen only once takes no
 * space. */
static void test_cuda_graph_keeps_a_bounded_number_of_operations(void **state)
{
    struct backend *be = unit_cuda_alone(80, (size_t)2 << 30);
    struct step step = step_open(be);

    (void)state;
    zeros_do(be, &step, 99, 1);
    for (int i = 0; i < 64; i++) {
        assert_false(zeros_do(be, &step, i, 2048));
        assert_false(zeros_do(be, &step, i, 2048));
    }
    assert_true(zeros_do(be, &step, 0, 2048));
    zeros_do(be, &step, -1, 1);
    zeros_do(be, &step, -1, 1);
    for (int i = 63; i >= 0; i--)
        assert_int_equal(zeros_do(be, &step, i, 2048), i != 1);
    assert_false(zeros_do(be, &step, 99, 1));
    assert_true(zeros_do(be, &step, 99, 1));
    assert_true(zeros_do(be, &step, -1, 1));
    assert_true(zeros_do(be, &step, 63, 2048));
    unit_cuda_sync(be);
    backend_close(be);
    assert_int_equal(emulation_bytes_held(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_graph_gives_the_same_bits),
        cmocka_unit_test(test_cuda_graph_can_be_turned_off),
        cmocka_unit_test(test_cuda_graph_runs_work_that_cannot_be_recorded),
        cmocka_unit_test(test_cuda_graph_frees_a_recording_that_does_not_fit),
        cmocka_unit_test(test_cuda_graph_leaves_memory_free),
        cmocka_unit_test(test_cuda_graph_names_an_operation_that_fails_while_recording),
        cmocka_unit_test(test_cuda_graph_keeps_a_pass_in_many_parts),
        cmocka_unit_test(test_cuda_graph_keeps_a_bounded_number),
        cmocka_unit_test(test_cuda_graph_keeps_a_bounded_number_of_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
