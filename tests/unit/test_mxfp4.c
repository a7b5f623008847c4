/* tests/unit/test_mxfp4.c - a gpt-oss whose experts are in MXFP4 is the model that
 * transformers dequantizes (tests/golden/mxfp4.py), and is saved without MXFP4. */
#include "config.h"

#define GOLDEN_FILE "tests/golden/mxfp4.json"
#include "tests/unit/unit_packed.h"

#include "precision/packed.h"

static void test_mxfp4_values_are_those_of_every_scale(void **state)
{
    const json_t *from = json_object_get(golden, "scales");
    size_t bytes, scales, wanted;
    unsigned char *code = unhex(json_object_get(from, "blocks"), &bytes);
    unsigned char *scale = unhex(json_object_get(from, "scales"), &scales);
    unsigned char *values = unhex(json_object_get(from, "values"), &wanted);
    float *out = memory_alloc(scales * MXFP4_BLOCK * sizeof(*out));
    const struct packed packed = { .code = PACKED_E2M1,
                                   .scale = SCALE_E8M0,
                                   .codes = code,
                                   .scales = scale,
                                   .cols = scales * MXFP4_BLOCK,
                                   .block_rows = 1,
                                   .block_cols = MXFP4_BLOCK,
                                   .factor = 1 };
    uint16_t *rounded = memory_alloc(scales * MXFP4_BLOCK * sizeof(*rounded));

    (void)state;
    assert_int_equal(scales, 255);
    assert_int_equal(bytes, scales * MXFP4_BYTES);
    assert_int_equal(wanted, scales * MXFP4_BLOCK * sizeof(*rounded));
    packed_read(&packed, 0, out);
    format_convert(rounded, FORMAT_BF16, out, FORMAT_FP32, scales * MXFP4_BLOCK);
    assert_memory_equal(rounded, values, wanted);
    scale[0] = 255;
    packed_read(&packed, 0, out);
    for (size_t i = 0; i < MXFP4_BLOCK; i++)
        assert_true(isnan(out[i]));
    free(code);
    free(scale);
    free(values);
    free(out);
    free(rounded);
}

static void test_mxfp4_model_is_the_dequantized_one(void **state)
{
    (void)state;
    check_packed(find_case("models", "mxfp4"));
}

/* The merged model has the format of the values, not that of the codes. */
static void test_mxfp4_base_of_an_adapter_is_exported_in_bf16(void **state)
{
    const json_t *one = find_case("models", "mxfp4");
    char *dir = packed_folder(one, NULL), *to = unit_dir_new();
    struct unit_model u = open_adapter(dir);
    struct safetensors *set = export_packed(&u, one, to);
    const struct stored_tensor *t;

    (void)state;
    t = safetensors_find(set, "model.layers.0.mlp.experts.gate_up_proj");
    assert_true(t && t->rank == 3 && t->format == FORMAT_BF16);
    assert_int_equal(t->shape[1], 64);
    assert_int_equal(t->shape[2], 64);
    t = safetensors_find(set, "model.layers.1.mlp.experts.gate_up_proj_bias");
    assert_true(t && t->rank == 2 && t->shape[1] == 64);
    safetensors_close(set);
    unit_dir_free(dir);
    unit_dir_free(to);
}

static void test_mxfp4_base_can_be_kept_in_nf4(void **state)
{
    (void)state;
    check_packed_in_nf4(find_case("models", "mxfp4"));
}

static bool without_scales(struct tensor_source *s)
{
    return strcmp(s->name, "model.layers.1.mlp.experts.down_proj_scales") != 0;
}

static void test_mxfp4_without_scales_is_rejected(void **state)
{
    const json_t *one = find_case("models", "mxfp4");
    char *dir = packed_folder(one, without_scales);
    struct unit_model u = open_folder(dir);
    struct error err = { 0 };

    (void)state;
    assert_false(weights_check(dir, &u.config, &err));
    assert_non_null(
        strstr(err.text,
               "the scales of model.layers.1.mlp.experts.down_proj_blocks are missing"));
    unit_dir_free(dir);
    arena_free(u.arena);
}

