/*
 * tests/unit/test_model_prequantized.c - a base whose files have 4-bit weights: its bits
 * are loaded unchanged, and training equals training with the dequantized weights, to the
 * bit.
 */
#include "config.h"

#include "base/digest.h"
#include "tests/unit/unit_lora_run.h"
#include "tests/unit/unit_prequantized.h"
#include "train/model/shapes.h"

/* ---- Folders ---- */

/* Digest all tensors of a kind, in the order of their names; "" is the codes. */
static void digest_kind(const struct safetensors *set, const char *kind,
                        char out[DIGEST_TEXT])
{
    struct digest *digest = digest_new();
    size_t count = safetensors_count(set);
    const char **names = memory_alloc(count * sizeof(*names));
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        if (text_ends(safetensors_at(set, i)->name, kind))
            names[found++] = safetensors_at(set, i)->name;
    /* the smallest of the remaining names */
    for (size_t done = 0; done < found; done++) {
        const struct stored_tensor *t;
        char name[256];

        for (size_t i = done + 1; i < found; i++)
            if (strcmp(names[i], names[done]) < 0) {
                const char *other = names[i];

                names[i] = names[done];
                names[done] = other;
            }
        snprintf(name, sizeof(name), "%s", names[done]);
        if (strcmp(kind, UNIT_STATE) == 0)
            name[strlen(name) - strlen(UNIT_STATE)] = 0;
        t = safetensors_find(set, name);
        digest_add(digest, t->data, t->bytes);
    }
    free(names);
    digest_end(digest, out);
}

/* Digest a matrix of the folder, dequantized to fp32. */
static void digest_dequantized(const char *dir, char out[DIGEST_TEXT])
{
    struct unit_model u = open_folder(dir);
    const struct parameter *p;
    struct error err = { 0 };
    struct tensor to;

    u.plan.method = METHOD_LORA;
    start(&u);
    p = unit_parameter(&u, "model.layers.0.self_attn.k_proj.weight");
    to = tensor_of(memory_alloc(p->rows * p->cols * sizeof(float)), FORMAT_FP32, p->rows,
                   p->cols);
    u.be->ops->dequantize(
        u.be, &(struct op_dequantize) {
                  .out = to, .x = p->quantized, .through = p->dequantized_format });
    unit_must(u.be->ops->sync(u.be, &err), &err);
    digest_bytes(to.data, tensor_bytes(to), out);
    free(to.data);
    unit_model_stop(&u);
}

static void check_kinds(const json_t *run)
{
    static const char *const kinds[][2] = {
        { "codes", UNIT_STATE },
        { "absmax", ".weight.absmax" },
        { "quant_map", ".weight.quant_map" },
        { "nested_absmax", ".weight.nested_absmax" },
        { "nested_quant_map", ".weight.nested_quant_map" },
    };
    bool twice = json_is_true(json_object_get(run, "double_quantization"));
    struct unit_saved how = { .twice = twice };
    char *base = unit_shared("data/stories260K/hf"), *dir;
    struct safetensors *set;
    struct error err = { 0 };
    char text[DIGEST_TEXT];

    assert_true(
        format_find(json_string_value(json_object_get(run, "dtype")), &how.dtype));
    dir = unit_prequantized(base, &how);
    set = safetensors_open(dir, "model", false, &err);
    for (size_t i = 0; i < (twice ? 5 : 3); i++) {
        digest_kind(set, kinds[i][1], text);
        assert_string_equal(text, json_string_value(json_object_get(
                                      json_object_get(run, "digests"), kinds[i][0])));
    }
    digest_dequantized(dir, text);
    assert_string_equal(text, json_string_value(json_object_get(run, "widened")));
    safetensors_close(set);
    unit_dir_free(dir);
    free(base);
}

/* The folders of the tests below are what transformers saves. */
static void test_folders_match_bitsandbytes(void **state)
{
    char *name;
    struct error err = { 0 };
    json_t *saved, *run;
    const char *key;

    (void)state;
    unit_need_shared("data/stories260K/hf");
    name = unit_source("tests/golden/prequantized.json");
    saved = json_read_file(name, (size_t)1 << 20, &err);
    json_object_foreach(json_object_get(saved, "runs"), key, run) check_kinds(run);
    json_decref(saved);
    free(name);
}

/* ---- Training ---- */

struct variant {
    struct unit_saved saved;
    enum format compute;
    bool checkpointing;
};

static struct unit_model open_lora(const char *dir, const struct variant *variant)
{
    struct unit_model u = open_folder(dir);

