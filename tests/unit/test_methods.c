/* tests/unit/test_methods.c - what computes a run in each of its ranks is recorded, and
 * compared when it resumes. */
#include "config.h"

#include "train/methods.h"

#include "base/size.h"
#include "train/model/parallel.h"

#include "tests/unit/unit_ranks.h"

enum { RANKS = 3 };

/* Of this rank. */
static const char *attention;
static const char *algorithms;

static const char *name_of(struct backend *be)
{
    (void)be;
    return attention;
}

static bool use(struct backend *be, const char *name)
{
    (void)be;
    return strcmp(name, attention) == 0;
}

static char *choices(struct backend *be)
{
    (void)be;
    return memory_strdup(algorithms);
}

static const struct backend_ops ops = { .attention_name = name_of,
                                        .attention_use = use,
                                        .choices = choices };

static void listen(void *context, enum log_level level, const char *message)
{
    struct text *lines = context;

    (void)level;
    text_addf(lines, "%s\n", message);
}

static void test_methods_of_all_ranks_are_recorded_and_compared(void **state)
{
    struct plan plan = { .precision = { .compute = FORMAT_BF16 } };
    struct backend be = { .ops = &ops };
    struct trainer_options options = { 0 };
    struct run run = { .plan = &plan, .options = &options, .be = &be };
    struct parallel_order order;
    struct error err = { 0 };
    struct unit_ranks ranks;
    struct text lines;

    (void)state;
    unit_ranks_fork(&ranks, RANKS);
    options.group = &ranks.group;
    attention = ranks.group.rank == 2 ? "ours" : "cuDNN";
    algorithms = ranks.group.rank == 2 ? "b\n" : "a\n";
    if (ranks.group.rank > 0) {
        bool ok = parallel_receive_order(&ranks.group, &order, NULL) &&
                  order.work == PARALLEL_METHODS && methods_reply(&run, NULL);

        strcpy(run.progress.attention[0], "cuDNN");
        strcpy(run.progress.attention[2], "ours");
        attention = "cuDNN";
        _exit(!ok || !methods_restore(&run, NULL));
    }
    options.log = log_new(-1, LOG_INFO);
    text_init(&lines, 0);
    log_listen(options.log, LOG_INFO, listen, &lines);
    assert_true(methods_record(&run, &err));
    assert_string_equal(run.progress.attention[0], "cuDNN");
    assert_string_equal(run.progress.attention[1], "cuDNN");
    assert_string_equal(run.progress.attention[2], "ours");
    assert_string_equal(run.progress.choices, "a\nrank 2\nb\n");
    assert_string_equal(lines.data,
                        "attention: rank 2 computes it by ours, rank 0 by cuDNN\n");
    text_reset(&lines);
    assert_true(methods_restore(&run, &err));
    unit_ranks_join(&ranks);
    assert_string_equal(lines.data,
                        "resume: rank 2: attention was computed by ours, and is now by "
                        "cuDNN: the bits may differ from those of an uninterrupted "
                        "run\n");
    free(run.choices);
    text_clear(&lines);
    log_free(options.log);
}

/* A checkpoint of one rank is resumed by several, and one from before names existed. */
static void test_methods_of_one_rank_are_those_of_all(void **state)
{
    static const char *const recorded[] = { "", "trainspool", "cuDNN" };
    struct plan plan = { .precision = { .compute = FORMAT_FP16 } };
    struct backend be = { .ops = &ops };
    struct trainer_options options = { .log = log_new(-1, LOG_INFO) };
    struct run run = { .plan = &plan, .options = &options, .be = &be };
    struct text lines;

    (void)state;
    text_init(&lines, 0);
    log_listen(options.log, LOG_INFO, listen, &lines);
    attention = "trainspool";
    for (size_t i = 0; i < TS_COUNT(recorded); i++) {
        strcpy(run.progress.attention[0], recorded[i]);
        assert_true(methods_restore(&run, NULL));
        assert_int_equal(lines.len > 0, i == 2);
    }
    plan.precision.compute = FORMAT_FP32; /* there is only one way */
    text_reset(&lines);
    assert_true(methods_restore(&run, NULL));
    assert_int_equal(lines.len, 0);
    text_clear(&lines);
    log_free(options.log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_methods_of_all_ranks_are_recorded_and_compared),
        cmocka_unit_test(test_methods_of_one_rank_are_those_of_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
