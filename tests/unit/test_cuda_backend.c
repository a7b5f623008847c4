/* tests/unit/test_cuda_backend.c - memory, copies and failures of an emulated GPU. */
#include "config.h"

#include "kernels/cuda/cuda_backend.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/unit/unit_cuda.h"

static const size_t gib = (size_t)1 << 30, mib = (size_t)1 << 20;

static void test_cuda_backend_describes_itself(void **state)
{
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    const char *about = be->ops->describe(be);

    (void)state;
    assert_non_null(strstr(about, "cuda:0"));
    assert_non_null(strstr(about, "8.0"));
    assert_non_null(strstr(about, "cuBLASLt"));
    backend_close(be);
    assert_int_equal(emulation_bytes_held(), 0);
}

static void test_cuda_backend_memory_is_zeroed_and_aligned(void **state)
{
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    unsigned char *block = unit_cuda_block(be, 3 * mib + 5), *copy = malloc(3 * mib + 5);

    (void)state;
    assert_int_equal((uintptr_t)block % be->ops->alignment, 0);
    be->ops->download(be, copy, block, 3 * mib + 5);
    unit_cuda_sync(be);
    for (size_t i = 0; i < 3 * mib + 5; i++)
        assert_int_equal(copy[i], 0);
    be->ops->free(be, block);
    free(copy);
    backend_close(be);
}

static void assert_alloc_fails(struct backend *be, size_t bytes, const char *wanted)
{
    struct error err = { 0 };

    assert_null(be->ops->alloc(be, bytes, &err));
    assert_int_equal(err.code, ERROR_MEMORY);
    if (!strstr(err.text, wanted) || !strstr(err.text, "gradient_checkpointing"))
        fail_msg("%s", err.text);
}

/* Even if it would just fit and leave nothing for the driver. */
static void test_cuda_backend_reports_the_bytes_it_cannot_allocate(void **state)
{
    struct backend *be = unit_cuda_alone(80, gib);
    size_t held = emulation_bytes_held(), left = gib - held;

    (void)state;
    assert_alloc_fails(be, 5 * gib, "5120 MiB");
    assert_alloc_fails(be, SIZE_MAX / 4, " free");
    assert_alloc_fails(be, left - CUDA_RESERVE_BYTES + 1, " free");
    assert_int_equal(emulation_bytes_held(), held);
    be->ops->free(be, unit_cuda_block(be, left - CUDA_RESERVE_BYTES));
    assert_int_equal(be->ops->workspace(be), held + CUDA_RESERVE_BYTES);
    unit_cuda_sync(be);
    backend_close(be);
}

static void test_cuda_backend_frees_a_block_after_a_failure(void **state)
{
    struct backend *be = unit_cuda_alone(80, gib);
    size_t held = emulation_bytes_held();
    struct error err = { 0 };

    (void)state;
    emulation_break_memory_info(cudaErrorInitializationError);
    assert_null(be->ops->alloc(be, mib, &err));
    emulation_break_memory_info(cudaSuccess);
    assert_int_equal(err.code, ERROR_DEVICE);
    assert_non_null(strstr(err.text, "cannot allocate 1 MiB"));
    assert_int_equal(emulation_bytes_held(), held);
    be->ops->free(be, unit_cuda_block(be, mib));
    backend_close(be);
}

/* More than all pieces of the rings, from memory that is reused immediately. */
static void test_cuda_backend_copies_both_ways(void **state)
{
    size_t bytes = 37 * mib + 11;
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    unsigned char *block = unit_cuda_block(be, bytes), *from = malloc(bytes),
                  *to = malloc(bytes);

    (void)state;
    for (size_t i = 0; i < bytes; i++)
        from[i] = (unsigned char)(i * 2654435761u >> 13);
    be->ops->upload(be, block, from, bytes);
    memset(from, 0, bytes);
    be->ops->download(be, to, block, bytes);
    be->ops->upload(be, block, NULL, 0);
    be->ops->download(be, NULL, block, 0);
    unit_cuda_sync(be);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(to[i], (unsigned char)(i * 2654435761u >> 13));
    free(from);
    free(to);
    backend_close(be);
}