    u.plan.method = METHOD_LORA;
    u.plan.lora_dropout = 1e-30; /* keeps adapters separate, as a base in 4 bits does */
    u.plan.learning_rate = 1e-2;
    u.plan.gradient_checkpointing = variant->checkpointing;
    u.plan.precision.compute = variant->compute;
    u.plan.precision.frozen = variant->saved.dtype;
    return u;
}

static struct found run(const char *dir, const struct variant *variant, int64_t bits)
{
    struct unit_model u = open_lora(dir, variant);

    u.plan.quantization_bit = bits;
    u.plan.double_quantization = variant->saved.twice;
    return run_adapted(&u);
}

static void assert_same(const struct found *a, const struct found *b)
{
    assert_memory_equal(a->losses, b->losses, sizeof(a->losses));
    assert_true(a->norm == b->norm);
}

/* Equal except for the order of sums: in fp32, a few hundred operations deep. */
static void assert_near(const struct found *a, const struct found *b)
{
    for (size_t i = 0; i < TS_COUNT(a->losses); i++)
        unit_assert_near("loss", a->losses[i], b->losses[i], 1e-6);
    unit_assert_near("norm", a->norm, b->norm, 1e-5);
}

static const struct variant variants[] = {
    { { .dtype = FORMAT_FP32, .twice = true }, FORMAT_FP32, false },
    { { .dtype = FORMAT_BF16 }, FORMAT_FP32, true },
    { { .dtype = FORMAT_BF16, .twice = true }, FORMAT_BF16, false },
    { { .dtype = FORMAT_FP16, .twice = true }, FORMAT_FP16, true },
};

static void check_training(const json_t *one, const struct variant *variant,
                           void compare(const struct found *, const struct found *))
{
    struct unit_saved wide = variant->saved;
    const char *type =
        json_string_value(json_object_get(json_object_get(one, "config"), "model_type"));
    /* tensors of all experts are quantized at load only */
    bool same = !architecture_find(type) ||
                !architecture_find(type)->experts.only_tensors ||
                strstr(json_string_value(json_object_get(one, "name")), "linearized");
    char *base = folder_of(one, NULL), *narrow = unit_prequantized(base, &variant->saved);
    struct found taken = run(narrow, variant, 0), given = run(narrow, variant, 4),
                 at_load, widened;
    char *dir;

    wide.wide = true;
    dir = unit_prequantized(base, &wide);
    widened = run(dir, variant, 0);
    compare(&taken, &widened);
    assert_same(&given, &taken);
    assert_true(taken.losses[2] < taken.losses[0]);
    if (!variant->saved.plain && same) {
        at_load = run(base, variant, 4);
        assert_same(&taken, &at_load);
    }
    unit_dir_free(base);
    unit_dir_free(narrow);
    unit_dir_free(dir);
}

static void test_training_matches_a_base_quantized_at_load(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        for (size_t j = 0; j < TS_COUNT(variants); j++)
            check_training(json_array_get(cases, i), &variants[j], assert_same);
}

/* All layers over one input, or one of three that are otherwise one matmul. */
static void test_unquantized_layers_stay_in_16_bits(void **state)
{
    static const char *const together[] = { "layers.1.mlp", "layers.0", "o_proj" };
    static const char *const apart[] = { "q_proj", "k_proj", "v_proj", "up_proj" };
    const json_t *one = find_case("models", "llama");
    struct variant variant;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(together); i++)
        for (size_t j = 0; j < TS_COUNT(variants); j++) {
            variant = variants[j];
            variant.saved.plain = together[i];
            check_training(one, &variant, assert_same);
        }
    for (size_t i = 0; i < TS_COUNT(apart); i++) {
        variant = variants[i % 2];
        variant.saved.plain = apart[i];
        check_training(one, &variant, assert_near);
    }
}

/* Codes and factors in memory are those of the file, and values are rounded to the
 * original format, whatever the format of frozen weights. */
