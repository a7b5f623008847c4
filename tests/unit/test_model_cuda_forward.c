/*
 * tests/unit/test_model_cuda_forward.c - whole models on a GPU without training: losses
 * and logits are those of the CPU and of transformers, and memory is as estimated.
 */
#include "config.h"

#include "tests/unit/unit_trials.h"
#include "train/model/shapes.h"

/* Evaluation and logits, which training does not use. */
static void test_model_cuda_evaluates_like_the_cpu(void **state)
{
    const struct trial *trial = &trials[TRIAL_FP32];
    const struct device *devices[2] = { NULL, gpu_for(trial) };
    size_t count = batches[0].sequences * VOCABULARY;
    float *logits = memory_alloc(2 * count * sizeof(*logits));
    double losses[2];

    (void)state;
    for (size_t d = 0; d < 2; d++) {
        struct unit_model u;
        struct error err = { 0 };

        trial_start(&u, trial, plan_of(trial), devices[d]);
        losses[d] = unit_loss(&u, &batches[0]);
        unit_must(model_logits(u.model, &batches[0], logits + d * count, &err), &err);
        unit_model_stop(&u);
    }
    unit_assert_near("loss", losses[1], losses[0], NEAR_FP32);
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(logits[count + i] - logits[i]) <= 1e-4f))
            fail_msg("logit %zu is %g, but %g on the CPU", i, logits[count + i],
                     logits[i]);
    free(logits);
}

enum { SLOTS = 2, GROWN = 5 };

/* Generate two sequences, with an evaluation between the steps; logits (GROWN + 2, V). */
static void generate(const struct trial *trial, const struct device *device, float *out)
{
    struct plan plan = plan_of(trial);
    struct unit_model u;
    struct error err = { 0 };
    int32_t tokens[SLOTS], lengths[SLOTS] = { 5, 3 };

    plan.generation = (struct generation) {
        .on = true, .slots = SLOTS, .prompt_max = 5, .max_new_tokens = GROWN
    };
    trial_start(&u, trial, plan, device);
    for (size_t s = 0; s < SLOTS; s++, out += VOCABULARY)
        unit_must(
            model_prefill(u.model, s, batches[s].tokens, (size_t)lengths[s], out, &err),
            &err);
    for (int32_t i = 0; i < GROWN; i++, out += SLOTS * VOCABULARY) {
        for (size_t s = 0; s < SLOTS; s++)
            tokens[s] = batches[s].tokens[(lengths[s] + i) % 7];
        unit_must(model_decode_step(u.model, tokens,
                                    (int32_t[]) { lengths[0] + i, lengths[1] + i }, out,
                                    &err),
                  &err);
        if (i % 2 == 0)
            unit_loss(&u, &batches[0]);
    }
    unit_model_stop(&u);
}

/* Each architecture; recordings of a step are replayed between other passes. */
static void test_model_cuda_generates_like_the_cpu(void **state)
{
    enum { LOGITS = (SLOTS + GROWN * SLOTS) * VOCABULARY };
    float *logits = memory_alloc(2 * LOGITS * sizeof(*logits));

    (void)state;
    for (size_t t = 0; t < TS_COUNT(trials); t++) {
        if (trials[t].mode != MODE_FP32 || !gpu_for(&trials[t]))
            continue;
        generate(&trials[t], NULL, logits);
        generate(&trials[t], gpu_for(&trials[t]), logits + LOGITS);
        for (size_t i = 0; i < LOGITS; i++)
            if (!(fabsf(logits[LOGITS + i] - logits[i]) <= 1e-4f))
                fail_msg("%s: logit %zu is %g, but %g on the CPU", trials[t].name, i,
                         (double)logits[LOGITS + i], (double)logits[i]);
    }
    free(logits);
}

/* The estimate before a job starts is what the device allocates, or a little more. */
static void test_model_cuda_memory_matches_the_estimate(void **state)
{
    const struct trial *trial = &trials[TRIAL_FP32];
    const struct memory_use *taken;
    struct memory_use estimate;
    struct unit_model u;
    struct error err = { 0 };

    (void)state;
    trial_start(&u, trial, plan_of(trial), gpu_for(trial));
    taken = model_memory(u.model);
    unit_must(shapes_memory(&u.plan, &u.config, rows_max, sequences_max, &estimate, &err),
              &err);
    assert_int_equal(taken->weights, estimate.weights);
    assert_int_equal(taken->activations, estimate.activations);
    assert_true(taken->total <= estimate.total);
    unit_model_stop(&u);
}

/* The losses of a published model match those of transformers. */
static void test_model_cuda_matches_transformers(void **state)
{
    struct unit_model u = unit_model_shared("data/stories260K/hf");
    struct backend_options with = { .device = &gpus[0] };
    char *name = path_join(u.plan.model_name_or_path, "reference.json");
    struct error err = { 0 };
    json_t *root = json_read_file(name, (size_t)4 << 20, &err);
    const json_t *one = json_array_get(json_object_get(root, "cases"), 0);
    double expected = json_number_value(json_object_get(one, "loss")), loss;
    struct batch batch = { 0 };

    (void)state;
    unit_batch_json(&batch, json_object_get(one, "ids"));
    u.plan.device = gpus[0];
    u.be = backend_cuda.open(&with, &err);
    unit_must(u.be != NULL, &err);
    unit_model_load(&u, batch.rows, 1);
    loss = unit_loss(&u, &batch);
    if (!(fabs(loss - expected) <= 1e-4))
        fail_msg("loss %.8f, expected %.8f", loss, expected);
    unit_batch_free(&batch);
    unit_model_stop(&u);
    json_decref(root);
    free(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_cuda_evaluates_like_the_cpu),
        cmocka_unit_test(test_model_cuda_generates_like_the_cpu),
        cmocka_unit_test(test_model_cuda_memory_matches_the_estimate),
        cmocka_unit_test(test_model_cuda_matches_transformers),
    };

    return unit_trials_gpus()
               ? cmocka_run_group_tests(tests, unit_trials_start, unit_trials_stop)
               : 0;
}
