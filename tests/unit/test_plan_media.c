/* tests/unit/test_plan_media.c - what plan says about images and sounds. */
#include "config.h"

#include "runner/job/plan_media.h"

#include "tests/unit/unit.h"

#include "base/size.h"

static const struct tower_cost cost = { .sound = true,
                                        .weights = (uint64_t)1 << 30,
                                        .buffers = (uint64_t)1 << 29,
                                        .operations = 2e12 };

static void test_plan_media_says_who_makes_the_rows(void **state)
{
    const struct {
        struct plan_media media;
        const char *features, *line;
    } cases[] = {
        { { .items = 0 }, NULL, "" },
        { { .items = 3, .rows = 90 },
          "rows.safetensors",
          "  media       3 images or sounds with 90 rows of features, from "
          "rows.safetensors\n" },
        { { .items = 3, .rows = 90, .encodes = true, .cost = cost, .operations = 4.5e12 },
          NULL,
          "  media       3 sounds with 90 rows of features; the encoder computes them once, "
          "before training, in 1.5 GiB and 4.5 TFLOP\n" },
        { { .items = 3,
            .rows = 90,
            .encodes = true,
            .cost = { .weights = (uint64_t)1 << 30 },
            .operations = 4.5e12,
            .seconds = 61.6 },
          NULL,
          "  media       3 images with 90 rows of features; the encoder computes them once, "
          "before training, in 1.0 GiB and about 62 s\n" },
        { { .items = 3,
            .rows = 90,
            .encodes = true,
            .cost = { .weights = (uint64_t)1 << 30,
                      .buffers = (uint64_t)1 << 29,
                      .trained = 637000000 },
            .operations = 4005.3e12 },
          NULL,
          "  media       3 images with 90 rows of features; trains the encoder: 637000000 "
          "parameters, 512 MiB of activations and 4005 TFLOP per epoch\n" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const struct plan plan = { .features = cases[i].features };
        struct text out;

        text_init(&out, 0);
        plan_media_text(&out, &plan, &cases[i].media);
        assert_string_equal(out.data ? out.data : "", cases[i].line);
        text_clear(&out);
    }
}

static void test_plan_media_is_an_object(void **state)
{
    const struct plan_media none = { .items = 0 }, given = { .items = 3, .rows = 90 };
    struct plan_media own = {
        .items = 3, .rows = 90, .encodes = true, .cost = cost, .operations = 4.5e12
    };
    json_t *object = plan_media_json(&none), *encoder;

    (void)state;
    assert_true(json_is_null(object));
    json_decref(object);
    object = plan_media_json(&given);
    assert_int_equal(json_integer_value(json_object_get(object, "items")), 3);
    assert_int_equal(json_integer_value(json_object_get(object, "rows")), 90);
    assert_true(json_is_null(json_object_get(object, "encoder")));
    json_decref(object);
    object = plan_media_json(&own);
    encoder = json_object_get(object, "encoder");
    assert_int_equal(json_integer_value(json_object_get(encoder, "memory")),
                     (json_int_t)3 << 29);
    assert_true(json_number_value(json_object_get(encoder, "operations")) == 4.5e12);
    assert_true(json_is_null(json_object_get(encoder, "seconds")));
    assert_int_equal(json_integer_value(json_object_get(encoder, "trained")), 0);
    json_decref(object);
    own.cost.trained = 7;
    object = plan_media_json(&own);
    encoder = json_object_get(object, "encoder");
    assert_int_equal(json_integer_value(json_object_get(encoder, "trained")), 7);
    assert_int_equal(json_integer_value(json_object_get(encoder, "memory")),
                     (json_int_t)1 << 29);
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_media_says_who_makes_the_rows),
        cmocka_unit_test(test_plan_media_is_an_object),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
