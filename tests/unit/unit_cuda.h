/* tests/unit/unit_cuda.h - an emulated GPU that runs work, and matrices in its memory. */
#ifndef TESTS_UNIT_UNIT_CUDA_H
#define TESTS_UNIT_UNIT_CUDA_H

#include "kernels/cuda/cuda_backend.h"

#include "kernels/reach.h"
#include "tests/emulation/emulation.h"
#include "tests/unit/unit.h"

/* Open GPU `ordinal` of the machine that emulation_reset created. */
static inline struct backend *unit_cuda_try(int ordinal, struct log *log,
                                            struct error *err)
{
    struct device devices[8];
    char note[160];
    /* listed first; opening it queries its properties */
    size_t count = backend_cuda.devices("cpu", devices, 8, note, sizeof(note));
    struct backend_options options = { .device = &devices[ordinal], .log = log };

    assert_true((size_t)ordinal < count);
    return backend_cuda.open(&options, err);
}

static inline struct backend *unit_cuda_open(int ordinal)
{
    struct error err = { 0 };
    struct backend *be = unit_cuda_try(ordinal, NULL, &err);

    if (!be)
        fail_msg("%s", err.text);
    return be;
}

/* Open the only device, with this many bytes of memory. */
static inline struct backend *unit_cuda_alone(int capability, size_t memory)
{
    struct emulation_device device = { "Emulated", capability, 4, memory };

    emulation_reset(&device, 1);
    return unit_cuda_open(0);
}

/* Leak sanitizer functions, if it is linked. */
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

/* As unit_cuda_alone, for a card that the test makes fail: memory its driver holds at
 * that moment is never freed, on purpose, and is not a leak. */
static inline struct backend *unit_cuda_doomed(int capability, size_t memory)
{
    struct backend *be;

    if (__lsan_disable)
        __lsan_disable();
    be = unit_cuda_alone(capability, memory);
    if (__lsan_enable)
        __lsan_enable();
    return be;
}

static inline void unit_cuda_sync(struct backend *be)
{
    struct error err = { 0 };

    if (!be->ops->sync(be, &err))
        fail_msg("%s", err.text);
}

static inline void *unit_cuda_block(struct backend *be, size_t bytes)
{
    struct error err = { 0 };
    void *block = be->ops->alloc(be, bytes, &err);

    if (!block)
        fail_msg("%s", err.text);
    return block;
}

/* Values of -1 to 1, the same for the same seed, in separately allocated memory with room
 * for an offset and wider rows. */
static inline struct tensor unit_cuda_matrix(struct backend *be, enum format format,
                                             size_t rows, size_t cols, size_t stride,
                                             uint32_t seed)
{
    size_t numbers = rows * stride, bytes = format_info(format)->bytes;
    float *values = malloc(numbers * sizeof(float));
    void *rounded = malloc(numbers * bytes);
    struct tensor tensor = { unit_cuda_block(be, numbers * bytes), format, rows, cols,
                             stride };

    for (size_t i = 0; i < numbers; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(int32_t)seed / 2147483648.0f;
    }
    format_convert(rounded, format, values, FORMAT_FP32, numbers);
    be->ops->upload(be, tensor.data, rounded, numbers * bytes);
    free(rounded);
    free(values);
    return tensor;
}

/* malloc'ed: (rows, stride) as float */
static inline float *unit_cuda_read(struct backend *be, struct tensor tensor)
{
    size_t numbers = tensor.rows * tensor.stride,
           bytes = format_info(tensor.format)->bytes;
    void *raw = malloc(numbers * bytes);
    float *values = malloc(numbers * sizeof(float));

    be->ops->download(be, raw, tensor.data, numbers * bytes);
    unit_cuda_sync(be);
    format_convert(values, FORMAT_FP32, raw, tensor.format, numbers);
    free(raw);
    return values;
}

/* Let the rows of each sequence see each other; offsets are those of the operation, in the
 * host's memory. */
static inline void unit_cuda_join(struct backend *be, struct op_attention *op,
                                  const int32_t *offsets)
{
    size_t rows = op->q.rows, bytes = rows * sizeof(int32_t);
    int32_t *reach = calloc(2 * rows, sizeof(*reach)), *since = reach + rows;
    int32_t *there = unit_cuda_block(be, 2 * bytes);

    for (size_t i = 0; i < op->sequences; i++)
        reach_join(reach, (size_t)offsets[i], (size_t)offsets[i + 1]);
    reach_since(since, reach, rows);
    be->ops->upload(be, there, reach, 2 * bytes);
    op->reach = there;
    op->since = there + rows;
    free(reach);
}

#endif
