/*
 * tests/unit/test_trainer_distill.c - whole jobs of stage distill: a student learns from
 * a real teacher, resumes after an interruption, and has the same losses with every
 * memory layout.
 */
#include "config.h"

#include "tests/unit/training.h"

#include <math.h>
#include <sys/stat.h>

#include "base/size.h"
#include "train/files/safetensors.h"

/* The student starts with the weights of its teacher times 0.9. */
#define WORSE 0.9f

struct scaled {
    const struct stored_tensor *tensor;
    enum format format;
    float factor;
};

static bool read_scaled(const void *context, size_t index, void *to, struct error *err)
{
    const struct scaled *h = (const struct scaled *)context + index;
    size_t count = h->tensor->bytes / sizeof(float);
    float *values = memory_alloc(h->tensor->bytes);

    (void)err;
    assert_int_equal(h->tensor->format, FORMAT_FP32);
    for (size_t i = 0; i < count; i++)
        values[i] = ((const float *)h->tensor->data)[i] * h->factor;
    format_convert(to, h->format, values, FORMAT_FP32, count);
    free(values);
    return true;
}

static void copy_file(const char *from, const char *to, const char *base)
{
    char *name = path_join(from, base), *copy = path_join(to, base);
    struct text text;

    text_init(&text, (size_t)1 << 24);
    if (file_read(name, (size_t)1 << 24, &text, NULL, NULL))
        assert_true(file_replace(copy, text.data, text.len, 0644, NULL));
    text_clear(&text);
    free(name);
    free(copy);
}

/* Write stories260K to DIR/name in a format, with its weights times `factor`. */
static void put_model(const char *dir, const char *name, enum format format, float factor)
{
    char *from = unit_shared("data/stories260K/hf"), *to = path_join(dir, name);
    char *file = path_join(to, "model.safetensors");
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(from, "model", false, &err);
    size_t count = set ? safetensors_count(set) : 0;
    struct tensor_source *sources = memory_alloc((count + 1) * sizeof(*sources));
    struct scaled *scaled = memory_alloc((count + 1) * sizeof(*scaled));

    assert_non_null(set);
    mkdir(to, 0700);
    for (size_t i = 0; i < count; i++) {
        const struct stored_tensor *t = safetensors_at(set, i);

        scaled[i] = (struct scaled) { t, format, factor };
        sources[i] = (struct tensor_source) { .name = t->name,
                                              .format = format,
                                              .rank = t->rank,
                                              .read = read_scaled,
                                              .context = scaled,
                                              .index = i };
        memcpy(sources[i].shape, t->shape, t->rank * sizeof(*t->shape));
    }
    if (!safetensors_write(file, sources, count, &err))
        fail_msg("%s", err.text);
    copy_file(from, to, "config.json");
    copy_file(from, to, "tokenizer.json");
    copy_file(from, to, "tokenizer_config.json");
    safetensors_close(set);
    free(sources);
    free(scaled);
    free(from);
    free(to);
    free(file);
}

/* Make a folder with a student and its teacher. */
static char *folder_new(enum format teacher_format)
{
    char *shared = unit_shared("data/stories260K/hf"), *dir;

    if (!shared) {
        print_message("skipped: the shared models are absent\n");
        skip();
    }
    free(shared);
    dir = unit_dir_new();
    put_model(dir, "student", FORMAT_FP32, WORSE);
    put_model(dir, "teacher", teacher_format, 1);
    return dir;
}

static char *distill_job(const char *more)
{
    char *set = unit_shared(ALPACA);
    struct text text;

    text_init(&text, 0);
    text_addf(&text,
              "model_name_or_path: student\n"
              "dataset: %s\n"
              "template: alpaca\n"
              "stage: distill\n"
              "learning_rate: 1.0e-3\n"
              "lr_scheduler_type: constant\n"
              "max_samples: 60\n"
              "%s",
              set, more);
    free(set);
    return text_detach(&text, NULL);
}

static void learn(struct training *training, const char *dir, const char *more)
{
    char *job = distill_job(more);

    training->dir = dir;
    training->job = job;
    training_must(training);
    free(job);
    training->job = NULL;
}

static double mean_of(const struct training *training, const char *key, int from)
{
    double sum = 0;

    for (int i = from; i < from + 5; i++) {
        double value = training_value(training, key, i);

        assert_true(isfinite(value));
        sum += value / 5;
    }
    return sum;
}

