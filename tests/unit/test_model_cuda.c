/*
 * tests/unit/test_model_cuda.c - trains whole models on a GPU: losses, gradients and
 * steps are close to the CPU's, and bits are the same with recordings, recomputation and
 * resuming.
 *
 * The models are small: the same program runs on a GPU and on tests/emulation/.
 */
#include "config.h"

#include "kernels/cuda/cuda_matmul.h"
#include "tests/unit/unit_trials.h"
#include "train/checkpoint/checkpoint.h"

enum { WINDOWS = 3 };

/* ---- One run ---- */

struct run {
    struct scaler scaler;
    int64_t step, updates;
    double losses[WINDOWS], norms[WINDOWS];
    float *gradients; /* of the first window */
    char *weights;    /* at the end, all trained weights as stored */
    size_t count, bytes;
};

static struct run run_new(const struct unit_model *u)
{
    struct run run = { 0 };

    scaler_init(&run.scaler, &u->plan.precision);
    return run;
}

static void run_clear(struct run *run)
{
    free(run->gradients);
    free(run->weights);
}

static void fetch(struct unit_model *u, void *to, struct tensor from)
{
    struct error err = { 0 };

    u->be->ops->download(u->be, to, from.data, tensor_bytes(from));
    unit_must(u->be->ops->sync(u->be, &err), &err);
}

/* Issue an optimizer step, as the trainer does. ahead: the step before it has not ended,
 * and counts as applied. */
static void issue_window(struct unit_model *u, const struct run *run, bool ahead)
{
    int64_t step = run->step + ahead, updates = run->updates + ahead;
    struct step_scalars numbers = unit_numbers(u, trained, updates + 1);
    struct error err = { 0 };

    numbers.scaler = run->scaler;
    if (ahead)
        scaler_record(&numbers.scaler, true);
    numbers.grad_scale = (float)(numbers.scaler.scale / (double)trained);
    numbers.loss_scale = (float)numbers.scaler.scale;
    model_begin(u->model, &numbers);
    for (size_t i = 0; i < BATCHES; i++)
        unit_must(model_train(u->model, &batches[i], (uint64_t)step * BATCHES + i, &err),
                  &err);
    unit_must(optimizer_step(u->model, &u->plan, &err), &err);
    model_post(u->model);
}

/* Return whether it was applied. */
static bool end_window(struct unit_model *u, struct run *run)
{
    size_t at = (size_t)run->step % WINDOWS;
    struct step_scalars numbers;
    struct error err = { 0 };

    unit_must(model_end(u->model, &numbers, &run->losses[at], &err), &err);
    run->norms[at] = numbers.norm;
    run->scaler = numbers.scaler;
    run->updates += numbers.finite;
    run->step++;
    return numbers.finite;
}

static void run_window(struct unit_model *u, struct run *run)
{
    issue_window(u, run, false);
    end_window(u, run);
}

static void keep_gradients(struct unit_model *u, struct run *run)
{
    struct tensor gradients = model_gradients(u->model);

    run->count = gradients.cols;
    run->gradients = memory_alloc(tensor_bytes(gradients));
    fetch(u, run->gradients, gradients);
}

static void keep_weights(struct unit_model *u, struct run *run)
{
    for (size_t i = 0; i < model_trained_parameters(u->model); i++) {
        struct tensor weight = model_trained(u->model, i)->weight;

        run->weights = memory_resize(run->weights, run->bytes + tensor_bytes(weight), 1);
        fetch(u, run->weights + run->bytes, weight);
        run->bytes += tensor_bytes(weight);
    }
}

/* The tolerance NEAR_FP8 is wide: a fallback to bf16 would be within it. */
static void check_fp8(const struct unit_model *u, const struct trial *trial)
{
    if (trial->fp8 && cuda_matmul_in_fp8(cuda_backend_of(u->be)->matmul) == 0)
        fail_msg("%s: no matmul ran in 8 bits", trial->name);
}

