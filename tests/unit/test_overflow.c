/*
 * tests/unit/test_overflow.c - fp16 training with overflows: the loss scale backs off, a
 * skipped step changes nothing, good steps let the scale grow until it overflows again,
 * and the model still learns.
 */
#include "config.h"

#include "precision/scaler.h"
#include "tests/unit/unit_model.h"

static const char config_text[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 96, \"hidden_size\": 32, "
    "\"intermediate_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"hidden_act\": \"silu\", \"tie_word_embeddings\": "
    "true, \"max_position_embeddings\": 64, \"initializer_range\": 0.05}";

struct run {
    struct unit_model u;
    struct batch batch;
    struct scaler scaler;
    int64_t updates;
};

static void run_start(struct run *run, enum format compute, double scale)
{
    struct plan plan = unit_plan("");

    plan.train_from_scratch = true;
    plan.learning_rate = 3e-3;
    plan.precision.mode = MODE_FP16_MIXED;
    plan.precision.compute = plan.precision.frozen = compute;
    plan.precision.scaling = SCALING_DYNAMIC;
    plan.precision.loss_scale = scale;
    plan.precision.max_grad_norm = 1;
    *run = (struct run) { .u = unit_model_text(config_text, plan) };
    unit_batch_random(&run->batch, 33, 96, 0);
    unit_model_start(&run->u, 64, 2, 2);
    scaler_init(&run->scaler, &plan.precision);
    run->scaler.interval = 5;
}

static void run_stop(struct run *run)
{
    unit_batch_free(&run->batch);
    unit_model_stop(&run->u);
}

/* Make a step as the trainer does.  Return whether it was applied. */
static bool run_step(struct run *run, double *loss)
{
    struct step_scalars numbers =
        unit_numbers(&run->u, run->batch.trained, run->updates + 1);
    struct error err = { 0 };

    numbers.grad_scale = (float)(run->scaler.scale / (double)run->batch.trained);
    numbers.scaler = run->scaler;
    model_begin(run->u.model, &numbers);
    unit_must(model_train(run->u.model, &run->batch, 0, &err), &err);
    unit_must(optimizer_step(run->u.model, &run->u.plan, &err), &err);
    unit_must(model_end(run->u.model, &numbers, loss, &err), &err);
    *loss /= (double)run->batch.trained;
    run->scaler = numbers.scaler;
    run->updates += numbers.finite;
    return numbers.finite;
}

static void test_overflow_backs_off_and_grows_again(void **state)
{
    struct run run;
    double loss, first = 0, last = 0, lowest = INFINITY;
    int skipped_before_first = 0, grown = 0, skipped_after = 0;

    (void)state;
    run_start(&run, FORMAT_FP16, 0x1p26);
    for (int i = 0; i < 120; i++) {
        double scale = run.scaler.scale;
        bool applied = run_step(&run, &loss);

        assert_true(isfinite(loss)); /* the forward pass is not scaled */
        if (i == 0)
            first = loss;
        last = loss;
        if (!applied) {
            assert_true(run.scaler.scale == scale / 2);
            if (run.updates == 0)
                skipped_before_first++;
            else
                skipped_after++;
        }
        grown += run.scaler.scale > scale;
        lowest = fmin(lowest, run.scaler.scale);
    }
    assert_true(skipped_before_first >= 3); /* 2^26 / 32 rows is far beyond 65504 */
    assert_true(grown >= 3);
    assert_true(skipped_after >= 1);
    assert_true(lowest >= 1);
    assert_int_equal(run.updates + run.scaler.skipped, 120);
    if (!(last < 0.5 * first))
        fail_msg("the loss went from %g to %g", first, last);
    run_stop(&run);
}

static void test_overflow_skipped_step_changes_nothing(void **state)
{
    struct run run;
    struct parameter *p;
    float *before;
    double loss;

    (void)state;
    run_start(&run, FORMAT_FP16, 0x1p40);
    p = unit_parameter(&run.u, "model.layers.0.mlp.down_proj.weight");
    before = memory_alloc(tensor_bytes(p->weight));
    memcpy(before, p->weight.data, tensor_bytes(p->weight));
    assert_false(run_step(&run, &loss));
    assert_memory_equal(before, p->weight.data, tensor_bytes(p->weight));
    free(before);
    run_stop(&run);
}

/* The scale is a power of two and divided out again: it only affects which values can be
 * represented. */
static void test_overflow_scale_does_not_change_the_losses(void **state)
{
    struct run low, high;
    double a, b;

    (void)state;
    run_start(&low, FORMAT_FP16, 0x1p10);
    run_start(&high, FORMAT_FP16, 0x1p16);
    low.scaler.interval = high.scaler.interval = 1000;
    for (int i = 0; i < 20; i++) {
        assert_true(run_step(&low, &a));
        assert_true(run_step(&high, &b));
        /* fp16 rounds by 2^-11; small gradients lose more bits at a scale of 2^10 */
        unit_assert_near("loss", b, a, 5e-3);
    }
    run_stop(&low);
    run_stop(&high);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overflow_backs_off_and_grows_again),
        cmocka_unit_test(test_overflow_skipped_step_changes_nothing),
        cmocka_unit_test(test_overflow_scale_does_not_change_the_losses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
