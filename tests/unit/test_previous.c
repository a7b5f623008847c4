/* tests/unit/test_previous.c - files of a previous run are read with size limits,
 * never through a link, and are not trusted. */
#include "config.h"

#include "patcher/history/previous.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/unit/unit.h"

struct fixture {
    char *dir, *run;
    struct arena *arena;
    struct plan plan;
};

static void set_up(struct fixture *fixture)
{
    *fixture = (struct fixture) { .dir = unit_dir_new(), .arena = arena_new() };
    fixture->run = path_join(fixture->dir, "job.run");
    assert_int_equal(mkdir(fixture->run, 0700), 0);
    fixture->plan = (struct plan) { .job = "job.yaml",
                                    .dir = fixture->dir,
                                    .run_dir = fixture->run,
                                    .output_dir = fixture->run };
}

static void tear_down(struct fixture *fixture)
{
    arena_free(fixture->arena);
    free(fixture->run);
    unit_dir_free(fixture->dir);
}

static void put(const struct fixture *fixture, const char *name, const char *data,
                size_t len)
{
    char *path = path_join(fixture->run, name);

    assert_true(file_replace(path, data, len, 0600, NULL));
    free(path);
}

static void put_text(const struct fixture *fixture, const char *name, const char *text)
{
    put(fixture, name, text, strlen(text));
}

static void add_line(struct text *text, int step, const char *loss, const char *norm,
                     double scale, int skipped)
{
    text_addf(
        text,
        "{\"step\":%d,\"loss\":%s,\"grad_norm\":%s,\"loss_scale\":%g,\"skipped\":%d}\n",
        step, loss, norm, scale, skipped);
}

/* Read the steps of this log. */
static struct previous_steps read_steps(const struct fixture *fixture,
                                        const struct text *text)
{
    put(fixture, "metrics.jsonl", text->data, text->len);
    return *previous_steps(previous_new(&fixture->plan, fixture->arena));
}

static void test_previous_accepts_the_search_for_a_scale(void **state)
{
    struct fixture fixture;
    struct previous_steps steps;
    struct text text;

    (void)state;
    set_up(&fixture);
    text_init(&text, 0);
    for (int i = 1; i <= 8; i++)
        add_line(&text, i, "2.5", "\"NaN\"", 65536.0 / (1 << i), i);
    for (int i = 9; i <= 40; i++)
        add_line(&text, i, "2.5", i == 30 ? "\"Infinity\"" : "1.5", i < 30 ? 256 : 128,
                 i < 30 ? 8 : 9);
    steps = read_steps(&fixture, &text);
    assert_int_equal(steps.count, 40);
    assert_int_equal(steps.trouble, TROUBLE_NONE);
    assert_true(steps.recovered);

    /* resumed without a scale: the search starts again */
    for (int i = 41; i <= 47; i++)
        add_line(&text, i, "2.5", "\"NaN\"", 65536.0 / (1 << (i - 40)), 9 + i - 40);
    add_line(&text, 48, "2.5", "1.5", 512, 16);
    assert_int_equal(read_steps(&fixture, &text).trouble, TROUBLE_NONE);
    text_clear(&text);
    tear_down(&fixture);
}

static void test_previous_finds_each_trouble(void **state)
{
    struct fixture fixture;
    struct text text;

    (void)state;
    set_up(&fixture);
    text_init(&text, 0);
    add_line(&text, 10, "2.5", "1.5", 1, 0);
    add_line(&text, 20, "2.5", "\"NaN\"", 1, 1); /* bf16 has no scale to search for */
    add_line(&text, 30, "2.5", "1.5", 1, 1);
    assert_int_equal(read_steps(&fixture, &text).trouble, TROUBLE_NORM);

    text_reset(&text);
    add_line(&text, 10, "2.5", "1.5", 256, 0);
    add_line(&text, 20, "0.0", "\"NaN\"", 128, 1);
    add_line(&text, 30, "2.5", "1.5", 128, 1);
    assert_int_equal(read_steps(&fixture, &text).trouble, TROUBLE_ZERO);

    text_reset(&text);
    add_line(&text, 10, "0.0", "0.002", 256, 0); /* memorized */
    assert_int_equal(read_steps(&fixture, &text).trouble, TROUBLE_NONE);

    text_reset(&text);
    text_addf(&text, "{\"step\":1,\"loss\":0.0,\"grad_norm\":0.5,\"reward\":1.0}\n");
    assert_int_equal(read_steps(&fixture, &text).trouble, TROUBLE_NONE);

    text_reset(&text);
    add_line(&text, 10, "NaN", "1.5", 256, 0); /* as Python writes it */
    assert_int_equal(read_steps(&fixture, &text).trouble, TROUBLE_LOSS);

    text_reset(&text);
    for (int i = 1; i <= 3; i++)
        add_line(&text, 20 + 10 * i, "2.5", "\"NaN\"", 1024.0 / i, i);
    assert_int_equal(read_steps(&fixture, &text).trouble, TROUBLE_NORM);

    text_reset(&text);
    add_line(&text, 10, "2.5", "1.5", 65536, 0);
    add_line(&text, 60, "2.5", "1.5", 256, 40);
    assert_int_equal(read_steps(&fixture, &text).trouble, TROUBLE_SKIPS);
    text_clear(&text);
    tear_down(&fixture);
}