static struct run run_all(const struct trial *trial, struct plan plan,
                          const struct device *gpu)
{
    struct unit_model u;
    struct run run;

    trial_start(&u, trial, plan, gpu);
    run = run_new(&u);
    run_window(&u, &run);
    keep_gradients(&u, &run);
    while (run.step < WINDOWS)
        run_window(&u, &run);
    keep_weights(&u, &run);
    if (gpu)
        check_fp8(&u, trial);
    unit_model_stop(&u);
    return run;
}

static struct run gpu_runs[TS_COUNT(trials)];

/* Return the run of a trial with its own plan on a GPU; all tests share it. */
static const struct run *gpu_run(const struct trial *trial)
{
    struct run *run = &gpu_runs[trial - trials];

    if (!run->weights)
        *run = run_all(trial, plan_of(trial), gpu_for(trial));
    return run;
}

/* ---- Comparisons ---- */

static void check_near(const struct trial *trial, const struct run *actual,
                       const struct run *expected)
{
    double distance = 0, norm = 0;

    for (size_t i = 0; i < expected->count; i++) {
        double difference = (double)actual->gradients[i] - expected->gradients[i];

        norm += (double)expected->gradients[i] * expected->gradients[i];
        distance += difference * difference;
    }
    if (!(norm > 0) || !(sqrt(distance) <= trial->near * sqrt(norm)))
        fail_msg("%s: gradients differ by %g of %g, more than %g of it", trial->name,
                 sqrt(distance), sqrt(norm), trial->near);
    for (size_t i = 0; i < WINDOWS; i++) {
        /* the length of an AdamW step does not depend on the gradient: later losses drift
         * apart */
        double near = trial->near * (i == 0 ? 1 : 8);

        if (!(fabs(actual->losses[i] - expected->losses[i]) <=
              near * expected->losses[i]) ||
            !(fabs(actual->norms[i] - expected->norms[i]) <= near * expected->norms[i]))
            fail_msg("%s, step %zu: loss %g and norm %g, expected %g and %g", trial->name,
                     i + 1, actual->losses[i], actual->norms[i], expected->losses[i],
                     expected->norms[i]);
    }
    if (!(actual->losses[WINDOWS - 1] < actual->losses[0]))
        fail_msg("%s: the loss rises from %g to %g", trial->name, actual->losses[0],
                 actual->losses[WINDOWS - 1]);
}

static void check_same(const struct trial *trial, const struct run *a,
                       const struct run *b)
{
    for (size_t i = 0; i < WINDOWS; i++)
        if (a->losses[i] != b->losses[i] || a->norms[i] != b->norms[i])
            fail_msg("%s, step %zu: loss %.9g and norm %.9g, then %.9g and %.9g",
                     trial->name, i + 1, a->losses[i], a->norms[i], b->losses[i],
                     b->norms[i]);
    assert_int_equal(a->bytes, b->bytes);
    if (memcmp(a->weights, b->weights, a->bytes) != 0)
        fail_msg("%s: the weights differ", trial->name);
}

static void test_model_cuda_trains_like_the_cpu(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(trials); i++) {
        struct run cpu;

        if (!gpu_for(&trials[i]))
            continue;
        cpu = run_all(&trials[i], plan_of(&trials[i]), NULL);
        check_near(&trials[i], gpu_run(&trials[i]), &cpu);
        run_clear(&cpu);
    }
}

/* Bits are compared in a build without sanitizers; with sanitizers, only in some
 * trials. */
static bool compares_bits(size_t trial)
{
#ifdef __SANITIZE_ADDRESS__
    return trial == TRIAL_FP32 || trial == TRIAL_PURE || trial == TRIAL_DROPOUT ||
           trials[trial].fp8;
#else
    (void)trial;
    return true;
#endif
}

