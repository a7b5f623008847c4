/*
 * tests/unit/test_model_pass.c - batches are padded if passes are recorded: few
 * recordings serve many batches, and results are those of the batch alone.  Also tests
 * the upper bound of sequence lengths that attention gets.
 */
#include "config.h"

#include "kernels/cuda/cuda_attention.h"
#include "tests/emulation/emulation.h"
#include "tests/unit/unit_trials.h"
#include "train/chat/template.h"

/* The backend with its recordings counted, or without recordings: then nothing is
 * padded. */
static const struct backend_ops *real;
static struct backend_ops other;
static size_t begun, replayed, keys;
static char known[64][128];

static bool begin(struct backend *be, const void *key, size_t bytes)
{
    bool issue = real->begin(be, key, bytes);
    size_t i = 0;

    assert_true(bytes <= sizeof(known[0]));
    while (i < keys && memcmp(known[i], key, bytes) != 0)
        i++;
    if (i == keys && keys < TS_COUNT(known))
        memcpy(known[keys++], key, bytes);
    begun++;
    replayed += !issue;
    return issue;
}

static void start(struct unit_model *u, const struct trial *trial, struct plan plan,
                  bool records)
{
    trial_start(u, trial, plan, gpu_for(trial));
    real = u->be->ops;
    other = *real;
    other.begin = records ? begin : NULL;
    u->be->ops = &other;
    begun = replayed = keys = 0;
}

static void stop(struct unit_model *u)
{
    u->be->ops = real;
    unit_model_stop(u);
}

static struct batch batch_of(const size_t *lengths, size_t sequences)
{
    struct batch batch = { 0 };

    for (size_t i = 0; i < sequences; i++)
        unit_batch_random(&batch, lengths[i], VOCABULARY,
                          (uint32_t)(10 * i + lengths[i]));
    return batch;
}

/* ---- Few recordings ---- */

/* Twelve batches of different row counts have three padded row counts. */
static void test_model_pass_replays_batches_of_many_lengths(void **state)
{
    static const size_t lengths[][3] = {
        { 9, 5, 14 },   { 40, 61, 2 }, { 3, 7, 1 }, { 30, 20, 10 },
        { 70, 50 },     { 2 },         { 17, 40 },  { 20, 60, 30 },
        { 25, 66, 41 }, { 64, 1 },     { 44, 100 }, { 2, 2, 2 },
    };
    struct plan plan = plan_of(&trials[TRIAL_FP32]);
    struct unit_model u;

    (void)state;
    if (!gpu_for(&trials[TRIAL_FP32]))
        skip();
    rows_max = 144;
    sequences_max = 3;
    plan.gradient_accumulation_steps = 1;
    start(&u, &trials[TRIAL_FP32], plan, true);
    for (size_t i = 0; i < TS_COUNT(lengths); i++) {
        size_t sequences = 3;
        struct batch batch;

        while (lengths[i][sequences - 1] == 0)
            sequences--;
        batch = batch_of(lengths[i], sequences);
        unit_train(&u, &batch);
        unit_batch_free(&batch);
    }
    assert_int_equal(begun, 2 * TS_COUNT(lengths));
    assert_int_equal(keys, 2 * 3); /* forward and backward: 64, 128 and all 144 rows */
    /* first issued, then recorded, then replayed */
    assert_int_equal(replayed, begun - 2 * keys);
    stop(&u);
}

/* ---- The same results ---- */

struct result {
    double trained, loss, evaluated, accuracy;
    size_t sequences;
    float *gradients;
    size_t count;
};

static struct result result_of(const struct trial *trial, struct plan plan, bool records,
                               const struct batch *batch)
{
    struct unit_model u;
    struct result r = { 0 };
    struct tensor gradients;
    struct step_scalars numbers;
    struct error err = { 0 };

    plan.compute_accuracy = true;
    plan.gradient_accumulation_steps = 1;
    start(&u, trial, plan, records);
    numbers = unit_numbers(&u, batch->trained, 1);
    r.evaluated = unit_loss(&u, batch);
    model_accuracy(u.model, batch, &r.accuracy, &r.sequences);
    model_begin(u.model, &numbers);
    unit_must(model_train(u.model, batch, 5, &err), &err); /* masks of the fifth draw */
    unit_must(model_end(u.model, &numbers, &r.trained, &err), &err);
    gradients = model_gradients(u.model);
    r.count = gradients.cols;
    r.gradients = memory_alloc(tensor_bytes(gradients));
    u.be->ops->download(u.be, r.gradients, gradients.data, tensor_bytes(gradients));
    unit_must(u.be->ops->sync(u.be, &err), &err);
    assert_int_equal(keys > 0, records);
    stop(&u);
    return r;
}

/*
 * The forward pass of a row does not depend on other rows: losses, dropout masks and
 * correct predictions are the same to the bit (with the matmuls of tests/emulation;
 * cuBLAS may choose others for more rows).  The gradient of a weight is a sum over rows,
 * in fp32, which is split differently with more rows; what is added is zero.
 */
