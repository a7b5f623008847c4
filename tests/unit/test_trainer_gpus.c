/* tests/unit/test_trainer_gpus.c - a job on two emulated GPUs matches one GPU with all
 * micro-batches, and each resumes from the checkpoint of the other. */
#include "config.h"

#include "tests/unit/training_small.h"

#include <math.h>

#include "tests/unit/unit_ranks.h"

#define DIGITS 2e-3 /* logged values have 4 digits */

/* Write a job into the folder and return its text, malloc'ed. */
static char *make_job(const char *dir, const char *window, const char *more)
{
    char *set = unit_shared(SHAKESPEARE);
    struct text text;

    text_init(&text, 0);
    text_addf(&text,
              "model_name_or_path: %s/model\ntrain_from_scratch: true\ndataset: %s\n"
              "stage: pt\nfinetuning_type: full\ncutoff_len: 12\nmax_samples: 60\n"
              "per_device_train_batch_size: 1\ngradient_accumulation_steps: %s\n"
              "learning_rate: 1.0e-3\nlr_scheduler_type: constant\nlogging_steps: 1\n"
              "max_steps: 4\nsave_steps: 2\nseed: 7\n%s",
              dir, set, window, more);
    free(set);
    training_put(dir, "job.yaml", text.data, text.len);
    return text_detach(&text, NULL);
}

static void run(const char *dir, int count, const char *window, const char *more,
                struct training *out)
{
    struct unit_ranks ranks = { .group = { .ranks = 1 } };
    struct device device;
    struct error err = { 0 };
    bool ok;

    *out = (struct training) { .dir = dir, .job = make_job(dir, window, more) };
    if (count > 1) {
        unit_ranks_fork(&ranks, count);
        out->group = &ranks.group;
    }
    unit_ranks_device(ranks.group.rank, &device);
    out->device = &device;
    ok = training_run(out, &err);
    if (ranks.group.rank > 0)
        _exit(ok ? 0 : 1);
    if (!ok)
        fail_msg("%s", err.text);
    if (count > 1)
        unit_ranks_join(&ranks);
    free((char *)out->job);
}

/* Compare the lines of `a` with those of `b`, whose first `skip_of_b` are skipped. */
static void same(const struct training *a, const struct training *b, int skip_of_b)
{
    static const char *const keys[] = { "'loss'", "'grad_norm'" };

    for (int k = 0; k < 2; k++)
        for (int n = 0; n < 4 - skip_of_b; n++) {
            double x = training_value(a, keys[k], n);
            double y = training_value(b, keys[k], n + skip_of_b);

            if (!(fabs(x - y) <= DIGITS * fabs(y)))
                fail_msg("%s of step %d is %g, on one GPU %g", keys[k], n + 1, x, y);
        }
}

static void test_trainer_gpus_match_one_gpu(void **state)
{
    static const char resume[] = "resume_from_checkpoint: job.run/checkpoint-2\n";
    struct training one, two, on;
    char *alone, *several;

    (void)state;
    unit_need_shared(TRAINING_SMALL);
    alone = training_small_dir();
    several = training_small_dir();
    run(several, 2, "1", "", &two);
    run(alone, 1, "2", "", &one);
    same(&two, &one, 0);
    run(alone, 2, "1", resume, &on);
    same(&on, &one, 2);
    run(several, 1, "2", resume, &on);
    same(&on, &one, 2);
    unit_dir_free(alone);
    unit_dir_free(several);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer_gpus_match_one_gpu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
