/*
 * tests/unit/test_preflight.c - a preflight does not change the bits of the run, ends a
 * job that cannot work with a diagnosis, and accepts a normal backoff of the loss scale.
 * The finding of the autopsy is in the folder of the run.
 */
#include "config.h"

#include "tests/unit/training.h"

#include <fcntl.h>
#include <math.h>

#include "base/json.h"
#include "base/log.h"

#define WEIGHTS "job.run/model.safetensors"
#define ADAPTER "job.run/adapter_model.safetensors"
#define FP16    "fp16: true\n"
#define RATE    "1.0e-3"
#define LORA_PT                                                        \
    "stage: pt\nfinetuning_type: lora\nlora_rank: 4\ncutoff_len: 64\n" \
    "max_samples: 400\nper_device_train_batch_size: 4\n"

/* Check that a job with and without a preflight gives the same weights to the bit. */
static void check_no_trace(const char *data, const char *more, const char *weights)
{
    char digest[2][DIGEST_TEXT], words[2048];

    for (int i = 0; i < 2; i++) {
        char *dir = unit_dir_new(), *job;
        struct training training = { .dir = dir };

        snprintf(words, sizeof(words), "%strainspool: {keep: [fp16], preflight: %s}\n",
                 more, i ? "true" : "false");
        training.job = job = training_text(data, words);
        training_must(&training);
        training_digest(dir, weights, digest[i]);
        free(job);
        unit_dir_free(dir);
    }
    assert_string_equal(digest[0], digest[1]);
}

static void test_preflight_leaves_no_trace_in_fp16(void **state)
{
    (void)state;
    check_no_trace(SHAKESPEARE, FULL_PT FP16 "max_steps: 12\nsave_strategy: \"no\"\n",
                   WEIGHTS);
}

static void test_preflight_leaves_no_trace_in_pure_bf16(void **state)
{
    (void)state;
    check_no_trace(SHAKESPEARE,
                   FULL_PT "pure_bf16: true\nmax_steps: 5\nsave_strategy: \"no\"\n",
                   WEIGHTS);
}

static void test_preflight_leaves_no_trace_in_an_adapter(void **state)
{
    (void)state;
    check_no_trace(ALPACA,
                   LORA_SFT FP16
                   "max_steps: 4\nlora_dropout: 0.1\n"
                   "gradient_accumulation_steps: 2\nsave_strategy: \"no\"\n",
                   ADAPTER);
}

/* ---- Broken models ---- */

static char *read_whole(const char *name, size_t *len)
{
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    if (!file_read(name, 1 << 24, &text, NULL, &err))
        fail_msg("%s", err.text);
    return text_detach(&text, len);
}

/* Values to write into one tensor of a copy of the model, DIR/model. */
struct planted {
    const char *tensor;
    size_t first, count;
    float value;
};

static size_t tensor_at(const char *data, const char *name)
{
    struct error err = { 0 };
    uint64_t header;
    json_t *object, *offsets;
    size_t at;

    memcpy(&header, data, sizeof(header));
    object = json_read_text(data + 8, header, "header", 1, &err);
    offsets = json_object_get(json_object_get(object, name), "data_offsets");
    assert_non_null(offsets);
    at = 8 + header + (size_t)json_integer_value(json_array_get(offsets, 0));
    json_decref(object);
    return at;
}

static void copy_model(const char *dir, const struct planted *planted)
{
    static const char *const names[] = { "config.json", "tokenizer.json",
                                         "tokenizer_config.json", "model.safetensors" };
    char *model = unit_shared("data/stories260K/hf"), *copy = path_join(dir, "model");
    struct error err = { 0 };

    assert_true(file_make_dir(copy, 0700, &err));
    for (size_t i = 0; i < 4; i++) {
        char *from = path_join(model, names[i]), *to = path_join(copy, names[i]);
        size_t len;
        char *data = read_whole(from, &len);

        for (size_t n = 0; i == 3 && n < planted->count; n++)
            memcpy(data + tensor_at(data, planted->tensor) + 4 * (planted->first + n),
                   &planted->value, 4);
        assert_true(file_replace(to, data, len, 0600, &err));
        free(data);
        free(from);
        free(to);
    }
    free(model);
    free(copy);
}