/* Without recordings, and with gradient checkpointing inverted. */
static void test_model_cuda_is_deterministic(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(trials); i++) {
        const struct device *gpu = gpu_for(&trials[i]);
        struct plan plan = plan_of(&trials[i]);
        struct run again;

        if (!gpu || !compares_bits(i))
            continue;
        setenv("TRAINSPOOL_NO_GRAPHS", "1", 1);
        plan.gradient_checkpointing = !plan.gradient_checkpointing;
        again = run_all(&trials[i], plan, gpu);
        unsetenv("TRAINSPOOL_NO_GRAPHS");
        check_same(&trials[i], gpu_run(&trials[i]), &again);
        run_clear(&again);
    }
}

/* A card of unknown memory rounds an operand for each matmul, in other memory. */
static void test_model_cuda_rounds_once_to_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(trials); i++) {
        const struct device *gpu = gpu_for(&trials[i]);
        struct device unknown;
        struct run often;

        if (!gpu || !trials[i].fp8)
            continue;
        assert_true(gpu->memory > 0);
        unknown = *gpu;
        unknown.memory = 0;
        often = run_all(&trials[i], plan_of(&trials[i]), &unknown);
        check_same(&trials[i], gpu_run(&trials[i]), &often);
        run_clear(&often);
    }
}

/* Run two steps and save a checkpoint. */
static struct run run_begin(const struct trial *trial, struct plan plan,
                            const struct device *gpu)
{
    struct unit_model u;
    struct run run;
    struct checkpoint_saving saving;
    struct progress progress = { 0 };
    struct progress_history history = { 0 };
    struct error err = { 0 };

    trial_start(&u, trial, plan, gpu);
    saving = (struct checkpoint_saving) { .model = u.model, .plan = &plan };
    run = run_new(&u);
    run_window(&u, &run);
    run_window(&u, &run);
    progress.step = run.step;
    progress.updates = run.updates;
    progress.scaler = run.scaler;
    unit_must(checkpoint_save(&saving, &progress, &history, &err), &err);
    unit_model_stop(&u);
    return run;
}

/* Run the third step with a new model. */
static void run_resume(const struct trial *trial, struct plan plan,
                       const struct device *gpu, struct run *run)
{
    struct unit_model u;
    char *name = checkpoint_name(plan.output_dir, run->step);
    struct progress progress = { 0 };
    struct progress_history history = { 0 };
    struct error err = { 0 };

    trial_start(&u, trial, plan, gpu);
    unit_must(checkpoint_load(u.model, name, &progress, &history, &err), &err);
    run->updates = progress.updates;
    run->scaler = progress.scaler;
    run_window(&u, run);
    keep_weights(&u, run);
    unit_model_stop(&u);
    progress_history_clear(&history);
    free(name);
}

static void test_model_cuda_resumes_to_the_bit(void **state)
{
    static const size_t resumable[] = { TRIAL_FP16, TRIAL_PURE, TRIAL_DROPOUT };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(resumable); i++) {
        const struct trial *trial = &trials[resumable[i]];
        const struct device *gpu = gpu_for(trial);
        struct plan plan = plan_of(trial);
        char *dir = unit_dir_new();
        struct run resumed;

        if (gpu) {
            plan.output_dir = dir;
            resumed = run_begin(trial, plan, gpu);
            run_resume(trial, plan, gpu, &resumed);
            check_same(trial, gpu_run(trial), &resumed);
            run_clear(&resumed);
        }
        unit_dir_free(dir);
    }
}

/* Start from a scale far beyond fp16: both skip the same steps and have the same scales.
 * The weights stay as they are, because after some updates a GPU's gradients differ from
 * the CPU's enough for another step to overflow.  The largest gradient is then the same
 * in every step; the CPU skips the same steps for every factor of 2^24 from 0.95 to 1.85. */