/* Many small copies, and two to one address: the later one wins. */
static void test_cuda_backend_copies_in_order(void **state)
{
    enum { COUNT = 700, LAST = 670 };
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    uint32_t *block = unit_cuda_block(be, COUNT * 4), there[COUNT], last = 0;

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t value = i * i;

        be->ops->upload(be, block + i, &value, 4);
        be->ops->download(be, there + i, block + i, 4);
        if (i < LAST) /* so that it is not in the current piece */
            be->ops->download(be, &last, block + i, 4);
    }
    unit_cuda_sync(be);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(there[i], i * i);
    assert_int_equal(last, (LAST - 1) * (LAST - 1));
    backend_close(be);
}

static void assert_sync_fails(struct backend *be, enum error_code code, const char *one,
                              const char *two)
{
    struct error err = { 0 };

    assert_false(be->ops->sync(be, &err));
    assert_int_equal(err.code, code);
    if (!strstr(err.text, one) || !strstr(err.text, two))
        fail_msg("%s", err.text);
}

/* The first failure is named with its shape, later operations are skipped, and then the
 * backend works again. */
static void test_cuda_backend_sync_reports_the_first_failure(void **state)
{
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    struct tensor x = unit_cuda_matrix(be, FORMAT_FP32, 3, 7, 7, 1);
    struct tensor y = unit_cuda_matrix(be, FORMAT_BF16, 3, 7, 7, 1);
    float *values, untouched = 5;

    (void)state;
    unit_cuda_sync(be);
    emulation_break_launch(0, cudaErrorLaunchOutOfResources);
    be->ops->convert(be, &(struct op_convert) { .out = y, .x = x });
    be->ops->add(be, &(struct op_add) { .out = x, .a = x, .b = x });
    be->ops->download(be, &untouched, x.data, 4);
    assert_sync_fails(be, ERROR_DEVICE, "convert of (3, 7) bf16, (3, 7) fp32",
                      "too many resources");
    assert_true(untouched == 5);
    be->ops->convert(be, &(struct op_convert) { .out = x, .x = y });
    values = unit_cuda_read(be, x);
    free(values);
    backend_close(be);
}

/* An unrecoverable driver error is reported again on every call, and closing still
 * works. */
static void test_cuda_backend_lost_card_stays_lost(void **state)
{
    struct backend *be = unit_cuda_doomed(80, 2 * gib);
    struct tensor x = unit_cuda_matrix(be, FORMAT_FP32, 3, 7, 7, 1);

    (void)state;
    unit_cuda_sync(be);
    emulation_break_launch(0, cudaErrorIllegalAddress);
    be->ops->add(be, &(struct op_add) { .out = x, .a = x, .b = x });
    assert_sync_fails(be, ERROR_DEVICE, "illegal memory access",
                      "TRAINSPOOL_CUDA_SYNC=1");
    be->ops->add(be, &(struct op_add) { .out = x, .a = x, .b = x });
    assert_sync_fails(be, ERROR_DEVICE, "add of (3, 7) fp32", "shortly before");
    be->ops->free(be, x.data);
    backend_close(be);
}

static void assert_dead(cudaError_t status, enum error_code code)
{
    struct cuda_backend cuda = { 0 };
    struct error err = { 0 };

    cuda_check(&cuda, status, "trying");
    assert_true(cuda.dead);
    assert_int_equal(cuda.failed.code, code);
    assert_false(cuda_status(status, &err, "trying"));
    assert_int_equal(err.code, code);
}