/* Run a job that fails; return its autopsy.json and set the error. */
static json_t *run_broken(const struct planted *planted, const char *more,
                          const char *rate, struct error *err)
{
    char *dir = unit_dir_new(), *job = training_text(SHAKESPEARE, more);
    char *name = path_join(dir, "job.run/autopsy.json"), *rest = strstr(job, "\ndataset");
    struct text text;
    struct training training = { .dir = dir };
    json_t *autopsy;

    memcpy(strstr(job, "1.0e-3"), rate, strlen("1.0e-3"));
    text_init(&text, 0);
    text_addf(&text, "model_name_or_path: model%s", rest);
    training.job = planted ? text.data : job;
    if (planted)
        copy_model(dir, planted);
    assert_false(training_run(&training, err));
    assert_int_equal(err->code, ERROR_DIVERGED);
    autopsy = json_read_file(name, 1 << 20, NULL);
    assert_non_null(autopsy);
    text_clear(&text);
    free(name);
    free(job);
    unit_dir_free(dir);
    return autopsy;
}

static const char *word(const json_t *object, const char *in, const char *key)
{
    const json_t *from = in ? json_object_get(object, in) : object;
    const char *value = json_string_value(json_object_get(from, key));

    return value ? value : "";
}

static int64_t whole(const json_t *object, const char *in, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(object, in), key));
}

static void test_preflight_ends_a_job_with_an_inf_in_a_weight(void **state)
{
    static const struct planted planted = { "model.layers.3.mlp.down_proj.weight", 177, 1,
                                            INFINITY };
    struct error err = { 0 };
    json_t *autopsy = run_broken(
        &planted, FULL_PT FP16 "max_steps: 99\ntrainspool: {keep: [fp16]}\n", RATE, &err);

    (void)state;
    assert_non_null(strstr(err.text, "preflight: 3 steps in a row"));
    assert_non_null(strstr(err.text, "autopsy: the weight model.layers.3.mlp.down_proj"));
    assert_string_equal(word(autopsy, NULL, "kind"), "weight");
    assert_string_equal(word(autopsy, "found", "tensor"), planted.tensor);
    assert_int_equal(whole(autopsy, "found", "layer"), 3);
    assert_int_equal(whole(autopsy, "found", "row"), 1); /* of 172 columns */
    assert_int_equal(whole(autopsy, "found", "col"), 5);
    assert_true(json_is_true(json_object_get(autopsy, "preflight")));
    assert_true(json_is_null(json_object_get(autopsy, "micro_batch")));
    json_decref(autopsy);
}

static void test_preflight_ends_a_job_whose_only_step_is_skipped(void **state)
{
    static const struct planted planted = { "model.layers.3.mlp.down_proj.weight", 177, 1,
                                            INFINITY };
    struct error err = { 0 };
    json_t *autopsy = run_broken(
        &planted, FULL_PT FP16 "max_steps: 1\ntrainspool: {keep: [fp16]}\n", RATE, &err);

    (void)state;
    assert_non_null(strstr(err.text, "preflight: the only step was skipped"));
    assert_string_equal(word(autopsy, "found", "tensor"), planted.tensor);
    json_decref(autopsy);
}

/* float16 can hold 60000, but not matmuls with it. */
static void test_preflight_ends_a_job_beyond_float16(void **state)
{
    static const struct planted planted = { "model.layers.1.mlp.up_proj.weight", 64 * 7,
                                            64, 60000 };
    struct error err = { 0 };
    json_t *autopsy = run_broken(
        &planted, FULL_PT FP16 "max_steps: 99\ntrainspool: {keep: [fp16]}\n", RATE, &err);
    const json_t *batch = json_object_get(autopsy, "micro_batch");

    (void)state;
    assert_string_equal(word(autopsy, NULL, "kind"), "activation");
    assert_string_equal(word(autopsy, "found", "tensor"), "gate, up");
    assert_int_equal(whole(autopsy, "found", "layer"), 1);
    assert_string_equal(word(autopsy, "found", "format"), "fp16");
    assert_int_equal(json_array_size(json_object_get(batch, "samples")), 4);
    assert_true(whole(autopsy, "micro_batch", "sample") < 400);
    assert_true(json_is_integer(json_object_get(batch, "token")));
    assert_int_equal(json_array_size(json_object_get(autopsy, "before")), 8);
    assert_non_null(strstr(word(autopsy, NULL, "advice"), "65504"));
    json_decref(autopsy);
}

