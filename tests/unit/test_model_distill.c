/*
 * tests/unit/test_model_distill.c - distillation matches PyTorch
 * (tests/golden/distill_curve.py) with every layout, and takes the memory that was
 * estimated.
 */
#include "config.h"

#include "tests/unit/unit_model.h"

#include "train/estimate.h"
#include "train/model/shapes.h"
#include "train/teacher/teacher_plan.h"

enum { GOLDEN_MAX = 1 << 20, ROWS = 32, SEQUENCES = 4 };

/* A student, its teacher, and the golden values. */
struct pair {
    json_t *golden;
    struct unit_model student;
    struct model_config other; /* of the teacher */
    struct teacher_plan plan;
    struct model *teacher;
};

static json_t *read_golden(void)
{
    char *name = unit_source("tests/golden/distill_curve.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(name, GOLDEN_MAX, &err);

    unit_must(golden != NULL, &err);
    free(name);
    return golden;
}

static double member(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static void parse(struct pair *pair, const char *whose, struct model_config *out)
{
    const char *text = json_string_value(
        json_object_get(json_object_get(pair->golden, "configs"), whose));
    struct error err = { 0 };

    unit_must(model_config_parse(text, strlen(text), "config.json", pair->student.arena,
                                 out, &err),
              &err);
}

/* weights: key of the golden weights */
static void open_teacher(struct pair *pair, enum format format, const char *weights,
                         bool keeps)
{
    struct error err = { 0 };
    struct model_options options = { .plan = &pair->plan.plan,
                                     .config = &pair->plan.config,
                                     .backend = pair->student.be,
                                     .rows_max = ROWS,
                                     .sequences_max = SEQUENCES };

    pair->student.plan.kd.config = &pair->other;
    pair->student.plan.kd.format = format;
    unit_must(teacher_plan_make(&pair->student.plan, keeps, pair->student.arena,
                                &pair->plan, &err),
              &err);
    pair->teacher = model_new(&options, &err);
    unit_must(pair->teacher != NULL, &err);
    unit_put_weights(pair->teacher, json_object_get(pair->golden, weights));
}

/* Return the plan of one of the golden runs. */
static struct plan plan_of(const json_t *golden, size_t run)
{
    const json_t *row = json_array_get(json_object_get(golden, "runs"), run);
    struct plan plan = unit_plan(NULL);

    plan.train_from_scratch = true;
    plan.stage = STAGE_DISTILL;
    plan.gradient_accumulation_steps = 2;
    plan.learning_rate = member(golden, "rate");
    plan.kd =
        (struct distillation_settings) { .teacher = "teacher",
                                         .ratio = member(row, "kd_ratio"),
                                         .temperature = member(row, "kd_temperature"),
                                         .beta = member(row, "kd_beta"),
                                         .topk = (int64_t)member(row, "kd_topk") };
    return plan;
}

static void open_student(struct pair *pair, const struct plan *plan, int threads)
{
    *pair = (struct pair) {
        .golden = read_golden(),
        .student = { .arena = arena_new(),
                     .plan = *plan,
                     .device = plan->device.kind == DEVICE_CUDA ? &plan->device : NULL }
    };
    parse(pair, "student", &pair->student.config);
    parse(pair, "teacher", &pair->other);
    unit_model_start(&pair->student, ROWS, SEQUENCES, threads);
    unit_put_weights(pair->student.model, json_object_get(pair->golden, "student"));
}

static void open_pair(struct pair *pair, const struct plan *plan, enum format format,
                      int threads)
{
    open_student(pair, plan, threads);
    open_teacher(pair, format, "teacher", false);
    model_set_teacher(pair->student.model, pair->teacher);
}

static void pair_close(struct pair *pair)
{
    model_free(pair->teacher);
    unit_model_stop(&pair->student);
    json_decref(pair->golden);
}

/* Make one batch of sequences; a label is the next token if that is above 2. */
static void fill_batch(struct batch *batch, const json_t *runs)
{
    const json_t *run;
    size_t i;

    json_array_foreach(runs, i, run) unit_batch_json(batch, run);
    for (size_t n = 0; n < batch->rows; n++)
        if (batch->targets[n] >= 0 && batch->targets[n] <= 2) {
            batch->targets[n] = LABEL_NONE;
            batch->trained--;
        }
}

struct outcome_of {
    double loss, norm;
    struct model_losses parts;
};

/* Run one optimizer step over a window of micro-batches. */
static struct outcome_of step(struct pair *pair, const json_t *window, int64_t number)
{
    struct unit_model *u = &pair->student;
    struct step_scalars numbers;
    struct outcome_of out = { 0 };
    struct batch batches[2] = { 0 };
    struct error err = { 0 };
    size_t trained = 0;

    for (size_t i = 0; i < 2; i++) {
        fill_batch(&batches[i], json_array_get(window, i));
        trained += batches[i].trained;
    }
    numbers = unit_numbers(u, trained, number);
    model_begin(u->model, &numbers);
    for (size_t i = 0; i < 2; i++)
        unit_must(model_train(u->model, &batches[i], 2 * (uint64_t)number + i, &err),
                  &err);
    unit_must(optimizer_step(u->model, &u->plan, &err), &err);
    unit_must(model_end(u->model, &numbers, &out.loss, &err), &err);
    out.parts = model_losses(u->model);
    out.loss /= (double)trained;
    out.parts.data /= (double)trained;
    out.parts.teacher /= (double)trained;
    out.norm = numbers.norm;
    for (size_t i = 0; i < 2; i++)
        unit_batch_free(&batches[i]);
    return out;
}

static const json_t *window_of(const struct pair *pair, size_t step)
{
    const json_t *windows = json_object_get(pair->golden, "windows");

    return json_array_get(windows, step % json_array_size(windows));
}

/* Run consecutive windows and compare each with PyTorch. */
static void check_windows(struct pair *pair, const json_t *part, size_t run, double near)
{
    const json_t *curve =
        json_object_get(json_array_get(json_object_get(part, "runs"), run), "curve");
    const json_t *windows = json_object_get(part, "windows");

    assert_true(json_array_size(curve) >= 5);
    for (size_t i = 0; i < json_array_size(curve); i++) {
        const json_t *expected = json_array_get(curve, i);
        struct outcome_of is = step(
            pair, json_array_get(windows, i % json_array_size(windows)), (int64_t)i + 1);

        unit_assert_near("loss", is.loss, member(expected, "loss"), near);
        unit_assert_near("ce_loss", is.parts.data, member(expected, "ce_loss"), near);
        unit_assert_near("kd_loss", is.parts.teacher, member(expected, "kd_loss"), near);
        unit_assert_near("grad_norm", is.norm, member(expected, "grad_norm"), 5 * near);
    }
}

/* Check every golden run on a device, often enough that a GPU replays its recordings. */
static void check_curves(const struct device *device, double near)
{
    json_t *golden = read_golden();
    size_t runs = json_array_size(json_object_get(golden, "runs"));

    assert_true(runs >= 5);
    for (size_t r = 0; r < runs; r++) {
        struct plan plan = plan_of(golden, r);
        struct pair pair;

        if (device)
            plan.device = *device;
        open_pair(&pair, &plan, FORMAT_FP32, 2);
        check_windows(&pair, golden, r, near);
        pair_close(&pair);
    }
    json_decref(golden);
}

static void test_distill_curves_match_pytorch(void **state)
{
    (void)state;
    check_curves(NULL, 2e-5);
}

static void test_distill_curves_on_a_gpu_match_pytorch(void **state)
{
    struct device gpu;
    char note[256] = "";

    (void)state;
    if (backend_devices("cuda:0", &gpu, 1, note, sizeof(note)) == 0 || !gpu.runnable) {
        print_message("# SKIP no GPU: %s\n", note);
        skip();
    }
    check_curves(&gpu, 2e-5);
}

/* ---- Capped logits ---- */

/* The loss with a teacher that has the same weights; each has its own cap.  topk 0: over
 * the whole vocabulary at once; topk = size of the vocabulary: as kept logits. */
static double loss_of_twins(int64_t topk, double cap, double teachers_cap)
{
    json_t *golden = read_golden();
    struct plan plan = plan_of(golden, 0);
    struct pair pair = { .golden = golden,
                         .student = { .arena = arena_new(), .plan = plan } };
    double loss;

    pair.student.plan.kd.topk = topk;
    parse(&pair, "student", &pair.student.config);
    pair.other = pair.student.config;
    pair.student.config.logit_softcap = cap;
    pair.other.logit_softcap = teachers_cap;
    unit_model_start(&pair.student, ROWS, SEQUENCES, 1);
    unit_put_weights(pair.student.model, json_object_get(golden, "student"));
    open_teacher(&pair, FORMAT_FP32, "student", false);
    model_set_teacher(pair.student.model, pair.teacher);
    loss = step(&pair, window_of(&pair, 0), 1).parts.teacher;
    pair_close(&pair);
    return loss;
}

static void test_distill_loss_of_equal_models_is_zero(void **state)
{
    static const int64_t words[] = { 0, 11 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(words); i++) {
        assert_true(fabs(loss_of_twins(words[i], 0.02, 0.02)) < 1e-6);
        assert_true(loss_of_twins(words[i], 0.02, 0) > 0.1);
    }
}

/* ---- A real teacher ---- */

/* Multiply all weights of a student by `factor`, in fp32. */
static void scale_weights(struct model *model, float factor)
{
    for (size_t i = 0; i < model_parameters(model); i++) {
        struct tensor w = model_parameter(model, i)->weight;

        for (size_t k = 0; k < w.rows * w.cols; k++)
            ((float *)w.data)[k] *= factor;
    }
}

/* Load a real student, multiply its weights by `factor`, and load its teacher, in
 * fp32. */
static void open_real(struct pair *pair, const struct plan *plan, const char *student,
                      const char *teacher, float factor)
{
    struct unit_model *u = &pair->student;
    struct error err = { 0 };
    struct model_options options = { .plan = &pair->plan.plan,
                                     .config = &pair->plan.config,
                                     .rows_max = 64,
                                     .sequences_max = SEQUENCES };

    *pair =
        (struct pair) { .golden = read_golden(), .student = unit_model_shared(student) };
    u->plan.kd = plan->kd;
    u->plan.kd.teacher = teacher;
    u->plan.stage = STAGE_DISTILL;
    u->plan.learning_rate = 1e-3;
    unit_model_start(u, 64, SEQUENCES, 2);
    scale_weights(u->model, factor);
    unit_must(teacher_plan_make(&u->plan, false, u->arena, &pair->plan, &err), &err);
    options.backend = u->be;
    pair->teacher = model_new(&options, &err);
    unit_must(pair->teacher && model_load(pair->teacher, &err), &err);
    model_set_teacher(u->model, pair->teacher);
}

/* Check the sequences of one part of the golden values; taken: their indices in RUNS of
 * the script. */
static void check_real(const char *part, const char *student, const char *teacher,
                       float factor, const size_t *taken, size_t count)
{
    char *folder = unit_shared(teacher);
    const json_t *expected;
    json_t *golden;

    if (!folder) {
        print_message("# SKIP no %s\n", teacher);
        skip();
    }
    golden = read_golden();
    expected = json_object_get(golden, part);
    assert_int_equal(json_array_size(json_object_get(expected, "runs")), count);
    for (size_t r = 0; r < count; r++) {
        struct plan plan = plan_of(golden, taken[r]);
        struct pair pair;

        open_real(&pair, &plan, student, folder, factor);
        check_windows(&pair, expected, r, 2e-4);
        pair_close(&pair);
    }
    json_decref(golden);
    free(folder);
}

static void test_distill_from_a_real_teacher_matches_pytorch(void **state)
{
    (void)state;
    check_real("stories", "data/stories260K/hf", "data/stories260K/hf", 0.9f,
               (const size_t[]) { 0, 1, 3 }, 3);
}

/* Student and teacher have different architectures. */
static void test_distill_across_architectures_matches_pytorch(void **state)
{
    (void)state;
    check_real("across", "data/made-here/qwen2", "data/made-here/gpt_neox", 1,
               (const size_t[]) { 0, 4 }, 2);
}

/* Return all bits of a student after some steps. */
static void train_student(const struct plan *plan, enum format teacher_format,
                          int threads, char *out, size_t room, double *loss)
{
    struct pair pair;
    size_t at = 0;

    open_pair(&pair, plan, teacher_format, threads);
    for (size_t i = 0; i < 4; i++)
        *loss = step(&pair, window_of(&pair, i), (int64_t)i + 1).loss;
    for (size_t i = 0; i < model_trained_parameters(pair.student.model); i++) {
        const struct parameter *p = model_trained(pair.student.model, i);
        size_t bytes = tensor_bytes(p->weight);

        assert_true(at + bytes <= room);
        memcpy(out + at, p->weight.data, bytes);
        at += bytes;
    }
    memset(out + at, 0, room - at);
    pair_close(&pair);
}

enum { BITS = 1 << 14 };

/* Threads and recomputed blocks change no bit. */
static void test_distill_is_deterministic(void **state)
{
    char *bits[2] = { memory_alloc(BITS), memory_alloc(BITS) };
    json_t *golden = read_golden();

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct plan plan = plan_of(golden, i % 2 ? 1 : 3);
        double losses[2];

        plan.method = i < 2 ? METHOD_FULL : METHOD_FREEZE;
        plan.freeze_trainable_layers = 1;
        plan.freeze_trainable_modules = "mlp";
        train_student(&plan, FORMAT_BF16, 1, bits[0], BITS, &losses[0]);
        plan.gradient_checkpointing = true;
        train_student(&plan, FORMAT_BF16, 3, bits[1], BITS, &losses[1]);
        assert_memory_equal(bits[0], bits[1], BITS);
        assert_true(losses[0] == losses[1]);
    }
    json_decref(golden);
    free(bits[0]);
    free(bits[1]);
}

/* Students in 16 bits, teachers in each format: the result is close to that in fp32. */
static void test_distill_in_16_bits_is_close_to_fp32(void **state)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_FP16, FORMAT_BF16 };
    char *bits = memory_alloc(BITS);
    json_t *golden = read_golden();

    (void)state;
    for (size_t run = 0; run < 5; run++) {
        struct plan plan = plan_of(golden, run);
        double expected, loss;

        train_student(&plan, FORMAT_FP32, 2, bits, BITS, &expected);
        for (size_t i = 0; i < TS_COUNT(formats) * TS_COUNT(formats); i++) {
            plan.precision.compute = formats[i % TS_COUNT(formats)];
            train_student(&plan, formats[i / TS_COUNT(formats)], 2, bits, BITS, &loss);
            unit_assert_near("loss", loss, expected, i == 0 ? 0 : 0.03);
        }
    }
    json_decref(golden);
    free(bits);
}

