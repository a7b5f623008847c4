/*
 * tests/unit/test_golden_lora.c - an adapter in PEFT's format is read, trains as in PEFT,
 * is saved under PEFT's names, and merges to the same weights as in PEFT
 * (tests/golden/lora.py).
 */
#include "config.h"

#include "train/model/lora.h"

#include "tests/unit/unit_formula_adapter.h"
#include "tests/unit/unit_model.h"
#include "tests/unit/unit_prequantized.h"
#include "train/chat/template_saving.h"
#include "train/model/model_internal.h"
#include "train/model/plan_config.h"
#include "train/model/vocabulary_growth.h"
#include "train/tokenizer/tokenizer.h"

enum { LOGITS_KEPT = 32 };

static json_t *read_file(const char *path)
{
    char *name = unit_source(path);
    struct error err = { 0 };
    json_t *golden = json_read_file(name, (size_t)1 << 20, &err);

    unit_must(golden != NULL, &err);
    free(name);
    return golden;
}

static int read_golden(void **state)
{
    json_t *both = json_array();

    json_array_append_new(both, read_file("tests/golden/lora.json"));
    json_array_append_new(both, read_file("tests/golden/qlora.json"));
    json_array_append_new(both, read_file("tests/golden/prequantized.json"));
    json_array_append_new(both, read_file("tests/golden/dora.json"));
    json_array_append_new(both, read_file("tests/golden/pissa.json"));
    json_array_append_new(both, read_file("tests/golden/new_tokens.json"));
    json_array_append_new(both, read_file("tests/golden/saved_head.json"));
    json_array_append_new(both, read_file("tests/golden/oft.json"));
    *state = both;
    return 0;
}

static int drop_golden(void **state)
{
    json_decref(*state);
    return 0;
}

/* ---- Comparisons ---- */

static double norm_of(struct tensor t)
{
    double sum = 0;

    for (size_t row = 0; row < t.rows; row++)
        for (size_t i = 0; i < t.cols; i++) {
            double g = ((const float *)t.data)[row * t.stride + i];

            sum += g * g;
        }
    return sqrt(sum);
}

static void check_gradients(struct unit_model *u, const json_t *gradients)
{
    const char *name;
    json_t *wanted;

    assert_int_equal(model_trained_parameters(u->model), json_object_size(gradients));
    json_object_foreach((json_t *)gradients, name, wanted)
    {
        const struct parameter *p = unit_parameter(u, name);

        if (p == NULL)
            fail_msg("%s is missing", name);
        unit_assert_near(name, norm_of(p->grad), json_number_value(wanted), 1e-4);
    }
}

static void check_training(struct unit_model *u, const json_t *run,
                           const struct batch *batch)
{
    const json_t *losses = json_object_get(run, "losses");

    assert_int_equal(json_array_size(losses), 20);
    for (size_t i = 0; i < json_array_size(losses); i++) {
        unit_assert_near("loss before a step", unit_train(u, batch),
                         json_number_value(json_array_get(losses, i)), 1e-4);
        if (i == 0)
            check_gradients(u, json_object_get(run, "gradients"));
        unit_step(u, (int64_t)i + 1);
    }
}

/* Check for the same number of tensors with the same names and shapes. */
static void check_files(const char *dir, const json_t *tensors)
{
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(dir, "adapter_model", false, &err);
    size_t i;
    json_t *row;

    unit_must(set != NULL, &err);
    assert_int_equal(safetensors_count(set), json_array_size(tensors));
    json_array_foreach((json_t *)tensors, i, row)
    {
        const char *name = json_string_value(json_array_get(row, 0));
        const struct stored_tensor *t = safetensors_find(set, name);
        const json_t *shape = json_array_get(row, 1);

        if (t == NULL)
            fail_msg("%s is missing", name);
        assert_int_equal(t->rank, json_array_size(shape));
        for (size_t j = 0; j < t->rank; j++)
            assert_int_equal(t->shape[j], json_integer_value(json_array_get(shape, j)));
    }
    safetensors_close(set);
}

/* The settings PEFT relies on are in the saved adapter_config.json, with PEFT's
 * values. */
