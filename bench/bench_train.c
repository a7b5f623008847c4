/*
 * bench/bench_train.c - measures a training step of real shapes: time, tokens, memory,
 * and the share of the rate at which this machine multiplies matrices.
 *
 * Weights and tokens are random; every token has a target. Each row runs in its own
 * process, so that the peak of memory is its own; on a GPU it is the memory allocated
 * there. First: from opening the device to the end of step 1, without initializing
 * weights; then its parts: finding the device (the driver's start), opening it (context
 * and libraries), creating the model (memory), and step 1 (code, plans, uploads). Planned:
 * the memory in the plan, on a CPU the block alone. In matmuls: the share of the time of
 * the steps, on a CPU. Loss of step 4: with all its bits, to compare two runs. A step ends
 * with its loss on the host; overlapped: each is queued before the previous one has ended,
 * as in a run on a GPU. Host: the share of a core that the process uses meanwhile, and
 * that it used before.
 *
 *     bench_train [cuda] [tuned] [profile] [checkpointed] [MODEL full|lora fp32|bf16|fp8]
 *     bench_train [cuda] [tuned] [profile] [checkpointed] shape LAYERS WIDTH HEADS INNER
 *                            VOCABULARY SEQUENCES LENGTH full|lora fp32|bf16|fp8
 *
 * The second form is a Llama of any shape, its head tied to the embedding, with fewer
 * steps. GPT-2-dropping has the dropouts that GPT-2 was published with; GPT-2 has none,
 * like llm.c. Checkpointed: only the input of each block is kept, the rest is recomputed.
 * Profile: the time of each operation instead (profile.h). Tuned: each row four times:
 * with the first algorithm that the library proposes for each matmul, then twice with the
 * fastest, timed and then read from a file, which is removed; and with the first again.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "bench/model_steps.h"
#include "bench/profile.h"
#include "bench/rate.h"
#include "bench/stopwatch.h"
#include "bench/target.h"

#define GPT2_124M(drops)                                                           \
    "{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12," \
    " \"n_positions\": 1024, \"vocab_size\": 50257, \"layer_norm_epsilon\": 1e-5," \
    " \"activation_function\": \"gelu_new\", \"embd_pdrop\": " drops               \
    ", \"resid_pdrop\": " drops ", \"attn_pdrop\": " drops "}"
#define STORIES_15M                                                                      \
    "{\"model_type\": \"llama\", \"hidden_size\": 288, \"intermediate_size\": 768,"      \
    " \"num_hidden_layers\": 6, \"num_attention_heads\": 6, \"num_key_value_heads\": 6," \
    " \"vocab_size\": 32000, \"max_position_embeddings\": 256, \"rms_norm_eps\": 1e-5,"  \
    " \"tie_word_embeddings\": true, \"hidden_act\": \"silu\"}"
#define SMOLLM2_135M                                                                 \
    "{\"model_type\": \"llama\", \"hidden_size\": 576, \"intermediate_size\": 1536," \
    " \"num_hidden_layers\": 30, \"num_attention_heads\": 9,"                        \
    " \"num_key_value_heads\": 3, \"vocab_size\": 49152, \"rms_norm_eps\": 1e-5,"    \
    " \"max_position_embeddings\": 8192, \"rope_theta\": 100000,"                    \
    " \"tie_word_embeddings\": true, \"hidden_act\": \"silu\"}"
#define LLAMA_1B                                                                      \
    "{\"model_type\": \"llama\", \"hidden_size\": 2048, \"intermediate_size\": 8192," \
    " \"num_hidden_layers\": 16, \"num_attention_heads\": 32, \"head_dim\": 64,"      \
    " \"num_key_value_heads\": 8, \"vocab_size\": 128256, \"rms_norm_eps\": 1e-5,"    \
    " \"max_position_embeddings\": 131072, \"rope_theta\": 500000,"                   \
    " \"tie_word_embeddings\": true, \"hidden_act\": \"silu\"}"

static const struct bench_model cpu_models[] = {
    { "GPT-2", GPT2_124M("0"), 4, 64 },
    { "GPT-2-dropping", GPT2_124M("0.1"), 4, 64 },
    { "stories15M", STORIES_15M, 8, 256 },
    { "SmolLM2-135M", SMOLLM2_135M, 2, 256 },
};
static const struct bench_model gpu_models[] = {
    { "GPT-2", GPT2_124M("0"), 16, 1024 },
    { "GPT-2-dropping", GPT2_124M("0.1"), 16, 1024 },
    { "stories15M", STORIES_15M, 64, 256 },
    { "SmolLM2-135M", SMOLLM2_135M, 8, 2048 },
    { "Llama-1B", LLAMA_1B, 4, 2048 },
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

enum { FIRST_DEVICE, FIRST_BACKEND, FIRST_MODEL, FIRST_STEP, FIRST_PARTS };

/* Open everything and run step 1; seconds: of each part. */
static void run_first(struct bench *bench, double seconds[FIRST_PARTS])
{
    double start = clock_seconds(), filling;

    bench->plan = model_steps_plan(&bench->row);
    seconds[FIRST_DEVICE] = clock_seconds() - start;
    start = clock_seconds();
    bench->be = model_steps_backend(bench);
    seconds[FIRST_BACKEND] = clock_seconds() - start;
    start = clock_seconds();
    filling = model_steps_open(bench);
    seconds[FIRST_MODEL] = clock_seconds() - start - filling;
    seconds[FIRST_STEP] = model_steps_run(bench, 1);
}