static void test_bits_match_the_file(void **state)
{
    static const char name[] = "model.layers.1.mlp.down_proj.weight";
    const struct variant variant = { .saved = { .dtype = FORMAT_BF16, .twice = true } };
    char *base = folder_of(find_case("models", "llama"), NULL),
         *dir = unit_prequantized(base, &variant.saved);
    struct unit_model u = open_lora(dir, &variant);
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(dir, "model", false, &err);
    const struct stored_tensor *codes = safetensors_find(set, name);
    const struct parameter *p;

    (void)state;
    u.plan.precision.frozen = FORMAT_FP32;
    start(&u);
    p = unit_parameter(&u, name);
    assert_memory_equal(p->quantized.codes, codes->data, codes->bytes);
    codes = safetensors_find(set, "model.layers.1.mlp.down_proj.weight.absmax");
    assert_memory_equal(p->quantized.bytes, codes->data, codes->bytes);
    codes = safetensors_find(set, "model.layers.1.mlp.down_proj.weight.nested_absmax");
    assert_memory_equal(p->quantized.absmax, codes->data, codes->bytes);
    assert_int_equal(p->dequantized_format, FORMAT_BF16);
    assert_int_equal(model_config_weight_format(&u.config, set),
                     FORMAT_BF16); /* most are U8 */
    safetensors_close(set);
    unit_model_stop(&u);
    unit_dir_free(base);
    unit_dir_free(dir);
}

/* bnb_4bit_quant_storage: bfloat16, as for FSDP: the same bytes with another dtype. */
static void store_in_bf16(struct unit_tensor *list, size_t *count, const void *context)
{
    (void)context;
    for (size_t i = 0; i < *count; i++)
        if (strcmp(list[i].dtype, "U8") == 0 && text_ends(list[i].name, ".weight")) {
            assert_int_equal(list[i].bytes % 2, 0);
            list[i].dtype = "BF16";
            list[i].shape[0] = list[i].bytes / 2;
        }
}

static void test_codes_may_be_stored_as_bfloat16(void **state)
{
    char *base = folder_of(find_case("models", "llama"), NULL), *dirs[2];
    struct variant variant = variants[0];
    struct found bytes, numbers;

    (void)state;
    dirs[0] = unit_prequantized(base, &variant.saved);
    variant.saved.spoil = store_in_bf16;
    dirs[1] = unit_prequantized(base, &variant.saved);
    bytes = run(dirs[0], &variant, 0);
    numbers = run(dirs[1], &variant, 0);
    assert_same(&bytes, &numbers);
    unit_dir_free(base);
    unit_dir_free(dirs[0]);
    unit_dir_free(dirs[1]);
}

/* ---- Generation ---- */

/* Compare the logits of a model that is trained for two steps with those of one that only
 * generates with the adapter that the first has saved: next to 4 bits and 16 bits alike,
 * never merged. */
static void check_alone(const struct variant *variant)
{
    char *base = folder_of(find_case("models", "llama"), NULL),
         *dir = unit_prequantized(base, &variant->saved), *adapter = unit_dir_new();
    struct unit_model u = open_lora(dir, variant);
    size_t count = batch.sequences * u.config.vocab_size;
    float *trained = memory_alloc(count * sizeof(*trained)),
          *alone = memory_alloc(count * sizeof(*alone));
    struct error err = { 0 };

    start(&u);
    fill_b(&u);
    for (int64_t i = 1; i <= 2; i++) {
        unit_train(&u, &batch);
        unit_step(&u, i);
    }
    unit_must(model_logits(u.model, &batch, trained, &err), &err);
    unit_must(model_save(u.model, adapter, &err), &err);
    unit_model_stop(&u);
    u = open_lora(dir, variant);
    u.plan.adapter_name_or_path = adapter;
    u.plan.generation = (struct generation) {
        .on = true, .alone = true, .slots = 1, .max_new_tokens = 4
    };
    start(&u);
    assert_int_equal(model_trainable_elements(u.model), 0);
    unit_must(model_logits(u.model, &batch, alone, &err), &err);
    assert_memory_equal(alone, trained, count * sizeof(*alone));
    unit_model_stop(&u);
    free(trained);
    free(alone);
    unit_dir_free(base);
    unit_dir_free(dir);
    unit_dir_free(adapter);
}

static void test_generation_matches_the_trained_model(void **state)
{
    struct variant some = variants[2];

    (void)state;
    some.saved.plain = "v_proj";
    check_alone(&variants[0]);
    check_alone(&variants[2]);
    check_alone(&some);
}

static void check_base_alone(enum method method)
{
    const struct variant *variant = &variants[1];
    struct unit_saved wide = variant->saved;
    char *base = folder_of(find_case("models", "llama"), NULL), *dirs[2];
    float *logits[2];
    struct error err = { 0 };
    size_t count = 0;

    wide.wide = true;
    dirs[0] = unit_prequantized(base, &variant->saved);
    dirs[1] = unit_prequantized(base, &wide);
    for (size_t i = 0; i < 2; i++) {
        struct unit_model u = open_folder(dirs[i]);

        u.plan.method = method;
        u.plan.generation = (struct generation) {
            .on = true, .alone = true, .slots = 1, .max_new_tokens = 4
        };
        count = batch.sequences * u.config.vocab_size;
        logits[i] = memory_alloc(count * sizeof(float));
        start(&u);
        unit_must(model_logits(u.model, &batch, logits[i], &err), &err);
        unit_model_stop(&u);
        unit_dir_free(dirs[i]);
    }
    assert_memory_equal(logits[0], logits[1], count * sizeof(float));
    free(logits[0]);
    free(logits[1]);
    unit_dir_free(base);
}