static size_t two_of(const void *context, const char *name)
{
    (void)context;
    return text_ends(name, "_blocks") ? 2 : 0;
}

static void number(const void *context, const char *tensor, size_t index,
                   struct text *out)
{
    (void)context;
    text_addf(out, "%s.%zu", tensor, index);
}

static bool read_zeros(const void *context, size_t index, void *to, struct error *err)
{
    (void)index;
    (void)err;
    memset(to, 0, *(const size_t *)context);
    return true;
}

/* A set of one tensor of blocks and one of scales, of these shapes, which holds the
 * matrices of two experts. */
static bool splits(size_t rank, const size_t shape[4], const char *dtype,
                   const size_t scales[3], struct error *err)
{
    const struct safetensors_parts parts = {
        .experts = 2, .interleaved = true, .count = two_of, .name = number
    };
    size_t bytes[2] = { safetensors_dtype_bytes(dtype), 1 }, count;
    struct tensor_source sources[] = {
        { .name = "a_blocks",
          .dtype = dtype,
          .rank = rank,
          .read = read_zeros,
          .context = &bytes[0] },
        { .name = "a_scales",
          .dtype = "U8",
          .rank = 3,
          .read = read_zeros,
          .context = &bytes[1] },
    };
    char *dir = unit_dir_new(), *path = path_join(dir, "model.safetensors");
    struct safetensors *set;
    bool ok;

    memcpy(sources[0].shape, shape, rank * sizeof(*shape));
    memcpy(sources[1].shape, scales, 3 * sizeof(*scales));
    for (size_t i = 0; i < rank; i++)
        bytes[0] *= shape[i];
    for (size_t i = 0; i < 3; i++)
        bytes[1] *= scales[i];
    unit_must(safetensors_write(path, sources, 2, err), err);
    set = safetensors_open(dir, "model", false, err);
    unit_must(set != NULL, err);
    ok = safetensors_split(set, &parts, &count, err);
    if (ok)
        assert_int_equal(safetensors_count(set), 4);
    safetensors_close(set);
    free(path);
    unit_dir_free(dir);
    return ok;
}

static void test_mxfp4_of_another_shape_is_rejected(void **state)
{
    static const struct {
        size_t rank, shape[4];
        const char *dtype;
        size_t scales[3];
    } cases[] = {
        { 4, { 2, 6, 3, 15 }, "U8", { 2, 6, 3 } },
        { 4, { 2, 6, 3, 16 }, "I8", { 2, 6, 3 } },
        { 4, { 2, 6, 3, 16 }, "U8", { 2, 6, 2 } },
        { 4, { 2, 6, 3, 16 }, "U8", { 2, 3, 6 } },
        { 4, { 2, 6, 3, 16 }, "U8", { 1, 6, 3 } },
        { 4, { 3, 6, 3, 16 }, "U8", { 3, 6, 3 } },
        { 4, { 2, 5, 3, 16 }, "U8", { 2, 5, 3 } },
        { 4, { 2, 6, 0, 16 }, "U8", { 2, 6, 0 } },
        { 3, { 2, 6, 48 }, "U8", { 2, 6, 3 } },
    };
    static const size_t good[4] = { 2, 6, 3, 16 };
    struct error err = { 0 };

    (void)state;
    unit_must(splits(4, good, "U8", good, &err), &err);
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error why = { 0 };

        assert_false(
            splits(cases[i].rank, cases[i].shape, cases[i].dtype, cases[i].scales, &why));
        assert_int_equal(why.code, ERROR_DATA);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mxfp4_values_are_those_of_every_scale),
        cmocka_unit_test(test_mxfp4_model_is_the_dequantized_one),
        cmocka_unit_test(test_mxfp4_base_of_an_adapter_is_exported_in_bf16),
        cmocka_unit_test(test_mxfp4_base_can_be_kept_in_nf4),
        cmocka_unit_test(test_mxfp4_without_scales_is_rejected),
        cmocka_unit_test(test_mxfp4_of_another_shape_is_rejected),
    };

    return cmocka_run_group_tests(tests, architectures_setup, architectures_teardown);
}
