/*
 * tests/unit/test_trainer_curve.c - thirty steps have the same losses, norms and learning
 * rates as PyTorch on the same texts (tests/golden/curve.py), and twelve with other
 * optimizers (optimizer_curve.py).
 */
#include "config.h"

#include "tests/unit/training.h"

#include <math.h>

#include "base/json.h"
#include "kernels/backend.h"

#define LIMIT ((size_t)1 << 20)
#define MODEL "data/stories260K/hf"
enum { STEPS = 30 };

static json_t *read_golden(const char *file)
{
    char *name = unit_source(file);
    struct error err = { 0 };
    json_t *golden = json_read_file(name, LIMIT, &err);

    if (golden == NULL)
        fail_msg("%s", err.text);
    free(name);
    return golden;
}

/* Write the texts to DIR/texts.jsonl. */
static void write_texts(const char *dir, const json_t *texts)
{
    char *name = path_join(dir, "texts.jsonl");
    struct error err = { 0 };
    struct text out;
    json_t *text;
    size_t i;

    text_init(&out, LIMIT);
    json_array_foreach(texts, i, text)
    {
        json_t *record = json_pack("{s:O}", "text", text);

        json_write(record, &out);
        text_addc(&out, '\n');
        json_decref(record);
    }
    assert_true(file_replace(name, out.data, out.len, 0644, &err));
    text_clear(&out);
    free(name);
}

/* golden has the lines of a job. */
static char *job_of(const json_t *golden)
{
    char *model = unit_shared(MODEL);
    struct text text;

    text_init(&text, LIMIT);
    text_addf(&text, "model_name_or_path: %s\ndataset: texts.jsonl\n%s", model,
              json_string_value(json_object_get(golden, "job")));
    free(model);
    return text_detach(&text, NULL);
}

static void check_number(const json_t *ours, const json_t *theirs, const char *key,
                         size_t step)
{
    double a = json_number_value(json_object_get(ours, key));
    double b = json_number_value(json_object_get(theirs, key));

    if (!(fabs(a - b) <= 1e-3 * fabs(b)))
        fail_msg("step %zu: %s is %.9g, PyTorch has %.9g", step, key, a, b);
}

static void check_curve(const char *dir, const json_t *curve)
{
    char *name = path_join(dir, "job.run/metrics.jsonl"), *line;
    struct error err = { 0 };
    struct text text;
    json_t *theirs;
    size_t i;

    text_init(&text, LIMIT);
    if (!file_read(name, LIMIT, &text, NULL, &err))
        fail_msg("%s", err.text);
    line = text.data;
    json_array_foreach(curve, i, theirs)
    {
        char *end = strchr(line, '\n');
        json_t *ours;

        assert_non_null(end);
        ours = json_read_text(line, (size_t)(end - line), name, 1, &err);
        check_number(ours, theirs, "loss", i + 1);
        check_number(ours, theirs, "grad_norm", i + 1);
        check_number(ours, theirs, "learning_rate", i + 1);
        json_decref(ours);
        line = end + 1;
    }
    assert_int_equal(i, json_array_size(curve));
    assert_int_equal(*line == '\0', i == STEPS);
    text_clear(&text);
    free(name);
}

static void check_device(const struct device *device)
{
    json_t *golden;
    char *job, *dir;
    struct training training = { .device = device };

    unit_need_shared(MODEL);
    golden = read_golden("tests/golden/curve.json");
    training.job = job = job_of(golden);
    training.dir = dir = unit_dir_new();
    write_texts(dir, json_object_get(golden, "texts"));
    training_must(&training);
    check_curve(dir, json_object_get(golden, "curve"));
    json_decref(golden);
    free(job);
    unit_dir_free(dir);
}

static void test_trainer_curve_matches_pytorch(void **state)
{
    (void)state;
    check_device(NULL);
}

/* GaLore and APOLLO with their first projections, of singular vectors; schedule-free
 * AdamW with its own warm-up. */
static void test_trainer_curves_of_optimizers_match_their_packages(void **state)
{
    json_t *golden, *cases, *row;
    const char *name;

    (void)state;
    unit_need_shared(MODEL);
    golden = read_golden("tests/golden/curve.json");
    cases = read_golden("tests/golden/optimizer_curve.json");
    json_object_foreach(cases, name, row)
    {
        char *job = job_of(row), *dir = unit_dir_new();
        struct training training = { .job = job, .dir = dir };

        print_message("%s\n", name);
        write_texts(dir, json_object_get(golden, "texts"));
        training_must(&training);
        check_curve(dir, json_object_get(row, "curve"));
        free(job);
        unit_dir_free(dir);
    }
    json_decref(golden);
    json_decref(cases);
}

static void test_trainer_curve_on_a_gpu_matches_pytorch(void **state)
{
    struct device gpu;
    char note[256] = "";

    (void)state;
    if (backend_devices("cuda:0", &gpu, 1, note, sizeof(note)) == 0 || !gpu.runnable) {
        print_message("skipped: no GPU to try: %s\n", note);
        skip();
    }
    check_device(&gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer_curve_matches_pytorch),
        cmocka_unit_test(test_trainer_curves_of_optimizers_match_their_packages),
        cmocka_unit_test(test_trainer_curve_on_a_gpu_matches_pytorch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
