/*
 * tests/unit/test_model_gptq.c - a base whose files are in the formats of GPTQ and AWQ
 * (tests/golden/gptq.py): every matrix has the published values, adapters train as in
 * PEFT, and damaged files are rejected.
 */
#include "config.h"

#include <unistd.h>

#include "base/base64.h"
#include "base/digest.h"
#include "tests/unit/unit_formula_adapter.h"
#include "tests/unit/unit_prequantized.h"
#include "train/model/weights.h"
#include "train/model/model_internal.h"
#include "train/model/shapes.h"

static int read_golden(void **state)
{
    char *name = unit_source("tests/golden/gptq.json");
    struct error err = { 0 };

    *state = json_read_file(name, (size_t)1 << 20, &err);
    unit_must(*state != NULL, &err);
    free(name);
    return 0;
}

static int drop_golden(void **state)
{
    json_decref(*state);
    return 0;
}

static const json_t *run_named(const json_t *golden, const char *name)
{
    const json_t *run = json_object_get(json_object_get(golden, "runs"), name);

    assert_non_null(run);
    return run;
}

/* Create the folder of a run; the caller frees it (unit_dir_free). */
static char *folder_of_run(const json_t *run)
{
    char *dir = unit_dir_new();
    const char *name;
    json_t *value;

    json_object_foreach(json_object_get(run, "files"), name, value)
    {
        const char *text = json_string_value(json_object_get(value, "base64"));
        char *path = path_join(dir, name);
        struct error err = { 0 };
        struct text bytes;

        text_init(&bytes, 0);
        if (text)
            assert_true(base64_decode(text, strlen(text), &bytes));
        else
            text_adds(&bytes, json_string_value(value));
        unit_must(file_replace(path, bytes.data, bytes.len, 0600, &err), &err);
        text_clear(&bytes);
        free(path);
    }
    return dir;
}

static struct unit_model open_dir(const char *dir)
{
    struct unit_model u = { .arena = arena_new(), .plan = unit_plan(dir) };
    struct error err = { 0 };

    unit_must(model_config_read(dir, u.arena, &u.config, &err), &err);
    u.plan.method = METHOD_LORA;
    return u;
}

/* ---- Values ---- */

static void check_matrix(struct unit_model *u, const char *name, const char *wanted)
{
    const struct parameter *p = unit_parameter(u, name);
    struct error err = { 0 };
    struct tensor to;
    char text[DIGEST_TEXT];

    assert_non_null(p);
    assert_non_null(p->quantized.codes);
    to = tensor_of(memory_alloc(p->rows * p->cols * sizeof(float)), FORMAT_FP32, p->rows,
                   p->cols);
    u->be->ops->dequantize(
        u->be, &(struct op_dequantize) {
                   .out = to, .x = p->quantized, .through = p->dequantized_format });
    unit_must(u->be->ops->sync(u->be, &err), &err);
    digest_bytes(to.data, tensor_bytes(to), text);
    if (strcmp(text, wanted) != 0)
        fail_msg("%s has other values", name);
    free(to.data);
}

static void test_matrices_have_the_published_values(void **state)
{
    const char *key, *name;
    json_t *run, *digest;

    assert_true(json_object_size(json_object_get(*state, "runs")) >= 9);
    json_object_foreach(json_object_get(*state, "runs"), key, run)
    {
        const json_t *digests = json_object_get(run, "digests");
        char *dir = folder_of_run(run);
        struct unit_model u = open_dir(dir);
        struct error err = { 0 };
        size_t quantized = 0;

        unit_must(weights_check(dir, &u.config, &err), &err);
        unit_model_start(&u, 8, 1, 1);
        json_object_foreach((json_t *)digests, name, digest)
            check_matrix(&u, name, json_string_value(digest));
        for (size_t i = 0; i < u.model->shapes.count; i++)
            quantized += u.model->parameters[i].quantized.codes != NULL;
        assert_int_equal(quantized, json_object_size(digests));
        unit_model_stop(&u);
        unit_dir_free(dir);
    }
}

/* ---- Training ---- */