static void check_learns(enum format teacher_format, const char *more)
{
    char *dir = folder_new(teacher_format);
    struct training training = { 0 };
    double before, after;

    learn(&training, dir, more);
    before = mean_of(&training, "'kd_loss'", 0);
    after = mean_of(&training, "'kd_loss'", (int)training.steps - 5);
    if (!(after < before * 0.8))
        fail_msg("the distance went from %g to %g", before, after);
    unit_dir_free(dir);
}

#define TEACHER "teacher_model_name_or_path: teacher\n"
#define DATA    "per_device_train_batch_size: 4\ncutoff_len: 160\nseed: 7\n"
#define TAUGHT  TEACHER DATA
#define STEPS \
    TAUGHT "max_steps: 30\nkd_ratio: 0.8\nkd_temperature: 2.0\nlogging_steps: 1\n"

static void test_trainer_distill_full_approaches_the_teacher(void **state)
{
    (void)state;
    check_learns(FORMAT_FP32, STEPS "finetuning_type: full\n");
    check_learns(FORMAT_BF16, STEPS "finetuning_type: full\nkd_beta: 0.5\nbf16: true\n");
}

static void test_trainer_distill_adapters_approach_the_teacher(void **state)
{
    (void)state;
    check_learns(FORMAT_FP16,
                 STEPS "finetuning_type: lora\nlora_rank: 8\nkd_beta: 1.0\nfp16: true\n"
                       "trainspool: {keep: [fp16]}\n");
    check_learns(FORMAT_BF16, STEPS "finetuning_type: lora\nlora_rank: 8\nkd_topk: 32\n"
                                    "packing: true\ngradient_accumulation_steps: 2\n");
}

/* A student that is its own teacher has distance 0. */
static void test_trainer_distill_from_itself_has_no_distance(void **state)
{
    struct training training = { 0 };
    char *dir = folder_new(FORMAT_FP32);

    (void)state;
    learn(&training, dir,
          DATA "teacher_model_name_or_path: student\nfinetuning_type: full\n"
               "max_steps: 2\nlogging_steps: 1\n");
    assert_true(training_value(&training, "'kd_loss'", 0) == 0);
    assert_true(training_value(&training, "'kd_loss'", 1) > 0);
    assert_true(training_value(&training, "'ce_loss'", 0) > 1);
    unit_dir_free(dir);
}

/* ASFT starts as DFT, and adds the distance from the initial model; a named model is
 * another reference. */
static void test_trainer_distill_anchors_to_a_reference(void **state)
{
    static const char *const losses[] = { "use_dft_loss: true\n",
                                          "use_asft_loss: true\nasft_alpha: 0.5\n",
                                          "use_asft_loss: true\nref_model: teacher\n" };
    struct training runs[TS_COUNT(losses)] = { 0 };
    double ce, kd;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(losses); i++) {
        char keys[256], *dir = folder_new(FORMAT_FP32), *job;

        snprintf(keys, sizeof(keys),
                 DATA "finetuning_type: full\nmax_steps: 3\nlogging_steps: 1\n%s",
                 losses[i]);
        job = distill_job(keys);
        memcpy(strstr(job, "stage: distill"), "stage: sft    ", strlen("stage: distill"));
        runs[i].dir = dir;
        runs[i].job = job;
        training_must(&runs[i]);
        free(job);
        unit_dir_free(dir);
    }
    assert_true(training_value(&runs[1], "'kd_loss'", 0) == 0);
    assert_true(training_value(&runs[1], "'loss'", 0) ==
                training_value(&runs[0], "'loss'", 0));
    assert_true(training_value(&runs[1], "'grad_norm'", 0) ==
                training_value(&runs[0], "'grad_norm'", 0));
    ce = training_value(&runs[1], "'ce_loss'", 2);
    kd = training_value(&runs[1], "'kd_loss'", 2);
    assert_true(kd > 0);
    assert_true(fabs(training_value(&runs[1], "'loss'", 2) - (ce + 0.5 * kd)) <
                1e-3 * (ce + kd)); /* log lines have four digits */
    assert_true(training_value(&runs[2], "'kd_loss'", 0) > 0.01);
}

#define FEW DATA "finetuning_type: full\nmax_steps: 3\nlogging_steps: 1\n"

/* Train an adapter of the teacher with a job of stage sft, and also merge it. */
static void make_adapter(const char *dir)
{
    char *set = unit_shared(ALPACA);
    struct training training = { .dir = dir };
    struct text text;

    text_init(&text, 0);
    text_addf(&text,
              "model_name_or_path: teacher\ndataset: %s\ntemplate: alpaca\nlora_rank: 4\n"
              "cutoff_len: 128\nmax_samples: 40\nmax_steps: 8\nlearning_rate: 1.0e-2\n"
              "output_dir: adapter\nexport_dir: merged\n",
              set);
    training.job = text.data;
    training_must(&training);
    text_clear(&text);
    free(set);
}

