/* tests/unit/test_tower_training.c - jobs that train encoders of sound and images: their losses
 * and weights are those of transformers (tests/golden/tower_training.py). */
#include "config.h"

#include "tests/unit/unit_tower_jobs.h"
#include "train/job_config.h"
#include "train/model/optimizer_table.h"
#include "train/model/shapes.h"

#define WHOLE "per_device_train_batch_size: 4\ngradient_accumulation_steps: 1\n"
#define DECAY "weight_decay: 0.5\n"
#define ALONE "freeze_vision_tower: false\nfreeze_language_model: true\n"
#define FUSION_LORA \
    ALL "freeze_language_model: true\ntrainspool: {train_cross_attention: true}\n"

static double norm_of(const struct safetensors *files, const char *name, size_t *elements)
{
    const struct stored_tensor *t = safetensors_find(files, name);
    double sum = 0;
    size_t count = 1;
    float *values;

    if (!t)
        fail_msg("no tensor %s", name);
    for (size_t i = 0; i < t->rank; i++)
        count *= t->shape[i];
    values = memory_alloc(count * sizeof(*values));
    format_convert(values, FORMAT_FP32, t->data, t->format, count);
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    free(values);
    *elements = count;
    return sqrt(sum);
}

/*
 * Every tensor of the encoder that transformers has changed has the norm that it has there.
 * close: relative; gate: of a tensor of one value, absolute.
 */
static void compare_norms(struct curve *curve, double close, double gate)
{
    const bool adapts = text_ends(curve->part, "lora");
    char *path = path_join(curve->u.dir, adapts ? "out/adapter_model.safetensors"
                                                : "out/model.safetensors");
    const json_t *want = json_object_get(curve_golden(curve), "norms");
    struct error err = { 0 };
    struct safetensors *files = safetensors_open(path, "model", false, &err);
    const char *name;
    json_t *norm;

    unit_tower_must(files != NULL, &err);
    assert_true(json_object_size((json_t *)want) > 10);
    json_object_foreach((json_t *)want, name, norm)
    {
        size_t elements;
        const double got = norm_of(files, name, &elements), is = json_number_value(norm);

        /* attention does not depend on it: its gradient is nothing but rounding */
        if (text_ends(name, "k_proj.bias"))
            continue;
        if (!(fabs(got - is) < (elements == 1 && gate > 0 ? gate : close * is)))
            fail_msg("%s %s: the norm of %s is %.7g, not %.7g", curve->one->name,
                     curve->part, name, got, is);
    }
    safetensors_close(files);
    free(path);
}

static void compare_run(struct curve *curve)
{
    curve_run(curve, (struct training) { 0 });
    curve_compare(curve);
    compare_norms(curve, CURVE_CLOSE, 0);
}

static void check(const char *part, const char *keys)
{
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        struct curve curve;

        if (!curve_supported(names[i]))
            continue;
        curve_open(&curve, names[i], part, keys);
        compare_run(&curve);
        curve_close(&curve);
    }
}

static void test_encoders_train_with_their_models(void **state)
{
    (void)state;
    check("full", WHOLE DECAY FULL);
}

static void test_encoders_train_alone(void **state)
{
    (void)state;
    check("encoder", WHOLE DECAY ALONE);
}

static void test_adapters_of_encoders_train(void **state)
{
    (void)state;
    check("lora", WHOLE DECAY ALL);
}

/* Compare all tensors outside of the encoder, the projector and layer 1, which has
 * cross-attention, with those of the base. */
static void compare_frozen(const struct curve *curve)
{
    char *path = path_join(curve->u.dir, "out/model.safetensors");
    struct error err = { 0 };
    struct safetensors *files = safetensors_open(path, "model", false, &err);
    struct safetensors *base = safetensors_open(curve->u.dir, "model", false, &err);
    size_t frozen = 0;

    unit_tower_must(files && base, &err);
    assert_int_equal(safetensors_count(files), safetensors_count(base));
    for (size_t i = 0; i < safetensors_count(base); i++) {
        const struct stored_tensor *was = safetensors_at(base, i);
        const struct stored_tensor *is = safetensors_find(files, was->name);

        if (!is)
            fail_msg("no tensor %s", was->name);
        if (strstr(was->name, "vision_model.") || strstr(was->name, "projector.") ||
            strstr(was->name, "language_model.model.layers.1."))
            continue;
        assert_int_equal(is->format, was->format);
        assert_int_equal(is->bytes, was->bytes);
        if (memcmp(is->data, was->data, was->bytes) != 0)
            fail_msg("%s has changed", was->name);
        frozen++;
    }
    assert_int_equal(frozen, 2 * 9 + 3);
    safetensors_close(files);
    safetensors_close(base);
    free(path);
}

