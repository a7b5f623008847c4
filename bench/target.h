/*
 * bench/target.h - the device that a benchmark runs on. On failure, these functions end
 * the program with a message.
 */
#ifndef BENCH_TARGET_H
#define BENCH_TARGET_H

#include "kernels/backend.h"

void target_stop(const char *text) __attribute__((noreturn));
/* "cpu", or the ordinal of a GPU; NULL: the first. Valid until the program ends. */
const struct device *target_find(const char *name);
/* threads: of a CPU, 0 for all. */
struct backend *target_open(const struct device *device, int threads);
/* A GPU for training steps: room for operands of fp8 matmuls, and a folder for choices or
 * NULL; see struct backend_options. */
struct backend *target_open_gpu(const struct device *device, size_t rounded_bytes,
                                const char *choices_dir);
void target_wait(struct backend *be);
void *target_memory(struct backend *be, size_t bytes);

#endif