static double norm_of(struct tensor t)
{
    double sum = 0;

    for (size_t i = 0; i < t.rows * t.cols; i++)
        sum += (double)((const float *)t.data)[i] * ((const float *)t.data)[i];
    return sqrt(sum);
}

static void check_steps(struct unit_model *u, const json_t *run,
                        const struct batch *batch)
{
    const json_t *losses = json_object_get(run, "losses"), *norm;
    const char *name;

    assert_int_equal(json_array_size(losses), 20);
    for (size_t i = 0; i < json_array_size(losses); i++) {
        unit_assert_near("loss before a step", unit_train(u, batch),
                         json_number_value(json_array_get(losses, i)), 1e-5);
        json_object_foreach((json_t *)(i == 0 ? json_object_get(run, "gradients") : NULL),
                            name, norm)
        {
            assert_non_null(unit_parameter(u, name));
            unit_assert_near(name, norm_of(unit_parameter(u, name)->grad),
                             json_number_value(norm), 1e-4);
        }
        unit_step(u, (int64_t)i + 1);
    }
}

/* Check that the folder has an adapter with PEFT's tensors, and nothing else. */
static void check_adapter(const char *dir, const json_t *tensors)
{
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(dir, "adapter_model", false, &err);
    const json_t *row;
    size_t i;

    unit_must(set != NULL, &err);
    assert_int_equal(safetensors_count(set), json_array_size(tensors));
    json_array_foreach((json_t *)tensors, i, row)
        assert_non_null(safetensors_find(set, json_string_value(json_array_get(row, 0))));
    safetensors_close(set);
}

/* The logits of a model that generates with the adapter are those of the trained one. */
static void check_alone(struct unit_model *trained, const char *adapter,
                        const struct batch *batch)
{
    struct unit_model u = open_dir(trained->plan.model_name_or_path);
    size_t count = batch->sequences * u.config.vocab_size;
    float *wanted = memory_alloc(count * sizeof(float)),
          *found = memory_alloc(count * sizeof(float));
    struct error err = { 0 };

    u.plan.adapter_name_or_path = adapter;
    u.plan.generation = (struct generation) {
        .on = true, .alone = true, .slots = 1, .max_new_tokens = 4
    };
    unit_model_start(&u, batch->rows, batch->sequences, 1);
    unit_must(model_logits(trained->model, batch, wanted, &err), &err);
    unit_must(model_logits(u.model, batch, found, &err), &err);
    assert_memory_equal(found, wanted, count * sizeof(float));
    unit_model_stop(&u);
    free(wanted);
    free(found);
}

static void check_run(const json_t *golden, const json_t *run, size_t threads)
{
    const json_t *rows = json_object_get(run, "rows"), *row;
    char *dir = folder_of_run(run), *saved = unit_dir_new();
    char *adapter =
        unit_adapter_new(run, json_number_value(json_object_get(golden, "scale")));
    struct unit_model u = open_dir(dir);
    struct memory_use estimate;
    struct batch batch = { 0 };
    struct error err = { 0 };
    size_t i;

    json_array_foreach((json_t *)rows, i, row) unit_batch_json(&batch, row);
    u.plan.learning_rate = json_number_value(json_object_get(golden, "learning_rate"));
    u.plan.adapter_name_or_path = adapter;
    unit_must(
        shapes_memory(&u.plan, &u.config, batch.rows, batch.sequences, &estimate, &err),
        &err);
    unit_model_start(&u, batch.rows, batch.sequences, threads);
    assert_int_equal(model_memory(u.model)->low, estimate.total);
    check_steps(&u, run, &batch);
    unit_must(model_save(u.model, saved, &err), &err);
    check_adapter(saved, json_object_get(run, "tensors"));
    check_alone(&u, saved, &batch);
    unit_model_stop(&u);
    unit_batch_free(&batch);
    unit_dir_free(adapter);
    unit_dir_free(saved);
    unit_dir_free(dir);
}

static void test_adapters_train_as_in_peft(void **state)
{
    const char *name;
    json_t *run;
    size_t threads = 1;

    json_object_foreach(json_object_get(*state, "runs"), name, run)
        check_run(*state, run, 1 + threads++ % 2);
}