/* torchtune's full recipes of Llama 3.2 Vision. */
static void test_encoders_train_with_cross_attention(void **state)
{
    struct curve curve;

    (void)state;
    if (!curve_supported("mllama"))
        skip();
    curve_open(&curve, "mllama", "fusion", WHOLE DECAY FUSION);
    compare_run(&curve);
    compare_frozen(&curve);
    curve_close(&curve);
}

/* torchtune's recipes of Llama 3.2 Vision with LoRA: of the text model, only the layers of
 * cross-attention have adapters. */
static void test_adapters_of_encoders_train_with_cross_attention(void **state)
{
    struct curve curve;

    (void)state;
    if (!curve_supported("mllama"))
        skip();
    curve_open(&curve, "mllama", "fusion-lora", WHOLE DECAY FUSION_LORA);
    compare_run(&curve);
    curve_close(&curve);
}

/* Make the job of one step with new adapters, or those of a folder. */
static char *job_with_adapters(const struct curve *curve, const char *keys,
                               const char *adapter, const char *to)
{
    return arena_printf(
        curve->u.arena,
        "model_name_or_path: %s\ndataset_dir: %s\ndataset: data\nstage: sft\n"
        "template: %s\nfinetuning_type: lora\nlora_rank: 4\ncutoff_len: 512\n"
        "output_dir: %s/%s\nmax_steps: 1\n%s%s%s" WHOLE "%s",
        curve->u.dir, curve->u.dir, curve_template(curve), curve->u.dir, to,
        adapter ? "adapter_name_or_path: " : "", adapter ? adapter : "",
        adapter ? "\n" : "", keys);
}

/* Compare the tensors of a saved adapter with PEFT's; return how many of those have no layer that
 * is read. */
static size_t compare_adapter(const struct curve *curve, const char *file)
{
    const json_t *want = json_object_get(curve_golden(curve), "adapter");
    char *path = path_join(curve->u.dir, file);
    struct error err = { 0 };
    struct safetensors *files = safetensors_open(path, "model", false, &err);
    const char *name;
    json_t *shape;
    size_t unread = 0;

    unit_tower_must(files != NULL, &err);
    json_object_foreach((json_t *)want, name, shape)
    {
        const struct stored_tensor *t = safetensors_find(files, name);

        unread += !t;
        if (!t && !strstr(name, "vision_tower.encoder.layers.2."))
            fail_msg("%s: no tensor %s", curve->one->name, name);
        for (size_t k = 0; t && k < t->rank; k++)
            assert_int_equal(t->shape[k], json_integer_value(json_array_get(shape, k)));
    }
    assert_int_equal(safetensors_count(files), json_object_size((json_t *)want) - unread);
    safetensors_close(files);
    free(path);
    return unread;
}

/* The folder of PEFT's adapter has the tensors that a job with the same targets makes, but for
 * layers whose output is not read. */
static void test_adapters_are_on_the_layers_of_llama_factory(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        struct curve curve;
        size_t unread;

        if (!curve_supported(names[i]))
            continue;
        curve_open(&curve, names[i], NULL, "");
        curve.job = job_with_adapters(&curve, ALL, NULL, "out");
        curve_run(&curve, (struct training) { 0 });
        curve.part = "lora";
        unread = compare_adapter(&curve, "out/adapter_model.safetensors");
        assert_true(unread == 0 || strcmp(names[i], "llava") == 0);
        curve_close(&curve);
    }
}

/* Their adapter_config.json names the layers of cross-attention: a job that continues the adapter
 * has the same ones. */
static void test_adapters_of_cross_attention_are_continued(void **state)
{
    struct curve curve;
    char *out;

    (void)state;
    if (!curve_supported("mllama"))
        skip();
    curve_open(&curve, "mllama", NULL, "");
    out = path_join(curve.u.dir, "out");
    curve.job = job_with_adapters(&curve, FUSION_LORA, NULL, "out");
    curve_run(&curve, (struct training) { 0 });
    curve.part = "fusion-lora";
    assert_int_equal(compare_adapter(&curve, "out/adapter_model.safetensors"), 0);
    curve.job = job_with_adapters(&curve, FUSION_LORA "overwrite_output_dir: true\n", out,
                                  "next");
    curve_run(&curve, (struct training) { 0 });
    assert_int_equal(compare_adapter(&curve, "next/adapter_model.safetensors"), 0);
    free(out);
    curve_close(&curve);
}