/* Return the mean loss of a batch with teacher logits that were kept before. */
static double train_kept(struct pair *pair, const struct batch *batch)
{
    struct unit_model *u = &pair->student;
    struct step_scalars numbers = unit_numbers(u, batch->trained, 1);
    size_t kept = (size_t)u->plan.kd.topk, words = u->config.vocab_size;
    float *values = memory_alloc(ROWS * kept * sizeof(*values));
    int32_t *ids = memory_alloc(ROWS * kept * sizeof(*ids));
    struct error err = { 0 };
    double sum = 0;

    unit_must(model_top_logits(pair->teacher, batch, words, ids, values, &err), &err);
    model_begin(u->model, &numbers);
    model_set_teacher_logits(u->model, batch->rows, ids, values, words);
    unit_must(model_train(u->model, batch, 0, &err), &err);
    unit_must(model_end(u->model, &numbers, &sum, &err), &err);
    free(values);
    free(ids);
    return sum / (double)batch->trained;
}

/* Kept logits give the same training as the teacher itself. */
static void test_distill_with_stored_logits_matches_the_teacher(void **state)
{
    json_t *golden = read_golden();

    (void)state;
    for (size_t run = 3; run < 5; run++) {
        struct plan plan = plan_of(golden, run);
        struct pair live, filed;
        struct batch batch = { 0 };
        struct tensor a, b;

        open_pair(&live, &plan, FORMAT_FP32, 2);
        open_student(&filed, &plan, 2);
        open_teacher(&filed, FORMAT_FP32, "teacher", true);
        fill_batch(&batch, json_array_get(window_of(&live, 0), 0));
        assert_true(unit_train(&live.student, &batch) == train_kept(&filed, &batch));
        a = model_gradients(live.student.model);
        b = model_gradients(filed.student.model);
        assert_memory_equal(a.data, b.data, tensor_bytes(a));
        unit_batch_free(&batch);
        pair_close(&live);
        pair_close(&filed);
    }
    json_decref(golden);
}