static void test_model_cuda_scales_like_the_cpu(void **state)
{
    const struct trial *trial = &trials[TRIAL_FP16];
    const struct device *devices[2] = { NULL, gpu_for(trial) };
    double scales[2][12];

    (void)state;
    if (!devices[1])
        skip();
    for (size_t d = 0; d < 2; d++) {
        struct plan plan = plan_of(trial);
        struct unit_model u;
        struct run run;

        plan.learning_rate = 0;
        plan.precision.loss_scale = 1.3 * 0x1p24;
        trial_start(&u, trial, plan, devices[d]);
        run = run_new(&u);
        run.scaler.interval = 3;
        for (size_t i = 0; i < TS_COUNT(scales[d]); i++) {
            run_window(&u, &run);
            scales[d][i] = run.scaler.scale;
        }
        assert_true(run.scaler.skipped > 2 && run.updates > 2);
        unit_model_stop(&u);
    }
    for (size_t i = 0; i < TS_COUNT(scales[0]); i++)
        if (scales[0][i] != scales[1][i])
            fail_msg("step %zu: the scale is %g, but %g on the CPU", i + 1, scales[1][i],
                     scales[0][i]);
}

enum { AHEAD_STEPS = 12 };

/* Run steps of which some are skipped. ahead: each but the first is issued before the
 * previous one has ended. */
static struct run run_skipping(bool ahead, double scales[AHEAD_STEPS])
{
    const struct trial *trial = &trials[TRIAL_FP16];
    struct plan plan = plan_of(trial);
    bool issued = false;
    struct unit_model u;
    struct run run;
    struct error err = { 0 };

    plan.precision.loss_scale = 1.3 * 0x1p24;
    trial_start(&u, trial, plan, gpu_for(trial));
    run = run_new(&u);
    run.scaler.interval = 3;
    for (size_t i = 0; i < AHEAD_STEPS; i++) {
        bool last = i + 1 == AHEAD_STEPS;

        if (!issued)
            issue_window(&u, &run, false);
        issued = ahead && !last;
        if (issued)
            issue_window(&u, &run, true);
        if (!end_window(&u, &run) && issued) {
            unit_must(model_discard(u.model, &err), &err);
            issued = false;
        }
        scales[i] = run.scaler.scale;
    }
    keep_weights(&u, &run);
    unit_model_stop(&u);
    return run;
}

/* The device skips the step after a skipped one, too, and the host issues it again: the
 * bits are those of steps that wait for each other. */
static void test_model_cuda_overlaps_windows(void **state)
{
    double alone_scales[AHEAD_STEPS], ahead_scales[AHEAD_STEPS];
    struct run alone, ahead;

    (void)state;
    if (!gpu_for(&trials[TRIAL_FP16]))
        skip();
    alone = run_skipping(false, alone_scales);
    ahead = run_skipping(true, ahead_scales);
    assert_true(alone.scaler.skipped > 2 && alone.updates > 2);
    assert_int_equal(ahead.scaler.skipped, alone.scaler.skipped);
    assert_int_equal(ahead.updates, alone.updates);
    assert_memory_equal(ahead_scales, alone_scales, sizeof(alone_scales));
    check_same(&trials[TRIAL_FP16], &alone, &ahead);
    run_clear(&alone);
    run_clear(&ahead);
}

static int teardown(void **state)
{
    for (size_t i = 0; i < TS_COUNT(gpu_runs); i++)
        run_clear(&gpu_runs[i]);
    return unit_trials_stop(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_cuda_trains_like_the_cpu),
        cmocka_unit_test(test_model_cuda_is_deterministic),
        cmocka_unit_test(test_model_cuda_rounds_once_to_the_same_bits),
        cmocka_unit_test(test_model_cuda_resumes_to_the_bit),
        cmocka_unit_test(test_model_cuda_scales_like_the_cpu),
        cmocka_unit_test(test_model_cuda_overlaps_windows),
    };

    return unit_trials_gpus() ? cmocka_run_group_tests(tests, unit_trials_start, teardown)
                              : 0;
}