/* Losses of three steps with new adapters, which change nothing at first. */
static void train_new(const json_t *run, enum method method, double *losses)
{
    char *dir = folder_of_run(run);
    struct unit_model u = open_dir(dir);
    struct batch batch = { 0 };
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(run, "rows"), i, row) unit_batch_json(&batch, row);
    u.plan.method = method;
    u.plan.oft_block_size = 4;
    u.plan.oft_target = u.config.experts > 0 ? "q_proj,v_proj" : "all";
    u.plan.learning_rate = 1e-2;
    unit_model_start(&u, batch.rows, batch.sequences, 2);
    for (i = 0; i < 3; i++) {
        losses[i] = unit_train(&u, &batch);
        unit_step(&u, (int64_t)i + 1);
    }
    unit_model_stop(&u);
    unit_batch_free(&batch);
    unit_dir_free(dir);
}

static void test_rotations_are_trained(void **state)
{
    const char *name;
    json_t *run;

    json_object_foreach(json_object_get(*state, "runs"), name, run)
    {
        double rotated[3], low_rank[3];

        train_new(run, METHOD_OFT, rotated);
        train_new(run, METHOD_LORA, low_rank);
        unit_assert_near(name, rotated[0], low_rank[0], 1e-6);
        assert_true(rotated[2] < rotated[1] && rotated[1] < rotated[0]);
    }
}

/* In 16 bits, values are rounded once: close to fp32. */
static void test_computing_in_16_bits_is_close(void **state)
{
    static const enum format formats[] = { FORMAT_BF16, FORMAT_FP16 };
    const json_t *run = run_named(*state, "gptq sorted");
    double wanted = json_number_value(json_array_get(json_object_get(run, "losses"), 0));
    char *dir = folder_of_run(run);

    for (size_t f = 0; f < TS_COUNT(formats); f++) {
        struct unit_model u = open_dir(dir);
        struct batch batch = { 0 };
        char *adapter =
            unit_adapter_new(run, json_number_value(json_object_get(*state, "scale")));
        json_t *row;
        size_t i;

        json_array_foreach(json_object_get(run, "rows"), i, row)
            unit_batch_json(&batch, row);
        u.plan.adapter_name_or_path = adapter;
        u.plan.precision.compute = u.plan.precision.frozen = formats[f];
        unit_model_start(&u, batch.rows, batch.sequences, 2);
        unit_assert_near("loss", unit_train(&u, &batch), wanted, 2e-3);
        unit_model_stop(&u);
        unit_batch_free(&batch);
        unit_dir_free(adapter);
    }
    unit_dir_free(dir);
}

/* Weights stay in 4 bits: their bytes are those of codes, scales and zero points. */
static void test_matrices_take_few_bytes(void **state)
{
    char *dir = folder_of_run(run_named(*state, "awq"));
    struct unit_model u = open_dir(dir);
    struct error err = { 0 };
    struct shapes shapes;
    size_t bytes = 0;

    unit_must(shapes_make(&u.plan, &u.config, 8, 1, u.arena, &shapes, &err), &err);
    for (size_t i = 0; i < shapes.count; i++)
        if (shapes.parameters[i].quantized)
            bytes += shapes_quantized_bytes(&shapes, shapes.parameters[i].rows,
                                            shapes.parameters[i].cols);
    /* 2 layers: 4 of 32 x 32, 2 of 64 x 32, 1 of 32 x 64; 5 bytes for 16 columns, and 4
     * for a column of each matrix */
    assert_int_equal(bytes, 2 * (10240 / 2 + 10240 / 16 * 5 + 4 * (6 * 32 + 64)));
    arena_free(u.arena);
    unit_dir_free(dir);
}

/* ---- Rejected files ---- */

#define K "model.layers.0.self_attn.k_proj"

/* Remove a tensor, rename it, give it another shape or type, or set one of its words. */
struct broken {
    const char *run, *name;
    bool out;
    const char *rename, *dtype;
    size_t rows, cols; /* 0: as before */
    bool sets;
    size_t at;
    uint32_t word;
    const char *message;
};