static void test_preflight_ends_a_learning_rate_that_is_too_large(void **state)
{
    struct error err = { 0 };
    json_t *autopsy = run_broken(NULL,
                                 FULL_PT FP16 "max_steps: 99\nmax_grad_norm: 0.0\n"
                                              "trainspool: {keep: [fp16]}\n",
                                 "1.0e-0", &err);

    (void)state;
    assert_non_null(strstr(err.text, "a smaller learning_rate"));
    assert_string_not_equal(word(autopsy, NULL, "kind"), "nothing");
    assert_true(json_is_true(json_object_get(autopsy, "preflight")));
    json_decref(autopsy);
}

/* There is no preflight in fp32: the autopsy checks the first skipped step. */
static void test_autopsy_finds_a_poisoned_row_of_the_embedding(void **state)
{
    static const struct planted planted = { "model.embed_tokens.weight", 64 * 300, 64,
                                            NAN };
    struct error err = { 0 };
    json_t *autopsy = run_broken(&planted, FULL_PT "max_steps: 99\n", RATE, &err);

    (void)state;
    assert_non_null(strstr(err.text, "50 steps in a row"));
    assert_non_null(strstr(err.text, "autopsy: the weight model.embed_tokens.weight"));
    assert_int_equal(json_integer_value(json_object_get(autopsy, "step")), 1);
    assert_int_equal(whole(autopsy, "found", "row"), 300);
    assert_int_equal(whole(autopsy, "found", "nan"), 64);
    assert_non_null(strstr(word(autopsy, NULL, "sentence"), "the row of token 300"));
    assert_false(json_is_true(json_object_get(autopsy, "preflight")));
    json_decref(autopsy);
}

/* The evaluation before the first step finds it first. */
static void test_autopsy_checks_an_evaluation(void **state)
{
    static const struct planted planted = { "model.layers.1.mlp.up_proj.weight", 64 * 7,
                                            64, 3e38F };
    struct error err = { 0 };
    json_t *autopsy = run_broken(&planted,
                                 FULL_PT "max_steps: 99\nval_size: 0.2\n"
                                         "eval_strategy: steps\neval_steps: 50\n",
                                 RATE, &err);

    (void)state;
    assert_true(json_is_true(json_object_get(autopsy, "evaluation")));
    assert_int_equal(json_integer_value(json_object_get(autopsy, "step")), 0);
    assert_string_equal(word(autopsy, NULL, "kind"), "activation");
    assert_string_equal(word(autopsy, "found", "tensor"), "gate, up");
    assert_int_equal(whole(autopsy, "found", "layer"), 1);
    assert_string_equal(word(autopsy, "weight", "tensor"), planted.tensor);
    assert_non_null(strstr(err.text, "autopsy: the activation gate, up of layer 1"));
    json_decref(autopsy);
}

/* A static loss scale that is too large: gradients overflow and no scaler can help. */
static void test_autopsy_finds_the_gradient_of_a_static_scale(void **state)
{
    static const char *const methods[] = { FULL_PT, LORA_PT };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char more[512];
        struct error err = { 0 };
        json_t *autopsy;

        snprintf(more, sizeof(more),
                 "%sfp16: true\nmax_steps: 99\nloss_scale: 1.0e+9\n"
                 "trainspool: {keep: [fp16, loss_scale]}\n",
                 methods[i]);
        autopsy = run_broken(NULL, more, RATE, &err);
        assert_string_equal(word(autopsy, NULL, "kind"), "gradient");
        assert_non_null(strstr(word(autopsy, NULL, "advice"), "loss_scale: dynamic"));
        json_decref(autopsy);
    }
}

/* ---- Log ---- */

/* Run a job with these keys and learning rate on a model with planted values; return its
 * log. */
static char *run_logged(const struct planted *planted, const char *more, const char *rate,
                        bool *ok, struct error *err)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "log"), *log;
    char *job = training_text(SHAKESPEARE, more);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct training training = { .dir = dir, .log = log_new(fd, LOG_INFO) };
    struct text text;

    memcpy(strstr(job, "1.0e-3"), rate, strlen("1.0e-3"));
    text_init(&text, 0);
    text_addf(&text, "model_name_or_path: model%s", strstr(job, "\ndataset"));
    training.job = planted ? text.data : job;
    if (planted)
        copy_model(dir, planted);
    *ok = training_run(&training, err);
    log = read_whole(name, NULL);
    log_free(training.log);
    close(fd);
    text_clear(&text);
    free(job);
    free(name);
    unit_dir_free(dir);
    return log;
}