/* The loss of the next step, of which an evaluation computes the same batch. */
static void test_evaluations_use_the_current_encoder(void **state)
{
    struct curve curve;
    double loss;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        if (!curve_supported(names[i]))
            continue;
        curve_open(&curve, names[i], "encoder",
                   WHOLE DECAY ALONE
                   "max_steps: 1\neval_dataset: data\neval_strategy: steps\n"
                   "eval_steps: 1\n");
        curve_run(&curve, (struct training) { 0 });
        loss = json_number_value(
            json_array_get(json_object_get(curve_golden(&curve), "losses"), 1));
        if (!(fabs(curve_last_eval(&curve) - loss) < CURVE_CLOSE))
            fail_msg("%s: %.8g, not %.8g", names[i], curve_last_eval(&curve), loss);
        curve_close(&curve);
    }
}

/* Let all records have the same medium. */
static void share_medium(const struct curve *curve)
{
    const char *from = arena_printf(curve->u.arena, "%s/0", curve->u.dir);

    for (int i = 1; i < 4; i++) {
        const char *to = arena_printf(curve->u.arena, "%s/%d", curve->u.dir, i);

        assert_int_equal(unlink(to), 0);
        assert_int_equal(link(from, to), 0);
    }
}

/* In a batch it passes through the encoder once, with the sum of its gradients. */
static void test_samples_share_a_medium(void **state)
{
    static const char *const batches[] = {
        WHOLE, "per_device_train_batch_size: 1\ngradient_accumulation_steps: 4\n"
    };
    double losses[2][CURVE_STEPS];
    size_t count = 0;

    (void)state;
    if (!curve_supported("qwen3_vl"))
        skip();
    for (size_t i = 0; i < TS_COUNT(batches); i++) {
        struct curve curve;

        curve_open(&curve, "qwen3_vl", "full", "");
        share_medium(&curve);
        curve.job = arena_printf(curve.u.arena, "%s%s" FULL "max_steps: 6\n", curve.job,
                                 batches[i]);
        curve_run(&curve, (struct training) { 0 });
        count = curve_read_losses(&curve);
        assert_int_equal(count, 6);
        memcpy(losses[i], curve.losses, sizeof(losses[i]));
        curve_close(&curve);
    }
    for (size_t k = 0; k < count; k++)
        if (!(fabs(losses[0][k] - losses[1][k]) < CURVE_CLOSE))
            fail_msg("step %zu: %.8g or %.8g", k + 1, losses[0][k], losses[1][k]);
}

/* Matmuls read weights of 16 bits: losses differ by some epsilons of bf16, and norms at the end by
 * less than what the decay alone takes of them. */
static void check_in_16_bits(const char *part, const char *keys)
{
    const double close = 4 / 256.0, close_norm = 0.01;

    for (size_t i = 0; i < TS_COUNT(names); i++) {
        struct curve curve;
        const json_t *want;
        double first;

        if (!curve_supported(names[i]))
            continue;
        curve_open(&curve, names[i], part, keys);
        curve_run(&curve, (struct training) { 0 });
        want = json_object_get(curve_golden(&curve), "losses");
        first = json_number_value(json_array_get(want, 0));
        assert_int_equal(curve_read_losses(&curve), CURVE_STEPS);
        for (size_t k = 0; k < CURVE_STEPS; k++) {
            const double loss = json_number_value(json_array_get(want, k));

            if (!(fabs(curve.losses[k] - loss) < close * first))
                fail_msg("%s %s, step %zu: %.8g, not %.8g", names[i], part, k + 1,
                         curve.losses[k], loss);
        }
        /* half a step of AdamW; with PyTorch's autocast, gates part by up to 17 steps */
        compare_norms(&curve, close_norm,
                      json_number_value(json_object_get(curve_golden(&curve), "rate")) /
                          2);
        curve_close(&curve);
    }
}

static void test_encoders_train_in_16_bits(void **state)
{
    (void)state;
    check_in_16_bits("encoder", WHOLE DECAY ALONE "bf16: true\n");
}

static void test_models_train_with_their_encoders_in_16_bits(void **state)
{
    (void)state;
    check_in_16_bits("full", WHOLE DECAY FULL "bf16: true\n");
}

static void test_adapters_of_encoders_train_in_16_bits(void **state)
{
    (void)state;
    check_in_16_bits("lora", WHOLE DECAY ALL "bf16: true\n");
}

