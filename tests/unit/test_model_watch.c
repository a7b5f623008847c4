/*
 * tests/unit/test_model_watch.c - a non-finite value is found where it was set or first
 * appeared, and watching a micro-batch does not change the run. On the CPU and, in a
 * program compiled for it, on an emulated GPU.
 */
#include "config.h"

#include "tests/unit/unit_model.h"
#include "tests/unit/unit_ranks.h"
#include "train/model/model_watch.h"

static const char config_text[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 60, \"hidden_size\": "
    "32,\"intermediate_size\": 48, \"num_hidden_layers\": 3, \"num_attention_heads\": "
    "2,\"num_key_value_heads\": 1, \"initializer_range\": 0.15,\"tie_word_embeddings\": "
    "true}";

static const char untied[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 60, \"hidden_size\": "
    "32,\"intermediate_size\": 48, \"num_hidden_layers\": 3, \"num_attention_heads\": "
    "2,\"num_key_value_heads\": 1, \"initializer_range\": 0.15}";

struct trial {
    struct unit_model u;
    struct device device;
    struct batch batch;
};

static void trial_open_stage(struct trial *t, enum format compute, bool checkpointing,
                             int64_t zero_stage)
{
    struct plan plan = unit_plan("");

    plan.train_from_scratch = true;
    plan.gradient_checkpointing = checkpointing;
    plan.zero_stage = zero_stage;
    plan.ranks = zero_stage > 0 ? 2 : 1;
    plan.precision.compute = plan.precision.frozen = compute;
    plan.precision.mode = compute == FORMAT_FP16 ? MODE_FP16_MIXED : MODE_FP32;
    *t = (struct trial) { .u = unit_model_text(zero_stage > 0 ? untied : config_text,
                                               plan) };
    unit_ranks_device(0, &t->device);
    t->u.ops = unit_ranks_ops;
    t->u.device = &t->device;
    unit_batch_random(&t->batch, 9, 60, 0);
    unit_batch_random(&t->batch, 7, 60, 1);
    unit_model_start(&t->u, 16, 2, 2);
}

static void trial_open(struct trial *t, enum format compute, bool checkpointing)
{
    trial_open_stage(t, compute, checkpointing, 0);
}

static void trial_close(struct trial *t)
{
    unit_batch_free(&t->batch);
    unit_model_stop(&t->u);
}

/* Set one element of a weight and of its working copy. */
static void plant(struct trial *t, const char *name, size_t at, float value)
{
    const struct parameter *p = unit_parameter(&t->u, name);
    struct backend *be = t->u.be;
    struct error err = { 0 };

    assert_non_null(p);
    assert_int_equal(p->weight.format, FORMAT_FP32);
    be->ops->upload(be, (float *)p->weight.data + at, &value, sizeof(value));
    if (p->copy.data)
        be->ops->convert(be, &(struct op_convert) { .out = p->copy, .x = p->weight });
    unit_must(be->ops->sync(be, &err), &err);
}

static struct watch watch_batch(struct trial *t, double scale)
{
    struct step_scalars numbers = unit_numbers(&t->u, t->batch.trained, 1);
    const struct backend_ops *ops = t->u.be->ops;
    struct error err = { 0 };
    struct watch watch;

    numbers.grad_scale *= (float)scale;
    unit_must(model_watch_batch(t->u.model, &t->batch, &numbers, &watch, &err), &err);
    assert_ptr_equal(t->u.be->ops, ops);
    return watch;
}

static void test_model_watch_finds_nothing_in_finite_values(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct trial t;
        struct watch watch;
        struct error err = { 0 };

        trial_open(&t, i == 1 ? FORMAT_FP16 : FORMAT_FP32, i == 2);
        unit_must(model_watch_weights(t.u.model, &watch, &err), &err);
        assert_int_equal(watch.kind, WATCH_NOTHING);
        assert_true(watch.largest_output.largest > 0.2);
        watch = watch_batch(&t, 1);
        assert_int_equal(watch.kind, WATCH_NOTHING);
        assert_int_equal(watch.before_count, WATCH_TRAIL);
        trial_close(&t);
    }
}

static void test_model_watch_finds_a_weight(void **state)
{
    struct watch watch;
    struct trial t;
    struct error err = { 0 };

    (void)state;
    trial_open(&t, FORMAT_FP32, false);
    plant(&t, "model.layers.1.mlp.down_proj.weight", 48 * 5 + 7, NAN);
    unit_must(model_watch_weights(t.u.model, &watch, &err), &err);
    assert_int_equal(watch.kind, WATCH_WEIGHT);
    assert_string_equal(watch.found.tensor, "model.layers.1.mlp.down_proj.weight");
    assert_int_equal(watch.found.layer, 1);
    assert_int_equal(watch.found.row, 5);
    assert_int_equal(watch.found.col, 7);
    assert_int_equal(watch.found.nans, 1);
    assert_int_equal(watch.found.infs, 0);
    watch = watch_batch(&t, 1); /* and its effect on the matmul that reads it */
    assert_int_equal(watch.kind, WATCH_ACTIVATION);
    assert_string_equal(watch.found.operation, "matmul");
    assert_string_equal(watch.found.tensor, "residual");
    assert_int_equal(watch.found.layer, 1);
    assert_int_equal(watch.found.col, 5);
    assert_int_equal(watch.found.nans, t.batch.rows);
    trial_close(&t);
}

/* A row of the embedding that two of the rows look up. */
static void test_model_watch_finds_the_token(void **state)
{
    struct trial t;
    struct watch watch;
    size_t first = 3, count = 0;

    (void)state;
    trial_open(&t, FORMAT_FP32, false);
    for (size_t i = 0; i < t.batch.rows; i++)
        if (t.batch.tokens[i] == t.batch.tokens[3]) {
            first = i < first ? i : first;
            count++;
        }
    plant(&t, "model.embed_tokens.weight", (size_t)t.batch.tokens[3] * 32 + 30, INFINITY);
    watch = watch_batch(&t, 1);
    assert_int_equal(watch.kind, WATCH_ACTIVATION);
    assert_string_equal(watch.found.operation, "embedding");
    assert_int_equal(watch.found.layer, 0);
    assert_int_equal(watch.found.batch_row, first);
    assert_int_equal(watch.found.infs, count);
    assert_int_equal(watch.before_count, 0);
    trial_close(&t);
}

/* 60000 in a row of up_proj: the matmul exceeds 65504. */
static void test_model_watch_finds_an_overflow_in_fp16(void **state)
{
    struct trial t;
    struct watch watch;

    (void)state;
    trial_open(&t, FORMAT_FP16, false);
    for (size_t i = 0; i < 32; i++)
        plant(&t, "model.layers.2.mlp.up_proj.weight", 32 * 11 + i, 60000);
    watch = watch_batch(&t, 1);
    assert_int_equal(watch.kind, WATCH_ACTIVATION);
    assert_string_equal(watch.found.tensor, "gate, up");
    assert_int_equal(watch.found.layer, 2);
    assert_int_equal(watch.found.format, FORMAT_FP16);
    assert_true(watch.found.infs > 0);
    assert_int_equal(watch.found.nans, 0);
    assert_true(watch.found.row < t.batch.rows);
    assert_true(watch.largest_output.largest < 1000);
    trial_close(&t);
}

/* The forward pass has no loss scale; the gradients do. */
static void test_model_watch_finds_a_gradient(void **state)
{
    struct trial t;
    struct watch watch;
    struct watch_result *looks;
    size_t broken, count;
    struct error err = { 0 };

    (void)state;
    trial_open(&t, FORMAT_FP16, false);
    watch = watch_batch(&t, 1024);
    assert_int_equal(watch.kind, WATCH_NOTHING);
    count = model_trained_parameters(t.u.model);
    looks = memory_resize(NULL, count, sizeof(*looks));
    unit_must(model_watch_gradients(t.u.model, looks, &broken, &err), &err);
    assert_int_equal(broken, 0);
    for (size_t i = 0; i < count; i++)
        assert_true(looks[i].largest > 0);
    watch = watch_batch(&t, 0x1p30);
    assert_int_equal(watch.kind, WATCH_GRADIENT);
    assert_string_equal(watch.found.operation, "classifier");
    assert_true(watch.found.infs + watch.found.nans > 0);
    unit_must(model_watch_gradients(t.u.model, looks, &broken, &err), &err);
    assert_true(broken > 0);
    assert_true(looks[0].infs + looks[0].nans > 0);
    free(looks);
    trial_close(&t);
}

/* With sharded gradients head and embeddings share memory, but not their names: the last
 * norm's weight makes the gradient of the head infinite. */
static void test_model_watch_names_sharded_gradients(void **state)
{
    (void)state;
    for (int64_t stage = 1; stage <= 2; stage++) {
        struct watch watch;
        struct trial t;

        trial_open_stage(&t, FORMAT_FP32, false, stage);
        plant(&t, "model.norm.weight", 3, 1e20f);
        watch = watch_batch(&t, 1e20);
        assert_int_equal(watch.kind, WATCH_GRADIENT);
        assert_string_equal(watch.found.tensor, "lm_head.weight");
        assert_int_equal(watch.found.layer, -1);
        trial_close(&t);
    }
}

/* Compare the bits after three steps, with and without watching in between. */
static void test_model_watch_changes_nothing(void **state)
{
    double norms[2][3], losses[2][3];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct trial t;

        trial_open(&t, FORMAT_FP16, true);
        for (int step = 0; step < 3; step++) {
            if (i == 1)
                watch_batch(&t, 64);
            losses[i][step] = unit_train(&t.u, &t.batch);
            norms[i][step] = unit_step(&t.u, step + 1);
        }
        trial_close(&t);
    }
    assert_memory_equal(losses[0], losses[1], sizeof(losses[0]));
    assert_memory_equal(norms[0], norms[1], sizeof(norms[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_watch_finds_nothing_in_finite_values),
        cmocka_unit_test(test_model_watch_finds_a_weight),
        cmocka_unit_test(test_model_watch_finds_the_token),
        cmocka_unit_test(test_model_watch_finds_an_overflow_in_fp16),
        cmocka_unit_test(test_model_watch_finds_a_gradient),
        cmocka_unit_test(test_model_watch_names_sharded_gradients),
        cmocka_unit_test(test_model_watch_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
