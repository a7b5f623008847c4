/* tests/unit/test_tower_backward.c - gradients of encoders, compared with transformers'
 * (tests/golden/tower_gradients.py). */
#include "config.h"

#include "train/tower/tower.h"

#include "tests/unit/unit_tower_gradients.h"
#include "train/tower/tower_state.h"

/* fp32 on both sides: only the order of sums differs. */
#define CLOSE 1e-5

static void check_all(double close, enum format compute)
{
    struct safetensors *results = unit_tower_open_gradients();
    struct unit_tower u = unit_tower_setup();

    for (size_t i = 0; i < unit_tower_models(&u); i++)
        if (unit_tower_trains(unit_tower_case(&u, i)))
            unit_tower_check_gradients(&u, unit_tower_case(&u, i), results, compute,
                                       close);
    unit_tower_teardown(&u);
    safetensors_close(results);
}

static void test_tower_gradients_are_those_of_transformers(void **state)
{
    (void)state;
    check_all(CLOSE, FORMAT_FP32);
}

/* As in test_tower.c: a few roundings of each sublayer, in both directions. */
static void test_tower_gradients_round_to_16_bits(void **state)
{
    (void)state;
    check_all(32.0 / 256, FORMAT_BF16);
}

static void test_tower_gradients_do_not_depend_on_threads(void **state)
{
    struct unit_tower u = unit_tower_setup();

    (void)state;
    for (size_t i = 0; i < unit_tower_models(&u); i++) {
        const struct unit_tower_case *one = unit_tower_case(&u, i);
        float *first = NULL;

        for (int k = 0; k < 2 && unit_tower_trains(one); k++) {
            size_t count = 0;
            float *all;

            u.threads = k + 1;
            unit_tower_open(&u, one, (struct tower_options) { .trains = true });
            unit_tower_pass_back(&u, one, 0);
            all = arena_array(u.arena, tower_elements(u.tower) + 1024, sizeof(*all));
            for (size_t p = 0; p < tower_parameters_of(u.tower)->count; p++) {
                const struct tensor t = tower_gradient(u.tower, p);

                if (t.data)
                    memcpy(all + count, unit_tower_gradient(&u, p), tensor_bytes(t));
                count += t.data ? t.rows * t.cols : 0;
            }
            assert_true(count <= tower_elements(u.tower) + 1024);
            if (first)
                assert_memory_equal(all, first, count * sizeof(*all));
            first = all;
            unit_tower_close(&u);
        }
    }
    unit_tower_teardown(&u);
}

static size_t largest_item(const struct unit_tower *u, const struct unit_tower_case *one)
{
    size_t most = 0;

    for (size_t i = 0; i < one->items; i++) {
        struct media_input in = unit_tower_input(u, one, i);
        struct tower_output out;
        struct error err = { 0 };

        unit_tower_must(tower_run(u->tower, &in, &out, &err), &err);
        most = out.count > most ? out.count : most;
        tower_output_clear(&out);
        free(in.values);
        free(in.heard);
    }
    return most;
}

/* The memory of the largest item is enough for all. */
static void test_tower_reserves_memory(void **state)
{
    struct unit_tower u = unit_tower_setup();

    (void)state;
    for (size_t i = 0; i < unit_tower_models(&u); i++) {
        const struct unit_tower_case *one = unit_tower_case(&u, i);
        struct error err = { 0 };
        size_t rows, bytes;

        if (!unit_tower_trains(one))
            continue;
        unit_tower_open(&u, one, (struct tower_options) { .trains = true });
        rows = largest_item(&u, one);
        unit_tower_close(&u);
        unit_tower_open(&u, one, (struct tower_options) { .trains = true });
        unit_tower_must(tower_reserve(u.tower, rows, &err), &err);
        bytes = u.tower->work_bytes;
        for (size_t k = 0; k < one->items; k++)
            unit_tower_pass_back(&u, one, k);
        if (u.tower->work_bytes != bytes)
            fail_msg("%s takes %zu bytes, not %zu", one->name, u.tower->work_bytes,
                     bytes);
        unit_tower_close(&u);
    }
    unit_tower_teardown(&u);
}

/* Whisper's keys have no bias: their part of the gradient does not count. */
static void test_tower_has_no_gradients_of_missing_biases(void **state)
{
    struct unit_tower u = unit_tower_setup();
    const struct unit_tower_case *one = unit_tower_named(&u, "qwen2_audio");
    const struct tower_parameters *list;
    size_t found = 0;

    (void)state;
    unit_tower_open(&u, one, (struct tower_options) { .trains = true });
    unit_tower_pass_back(&u, one, 0);
    list = tower_parameters_of(u.tower);
    for (size_t i = 0; i < list->count; i++) {
        const size_t each = list->list[i].cols / 3;
        const float *g;

        if (list->list[i].layer != TOWER_QKV || !list->list[i].bias)
            continue;
        g = unit_tower_gradient(&u, i);
        for (size_t k = 0; k < each; k++) {
            assert_true(g[k] != 0 && g[2 * each + k] != 0);
            assert_true(g[each + k] == 0);
        }
        found++;
    }
    assert_true(found > 0);
    unit_tower_close(&u);
    unit_tower_teardown(&u);
}

static void test_tower_refuses_to_train_some(void **state)
{
    static const char *const names[] = { "internvl", "glm4v", "phi4mm" };
    struct unit_tower u = unit_tower_setup();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        struct error err = { 0 };

        assert_false(unit_tower_try(&u, unit_tower_named(&u, names[i]),
                                    (struct tower_options) { .trains = true }, &err));
        assert_true(text_starts(
            err.text, arena_printf(u.arena, "cannot train the encoder of a %s model: it",
                                   names[i])));
        unit_tower_close(&u);
    }
    unit_tower_teardown(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tower_gradients_are_those_of_transformers),
        cmocka_unit_test(test_tower_gradients_round_to_16_bits),
        cmocka_unit_test(test_tower_gradients_do_not_depend_on_threads),
        cmocka_unit_test(test_tower_reserves_memory),
        cmocka_unit_test(test_tower_has_no_gradients_of_missing_biases),
        cmocka_unit_test(test_tower_refuses_to_train_some),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