static void test_previous_norms_require_enough_steps(void **state)
{
    struct fixture fixture;
    struct previous_steps steps;
    struct text text;

    (void)state;
    set_up(&fixture);
    text_init(&text, 0);
    for (int i = 2; i < 8; i++)
        add_line(&text, 10 * i, "2.5", i == 7 ? "900" : "1.5", 1, 0);
    steps = read_steps(&fixture, &text);
    assert_true(steps.median == 0 && steps.largest == 0);
    for (int i = 8; i < 12; i++)
        add_line(&text, 10 * i, "2.5", "1.5", 1, 0);
    steps = read_steps(&fixture, &text);
    assert_true(steps.median == 1.5 && steps.largest == 900);
    assert_int_equal(steps.largest_step, 70);
    text_clear(&text);
    tear_down(&fixture);
}

/* Read a large log that starts in the middle of a line, has foreign content and ends
 * in an incomplete line. */
static void test_previous_reads_the_end_of_a_log(void **state)
{
    struct fixture fixture;
    struct previous_steps steps;
    struct text text;

    (void)state;
    set_up(&fixture);
    text_init(&text, (size_t)16 << 20);
    add_line(&text, 1, "0.0", "\"NaN\"", 1, 1); /* too long ago */
    for (int i = 2; i < 40000; i++)
        add_line(&text, i, "2.5", "1.5", 1, 1);
    text_add(&text, "\0\xff[[[[\n", 7);
    text_adds(&text,
              "{\"step\":1e999,\"loss\":\"Infinite\"}\n[1]\nnull\n{\"loss\":2.0}\n");
    text_adds(&text, "{\"step\": 40001, \"lo");
    assert_true(text.len > (size_t)2 << 20);
    steps = read_steps(&fixture, &text);
    assert_int_equal(steps.trouble, TROUBLE_NONE);
    assert_true(steps.count > 1000 && steps.count < 20000);
    text_clear(&text);
    tear_down(&fixture);
}

static void test_previous_follows_no_link(void **state)
{
    static const char elsewhere[] = "{\"state\":\"done\",\"loss\":0.0,\"step\":50}\n";
    struct fixture fixture;
    struct previous *previous;
    char *path, *outside;

    (void)state;
    set_up(&fixture);
    outside = path_join(fixture.dir, "outside");
    assert_true(file_replace(outside, elsewhere, strlen(elsewhere), 0600, NULL));
    path = path_join(fixture.run, "state.json");
    assert_int_equal(symlink(outside, path), 0);
    free(path);
    path = path_join(fixture.run, "metrics.jsonl");
    assert_int_equal(symlink(outside, path), 0);
    free(path);
    path = path_join(fixture.run, "job.yaml");
    assert_int_equal(mkfifo(path, 0600), 0);
    free(path);
    previous = previous_new(&fixture.plan, fixture.arena);
    assert_null(previous_state(previous)->name);
    assert_int_equal(previous_steps(previous)->count, 0);
    assert_null(previous_text(previous));
    free(outside);
    tear_down(&fixture);
}

static void test_previous_treats_a_linked_folder_as_missing(void **state)
{
    struct fixture fixture;
    char *real;

    (void)state;
    set_up(&fixture);
    put_text(&fixture, "state.json", "{\"state\": \"done\"}");
    put_text(&fixture, "model.safetensors", "a model");
    assert_string_equal(previous_state(previous_new(&fixture.plan, fixture.arena))->name,
                        "done");
    real = path_join(fixture.dir, "real");
    assert_int_equal(rename(fixture.run, real), 0);
    assert_int_equal(symlink("real", fixture.run), 0);
    assert_null(previous_state(previous_new(&fixture.plan, fixture.arena))->name);
    assert_null(
        previous_checkpoint(previous_new(&fixture.plan, fixture.arena), NULL, false));
    free(real);
    tear_down(&fixture);
}

