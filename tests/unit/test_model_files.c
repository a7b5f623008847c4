/* tests/unit/test_model_files.c - tests how models and adapters are saved, loaded, merged
 * and rejected. */
#include "config.h"

#include <unistd.h>

#include "tests/unit/unit_model.h"
#include "train/files/safetensors.h"

#define LLAMA(more)                                                                    \
    "{\"model_type\": \"llama\", \"vocab_size\": 50, \"hidden_size\": 32,"             \
    "\"intermediate_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": 4," \
    "\"num_key_value_heads\": 2, \"initializer_range\": 0.2" more "}"

static const char llama[] = LLAMA("");
static struct batch batch;

static int setup(void **state)
{
    (void)state;
    unit_batch_random(&batch, 11, 50, 1);
    unit_batch_random(&batch, 7, 50, 2);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unit_batch_free(&batch);
    return 0;
}

static void start(struct unit_model *u)
{
    unit_model_start(u, batch.rows, batch.sequences, 1);
}

/* For models that model_load() rejects. */
static void make(struct unit_model *u)
{
    unit_model_open_backend(u, 1);
    unit_model_make(u, batch.rows, batch.sequences);
}

static float *logits_of(struct unit_model *u)
{
    float *out = memory_alloc(batch.sequences * u->config.vocab_size * sizeof(*out));
    struct error err = { 0 };

    unit_must(model_logits(u->model, &batch, out, &err), &err);
    return out;
}

/* Make a folder with a random model, its config.json and a tokenizer file. */
static char *base_new(const char *config, int64_t seed)
{
    struct unit_model u = unit_model_text(config, unit_plan(NULL));
    char *dir = unit_dir_new(), *file = path_join(dir, "tokenizer.json");
    struct error err = { 0 };

    u.plan.train_from_scratch = true;
    u.plan.seed = seed;
    u.plan.model_name_or_path = dir;
    unit_must(file_replace(file, "{}", 2, 0600, &err), &err);
    start(&u);
    unit_must(model_save(u.model, dir, &err), &err);
    unit_model_stop(&u);
    free(file);
    return dir;
}

static struct unit_model open_base(const char *dir)
{
    struct unit_model u = { .arena = arena_new(), .plan = unit_plan(dir) };
    struct error err = { 0 };

    unit_must(model_config_read(dir, u.arena, &u.config, &err), &err);
    return u;
}

static void near_all(const float *a, const float *b, size_t count, double tolerance)
{
    double largest = 0;

    for (size_t i = 0; i < count; i++)
        largest = fabs(a[i]) > largest ? fabs(a[i]) : largest;
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)a[i] - b[i]) <= tolerance * largest))
            fail_msg("logit %zu: %.8g and %.8g", i, a[i], b[i]);
}

static void test_model_saves_and_loads_to_the_bit(void **state)
{
    char *dir = base_new(llama, 1), *to = unit_dir_new(), *file;
    struct unit_model u = open_base(dir);
    float *before, *after;
    struct error err = { 0 };

    (void)state;
    start(&u);
    unit_train(&u, &batch);
    unit_step(&u, 1);
    before = logits_of(&u);
    unit_must(model_save(u.model, to, &err), &err);
    unit_model_stop(&u);
    file = path_join(to, "tokenizer.json");
    assert_true(file_exists(file));
    free(file);
    u = open_base(to);
    start(&u);
    after = logits_of(&u);
    assert_memory_equal(before, after, 2 * 50 * sizeof(float));
    unit_model_stop(&u);
    free(before);
    free(after);
    unit_dir_free(dir);
    unit_dir_free(to);
}

static void test_model_seed_decides_the_initial_weights(void **state)
{
    char *one = base_new(llama, 1), *two = base_new(llama, 2);
    struct unit_model u = open_base(one), v = open_base(two);
    const char *name = "model.layers.1.mlp.up_proj.weight";
    const float *a, *b;
    double sum = 0, square = 0;

    (void)state;
    start(&u);
    start(&v);
    a = unit_parameter(&u, name)->weight.data;
    b = unit_parameter(&v, name)->weight.data;
    for (size_t i = 0; i < 48 * 32; i++) {
        assert_true(a[i] != b[i]);
        sum += a[i];
        square += (double)a[i] * a[i];
    }
    /* 1536 values: mean within 4 of its deviations, deviation within 7 % */
    assert_true(fabs(sum / 1536) < 4 * 0.2 / sqrt(1536));
    unit_assert_near("deviation", sqrt(square / 1536), 0.2, 0.07);
    a = unit_parameter(&u, "model.norm.weight")->weight.data;
    assert_true(a[0] == 1 && a[31] == 1);
    unit_model_stop(&u);
    unit_model_stop(&v);
    unit_dir_free(one);
    unit_dir_free(two);
}

