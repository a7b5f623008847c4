/* tests/unit/test_cuda_tuning.c - the fastest algorithm is used, and used again. */
#include "config.h"

#include "kernels/cuda/cuda_tuning.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/unit/unit_cuda.h"

enum { ROWS = 8, COLS = 16, DEPTH = 320 };

static const double third[] = { 9, 8, 4, 5 }, fourth[] = { 9, 8, 5, 4 },
                    first[] = { 9, 8.9, 9, 9.5 };

/* A card whose matmuls by the algorithms take these times. */
struct bench {
    struct backend *be;
    struct op_matmul op;
    struct tensor out;
};

static struct bench bench_open(const char *dir, const double *times, struct log *log)
{
    static const struct emulation_device card = { "Emulated", 90, 4, (size_t)1 << 30 };
    struct device gpu = { .kind = DEVICE_CUDA, .name = "Emulated" };
    struct backend_options options = { .device = &gpu, .choices_dir = dir, .log = log };
    struct error err = { 0 };
    struct bench b = { .be = NULL };

    emulation_reset(&card, 1);
    emulation_offer_variants(times, times ? 4 : 0);
    b.be = backend_cuda.open(&options, &err);
    if (!b.be)
        fail_msg("%s", err.text);
    b.out = unit_cuda_matrix(b.be, FORMAT_FP32, ROWS, COLS, COLS, 1);
    b.op = (struct op_matmul) {
        .out = b.out,
        .a = unit_cuda_matrix(b.be, FORMAT_FP32, ROWS, DEPTH, DEPTH, 2),
        .b = unit_cuda_matrix(b.be, FORMAT_FP32, DEPTH, COLS, COLS, 3),
        .alpha = 1
    };
    return b;
}

static void bench_close(struct bench *b)
{
    backend_close(b->be);
    assert_int_equal(emulation_bytes_held(), 0);
    emulation_offer_variants(NULL, 0);
}

static float *result_of(struct bench *b)
{
    b->be->ops->matmul(b->be, &b->op);
    return unit_cuda_read(b->be, b->out);
}

/* The result if it is chosen among algorithms with these times; malloc'ed. */
static float *compute(const char *dir, const double *times, size_t *timings)
{
    struct bench b = bench_open(dir, times, NULL);
    size_t before = emulation_timings();
    float *out = result_of(&b);

    if (timings)
        *timings = emulation_timings() - before;
    bench_close(&b);
    return out;
}

static bool same(const float *a, const float *b)
{
    return memcmp(a, b, ROWS * COLS * sizeof(float)) == 0;
}

static bool computes(const char *dir, const double *times, const float *expected)
{
    float *out = compute(dir, times, NULL);
    bool equal = same(out, expected);

    free(out);
    return equal;
}

/* The results of the variants that the times name as the fastest, each in a fresh folder. */
static float *fresh(const double *times)
{
    char *dir = unit_dir_new();
    float *out = compute(dir, times, NULL);

    unit_dir_free(dir);
    return out;
}

/* The only file of the folder that ends so; malloc'ed. */
static char *file_ending(const char *dir, const char *ending)
{
    DIR *folder = opendir(dir);
    const struct dirent *entry;
    char *name = NULL;

    assert_non_null(folder);
    while ((entry = readdir(folder)))
        if (text_ends(entry->d_name, ending)) {
            assert_null(name);
            name = path_join(dir, entry->d_name);
        }
    closedir(folder);
    assert_non_null(name);
    return name;
}

static char *file_in(const char *dir)
{
    return file_ending(dir, ".txt");
}

static void test_cuda_tuning_uses_the_fastest(void **state)
{
    float *by_third = fresh(third), *by_fourth = fresh(fourth), *by_first = fresh(first);
    float *plain = compute(NULL, third, NULL);

    (void)state;
    assert_false(same(by_third, by_fourth));
    assert_false(same(by_third, plain));
    assert_true(same(by_first, plain)); /* the second is not clearly faster */
    free(by_third);
    free(by_fourth);
    free(by_first);
    free(plain);
}

