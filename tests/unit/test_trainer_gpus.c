/* tests/unit/test_trainer_gpus.c - a job on two emulated GPUs matches one GPU with all
 * micro-batches, and each resumes from the checkpoint of the other. */
#include "config.h"

#include "tests/unit/training.h"

#include <math.h>

#include "base/arena.h"
#include "tests/unit/unit_ranks.h"

#define DIGITS 2e-3 /* logged values have 4 digits */

static const char config[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 512, \"hidden_size\": "
    "32,\"intermediate_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "2,\"num_key_value_heads\": 1, \"max_position_embeddings\": "
    "64,\"tie_word_embeddings\": true, \"bos_token_id\": 1, \"eos_token_id\": 2}";

static void put(const char *dir, const char *base, const char *data, size_t len)
{
    char *name = path_join(dir, base);
    struct error err = { 0 };

    if (!file_replace(name, data, len, 0644, &err))
        fail_msg("%s", err.text);
    free(name);
}

#define MODEL "data/stories260K/hf"

/* Make a folder with a model that is small enough for emulated kernels, and a real
 * tokenizer. */
static char *make_dir(void)
{
    static const char *const files[] = { "tokenizer.json", "tokenizer_config.json" };
    char *dir = unit_dir_new(), *model = path_join(dir, "model");
    char *shared = unit_shared(MODEL);
    struct error err = { 0 };

    assert_true(file_make_dir(model, 0755, &err));
    put(model, "config.json", config, strlen(config));
    for (size_t i = 0; i < 2; i++) {
        char *from = path_join(shared, files[i]);
        struct text text;

        text_init(&text, 16 << 20);
        assert_true(file_read(from, 16 << 20, &text, NULL, &err));
        put(model, files[i], text.data, text.len);
        text_clear(&text);
        free(from);
    }
    free(shared);
    free(model);
    return dir;
}

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
    put(dir, "job.yaml", text.data, text.len);
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
    unit_need_shared(MODEL);
    alone = make_dir();
    several = make_dir();
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
