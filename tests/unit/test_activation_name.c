/* tests/unit/test_activation_name.c - activation functions are found by the names of
 * transformers; an unknown name is an error that lists those that exist. */
#include "config.h"

#include "train/model/activation_name.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_names_of_transformers(void **state)
{
    static const struct {
        const char *name;
        enum activation kind;
    } rows[] = {
        { "silu", ACTIVATION_SILU },
        { "gelu", ACTIVATION_GELU },
        { "gelu_new", ACTIVATION_GELU_TANH },
        { "gelu_pytorch_tanh", ACTIVATION_GELU_TANH },
        { "relu2", ACTIVATION_RELU2 },
        { "quick_gelu", ACTIVATION_QUICK_GELU },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct error err = { ERROR_NONE };
        enum activation kind = ACTIVATION_SIGMOID;

        assert_true(
            activation_read("config.json", "hidden_act", rows[i].name, &kind, &err));
        assert_int_equal(kind, rows[i].kind);
        assert_int_equal(err.code, ERROR_NONE);
    }
}

static void test_unknown_names(void **state)
{
    static const char *const names[] = { "mish", "", "sigmoid", NULL };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        struct error err = { ERROR_NONE };
        enum activation kind = ACTIVATION_RELU;

        assert_false(activation_read("config.json", "hidden_act", names[i], &kind, &err));
        assert_int_equal(err.code, ERROR_DATA);
        assert_non_null(strstr(err.text, "config.json: hidden_act \""));
        assert_non_null(strstr(err.text, "supported: silu, swish, gelu, "));
        assert_int_equal(kind, ACTIVATION_RELU);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_transformers),
        cmocka_unit_test(test_unknown_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
