/*
 * tests/unit/test_emulation.c - the emulated machine follows CUDA's rules, and detects
 * planted errors.  Linked twice: with normal kernels, and with kernels compiled to detect
 * races.
 */
#include "config.h"

#include "tests/emulation/emulation.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "base/size.h"
#include "precision/format.h"
#include "tests/emulation/emulation_samples.h"
#include "tests/unit/unit.h"

static const struct emulation_device ampere = { "Emulated 8.0", 80, 4, 1 << 20 };
static const struct sample_size warp = { 1, 1, 32, 4096 };
static const struct sample_size block = { 1, 1, 96, 4096 };

static void start(const struct emulation_device *device)
{
    emulation_reset(device, 1);
    emulation_quiet(true);
}

/* Memory that counts as never written: all NaN. */
static void *memory(size_t bytes)
{
    void *data;

    assert_int_equal(cudaMalloc(&data, bytes), cudaSuccess);
    return data;
}

static void *zeros(size_t bytes)
{
    void *data = memory(bytes);

    memset(data, 0, bytes);
    return data;
}

static cudaError_t run(enum sample sample, struct sample_size size, void *a, void *b)
{
    cudaError_t status = sample_launch(sample, size, NULL, a, b);

    return status == cudaSuccess ? cudaStreamSynchronize(NULL) : status;
}

/* The wait fails, and the finding mentions `word`. */
static void assert_detected_in(enum sample sample, struct sample_size size,
                               void *(*make)(size_t bytes), const char *word)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        start(&ampere);
        emulation_seed(seed);
        assert_int_equal(run(sample, size, make(4096), make(4096)),
                         cudaErrorLaunchFailure);
        if (!strstr(emulation_failure(), word))
            fail_msg("sample %d, seed %d: %s", (int)sample, (int)seed,
                     emulation_failure());
        /* the error persists */
        assert_int_equal(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    }
}

static void assert_detected(enum sample sample, struct sample_size size, const char *word)
{
    assert_detected_in(sample, size, zeros, word);
}

static void passes(enum sample sample, struct sample_size size)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        start(&ampere);
        emulation_seed(seed);
        assert_int_equal(run(sample, size, zeros(4096), zeros(4096)), cudaSuccess);
        assert_string_equal(emulation_failure(), "");
    }
}

static void test_shuffles_move_lanes(void **state)
{
    float *a;

    (void)state;
    start(&ampere);
    a = memory(32 * 5 * sizeof(*a));
    assert_int_equal(run(SAMPLE_SHUFFLES, warp, a, NULL), cudaSuccess);
    for (int lane = 0; lane < 32; lane++) {
        assert_true(a[5 * lane] == 3);
        assert_true(a[5 * lane + 1] == (float)(lane % 8 < 2 ? lane : lane - 2));
        assert_true(a[5 * lane + 2] == (float)(lane < 29 ? lane + 3 : lane));
        assert_true(a[5 * lane + 3] == (float)(lane ^ 5));
        assert_true(a[5 * lane + 4] == (float)(lane < 16 ? lane ^ 1 : lane ^ 2));
    }
}

static void test_votes_include_all_lanes(void **state)
{
    unsigned *a;

    (void)state;
    start(&ampere);
    a = memory(32 * 3 * sizeof(*a));
    assert_int_equal(run(SAMPLE_VOTES, warp, a, NULL), cudaSuccess);
    for (int lane = 0; lane < 32; lane++) {
        assert_int_equal(a[3 * lane], 0x49249249);
        assert_int_equal(a[3 * lane + 1], 1);
        assert_int_equal(a[3 * lane + 2], 0);
    }
}

/* PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", by its
 * formulas. */
static int row_of_a(int group, int i)
{
    return i < 2 || (i >= 4 && i < 6) ? group : group + 8;
}

static int col_of_a(int in_group, int i)
{
    return i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
}

