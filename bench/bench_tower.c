/*
 * bench/bench_tower.c - measures the encoder of a model's folder on one image, or on one window of
 * a sound.
 *
 *     bench/bench_tower FOLDER fp32|bf16 [THREADS [HEIGHT WIDTH]]
 *
 * HEIGHT and WIDTH: of an image, in patches.  1 thread is timed by processor time, which other
 * processes hardly affect.  peer_tower.py runs it in turn with transformers.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/target.h"
#include "train/tower/tower.h"

enum { REPEATS = 3 };

static struct media_input make_input(const struct tower_config *c, size_t height,
                                     size_t width)
{
    struct media_input in = { .rows = height * width,
                              .columns = c->patch_columns,
                              .height = height,
                              .width = width };

    if (c->mels > 0) {
        in = (struct media_input) { .rows = 2 * c->positions,
                                    .columns = c->mels,
                                    .windows = 1 };
        in.heard = memory_alloc(sizeof(*in.heard));
        in.heard[0] = in.rows;
    }
    in.values = memory_alloc(in.rows * in.columns * sizeof(*in.values));
    for (size_t i = 0; i < in.rows * in.columns; i++)
        in.values[i] = (float)random_normal(1, RANDOM_INIT, 0, i);
    return in;
}

static double seconds(int threads)
{
    struct timespec now;

    if (threads != 1)
        return clock_seconds();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    const int threads = argc > 3 ? atoi(argv[3]) : 0;
    const enum format format =
        argc > 2 && strcmp(argv[2], "bf16") == 0 ? FORMAT_BF16 : FORMAT_FP32;
    struct tower_options options = { .compute = format,
                                     .frozen = format,
                                     .project = true };
    struct tower_output out;
    struct error err = { 0 };
    struct media_input in;
    struct tower *tower;
    double best = 1e9;

    if (argc < 3 || (argc != 3 && argc != 4 && argc != 6))
        target_stop("usage: bench_tower FOLDER fp32|bf16 [THREADS [HEIGHT WIDTH]]");
    options.model_dir = argv[1];
    options.backend = target_open(target_find("cpu"), threads);
    tower = tower_open(&options, &err);
    if (!tower)
        target_stop(err.text);
    in = make_input(tower_config_of(tower), argc > 4 ? strtoul(argv[4], NULL, 10) : 0,
                    argc > 5 ? strtoul(argv[5], NULL, 10) : 0);
    for (int i = 0; i < REPEATS; i++) {
        const double start = seconds(threads);

        if (!tower_run(tower, &in, &out, &err))
            target_stop(err.text);
        best = seconds(threads) - start < best ? seconds(threads) - start : best;
        if (i + 1 < REPEATS)
            tower_output_clear(&out);
    }
    printf("| %s | %zu rows | %.1f ms |\n", argv[2], out.count, best * 1e3);
    tower_output_clear(&out);
    media_input_clear(&in);
    tower_free(tower);
    backend_close(options.backend);
    return 0;
}
