/* tests/unit/test_packed.c - a model whose weights are in FP8, NVFP4 or MXFP4 is the model that
 * transformers, compressed-tensors or Model Optimizer dequantizes (tests/golden/fp8.py), and
 * is saved without quantization_config. */
#include "config.h"

#define GOLDEN_FILE "tests/golden/fp8.json"
#include "tests/unit/unit_packed.h"

#include "precision/packed.h"

static const json_t *hex_of(const json_t *from, const char *key)
{
    return json_object_get(json_object_get(from, key), "hex");
}

/* ---- Codes ---- */

static void test_codes_are_those_of_torch(void **state)
{
    static const float one = 1;
    size_t bytes;
    unsigned char *expected = unhex(hex_of(golden, "codes"), &bytes), codes[256];
    const struct packed packed = { .code = PACKED_E4M3,
                                   .scale = SCALE_FP32,
                                   .codes = codes,
                                   .scales = &one,
                                   .cols = 256,
                                   .block_rows = 1,
                                   .block_cols = 256,
                                   .factor = 1 };
    float out[256];

    (void)state;
    for (unsigned i = 0; i < 256; i++)
        codes[i] = (unsigned char)i;
    packed_read(&packed, 0, out);
    assert_int_equal(bytes, sizeof(out));
    for (unsigned i = 0; i < 256; i++) {
        float value;

        memcpy(&value, expected + i * sizeof(value), sizeof(value));
        if (isnan(value))
            assert_true(isnan(out[i]));
        else
            assert_memory_equal(&out[i], &value, sizeof(value));
    }
    free(expected);
}

static void test_last_blocks_are_smaller(void **state)
{
    const json_t *from = json_object_get(golden, "blocks");
    size_t codes, scales, values;
    struct packed packed = { .code = PACKED_E4M3,
                             .scale = SCALE_FP32,
                             .codes = unhex(hex_of(from, "codes"), &codes),
                             .scales = unhex(hex_of(from, "scales"), &scales),
                             .cols = 27,
                             .block_rows = 8,
                             .block_cols = 16,
                             .factor = 1 };
    unsigned char *expected = unhex(hex_of(from, "values"), &values);
    float out[27];

    (void)state;
    assert_int_equal(codes, 20 * 27);
    assert_int_equal(scales, 3 * 2 * sizeof(float));
    for (size_t i = 0; i < 20; i++) {
        packed_read(&packed, i, out);
        assert_memory_equal(out, expected + i * sizeof(out), sizeof(out));
    }
    free((void *)packed.codes);
    free((void *)packed.scales);
    free(expected);
}

/* ---- Files ---- */

static void test_packed_models_are_the_dequantized_ones(void **state)
{
    const json_t *models = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(models); i++)
        check_packed(json_array_get(models, i));
}

/* The merged model has the format that config.json says. */
static void test_packed_base_of_an_adapter_is_exported_in_its_dtype(void **state)
{
    const json_t *one = find_case("models", "fp8-blocks");
    char *dir = packed_folder(one, NULL), *to = unit_dir_new();
    struct unit_model u = open_adapter(dir);
    const struct stored_tensor *t;
    struct safetensors *set;

    (void)state;
    u.config.dtype = FORMAT_BF16;
    set = export_packed(&u, one, to);
    t = safetensors_find(set, "model.layers.0.self_attn.q_proj.weight");
    assert_true(t && t->rank == 2 && t->format == FORMAT_BF16);
    assert_null(
        safetensors_find(set, "model.layers.0.self_attn.q_proj.weight_scale_inv"));
    safetensors_close(set);
    unit_dir_free(dir);
    unit_dir_free(to);
}

static void test_packed_base_can_be_kept_in_nf4(void **state)
{
    (void)state;
    check_packed_in_nf4(find_case("models", "fp8-experts"));
}

/* ---- Errors ---- */

static bool without_scales(struct tensor_source *s)
{
    return !text_starts(s->name, "model.layers.1.mlp.up_proj.weight_");
}

/* 3072 codes and 16 scales of down_proj, as 8 matrices whose last blocks have 8 rows. */
static bool with_smaller_blocks_of_experts(struct tensor_source *s)
{
    static const char codes[] = "model.layers.1.mlp.experts.down_proj";
    static const size_t of_codes[] = { 8, 24, 16 }, of_scales[] = { 8, 2, 1 };

    if (text_starts(s->name, codes))
        memcpy(s->shape, s->name[strlen(codes)] ? of_scales : of_codes, sizeof(of_codes));
    return true;
}