static void check_config(const char *dir, const json_t *theirs)
{
    static const char *const keys[] = { "peft_type",
                                        "r",
                                        "lora_alpha",
                                        "bias",
                                        "use_rslora",
                                        "fan_in_fan_out",
                                        "use_dora",
                                        "init_lora_weights",
                                        "oft_block_size",
                                        "use_cayley_neumann",
                                        "num_cayley_neumann_terms",
                                        "init_weights" };
    char *name = path_join(dir, "adapter_config.json");
    struct error err = { 0 };
    json_t *ours = json_read_file(name, (size_t)1 << 20, &err);

    unit_must(ours != NULL, &err);
    for (size_t i = 0; i < TS_COUNT(keys); i++) {
        const json_t *a = json_object_get(ours, keys[i]);
        const json_t *b = json_object_get(theirs, keys[i]);

        if (!a && !b)
            continue; /* of the other kind of adapters */
        if (json_is_number(a) ? json_number_value(a) != json_number_value(b)
                              : !json_equal(a, b))
            fail_msg("%s differs from PEFT's value", keys[i]);
    }
    json_decref(ours);
    free(name);
}

static void check_logits(struct unit_model *u, const json_t *rows, const json_t *wanted)
{
    float *logits = memory_alloc(u->config.vocab_size * sizeof(*logits));
    struct batch batch = { 0 };
    struct error err = { 0 };
    double most = 0;

    unit_batch_json(&batch, json_array_get(rows, 0));
    unit_must(model_logits(u->model, &batch, logits, &err), &err);
    assert_int_equal(json_array_size(wanted), LOGITS_KEPT);
    for (size_t i = 0; i < LOGITS_KEPT; i++)
        most = fmax(most, fabs(json_number_value(json_array_get(wanted, i))));
    for (size_t i = 0; i < LOGITS_KEPT; i++) {
        double b = json_number_value(json_array_get(wanted, i));

        if (!(fabs((double)logits[i] - b) <= 1e-4 * most))
            fail_msg("logit %zu is %.8g, PEFT's merged model has %.8g", i,
                     (double)logits[i], b);
    }
    unit_batch_free(&batch);
    free(logits);
}

/* Nothing is allocated that would leak if the model is absent and the test is skipped. */
static struct unit_model open_shared(const json_t *golden, const json_t *run)
{
    char name[64];
    struct unit_model u;

    snprintf(name, sizeof(name), "data/%s",
             json_string_value(json_object_get(run, "model")));
    u = unit_model_shared(name);
    u.plan.learning_rate = json_number_value(json_object_get(golden, "learning_rate"));
    return u;
}

/* Check the adapter on an open model: training and the saved files. */
static void check_adapter(struct unit_model *u, const json_t *golden, const json_t *run,
                          const char *merged)
{
    const json_t *rows = json_object_get(run, "rows"), *row;
    char *adapter =
             unit_adapter_new(run, json_number_value(json_object_get(golden, "scale"))),
         *saved = unit_dir_new();
    struct batch batch = { 0 };
    struct error err = { 0 };
    size_t i;

    json_array_foreach((json_t *)rows, i, row) unit_batch_json(&batch, row);
    u->plan.method = METHOD_LORA;
    u->plan.lora_rank = 99; /* the adapter's settings override the job's */
    u->plan.adapter_name_or_path = adapter;
    if (!u->config.quantized.enabled)
        unit_must(plan_config_read(&u->plan, u->plan.model_name_or_path, u->arena,
                                   &u->config, &err),
                  &err);
    unit_model_start(u, batch.rows, batch.sequences, 2);
    check_training(u, run, &batch);
    unit_must(model_save(u->model, saved, &err), &err);
    check_files(saved, json_object_get(run, "tensors"));
    check_config(saved, json_object_get(run, "config"));
    if (merged)
        unit_must(model_export(u->model, merged, &err), &err);
    unit_model_stop(u);
    unit_batch_free(&batch);
    unit_dir_free(adapter);
    unit_dir_free(saved);
}

static void check_merged(const char *dir, const json_t *run)
{
    struct unit_model u = { .arena = arena_new(), .plan = unit_plan(dir) };
    struct error err = { 0 };

    unit_must(model_config_read(dir, u.arena, &u.config, &err), &err);
    unit_model_start(&u, 64, 2, 2);
    if (json_object_get(run, "merged"))
        check_logits(&u, json_object_get(run, "rows"), json_object_get(run, "merged"));
    unit_model_stop(&u);
}

static void check_run(const json_t *golden, const char *name)
{
    const json_t *run = json_object_get(json_object_get(golden, "runs"), name);
    struct unit_model u = open_shared(golden, run);
    char *merged = unit_dir_new();

    u.plan.quantization_bit = json_object_get(run, "double_quantization") ? 4 : 0;
    u.plan.double_quantization =
        json_is_true(json_object_get(run, "double_quantization"));
    check_adapter(&u, golden, run, merged);
    check_merged(merged, run);
    unit_dir_free(merged);
}