static void try_mma(enum sample sample, uint16_t (*to)(float), float (*from)(uint16_t))
{
    double a[16][16], b[16][8];
    float *d;
    uint16_t *fragments;

    start(&ampere);
    d = memory(32 * 4 * sizeof(*d));
    fragments = memory(32 * 12 * sizeof(*fragments));
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 12; i++) {
            uint16_t bits =
                to((float)random_normal(1, RANDOM_INIT, 0, (uint64_t)(lane * 12 + i)));
            double x = (double)from(bits);
            int k = i - 8;

            fragments[lane * 12 + i] = bits;
            if (i < 8)
                a[row_of_a(lane >> 2, i)][col_of_a(lane % 4, i)] = x;
            else
                b[(lane % 4) * 2 + (k & 1) + (k < 2 ? 0 : 8)][lane >> 2] = x;
        }
    for (int i = 0; i < 128; i++)
        d[i] = (float)i;
    assert_int_equal(run(sample, warp, d, fragments), cudaSuccess);
    for (int i = 0; i < 128; i++) {
        int lane = i / 4, row = (lane >> 2) + (i % 4 < 2 ? 0 : 8);
        double wanted = i;

        for (int k = 0; k < 16; k++)
            wanted += a[row][k] * b[k][(lane % 4) * 2 + (i & 1)];
        assert_true(fabs((double)d[i] - wanted) < 1e-5 * (1 + fabs(wanted)));
    }
}

static void test_mma_multiplies_matrices(void **state)
{
    (void)state;
    try_mma(SAMPLE_MMA_FP16, format_to_fp16, format_from_fp16);
    try_mma(SAMPLE_MMA_BF16, format_to_bf16, format_from_bf16);
}

static void test_matrices_are_loaded_by_rows_and_columns(void **state)
{
    uint16_t *from, *to;

    (void)state;
    start(&ampere);
    from = memory(32 * 16);
    to = memory(32 * 16);
    for (uint16_t i = 0; i < 256; i++)
        from[i] = i;
    for (int transposed = 0; transposed < 2; transposed++) {
        assert_int_equal(
            run(transposed ? SAMPLE_LOAD_TRANSPOSED : SAMPLE_LOAD, warp, to, from),
            cudaSuccess);
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 8; i++) {
                int row = lane / 4, col = 2 * (lane % 4) + i % 2;

                assert_int_equal(
                    to[lane * 8 + i],
                    from[i / 2 * 64 + (transposed ? col * 8 + row : row * 8 + col)]);
            }
    }
}

static void test_instructions_need_their_capability(void **state)
{
    static const struct emulation_device pascal = { "Emulated 6.1", 61, 1, 1 << 20 };
    static const struct emulation_device turing = { "Emulated 7.5", 75, 1, 1 << 20 };

    (void)state;
    start(&pascal);
    assert_int_equal(run(SAMPLE_MMA_FP16, warp, zeros(4096), zeros(4096)),
                     cudaErrorLaunchFailure);
    assert_non_null(
        strstr(emulation_failure(), "mma_fp16 requires compute capability 7.5"));
    start(&turing);
    assert_int_equal(run(SAMPLE_MMA_FP16, warp, zeros(4096), zeros(4096)), cudaSuccess);
    assert_int_equal(run(SAMPLE_MMA_BF16, warp, zeros(4096), zeros(4096)),
                     cudaErrorLaunchFailure);
}

/* A copy is visible after its wait, and not before. */
static void test_copies_complete_only_at_the_wait(void **state)
{
    float *a, *b;

    (void)state;
    start(&ampere);
    a = memory(4096);
    b = memory(4096);
    for (int i = 0; i < 128; i++)
        b[i] = (float)i;
    assert_int_equal(run(SAMPLE_COPIES, warp, a, b), cudaSuccess);
    for (int i = 0; i < 32; i++) {
        assert_true(a[i] == (float)(4 * i + 1));
        assert_true(a[32 + i] == (float)(i < 16 ? 4 * i + 1 : 0));
    }
    if (samples_checked()) {
        assert_detected(SAMPLE_COPIES_UNWAITED, warp, "which is uninitialized");
        return;
    }
    assert_int_equal(run(SAMPLE_COPIES_UNWAITED, warp, a, b), cudaSuccess);
    for (int i = 0; i < 32; i++) {
        assert_true(a[i] == (float)(4 * i + 1));
        assert_true(isnan(a[32 + i]));
    }
}

static void test_blocks_are_independent(void **state)
{
    static const struct sample_size size = { 7, 1, 96, 128 };
    float *a, *b;
    int *counts;

    (void)state;
    start(&ampere);
    a = memory(4096);
    b = memory(4096);
    counts = memory(8);
    counts[0] = counts[1] = 0;
    for (int i = 0; i < 7 * 96; i++)
        b[i] = (float)i;
    assert_int_equal(run(SAMPLE_SUM, size, a, b), cudaSuccess);
    for (int i = 0; i < 7; i++)
        assert_true(a[i] == (float)(96 * 96 * i + 95 * 48));
    assert_int_equal(run(SAMPLE_ATOMIC, size, counts, NULL), cudaSuccess);
    assert_int_equal(counts[0], 7 * 96);
    assert_int_equal(counts[1], 7 * 96 - 1);
}

