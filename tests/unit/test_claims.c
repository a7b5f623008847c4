/*
 * tests/unit/test_claims.c - the measurements that docs/precision.md relies on: PyTorch's
 * behavior (tests/golden/precision.json, made by precision.py next to it), our behavior,
 * and consequences of the formats alone.
 */
#include "config.h"

#include <math.h>

#include "base/json.h"
#include "base/size.h"
#include "kernels/backend.h"
#include "patcher/patcher.h"
#include "precision/format.h"
#include "precision/scaler.h"
#include "tests/unit/unit.h"

enum { LIMIT = 1 << 20, STEPS = 1000 };

static const double lr = 2e-5, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;

static json_t *read_golden(const char *part)
{
    char *name = unit_source("tests/golden/precision.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(name, LIMIT, &err), *found;

    if (!golden)
        fail_msg("%s", err.text);
    found = json_incref(json_object_get(golden, part));
    assert_non_null(found);
    json_decref(golden);
    free(name);
    return found;
}

/* precision.py writes nonfinite values as texts. */
static double number(const json_t *value)
{
    if (!json_is_string(value))
        return json_number_value(value);
    if (strcmp(json_string_value(value), "nan") == 0)
        return NAN;
    return json_string_value(value)[0] == '-' ? -INFINITY : INFINITY;
}

static double member(const json_t *row, const char *name)
{
    return number(json_object_get(row, name));
}

static bool has_value(const json_t *row, const char *name, const char *word)
{
    return strcmp(json_string_value(json_object_get(row, name)), word) == 0;
}

static float round_fp16(float value)
{
    return format_from_fp16(format_to_fp16(value));
}

/* ---- Adam in float16 ---- */

/* torch/optim/adamw.py, _single_tensor_adamw: every operation rounds its result. */
static float adam_step_fp16(float w, float *m, float *v, float g, int step)
{
    float size = (float)(-lr / (1 - pow(beta1, step)));
    float root = (float)sqrt(1 - pow(beta2, step)), denominator;

    *m = round_fp16(*m + (float)(1 - beta1) * (g - *m));
    *v = round_fp16(*v * (float)beta2);
    *v = round_fp16(*v + (float)(1 - beta2) * g * g);
    denominator = round_fp16(round_fp16(round_fp16(sqrtf(*v)) / root) + (float)eps);
    return round_fp16(w + size * *m / denominator);
}

/* Our kernel, weights and moments in a format: one rounding per step. */
static void kernel_step(struct backend *be, enum format format, void *of[3], float g,
                        int step)
{
    struct op_adamw op = { .w = tensor_of(of[0], format, 1, 1),
                           .grad = tensor_of(&g, FORMAT_FP32, 1, 1),
                           .m = tensor_of(of[1], format, 1, 1),
                           .v = tensor_of(of[2], format, 1, 1),
                           .lr = lr,
                           .beta1 = beta1,
                           .beta2 = beta2,
                           .eps = eps,
                           .grad_scale = 1,
                           .step = step };

    be->ops->adamw(be, &op);
}

struct run {
    float gradient, start;
    float weights[STEPS + 1]; /* after each step; [0] before the first */
};

static void run_half(struct run *run)
{
    float g = round_fp16(run->gradient), m = 0, v = 0;

    run->weights[0] = round_fp16(run->start);
    for (int step = 1; step <= STEPS; step++)
        run->weights[step] = adam_step_fp16(run->weights[step - 1], &m, &v, g, step);
}

static void run_kernel(struct run *run, enum format format)
{
    struct error err = { 0 };
    const struct device cpu = { .kind = DEVICE_CPU };
    struct backend *be =
        backend_open(&(struct backend_options) { .device = &cpu, .threads = 1 }, &err);
    float numbers[3] = { run->start }, g = run->gradient;
    uint16_t halves[3] = { format_to_fp16(run->start) };
    bool wide = format == FORMAT_FP32;

    if (!be)
        fail_msg("%s", err.text);
    if (!wide)
        g = round_fp16(g);
    run->weights[0] = wide ? numbers[0] : format_from_fp16(halves[0]);
    for (int step = 1; step <= STEPS; step++) {
        void *of[3];

        for (int i = 0; i < 3; i++)
            of[i] = wide ? (void *)&numbers[i] : (void *)&halves[i];
        kernel_step(be, format, of, g, step);
        run->weights[step] = wide ? numbers[0] : format_from_fp16(halves[0]);
    }
    backend_close(be);
}

static struct run run_of(const json_t *row)
{
    struct run run = { .gradient = (float)member(row, "gradient"),
                       .start = (float)member(row, "start") };

    if (has_value(row, "dtype", "float32"))
        run_kernel(&run, FORMAT_FP32);
    else if (json_is_true(json_object_get(row, "fused")))
        run_kernel(&run, FORMAT_FP16);
    else
        run_half(&run);
    return run;
}

/* float16 bit for bit; float32 within the rounding of a thousand steps. */
static void test_adamw_matches_torch(void **state)
{
    json_t *rows = read_golden("adamw"), *row;
    size_t i;

    (void)state;
    assert_true(json_array_size(rows) == 20);
    json_array_foreach(rows, i, row)
    {
        struct run run = run_of(row);
        json_t *steps = json_object_get(row, "steps");
        json_t *weights = json_object_get(row, "weights");
        double share = has_value(row, "dtype", "float16") ? 0 : STEPS * ldexp(1, -24);

        for (size_t k = 0; k < json_array_size(steps); k++) {
            double torch = number(json_array_get(weights, k));
            double ours = run.weights[json_integer_value(json_array_get(steps, k))];

            if (ours != torch && !(fabs(ours - torch) <= share * fabs(torch)))
                fail_msg("row %zu, reading %zu: %.9g, but torch has %.9g", i, k, ours,
                         torch);
        }
    }
    json_decref(rows);
}

static void test_float16_adam_divides_by_zero_below_a_gradient_of_6e_3(void **state)
{
    struct run fine = { .gradient = 6e-3f }, small = { .gradient = 5.4e-3f };

    (void)state;
    run_half(&fine);
    run_half(&small);
    assert_true(isfinite(fine.weights[STEPS]));
    assert_true(isinf(small.weights[1]));
    assert_true(round_fp16((float)eps) == 0);
    assert_true(round_fp16(5.4e-3f * 5.4e-3f * 1e-3f) == 0);
    assert_true(round_fp16(6e-3f * 6e-3f * 1e-3f) > 0);
}

static void test_float16_adam_in_one_kernel_ends_in_steps_of_25_rates(void **state)
{
    struct run run = { .gradient = 1e-3f };
    double last;

    (void)state;
    run_kernel(&run, FORMAT_FP16);
    last = (run.weights[STEPS - 50] - run.weights[STEPS]) / 50 / lr;
    assert_true(last > 23 && last < 27);
    run_kernel(&run, FORMAT_FP32);
    last = (run.weights[STEPS - 50] - run.weights[STEPS]) / 50 / lr;
    assert_true(last > 0.99 && last < 1.01);
}

static void test_float16_weight_of_a_tenth_never_moves(void **state)
{
    struct run run = { .gradient = 1e-2f, .start = 0.1f };

    (void)state;
    run_half(&run);
    assert_true(run.weights[STEPS] == run.weights[0]);
    run_kernel(&run, FORMAT_FP16);
    assert_true(run.weights[STEPS] == run.weights[0]);
    run_kernel(&run, FORMAT_FP32);
    assert_true(fabs(run.weights[STEPS] - (0.1 - STEPS * lr)) < 1e-5);
}

/* ---- The error itself ---- */

static bool is_yes(const json_t *row, const char *name)
{
    return json_is_true(json_object_get(row, name));
}

/* Write the row as a job for another program; return what check reports for it on a
 * T4. */
static void check_row(const json_t *row, struct patch *out)
{
    struct device t4;
    struct error err = { 0 };
    struct text job;

    text_init(&job, 0);
    text_addf(
        &job,
        "model_name_or_path: m\nfinetuning_type: full\nfp16: true\nmodel_dtype: %s\n"
        "optim: %s\nmax_grad_norm: %s\ngradient_checkpointing: %s\n"
        "trainspool: {target: external}\n",
        json_string_value(json_object_get(row, "trained")),
        is_yes(row, "fused") ? "adamw_torch_fused" : "adamw_torch",
        is_yes(row, "clipped") ? "1.0" : "0.0",
        is_yes(row, "checkpointed") ? "true" : "false");
    assert_true(device_find("T4", &t4, &err));
    if (!patcher_check(job.data, job.len,
                       &(struct patch_options) { .job = "job.yaml", .device = &t4 }, out,
                       &err))
        fail_msg("%s", err.text);
    text_clear(&job);
}

static bool has_error(const struct patch *patch)
{
    for (size_t i = 0; i < patch->findings.count; i++)
        if (patch->findings.list[i].severity == SEVERITY_ERROR)
            return true;
    return false;
}

/* Frozen weights and checkpointing are irrelevant, clipping matters only with a fused
 * optimizer; where torch raises no error for float16 weights, it updates them as above,
 * which is also an error here. */
static void test_only_float16_trainables_raise_an_error(void **state)
{
    json_t *rows = read_golden("unscale"), *row;
    size_t i;

    (void)state;
    assert_true(json_array_size(rows) == 32);
    json_array_foreach(rows, i, row)
    {
        bool half_trained = has_value(row, "trained", "float16");
        bool silent = is_yes(row, "fused") && !is_yes(row, "clipped");
        const json_t *error = json_object_get(row, "error");
        struct patch patch;

        assert_int_equal(json_is_string(error), half_trained && !silent);
        if (json_is_string(error))
            assert_string_equal(json_string_value(error),
                                "Attempting to unscale FP16 gradients.");
        check_row(row, &patch);
        assert_int_equal(has_error(&patch), half_trained);
        assert_false(patch.rejected);
        assert_int_equal(patch.changed, half_trained);
        patch_clear(&patch);
    }
    json_decref(rows);
}

/* ---- One bad gradient ---- */

/* torch.nn.utils.clip_grad_norm_ to a norm of 1. */
static void clip(float g[4])
{
    double square = 0, factor;

    for (int i = 0; i < 4; i++)
        square += (double)g[i] * g[i];
    factor = 1 / (sqrt(square) + 1e-6);
    if (factor > 1)
        factor = 1;
    for (int i = 0; i < 4; i++)
        g[i] = (float)(g[i] * factor);
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 0.01 * fabs(b);
}

/* One bad gradient among four: clipping makes it, or all four, NaN, and the step makes
 * weights NaN. */
static void test_clipping_does_not_save_from_one_bad_gradient(void **state)
{
    json_t *rows = read_golden("clipping"), *row;
    size_t i;

    (void)state;
    json_array_foreach(rows, i, row)
    {
        double bad = member(row, "bad");
        float g[4] = { 1, 2, 3, (float)bad };

        clip(g);
        for (size_t k = 0; k < 4; k++) {
            json_t *clipped = json_array_get(json_object_get(row, "gradients"), k);
            json_t *weight = json_array_get(json_object_get(row, "weights"), k);

            assert_true(same(g[k], number(clipped)));
            assert_int_equal(isnan(number(weight)), isnan(number(clipped)));
        }
        assert_int_equal(isnan(g[3]), !isfinite(bad));
        assert_int_equal(isnan(g[0]), isnan(bad));
    }
    json_decref(rows);
}

static void test_a_step_with_a_bad_gradient_is_skipped_in_every_mode(void **state)
{
    static const enum scaling modes[] = { SCALING_NONE, SCALING_STATIC, SCALING_DYNAMIC };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(modes); i++) {
        struct scaler scaler;
        struct error err = { 0 };

        scaler_init(&scaler, &(struct precision) { .scaling = modes[i],
                                                   .loss_scale = SCALER_START });
        assert_true(scaler_update(&scaler, true, &err));
        assert_false(scaler_update(&scaler, false, &err));
        assert_int_equal(err.code, ERROR_NONE);
    }
}

