/* tests/unit/test_weights.c - files that match their config.json, and files that do
 * not. */
#include "config.h"

#include "train/model/weights.h"

#include "tests/unit/unit_architectures.h"

/* Check a folder with its own config.json. */
static bool check_folder(const char *dir, struct error *err)
{
    struct arena *arena = arena_new();
    struct model_config config;
    struct error wrong = { 0 };
    bool ok;

    unit_must(model_config_read(dir, arena, &config, &wrong), &wrong);
    ok = weights_check(dir, &config, err);
    arena_free(arena);
    return ok;
}

static json_t *models(void)
{
    return json_object_get(golden, "models");
}

static void test_weights_of_every_architecture_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < json_array_size(models()); i++) {
        const json_t *one = json_array_get(models(), i);
        const char *type = json_string_value(
            json_object_get(json_object_get(one, "config"), "model_type"));
        const char *cuts[] = { NULL, architecture_find(type)->base };
        struct error err = { 0 };

        for (size_t c = 0; c < TS_COUNT(cuts); c++) {
            char *dir = folder_of(one, cuts[c]);

            unit_must(check_folder(dir, &err), &err);
            unit_dir_free(dir);
        }
    }
}

/* Check a copy of a model with one tensor removed, or with another shape. */
static void check_changed(const json_t *one, const char *name, const char *says,
                          json_t *shape)
{
    json_t *copy = json_deep_copy(one), *tensors = json_object_get(copy, "tensors");
    struct error err = { 0 };
    char *dir;

    if (shape)
        json_object_set_new(tensors, name, shape);
    else
        json_object_del(tensors, name);
    dir = folder_of(copy, NULL);
    assert_false(check_folder(dir, &err));
    assert_int_equal(err.code, ERROR_DATA);
    if (!strstr(err.text, name) || !strstr(err.text, says))
        fail_msg("%s without %s: %s", json_string_value(json_object_get(one, "name")),
                 name, err.text);
    unit_dir_free(dir);
    json_decref(copy);
}

static void test_weights_that_are_missing_or_of_another_shape_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < json_array_size(models()); i++) {
        const json_t *one = json_array_get(models(), i);
        json_t *shape;
        const char *name;

        json_object_foreach(json_object_get(one, "tensors"), name, shape)
        {
            json_t *other = json_deep_copy(shape);

            if (json_array_size(other) == 0) /* a scalar */
                json_array_append_new(other, json_integer(2));
            else
                json_array_set_new(other, 0,
                                   json_integer((json_int_t)shape_of(shape, 0) + 1));
            check_changed(one, name, "is missing", NULL);
            check_changed(one, name, "config.json requires [", other);
        }
    }
}

static void test_weights_of_another_dtype_are_rejected(void **state)
{
    static const size_t shape[] = { 4 };
    const struct stored_tensor t = { .name = "w",
                                     .format = FORMAT_COUNT,
                                     .dtype = "I8",
                                     .rank = 1,
                                     .shape = shape,
                                     .bytes = 4,
                                     .file = "f" };
    struct error err = { 0 };

    (void)state;
    assert_false(weights_fit(
        &t, &(struct weights_expected) { 1, 1, 4, STORED_ROWS, 0, NULL }, &err));
    assert_string_equal(
        err.text,
        "f: w has the dtype I8, which is not supported, only F32, F16 and BF16");
}

/* Files that do not exist or cannot be read are reported elsewhere. */
static void test_weights_that_cannot_be_opened_are_accepted(void **state)
{
    char *dir = folder_of(json_array_get(models(), 0), NULL),
         *file = path_join(dir, "model.safetensors");
    struct error err = { 0 };

    (void)state;
    assert_true(file_replace(file, "{}", 2, 0600, &err));
    unit_must(check_folder(dir, &err), &err);
    assert_int_equal(remove(file), 0);
    unit_must(check_folder(dir, &err), &err);
    free(file);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_of_every_architecture_match),
        cmocka_unit_test(test_weights_that_are_missing_or_of_another_shape_are_named),
        cmocka_unit_test(test_weights_of_another_dtype_are_rejected),
        cmocka_unit_test(test_weights_that_cannot_be_opened_are_accepted),
    };

    return cmocka_run_group_tests(tests, architectures_setup, architectures_teardown);
}