static void test_the_seed_determines_the_order(void **state)
{
    static const struct sample_size size = { 5, 1, 64, 0 };
    int *orders[3];

    (void)state;
    start(&ampere);
    for (int i = 0; i < 3; i++) {
        orders[i] = memory((1 + 5 * 64) * sizeof(int));
        orders[i][0] = 0;
        emulation_seed(i < 2 ? 77 : 78);
        assert_int_equal(sample_launch(SAMPLE_ORDER, size, NULL, orders[i], NULL),
                         cudaSuccess);
    }
    assert_memory_equal(orders[0], orders[1], (1 + 5 * 64) * sizeof(int));
    assert_memory_not_equal(orders[0], orders[2], (1 + 5 * 64) * sizeof(int));
}

static void test_diverging_threads_are_detected(void **state)
{
    (void)state;
    assert_detected(SAMPLE_LEAVES_BEFORE_BARRIER, block, "exit");
    assert_detected(SAMPLE_TWO_BARRIERS, block, "different barriers");
    assert_detected(SAMPLE_LANE_HAS_LEFT, block, "waits for lane 9 of its warp");
    assert_detected(SAMPLE_TWO_COLLECTIVES, warp, "but lane");
    assert_detected(SAMPLE_SOURCE_NOT_IN_MASK, warp, "which is not in it");
}

static void test_impossible_launch_sizes_are_refused(void **state)
{
    static const struct {
        struct sample_size size;
        cudaError_t status;
    } cases[] = {
        { { 1, 1, 1024, 0 }, cudaSuccess },
        { { 1, 1, 1025, 0 }, cudaErrorInvalidConfiguration },
        { { 1, 1, 0, 0 }, cudaErrorInvalidConfiguration },
        { { 0, 1, 32, 0 }, cudaErrorInvalidConfiguration },
        { { 1, 65535, 1, 0 }, cudaSuccess },
        { { 1, 65536, 1, 0 }, cudaErrorInvalidConfiguration },
        { { 1, 1, 32, 163 << 10 }, cudaSuccess },
        { { 1, 1, 32, (163 << 10) + 1 }, cudaErrorInvalidValue },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        start(&ampere);
        assert_int_equal(
            sample_launch(SAMPLE_BLOCKS_READ_RACE, cases[i].size, NULL, memory(16), NULL),
            cases[i].status);
    }
}

/* Under AddressSanitizer the process ends, else the launch fails. */
static void assert_crashes(enum sample sample, const char *word)
{
#if defined(__SANITIZE_ADDRESS__)
    int status;
    pid_t child = samples_checked() ? 0 : fork();

    if (child == 0 && !samples_checked()) {
        fclose(stderr);
        close(2);
        start(&ampere);
        _exit(run(sample, (struct sample_size) { 1, 1, 32, 128 }, memory(4096),
                  memory(4096)) == cudaSuccess
                  ? 0
                  : 2);
    }
    if (child > 0) {
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_not_equal(status, 0);
        return;
    }
#endif
    assert_detected(sample, (struct sample_size) { 1, 1, 32, 128 }, word);
}

static void test_shared_memory_is_limited_to_the_declared_size(void **state)
{
    (void)state;
    assert_crashes(SAMPLE_SHARED_OVERRUN, "shared memory");
    if (samples_checked())
        assert_crashes(SAMPLE_SHARED_OVERREAD, "reads byte 128 of shared memory");
}

static void test_memory_begins_as_nan(void **state)
{
    float *a;

    (void)state;
    start(&ampere);
    a = memory(4096);
    for (int i = 0; i < 1024; i++)
        assert_true(isnan(a[i]));
    if (samples_checked())
        return;
    for (int i = 0; i < 32; i++)
        a[i] = 0;
    assert_int_equal(run(SAMPLE_READS_SHARED_UNWRITTEN, warp, a, NULL), cudaSuccess);
    for (int i = 0; i < 32; i++)
        assert_true(isnan(a[i]));
}