/* Without an adapter, for every method: a teacher has LoRA. */
static void test_the_base_generates_without_an_adapter(void **state)
{
    (void)state;
    check_base_alone(METHOD_FULL);
    check_base_alone(METHOD_LORA);
}

/* ---- Rejected files ---- */

#define K "model.layers.0.self_attn.k_proj.weight"

/* Remove a tensor, truncate it, or replace its bytes. */
struct broken {
    const char *name;
    bool out;
    const char *rename;
    size_t cut;        /* remaining bytes; 0: all */
    const char *dtype; /* if truncated */
    const char *text;  /* of a quant_state */
    const char *message;
    bool twice;
};

static void break_tensor(struct unit_tensor *list, size_t *count, const void *context)
{
    const struct broken *how = context;
    struct unit_tensor *t = unit_tensor_find(list, *count, how->name);

    if (how->out) {
        *t = list[--*count];
        return;
    }
    if (how->rename)
        t->name = how->rename;
    if (how->cut) {
        t->dtype = how->dtype ? how->dtype : t->dtype;
        t->rank = 1;
        t->bytes = how->cut;
        t->shape[0] = how->cut / safetensors_dtype_bytes(t->dtype);
    }
    if (how->text) {
        t->bytes = t->shape[0] = strlen(how->text);
        t->data = (char *)(uintptr_t)how->text;
    }
    if (!how->rename && !how->cut && !how->text)
        memset(t->data, 0, t->bytes);
}

static void assert_rejected(const char *dir, const char *message)
{
    struct unit_model u = open_lora(dir, &variants[0]);
    struct error err = { 0 };

    unit_model_open_backend(&u, 1);
    unit_model_make(&u, batch.rows, batch.sequences);
    assert_false(model_load(u.model, &err));
    assert_int_equal(err.code, ERROR_DATA);
    if (!strstr(err.text, message) && !strstr(err.file, message))
        fail_msg("%s\nis not\n%s", err.text, message);
    unit_model_stop(&u);
}

#define STATE_TEXT(shape)                                                   \
    "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\", " \
    "\"shape\": " shape "}"