/* The same over a folder whose files hold 4 bits: the job does not mention them. */
static void check_saved_run(const json_t *golden, const char *name)
{
    const json_t *run = json_object_get(json_object_get(golden, "runs"), name);
    struct unit_saved how = { .twice = json_is_true(
                                  json_object_get(run, "double_quantization")) };
    struct unit_model base = open_shared(golden, run), u = { .arena = arena_new() };
    struct error err = { 0 };
    char *dir;

    assert_true(
        format_find(json_string_value(json_object_get(run, "dtype")), &how.dtype));
    dir = unit_prequantized(base.plan.model_name_or_path, &how);
    u.plan = base.plan;
    u.plan.model_name_or_path = dir;
    unit_must(model_config_read(dir, u.arena, &u.config, &err), &err);
    check_adapter(&u, golden, run, NULL);
    unit_model_stop(&base);
    unit_dir_free(dir);
}

static void test_lora_matches_peft_on_llama(void **state)
{
    check_run(json_array_get(*state, 0), "llama");
}

static void test_lora_matches_peft_on_some_modules_with_rslora(void **state)
{
    check_run(json_array_get(*state, 0), "llama some");
}

static void test_lora_matches_peft_on_qwen2(void **state)
{
    check_run(json_array_get(*state, 0), "qwen2");
}

/* tests/golden/qlora.py: the base quantized to 4 bits by bitsandbytes. */
static void test_qlora_matches_bitsandbytes(void **state)
{
    check_run(json_array_get(*state, 1), "llama");
}

static void test_qlora_with_double_quantization_matches_bitsandbytes(void **state)
{
    check_run(json_array_get(*state, 1), "llama twice");
}

/* Its rows are not a multiple of a block: a block continues in the next row. */
static void test_qlora_on_qwen2_matches_bitsandbytes(void **state)
{
    check_run(json_array_get(*state, 1), "qwen2");
    check_run(json_array_get(*state, 1), "qwen2 twice");
}

/* tests/golden/prequantized.py: the base as saved by transformers. */
static void test_lora_over_a_4_bit_file_matches_bitsandbytes(void **state)
{
    check_saved_run(json_array_get(*state, 2), "llama");
}

static void test_lora_over_a_double_quantized_file_matches_bitsandbytes(void **state)
{
    check_saved_run(json_array_get(*state, 2), "llama twice");
}

/* tests/golden/dora.py: magnitudes of rows, over whole and over 4-bit weights. */
static void test_dora_matches_peft(void **state)
{
    check_run(json_array_get(*state, 3), "llama");
    check_run(json_array_get(*state, 3), "qwen2 some");
}

static void test_dora_over_4_bits_matches_peft(void **state)
{
    check_run(json_array_get(*state, 3), "llama twice");
}

/* tests/golden/oft.py: rotated inputs, by the series and exactly, over whole and over 4-bit
 * weights; 172 inputs have blocks of 4 instead of 16. */
static void test_rotations_match_peft(void **state)
{
    check_run(json_array_get(*state, 7), "llama");
    check_run(json_array_get(*state, 7), "llama exact");
    check_run(json_array_get(*state, 7), "qwen2 some");
}

static void test_rotations_over_4_bits_match_peft(void **state)
{
    check_run(json_array_get(*state, 7), "llama twice");
}

/* ---- Adapters that start as a part of the weights ---- */

/* Set the plan to the settings of a run of PEFT. */
static void set_plan(struct plan *plan, const json_t *run)
{
    const json_t *config = json_object_get(run, "config");
    const json_t *targets = json_object_get(config, "target_modules"), *name;
    static char names[256];
    size_t i;

    names[0] = 0;
    json_array_foreach((json_t *)targets, i, name)
    {
        strcat(names, i > 0 ? "," : "");
        strcat(names, json_string_value(name));
    }
    plan->method = METHOD_LORA;
    plan->lora_target = names;
    plan->lora_rank = json_integer_value(json_object_get(config, "r"));
    plan->lora_alpha = json_number_value(json_object_get(config, "lora_alpha"));
    plan->use_rslora = json_is_true(json_object_get(config, "use_rslora"));
    plan->use_dora = json_is_true(json_object_get(config, "use_dora"));
    plan->pissa_init = true;
}

