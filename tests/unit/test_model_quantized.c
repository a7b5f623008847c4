/*
 * tests/unit/test_model_quantized.c - training with a base in 4 bits equals training with
 * a base that already has the dequantized weights, to the bit; and memory is as
 * estimated.
 */
#include "config.h"

#include "precision/nf4.h"
#include "tests/unit/unit_lora_run.h"
#include "train/model/matrix_layout.h"
#include "train/model/model_watch.h"
#include "train/model/shapes.h"

/* ---- The base, dequantized by the test ---- */

static bool is_linear(const struct model_config *c, const char *name)
{
    const struct architecture *a = c->architecture;

    if (!text_starts(name, a->base) || !text_ends(name, ".weight"))
        return false;
    for (enum module i = 0; i < MODULES; i++)
        if (a->paths[i] && module_is_linear(i) &&
            module_in_block(i) == text_starts(name, a->blocks) &&
            architecture_is_named(a, i, name, strlen(name) - strlen(".weight")))
            return true;
    return strstr(name, ".experts.") != NULL;
}

static void round_to(float *x, size_t count, enum format format)
{
    uint16_t narrow;

    for (size_t i = 0; format != FORMAT_FP32 && i < count; i++) {
        format_convert(&narrow, format, &x[i], FORMAT_FP32, 1);
        format_convert(&x[i], FORMAT_FP32, &narrow, format, 1);
    }
}

/* Quantize a row of values and dequantize it; the factors have 8 bits if `twice`. */
static void quantize_and_dequantize(float *x, size_t count, bool twice)
{
    size_t blocks = nf4_blocks(count);
    float *absmax = memory_alloc(blocks * sizeof(float));
    float *groups = memory_alloc(nf4_groups(blocks) * sizeof(float)), map[NF4_MAP], mean;
    uint8_t *codes = memory_alloc(nf4_bytes(count)), *bytes = memory_alloc(blocks);

    nf4_quantize(x, count, codes, absmax);
    if (twice) {
        nf4_map(map);
        mean = nf4_compress(absmax, blocks, bytes, groups);
        for (size_t i = 0; i < blocks; i++) {
            volatile float product = map[bytes[i]] * groups[i / NF4_GROUP];

            absmax[i] = product + mean;
        }
    }
    for (size_t i = 0; i < count; i++)
        x[i] = nf4_numbers[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4] *
               absmax[i / NF4_BLOCK];
    free(absmax);
    free(groups);
    free(codes);
    free(bytes);
}

/* A matrix ordered by key head is quantized in that order. */
static void quantize_matrix(const struct model_config *c, const struct parameter *p,
                            enum format frozen, bool twice)
{
    size_t numbers = p->rows * p->cols;
    float *in_file = memory_alloc(numbers * sizeof(*in_file));
    const struct matrix_layout layout = {
        .storage = storage_moves_rows(p->stored) ? p->stored : STORED_ROWS,
        .rows = p->rows,
        .cols = p->cols,
        .order = matrix_layout_order(c, p->stored, p->rows),
        .item = sizeof(*in_file),
    };

    matrix_layout_scatter(&layout, p->weight.data, 0, p->rows, in_file);
    round_to(in_file, numbers, frozen);
    quantize_and_dequantize(in_file, numbers, twice);
    round_to(in_file, numbers, frozen);
    matrix_layout_gather(&layout, in_file, 0, p->rows, p->weight.data);
    free(in_file);
}

static char *dequantized_folder(const char *base, enum format frozen, bool twice,
                                const char *except)
{
    char *dir = unit_dir_new();
    struct unit_model u = open_folder(base);
    struct error err = { 0 };
    size_t count = 0;

    start(&u);
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *p = model_parameter(u.model, i);

        if (p->rank == 2 && is_linear(&u.config, p->name) &&
            !(except && strstr(p->name, except))) {
            quantize_matrix(&u.config, p, frozen, twice);
            count++;
        }
    }
    assert_true(count >= 4 * u.config.layers);
    unit_must(model_save(u.model, dir, &err), &err);
    unit_model_stop(&u);
    return dir;
}

/* ---- Results ---- */

