/*
 * tests/unit/unit_formula_adapter.h - an adapter in PEFT's format, with weights from a
 * formula: tests/golden/lora.py, fill.
 */
#ifndef TESTS_UNIT_UNIT_FORMULA_ADAPTER_H
#define TESTS_UNIT_UNIT_FORMULA_ADAPTER_H

#include "tests/unit/unit_model.h"
#include "train/files/safetensors.h"

struct unit_formula_adapter {
    double scale, offset;
    size_t numbers;
};

static inline uint32_t unit_bits(uint64_t seed, uint64_t i)
{
    uint32_t x = (uint32_t)(i * 2654435761u + seed * 2246822519u);

    x ^= x >> 16;
    x *= 0x45d9f3bu;
    return x ^ x >> 16;
}

/* Fill in the values of the tensor whose name has this index, as lora.py's fill does; a
 * vector is 1 more, as in dora.py. */
static inline bool unit_read_formula(const void *context, size_t index, void *to,
                                     struct error *err)
{
    const struct unit_formula_adapter *formula =
        (const struct unit_formula_adapter *)context + index;
    float *out = to;

    (void)err;
    for (size_t i = 0; i < formula->numbers; i++)
        out[i] =
            (float)(((double)(unit_bits(index, i) % 129) - 64) / 32 * formula->scale +
                    formula->offset);
    return true;
}

static inline void unit_write_formulas(const char *dir, const json_t *tensors,
                                       double scale)
{
    size_t count = json_array_size(tensors);
    struct tensor_source *sources = memory_resize(NULL, count, sizeof(*sources));
    struct unit_formula_adapter *formulas = memory_resize(NULL, count, sizeof(*formulas));
    char *name = path_join(dir, "adapter_model.safetensors");
    struct error err = { 0 };

    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(tensors, i), *shape = json_array_get(row, 1);
        size_t rows = (size_t)json_integer_value(json_array_get(shape, 0));
        size_t rank = json_array_size(shape);
        size_t cols = rank > 1 ? (size_t)json_integer_value(json_array_get(shape, 1)) : 1;

        formulas[i] =
            (struct unit_formula_adapter) { scale, rank > 1 ? 0 : 1, rows * cols };
        sources[i] = (struct tensor_source) {
            .name = json_string_value(json_array_get(row, 0)),
            .format = FORMAT_FP32,
            .rank = rank,
            .shape = { rows, cols },
            .read = unit_read_formula,
            .context = formulas,
            .index = i,
        };
    }
    unit_must(safetensors_write(name, sources, count, &err), &err);
    free(sources);
    free(formulas);
    free(name);
}

/* Return a folder; the caller removes it. */
static inline char *unit_adapter_new(const json_t *run, double scale)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "adapter_config.json");
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    json_write(json_object_get(run, "config"), &text);
    unit_must(file_replace(name, text.data, text.len, 0644, &err), &err);
    unit_write_formulas(dir, json_object_get(run, "tensors"), scale);
    text_clear(&text);
    free(name);
    return dir;
}

#endif