static void check_contains(const char *log, const char *expected)
{
    if (!strstr(log, expected))
        fail_msg("\"%s\" is not in:\n%s", expected, log);
}

/* From 2^16 some steps are skipped before the first succeeds: this is normal. */
static void test_preflight_accepts_a_backoff(void **state)
{
    static const struct planted planted = { "model.norm.weight", 0, 64, 3000 };
    struct error err = { 0 };
    bool ok;
    char *log = run_logged(&planted,
                           FULL_PT FP16
                           "max_steps: 30\nsave_strategy: \"no\"\nmax_grad_norm: 0.01\n"
                           "trainspool: {keep: [fp16]}\n",
                           RATE, &ok, &err);

    (void)state;
    assert_true(ok);
    check_contains(log, "preflight: 10 steps done, ");
    assert_null(strstr(log, "preflight: 10 steps done, 0 skipped"));
    check_contains(log, ", gradients of all 47 tensors finite in step ");
    check_contains(log, "step 1: skipped"); /* the run skips it again */
    assert_null(strstr(log, "autopsy"));
    free(log);
}

/* The first successful step changes each weight by 1.  Because of the planted values,
 * matmuls of all later steps then exceed float16. */
static void test_preflight_logs_which_gradients_are_not_finite(void **state)
{
    static const struct planted planted = { "model.layers.1.mlp.up_proj.weight", 0,
                                            64 * 172, 1000 };
    struct error err = { 0 };
    bool ok;
    char *log = run_logged(&planted,
                           FULL_PT FP16
                           "max_steps: 3\nsave_strategy: \"no\"\nmax_grad_norm: 0.0\n"
                           "trainspool: {keep: [fp16]}\n",
                           "1.0e-0", &ok, &err);

    (void)state;
    assert_true(ok);
    check_contains(log, "warn preflight: 1 steps done, 2 skipped, ");
    check_contains(log, ", gradients of 47 of 47 tensors not finite in step 3, first "
                        "model.embed_tokens.weight; ");
    assert_null(strstr(log, "gradients of all"));
    free(log);
}

/* The run ends before its loss scale has come down far enough. */
static void test_preflight_ends_a_job_too_short_for_its_loss_scale(void **state)
{
    static const struct planted planted = { "model.norm.weight", 0, 64, 3000 };
    struct error err = { 0 };
    bool ok;
    char *log = run_logged(&planted,
                           FULL_PT FP16 "max_steps: 1\nsave_strategy: \"no\"\n"
                                        "trainspool: {keep: [fp16]}\n",
                           RATE, &ok, &err);

    (void)state;
    assert_false(ok);
    assert_int_equal(err.code, ERROR_DIVERGED);
    assert_non_null(strstr(err.text, "preflight: all 1 steps of the run were skipped"));
    assert_non_null(strstr(err.text, "the loss scale has only come down to 32768"));
    assert_null(strstr(log, "autopsy"));
    free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preflight_leaves_no_trace_in_fp16),
        cmocka_unit_test(test_preflight_leaves_no_trace_in_pure_bf16),
        cmocka_unit_test(test_preflight_leaves_no_trace_in_an_adapter),
        cmocka_unit_test(test_preflight_ends_a_job_with_an_inf_in_a_weight),
        cmocka_unit_test(test_preflight_ends_a_job_whose_only_step_is_skipped),
        cmocka_unit_test(test_preflight_ends_a_job_beyond_float16),
        cmocka_unit_test(test_preflight_ends_a_learning_rate_that_is_too_large),
        cmocka_unit_test(test_autopsy_finds_a_poisoned_row_of_the_embedding),
        cmocka_unit_test(test_autopsy_checks_an_evaluation),
        cmocka_unit_test(test_autopsy_finds_the_gradient_of_a_static_scale),
        cmocka_unit_test(test_preflight_accepts_a_backoff),
        cmocka_unit_test(test_preflight_logs_which_gradients_are_not_finite),
        cmocka_unit_test(test_preflight_ends_a_job_too_short_for_its_loss_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