static void test_previous_treats_broken_files_as_missing(void **state)
{
    static const char *const states[] = {
        "",         "{",
        "[]",       "{\"state\": 7, \"digest\": [1]}",
        "\xff\xfe", "{\"state\": null, \"resume\": 1}"
    };
    struct fixture fixture;

    (void)state;
    set_up(&fixture);
    for (size_t i = 0; i < TS_COUNT(states); i++) {
        struct previous *previous = previous_new(&fixture.plan, fixture.arena);

        put_text(&fixture, "state.json", states[i]);
        put_text(&fixture, "job.yaml", states[i]);
        assert_null(previous_state(previous)->name);
        assert_string_equal(previous_state(previous)->digest, "");
        assert_false(previous_state(previous)->resume);
        previous_text(previous);
    }
    tear_down(&fixture);
}

static void test_previous_reads_logs_of_python(void **state)
{
    struct fixture fixture;
    const struct previous_steps *steps;

    (void)state;
    set_up(&fixture);
    fixture.plan.external = true;
    put_text(
        &fixture, "trainer_state.json",
        "{\"log_history\": [{\"loss\": 2.1, \"grad_norm\": 1.0, \"step\": 10},\n"
        "{\"eval_loss\": NaN, \"step\": 10, \"note\": \"a \\\"NaN\\\" in a text\"},\n"
        "{\"loss\": 0.0, \"grad_norm\": NaN, \"step\": 20},\n"
        "{\"train_loss\": -Infinity, \"step\": 20}]}");
    steps = previous_steps(previous_new(&fixture.plan, fixture.arena));
    assert_int_equal(steps->count, 2);
    assert_int_equal(steps->trouble, TROUBLE_ZERO);
    assert_string_equal(steps->what, "loss 0 at step 20");
    tear_down(&fixture);
}

static void test_previous_without_a_run_is_empty(void **state)
{
    struct fixture fixture;
    struct previous *previous;

    (void)state;
    set_up(&fixture);
    assert_int_equal(rmdir(fixture.run), 0);
    previous = previous_new(&fixture.plan, fixture.arena);
    assert_null(previous_state(previous)->name);
    assert_null(previous_text(previous));
    assert_int_equal(previous_steps(previous)->count, 0);
    assert_null(previous_model(previous)->file);
    assert_null(previous_checkpoint(previous, NULL, false));
    tear_down(&fixture);
}

static struct timespec changed(const struct fixture *fixture, const char *name)
{
    char *path = path_join(fixture->run, name);
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    free(path);
    return st.st_ctim;
}

/* Make the second newer, regardless of the resolution of file times. */
static void put_in_turn(const struct fixture *fixture, const char *first,
                        const char *second)
{
    struct timespec a, b;

    put_text(fixture, first, "{}");
    do {
        put_text(fixture, second, "{}");
        a = changed(fixture, first);
        b = changed(fixture, second);
    } while (a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec);
}

static bool model_is_later(const struct fixture *fixture, const char *state)
{
    put_text(fixture, "state.json", state);
    return previous_model(previous_new(&fixture->plan, fixture->arena))->later;
}

#define QUEUED        "\"queued\":\"2026-11-20T10:00:00Z\""
#define STARTED(hour) "\"started\":\"2026-11-20T" hour ":00:00Z\""

/* The model belongs to another job if this job has not started since its text was
 * queued. */
static void test_previous_detects_a_model_newer_than_the_queued_job(void **state)
{
    static const char ready[] = "{\"state\":\"ready\"," QUEUED "}";
    struct fixture fixture;

    (void)state;
    set_up(&fixture);
    put_in_turn(&fixture, "job.yaml", "model.safetensors");
    assert_true(model_is_later(&fixture, ready));
    assert_true(
        model_is_later(&fixture, "{\"state\":\"ready\"," QUEUED "," STARTED("09") "}"));
    /* the job crashed and wrote the model itself */
    assert_false(
        model_is_later(&fixture, "{\"state\":\"ready\"," QUEUED "," STARTED("11") "}"));
    assert_false(model_is_later(&fixture, "{\"state\":\"ready\"}"));
    assert_false(model_is_later(&fixture, "{\"state\":\"done\"," QUEUED "}"));
    put_in_turn(&fixture, "model.safetensors", "job.yaml");
    assert_false(model_is_later(&fixture, ready));
    tear_down(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_previous_accepts_the_search_for_a_scale),
        cmocka_unit_test(test_previous_finds_each_trouble),
        cmocka_unit_test(test_previous_norms_require_enough_steps),
        cmocka_unit_test(test_previous_reads_the_end_of_a_log),
        cmocka_unit_test(test_previous_follows_no_link),
        cmocka_unit_test(test_previous_treats_a_linked_folder_as_missing),
        cmocka_unit_test(test_previous_treats_broken_files_as_missing),
        cmocka_unit_test(test_previous_reads_logs_of_python),
        cmocka_unit_test(test_previous_detects_a_model_newer_than_the_queued_job),
        cmocka_unit_test(test_previous_without_a_run_is_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
