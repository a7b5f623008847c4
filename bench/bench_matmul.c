/*
 * bench/bench_matmul.c - measures GFLOP/s of the matmuls of real models, with our own
 * kernels and with oneDNN, with one thread and with all.
 */
#include "config.h"

#include "bench/rate.h"

#include "base/size.h"
#include "kernels/cpu/cpu_cores.h"

#include <stdio.h>
#include <string.h>

static const struct rate_shape shapes[] = {
    { "GPT-2 qkv", 2048, 768, 2304, 0 },
    { "GPT-2 qkv", 2048, 768, 2304, 1 },
    { "GPT-2 qkv", 2048, 768, 2304, 2 },
    { "GPT-2 fcproj", 2048, 3072, 768, 0 },
    { "GPT-2 qkv", 256, 768, 2304, 0 },
    { "GPT-2 head", 256, 768, 50304, 0 },
    { "GPT-2 head", 256, 768, 50304, 1 },
    { "GPT-2 head", 256, 768, 50304, 2 },
    { "SmolLM2 kv", 512, 576, 192, 0 },
    { "SmolLM2 kv", 512, 576, 192, 1 },
    { "SmolLM2 kv", 512, 576, 192, 2 },
    { "SmolLM2 gate, up", 512, 576, 3072, 0 },
    { "SmolLM2 gate, up", 512, 576, 3072, 1 },
    { "SmolLM2 gate, up", 512, 576, 3072, 2 },
    { "stories15M qkv", 2048, 288, 864, 0 },
    { "stories15M qkv", 2048, 288, 864, 1 },
    { "stories15M qkv", 2048, 288, 864, 2 },
    { "stories15M head", 256, 288, 32000, 0 },
    { "stories15M head", 256, 288, 32000, 1 },
    { "stories15M head", 256, 288, 32000, 2 },
    { "LoRA A", 2048, 768, 16, 0 },
    { "LoRA B", 2048, 16, 2304, 0 },
    { "LoRA A", 2048, 768, 16, 2 },
    { "LoRA B", 2048, 16, 2304, 2 },
};

enum { KINDS = 4 }; /* ours and oneDNN, with one thread and with all */

/* Total FLOPs and time of all shapes, by kind. */
struct total {
    double flops, seconds[KINDS];
};

static void measure(struct backend *const backends[KINDS], const struct rate_shape *shape,
                    enum format format, struct total *total)
{
    double flops = 2e-9 * (double)shape->rows * (double)shape->in * (double)shape->out;
    char size[40];

    snprintf(size, sizeof(size), "%zux%zux%zu", shape->rows, shape->in, shape->out);
    printf("| %s %s %s | %s |", shape->name, size, rate_passes[shape->pass],
           format_info(format)->name);
    total->flops += flops;
    for (int i = 0; i < KINDS; i++) {
        double rate = rate_measure(backends[i], shape, format, 3, 0.05, i % 2 == 0);

        total->seconds[i] += flops / rate;
        printf(" %.0f |", rate);
    }
    printf("\n");
    fflush(stdout);
}

int main(void)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16 };
    int threads = (int)cores_usable();
    struct backend *const backends[KINDS] = { rate_open(1, false),
                                              rate_open(threads, false),
                                              rate_open(1, true),
                                              rate_open(threads, true) };

    printf("matmuls in GFLOP/s: %s; %s\n\n", backends[1]->ops->describe(backends[1]),
           backends[3]->ops->describe(backends[3]));
    printf(
        "| matmul (rows x in x out), pass | format | ours, 1 thread | ours, %d threads | "
        "oneDNN, 1 thread | oneDNN, %d threads |\n"
        "|---|---|---|---|---|---|\n",
        threads, threads);
    for (size_t f = 0; f < TS_COUNT(formats); f++) {
        struct total total = { 0 };

        for (size_t i = 0; i < TS_COUNT(shapes); i++)
            measure(backends, &shapes[i], formats[f], &total);
        printf("| all, total flops / total time | %s |", format_info(formats[f])->name);
        for (int i = 0; i < KINDS; i++)
            printf(" %.0f |", total.flops / total.seconds[i]);
        printf("\n");
    }
    for (int i = 0; i < KINDS; i++)
        backend_close(backends[i]);
    return 0;
}