/* Return the seconds of the host's processors that this process has used. */
static double host_seconds(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

/* Run steps that are queued before the previous ones have ended: write their median and
 * the share of a core that the host uses meanwhile, as two columns. */
static void overlap_text(struct bench *bench, int64_t number, char out[32])
{
    enum { COUNT = 14 };
    double seconds[COUNT], from = clock_seconds(), busy = host_seconds();

    snprintf(out, 32, "- | -");
    if (!bench->be->ops->fence)
        return;
    model_steps_overlap(bench, number, seconds, COUNT);
    busy = (host_seconds() - busy) / (clock_seconds() - from);
    qsort(seconds, COUNT, sizeof(*seconds), compare);
    snprintf(out, 32, "%.2f | %.1f", 1e3 * seconds[COUNT / 2], 100 * busy);
}

/* Run one row and print it. */
static void run(const struct bench_row *row)
{
    enum { MOST = 15 };
    double seconds[MOST], total = 0, memory, rate, loss = 0;
    struct stopwatch matmuls = { .seconds = 0 };
    char share[16] = "-", overlapped[32];
    struct bench bench = { .row = *row };
    double first[FIRST_PARTS], busy;
    int count = 0;

    run_first(&bench, first);
    busy = host_seconds();
    stopwatch_start(&matmuls, bench.be);
    while (count < MOST && (count < 3 || total < row->seconds)) {
        seconds[count] = model_steps_run(&bench, count + 2);
        total += seconds[count++];
        if (count == 3)
            loss = bench.loss;
    }
    busy = (host_seconds() - busy) / total;
    stopwatch_stop(&matmuls, bench.be);
    overlap_text(&bench, count + 2, overlapped);
    if (!row->gpu)
        snprintf(share, sizeof(share), "%.0f %%", 100 * matmuls.seconds / total);
    qsort(seconds, (size_t)count, sizeof(*seconds), compare);
    memory = model_steps_memory(&bench);
    rate = rate_reference(bench.be, row->format, row->seconds / 6);
    printf("| %s, B%zu T%zu | %s%s%s | %s | %.1f | %.1f | %.0f | %.0f | %.0f | %.0f %% | "
           "%.2f | %.1f | %.2f | %s | %a | %.2f, %.2f, %.2f, %.2f | %s, %.1f |\n",
           row->model->name, row->model->sequences, row->model->length,
           row->method == METHOD_LORA ? "LoRA r=16" : "full",
           row->checkpointed ? ", checkpointed" : "", row->choices_dir ? ", tuned" : "",
           model_steps_format(row), 1e3 * seconds[count / 2], 1e3 * seconds[0],
           (double)bench.batch.rows / seconds[count / 2], memory, rate,
           100 * model_steps_flops(&bench) / seconds[count / 2] / (rate * 1e9),
           first[FIRST_DEVICE] + first[FIRST_BACKEND] + first[FIRST_MODEL] +
               first[FIRST_STEP],
           model_steps_planned(&bench), model_steps_flops(&bench) / 1e9, share, loss,
           first[FIRST_DEVICE], first[FIRST_BACKEND], first[FIRST_MODEL],
           first[FIRST_STEP], overlapped, 100 * busy);
    fflush(stdout);
    model_steps_close(&bench);
    backend_close(bench.be);
}

/* Print the operations of a step. */
static void run_profile(const struct bench_row *row)
{
    enum { STEPS = 3 };
    struct bench bench = { .row = *row, .plan = model_steps_plan(row) };
    struct profile profile;

    setenv("TRAINSPOOL_NO_GRAPHS", "1", 1);
    bench.be = model_steps_backend(&bench);
    model_steps_open(&bench);
    model_steps_run(&bench, 1);
    profile_start(&profile, bench.be);
    for (int i = 0; i < STEPS; i++)
        model_steps_run(&bench, i + 2);
    profile_stop(&profile, bench.be);
    printf("\n%s, B%zu T%zu, %s, %s\n\n", row->model->name, row->model->sequences,
           row->model->length, row->method == METHOD_LORA ? "LoRA r=16" : "full",
           model_steps_format(row));
    profile_print(&profile, STEPS);
    fflush(stdout);
    model_steps_close(&bench);
    backend_close(bench.be);
}

static void run_apart(const struct bench_row *row)
{
    pid_t child = fork();
    int status = 1;

    if (child == 0) {
        if (row->profile)
            run_profile(row);
        else
            run(row);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "bench: cannot run %s\n", row->model->name);
        exit(1);
    }
}