/* NVIDIA: "the process must be terminated and relaunched". */
static void test_cuda_backend_stays_failed_after_a_fatal_error(void **state)
{
    static const cudaError_t ends[] = {
        cudaErrorIllegalAddress,
        cudaErrorLaunchTimeout,
        cudaErrorAssert,
        cudaErrorHardwareStackError,
        cudaErrorIllegalInstruction,
        cudaErrorMisalignedAddress,
        cudaErrorInvalidAddressSpace,
        cudaErrorInvalidPc,
        cudaErrorLaunchFailure,
        cudaErrorTensorMemoryLeak,
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(ends); i++)
        assert_dead(ends[i], ERROR_DEVICE);
}

/* Another process may use the card: the job is tried again, and the card not drained. */
static void test_cuda_backend_tells_a_lost_context_from_a_lost_card(void **state)
{
    static const cudaError_t contexts[] = {
        cudaErrorContained,
        cudaErrorContextIsDestroyed,
        cudaErrorDeviceUninitialized,
        cudaErrorExternalDevice,
        cudaErrorOperatingSystem,
        cudaErrorDevicesUnavailable,
        cudaErrorMpsConnectionFailed,
        cudaErrorMpsRpcFailure,
        cudaErrorMpsServerNotReady,
        cudaErrorMpsMaxClientsReached,
        cudaErrorMpsMaxConnectionsReached,
        cudaErrorMpsClientTerminated,
    };
    static const cudaError_t cards[] = {
        cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable,
        cudaErrorNoDevice,         cudaErrorSystemNotReady,
        cudaErrorUnknown,
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(contexts); i++)
        assert_dead(contexts[i], ERROR_CONTEXT);
    for (size_t i = 0; i < TS_COUNT(cards); i++)
        assert_dead(cards[i], ERROR_CARD);
}

/* The destructors of a hung driver would not return: none is called. */
static void test_cuda_backend_gives_up_a_card_that_hangs(void **state)
{
    struct backend *be = unit_cuda_doomed(80, 2 * gib);
    struct tensor x = unit_cuda_matrix(be, FORMAT_FP32, 3, 7, 7, 1);

    (void)state;
    unit_cuda_sync(be);
    cuda_backend_of(be)->patience = 0.05;
    emulation_hang(true);
    for (int i = 0; i < 2000; i++) /* more than can be in flight */
        be->ops->add(be, &(struct op_add) { .out = x, .a = x, .b = x });
    assert_sync_fails(be, ERROR_CARD, "has not answered", "Xid");
    be->ops->upload(be, x.data, &x, 4);
    be->ops->download(be, &x, x.data, 4);
    assert_sync_fails(be, ERROR_CARD, "has not answered", "add");
    be->ops->free(be, x.data);
    backend_close(be);
    emulation_reset(NULL, 0);
}

/* A driver call that does not return: the process is ended, in a child of the test. */
static void test_cuda_backend_ends_the_process_if_the_driver_is_stuck(void **state)
{
    struct error err = { 0 };
    struct backend *be;
    int status = 0;
    pid_t child;

    (void)state;
    fflush(NULL);
    child = fork();
    if (child == 0) {
        be = unit_cuda_alone(80, 2 * gib);
        cuda_backend_of(be)->patience = 0.1;
        emulation_block_malloc();
        be->ops->alloc(be, mib, &err);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGALRM);
}

/* A process whose driver responds is never ended. */
static void test_cuda_backend_leaves_no_alarm_set(void **state)
{
    struct backend *be = unit_cuda_alone(80, 2 * gib);

    (void)state;
    assert_int_equal(alarm(0), 0);
    be->ops->free(be, unit_cuda_block(be, mib));
    assert_int_equal(alarm(0), 0);
    assert_alloc_fails(be, 5 * gib, "5120 MiB");
    assert_int_equal(alarm(0), 0);
    backend_close(be);
}

/* Work that takes longer than that is not a hang. */
static void test_cuda_backend_waits_while_events_arrive(void **state)
{
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    struct tensor x = unit_cuda_matrix(be, FORMAT_FP32, 64, 64, 64, 1);

    (void)state;
    unit_cuda_sync(be);
    cuda_backend_of(be)->patience = 5;
    for (int i = 0; i < 3000; i++)
        be->ops->add(be, &(struct op_add) { .out = x, .a = x, .b = x });
    unit_cuda_sync(be);
    assert_true(emulation_kernels_run() >= 3000);
    backend_close(be);
}