static struct unit_model open_lora(const char *dir)
{
    struct unit_model u = open_base(dir);

    u.plan.method = METHOD_LORA;
    u.plan.learning_rate = 1e-2;
    return u;
}

static void train_some(struct unit_model *u)
{
    for (int64_t i = 1; i <= 3; i++) {
        unit_train(u, &batch);
        unit_step(u, i);
    }
}

static void test_model_new_adapter_changes_no_bit(void **state)
{
    static const enum format computes[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };
    char *dir = base_new(llama, 1);

    (void)state;
    for (size_t i = 0; i < TS_COUNT(computes); i++) {
        struct unit_model u = open_base(dir), v = open_lora(dir);
        float *plain, *adapted;

        u.plan.precision.compute = v.plan.precision.compute = computes[i];
        v.plan.lora_dropout = 0.5; /* applies only in training */
        start(&u);
        start(&v);
        plain = logits_of(&u);
        adapted = logits_of(&v);
        for (size_t j = 0; j < 100; j++)
            assert_true(plain[j] == adapted[j]);
        unit_train(&v, &batch);
        unit_step(&v, 1);
        free(adapted);
        adapted = logits_of(&v);
        assert_true(memcmp(plain, adapted, 100 * sizeof(float)) != 0);
        free(plain);
        free(adapted);
        unit_model_stop(&u);
        unit_model_stop(&v);
    }
    unit_dir_free(dir);
}

static void check_merges(const char *config)
{
    char *dir = base_new(config, 1), *adapter = unit_dir_new(), *merged = unit_dir_new();
    struct unit_model u = open_lora(dir);
    float *trained, *again;
    char *file;
    struct error err = { 0 };

    u.plan.additional_target = "norm";
    start(&u);
    train_some(&u);
    trained = logits_of(&u);
    unit_must(model_save(u.model, adapter, &err), &err);
    file = path_join(adapter, "config.json");
    assert_false(file_exists(file)); /* as PEFT: readers would take it for a model */
    free(file);
    unit_must(model_export(u.model, merged, &err), &err);
    unit_model_stop(&u);

    u = open_lora(dir); /* continues the adapter with its own settings */
    u.plan.adapter_name_or_path = adapter;
    u.plan.lora_rank = 3;
    start(&u);
    again = logits_of(&u);
    assert_memory_equal(trained, again, 100 * sizeof(float));
    unit_model_stop(&u);
    free(again);

    u = open_base(merged); /* W + s B A, rounded to fp32: a few epsilons of the sum */
    start(&u);
    again = logits_of(&u);
    near_all(trained, again, 100, 64 * 0x1p-23);
    unit_model_stop(&u);
    free(again);

    u = open_lora(dir); /* a second adapter on top */
    u.plan.adapter_name_or_path = adapter;
    u.plan.create_new_adapter = true;
    u.plan.lora_target = "q_proj";
    start(&u);
    again = logits_of(&u);
    near_all(trained, again, 100, 64 * 0x1p-23);
    unit_model_stop(&u);
    free(again);
    free(trained);
    unit_dir_free(dir);
    unit_dir_free(adapter);
    unit_dir_free(merged);
}

static void test_model_adapter_resumes_and_merges(void **state)
{
    (void)state;
    check_merges(llama);
}

/* Matrices with more elements than are converted at a time. */
static void test_model_merges_large_matrices(void **state)
{
    (void)state;
    check_merges("{\"model_type\": \"llama\", \"vocab_size\": 50, \"hidden_size\": "
                 "32,\"intermediate_size\": 40000, \"num_hidden_layers\": "
                 "1,\"num_attention_heads\": 4, \"initializer_range\": 0.02}");
}

static bool asks_to_tie(const char *adapter)
{
    char *name = path_join(adapter, "adapter_config.json");
    struct error err = { 0 };
    json_t *root = json_read_file(name, (size_t)1 << 20, &err);
    bool asks = json_is_true(json_object_get(root, "ensure_weight_tying"));

    unit_must(root != NULL, &err);
    json_decref(root);
    free(name);
    return asks;
}