/* The row without a folder, twice with a new one, and once more without. */
static void run_tuned(struct bench_row row)
{
    const char *parent = getenv("TMPDIR");
    struct error err = { 0 };
    struct text dir;

    text_init(&dir, 0);
    text_addf(&dir, "%s/bench-choices-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(dir.data))
        target_stop("cannot make a folder for the choices");
    for (int i = 0; i < 4; i++) {
        row.choices_dir = i == 1 || i == 2 ? dir.data : NULL;
        run_apart(&row);
    }
    if (!file_remove_tree(dir.data, &err))
        target_stop(err.text);
    text_clear(&dir);
}

static const enum method methods[] = { METHOD_FULL, METHOD_LORA };
static const char *const method_names[] = { "full", "lora" };
static const struct {
    enum format format;
    bool fp8; /* only if it is named */
} formats[] = {
    { FORMAT_FP32, false },
    { FORMAT_BF16, false },
    { FORMAT_BF16, true },
};

/* Return whether the two words select the row. */
static bool is_selected(const struct bench_row *row, char *const words[2])
{
    return strcmp(words[0], method_names[row->method == METHOD_LORA]) == 0 &&
           strcmp(words[1], model_steps_format(row)) == 0;
}

static void usage(void)
{
    fprintf(
        stderr,
        "usage: bench_train [cuda] [tuned] [profile] [checkpointed] [MODEL full|lora "
        "fp32|bf16|fp8]\n"
        "       bench_train [cuda] [tuned] [profile] [checkpointed] shape LAYERS WIDTH "
        "HEADS INNER VOCABULARY SEQUENCES LENGTH full|lora fp32|bf16|fp8\n");
    exit(2);
}

static size_t size_of_word(const char *word)
{
    char *end;
    unsigned long value = strtoul(word, &end, 10);

    if (word[0] < '1' || word[0] > '9' || *end || value > INT32_MAX)
        usage();
    return value;
}

/* Arguments of a shape, in this order. */
enum {
    SHAPE_LAYERS,
    SHAPE_WIDTH,
    SHAPE_HEADS,
    SHAPE_INNER,
    SHAPE_VOCABULARY,
    SHAPE_SEQUENCES,
    SHAPE_LENGTH,
    SHAPE_WORDS
};

static struct bench_model model_of_words(char *const words[SHAPE_WORDS],
                                         struct arena *arena)
{
    size_t size[SHAPE_WORDS];

    for (size_t i = 0; i < SHAPE_WORDS; i++)
        size[i] = size_of_word(words[i]);
    return (struct bench_model) {
        .name = arena_printf(arena, "L%zu C%zu H%zu I%zu V%zu", size[SHAPE_LAYERS],
                             size[SHAPE_WIDTH], size[SHAPE_HEADS], size[SHAPE_INNER],
                             size[SHAPE_VOCABULARY]),
        .config =
            arena_printf(arena,
                         "{\"model_type\": \"llama\", \"num_hidden_layers\": %zu, "
                         "\"hidden_size\": %zu, \"num_attention_heads\": %zu, "
                         "\"intermediate_size\": %zu, \"vocab_size\": %zu, "
                         "\"max_position_embeddings\": %zu, \"rms_norm_eps\": 1e-5, "
                         "\"tie_word_embeddings\": true, \"hidden_act\": \"silu\"}",
                         size[SHAPE_LAYERS], size[SHAPE_WIDTH], size[SHAPE_HEADS],
                         size[SHAPE_INNER], size[SHAPE_VOCABULARY], size[SHAPE_LENGTH]),
        .sequences = size[SHAPE_SEQUENCES],
        .length = size[SHAPE_LENGTH],
    };
}

/* Run each method and format of a model, the rest as in `like`; words: the two that are
 * selected, or NULL. */
static int run_rows(const struct bench_row *like, char *const words[2])
{
    struct bench_row row = *like;
    int count = 0;

    for (size_t m = 0; m < TS_COUNT(methods); m++)
        for (size_t f = 0; f < TS_COUNT(formats); f++) {
            row.method = methods[m];
            row.format = formats[f].format;
            row.fp8 = formats[f].fp8;
            if (words == NULL ? !row.fp8 : is_selected(&row, words)) {
                if (row.tuned)
                    run_tuned(row);
                else
                    run_apart(&row);
                count++;
            }
        }
    return count;
}

static int run_models(struct bench_row *row, int words, char *const *arguments)
{
    const struct bench_model *models = row->gpu ? gpu_models : cpu_models;
    size_t count = row->gpu ? TS_COUNT(gpu_models) : TS_COUNT(cpu_models);
    int rows = 0;

    row->seconds = 6;
    for (size_t i = 0; i < count; i++) {
        row->model = &models[i];
        if (words == 0 || strcmp(arguments[0], models[i].name) == 0)
            rows += run_rows(row, words == 0 ? NULL : arguments + 1);
    }
    return rows;
}

static int run_shape(struct bench_row *row, char *const *words)
{
    struct arena *arena = arena_new();
    struct bench_model model = model_of_words(words, arena);
    int rows;

    row->seconds = 0.6;
    row->model = &model;
    rows = run_rows(row, words + SHAPE_WORDS);
    arena_free(arena);
    return rows;
}

/* argument: an element of argv; NULL after the last. */
static bool is_word(const char *argument, const char *word)
{
    return argument && strcmp(argument, word) == 0;
}

static void print_header(void)
{
    printf(
        "| model | method | format | ms per step | best | tokens/s | peak MiB | matmul "
        "rate, GFLOP/s | share of that rate | first, s | planned MiB | GFLOP per step | "
        "time in matmuls | loss of step 4 | first: device, backend, model, step | "
        "overlapped, ms | host, %% of a core: then, before |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct bench_row row = { .gpu = is_word(argv[1], "cuda") };
    char **arguments = argv + 1 + row.gpu;
    int words, rows;
    bool shape;

    row.tuned = is_word(*arguments, "tuned");
    arguments += row.tuned;
    row.profile = is_word(*arguments, "profile");
    arguments += row.profile;
    row.checkpointed = is_word(*arguments, "checkpointed");
    arguments += row.checkpointed;
    words = argc - (int)(arguments - argv);
    shape = words == 1 + SHAPE_WORDS + 2 && strcmp(arguments[0], "shape") == 0;
    if (words != 0 && words != 3 && !shape)
        usage();
    if (!row.profile)
        print_header();
    rows = shape ? run_shape(&row, arguments + 1) : run_models(&row, words, arguments);
    if (rows == 0)
        usage();
    return 0;
}
