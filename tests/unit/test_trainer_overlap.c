/* tests/unit/test_trainer_overlap.c - on an emulated GPU, a step is issued before the
 * previous one has ended wherever nothing forbids it, and nothing else changes. */
#include "config.h"

#include "tests/unit/training_small.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/size.h"
#include "tests/emulation/emulation.h"
#include "tests/unit/unit_ranks.h"

enum { STEPS = 8 };

/* What is seen when a step has ended. */
struct seen {
    struct training training;
    char overlaps[STEPS + 1]; /* '+': the next step is in the stream */
    double losses[STEPS], norms[STEPS];
    char weights[DIGEST_TEXT];
};

static void on_step(void *context, const struct trainer_progress *progress)
{
    struct seen *seen = context;
    size_t at = (size_t)progress->step - 1;

    assert_true(at < STEPS && !seen->overlaps[at]);
    seen->overlaps[at] = emulation_work_left() > 0 ? '+' : '-';
    seen->losses[at] = progress->loss;
    seen->norms[at] = progress->grad_norm;
    training_on_step(context, progress);
}

static char *make_job(const char *dir, const char *more)
{
    char *set = unit_shared(SHAKESPEARE);
    struct text text;

    text_init(&text, 0);
    text_addf(&text,
              "model_name_or_path: %s/model\ntrain_from_scratch: true\ndataset: %s\n"
              "stage: pt\nfinetuning_type: full\ncutoff_len: 12\nmax_samples: 60\n"
              "per_device_train_batch_size: 1\nlearning_rate: 1.0e-3\n"
              "max_steps: %d\nseed: 7\n%s",
              dir, set, STEPS, more);
    free(set);
    return text_detach(&text, NULL);
}

static struct seen seen_by(void (*look)(void *, const struct trainer_progress *),
                           const char *dir, const char *job)
{
    static struct device device;

    unit_ranks_device(0, &device);
    return (struct seen) {
        .training = { .dir = dir, .job = job, .device = &device, .on_step = look },
    };
}

static bool run(const char *dir, const char *more, int64_t stop_after, struct seen *seen,
                struct error *err)
{
    char *job = make_job(dir, more);
    bool ok;

    *seen = seen_by(on_step, dir, job);
    seen->training.stop_after = stop_after;
    ok = training_run(&seen->training, err);
    if (ok)
        training_digest(dir, "job.run/model.safetensors", seen->weights);
    free(job);
    return ok;
}

static const struct {
    const char *name, *job, *overlaps; /* by step, from 1 */
} cases[] = {
    /* no update has been applied before the first step, and nothing follows the last */
    { "plain", "save_strategy: \"no\"\nlogging_steps: 1\n", "-++++++-" },
    { "window",
      "save_strategy: \"no\"\nlogging_steps: 3\ngradient_accumulation_steps: 3\n",
      "-++++++-" },
    { "saves", "save_steps: 4\nlogging_steps: 1\n", "-++-+++-" },
    { "evaluates",
      "save_strategy: \"no\"\nlogging_steps: 2\nval_size: 4\neval_strategy: steps\n"
      "eval_steps: 3\n",
      "-+-++-+-" },
    { "both",
      "save_steps: 2\nlogging_steps: 1\nval_size: 4\neval_strategy: steps\neval_steps: 5\n",
      "--+---+-" },
};

static void test_trainer_overlap_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct seen ahead, alone;
        struct error err = { 0 };
        char *dir = training_small_dir();

        if (!run(dir, cases[i].job, 0, &ahead, &err))
            fail_msg("%s: %s", cases[i].name, err.text);
        setenv("TRAINSPOOL_NO_PIPELINE", "1", 1);
        if (!run(dir, cases[i].job, 0, &alone, &err))
            fail_msg("%s: %s", cases[i].name, err.text);
        unsetenv("TRAINSPOOL_NO_PIPELINE");
        if (strcmp(ahead.overlaps, cases[i].overlaps) != 0)
            fail_msg("%s: steps overlap %s, expected %s", cases[i].name, ahead.overlaps,
                     cases[i].overlaps);
        assert_string_equal(alone.overlaps, "--------");
        assert_string_equal(ahead.training.logged, alone.training.logged);
        assert_memory_equal(ahead.losses, alone.losses, sizeof(ahead.losses));
        assert_memory_equal(ahead.norms, alone.norms, sizeof(ahead.norms));
        assert_string_equal(ahead.weights, alone.weights);
        unit_dir_free(dir);
    }
}