static void test_model_adapter_files_have_peft_names(void **state)
{
    char *dir = base_new(llama, 1), *adapter = unit_dir_new();
    struct unit_model u = open_lora(dir);
    const struct stored_tensor *t;
    struct safetensors *set;
    struct error err = { 0 };

    (void)state;
    u.plan.lora_target = "q_proj,down_proj";
    u.plan.additional_target = "embed_tokens";
    start(&u);
    unit_must(model_save(u.model, adapter, &err), &err);
    unit_model_stop(&u);
    set = safetensors_open(adapter, "adapter_model", false, &err);
    unit_must(set != NULL, &err);
    assert_int_equal(safetensors_count(set), 2 * 2 * 2 + 1);
    t = safetensors_find(set,
                         "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight");
    assert_non_null(t);
    assert_true(t->shape[0] == 4 && t->shape[1] == 48);
    t = safetensors_find(
        set, "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight");
    assert_non_null(t);
    assert_true(t->shape[0] == 32 && t->shape[1] == 4);
    assert_non_null(safetensors_find(set, "base_model.model.model.embed_tokens.weight"));
    assert_false(asks_to_tie(adapter));
    safetensors_close(set);
    unit_dir_free(dir);
    unit_dir_free(adapter);
}

/* Flip one bit of the first of two equal tensors. */
static void check_other_head_rejected(const char *adapter, const char *dir,
                                      const struct stored_tensor *embed)
{
    char *name = path_join(adapter, "adapter_model.safetensors"), *at;
    struct unit_model u = open_lora(dir);
    struct error err = { 0 };
    struct text file;

    text_init(&file, 0);
    unit_must(file_read(name, (size_t)1 << 24, &file, NULL, &err), &err);
    at = memmem(file.data, file.len, embed->data, embed->bytes);
    assert_non_null(at);
    *at ^= 1;
    unit_must(file_replace(name, file.data, file.len, 0600, &err), &err);
    for (int merged = 0; merged < 2; merged++) { /* continued, and merged */
        u.plan.adapter_name_or_path = adapter;
        u.plan.create_new_adapter = merged;
        make(&u);
        assert_false(model_load(u.model, &err));
        if (!strstr(err.text, "trains embed_tokens and lm_head separately"))
            fail_msg("%s", err.text);
        error_clear(&err);
        unit_model_stop(&u);
        u = open_lora(dir);
    }
    arena_free(u.arena);
    text_clear(&file);
    free(name);
}

/* PEFT has a separate copy of a head that is the embedding; without it PEFT would load
 * another model. */
static void test_model_adapter_of_a_tied_head_has_both_copies(void **state)
{
    static const char config[] = LLAMA(", \"tie_word_embeddings\": true");
    char *dir = base_new(config, 1), *adapter = unit_dir_new();
    struct unit_model u = open_lora(dir);
    const struct stored_tensor *embed, *head;
    struct safetensors *set;
    struct error err = { 0 };
    float *trained, *again;

    (void)state;
    u.plan.additional_target = "embed_tokens";
    start(&u);
    train_some(&u);
    trained = logits_of(&u);
    unit_must(model_save(u.model, adapter, &err), &err);
    unit_model_stop(&u);
    set = safetensors_open(adapter, "adapter_model", false, &err);
    unit_must(set != NULL, &err);
    embed = safetensors_find(set, "base_model.model.model.embed_tokens.weight");
    head = safetensors_find(set, "base_model.model.lm_head.weight");
    assert_true(embed && head && embed->bytes == head->bytes);
    assert_memory_equal(embed->data, head->data, head->bytes);
    assert_true(asks_to_tie(adapter));
    for (int merged = 0; merged < 2; merged++) {
        u = open_lora(dir);
        u.plan.adapter_name_or_path = adapter;
        u.plan.create_new_adapter = merged;
        start(&u);
        again = logits_of(&u);
        near_all(trained, again, 100, 64 * 0x1p-23);
        free(again);
        unit_model_stop(&u);
    }
    check_other_head_rejected(adapter, dir, embed);
    safetensors_close(set);
    free(trained);
    unit_dir_free(dir);
    unit_dir_free(adapter);
}