struct variant {
    enum format compute, frozen;
    bool twice, checkpointing;
    const char *target, *additional;
    bool rotates;
};

static void set_plan(struct unit_model *u, const struct variant *variant, int64_t bits)
{
    u->plan.method = METHOD_LORA;
    u->plan.lora_target = variant->target;
    u->plan.additional_target = variant->additional;
    u->plan.lora_dropout = 1e-30; /* separate adapters, as with a base in 4 bits */
    u->plan.learning_rate = 1e-2;
    u->plan.gradient_checkpointing = variant->checkpointing;
    u->plan.precision.compute = variant->compute;
    u->plan.precision.frozen = variant->frozen;
    u->plan.quantization_bit = bits;
    if (variant->rotates) {
        u->plan.method = METHOD_OFT;
        u->plan.oft_block_size = 8;
    }
    u->plan.double_quantization = variant->twice;
}

static struct found run(const char *dir, const struct variant *variant, int64_t bits)
{
    struct unit_model u = open_folder(dir);

    set_plan(&u, variant, bits);
    return run_adapted(&u);
}

static const struct variant ways[] = {
    { FORMAT_FP32, FORMAT_FP32, true, false, "all", NULL, false },
    { FORMAT_FP32, FORMAT_BF16, false, true, "all", NULL, false },
    { FORMAT_BF16, FORMAT_BF16, true, true, "all", NULL, false },
    { FORMAT_FP16, FORMAT_FP16, false, false, "all", NULL, false },
};

static const struct variant rotated[] = {
    { FORMAT_FP32, FORMAT_FP32, true, false, "all", NULL, true },
    { FORMAT_BF16, FORMAT_BF16, false, true, "all", NULL, true },
};

static void check_identity(const json_t *one, const struct variant *variant)
{
    char *dir = folder_of(one, NULL);
    char *widened =
        dequantized_folder(dir, variant->frozen, variant->twice, variant->additional);
    struct found narrow = run(dir, variant, 4), wide = run(widened, variant, 0),
                 plain = run(dir, variant, 0);

    assert_memory_equal(narrow.losses, wide.losses, sizeof(wide.losses));
    assert_true(narrow.norm == wide.norm);
    assert_true(narrow.losses[0] != plain.losses[0]);
    assert_true(narrow.losses[3] < narrow.losses[0]);
    unit_dir_free(dir);
    unit_dir_free(widened);
}

static void test_quantized_training_matches_dequantized_weights(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        for (size_t j = 0; j < TS_COUNT(ways); j++)
            check_identity(json_array_get(cases, i), &ways[j]);
}

/* Modules that are trained as a whole keep their weights and are not quantized, also in a
 * block. */
static void test_quantized_models_skip_trained_modules(void **state)
{
    static const struct variant whole = { FORMAT_BF16, FORMAT_BF16, true, false,
                                          "all",       "k_proj",    false };

    (void)state;
    check_identity(find_case("models", "llama"), &whole);
}

/* Compare the logits of a model that is trained for two steps with those of one that only
 * generates with the adapter that the first has saved, to the bit. */
static void check_alone(const json_t *one, const struct variant *variant)
{
    char *dir = folder_of(one, NULL), *adapter = unit_dir_new();
    struct unit_model u = open_folder(dir);
    size_t count = batch.sequences * u.config.vocab_size;
    float *trained = memory_alloc(count * sizeof(*trained)),
          *alone = memory_alloc(count * sizeof(*alone));
    struct error err = { 0 };
    uint64_t bytes;

    set_plan(&u, variant, 4);
    start(&u);
    fill_b(&u);
    for (int64_t i = 1; i <= 2; i++) {
        unit_train(&u, &batch);
        unit_step(&u, i);
    }
    unit_must(model_logits(u.model, &batch, trained, &err), &err);
    unit_must(model_save(u.model, adapter, &err), &err);
    bytes = model_memory(u.model)->low;
    unit_model_stop(&u);
    u = open_folder(dir);
    set_plan(&u, variant, 4);
    u.plan.adapter_name_or_path = adapter;
    u.plan.generation = (struct generation) {
        .on = true, .alone = true, .slots = 1, .max_new_tokens = 4
    };
    start(&u);
    assert_int_equal(model_trainable_elements(u.model), 0);
    assert_true(model_memory(u.model)->low < bytes);
    unit_must(model_logits(u.model, &batch, alone, &err), &err);
    assert_memory_equal(alone, trained, count * sizeof(*alone));
    unit_model_stop(&u);
    free(trained);
    free(alone);
    unit_dir_free(dir);
    unit_dir_free(adapter);
}

