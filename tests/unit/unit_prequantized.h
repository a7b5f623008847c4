/*
 * tests/unit/unit_prequantized.h - a model folder as transformers saves it with
 * bitsandbytes: the linear layers of its blocks in 4 bits, everything else in 16 or 32.
 */
#ifndef TESTS_UNIT_UNIT_PREQUANTIZED_H
#define TESTS_UNIT_UNIT_PREQUANTIZED_H

#include "base/file.h"
#include "base/json.h"
#include "precision/nf4.h"
#include "tests/unit/unit.h"
#include "train/model/model_config.h"
#include "train/files/safetensors.h"

#define UNIT_STATE ".quant_state.bitsandbytes__nf4"

/* One tensor of the folder being built; all are in an arena. */
struct unit_tensor {
    const char *name, *dtype; /* "F32" */
    size_t rank, shape[3], bytes;
    char *data;
};

/* How a base is saved. */
struct unit_saved {
    enum format dtype;
    bool twice;
    const char *plain; /* llm_int8_skip_modules: one name, or NULL */
    /* store the values that the 4 bits stand for, in fp32, instead of the codes */
    bool wide;
    /* Corrupt something before it is written; and the callback's context. */
    void (*spoil)(struct unit_tensor *tensors, size_t *count, const void *context);
    const void *context;
};