/* A teacher with an adapter gives the same result as the merged model. */
static void test_trainer_distill_teacher_has_an_adapter(void **state)
{
    struct training training[3] = { 0 };
    char *dir = folder_new(FORMAT_FP32);
    double plain, merged;

    (void)state;
    make_adapter(dir);
    learn(&training[0], dir,
          FEW
          "teacher_model_name_or_path: teacher\nteacher_adapter_name_or_path: adapter\n");
    learn(&training[1], dir, FEW "teacher_model_name_or_path: merged\n");
    learn(&training[2], dir, FEW "teacher_model_name_or_path: teacher\n");
    assert_string_equal(training[0].logged, training[1].logged);
    plain = training_value(&training[2], "'kd_loss'", 0);
    merged = training_value(&training[1], "'kd_loss'", 0);
    assert_true(fabs(plain - merged) > 1e-2 * plain);
    unit_dir_free(dir);
}

static void check_resume(const char *more, const char *weights, int64_t at)
{
    char *one = folder_new(FORMAT_BF16), *two = folder_new(FORMAT_BF16);
    char *job = distill_job(more), a[DIGEST_TEXT], b[DIGEST_TEXT];
    struct training whole = { .dir = one, .job = job };
    struct training first = { .dir = two, .job = job, .stop_after = at };
    struct training second = { .dir = two, .job = job, .resume = true };
    struct error err = { 0 };

    training_must(&whole);
    assert_false(training_run(&first, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    training_must(&second);
    assert_int_equal(first.steps + second.steps, whole.steps);
    training_digest(one, weights, a);
    training_digest(two, weights, b);
    assert_string_equal(a, b);
    assert_true(training_value(&whole, "'kd_loss'", (int)at / 2) ==
                training_value(&second, "'kd_loss'", 0));
    free(job);
    unit_dir_free(one);
    unit_dir_free(two);
}

static void test_trainer_distill_resumed_is_uninterrupted(void **state)
{
    (void)state;
    check_resume(TAUGHT
                 "finetuning_type: full\nmax_steps: 9\nlogging_steps: 2\nkd_beta: 0.3\n",
                 "job.run/model.safetensors", 3);
    check_resume(TAUGHT
                 "finetuning_type: lora\nlora_dropout: 0.1\nmax_steps: 8\nkd_topk: 8\n"
                 "logging_steps: 2\n",
                 "job.run/adapter_model.safetensors", 4);
}

/* Compare the losses of the first steps with those of another layout. */
static void check_same(const char *one, const char *two, double near)
{
    static const char *const keys[] = { "'ce_loss'", "'kd_loss'", "'grad_norm'" };
    char *dir = folder_new(FORMAT_BF16);
    struct training a = { 0 }, b = { 0 };

    learn(&a, dir, one);
    learn(&b, dir, two);
    for (size_t k = 0; k < 3; k++)
        for (int i = 0; i < 4; i++) {
            double x = training_value(&a, keys[k], i), y = training_value(&b, keys[k], i);

            if (!(fabs(x - y) <= near * fabs(x)))
                fail_msg("%s of step %d is %g and %g", keys[k], i + 1, x, y);
        }
    unit_dir_free(dir);
}

/* Log lines have four digits. */
#define DIGITS 2e-3
#define SHORT                                                                    \
    "teacher_model_name_or_path: teacher\nfinetuning_type: full\nmax_steps: 4\n" \
    "disable_shuffling: true\nkd_beta: 0.2\nlogging_steps: 1\ncutoff_len: 160\n"

static void test_trainer_distill_layouts_agree(void **state)
{
    (void)state;
    check_same(SHORT "per_device_train_batch_size: 4\n",
               SHORT "per_device_train_batch_size: 2\ngradient_accumulation_steps: 2\n"
                     "disable_gradient_checkpointing: true\n",
               DIGITS);
}

/* ---- Teacher logits in a file ---- */

#define KEPT \
    "finetuning_type: full\nmax_steps: 4\nkd_temperature: 2.0\nlogging_steps: 1\n"
#define TWELVE "kd_topk: 12\n"
#define FILED  "trainspool: {teacher_logits: kept.safetensors}\n"

static void remove_in(const char *dir, const char *name)
{
    char *path = path_join(dir, name);

    assert_true(file_remove_tree(path, NULL));
    free(path);
}

static void fails(const char *dir, const char *more, const char *text)
{
    char *job = distill_job(more);
    struct training training = { .dir = dir, .job = job };
    struct error err = { 0 };

    assert_false(training_run(&training, &err));
    if (!strstr(err.text, text))
        fail_msg("\"%s\" does not contain \"%s\"", err.text, text);
    free(job);
}

static void same_losses(const struct training *a, const struct training *b, double near)
{
    for (int i = 0; i < (int)a->steps; i++) {
        double x = training_value(a, "'kd_loss'", i),
               y = training_value(b, "'kd_loss'", i);

        assert_true(x > 0);
        if (!(fabs(x - y) <= near * x))
            fail_msg("step %d: kd_loss is %g and %g", i + 1, x, y);
    }
}

/* The file is written next to the job and gives the same losses as the teacher.  Then no
 * teacher is required, and packing, order and batches may differ. */
static void test_trainer_distill_with_a_file_matches_the_teacher(void **state)
{
    struct training live = { 0 }, made = { 0 }, read = { 0 }, packed = { 0 };
    char *dir = folder_new(FORMAT_BF16), before[DIGEST_TEXT], after[DIGEST_TEXT];

    (void)state;
    learn(&live, dir, TAUGHT KEPT TWELVE);
    learn(&made, dir, TAUGHT KEPT TWELVE FILED);
    same_losses(&live, &made, DIGITS);
    training_digest(dir, "kept.safetensors", before);
    remove_in(dir, "teacher");
    learn(&read, dir, DATA KEPT TWELVE FILED);
    assert_string_equal(made.logged, read.logged);
    learn(&packed, dir,
          KEPT TWELVE FILED "cutoff_len: 160\nseed: 8\npacking: true\n"
                            "per_device_train_batch_size: 1\n");
    for (int i = 0; i < 4; i++)
        assert_true(training_value(&packed, "'kd_loss'", i) > 0);
    training_digest(dir, "kept.safetensors", after);
    assert_string_equal(before, after);
    unit_dir_free(dir);
}

static void test_trainer_distill_refuses_a_file_of_other_data(void **state)
{
    struct training made = { 0 };
    char *dir = folder_new(FORMAT_BF16);

    (void)state;
    learn(&made, dir, TAUGHT KEPT TWELVE FILED);
    fails(dir, TAUGHT KEPT FILED "kd_topk: 13\n", "12 logits of each token");
    fails(dir, DATA KEPT TWELVE FILED "teacher_model_name_or_path: student\n",
          "another teacher");
    fails(dir,
          TEACHER KEPT TWELVE FILED "cutoff_len: 90\nper_device_train_batch_size: 4\n",
          "other data");
    fails(dir, DATA KEPT "kd_topk: 12\ntrainspool: {teacher_logits: none.safetensors}\n",
          "no teacher to make it");
    unit_dir_free(dir);
}

static void test_trainer_distill_resumed_with_a_file_is_uninterrupted(void **state)
{
    (void)state;
    check_resume(TAUGHT "finetuning_type: full\nmax_steps: 6\nlogging_steps: 2\n"
                        "kd_beta: 0.4\n" TWELVE FILED,
                 "job.run/model.safetensors", 3);
}

/* A stop while the file is written leaves no file; the next attempt writes it. */
static void test_trainer_distill_stopped_while_writing_starts_over(void **state)
{
    char *dir = folder_new(FORMAT_FP32), *job = distill_job(TAUGHT KEPT TWELVE FILED);
    char *name = path_join(dir, "kept.safetensors");
    struct training training = { .dir = dir, .job = job, .stop_at = ".kept" };
    struct error err = { 0 };

    (void)state;
    assert_false(training_run(&training, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    assert_non_null(strstr(err.text, "teacher's logits"));
    assert_false(file_exists(name));
    training.stop = 0;
    training.stop_at = NULL;
    training_must(&training);
    assert_true(file_exists(name));
    free(name);
    free(job);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer_distill_full_approaches_the_teacher),
        cmocka_unit_test(test_trainer_distill_adapters_approach_the_teacher),
        cmocka_unit_test(test_trainer_distill_from_itself_has_no_distance),
        cmocka_unit_test(test_trainer_distill_anchors_to_a_reference),
        cmocka_unit_test(test_trainer_distill_teacher_has_an_adapter),
        cmocka_unit_test(test_trainer_distill_resumed_is_uninterrupted),
        cmocka_unit_test(test_trainer_distill_layouts_agree),
        cmocka_unit_test(test_trainer_distill_with_a_file_matches_the_teacher),
        cmocka_unit_test(test_trainer_distill_refuses_a_file_of_other_data),
        cmocka_unit_test(test_trainer_distill_resumed_with_a_file_is_uninterrupted),
        cmocka_unit_test(test_trainer_distill_stopped_while_writing_starts_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
