/* tests/unit/test_tower_dropout.c - jobs with dropout on the adapters of an encoder: the bits do not
 * depend on threads or interruptions, and an evaluation drops nothing. */
#include "config.h"

#include "tests/unit/unit_tower_jobs.h"

/* Layers that only the encoder of Qwen2.5-VL has. */
#define ENCODER_ALONE "freeze_vision_tower: false\nlora_target: qkv,attn.proj\n"
#define SHORT                                                                        \
    "per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\nmax_steps: 4\n" \
    "save_steps: 2\n"

/* fp32; one side merges the adapters. */
#define CLOSE 1e-5

/* A job with new adapters. */
static void open_job(struct curve *curve, const char *name, const char *more)
{
    char *job;

    curve_open(curve, name, "full", SHORT);
    job = curve->job;
    memcpy(strstr(job, "full"), "lora", strlen("lora"));
    curve->job = arena_printf(curve->u.arena, "%s%s", job, more);
}

static char *trained(const char *name, const char *more, int threads, int64_t ticks)
{
    struct curve curve;
    char *out;

    open_job(&curve, name, more);
    if (ticks > 0)
        assert_true(training_in_pieces(curve.u.dir, curve.job, ticks, "") > 2);
    else
        curve_run(&curve, (struct training) { .threads = threads });
    out = curve_digest(&curve, "out/adapter_model.safetensors");
    curve_close(&curve);
    return out;
}

static void test_dropout_has_the_same_bits(void **state)
{
    static const struct {
        const char *name, *more;
        int64_t ticks;
    } cases[] = {
        { "qwen2_audio", ALL "lora_dropout: 0.3\n", 53 },
        { "qwen2_5_vl", ALL "lora_dropout: 0.3\n", 53 },
        { "mllama", ALL "lora_dropout: 0.3\nbf16: true\n", 97 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char *one, *two, *resumed;

        if (!curve_supported(cases[i].name))
            continue;
        one = trained(cases[i].name, cases[i].more, 1, 0);
        two = trained(cases[i].name, cases[i].more, 2, 0);
        resumed = trained(cases[i].name, cases[i].more, 1, cases[i].ticks);
        assert_string_equal(one, two);
        assert_string_equal(one, resumed);
        free(one);
        free(two);
        free(resumed);
    }
}

/* The loss of the trained adapter, in a job that only evaluates and merges it. */
static double evaluated(struct curve *curve)
{
    const char *dir = curve->u.dir;
    json_t *results;
    char *text;
    double out;

    curve->job = arena_printf(
        curve->u.arena,
        "model_name_or_path: %s\ndataset_dir: %s\neval_dataset: data\nstage: sft\n"
        "template: %s\nfinetuning_type: lora\ncutoff_len: 512\ndo_train: false\n"
        "do_eval: true\nadapter_name_or_path: %s/out\noutput_dir: %s/eval\n",
        dir, dir, curve_template(curve), dir, dir);
    curve_run(curve, (struct training) { .evaluates = true });
    text = curve_read(curve, "eval/eval_results.json", NULL);
    results = json_loads(text, 0, NULL);
    out = json_number_value(json_object_get(results, "eval_loss"));
    json_decref(results);
    free(text);
    return out;
}

/* PEFT writes the names that a job has. */
static void list_targets(const struct curve *curve)
{
    char *text = curve_read(curve, "out/adapter_config.json", NULL);
    json_t *config = json_loads(text, 0, NULL);
    char *dir = path_join(curve->u.dir, "out");

    json_object_set_new(config, "target_modules",
                        json_pack("[s, s]", "qkv", "attn.proj"));
    put_json(config, dir, "adapter_config.json");
    json_decref(config);
    free(text);
    free(dir);
}

/* A new adapter adds nothing, so that the first step has the loss of a job without dropout. */
static void test_dropout_is_of_training_alone(void **state)
{
    struct curve drops, plain;
    double loss;

    (void)state;
    if (!curve_supported("qwen2_5_vl"))
        skip();
    open_job(
        &drops, "qwen2_5_vl",
        ENCODER_ALONE
        "eval_dataset: data\neval_strategy: steps\neval_steps: 4\neval_on_start: false\n"
        "lora_dropout: 0.5\n");
    open_job(&plain, "qwen2_5_vl", ENCODER_ALONE);
    curve_run(&drops, (struct training) { 0 });
    curve_run(&plain, (struct training) { 0 });
    curve_read_losses(&drops);
    assert_int_equal(curve_read_losses(&plain), 4);
    assert_true(drops.losses[0] == plain.losses[0]);
    assert_true(drops.losses[3] != plain.losses[3]);
    loss = curve_last_eval(&drops);
    assert_true(fabs(evaluated(&drops) / loss - 1) < CLOSE);
    list_targets(&drops);
    assert_true(fabs(evaluated(&drops) / loss - 1) < CLOSE);
    curve_close(&drops);
    curve_close(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropout_has_the_same_bits),
        cmocka_unit_test(test_dropout_is_of_training_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