/* Sleeps of the waiting thread end on time, whatever the timer slack was. */
static void test_cuda_backend_sleeps_precisely(void **state)
{
    struct backend *be;

    (void)state;
    if (prctl(PR_SET_TIMERSLACK, 50000UL) != 0 || prctl(PR_GET_TIMERSLACK) != 50000)
        skip();
    be = unit_cuda_alone(80, gib);
    assert_int_equal(prctl(PR_GET_TIMERSLACK), 1);
    backend_close(be);
}

static void test_cuda_backend_names_the_operation_if_requested(void **state)
{
    struct backend *be;
    struct tensor x, w;

    (void)state;
    setenv("TRAINSPOOL_CUDA_SYNC", "1", 1);
    be = unit_cuda_doomed(80, 2 * gib);
    unsetenv("TRAINSPOOL_CUDA_SYNC");
    x = unit_cuda_matrix(be, FORMAT_FP32, 3, 7, 7, 1);
    w = unit_cuda_matrix(be, FORMAT_FP32, 5, 7, 7, 1);
    be->ops->zero(be, &(struct op_zero) { .out = w });
    emulation_break_run(cudaErrorIllegalAddress); /* not at its launch */
    be->ops->add(be, &(struct op_add) { .out = x, .a = x, .b = x });
    be->ops->zero(be, &(struct op_zero) { .out = w });
    assert_sync_fails(be, ERROR_DEVICE, "add of (3, 7) fp32, (3, 7) fp32",
                      "illegal memory access");
    backend_close(be);
    emulation_reset(NULL, 0);
}

static void test_cuda_backend_does_nothing_for_zero_rows(void **state)
{
    struct backend *be = unit_cuda_alone(80, 2 * gib);
    struct tensor x = unit_cuda_matrix(be, FORMAT_FP32, 3, 7, 7, 1);
    struct tensor none = tensor_rows(x, 0, 0);

    (void)state;
    be->ops->add(be, &(struct op_add) { .out = none, .a = none, .b = none });
    be->ops->zero(be, &(struct op_zero) { .out = none });
    be->ops->matmul(
        be, &(struct op_matmul) { .out = none, .a = none, .b = x, .trans_b = true });
    unit_cuda_sync(be);
    assert_int_equal(emulation_kernels_run(), 0);
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_backend_describes_itself),
        cmocka_unit_test(test_cuda_backend_memory_is_zeroed_and_aligned),
        cmocka_unit_test(test_cuda_backend_reports_the_bytes_it_cannot_allocate),
        cmocka_unit_test(test_cuda_backend_frees_a_block_after_a_failure),
        cmocka_unit_test(test_cuda_backend_copies_both_ways),
        cmocka_unit_test(test_cuda_backend_copies_in_order),
        cmocka_unit_test(test_cuda_backend_sync_reports_the_first_failure),
        cmocka_unit_test(test_cuda_backend_lost_card_stays_lost),
        cmocka_unit_test(test_cuda_backend_stays_failed_after_a_fatal_error),
        cmocka_unit_test(test_cuda_backend_tells_a_lost_context_from_a_lost_card),
        cmocka_unit_test(test_cuda_backend_gives_up_a_card_that_hangs),
        cmocka_unit_test(test_cuda_backend_ends_the_process_if_the_driver_is_stuck),
        cmocka_unit_test(test_cuda_backend_leaves_no_alarm_set),
        cmocka_unit_test(test_cuda_backend_waits_while_events_arrive),
        cmocka_unit_test(test_cuda_backend_sleeps_precisely),
        cmocka_unit_test(test_cuda_backend_names_the_operation_if_requested),
        cmocka_unit_test(test_cuda_backend_does_nothing_for_zero_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
