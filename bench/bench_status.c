/*
 * bench/bench_status.c - measures `trainspool status --json` on a folder of finished
 * jobs.
 *
 *     bench_status BUILD-DIR [JOBS]
 */
#include "config.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 21, DEFAULT_JOBS = 10000 };

static const char state[] =
    "{\"state\":\"done\",\"reason\":null,\"device\":\"AMD EPYC\",\"digest\":"
    "\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\",\"source\":"
    "\"1835010:1795183735.521334912:345\",\"queued\":\"2026-11-20T14:08:48Z\",\"started\":"
    "\"2026-11-20T14:08:49Z\",\"ended\":\"2026-11-20T15:01:12Z\",\"step\":1000,\"total\":"
    "1000,\"attempt\":1,\"crashes\":0,\"max_retries\":2,\"priority\":0,\"loss\":1.2345,"
    "\"arrived\":1795183735.521335,\"resume\":false}\n";

static void check(bool ok, const struct error *err)
{
    if (!ok) {
        fprintf(stderr, "bench_status: %s\n", err->text);
        exit(1);
    }
}

/* Nothing is flushed: thousands of jobs would take minutes. */
static void write_file(const char *dir, const char *name, const char *text)
{
    char *path = path_join(dir, name);
    FILE *out = fopen(path, "we");
    struct error err = { 0 };

    check(out && fputs(text, out) >= 0 && fclose(out) == 0,
          (error_errno(&err, "cannot write %s", path), &err));
    free(path);
}

static void make_job(const char *spool, long number)
{
    struct error err = { 0 };
    char name[64];
    char *run;

    snprintf(name, sizeof(name), "job-%06ld.yaml", number);
    write_file(spool, name, "stage: sft\n");
    snprintf(name, sizeof(name), "job-%06ld.run", number);
    run = path_join(spool, name);
    check(file_make_dir(run, 0700, &err), &err);
    write_file(run, "state.json", state);
    free(run);
}

static int compare(const void *a, const void *b)
{
    double one = *(const double *)a, two = *(const double *)b;

    return (one > two) - (one < two);
}

static void measure(const char *build, char *spool)
{
    char *dir = path_absolute(build), *program = path_join(dir, "trainspool");
    char *const argv[] = { program, "status", "--json", spool, NULL };
    double seconds[RUNS];

    for (int i = 0; i < RUNS; i++) {
        struct spawn_result result;
        struct error err = { 0 };
        double from = clock_seconds();

        check(spawn_capture(argv, 60000, NULL, NULL, &result, &err), &err);
        seconds[i] = clock_seconds() - from;
    }
    qsort(seconds, RUNS, sizeof(*seconds), compare);
    printf("status --json: median %.1f ms, best %.1f, worst %.1f\n",
           1e3 * seconds[RUNS / 2], 1e3 * seconds[0], 1e3 * seconds[RUNS - 1]);
    free(program);
    free(dir);
}

int main(int argc, char **argv)
{
    char spool[] = "/tmp/bench-status-XXXXXX";
    long jobs = argc > 2 ? atol(argv[2]) : DEFAULT_JOBS;
    struct error err = { 0 };

    if (argc < 2 || jobs < 1 || !mkdtemp(spool)) {
        fprintf(stderr, "usage: bench_status BUILD-DIR [JOBS]\n");
        return 2;
    }
    for (long i = 0; i < jobs; i++)
        make_job(spool, i);
    measure(argv[1], spool);
    check(file_remove_tree(spool, &err), &err);
    return 0;
}
