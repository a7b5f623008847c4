/*
 * bench/bench_check.c - measures `trainspool check` on one core: a thousand jobs in one
 * call, one job per call, and the memory of each.
 *
 *     bench_check BUILD-DIR SOURCE-DIR
 *
 * There are five kinds of jobs, some with mistakes, with an existing and with a missing
 * model, and with some comments, like jobs written by hand.
 */
#include "config.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "base/text.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 1000, CALLS = 50 };

static const char *const kinds[] = {
    "stage: sft\nfinetuning_type: lora   # adapters\nlora_rank: 16\nlora_target: all\n"
    "bf16: true\nlearning_rate: 1.0e-4\n",
    "stage: sft\nfinetuning_type: full\nfp16: true\nmodel_dtype: float16  # half\n"
    "max_grad_norm:\nlearning_rate: 2e-5\n",
    "stage: pt\n"
    "finetuning_type: full\n"
    "per_device_train_batch_size: 64\n"
    "learning_rate: 1e-3\n",
    "stage: sft\nfinetuning_type: lora\nlora_rnk: 8\nLogging_steps: 10\nfp16: true\n"
    "bf16: true\nevaluation_strategy: no\n",
    "stage: sft\n"
    "finetuning_type: full\n"
    "bf16: true\n"
    "flash_attn: auto\n"
    "lr_scheduler_type: cosine\n"
    "warmup_ratio: 0.1\n"
    "ddp_timeout: 180000000\n",
};

static void check(bool ok, const struct error *err)
{
    if (!ok) {
        fprintf(stderr, "bench_check: %s\n", err->text);
        exit(1);
    }
}

static char *write_job(const char *dir, const char *source, int number)
{
    struct text job, name;
    struct error err = { 0 };
    char *path;

    text_init(&job, 0);
    text_init(&name, 0);
    text_addf(&name, "%s/job-%04d.yaml", dir, number);
    text_addf(&job,
              "### model\nmodel_name_or_path: %s\n\n### method\n%s\n### data\n"
              "dataset: text.txt\ncutoff_len: 512\nmax_samples: 1000\n"
              "preprocessing_num_workers: 16\n\n### output\noutput_dir: out-%d\n"
              "logging_steps: 10\nsave_steps: 500\nplot_loss: true\n"
              "gradient_accumulation_steps: 8\nnum_train_epochs: 3.0\n",
              number % 2 ? source : "models/absent", kinds[number % (int)TS_COUNT(kinds)],
              number);
    path = strdup(name.data);
    check(file_create(path, job.data, job.len, 0644, &err), &err);
    text_clear(&job);
    text_clear(&name);
    return path;
}

/* Return the seconds of one run; *resident: its largest resident set in bytes. */
static double call(char **argv, double *resident)
{
    double began = clock_seconds();
    struct rusage usage;
    int status;
    pid_t child = fork();

    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        execv(argv[0], argv);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) != child || !WIFEXITED(status) ||
        WEXITSTATUS(status) > 2) {
        fprintf(stderr, "bench_check: %s failed\n", argv[0]);
        exit(1);
    }
    *resident = 1024.0 * (double)usage.ru_maxrss;
    return clock_seconds() - began;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void one_core(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static void measure(char **argv, size_t fixed)
{
    double taken[CALLS], resident, largest = 0, all = call(argv, &resident);

    printf("%d jobs in one call, one core: %.3f s, %.1f MiB resident\n", JOBS, all,
           resident / 1048576);
    for (int i = 0; i < CALLS; i++) {
        char *one[8] = { NULL };

        memcpy(one, argv, fixed * sizeof(*one));
        one[fixed] = argv[fixed + (size_t)i];
        taken[i] = call(one, &resident);
        if (resident > largest)
            largest = resident;
    }
    qsort(taken, CALLS, sizeof(*taken), compare);
    printf("one job per call, %d calls: median %.2f ms, best %.2f, worst %.2f; at most "
           "%.1f MiB resident\n",
           CALLS, 1e3 * taken[CALLS / 2], 1e3 * taken[0], 1e3 * taken[CALLS - 1],
           largest / 1048576);
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/trainspool-bench-XXXXXX";
    char *build, *source, *program, *model, *words[JOBS + 8] = { NULL };
    struct error err = { 0 };
    size_t count = 0, fixed;

    if (argc != 3 || !(build = realpath(argv[1], NULL)) ||
        !(source = realpath(argv[2], NULL)) || !mkdtemp(dir)) {
        fprintf(stderr, "usage: bench_check BUILD-DIR SOURCE-DIR\n");
        return 2;
    }
    one_core();
    program = path_join(build, "trainspool");
    model = path_join(source, "jobs/samples/models/units-1m");
    words[count++] = program;
    words[count++] = (char *)"check";
    words[count++] = (char *)"--device";
    words[count++] = (char *)"T4";
    fixed = count;
    for (int i = 0; i < JOBS; i++)
        words[count++] = write_job(dir, model, i);
    measure(words, fixed);
    check(file_remove_tree(dir, &err), &err);
    for (size_t i = fixed; i < count; i++)
        free(words[i]);
    free(program);
    free(model);
    free(build);
    free(source);
    return 0;
}