/* ---- The loss scale ---- */

static void test_loss_scale_follows_torch(void **state)
{
    json_t *golden = read_golden("scaler"), *mixed = json_object_get(golden, "mixed");
    const char *finite = json_string_value(json_object_get(mixed, "finite"));
    struct scaler scaler;

    (void)state;
    scaler_init(&scaler, &(struct precision) { .scaling = SCALING_DYNAMIC,
                                               .loss_scale = SCALER_START });
    assert_true(scaler.scale == member(json_object_get(golden, "defaults"), "scale"));
    assert_true(scaler.interval ==
                (int64_t)member(json_object_get(golden, "defaults"), "interval"));
    scaler.interval = 4;
    for (size_t i = 0; finite[i]; i++) {
        scaler_record(&scaler, finite[i] == '1');
        assert_true(scaler.scale ==
                    number(json_array_get(json_object_get(mixed, "scales"), i)));
    }
    json_decref(golden);
}

/* torch keeps halving down to 0; our scale stops at 1 and ends the run with a
 * diagnosis. */
static void test_loss_scale_has_a_floor_unlike_torch(void **state)
{
    json_t *golden = read_golden("scaler"),
           *overflow = json_object_get(golden, "overflow");
    json_t *scales = json_object_get(overflow, "scales");
    struct error err = { 0 };
    struct scaler scaler;
    size_t steps = json_array_size(scales), given_up = 0;

    (void)state;
    scaler_init(&scaler, &(struct precision) { .scaling = SCALING_DYNAMIC,
                                               .loss_scale = SCALER_START });
    for (size_t i = 0; i < steps; i++) {
        double torch = number(json_array_get(scales, i));

        scaler_record(&scaler, false);
        assert_true(scaler.scale == (torch > 1 ? torch : 1));
        if (!given_up && !scaler_diagnose(&scaler, &err))
            given_up = i + 1;
        error_clear(&err);
    }
    assert_true(number(json_array_get(scales, steps - 1)) == 0);
    assert_int_equal(given_up, SCALER_MAX_SKIPPED);
    json_decref(golden);
}