static inline struct unit_tensor *unit_tensor_find(struct unit_tensor *list, size_t count,
                                                   const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* The folder under construction. */
struct unit_saving {
    const struct unit_saved *how;
    struct model_config config;
    struct arena *arena;
    struct unit_tensor *list;
    size_t count;
};

static inline char *unit_tensor_add(struct unit_saving *s, const char *name,
                                    const char *dtype, size_t rows, size_t cols)
{
    struct unit_tensor *t = &s->list[s->count++];
    size_t bytes = rows * (cols ? cols : 1) * safetensors_dtype_bytes(dtype);

    *t = (struct unit_tensor) {
        arena_strdup(s->arena, name), dtype, cols ? 2 : 1, { rows, cols, 0 }, bytes, NULL
    };
    t->data = arena_alloc(s->arena, bytes);
    return t->data;
}

static inline void unit_narrow(enum format format, float *x, size_t count, void *out)
{
    format_convert(out, format, x, FORMAT_FP32, count);
    format_convert(x, FORMAT_FP32, out, format, count);
}

/* Return the module of a block's linear layer that is stored in 4 bits. */
static inline enum module unit_module_in_4_bits(const struct unit_saving *s,
                                                const char *name)
{
    const struct architecture *a = s->config.architecture;
    size_t len = strlen(name) - strlen(".weight");
    const char *of_layers[] = { "experts.gate_projs.", "experts.up_projs.",
                                "experts.down_projs." };

    if (!text_starts(name, a->base) || !text_ends(name, ".weight") ||
        (s->how->plain && strstr(name, s->how->plain)))
        return MODULES;
    for (size_t i = 0; i < 3; i++)
        if (strstr(name, of_layers[i]))
            return MODULE_EXPERT_GATE + i;
    for (enum module i = 0; i < MODULES; i++)
        if (a->paths[i] && module_is_linear(i) &&
            module_in_block(i) == text_starts(name, a->blocks) &&
            (architecture_is_named(a, i, name, len) ||
             (module_is_of_experts(i) && strstr(name, ".experts.") &&
              strncmp(name + len - strlen(architecture_leaf(a, i)),
                      architecture_leaf(a, i), strlen(architecture_leaf(a, i))) == 0)))
            return i;
    return MODULES;
}

/* Add what a bitsandbytes file stores next to the codes of a matrix, and the codes. */
static inline void unit_add_codes(struct unit_saving *s, const char *name, float *x,
                                  size_t rows, size_t cols)
{
    const char *torch = format_info(s->how->dtype)->torch;
    size_t numbers = rows * cols, blocks = nf4_blocks(numbers);
    bool twice = s->how->twice;
    float *absmax = arena_alloc(s->arena, blocks * sizeof(float)), mean = 0;
    char *codes = unit_tensor_add(s, name, "U8", nf4_bytes(numbers), 1), *data;
    const char *state =
        arena_printf(s->arena,
                     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"%s\", "
                     "\"shape\": [%zu, %zu]",
                     torch, rows, cols);

    nf4_quantize(x, numbers, (uint8_t *)codes, absmax);
    data = unit_tensor_add(s, arena_printf(s->arena, "%s.absmax", name),
                           twice ? "U8" : "F32", blocks, 0);
    memcpy(data, absmax, twice ? 0 : blocks * sizeof(float));
    if (twice) {
        char *groups =
            unit_tensor_add(s, arena_printf(s->arena, "%s.nested_absmax", name), "F32",
                            nf4_groups(blocks), 0);
        char *map = unit_tensor_add(
            s, arena_printf(s->arena, "%s.nested_quant_map", name), "F32", NF4_MAP, 0);

        mean = nf4_compress(absmax, blocks, (uint8_t *)data, (float *)(void *)groups);
        nf4_map((float *)(void *)map);
        state = arena_printf(s->arena,
                             "%s, \"nested_blocksize\": 256, \"nested_dtype\": "
                             "\"float32\", \"nested_offset\": %.17g",
                             state, (double)mean);
    }
    data = unit_tensor_add(s, arena_printf(s->arena, "%s.quant_map", name), "F32",
                           NF4_NUMBERS, 0);
    memcpy(data, nf4_numbers, sizeof(nf4_numbers));
    state = arena_printf(s->arena, "%s}", state);
    data = unit_tensor_add(s, arena_printf(s->arena, "%s" UNIT_STATE, name), "U8",
                           strlen(state), 0);
    memcpy(data, state, strlen(state));
}

/* Store the values of the 4 bits, rounded to the original format. */
static inline void unit_widen(const struct unit_saved *how, float *x, size_t numbers)
{
    size_t blocks = nf4_blocks(numbers);
    float *absmax = memory_alloc(blocks * sizeof(float)), map[NF4_MAP], mean;
    float *groups = memory_alloc(nf4_groups(blocks) * sizeof(float));
    uint8_t *codes = memory_alloc(nf4_bytes(numbers)), *bytes = memory_alloc(blocks);
    void *narrow = memory_alloc(numbers * sizeof(float));

    nf4_quantize(x, numbers, codes, absmax);
    nf4_map(map);
    mean = nf4_compress(absmax, blocks, bytes, groups);
    for (size_t i = 0; how->twice && i < blocks; i++) {
        volatile float product = map[bytes[i]] * groups[i / NF4_GROUP];

        absmax[i] = product + mean;
    }
    for (size_t i = 0; i < numbers; i++)
        x[i] = nf4_numbers[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4] *
               absmax[i / NF4_BLOCK];
    unit_narrow(how->dtype, x, numbers, narrow);
    free(absmax);
    free(groups);
    free(codes);
    free(bytes);
    free(narrow);
}

static inline float *unit_turned(const float *x, size_t rows, size_t cols)
{
    float *out = memory_alloc(rows * cols * sizeof(*out));

    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            out[j * rows + i] = x[i * cols + j];
    return out;
}

static inline void unit_save_tensor(struct unit_saving *s, const struct stored_tensor *t)
{
    enum module module = unit_module_in_4_bits(s, t->name);
    size_t rows = t->rank > 0 ? t->shape[0] : 1, cols = t->rank > 1 ? t->shape[1] : 0;
    size_t numbers = t->bytes / format_info(t->format)->bytes;
    float *x = memory_alloc(numbers * sizeof(*x)), *turned = NULL;
    void *narrow = memory_alloc(numbers * sizeof(*x));
    bool turns = module != MODULES && s->config.architecture->linear == STORED_COLUMNS;

    format_convert(x, FORMAT_FP32, t->data, t->format, numbers);
    unit_narrow(s->how->dtype, x, numbers, narrow);
    if (turns)
        turned = unit_turned(x, rows, cols);
    if (module != MODULES && s->how->wide)
        unit_widen(s->how, turns ? turned : x, numbers);
    if (turns && s->how->wide) {
        free(x);
        x = unit_turned(turned, cols, rows);
    }
    if (module != MODULES && !s->how->wide)
        unit_add_codes(s, t->name, turns ? turned : x, turns ? cols : rows,
                       turns ? rows : cols);
    else
        memcpy(unit_tensor_add(s, t->name, "F32", rows,
                               t->rank == 3 ? cols * t->shape[2] : cols),
               x, numbers * sizeof(*x));
    if (t->rank == 0 || t->rank == 3) {
        s->list[s->count - 1].rank = t->rank;
        memcpy(s->list[s->count - 1].shape, t->shape, 3 * sizeof(*t->shape));
    }
    free(x);
    free(turned);
    free(narrow);
}

static inline bool unit_read_tensor(const void *context, size_t index, void *to,
                                    struct error *err)
{
    const struct unit_tensor *t = (const struct unit_tensor *)context + index;

    (void)err;
    memcpy(to, t->data, t->bytes);
    return true;
}

static inline void unit_write_tensors(const struct unit_saving *s, const char *dir)
{
    struct tensor_source *sources = arena_array(s->arena, s->count, sizeof(*sources));
    char *name = path_join(dir, "model.safetensors");
    struct error err = { 0 };

    for (size_t i = 0; i < s->count; i++) {
        const struct unit_tensor *t = &s->list[i];

        sources[i] =
            (struct tensor_source) { .name = t->name,
                                     .dtype = t->dtype,
                                     .rank = t->rank,
                                     .shape = { t->shape[0], t->shape[1], t->shape[2] },
                                     .read = unit_read_tensor,
                                     .context = s->list,
                                     .index = i };
    }
    if (!safetensors_write(name, sources, s->count, &err))
        fail_msg("%s", err.text);
    free(name);
}

static inline void unit_write_config(const struct unit_saving *s, const char *dir)
{
    const struct unit_saved *how = s->how;
    char *name = path_join(dir, "config.json"), *text;
    struct error err = { 0 };
    json_t *root = json_loadb(s->config.text, s->config.text_len, 0, NULL);
    json_t *plain = how->plain ? json_pack("[s]", how->plain) : json_null();

    json_object_del(root, "torch_dtype");
    json_object_set_new(root, "dtype", json_string(format_info(how->dtype)->torch));
    json_object_set_new(
        root, "quantization_config",
        how->wide ? json_null()
                  : json_pack("{s:s, s:b, s:b, s:s, s:b, s:s, s:O}", "quant_method",
                              "bitsandbytes", "load_in_4bit", 1, "load_in_8bit", 0,
                              "bnb_4bit_quant_type", "nf4", "bnb_4bit_use_double_quant",
                              how->twice, "bnb_4bit_compute_dtype", "float32",
                              "llm_int8_skip_modules", plain));
    text = json_dumps(root, 0);
    if (!file_replace(name, text, strlen(text), 0600, &err))
        fail_msg("%s", err.text);
    free(text);
    free(name);
    json_decref(plain);
    json_decref(root);
}

/* Create a folder with the quantized copy of another's base; the caller frees it
 * (unit_dir_free). */
static inline char *unit_prequantized(const char *base, const struct unit_saved *how)
{
    struct unit_saving s = { .how = how, .arena = arena_new() };
    struct error err = { 0 };
    char *dir = unit_dir_new();
    struct safetensors *set = safetensors_open(base, "model", false, &err);

    if (!set || !model_config_read(base, s.arena, &s.config, &err))
        fail_msg("%s", err.text);
    s.list = arena_array(s.arena, safetensors_count(set) * 6 + 1, sizeof(*s.list));
    for (size_t i = 0; i < safetensors_count(set); i++)
        unit_save_tensor(&s, safetensors_at(set, i));
    if (how->spoil)
        how->spoil(s.list, &s.count, how->context);
    unit_write_tensors(&s, dir);
    unit_write_config(&s, dir);
    safetensors_close(set);
    arena_free(s.arena);
    return dir;
}

#endif