/* Norm of B A of a layer. */
static double product_norm(struct unit_model *u, const char *layer)
{
    char name[128];
    const struct parameter *a, *b;
    double squares = 0;

    snprintf(name, sizeof(name), "base_model.model.%s.lora_A.weight", layer);
    a = unit_parameter(u, name);
    snprintf(name, sizeof(name), "base_model.model.%s.lora_B.weight", layer);
    b = unit_parameter(u, name);
    for (size_t o = 0; o < b->rows; o++)
        for (size_t i = 0; i < a->cols; i++) {
            double sum = 0;

            for (size_t k = 0; k < a->rows; k++)
                sum += (double)((const float *)b->weight.data)[o * b->cols + k] *
                       ((const float *)a->weight.data)[k * a->cols + i];
            squares += sum * sum;
        }
    return sqrt(squares);
}

/* Check the merged model that an adapter of a folder makes. */
static void check_reloaded(const struct plan *plan, const json_t *run, const char *dir)
{
    struct unit_model u = { .arena = arena_new(), .plan = *plan };
    struct error err = { 0 };

    u.plan.pissa_init = false;
    u.plan.adapter_name_or_path = dir;
    u.plan.generation.alone = true;
    unit_must(model_config_read(plan->model_name_or_path, u.arena, &u.config, &err),
              &err);
    unit_model_start(&u, 64, 2, 1);
    check_logits(&u, json_object_get(run, "rows"), json_object_get(run, "merged"));
    unit_model_stop(&u);
}

/* Save what was trained in each form, and read it again. */
static void check_saved_forms(struct unit_model *u, const json_t *run)
{
    char *plain = unit_dir_new(), *converted = unit_dir_new(), *merged = unit_dir_new();
    struct error err = { 0 };

    unit_must(model_save(u->model, plain, &err), &err);
    check_files(plain, json_object_get(run, "tensors"));
    check_config(plain, json_object_get(run, "config"));
    unit_must(model_save_converted(u->model, converted, &err), &err);
    unit_must(model_export(u->model, merged, &err), &err);
    check_merged(merged, run);
    check_reloaded(&u->plan, run, plain);
    check_reloaded(&u->plan, run, converted);
    unit_dir_free(plain);
    unit_dir_free(converted);
    unit_dir_free(merged);
}

static void check_pissa(const json_t *golden, const char *name)
{
    const json_t *run = json_object_get(json_object_get(golden, "runs"), name);
    const json_t *rows = json_object_get(run, "rows"), *row, *norm;
    struct unit_model u = open_shared(golden, run);
    struct batch batch = { 0 };
    const char *layer;
    size_t i;

    json_array_foreach((json_t *)rows, i, row) unit_batch_json(&batch, row);
    set_plan(&u.plan, run);
    unit_model_start(&u, batch.rows, batch.sequences, 2);
    json_object_foreach((json_t *)json_object_get(run, "start"), layer, norm)
        unit_assert_near(layer, product_norm(&u, layer), json_number_value(norm), 1e-5);
    check_training(&u, run, &batch);
    check_saved_forms(&u, run);
    unit_model_stop(&u);
    unit_batch_free(&batch);
}

static void test_pissa_matches_peft(void **state)
{
    check_pissa(json_array_get(*state, 4), "llama");
    check_pissa(json_array_get(*state, 4), "llama dora");
    check_pissa(json_array_get(*state, 4), "qwen2 some");
}

/* Embeddings and head are one matrix in the files, but not in the adapter. */
static void test_saved_head_matches_peft(void **state)
{
    check_run(json_array_get(*state, 6), "both");
    check_run(json_array_get(*state, 6), "head");
}

/* ---- New tokens ---- */

static void check_ids(const struct tokenizer *tokenizer, const json_t *texts)
{
    const json_t *row;
    size_t i;

    json_array_foreach((json_t *)texts, i, row)
    {
        const char *text = json_string_value(json_array_get(row, 0));
        const json_t *ids = json_array_get(row, 1);
        struct token_list found = { 0 };
        struct error err = { 0 };
        struct text decoded;

        unit_must(tokenizer_encode(tokenizer, text, strlen(text), false, &found, &err),
                  &err);
        assert_int_equal(found.count, json_array_size(ids));
        for (size_t j = 0; j < found.count; j++)
            assert_int_equal(found.ids[j], json_integer_value(json_array_get(ids, j)));
        text_init(&decoded, 0);
        assert_true(tokenizer_decode(tokenizer, found.ids, found.count, true, &decoded));
        assert_string_equal(decoded.data, json_string_value(json_array_get(row, 2)));
        text_clear(&decoded);
        token_list_clear(&found);
    }
}