/* A base in bf16: trained entirely it is saved in fp32, merged in bf16. */
static void test_model_config_has_the_dtype_of_the_files(void **state)
{
    char *dir = base_new(LLAMA(", \"torch_dtype\": \"float32\""), 1),
         *to = unit_dir_new();
    struct unit_model u = open_base(dir);
    struct error err = { 0 };

    (void)state;
    u.plan.precision.compute = u.plan.precision.trainable = FORMAT_BF16;
    start(&u);
    unit_must(model_save(u.model, dir, &err), &err);
    unit_model_stop(&u);
    u = open_base(dir);
    assert_int_equal(u.config.dtype, FORMAT_BF16);
    start(&u);
    unit_must(model_save(u.model, to, &err), &err);
    unit_model_stop(&u);
    u = open_base(to);
    assert_int_equal(u.config.dtype, FORMAT_FP32);
    unit_model_stop(&u);
    u = open_lora(dir);
    u.plan.precision.frozen = FORMAT_BF16;
    start(&u);
    unit_must(model_export(u.model, to, &err), &err);
    unit_model_stop(&u);
    u = open_base(to);
    assert_int_equal(u.config.dtype, FORMAT_BF16);
    unit_model_stop(&u);
    unit_dir_free(dir);
    unit_dir_free(to);
}

static const uint16_t extra[] = { 1, 2, 0x8000, 0x7fc1, 5, 6 };

/* Tensor 0 is the extra one, the others are those of a file. */
static bool read_with_extra(const void *context, size_t index, void *to,
                            struct error *err)
{
    const struct stored_tensor *t = index > 0 ? safetensors_at(context, index - 1) : NULL;

    (void)err;
    memcpy(to, t ? t->data : extra, t ? t->bytes : sizeof(extra));
    return true;
}

/* Add a tensor in bf16 to the model in a folder. */
static void add_extra(const char *dir, const char *name)
{
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(dir, "model", false, &err);
    char *file = path_join(dir, "model.safetensors"), *old = path_join(dir, "new");
    struct tensor_source sources[64];
    size_t count;

    unit_must(set != NULL, &err);
    count = safetensors_count(set);
    assert_true(count < TS_COUNT(sources));
    for (size_t i = 0; i <= count; i++) {
        const struct stored_tensor *t = i > 0 ? safetensors_at(set, i - 1) : NULL;

        sources[i] = (struct tensor_source) { .name = t ? t->name : name,
                                              .format = t ? t->format : FORMAT_BF16,
                                              .rank = t ? t->rank : 2,
                                              .shape = { 2, 3 },
                                              .read = read_with_extra,
                                              .context = set,
                                              .index = i };
        if (t)
            memcpy(sources[i].shape, t->shape, t->rank * sizeof(*t->shape));
    }
    unit_must(safetensors_write(old, sources, count + 1, &err), &err);
    safetensors_close(set);
    assert_int_equal(rename(old, file), 0);
    free(file);
    free(old);
}

static void check_extra(const char *dir, const char *name)
{
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(dir, "model", false, &err);
    const struct stored_tensor *t;

    unit_must(set != NULL, &err);
    t = safetensors_find(set, name);
    assert_true(t && t->format == FORMAT_BF16 && t->bytes == sizeof(extra));
    assert_memory_equal(t->data, extra, sizeof(extra));
    safetensors_close(set);
}

/* Layers that predict further tokens are neither trained nor lost. */
static void test_model_keeps_tensors_that_it_does_not_use(void **state)
{
    static const char name[] = "model.mtp_layers.0.input_proj.weight";
    char *dir = base_new("{\"model_type\": \"mimo\", \"vocab_size\": 50, "
                         "\"hidden_size\": 24, \"intermediate_size\": 36, "
                         "\"num_hidden_layers\": 2, \"num_attention_heads\": 4}",
                         1);
    char *to = unit_dir_new();
    struct unit_model u;
    struct error err = { 0 };

    (void)state;
    add_extra(dir, name);
    for (int lora = 0; lora < 2; lora++) {
        u = lora ? open_lora(dir) : open_base(dir);
        start(&u);
        train_some(&u);
        unit_must(lora ? model_export(u.model, to, &err) : model_save(u.model, to, &err),
                  &err);
        unit_model_stop(&u);
        check_extra(to, name);
    }
    unit_dir_free(dir);
    unit_dir_free(to);
}

static bool read_zeros(const void *context, size_t index, void *to, struct error *err)
{
    (void)context, (void)err;
    memset(to, 0, index);
    return true;
}

/* Rewrite the base's tensors with one change: a tensor dropped (rows 0), of another
 * shape, or added. */
