/* tests/unit/test_resume_lost.c - a run does not resume from a checkpoint of which it would lose
 * what was trained: adapters that it does not have, and weights that it freezes. */
#include "config.h"

#include "base/size.h"
#include "tests/unit/training.h"

#define STEPS "max_steps: 4\nsave_steps: 2\n"
#define AGAIN "resume_from_checkpoint: true\n"
#define SGD   "optim: sgd\n"
#define HALF  "freeze_trainable_layers: 2\n"
#define LESS  "freeze_trainable_layers: 1\n"
#define ROTATED                                                              \
    "stage: sft\nfinetuning_type: oft\noft_block_size: 8\ncutoff_len: 256\n" \
    "max_samples: 100\nper_device_train_batch_size: 4\n"
#define FREEZE                                                               \
    "stage: pt\nfinetuning_type: freeze\ncutoff_len: 64\nmax_samples: 400\n" \
    "per_device_train_batch_size: 4\n"

/* A job that is stopped after two steps, and another text of it that resumes. */
struct attempt {
    const char *data, *method, *first, *second;
};

static bool resume(const struct attempt *attempt, struct error *err)
{
    char *dir = unit_dir_new(), *lines;
    struct training training = { .dir = dir, .stop_after = 2 };
    struct error stopped = { 0 };
    struct text text;
    bool ok;

    text_init(&text, 0);
    text_addf(&text, "%s" STEPS "%s", attempt->method, attempt->first);
    lines = training_text(attempt->data, text.data);
    training.job = lines;
    assert_false(training_run(&training, &stopped));
    if (stopped.code != ERROR_STOPPED)
        fail_msg("%s", stopped.text);
    free(lines);
    text_reset(&text);
    text_addf(&text, "%s" STEPS "%s" AGAIN, attempt->method, attempt->second);
    lines = training_text(attempt->data, text.data);
    training = (struct training) { .dir = dir, .job = lines };
    ok = training_run(&training, err);
    assert_true(!ok || training.steps == 2);
    free(lines);
    text_clear(&text);
    unit_dir_free(dir);
    return ok;
}

static void refuse(const struct attempt *attempt, const char *names, const char *remedy)
{
    struct error err = { 0 };

    if (resume(attempt, &err))
        fail_msg("%s%s resumes %s", attempt->method, attempt->second, attempt->first);
    if (!strstr(err.text, "checkpoint-2") || !strstr(err.text, names) ||
        !strstr(err.text, remedy))
        fail_msg("%s", err.text);
    assert_int_equal(err.code, ERROR_JOB);
}

static void accept(const struct attempt *attempt)
{
    struct error err = { 0 };

    if (!resume(attempt, &err))
        fail_msg("%s%s: %s", attempt->method, attempt->second, err.text);
}

static void test_adapters_are_not_lost(void **state)
{
    static const struct attempt fewer[] = {
        { ALPACA, LORA_SFT, "lora_target: q_proj,v_proj\n", "lora_target: q_proj\n" },
        { ALPACA, LORA_SFT, SGD "lora_target: q_proj,v_proj\n",
          SGD "lora_target: q_proj\n" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(fewer); i++)
        refuse(&fewer[i], "self_attn.v_proj", "lora_target");
    refuse(&(struct attempt) { ALPACA, LORA_SFT,
                               "lora_target: q_proj\nadditional_target: norm\n",
                               "lora_target: q_proj\n" },
           "layernorm", "additional_target");
    accept(&(struct attempt) { ALPACA, LORA_SFT,
                               "lora_target: q_proj,v_proj\nadditional_target: norm\n",
                               "lora_target: v_proj,q_proj\nadditional_target: norm\n" });
    /* whose files have two copies of it */
    accept(&(struct attempt) { ALPACA, LORA_SFT,
                               SGD "use_dora: true\nadditional_target: embed_tokens\n",
                               SGD "use_dora: true\nadditional_target: embed_tokens\n" });
    accept(&(struct attempt) { ALPACA, ROTATED, "", "" });
}

static void test_frozen_weights_are_not_lost(void **state)
{
    (void)state;
    refuse(&(struct attempt) { SHAKESPEARE, FREEZE, HALF, LESS }, "model.layers.3.",
           "freeze the same parts");
    refuse(&(struct attempt) { SHAKESPEARE, FREEZE, SGD HALF, SGD LESS },
           "model.layers.3.", "freeze the same parts");
    /* the moments of the first optimizer do not matter to one without any */
    refuse(&(struct attempt) { SHAKESPEARE, FREEZE, HALF, SGD LESS }, "model.layers.3.",
           "freeze the same parts");
    accept(&(struct attempt) { SHAKESPEARE, FREEZE, SGD LESS, SGD HALF });
    accept(&(struct attempt) { SHAKESPEARE, FREEZE, SGD HALF "bf16: true\n", SGD HALF });
    accept(&(struct attempt) { SHAKESPEARE, FREEZE, SGD HALF, SGD HALF "bf16: true\n" });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adapters_are_not_lost),
        cmocka_unit_test(test_frozen_weights_are_not_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