static void break_tensor(const struct broken *how, struct unit_tensor *list,
                         size_t *count)
{
    struct unit_tensor *t = unit_tensor_find(list, *count, how->name);

    if (how->out) {
        *t = list[--*count];
        return;
    }
    if (how->rename)
        t->name = how->rename;
    if (how->dtype)
        t->dtype = how->dtype;
    if (how->rows) {
        t->shape[0] = how->rows;
        t->shape[1] = how->cols;
        t->bytes =
            how->rows * (how->cols ? how->cols : 1) * safetensors_dtype_bytes(t->dtype);
    }
    if (how->sets)
        memcpy(t->data + how->at * sizeof(how->word), &how->word, sizeof(how->word));
}

/* Write the tensors of a folder again, with one of them broken. */
static void break_folder(const char *dir, const struct broken *how)
{
    struct unit_saving s = { .arena = arena_new() };
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(dir, "model", false, &err);
    char *name = path_join(dir, "model.safetensors");

    unit_must(set != NULL, &err);
    s.list = arena_array(s.arena, safetensors_count(set), sizeof(*s.list));
    for (size_t i = 0; i < safetensors_count(set); i++) {
        const struct stored_tensor *t = safetensors_at(set, i);
        struct unit_tensor *to = &s.list[s.count++];

        *to = (struct unit_tensor) { arena_strdup(s.arena, t->name),
                                     arena_strdup(s.arena, t->dtype),
                                     t->rank,
                                     { t->shape[0], t->rank > 1 ? t->shape[1] : 0, 0 },
                                     t->bytes,
                                     arena_alloc(s.arena, 2 * t->bytes) };
        memcpy(to->data, t->data, t->bytes);
    }
    safetensors_close(set);
    break_tensor(how, s.list, &s.count);
    assert_int_equal(unlink(name), 0);
    unit_write_tensors(&s, dir);
    free(name);
    arena_free(s.arena);
}

/* Load a folder; return whether that failed, and how. */
static bool is_rejected(const char *dir, struct error *err)
{
    struct unit_model u = open_dir(dir);
    bool ok;

    unit_model_open_backend(&u, 1);
    unit_model_make(&u, 8, 1);
    ok = model_load(u.model, err);
    unit_model_stop(&u);
    return !ok;
}

/* The headers show it, too. */
static void check_headers(const char *dir, const struct error *expected)
{
    struct unit_model u = open_dir(dir);
    struct error err = { 0 };

    assert_false(weights_check(dir, &u.config, &err));
    assert_string_equal(err.text, expected->text);
    arena_free(u.arena);
}

static void test_broken_files_are_rejected(void **state)
{
    static const struct broken rows[] = {
        { "gptq", K ".qweight", .out = true, .message = K ".qweight is missing" },
        { "gptq", K ".qzeros", .out = true, .message = K ".qzeros is missing" },
        { "gptq", K ".scales", .out = true, .message = K ".scales is missing" },
        { "gptq sorted", K ".g_idx", .out = true, .message = K ".g_idx is missing" },
        { "awq", K ".qzeros", .out = true, .message = K ".qzeros is missing" },
        { "gptq", K ".qweight", .rows = 4, .cols = 31, .message = "[4, 32]" },
        { "gptq", K ".qweight", .rows = 8, .cols = 32, .message = "[4, 32]" },
        { "gptq", K ".qweight", .rows = 128, .message = "[4, 32]" },
        { "gptq", K ".qweight", .dtype = "F32", .message = "is F32, but must be I32" },
        { "awq", K ".qweight", .rows = 4, .cols = 32, .message = "[32, 4]" },
        { "gptq", K ".qzeros", .rows = 1, .cols = 4, .message = "[2, 4]" },
        { "gptq", K ".scales", .rows = 2, .cols = 16, .message = "[2, 32]" },
        { "gptq", K ".scales", .dtype = "I16", .message = "must be F16, BF16 or F32" },
        { "gptq", K ".g_idx", .rows = 31, .message = "the shape [32]" },
        { "gptq", K ".g_idx", .sets = true, .at = 3, .word = 2,
          .message = K ".g_idx has the group 2 at 3, but there are 2 groups" },
        { "gptq sorted", K ".g_idx", .sets = true, .at = 31, .word = UINT32_MAX,
          .message = K ".g_idx has the group -1 at 31" },
        { "gptq", K ".bias", .sets = true, .at = 5, .word = 1,
          .message = K ".bias is not 0" },
        { "gptq", K ".qweight", .rename = K ".weight",
          .message = "modules_in_block_to_quantize" },
        { "awq", K ".qweight", .rename = K ".weight",
          .message = "modules_to_not_convert" },
        { "awq", "model.norm.weight", .rename = "lm_head.qweight",
          .message = "as modules_to_not_convert says" },
        { "gptq", K ".bias", .rename = "model.norm.bias",
          .message = "model.norm.bias is not part" },
    };

    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        char *dir = folder_of_run(run_named(*state, rows[i].run));
        struct error err = { 0 };

        break_folder(dir, &rows[i]);
        if (!is_rejected(dir, &err))
            fail_msg("case %zu is not rejected", i);
        if (!rows[i].sets && !rows[i].rename)
            check_headers(dir, &err);
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, rows[i].message))
            fail_msg("%s\nis not\n%s", err.text, rows[i].message);
        unit_dir_free(dir);
    }
}

