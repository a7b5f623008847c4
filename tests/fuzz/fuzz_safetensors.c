/* tests/fuzz/fuzz_safetensors.c - safetensors files: a file is rejected or contains its
 * tensors, also those of experts in MXFP4, and weights in FP8 and NVFP4. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include "tests/fuzz/fuzz_tensors.h"

static unsigned sum_bytes(const struct stored_tensor *tensor)
{
    const unsigned char *at = tensor->data;
    unsigned sum = 0;

    for (size_t i = 0; i < tensor->bytes; i++)
        sum += at[i];
    return sum;
}

/* Tensors of two experts: those whose names start with "g" have two matrices of each. */
static size_t matrices_of(const void *context, const char *name)
{
    (void)context;
    return name[0] == 'g' ? 2 : name[0] == 'd' ? 1 : 0;
}

static void number(const void *context, const char *tensor, size_t index,
                   struct text *out)
{
    (void)context;
    text_addf(out, "%zu.%s", index, tensor);
}

/* Read what a part of a tensor says it has. */
static unsigned sum_part(const struct stored_tensor *t)
{
    const unsigned char *data = t->data;
    size_t step = t->step > 0 ? t->step : 1, item;
    unsigned sum = 0;

    if (t->packed) {
        const size_t cols = t->packed->cols;
        const size_t rows = t->bytes / format_info(t->format)->bytes / cols;
        float *row = malloc(cols * sizeof(*row));

        if (!row || t->shape[t->rank - 1] != cols)
            abort();
        for (size_t i = 0; i < rows; i++) {
            packed_read(t->packed, i, row);
            sum += row[0] > 0;
        }
        free(row);
    } else if (t->pitch > 0) {
        item = t->bytes / (t->shape[0] * (t->rank == 2 ? t->shape[1] : 1));
        for (size_t j = 0; j < (t->rank == 2 ? t->shape[1] : 1); j++)
            for (size_t i = 0; i < t->shape[0]; i++)
                sum += data[(j * t->pitch + i * step) * item];
    }
    return sum;
}

static unsigned sum_parts(const struct safetensors *set)
{
    unsigned sum = 0;

    for (size_t i = 0; i < safetensors_count(set); i++)
        sum += sum_part(safetensors_at(set, i));
    return sum;
}

static unsigned sum_experts(struct safetensors *set, bool transposed)
{
    const struct safetensors_parts parts = { .experts = 2,
                                             .transposed = transposed,
                                             .interleaved = true,
                                             .count = matrices_of,
                                             .name = number };
    struct error err = { 0 };
    size_t count;

    return safetensors_split(set, &parts, &count, &err) ? sum_parts(set) : 0;
}

/* As a model's files are read: experts are divided after weights are unpacked. */
static unsigned sum_unpacked(struct safetensors *set)
{
    const struct safetensors_packing how = { .format = FORMAT_BF16,
                                             .block_rows = 2,
                                             .block_cols = 3 };
    struct error err = { 0 };

    if (!safetensors_unpack(set, &how, &err))
        return 0;
    return sum_parts(set) + sum_experts(set, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct error err = { 0 };
    struct safetensors *set = fuzz_open_tensors(data, len, &err);
    volatile unsigned sum = 0;

    if (!set && err.code == ERROR_NONE)
        abort();
    for (size_t i = 0; set && i < safetensors_count(set); i++) {
        const struct stored_tensor *tensor = safetensors_at(set, i);

        if (!tensor->name || (tensor->bytes > 0 && !tensor->data))
            abort();
        sum += sum_bytes(tensor);
    }
    if (set)
        sum += sum_experts(set, true);
    safetensors_close(set);
    set = fuzz_open_tensors(data, len, &err);
    if (set)
        sum += sum_unpacked(set);
    (void)sum;
    safetensors_close(set);
    return 0;
}