static void test_broken_files_are_rejected(void **state)
{
    static const struct broken rows[] = {
        { K, .out = true, .message = "the tensor " K " is missing" },
        { K ".absmax", .out = true, .message = "the tensor " K ".absmax is missing" },
        { K ".quant_map", .out = true, .message = K ".quant_map is missing" },
        { K UNIT_STATE, .out = true, .message = K UNIT_STATE " is missing" },
        { K ".nested_absmax", .out = true, .twice = true,
          .message = K ".nested_absmax is missing" },
        { K ".nested_quant_map", .out = true, .twice = true,
          .message = K ".nested_quant_map is missing" },
        { K, .cut = 7, .message = K " has 7 bytes" },
        { K ".absmax", .cut = 4, .message = K ".absmax has 4 bytes" },
        { K ".absmax", .cut = 3, .dtype = "U8",
          .message = K ".absmax has 3 bytes of U8" },
        { K ".quant_map", .cut = 60, .message = K ".quant_map has 60 bytes" },
        { K ".quant_map", .message = "has 0 as value 0, but nf4 has -1" },
        { K ".nested_absmax", .cut = 2, .dtype = "U8", .twice = true,
          .message = K ".nested_absmax has 2 bytes" },
        { K UNIT_STATE, .message = "quant_state" },
        { K UNIT_STATE, .text = "{}", .message = "quant_type must be \"nf4\"" },
        { K UNIT_STATE, .text = STATE_TEXT("[1, 2]"), .message = "has the shape [1, 2]" },
        { K UNIT_STATE, .text = STATE_TEXT("[12, 24]"), .twice = true,
          .message = "without double quantization" },
        { K UNIT_STATE, .rename = K ".quant_state.bitsandbytes__fp4",
          .message = "is not nf4" },
        { K ".absmax", .rename = K ".SCB", .message = "8-bit weights" },
        { "model.norm.weight", .rename = "lm_head.weight.absmax",
          .message = "llm_int8_skip_modules" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        const struct unit_saved how = { .dtype = FORMAT_FP32,
                                        .twice = rows[i].twice,
                                        .spoil = break_tensor,
                                        .context = &rows[i] };
        char *base = folder_of(find_case("models", "llama"), NULL),
             *dir = unit_prequantized(base, &how);

        assert_rejected(dir, rows[i].message);
        unit_dir_free(base);
        unit_dir_free(dir);
    }
}

/* The config.json of one folder with the weights of another. */
static void check_mixed(const char *base, const struct unit_saved *config,
                        const struct unit_saved *weights, const char *message)
{
    char *from = unit_prequantized(base, config), *dir = unit_prequantized(base, weights);
    char *a = path_join(from, "config.json"), *b = path_join(dir, "config.json");

    assert_int_equal(rename(a, b), 0);
    assert_rejected(dir, message);
    free(a);
    free(b);
    unit_dir_free(from);
    unit_dir_free(dir);
}

static void test_files_that_contradict_config_json_are_rejected(void **state)
{
    const struct unit_saved narrow = { .dtype = FORMAT_FP32 },
                            wide = { .dtype = FORMAT_FP32, .wide = true },
                            twice = { .dtype = FORMAT_FP32, .twice = true },
                            some = { .dtype = FORMAT_FP32, .plain = "k_proj" };
    char *base = folder_of(find_case("models", "llama"), NULL);

    (void)state;
    check_mixed(base, &wide, &narrow, "config.json has no quantization_config");
    check_mixed(base, &narrow, &wide, "is F32, but config.json has it in 4 bits");
    check_mixed(base, &narrow, &some, "add its layer to llm_int8_skip_modules");
    check_mixed(base, &some, &narrow, "llm_int8_skip_modules");
    check_mixed(base, &narrow, &twice, "bnb_4bit_use_double_quant");
    check_mixed(base, &twice, &narrow, "nested_absmax is missing");
    unit_dir_free(base);
}

static void assert_no_layout(const char *dir, const struct plan *changes,
                             const char *message)
{
    struct unit_model u = open_folder(dir);
    struct memory_use use;
    struct error err = { 0 };

    u.plan.method = changes->method;
    u.plan.create_new_adapter = changes->create_new_adapter;
    u.plan.adapter_name_or_path = changes->adapter_name_or_path;
    u.plan.export_dir = changes->export_dir;
    u.plan.additional_target = changes->additional_target;
    assert_false(shapes_memory(&u.plan, &u.config, 0, 0, &use, &err));
    assert_int_equal(err.code, ERROR_JOB);
    assert_non_null(strstr(err.text, message));
    arena_free(u.arena);
}

/* Layers that exist only in 4 bits cannot be trained or merged into. */
static void test_plans_that_change_4_bits_are_rejected(void **state)
{
    char *base = folder_of(find_case("models", "llama"), NULL),
         *dir = unit_prequantized(base, &variants[0].saved);

    (void)state;
    assert_no_layout(dir, &(struct plan) { .method = METHOD_FULL }, "finetuning_type");
    assert_no_layout(dir, &(struct plan) { .method = METHOD_FREEZE }, "finetuning_type");
    assert_no_layout(dir,
                     &(struct plan) { .method = METHOD_LORA, .export_dir = "merged" },
                     "export_dir");
    assert_no_layout(dir,
                     &(struct plan) { .method = METHOD_LORA,
                                      .create_new_adapter = true,
                                      .adapter_name_or_path = "old" },
                     "create_new_adapter");
    assert_no_layout(
        dir, &(struct plan) { .method = METHOD_LORA, .additional_target = "k_proj" },
        "additional_target k_proj");
    unit_dir_free(base);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folders_match_bitsandbytes),
        cmocka_unit_test(test_training_matches_a_base_quantized_at_load),
        cmocka_unit_test(test_unquantized_layers_stay_in_16_bits),
        cmocka_unit_test(test_bits_match_the_file),
        cmocka_unit_test(test_codes_may_be_stored_as_bfloat16),
        cmocka_unit_test(test_generation_matches_the_trained_model),
        cmocka_unit_test(test_the_base_generates_without_an_adapter),
        cmocka_unit_test(test_broken_files_are_rejected),
        cmocka_unit_test(test_files_that_contradict_config_json_are_rejected),
        cmocka_unit_test(test_plans_that_change_4_bits_are_rejected),
    };

    return cmocka_run_group_tests(tests, architectures_setup, architectures_teardown);
}
