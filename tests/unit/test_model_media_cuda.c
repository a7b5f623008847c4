/*
 * tests/unit/test_model_media_cuda.c - models with rows of features in place of media
 * tokens train on a GPU as on the CPU, in batches that are padded and recorded, with
 * batches of text between them.
 */
#include "config.h"

#include "kernels/backend.h"

#define GOLDEN_FILE "tests/golden/multimodal.json"
#include "tests/unit/unit_media.h"

enum { WINDOWS = 4, TEXT = 2 }; /* the third window has text alone */

static json_t *rows_golden;
static struct device gpus[8];
static size_t gpu_count;

/* Losses, and gradients, of each window; there are no steps between them. */
struct results {
    double losses[WINDOWS];
    float *gradients;
    size_t count; /* of one window */
};

/* A number format, the lowest compute capability that has it, and how far a gradient may be
 * from the CPU's, relative to its norm: rounding of some ten operations. */
struct variant {
    enum format compute;
    int capability;
    double loss, near;
};
static const struct variant variants[] = {
    { FORMAT_FP32, 60, 1e-5, 5e-5 },
    { FORMAT_BF16, 80, 1e-2, 0.1 },
};

static const struct device *gpu_for(int capability)
{
    for (size_t i = 0; i < gpu_count; i++)
        if (10 * gpus[i].major + gpus[i].minor >= capability)
            return &gpus[i];
    return NULL;
}

static void run_window(struct unit_model *u, const struct batch *b, size_t window,
                       struct results *out)
{
    struct tensor gradients;
    struct error err = { 0 };

    out->losses[window] = unit_train(u, b);
    gradients = model_gradients(u->model);
    if (!out->gradients)
        out->gradients = memory_alloc(WINDOWS * tensor_bytes(gradients));
    out->count = gradients.cols;
    u->be->ops->download(u->be, out->gradients + window * out->count, gradients.data,
                         tensor_bytes(gradients));
    unit_must(u->be->ops->sync(u->be, &err), &err);
}

static void add_text(struct batch *text, const json_t *one)
{
    const json_t *list = json_object_get(json_object_get(one, "batch"), "tokens"), *row;
    size_t i;

    json_array_foreach((json_t *)list, i, row) unit_batch_json(text, row);
}

/* More rows and sequences than the batch has: it is padded where passes are recorded. */
static struct results results_of(const json_t *one, const struct variant *variant,
                                 const struct device *gpu)
{
    const char *base = json_string_value(json_object_get(one, "base"));
    char *dir = folder_of(find_case("models", base), NULL);
    struct unit_model u = open_folder(dir);
    struct results out = { .count = 0 };
    struct batch with = { 0 }, text = { 0 };
    struct unit_media media;

    u.plan.precision.compute = variant->compute;
    u.plan.freeze_multi_modal_projector = !json_object_get(one, "encoder");
    unit_media_join(one, &u);
    unit_media_batch(one, u.config.hidden_size, &media, &with);
    add_text(&text, one);
    unit_media_hide(one, &text);
    u.media_rows = media.rows + 3;
    u.media = &media.source;
    u.device = gpu;
    u.ops = gpu ? &backend_cuda : NULL;
    if (gpu)
        u.plan.device = *gpu;
    unit_model_start(&u, with.rows + 70, with.sequences + 2, 1);
    for (size_t i = 0; i < WINDOWS; i++)
        run_window(&u, i == TEXT ? &text : &with, i, &out);
    unit_model_stop(&u);
    unit_media_free(&media);
    unit_batch_free(&with);
    unit_batch_free(&text);
    unit_dir_free(dir);
    return out;
}

static void compare(const char *name, const struct variant *variant,
                    const struct results *cpu, const struct results *gpu)
{
    assert_int_equal(cpu->count, gpu->count);
    for (size_t w = 0; w < WINDOWS; w++) {
        const float *of = cpu->gradients + w * cpu->count,
                    *is = gpu->gradients + w * cpu->count;
        double squares = 0, apart = 0;

        for (size_t i = 0; i < cpu->count; i++) {
            squares += (double)of[i] * (double)of[i];
            apart += pow((double)is[i] - (double)of[i], 2);
        }
        unit_assert_near(name, gpu->losses[w], cpu->losses[w], variant->loss);
        assert_true(squares > 0);
        if (!(sqrt(apart) <= variant->near * sqrt(squares)))
            fail_msg("%s in %s, window %zu: gradients are %.2g of their norm apart", name,
                     format_info(variant->compute)->name, w, sqrt(apart / squares));
    }
}

/* A batch has the same bits each time, whatever was between. */
static void compare_windows(const char *name, const struct results *r)
{
    const size_t bytes = r->count * sizeof(float);

    for (size_t w = 1; w < WINDOWS; w++) {
        bool same = memcmp(r->gradients, r->gradients + w * r->count, bytes) == 0;

        if (same == (w == TEXT))
            fail_msg("%s: the gradients of windows 0 and %zu are %s", name, w,
                     same ? "the same" : "not the same");
    }
}

static void test_model_media_cuda_trains_like_the_cpu(void **state)
{
    const json_t *cases = json_object_get(rows_golden, "models"), *one;
    size_t i;

    (void)state;
    assert_true(json_array_size(cases) > 0);
    json_array_foreach((json_t *)cases, i, one) for (size_t v = 0; v < TS_COUNT(variants);
                                                     v++)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        const struct device *device = gpu_for(variants[v].capability);
        struct results cpu, gpu;

        if (!device)
            continue;
        cpu = results_of(one, &variants[v], NULL);
        gpu = results_of(one, &variants[v], device);
        compare(name, &variants[v], &cpu, &gpu);
        compare_windows(name, &cpu);
        compare_windows(name, &gpu);
        free(cpu.gradients);
        free(gpu.gradients);
    }
}

static json_t *read_golden(const char *file)
{
    char *path = unit_source(file);
    struct error err = { 0 };
    json_t *json = json_read_file(path, (size_t)1 << 20, &err);

    unit_must(json != NULL, &err);
    free(path);
    return json;
}

/* Models with rows of features, and those whose projectors are trained, too. */
static int setup(void **state)
{
    json_t *more = read_golden("tests/golden/media_projector.json");

    rows_golden = read_golden("tests/golden/media_rows.json");
    json_array_extend(json_object_get(rows_golden, "models"),
                      json_object_get(more, "models"));
    json_decref(more);
    return architectures_setup(state);
}

static int teardown(void **state)
{
    json_decref(rows_golden);
    return architectures_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_media_cuda_trains_like_the_cpu),
    };
    char note[256] = "";

    gpu_count = backend_cuda.devices("cuda", gpus, TS_COUNT(gpus), note, sizeof(note));
    if (gpu_count == 0) {
        printf("1..0 # SKIP no GPU: %s\n", note);
        return 0;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