static void rewrite(const char *dir, const char *name, size_t rows, bool additional)
{
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(dir, "model", true, &err);
    struct tensor_source *sources =
        memory_alloc((safetensors_count(set) + 1) * sizeof(*sources));
    char *file = path_join(dir, "model.safetensors");
    size_t count = 0;

    for (size_t i = 0; i < safetensors_count(set); i++) {
        const struct stored_tensor *t = safetensors_at(set, i);
        struct tensor_source *s = &sources[count];

        if (strcmp(t->name, name) == 0 && rows == 0)
            continue;
        *s = (struct tensor_source) {
            .name = t->name, .format = FORMAT_BF16, .rank = t->rank, .read = read_zeros
        };
        memcpy(s->shape, t->shape, t->rank * sizeof(*t->shape));
        if (strcmp(t->name, name) == 0)
            s->shape[0] = rows;
        s->index = 2 * s->shape[0] * (s->rank == 2 ? s->shape[1] : 1);
        count++;
    }
    if (additional)
        sources[count++] = (struct tensor_source) { .name = name,
                                                    .format = FORMAT_BF16,
                                                    .rank = 1,
                                                    .shape = { 4 },
                                                    .index = 8,
                                                    .read = read_zeros };
    unlink(file);
    unit_must(safetensors_write(file, sources, count, &err), &err);
    safetensors_close(set);
    free(sources);
    free(file);
}

static void test_model_rejects_other_tensors(void **state)
{
    static const struct {
        const char *name;
        size_t rows;
        bool additional;
        const char *message; /* NULL: accepted */
    } cases[] = {
        { "model.layers.1.mlp.up_proj.weight", 0, false, "is missing" },
        { "model.layers.1.mlp.up_proj.weight", 47, false, "[47, 32]" },
        { "model.norm.weight", 31, false, "[31]" },
        { "lm_head.weight", 0, false, "is missing" },
        { "model.layers.0.self_attn.q_proj.bias", 4, true, "not part" },
        { "model.layers.0.self_attn.rotary_emb.inv_freq", 4, true, NULL },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char *dir = base_new(llama, 1);
        struct unit_model u = open_base(dir);
        struct error err = { 0 };
        bool ok;

        rewrite(dir, cases[i].name, cases[i].rows, cases[i].additional);
        make(&u);
        ok = model_load(u.model, &err);
        if (ok != !cases[i].message)
            fail_msg("%s: %s", cases[i].name, ok ? "taken" : err.text);
        if (cases[i].message) {
            assert_int_equal(err.code, ERROR_DATA);
            assert_non_null(strstr(err.text, cases[i].message));
            assert_non_null(strstr(err.text, cases[i].name));
        }
        unit_model_stop(&u);
        unit_dir_free(dir);
    }
}

static void test_model_rejects_tokens_outside_its_vocabulary(void **state)
{
    struct unit_model u = unit_model_text(llama, unit_plan(NULL));
    struct batch bad = { 0 };
    struct error err = { 0 };
    double sum = 0;

    (void)state;
    u.plan.train_from_scratch = true;
    start(&u);
    unit_batch_add(&bad, (const int32_t[]) { 50, 50, 2 }, 3);
    assert_false(model_evaluate(u.model, &bad, &sum, &err));
    assert_non_null(strstr(err.text, "token 50 is not in"));
    error_clear(&err);
    bad.tokens[0] = bad.tokens[1] = 3;
    assert_false(model_evaluate(u.model, &bad, &sum, &err));
    assert_non_null(strstr(err.text, "label 50 is not in"));
    unit_batch_free(&bad);
    unit_model_stop(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_saves_and_loads_to_the_bit),
        cmocka_unit_test(test_model_seed_decides_the_initial_weights),
        cmocka_unit_test(test_model_new_adapter_changes_no_bit),
        cmocka_unit_test(test_model_adapter_resumes_and_merges),
        cmocka_unit_test(test_model_merges_large_matrices),
        cmocka_unit_test(test_model_adapter_files_have_peft_names),
        cmocka_unit_test(test_model_adapter_of_a_tied_head_has_both_copies),
        cmocka_unit_test(test_model_keeps_tensors_that_it_does_not_use),
        cmocka_unit_test(test_model_config_has_the_dtype_of_the_files),
        cmocka_unit_test(test_model_rejects_other_tensors),
        cmocka_unit_test(test_model_rejects_tokens_outside_its_vocabulary),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