static void test_cuda_tuning_times_once(void **state)
{
    char *dir = unit_dir_new(), *name;
    size_t timings;
    float *one = compute(dir, third, &timings), *two;

    (void)state;
    assert_true(timings > 0);
    two = compute(dir, fourth, &timings);
    assert_int_equal(timings, 0);
    assert_true(same(one, two));
    name = file_in(dir);
    assert_int_equal(unlink(name), 0);
    free(two);
    two = compute(dir, fourth, &timings);
    assert_true(timings > 0);
    assert_false(same(one, two));
    free(name);
    free(one);
    free(two);
    unit_dir_free(dir);
}

/* A matmul that adds to its result adds once; without memory for the other sums, it is not
 * timed. */
static void test_cuda_tuning_changes_no_data(void **state)
{
    float *sums[] = { fresh(third), compute(NULL, third, NULL) };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char *dir = unit_dir_new();
        struct bench b = bench_open(dir, third, NULL);
        size_t timings = emulation_timings(), available, all;
        float *before = unit_cuda_read(b.be, b.out), *after;

        assert_int_equal(cudaMemGetInfo(&available, &all), cudaSuccess);
        if (i == 1)
            unit_cuda_block(b.be, available - CUDA_RESERVE_BYTES);
        b.op.beta = 1;
        after = result_of(&b);
        assert_int_equal(emulation_timings() > timings, i == 0);
        for (size_t k = 0; k < ROWS * COLS; k++)
            assert_true(after[k] == sums[i][k] + before[k]);
        bench_close(&b);
        free(before);
        free(after);
        free(sums[i]);
        unit_dir_free(dir);
    }
}

static void write_file(const char *name, const char *data, size_t len)
{
    struct error err = { 0 };

    assert_true(file_replace(name, data, len, 0600, &err));
}

static void test_cuda_tuning_ignores_a_damaged_file(void **state)
{
    char *dir = unit_dir_new(), *name;
    float *by_third = compute(dir, third, NULL), *by_fourth = fresh(fourth);
    struct error err = { 0 };
    struct text text;

    (void)state;
    name = file_in(dir);
    text_init(&text, 0);
    assert_true(file_read(name, 1 << 20, &text, NULL, &err));
    for (size_t cut = 1; cut < text.len; cut += 7) {
        write_file(name, text.data, text.len - cut);
        /* all but the newline is needed */
        assert_true(computes(dir, fourth, cut == 1 ? by_third : by_fourth));
        assert_true(computes(dir, third, cut == 1 ? by_third : by_fourth));
    }
    write_file(name, "rubbish", 7);
    assert_true(computes(dir, third, by_third));
    assert_true(computes(dir, fourth, by_third));
    /* another line that is damaged does not matter */
    text_adds(&text, "rubbish");
    write_file(name, text.data, text.len);
    assert_true(computes(dir, fourth, by_third));
    text_clear(&text);
    free(name);
    free(by_third);
    free(by_fourth);
    unit_dir_free(dir);
}

/* Replace a file of the folder with a folder, which cannot be opened for writing. */
static void obstruct(const char *dir, const char *ending)
{
    char *name = file_ending(dir, ending);

    assert_int_equal(unlink(name), 0);
    assert_int_equal(mkdir(name, 0700), 0);
    free(name);
}

/* A file that cannot be locked is read. If a choice cannot be kept, the first proposal is
 * used: the next run must compute the same. */
static void test_cuda_tuning_keeps_what_it_uses(void **state)
{
    char *dir = unit_dir_new();
    float *by_third = compute(dir, third, NULL), *plain = compute(NULL, third, NULL);
    size_t timings;

    (void)state;
    assert_false(same(by_third, plain));
    obstruct(dir, ".lock");
    assert_true(computes(dir, fourth, by_third));
    obstruct(dir, ".txt");
    assert_true(computes(dir, fourth, plain));
    unit_dir_free(dir);
    dir = unit_dir_new();
    free(compute(dir, third, NULL));
    obstruct(dir, ".txt");
    free(compute(dir, fourth, &timings));
    assert_int_equal(timings, 0);
    assert_true(computes(dir, fourth, plain));
    unit_dir_free(dir);
    free(by_third);
    free(plain);
}