/* Files with changed bytes load, or are rejected with a reason: nothing is read or written
 * out of bounds. */
static void test_changed_bytes_do_no_harm(void **state)
{
    static const char *const names[] = { "gptq sorted", "awq", "gptq 3 bits" };
    uint64_t seed = 1;
    size_t rejected = 0;

    for (size_t i = 0; i < 240; i++) {
        char *dir = folder_of_run(run_named(*state, names[i % TS_COUNT(names)]));
        char *name = path_join(dir, "model.safetensors");
        struct error err = { 0 };
        struct text bytes;

        text_init(&bytes, 0);
        unit_must(file_read(name, (size_t)1 << 20, &bytes, NULL, &err), &err);
        for (size_t k = 0; k < 1 + i % 4; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bytes.data[(seed >> 33) % (i % 2 ? bytes.len : 4096)] = (char)(seed >> 24);
        }
        unit_must(file_replace(name, bytes.data, bytes.len, 0600, &err), &err);
        if (is_rejected(dir, &err)) {
            assert_int_not_equal(err.code, ERROR_NONE);
            assert_true(strlen(err.text) > 0);
            rejected++;
        }
        text_clear(&bytes);
        free(name);
        unit_dir_free(dir);
    }
    assert_true(rejected > 20 && rejected < 220);
}

static void assert_no_layout(const char *dir, const struct plan *changes,
                             const char *message)
{
    struct unit_model u = open_dir(dir);
    struct memory_use use;
    struct error err = { 0 };

    u.plan.method = changes->method;
    u.plan.export_dir = changes->export_dir;
    assert_false(shapes_memory(&u.plan, &u.config, 0, 0, &use, &err));
    assert_int_equal(err.code, ERROR_JOB);
    if (!strstr(err.text, message))
        fail_msg("%s\nis not\n%s", err.text, message);
    arena_free(u.arena);
}

static void test_only_adapters_are_trained(void **state)
{
    char *dir = folder_of_run(run_named(*state, "awq"));

    assert_no_layout(dir, &(struct plan) { .method = METHOD_FULL }, "finetuning_type");
    assert_no_layout(dir, &(struct plan) { .method = METHOD_FREEZE }, "finetuning_type");
    assert_no_layout(dir,
                     &(struct plan) { .method = METHOD_LORA, .export_dir = "merged" },
                     "export_dir");
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrices_have_the_published_values),
        cmocka_unit_test(test_adapters_train_as_in_peft),
        cmocka_unit_test(test_rotations_are_trained),
        cmocka_unit_test(test_computing_in_16_bits_is_close),
        cmocka_unit_test(test_matrices_take_few_bytes),
        cmocka_unit_test(test_broken_files_are_rejected),
        cmocka_unit_test(test_changed_bytes_do_no_harm),
        cmocka_unit_test(test_only_adapters_are_trained),
    };

    return cmocka_run_group_tests(tests, read_golden, drop_golden);
}