static void test_reads_of_uninitialized_memory_are_detected(void **state)
{
    static const char word[] = "which is uninitialized";

    (void)state;
    if (!samples_checked())
        skip();
    assert_detected(SAMPLE_READS_SHARED_UNWRITTEN, warp, word);
    assert_detected(SAMPLE_READS_UNWRITTEN_HALF, warp, word);
    assert_detected(SAMPLE_READS_UNWRITTEN_ROW, warp, word);
    assert_detected_in(SAMPLE_READS_UNWRITTEN_AND_LOST, warp, memory, word);
    assert_detected_in(SAMPLE_READS_UNWRITTEN_INDEX, warp, memory, word);
    assert_detected_in(SAMPLE_READS_UNWRITTEN_BYTE, warp, memory, word);
    assert_detected_in(SAMPLE_READS_UNWRITTEN_COUNT, warp, memory, word);
    assert_detected_in(SAMPLE_COPIES, warp, memory, word);
    assert_detected_in(SAMPLE_ADD_ONE, warp, memory, word);
    passes(SAMPLE_READS_UNWRITTEN_AND_LOST, warp);
    passes(SAMPLE_READS_UNWRITTEN_BYTE, warp);
}

/* A thread's own variables are not tracked, but no result can depend on their initial
 * value. */
static void test_variables_start_as_garbage(void **state)
{
    float *a;

    (void)state;
    start(&ampere);
    a = zeros(4096);
    if (!samples_checked() || !samples_filled())
        skip();
    assert_int_equal(run(SAMPLE_READS_VARIABLE_UNWRITTEN, warp, a, a), cudaSuccess);
    for (int i = 0; i < 32; i++)
        assert_true(isnan(a[i]) || fabsf(a[i]) > 1e38f);
}

static void test_races_are_detected(void **state)
{
    static const struct sample_size blocks = { 3, 1, 32, 0 };

    (void)state;
    if (!samples_checked())
        skip();
    assert_detected(SAMPLE_NEIGHBOR_RACE, block, "race");
    assert_detected(SAMPLE_WARP_NEIGHBOR_RACE, block, "race");
    assert_detected(SAMPLE_SHUFFLE_IS_NO_BARRIER, block, "race");
    assert_detected(SAMPLE_READ_THEN_WRITE_RACE, block, "race");
    assert_detected(SAMPLE_BLOCKS_RACE, blocks, "race");
    assert_detected(SAMPLE_BLOCKS_READ_RACE, blocks, "race");
    assert_detected(SAMPLE_ATOMIC_RACE, block, "race");
    assert_detected(SAMPLE_MISALIGNED, (struct sample_size) { 1, 1, 1, 0 }, "misaligned");
}

static void test_ordered_accesses_are_not_races(void **state)
{
    static const struct sample_size blocks = { 3, 1, 32, 4096 };

    (void)state;
    passes(SAMPLE_NEIGHBOR, block);
    passes(SAMPLE_WARP_NEIGHBOR, block);
    passes(SAMPLE_BYTES, blocks);
    passes(SAMPLE_ATOMIC, blocks);
    passes(SAMPLE_SUM, blocks);
    passes(SAMPLE_ADD_ONE, blocks);
    passes(SAMPLE_COPIES, warp);
    passes(SAMPLE_LOAD, warp);
}

/* A launch does not complete before it is waited for; a later one sees the results of an
 * earlier one. */