static void test_quantized_models_generate_as_trained(void **state)
{
    static const struct variant whole = { FORMAT_BF16, FORMAT_BF16,           true, false,
                                          "all",       "embed_tokens,k_proj", false };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(ways); i++)
        check_alone(find_case("models", "qwen2"), &ways[i]);
    check_alone(find_case("models", "gpt_neox"), &ways[0]);
    check_alone(find_case("models", "llama"), &whole);
}

static void test_quantized_models_with_rotations(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(rotated); i++) {
        check_identity(find_case("models", "llama"), &rotated[i]);
        check_identity(find_case("models", "gpt_neox"), &rotated[i]);
        check_alone(find_case("models", "qwen2"), &rotated[i]);
    }
}

/* The adapter is merged into the base as its files have it. */
static void test_quantized_models_merge_into_the_files(void **state)
{
    const json_t *one = find_case("models", "llama");
    char *dir = folder_of(one, NULL), *merged = unit_dir_new();
    struct unit_model u = open_folder(dir), plain;
    struct error err = { 0 };

    (void)state;
    set_plan(&u, &ways[0], 4);
    start(&u);
    unit_must(model_export(u.model, merged, &err), &err);
    unit_model_stop(&u);
    u = open_folder(dir);
    plain = open_folder(merged);
    start(&u);
    start(&plain);
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *a = model_parameter(u.model, i),
                               *b = model_parameter(plain.model, i);

        assert_memory_equal(a->weight.data, b->weight.data, tensor_bytes(a->weight));
    }
    unit_model_stop(&u);
    unit_model_stop(&plain);
    unit_dir_free(dir);
    unit_dir_free(merged);
}

/* A factor that is inf, as in a broken file, is found in the weights and in a pass. */
static void test_quantized_weights_are_watched(void **state)
{
    static const char name[] = "model.layers.1.mlp.up_proj.weight";
    char *dir = folder_of(find_case("models", "llama"), NULL);
    struct unit_model u = open_folder(dir);
    struct step_scalars numbers;
    struct error err = { 0 };
    struct watch watch;

    (void)state;
    set_plan(&u, &ways[1], 4);
    start(&u);
    numbers = unit_numbers(&u, batch.trained, 1);
    unit_must(model_watch_weights(u.model, &watch, &err), &err);
    assert_int_equal(watch.kind, WATCH_NOTHING);
    assert_true(watch.largest_output.largest > 0);
    unit_must(model_watch_batch(u.model, &batch, &numbers, &watch, &err), &err);
    assert_int_equal(watch.kind, WATCH_NOTHING);
    ((float *)unit_parameter(&u, name)->quantized.absmax)[0] = INFINITY;
    unit_must(model_watch_weights(u.model, &watch, &err), &err);
    assert_int_equal(watch.kind, WATCH_WEIGHT);
    assert_string_equal(watch.found.tensor, name);
    assert_int_equal(watch.found.layer, 1);
    unit_must(model_watch_batch(u.model, &batch, &numbers, &watch, &err), &err);
    assert_int_equal(watch.kind, WATCH_ACTIVATION);
    assert_string_equal(watch.found.operation, "dequantize");
    assert_string_equal(watch.found.tensor, name);
    assert_int_equal(watch.found.layer, 1);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantized_training_matches_dequantized_weights),
        cmocka_unit_test(test_quantized_models_skip_trained_modules),
        cmocka_unit_test(test_quantized_models_generate_as_trained),
        cmocka_unit_test(test_quantized_models_with_rotations),
        cmocka_unit_test(test_quantized_models_merge_into_the_files),
        cmocka_unit_test(test_quantized_weights_are_watched),
    };

    return cmocka_run_group_tests(tests, architectures_setup, architectures_teardown);
}