/* The step in progress ends before the checkpoint of a stop. */
static void test_trainer_overlap_ends_at_a_stop(void **state)
{
    struct seen stopped, whole;
    struct error err = { 0 };
    char *dir = training_small_dir();

    (void)state;
    assert_true(run(dir, cases[0].job, 0, &whole, &err));
    assert_false(run(dir, cases[0].job, 3, &stopped, &err));
    assert_int_equal(err.code, ERROR_STOPPED);
    assert_non_null(strstr(err.text, "stopped at step 4"));
    assert_string_equal(stopped.overlaps, "-++-");
    assert_int_equal(emulation_work_left(), 0);
    error_clear(&err);
    assert_true(run(dir,
                    "save_strategy: \"no\"\nlogging_steps: 1\n"
                    "resume_from_checkpoint: job.run/checkpoint-4\n",
                    0, &stopped, &err));
    assert_string_equal(stopped.weights, whole.weights);
    unit_dir_free(dir);
}

/* Damage the file of a teacher's logits once step 3 has ended, while step 4 is in
 * progress: step 5, which is issued before step 4 ends, cannot read it. */
static void damage(void *context, const struct trainer_progress *progress)
{
    struct seen *seen = context;
    char *name = path_join(seen->training.dir, "kept.safetensors");
    int fd;

    on_step(context, progress);
    if (progress->step == 3) {
        struct stat st;
        char all[4096];

        memset(all, 0xff, sizeof(all));
        fd = open(name, O_RDWR);
        assert_true(fd >= 0 && fstat(fd, &st) == 0);
        for (off_t at = 4096; at < st.st_size; at += (off_t)sizeof(all))
            assert_true(pwrite(fd, all, sizeof(all), at) > 0);
        close(fd);
        errno = EIO;
        fault_note("cannot read", name);
    }
    free(name);
}

/* What kept the next step from being issued is still known when the step in progress has
 * ended. */
static void test_trainer_overlap_keeps_the_fault_of_the_next_step(void **state)
{
    struct error err = { 0 };
    struct seen seen;
    char *dir = training_small_dir(), *set = unit_shared(ALPACA);
    char *result = path_join(dir, "job.run"), *teacher = path_join(dir, "teacher");
    struct text job;

    (void)state;
    assert_true(run(dir, cases[0].job, 0, &seen, &err));
    assert_int_equal(rename(result, teacher), 0);
    text_init(&job, 0);
    text_addf(&job,
              "model_name_or_path: model\ntrain_from_scratch: true\ndataset: %s\n"
              "template: alpaca\nstage: distill\nfinetuning_type: full\n"
              "cutoff_len: 48\nmax_samples: 20\nper_device_train_batch_size: 1\n"
              "max_steps: %d\nsave_strategy: \"no\"\nlogging_steps: 1\nkd_topk: 4\n"
              "teacher_model_name_or_path: teacher\n"
              "trainspool: {teacher_logits: kept.safetensors}\n",
              set, STEPS);
    seen = seen_by(damage, dir, job.data);
    assert_false(training_run(&seen.training, &err));
    assert_int_equal(err.code, ERROR_FAULT);
    assert_non_null(strstr(err.text, "cannot read"));
    assert_string_equal(seen.overlaps, "-+++");
    text_clear(&job);
    free(result);
    free(teacher);
    free(set);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer_overlap_changes_nothing),
        cmocka_unit_test(test_trainer_overlap_ends_at_a_stop),
        cmocka_unit_test(test_trainer_overlap_keeps_the_fault_of_the_next_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
