/*
 * bench/bench_start.c - measures the time from dropping a job into a watched folder to
 * the first line of its trainer: notice, check, patch, queue, start.
 *
 *     bench_start BUILD-DIR SOURCE-DIR
 *
 * A copy of `trainspool` watches a folder. Next to it is a copy of this program under the
 * name of the trainer, which records when it was started and exits. It forwards probes to
 * the real trainer.
 */
#include "config.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "base/text.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { JOBS = 40, POLL_MS = 1, PATIENCE_MS = 20000 };

struct bench {
    char *dir, *spool, *started; /* `started`: file of start times */
    pid_t watch;
};

static void check(bool ok, const struct error *err)
{
    if (!ok) {
        fprintf(stderr, "bench_start: %s\n", err->text);
        exit(1);
    }
}

static void wait_ms(long ms)
{
    nanosleep(&(struct timespec) { .tv_nsec = ms * 1000000 }, NULL);
}

/* Main function under the name of the trainer. */
static int trainer_main(char **argv)
{
    char line[64];
    struct error err = { 0 };
    int len = snprintf(line, sizeof(line), "%.9f", clock_seconds());
    bool is_probe = false;

    for (char **at = argv + 1; *at; at++)
        is_probe = is_probe || strcmp(*at, "--probe") == 0 || strcmp(*at, "--steps") == 0;
    if (is_probe) {
        execv(getenv("TRAINSPOOL_BENCH_TRAINER"), argv);
        return 1;
    }
    check(file_append_line(getenv("TRAINSPOOL_BENCH_STARTED"), line, (size_t)len, 0600,
                           false, &err),
          &err);
    return 3;
}

static void copy(const char *from, const char *to)
{
    struct text text;
    struct error err = { 0 };

    text_init(&text, 0);
    check(file_read(from, 1 << 30, &text, NULL, &err) &&
              file_create(to, text.data, text.len, 0755, &err),
          &err);
    text_clear(&text);
}

/* Return the number of starts in the file; *last is the time of the last one. */
static size_t starts(const struct bench *bench, double *last)
{
    FILE *in = fopen(bench->started, "re");
    size_t count = 0;

    while (in && fscanf(in, "%lf", last) == 1)
        count++;
    if (in)
        fclose(in);
    return count;
}

static bool wait_for(const struct bench *bench, size_t count, double *last)
{
    for (int i = 0; i < PATIENCE_MS; i += POLL_MS) {
        if (starts(bench, last) >= count)
            return true;
        wait_ms(POLL_MS);
    }
    return false;
}

/* Write the job next to the folder and rename it into it, as a careful program does. */
static double drop(const struct bench *bench, const char *source, int number)
{
    struct text job, name;
    struct error err = { 0 };
    char *temporary = path_join(bench->dir, "job");
    double at;

    text_init(&job, 0);
    text_init(&name, 0);
    text_addf(
        &job,
        "model_name_or_path: %s/jobs/samples/models/units-1m\ntrain_from_scratch: true\n"
        "stage: pt\nfinetuning_type: full\ndataset: %s/text.txt\ncutoff_len: 64\n"
        "bf16: true\nmax_grad_norm:\nlearning_rate: 1.0e-3\nmax_steps: 1\n"
        "trainspool:\n  max_retries: 0\n",
        source, bench->dir);
    text_addf(&name, "%s/job-%03d.yaml", bench->spool, number);
    check(file_create(temporary, job.data, job.len, 0644, &err), &err);
    at = clock_seconds();
    if (rename(temporary, name.data) != 0)
        check(error_errno(&err, "cannot rename %s", temporary), &err);
    text_clear(&job);
    text_clear(&name);
    free(temporary);
    return at;
}

static void begin(struct bench *bench, const char *build)
{
    char *watcher = path_join(bench->dir, "trainspool");
    char *trainer = path_join(bench->dir, "trainspool-train");
    char *real = path_join(build, "trainspool"),
         *real_trainer = path_join(build, "trainspool-train");
    char *text = path_join(bench->dir, "text.txt");
    struct error err = { 0 };

    copy(real, watcher);
    copy("/proc/self/exe", trainer);
    check(file_make_dirs(bench->spool, 0755, &err) &&
              file_create(text, "one two three\n", 14, 0644, &err),
          &err);
    setenv("TRAINSPOOL_BENCH_TRAINER", real_trainer, 1);
    setenv("TRAINSPOOL_BENCH_STARTED", bench->started, 1);
    bench->watch = fork();
    if (bench->watch == 0) {
        dup2(open("/dev/null", O_WRONLY),
             STDOUT_FILENO); /* each job is reported as failed */
        execl(watcher, watcher, "watch", "--quiet", bench->spool, (char *)NULL);
        _exit(1);
    }
    free(watcher);
    free(trainer);
    free(real);
    free(real_trainer);
    free(text);
}

static void end(struct bench *bench)
{
    struct error err = { 0 };

    kill(bench->watch, SIGTERM);
    waitpid(bench->watch, NULL, 0);
    check(file_remove_tree(bench->dir, &err), &err);
    free(bench->dir);
    free(bench->spool);
    free(bench->started);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/trainspool-bench-XXXXXX";
    struct bench bench = { 0 };
    double taken[JOBS], started = 0;
    char *build, *source;

    if (strcmp(path_base(argv[0]), "trainspool-train") == 0)
        return trainer_main(argv);
    if (argc != 3 || !(build = realpath(argv[1], NULL)) ||
        !(source = realpath(argv[2], NULL)) || !mkdtemp(folder)) {
        fprintf(stderr, "usage: bench_start BUILD-DIR SOURCE-DIR\n");
        return 2;
    }
    bench.dir = strdup(folder);
    bench.spool = path_join(folder, "spool");
    bench.started = path_join(folder, "started");
    begin(&bench, build);
    drop(&bench, source, 0); /* the first scan finds it, whenever the watch is ready */
    for (int i = 0; i <= JOBS; i++) {
        double dropped = i ? drop(&bench, source, i) : 0;

        if (!wait_for(&bench, (size_t)i + 1, &started)) {
            fprintf(stderr, "bench_start: job %d was not started\n", i);
            end(&bench);
            return 1;
        }
        if (i)
            taken[i - 1] = started - dropped;
        wait_ms(100); /* let the watch notice that it ended */
    }
    qsort(taken, JOBS, sizeof(*taken), compare);
    printf("from drop to the trainer's start, %d jobs: median %.2f ms, best %.2f, worst "
           "%.2f\n",
           JOBS, 1e3 * taken[JOBS / 2], 1e3 * taken[0], 1e3 * taken[JOBS - 1]);
    end(&bench);
    free(build);
    free(source);
    return 0;
}
