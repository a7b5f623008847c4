/* tests/unit/test_metrics.c - metrics of a resumed run read like an uninterrupted one. */
#include "config.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#include "base/json.h"
#include "train/metrics.h"

static char *read_all(const char *name)
{
    struct text text;
    struct error err = { 0 };

    text_init(&text, 0);
    if (!file_read(name, 1 << 20, &text, NULL, &err))
        fail_msg("%s", err.text);
    return text_detach(&text, NULL);
}

static void write_steps(const char *name, int64_t from, int64_t to)
{
    struct error err = { 0 };
    struct metrics *metrics = metrics_open(name, from, NULL, &err);

    assert_non_null(metrics);
    for (int64_t step = from + 1; step <= to; step++)
        metrics_step(metrics,
                     &(struct metric) { .step = step, .loss = 1.0 / (double)step });
    metrics_close(metrics);
}

static void test_metrics_resumed_is_uninterrupted(void **state)
{
    char *dir = unit_dir_new(), *one = path_join(dir, "one"),
         *two = path_join(dir, "two");
    struct error err = { 0 };

    (void)state;
    write_steps(one, -1, 10);
    write_steps(two, -1, 7); /* killed at step 7, last checkpoint at step 5 */
    assert_true(file_append_line(two, "{\"step\": 8, \"lo", 14, 0644, false, &err));
    write_steps(two, 5, 10);
    char *a = read_all(one), *b = read_all(two);

    assert_string_equal(a, b);
    free(a);
    free(b);
    write_steps(two, -1, 3); /* a new run starts an empty file */
    b = read_all(two);
    assert_null(strstr(b, "\"step\": 4"));
    free(b);
    free(one);
    free(two);
    unit_dir_free(dir);
}

static void test_metrics_writes_nan(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "metrics.jsonl"), *line;
    struct error err = { 0 };
    struct metrics *metrics = metrics_open(name, -1, NULL, &err);
    json_t *object;

    (void)state;
    metrics_step(metrics,
                 &(struct metric) { .step = 1, .loss = NAN, .grad_norm = INFINITY });
    metrics_close(metrics);
    line = read_all(name);
    object = json_read_text(line, strlen(line), name, 1, &err);
    assert_string_equal(json_string_value(json_object_get(object, "loss")), "NaN");
    assert_string_equal(json_string_value(json_object_get(object, "grad_norm")),
                        "Infinity");
    assert_int_equal(json_object_size(object), 10);
    json_decref(object);
    free(line);
    free(name);
    unit_dir_free(dir);
}

/* Losses as use_dft_loss has are no cross-entropy. */
static void test_metrics_weighted_losses_have_no_perplexity(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "metrics.jsonl"), *line;
    struct error err = { 0 };
    struct metrics *metrics = metrics_open(name, -1, NULL, &err);

    (void)state;
    metrics_eval(metrics, 0, 0,
                 &(struct evaluation) { .loss = log(8), .weighted = true });
    metrics_close(metrics);
    line = read_all(name);
    assert_non_null(strstr(line, "eval_loss"));
    assert_null(strstr(line, "eval_perplexity"));
    free(line);
    free(name);
    unit_dir_free(dir);
}

static void test_metrics_evaluation_has_perplexity(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "metrics.jsonl"), *line;
    struct error err = { 0 };
    struct metrics *metrics = metrics_open(name, -1, NULL, &err);
    json_t *object;

    (void)state;
    metrics_eval(metrics, 0, 0, &(struct evaluation) { .loss = log(8) });
    metrics_close(metrics);
    line = read_all(name);
    object = json_read_text(line, strlen(line), name, 1, &err);
    assert_true(fabs(json_number_value(json_object_get(object, "eval_perplexity")) - 8) <
                1e-12);
    json_decref(object);
    free(line);
    free(name);
    unit_dir_free(dir);
}

/* A full disk is logged once and does not end the run.  Written lines remain, and the
 * file of a resumed run is complete again. */
static void test_metrics_full_disk_is_logged_once(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "metrics.jsonl"),
         *log_name = path_join(dir, "log"), *text;
    struct error err = { 0 };
    int fd = open(log_name, O_RDWR | O_CREAT, 0600);
    struct log *log = log_new(fd, LOG_INFO);
    struct metrics *metrics = metrics_open(name, -1, log, &err);
    struct stat st;

    (void)state;
    metrics_step(metrics, &(struct metric) { .step = 1 });
    assert_int_equal(stat(name, &st), 0);
    unit_disk_full((size_t)st.st_size + 20);
    metrics_step(metrics, &(struct metric) { .step = 2 });
    metrics_eval(metrics, 2, 0, &(struct evaluation) { .loss = 1 });
    metrics_step(metrics, &(struct metric) { .step = 3 });
    unit_disk_free();
    metrics_step(metrics, &(struct metric) { .step = 4 });
    metrics_step(metrics, &(struct metric) { .step = 5 });
    metrics_close(metrics);
    text = read_all(log_name);
    assert_non_null(strstr(text, "warn metrics: cannot append to"));
    assert_null(strstr(strstr(text, "warn") + 1, "warn"));
    assert_non_null(strstr(text, "writing again, 3 lines are missing"));
    free(text);
    metrics = metrics_open(name, 4, NULL, &err);
    assert_non_null(metrics);
    metrics_close(metrics);
    text = read_all(name);
    assert_non_null(strstr(text, "\"step\":1,"));
    assert_null(strstr(text, "\"step\":2,")); /* the partial line is removed */
    assert_non_null(strstr(text, "\n{\"step\":4,"));
    assert_null(strstr(text, "\"step\":5,"));
    log_free(log);
    close(fd);
    free(text);
    free(log_name);
    free(name);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics_resumed_is_uninterrupted),
        cmocka_unit_test(test_metrics_writes_nan),
        cmocka_unit_test(test_metrics_evaluation_has_perplexity),
        cmocka_unit_test(test_metrics_weighted_losses_have_no_perplexity),
        cmocka_unit_test(test_metrics_full_disk_is_logged_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