/* The estimate is the sum of both blocks, to the byte. */
static void test_distill_memory_matches_the_estimate(void **state)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_FP16, FORMAT_BF16 };
    static const struct estimate_data data = { .rows = ROWS, .sequences = SEQUENCES };
    json_t *golden = read_golden();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(formats); i++) {
        struct plan plan = plan_of(golden, 1 + i);
        struct memory_use estimate;
        struct error err = { 0 };
        struct pair pair;

        open_pair(&pair, &plan, formats[i], 2);
        unit_must(estimate_memory(&pair.student.plan, &pair.student.config, &data,
                                  &estimate, &err),
                  &err);
        assert_int_equal(estimate.total, model_memory(pair.student.model)->low +
                                             model_memory(pair.teacher)->low);
        assert_int_equal(estimate.total, estimate.low);
        assert_int_equal(estimate.total, estimate.high);
        assert_int_equal(estimate.weights + estimate.gradients + estimate.optimizer +
                             estimate.activations + estimate.workspace,
                         estimate.total);
        pair_close(&pair);
    }
    json_decref(golden);
}

/* To make a file, the teacher is loaded and freed before the student: memory is the
 * larger of the two.  If the file exists, only the student is loaded. */
static void test_distill_with_a_file_loads_one_model_at_a_time(void **state)
{
    static const struct estimate_data data = { .rows = ROWS, .sequences = SEQUENCES };
    json_t *golden = read_golden();
    struct plan plan = plan_of(golden, 3);
    char *here = unit_source("tests/golden/distill_curve.json");
    struct memory_use estimates[2];
    struct error err = { 0 };
    struct pair pair;
    uint64_t student, teacher;

    (void)state;
    open_student(&pair, &plan, 2);
    open_teacher(&pair, FORMAT_FP32, "teacher", true);
    student = model_memory(pair.student.model)->low;
    teacher = model_memory(pair.teacher)->low;
    for (size_t i = 0; i < 2; i++) {
        pair.student.plan.kd.logits = i == 0 ? "nowhere.safetensors" : here;
        unit_must(estimate_memory(&pair.student.plan, &pair.student.config, &data,
                                  &estimates[i], &err),
                  &err);
    }
    assert_int_equal(estimates[0].total, student > teacher ? student : teacher);
    assert_int_equal(estimates[1].total, student);
    pair_close(&pair);
    free(here);
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distill_curves_match_pytorch),
        cmocka_unit_test(test_distill_loss_of_equal_models_is_zero),
        cmocka_unit_test(test_distill_curves_on_a_gpu_match_pytorch),
        cmocka_unit_test(test_distill_from_a_real_teacher_matches_pytorch),
        cmocka_unit_test(test_distill_across_architectures_matches_pytorch),
        cmocka_unit_test(test_distill_is_deterministic),
        cmocka_unit_test(test_distill_in_16_bits_is_close_to_fp32),
        cmocka_unit_test(test_distill_with_stored_logits_matches_the_teacher),
        cmocka_unit_test(test_distill_memory_matches_the_estimate),
        cmocka_unit_test(test_distill_with_a_file_loads_one_model_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