static bool with_scales_of_other_experts(struct tensor_source *s)
{
    if (strcmp(s->name, "model.layers.1.mlp.experts.down_proj_scale_inv") == 0) {
        s->shape[0] = 2;
        s->shape[1] = 4;
    }
    return true;
}

/* Codes instead of scales, which have scales themselves. */
static bool with_codes_of_codes(struct tensor_source *s)
{
    if (strcmp(s->name, "model.layers.0.mlp.up_proj.weight") == 0)
        s->name = "model.layers.1.mlp.up_proj.qscale_weight";
    if (strcmp(s->name, "model.layers.0.mlp.up_proj.weight_scale_inv") == 0)
        s->name = "model.layers.1.mlp.up_proj.qscale_weight_scale_inv";
    return without_scales(s);
}

static bool with_turned_scales(struct tensor_source *s)
{
    size_t rows = s->shape[0];

    if (strcmp(s->name, "model.layers.1.mlp.up_proj.weight_scale_inv") == 0) {
        s->shape[0] = s->shape[1];
        s->shape[1] = rows;
    }
    return true;
}

static bool with_more_dimensions(struct tensor_source *s)
{
    if (strcmp(s->name, "model.layers.1.mlp.up_proj.weight") == 0) {
        s->shape[s->rank++] = 1;
        s->shape[s->rank++] = 1;
    }
    return true;
}

static bool without_global_scale(struct tensor_source *s)
{
    return !text_ends(s->name, "1.mlp.up_proj.weight_global_scale");
}

static bool with_integers(struct tensor_source *s)
{
    if (strcmp(s->name, "model.layers.1.mlp.up_proj.weight_scale") == 0)
        s->dtype = "U8";
    return true;
}