/* The records lose their images. */
static void test_cross_attention_requires_images(void **state)
{
    struct error err = { 0 };
    struct curve curve;

    (void)state;
    if (!curve_supported("mllama"))
        skip();
    curve_open(&curve, "mllama", "fusion", WHOLE FUSION);
    curve_write(curve.u.dir, "data.jsonl",
                "{\"messages\": [{\"role\": \"user\", \"content\": \"What is 1?\"}, "
                "{\"role\": \"assistant\", \"content\": \"It is 1.\"}], \"images\": "
                "[]}\n");
    assert_false(
        training_run(&(struct training) { .dir = curve.u.dir, .job = curve.job }, &err));
    if (!strstr(err.text, "train_cross_attention leaves nothing to train"))
        fail_msg("%s", err.text);
    curve_close(&curve);
}

static void refuse(const char *keys, const char *says)
{
    struct error err = { 0 };
    struct curve curve;

    curve_open(&curve, "qwen3_vl", "full", keys);
    assert_false(
        training_run(&(struct training) { .dir = curve.u.dir, .job = curve.job }, &err));
    if (!strstr(err.text, says))
        fail_msg("%s", err.text);
    curve_close(&curve);
}

static void test_jobs_that_cannot_train_encoders_end_before_the_first_step(void **state)
{
    (void)state;
    if (!curve_supported("qwen3_vl"))
        skip();
    refuse(WHOLE FULL "trainspool:\n  save_torch_state: true\n",
           "save_torch_state is not supported with freeze_vision_tower: false");
}

/* As transformers' Trainer has it of nn.Embedding. */
static void test_tables_of_positions_have_moments_of_32_bits(void **state)
{
    static const char name[] = "model.visual.pos_embed.weight";
    const struct plan plan = { .optimizer = optimizer_find("adamw_8bit"),
                               .method = METHOD_FULL,
                               .precision = { .compute = FORMAT_FP32,
                                              .trainable = FORMAT_FP32,
                                              .frozen = FORMAT_FP32 } };
    struct error err = { 0 };
    struct model_config config;
    struct encoder_tensor *list;
    struct shapes shapes;
    struct curve curve;
    size_t tables = 0, codes = 0;

    (void)state;
    if (!curve_supported("qwen3_vl"))
        skip();
    curve_open(&curve, "qwen3_vl", "full", "");
    unit_tower_must(job_config_read(&plan, curve.u.dir, curve.u.arena, &config, &err),
                    &err);
    list = arena_array(curve.u.arena, config.encoder.count, sizeof(*list));
    memcpy(list, config.encoder.list, config.encoder.count * sizeof(*list));
    for (size_t i = 0; i < config.encoder.count; i++)
        if (list[i].rank == 2 && !list[i].joins)
            list[i].rows = list[i].shape[0] = 1024;
    config.encoder.list = list;
    unit_tower_must(shapes_make(&plan, &config, 0, 0, curve.u.arena, &shapes, &err),
                    &err);
    for (size_t i = 0; i < shapes.count; i++) {
        const struct shape_parameter *p = &shapes.parameters[i];

        if (!p->tensor || p->rank != 2)
            continue;
        tables += strcmp(p->name, name) == 0;
        codes += p->moments[0].format == FORMAT_CODES;
        assert_int_equal(p->moments[0].format,
                         strcmp(p->name, name) == 0 ? FORMAT_FP32 : FORMAT_CODES);
    }
    assert_int_equal(tables, 1);
    assert_true(codes > 0);
    curve_close(&curve);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoders_train_with_their_models),
        cmocka_unit_test(test_encoders_train_alone),
        cmocka_unit_test(test_encoders_train_with_cross_attention),
        cmocka_unit_test(test_adapters_of_encoders_train),
        cmocka_unit_test(test_adapters_of_encoders_train_with_cross_attention),
        cmocka_unit_test(test_adapters_of_cross_attention_are_continued),
        cmocka_unit_test(test_adapters_are_on_the_layers_of_llama_factory),
        cmocka_unit_test(test_evaluations_use_the_current_encoder),
        cmocka_unit_test(test_samples_share_a_medium),
        cmocka_unit_test(test_encoders_train_in_16_bits),
        cmocka_unit_test(test_models_train_with_their_encoders_in_16_bits),
        cmocka_unit_test(test_adapters_of_encoders_train_in_16_bits),
        cmocka_unit_test(test_jobs_that_cannot_train_encoders_end_before_the_first_step),
        cmocka_unit_test(test_cross_attention_requires_images),
        cmocka_unit_test(test_tables_of_positions_have_moments_of_32_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