static void check_padded(const struct trial *trial, struct plan plan,
                         const struct batch *batch)
{
    struct result is = result_of(trial, plan, true, batch);
    struct result expected = result_of(trial, plan, false, batch);
    double away = 0, norm = 0;

    if (is.trained != expected.trained || is.evaluated != expected.evaluated)
        fail_msg("%s: losses %.9g and %.9g, expected %.9g and %.9g", trial->name,
                 is.trained, is.evaluated, expected.trained, expected.evaluated);
    if (is.accuracy != expected.accuracy || is.sequences != expected.sequences)
        fail_msg("%s: accuracy %g of %zu sequences, expected %g of %zu", trial->name,
                 is.accuracy, is.sequences, expected.accuracy, expected.sequences);
    for (size_t i = 0; i < expected.count; i++) {
        double by = (double)is.gradients[i] - expected.gradients[i];

        norm += (double)expected.gradients[i] * expected.gradients[i];
        away += by * by;
    }
    if (!(norm > 0) || !(sqrt(away) <= 1e-6 * sqrt(norm)))
        fail_msg("%s: gradients differ by %g of %g", trial->name, sqrt(away), sqrt(norm));
    free(is.gradients);
    free(expected.gradients);
}

/* In each format, and with masks; 48 rows, because fp8 matmuls require multiples of
 * 16. */
static void test_model_pass_padding_changes_no_result(void **state)
{
    static const size_t lengths[] = { 12, 5, 31 };
    struct batch batch = batch_of(lengths, 3);

    (void)state;
    rows_max = 100;
    sequences_max = 5;
    for (size_t i = 0; i < TS_COUNT(trials); i++) {
        const struct trial *trial = &trials[i];
        bool taken = i == TRIAL_FP32 || i == TRIAL_FP16 || i == TRIAL_PURE ||
                     i == TRIAL_DROPOUT || trial->fp8;

        if (taken && gpu_for(trial))
            check_padded(trial, plan_of(trial), &batch);
    }
    unit_batch_free(&batch);
}

/* Row weights: the batch has some, its padding has none. */
static void test_model_pass_pads_weighted_rows(void **state)
{
    static const size_t lengths[] = { 12, 25 };
    struct batch batch = batch_of(lengths, 2);

    (void)state;
    batch.weights = memory_alloc(batch.rows * sizeof(*batch.weights));
    for (size_t i = 0; i < batch.rows; i++)
        batch.weights[i] = (float)(i % 4) / 2;
    rows_max = 80;
    sequences_max = 2;
    if (gpu_for(&trials[TRIAL_FP32]))
        check_padded(&trials[TRIAL_FP32], plan_of(&trials[TRIAL_FP32]), &batch);
    unit_batch_free(&batch);
}

/* ---- Bound of sequence lengths ---- */

static size_t longest_seen;

static void attention(struct backend *be, const struct op_attention *op)
{
    longest_seen = op->longest;
    real->attention(be, op);
}

/* Return the loss of a batch, and how many plans cuDNN made for it. */
static double run_attention(const struct trial *trial, const struct batch *batch,
                            bool cudnn, size_t *plans)
{
    const struct cuda_attention *by;
    struct unit_model u;
    double loss;

    setenv("TRAINSPOOL_CUDNN", cudnn ? "1" : "0", 1);
    start(&u, trial, plan_of(trial), true);
    unsetenv("TRAINSPOOL_CUDNN");
    other.attention = attention;
    loss = unit_loss(&u, batch);
    by = cuda_backend_of(u.be)->attention;
    *plans = by ? cuda_attention_plans(by) : 0;
    stop(&u);
    return loss;
}

/* The bound is the largest padding step, 256, because cutoff_len is less; or all rows if
 * there are fewer, or if a sequence has more.  Attention with this bound leaves no row
 * out. */
static void test_model_pass_bounds_sequence_lengths(void **state)
{
    static const struct {
        size_t lengths[2], sequences, longest;
    } cases[] = { { { 70, 50 }, 2, 128 }, { { 140, 150 }, 2, 256 }, { { 300 }, 1, 320 } };
    const struct trial *trial = &trials[TRIAL_PURE];

    (void)state;
    rows_max = 320;
    sequences_max = 2;
    emulation_cudnn(91900, 0);
    for (size_t i = 0; i < TS_COUNT(cases) && gpu_for(trial); i++) {
        struct batch batch = batch_of(cases[i].lengths, cases[i].sequences);
        size_t ours, theirs;
        double loss = run_attention(trial, &batch, false, &ours);

        unit_assert_near("loss", run_attention(trial, &batch, true, &theirs), loss,
                         NEAR_BF16);
        assert_int_equal(longest_seen, cases[i].longest);
        assert_int_equal(ours, 0);
        assert_true(theirs > 0);
        unit_batch_free(&batch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_pass_replays_batches_of_many_lengths),
        cmocka_unit_test(test_model_pass_padding_changes_no_result),
        cmocka_unit_test(test_model_pass_pads_weighted_rows),
        cmocka_unit_test(test_model_pass_bounds_sequence_lengths),
    };

    return unit_trials_gpus()
               ? cmocka_run_group_tests(tests, unit_trials_start, unit_trials_stop)
               : 0;
}