/* ---- Formats ---- */

static void test_float16_range_matches_the_documentation(void **state)
{
    (void)state;
    assert_true(round_fp16(65504) == 65504 && isinf(round_fp16(65520)));
    assert_true(round_fp16(6e-8f) > 0 && round_fp16(2.9e-8f) == 0);
    assert_true(round_fp16((float)eps) == 0);
}

static void test_bf16_weight_loses_a_small_update(void **state)
{
    float tenth = format_from_bf16(format_to_bf16(0.1f));
    float next = format_from_bf16((uint16_t)(format_to_bf16(0.1f) + 1));

    (void)state;
    assert_true(format_from_bf16(format_to_bf16(tenth - 1e-4f)) == tenth);
    assert_true(1e-4 / (next - tenth) > 0.15 && 1e-4 / (next - tenth) < 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw_matches_torch),
        cmocka_unit_test(test_float16_adam_divides_by_zero_below_a_gradient_of_6e_3),
        cmocka_unit_test(test_float16_adam_in_one_kernel_ends_in_steps_of_25_rates),
        cmocka_unit_test(test_float16_weight_of_a_tenth_never_moves),
        cmocka_unit_test(test_only_float16_trainables_raise_an_error),
        cmocka_unit_test(test_clipping_does_not_save_from_one_bad_gradient),
        cmocka_unit_test(test_a_step_with_a_bad_gradient_is_skipped_in_every_mode),
        cmocka_unit_test(test_loss_scale_follows_torch),
        cmocka_unit_test(test_loss_scale_has_a_floor_unlike_torch),
        cmocka_unit_test(test_float16_range_matches_the_documentation),
        cmocka_unit_test(test_bf16_weight_loses_a_small_update),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