static void test_other_tensors_are_rejected(void **state)
{
    static const struct {
        const char *name;
        edit change;
        const char *said;
    } cases[] = {
        { "fp8-blocks", without_scales,
          "model.layers.1.mlp.up_proj.weight is F8_E4M3, and its scales are missing" },
        { "fp8-blocks", with_turned_scales,
          "are F32 with 6 elements, which are not those" },
        { "fp8-blocks", with_more_dimensions, "has 4 dimensions in F8_E4M3" },
        { "fp8-blocks", with_codes_of_codes,
          "model.layers.1.mlp.up_proj.weight is F8_E4M3, and its scales are missing" },
        { "fp8-joined-experts", with_smaller_blocks_of_experts,
          "are F32 with 16 elements, which are not those" },
        { "fp8-joined-experts", with_scales_of_other_experts,
          "are F32 with 16 elements, which are not those" },
        { "compressed-nvfp4", without_global_scale, "its scales are missing" },
        { "compressed-nvfp4", with_integers, "are U8 with 96 elements" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char *dir = packed_folder(find_case("models", cases[i].name), cases[i].change);
        struct unit_model u = open_folder(dir);
        struct error err = { 0 };

        if (weights_check(dir, &u.config, &err) || !strstr(err.text, cases[i].said))
            fail_msg("%zu: %s", i, err.text);
        unit_dir_free(dir);
        arena_free(u.arena);
    }
}

static size_t one_of(const void *context, const char *name)
{
    (void)context;
    return name[0] == 'a';
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

/* Divide a tensor of two experts in FP8, with one scale. */
static bool splits(const char *name, size_t rank, bool transposed, struct error *err)
{
    const struct safetensors_packing packing = { .format = FORMAT_BF16 };
    const struct safetensors_parts parts = {
        .experts = 2, .transposed = transposed, .count = one_of, .name = number
    };
    size_t bytes[2] = { rank == 3 ? 2 * 3 * 4 : 2 * 3, sizeof(float) }, count;
    char scale[32], *dir = unit_dir_new(), *path = path_join(dir, "model.safetensors");
    struct tensor_source sources[] = {
        { .name = name,
          .dtype = "F8_E4M3",
          .rank = rank,
          .shape = { 2, 3, 4 },
          .read = read_zeros,
          .context = &bytes[0] },
        { .name = scale, .dtype = "F32", .read = read_zeros, .context = &bytes[1] },
    };
    struct safetensors *set;
    bool ok;

    snprintf(scale, sizeof(scale), "%s_scale", name);
    unit_must(safetensors_write(path, sources, 2, err), err);
    set = safetensors_open(dir, "model", false, err);
    unit_must(set && safetensors_unpack(set, &packing, err), err);
    ok = safetensors_split(set, &parts, &count, err);
    if (ok)
        assert_int_equal(safetensors_count(set), 2);
    safetensors_close(set);
    free(path);
    unit_dir_free(dir);
    return ok;
}

static void test_experts_in_fp8_are_rows(void **state)
{
    struct error err = { 0 }, transposed = { 0 }, bias = { 0 };

    (void)state;
    unit_must(splits("a", 3, false, &err), &err);
    assert_false(splits("a", 3, true, &transposed));
    assert_non_null(strstr(transposed.text, "a is transposed, which is not supported"));
    assert_false(splits("a_bias", 2, false, &bias));
    assert_non_null(strstr(bias.text, "a_bias is a bias, which is not supported"));
}

static bool parse(const char *text, struct packed_config *out, struct error *err)
{
    json_t *root = json_read_text(text, strlen(text), "config.json", 1, err);
    bool ok;

    unit_must(root != NULL, err);
    ok = packed_config_read(root, "config.json", false, out, err);
    json_decref(root);
    return ok;
}

#define OF(method, more) \
    "{\"quantization_config\": {\"quant_method\": \"" method "\"" more "}}"

static void test_config_is_read(void **state)
{
    struct packed_config is;
    struct error err = { 0 };

    (void)state;
    unit_must(parse("{}", &is, &err), &err);
    assert_false(is.enabled);
    unit_must(parse(OF("gptq", ", \"bits\": 4"), &is, &err), &err);
    assert_false(is.enabled);
    unit_must(parse(OF("mxfp4", ""), &is, &err), &err);
    assert_false(is.enabled);
    unit_must(parse(OF("fp8", ""), &is, &err), &err);
    assert_true(is.enabled && is.block_rows == 128 && is.block_cols == 128);
    unit_must(parse(OF("fp8", ", \"weight_block_size\": null"), &is, &err), &err);
    assert_true(is.enabled && is.block_rows == 0);
    unit_must(parse(OF("fp8", ", \"weight_block_size\": [64, 32]"), &is, &err), &err);
    assert_true(is.block_rows == 64 && is.block_cols == 32);
    unit_must(parse(OF("compressed-tensors",
                       ", \"format\": \"float-quantized\", \"config_groups\": {\"a\": "
                       "{\"weights\": {\"block_structure\": [128, 64]}}}"),
                    &is, &err),
              &err);
    assert_true(is.enabled && is.block_rows == 128 && is.block_cols == 64);
    unit_must(parse(OF("compressed-tensors",
                       ", \"format\": \"mixed-precision\", \"config_groups\": {\"a\": "
                       "{\"format\": \"nvfp4-pack-quantized\"}, \"b\": {\"format\": "
                       "\"float-quantized\", \"weights\": {\"block_structure\": "
                       "\"128x32\"}}, \"c\": {\"format\": null}}"),
                    &is, &err),
              &err);
    assert_true(is.enabled && is.block_rows == 128 && is.block_cols == 32);
    unit_must(parse(OF("mxfp8", ", \"weight_block_size\": [1, 32]"), &is, &err), &err);
    assert_true(is.enabled && is.block_rows == 1 && is.block_cols == 32);
    unit_must(parse(OF("fbgemm_fp8", ", \"activation_scale_ub\": 1200.0"), &is, &err),
              &err);
    assert_true(is.enabled && is.block_rows == 0);
}

/* Such folders were published without quantization_config. */
static void test_file_of_model_optimizer_is_read(void **state)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        { "{\"producer\": {\"name\": \"modelopt\"}, \"quantization\": {\"quant_algo\": "
          "\"FP8\", \"kv_cache_quant_algo\": \"FP8\", \"exclude_modules\": [\"lm_head\"]}}",
          NULL },
        { "{\"quantization\": {\"quant_algo\": \"W4A8_AWQ\"}}",
          "quant_algo \"W4A8_AWQ\"" },
        { "{\"quantization\": ", "invalid JSON" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        const json_t *one = find_case("models", "modelopt-fp8");
        char *dir = packed_folder(one, NULL),
             *path = path_join(dir, "hf_quant_config.json");
        json_t *config = json_deep_copy(json_object_get(one, "config"));
        struct model_config parsed;
        struct arena *arena = arena_new();
        struct error err = { 0 };
        bool ok;

        json_object_del(config, "quantization_config");
        put_json(config, dir, "config.json");
        unit_must(file_replace(path, rows[i].text, strlen(rows[i].text), 0666, &err),
                  &err);
        ok = model_config_read(dir, arena, &parsed, &err);
        if (rows[i].said ? ok || !strstr(err.text, rows[i].said) : !ok)
            fail_msg("%zu: %s", i, err.text);
        assert_int_equal(ok, parsed.packed.enabled && weights_check(dir, &parsed, &err));
        json_decref(config);
        arena_free(arena);
        free(path);
        unit_dir_free(dir);
    }
}

static void test_other_configs_are_rejected(void **state)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        { OF("fp8", ", \"activation_scheme\": \"tensor\""), "activation_scheme" },
        { OF("fp8", ", \"weight_block_size\": [128]"), "weight_block_size must be" },
        { OF("fp8", ", \"weight_block_size\": [0, 128]"), "weight_block_size must be" },
        { OF("fp8", ", \"weight_block_size\": 128"), "weight_block_size must be" },
        { OF("fp8", ", \"expert_dtype\": \"fp4\""), "expert_dtype \"fp4\"" },
        { OF("fp8", ", \"scale_fmt\": 3"), "scale_fmt of this type" },
        { OF("compressed-tensors", ""), "requires a format" },
        { OF("compressed-tensors",
             ", \"format\": \"mixed-precision\", \"config_groups\": "
             "{\"a\": {\"format\": \"pack-quantized\"}}"),
          "only float-quantized, naive-quantized, nvfp4-pack-quantized, " },
        { OF("compressed-tensors",
             ", \"format\": \"float-quantized\", \"config_groups\": {\"a\": {\"weights\": "
             "{\"block_structure\": [128, 128]}}, \"b\": {\"weights\": "
             "{\"block_structure\": [128, 64]}}}"),
          "block_structure [128, 64] is not that of the groups before" },
        { OF("compressed-tensors",
             ", \"format\": \"float-quantized\", \"config_groups\": {\"a\": {\"weights\": "
             "{\"block_structure\": \"128x\"}}}"),
          "block_structure must be" },
        { OF("compressed-tensors",
             ", \"format\": \"float-quantized\", \"config_groups\": {\"a\": {\"weights\": "
             "{\"block_structure\": \"128x128x2\"}}}"),
          "block_structure must be" },
        { OF("compressed-tensors", ", \"format\": \"int-quantized\""), "int-quantized" },
        { OF("compressed-tensors", ", \"format\": \"pack-quantized\""),
          "pack-quantized" },
        { OF("compressed-tensors",
             ", \"format\": \"float-quantized\", \"sparsity_config\": {\"format\": "
             "\"sparse-bitmask\"}"),
          "sparsity_config sparse-bitmask" },
        { OF("modelopt", ", \"quant_algo\": \"W4A8_AWQ\""), "quant_algo \"W4A8_AWQ\"" },
    };
    struct packed_config is;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct error err = { 0 };

        assert_false(parse(rows[i].text, &is, &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, rows[i].said) || !strstr(err.text, "config.json"))
            fail_msg("%s: %s", rows[i].text, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_are_those_of_torch),
        cmocka_unit_test(test_last_blocks_are_smaller),
        cmocka_unit_test(test_packed_models_are_the_dequantized_ones),
        cmocka_unit_test(test_packed_base_of_an_adapter_is_exported_in_its_dtype),
        cmocka_unit_test(test_packed_base_can_be_kept_in_nf4),
        cmocka_unit_test(test_other_tensors_are_rejected),
        cmocka_unit_test(test_experts_in_fp8_are_rows),
        cmocka_unit_test(test_config_is_read),
        cmocka_unit_test(test_file_of_model_optimizer_is_read),
        cmocka_unit_test(test_other_configs_are_rejected),
    };

    return cmocka_run_group_tests(tests, architectures_setup, architectures_teardown);
}