static void test_streams_are_asynchronous(void **state)
{
    cudaStream_t first, second;
    cudaEvent_t event;
    float *a, *out;

    (void)state;
    start(&ampere);
    a = memory(128);
    assert_int_equal(cudaMallocHost((void **)&out, 128), cudaSuccess);
    memset(a, 0, 128);
    out[0] = -1;
    cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    assert_int_equal(sample_launch(SAMPLE_ADD_ONE, warp, first, a, NULL), cudaSuccess);
    assert_int_equal(cudaEventRecord(event, first), cudaSuccess);
    assert_int_equal(sample_launch(SAMPLE_ADD_ONE, warp, first, a, NULL), cudaSuccess);
    assert_int_equal(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
    assert_int_equal(cudaMemcpyAsync(out, a, 128, cudaMemcpyDeviceToHost, second),
                     cudaSuccess);
    assert_true(a[0] == 0 && out[0] == -1);
    assert_int_equal(cudaStreamSynchronize(second), cudaSuccess);
    assert_true(out[31] == 1);
    assert_int_equal(cudaStreamSynchronize(first), cudaSuccess);
    assert_true(a[31] == 2);
    cudaFreeHost(out);
    cudaEventDestroy(event);
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
}

static void test_graphs_can_be_replayed(void **state)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float *a;

    (void)state;
    start(&ampere);
    a = memory(128);
    memset(a, 0, 128);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
                     cudaSuccess);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sample_launch(SAMPLE_ADD_ONE, warp, stream, a, NULL),
                         cudaSuccess);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    assert_true(a[0] == 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(cudaGraphLaunch(exec, stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    assert_true(a[0] == 12 && a[31] == 12);
    cudaGraphExecDestroy(exec);
    /* waiting while something is captured invalidates the capture */
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
                     cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(stream, &graph),
                     cudaErrorStreamCaptureInvalidated);
    cudaStreamDestroy(stream);
}

static void test_errors_are_reported(void **state)
{
    float *a, host[4] = { 0 };
    void *b;

    (void)state;
    start(&ampere);
    a = memory(1 << 19);
    assert_int_equal(cudaMalloc(&b, (1 << 19) + 1), cudaErrorMemoryAllocation);
    assert_int_equal(cudaMalloc(&b, 1 << 19), cudaSuccess);
    assert_int_equal(emulation_bytes_held(), 1 << 20);
    assert_int_equal(cudaMemcpy(host, a, 16, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(host, a + (1 << 17) - 2, 16, cudaMemcpyDeviceToHost),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(a, host, 16, cudaMemcpyHostToDevice), cudaSuccess);
    emulation_break_launch(1, cudaErrorLaunchOutOfResources);
    assert_int_equal(run(SAMPLE_ADD_ONE, (struct sample_size) { 1, 1, 4, 0 }, a, b),
                     cudaSuccess);
    assert_int_equal(run(SAMPLE_ADD_ONE, (struct sample_size) { 1, 1, 4, 0 }, a, b),
                     cudaErrorLaunchOutOfResources);
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchOutOfResources);
    assert_int_equal(run(SAMPLE_ADD_ONE, (struct sample_size) { 1, 1, 4, 0 }, a, b),
                     cudaSuccess);
    assert_int_equal(emulation_kernels_run(), 2);
    assert_true(a[3] == 2);
    assert_int_equal(cudaFree(host), cudaErrorInvalidValue);
    assert_int_equal(cudaFree(b), cudaSuccess);
}

/* Except for NaNs, for which the hardware produces a single pattern. */
static void test_16_bit_conversions_match_precision_format(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1 << 16; i++) {
        uint16_t bits = (uint16_t)i;
        float wide[4] = { format_from_fp16(bits), format_from_bf16(bits),
                          sample_from_fp16(bits), sample_from_bf16(bits) };

        if (isnan(wide[0]))
            memcpy(&wide[0], &(uint32_t) { 0x7fffffff }, sizeof(float));
        assert_memory_equal(&wide[0], &wide[2], sizeof(float));
        assert_memory_equal(&wide[1], &wide[3], sizeof(float));
    }
    for (uint64_t i = 0; i < 0x100000000u; i += i % 3 ? 997 : 4099) {
        uint32_t bits = (uint32_t)i;
        float x;

        memcpy(&x, &bits, sizeof(x));
        if (isnan(x)) {
            assert_int_equal(sample_to_fp16(x), 0x7fff);
            assert_int_equal(sample_to_bf16(x), 0x7fff);
            continue;
        }
        if (format_to_fp16(x) != sample_to_fp16(x) ||
            format_to_bf16(x) != sample_to_bf16(x))
            fail_msg("%a becomes %04x and %04x", (double)x, sample_to_fp16(x),
                     sample_to_bf16(x));
    }
}

static int end(void **state)
{
    (void)state;
    emulation_reset(NULL, 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shuffles_move_lanes),
        cmocka_unit_test(test_votes_include_all_lanes),
        cmocka_unit_test(test_mma_multiplies_matrices),
        cmocka_unit_test(test_matrices_are_loaded_by_rows_and_columns),
        cmocka_unit_test(test_instructions_need_their_capability),
        cmocka_unit_test(test_copies_complete_only_at_the_wait),
        cmocka_unit_test(test_blocks_are_independent),
        cmocka_unit_test(test_the_seed_determines_the_order),
        cmocka_unit_test(test_diverging_threads_are_detected),
        cmocka_unit_test(test_impossible_launch_sizes_are_refused),
        cmocka_unit_test(test_shared_memory_is_limited_to_the_declared_size),
        cmocka_unit_test(test_memory_begins_as_nan),
        cmocka_unit_test(test_reads_of_uninitialized_memory_are_detected),
        cmocka_unit_test(test_variables_start_as_garbage),
        cmocka_unit_test(test_races_are_detected),
        cmocka_unit_test(test_ordered_accesses_are_not_races),
        cmocka_unit_test(test_streams_are_asynchronous),
        cmocka_unit_test(test_graphs_can_be_replayed),
        cmocka_unit_test(test_errors_are_reported),
        cmocka_unit_test(test_16_bit_conversions_match_precision_format),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