/* Return the distance of a row from the mean of the first `count`. */
static double distance_from_mean(const struct parameter *p, size_t row, size_t count)
{
    const float *w = p->weight.data;
    double squares = 0;

    for (size_t j = 0; j < p->cols; j++) {
        double mean = 0;

        for (size_t i = 0; i < count; i++)
            mean += (double)w[i * p->cols + j] / (double)count;
        squares += (w[row * p->cols + j] - mean) * (w[row * p->cols + j] - mean);
    }
    return sqrt(squares);
}

/* The rows of the files stay; new tokens get the mean and noise, whose length is about 1;
 * the others are as in a new model. */
static void check_rows(struct unit_model *u, const json_t *golden)
{
    size_t tokens = (size_t)json_integer_value(json_object_get(golden, "tokens"));
    struct unit_model base = unit_model_shared("data/stories260K/hf");
    const struct parameter *now = u->model->embed, *was;

    unit_model_start(&base, 8, 1, 1);
    was = base.model->embed;
    assert_int_equal(now->rows, json_integer_value(json_object_get(golden, "rows")));
    assert_memory_equal(now->weight.data, was->weight.data,
                        was->rows * was->cols * sizeof(float));
    for (size_t row = was->rows; row < now->rows; row++) {
        double distance = distance_from_mean(now, row, was->rows);

        assert_true(row < tokens ? distance > 0.6 && distance < 1.4 : distance > 0.01);
    }
    unit_model_stop(&base);
}

static void test_new_tokens_match_transformers(void **state)
{
    const json_t *golden = json_array_get(*state, 5);
    struct unit_model u = unit_model_shared("data/stories260K/hf");
    const char *dir = u.plan.model_name_or_path;
    char *saved = unit_dir_new();
    struct template_saving saving;
    struct tokenizer *tokenizer;
    struct new_tokens more;
    struct error err = { 0 };

    u.plan.add_tokens = json_string_value(json_object_get(golden, "normal"));
    u.plan.add_special_tokens = json_string_value(json_object_get(golden, "special"));
    more = plan_new_tokens(&u.plan, &u.config);
    tokenizer = tokenizer_open_with(dir, &more, &err);
    unit_must(tokenizer != NULL, &err);
    check_ids(tokenizer, json_object_get(golden, "texts"));
    unit_must(vocabulary_grow(&u.plan, dir, u.arena, &u.config, &err), &err);
    u.plan.train_from_scratch = false;
    unit_model_start(&u, 8, 1, 1);
    check_rows(&u, golden);
    template_saving_make(tokenizer, NULL, NULL, &saving);
    model_set_saving(u.model, &saving);
    unit_must(model_save(u.model, saved, &err), &err);
    tokenizer_close(tokenizer);
    tokenizer = tokenizer_open(saved, &err);
    unit_must(tokenizer != NULL, &err);
    check_ids(tokenizer, json_object_get(golden, "texts"));
    unit_must(model_config_read(saved, u.arena, &u.config, &err), &err);
    assert_int_equal(u.config.vocab_size,
                     json_integer_value(json_object_get(golden, "rows")));
    tokenizer_close(tokenizer);
    template_saving_clear(&saving);
    unit_model_stop(&u);
    unit_dir_free(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lora_matches_peft_on_llama),
        cmocka_unit_test(test_lora_matches_peft_on_some_modules_with_rslora),
        cmocka_unit_test(test_lora_matches_peft_on_qwen2),
        cmocka_unit_test(test_qlora_matches_bitsandbytes),
        cmocka_unit_test(test_qlora_with_double_quantization_matches_bitsandbytes),
        cmocka_unit_test(test_qlora_on_qwen2_matches_bitsandbytes),
        cmocka_unit_test(test_lora_over_a_4_bit_file_matches_bitsandbytes),
        cmocka_unit_test(test_lora_over_a_double_quantized_file_matches_bitsandbytes),
        cmocka_unit_test(test_dora_matches_peft),
        cmocka_unit_test(test_dora_over_4_bits_matches_peft),
        cmocka_unit_test(test_rotations_match_peft),
        cmocka_unit_test(test_rotations_over_4_bits_match_peft),
        cmocka_unit_test(test_pissa_matches_peft),
        cmocka_unit_test(test_saved_head_matches_peft),
        cmocka_unit_test(test_new_tokens_match_transformers),
    };

    return cmocka_run_group_tests(tests, read_golden, drop_golden);
}