static void test_cuda_tuning_replays_choices(void **state)
{
    char *dir = unit_dir_new(), *other = unit_dir_new(), *text;
    struct bench b = bench_open(dir, third, NULL);
    float *one, *two;

    (void)state;
    assert_null(b.be->ops->choices(b.be));
    one = result_of(&b);
    text = b.be->ops->choices(b.be);
    assert_non_null(text);
    bench_close(&b);
    for (int i = 0; i < 3; i++) { /* a file with another choice; none; and no tuning */
        b = bench_open(i < 2 ? other : NULL, fourth, NULL);
        if (i == 0) {
            two = result_of(&b);
            assert_false(same(one, two));
            free(two);
        }
        b.be->ops->replay_choices(b.be, text, strlen(text));
        two = result_of(&b);
        assert_true(same(one, two));
        bench_close(&b);
        free(two);
        if (i == 0) {
            unit_dir_free(other);
            other = unit_dir_new();
        }
    }
    free(one);
    free(text);
    unit_dir_free(dir);
    unit_dir_free(other);
}

static void listen(void *context, enum log_level level, const char *message)
{
    (void)level;
    snprintf(context, 512, "%s", message);
}

static void test_cuda_tuning_replays_no_choices_of_another_card(void **state)
{
    static const char text[] = "trainspool matmuls 1, Another card\n";
    struct log *log = log_new(-1, LOG_INFO);
    char message[512] = "";
    struct bench b = bench_open(NULL, third, log);

    (void)state;
    log_listen(log, LOG_INFO, listen, message);
    b.be->ops->replay_choices(b.be, text, sizeof(text) - 1);
    assert_non_null(
        strstr(message, "they are of Another card, and this is Emulated, 9.0"));
    free(result_of(&b));
    bench_close(&b);
    log_free(log);
}

/* What is met under capture is not timed; nor what is known. */
static void test_cuda_tuning_does_not_time_a_capture(void **state)
{
    char *dir = unit_dir_new();
    float *plain = compute(NULL, third, NULL), *out;
    struct bench b = bench_open(dir, third, NULL);
    cudaStream_t stream = cuda_backend_of(b.be)->launch.stream;
    size_t before = emulation_matmuls_enqueued(), timed = emulation_timings();
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    (void)state;
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), 0);
    b.be->ops->matmul(b.be, &b.op);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), 0);
    assert_int_equal(emulation_matmuls_enqueued() - before, 1);
    assert_int_equal(emulation_timings(), timed);
    assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), 0);
    assert_int_equal(cudaGraphLaunch(exec, stream), 0);
    unit_cuda_sync(b.be);
    out = result_of(&b); /* it stays as it is */
    assert_true(same(out, plain));
    assert_int_equal(emulation_timings(), timed);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    bench_close(&b);
    free(out);
    free(plain);
    unit_dir_free(dir);
}

/* Nothing is timed that is small, without a folder, or if it is disabled. */
static void test_cuda_tuning_can_be_disabled(void **state)
{
    char *dir = unit_dir_new();
    size_t timings;

    (void)state;
    free(compute(NULL, third, &timings));
    assert_int_equal(timings, 0);
    free(compute("/proc/no-such-folder", third, &timings));
    assert_int_equal(timings, 0);
    setenv("TRAINSPOOL_TUNE_MATMULS", "0", 1);
    free(compute(dir, third, &timings));
    assert_int_equal(timings, 0);
    unsetenv("TRAINSPOOL_TUNE_MATMULS");
    free(compute(dir, third, &timings));
    assert_int_equal(timings, 0);
    setenv("TRAINSPOOL_TUNE_MATMULS", "all", 1);
    free(compute(dir, third, &timings));
    assert_true(timings > 0);
    unit_dir_free(dir);
}

static int setup(void **state)
{
    (void)state;
    return setenv("TRAINSPOOL_TUNE_MATMULS", "all", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_tuning_uses_the_fastest),
        cmocka_unit_test(test_cuda_tuning_times_once),
        cmocka_unit_test(test_cuda_tuning_changes_no_data),
        cmocka_unit_test(test_cuda_tuning_ignores_a_damaged_file),
        cmocka_unit_test(test_cuda_tuning_keeps_what_it_uses),
        cmocka_unit_test(test_cuda_tuning_replays_choices),
        cmocka_unit_test(test_cuda_tuning_replays_no_choices_of_another_card),
        cmocka_unit_test(test_cuda_tuning_does_not_time_a_capture),
        cmocka_unit_test(test_cuda_tuning_can_be_disabled),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
