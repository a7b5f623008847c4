/* tests/unit/test_tower_cuda.c - encoders of sounds and images compute on a GPU the rows and
 * gradients that transformers computes (tests/golden/towers.py, tower_gradients.py). */
#include "config.h"

#include "kernels/backend.h"
#include "train/tower/tower.h"

#include "tests/unit/unit_tower_gradients.h"

static struct device gpus[8];
static size_t gpu_count;

/* Formats, the lowest compute capability that has them, and distances as in test_tower.c. */
static const struct variant {
    enum format format;
    int capability;
    double close;
} variants[] = {
    { FORMAT_FP32, 60, 1e-5 },
    { FORMAT_FP16, 70, 16.0 / 2048 },
    { FORMAT_BF16, 80, 16.0 / 256 },
};

static const struct device *gpu_for(int capability)
{
    for (size_t i = 0; i < gpu_count; i++)
        if (10 * gpus[i].major + gpus[i].minor >= capability)
            return &gpus[i];
    return NULL;
}

static void check_model(struct unit_tower *u, const struct unit_tower_case *one,
                        const struct variant *variant)
{
    unit_tower_open(u, one,
                    (struct tower_options) { .project = true,
                                             .compute = variant->format,
                                             .frozen = variant->format });
    for (size_t k = 0; k < one->items; k++) {
        struct tower_output out;

        unit_tower_run(u, one, k, &out);
        assert_int_equal(out.format, variant->format);
        unit_tower_compare(u, one, k, "rows", out.rows, &out, out.width, variant->close);
        for (size_t d = 0; d < out.deep; d++) {
            char part[16];

            snprintf(part, sizeof(part), "deep%zu", d);
            unit_tower_compare(u, one, k, part, out.deep_rows[d], &out, out.deep_width,
                               variant->close);
        }
        tower_output_clear(&out);
    }
    unit_tower_close(u);
}

static void test_tower_cuda_computes_rows_of_transformers(void **state)
{
    struct unit_tower u = unit_tower_setup();
    size_t checked = 0;

    (void)state;
    u.ops = &backend_cuda;
    for (size_t i = 0; i < unit_tower_models(&u); i++)
        for (size_t v = 0; v < TS_COUNT(variants); v++) {
            u.device = gpu_for(variants[v].capability);
            if (!u.device)
                continue;
            check_model(&u, unit_tower_case(&u, i), &variants[v]);
            checked++;
        }
    assert_true(checked > 0);
    unit_tower_teardown(&u);
}

/* Of 16-bit formats, both directions round. */
static void test_tower_cuda_computes_gradients_of_transformers(void **state)
{
    struct safetensors *results = unit_tower_open_gradients();
    struct unit_tower u = unit_tower_setup();
    size_t checked = 0;

    (void)state;
    u.ops = &backend_cuda;
    for (size_t i = 0; i < unit_tower_models(&u); i++)
        for (size_t v = 0; v < TS_COUNT(variants); v++) {
            u.device = gpu_for(variants[v].capability);
            if (!u.device || !unit_tower_trains(unit_tower_case(&u, i)))
                continue;
            unit_tower_check_gradients(&u, unit_tower_case(&u, i), results,
                                       variants[v].format, 2 * variants[v].close);
            checked++;
        }
    assert_true(checked > 0);
    unit_tower_teardown(&u);
    safetensors_close(results);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tower_cuda_computes_rows_of_transformers),
        cmocka_unit_test(test_tower_cuda_computes_gradients_of_transformers),
    };
    char note[256] = "";

    gpu_count = backend_cuda.devices("cuda", gpus, TS_COUNT(gpus), note, sizeof(note));
    if (gpu_count == 0) {
        printf("1..0 # SKIP no GPU: %s\n", note);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
