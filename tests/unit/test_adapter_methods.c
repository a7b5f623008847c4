/* tests/unit/test_adapter_methods.c - which kinds of adapters fit the models of every
 * architecture. */
#include "config.h"

#include "tests/unit/unit_architectures.h"
#include "train/model/shapes.h"

enum kind { DORA, PISSA, OFT, KINDS };

static const char *const keys[KINDS] = { "use_dora", "pissa_init",
                                         "finetuning_type: oft" };

/* Lay out adapters on the layers of a model; return the error, or "". */
static const char *lay_out(struct unit_model *u, enum kind kind, const char *targets,
                           size_t rank)
{
    static struct error err;
    struct shapes shapes;

    u->plan.method = kind == OFT ? METHOD_OFT : METHOD_LORA;
    u->plan.lora_target = u->plan.oft_target = targets;
    u->plan.lora_rank = rank;
    u->plan.oft_block_size = 4;
    u->plan.use_dora = kind == DORA;
    u->plan.pissa_init = kind == PISSA;
    err = (struct error) { 0 };
    if (shapes_make(&u->plan, &u->config, 0, 0, u->arena, &shapes, &err))
        return "";
    assert_int_equal(err.code, ERROR_JOB);
    return err.text;
}

static bool has_experts(const struct model_config *config)
{
    for (size_t l = 0; l < config->layers; l++)
        if (config->sparse && config->sparse[l])
            return true;
    return false;
}

/* Names that a refusal suggests are accepted. */
static void check_suggestion(struct unit_model *u, enum kind kind, const char *refusal)
{
    static const char before[] = ", such as ";
    const char *names = strstr(refusal, before);

    assert_non_null(names);
    names = arena_strdup(u->arena, names + strlen(before));
    assert_string_equal(lay_out(u, kind, names, 2), "");
}

/* Experts alone are refused: an architecture that has them does not refuse its models that
 * have none. */
static void check_kinds(const json_t *one)
{
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);

    for (enum kind kind = DORA; kind < KINDS; kind++) {
        const char *text = lay_out(&u, kind, "all", 2);

        if (kind == OFT && u.config.architecture->linear == STORED_COLUMNS) {
            assert_non_null(strstr(text, "use lora"));
        } else if (*text && has_experts(&u.config)) {
            assert_true(text_starts(text, keys[kind]));
            check_suggestion(&u, kind, text);
        } else if (*text) {
            fail_msg("%s: %s", json_string_value(json_object_get(one, "name")), text);
        }
    }
    arena_free(u.arena);
    unit_dir_free(dir);
}

static void test_adapter_methods_fit_all_but_experts(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_kinds(json_array_get(cases, i));
}

/* Start a model whose new adapters are on all its layers or, if those of experts are
 * refused, on the others. */
static bool starts(struct unit_model *u, enum kind kind)
{
    const char *text = lay_out(u, kind, "all", 2), *names = strstr(text, ", such as ");

    if (names)
        u->plan.lora_target = u->plan.oft_target = names + strlen(", such as ");
    if (*text && !names)
        return false;
    start(u);
    return true;
}

/* New adapters change nothing, so that the loss is the one without them, and steps make it
 * lower.  The tolerance is that of weights that PiSSA takes apart. */
static void check_start(const json_t *one, enum kind kind)
{
    const json_t *losses = json_object_get(one, "losses");
    const char *name = json_string_value(json_object_get(one, "name"));
    char *dir = folder_of(one, NULL);
    struct unit_model u = open_folder(dir);
    double before;

    if (!starts(&u, kind)) {
        arena_free(u.arena);
        unit_dir_free(dir);
        return;
    }
    before = unit_loss(&u, &batch);
    unit_assert_near(name, unit_train(&u, &batch),
                     json_number_value(json_array_get(losses, 0)), 5e-5);
    for (int64_t step = 1; step <= 5; step++) {
        unit_step(&u, step);
        unit_train(&u, &batch);
    }
    if (unit_loss(&u, &batch) >= before)
        fail_msg("%s with %s learns nothing", name, keys[kind]);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

static void test_adapter_methods_start_as_the_model(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++)
        for (enum kind kind = DORA; kind < KINDS; kind++)
            check_start(json_array_get(cases, i), kind);
}

/* The layer of linear attention with a row for each of its four heads has four singular
 * values. */
static void test_adapter_methods_bound_the_rank_of_pissa(void **state)
{
    char *dir = folder_of(find_case("models", "qwen3_5"), NULL);
    struct unit_model u = open_folder(dir);

    (void)state;
    assert_string_equal(lay_out(&u, PISSA, "all", 4), "");
    assert_non_null(strstr(lay_out(&u, PISSA, "all", 5),
                           "lora_rank must be at most 4 with pissa_init, the singular "
                           "values of in_proj_b, not 5"));
    assert_string_equal(lay_out(&u, PISSA, "in_proj_qkv", 5), "");
    assert_string_equal(lay_out(&u, DORA, "all", 5), "");
    arena_free(u.arena);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adapter_methods_fit_all_but_experts),
        cmocka_unit_test(test_adapter_methods_start_as_the_model),
        cmocka_unit_test(test_adapter_methods_bound_the_rank_of_pissa),
    };

    return cmocka_run_group_tests(tests, architectures_setup, architectures_teardown);
}
