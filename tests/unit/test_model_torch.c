/* tests/unit/test_model_torch.c - the order of parameters is that of transformers and
 * PEFT, and moments have the layout of the files. */
#include "config.h"

#include "tests/unit/unit_architectures.h"

/* The norms of the golden file are in the order of named_parameters(). */
static void check_order(struct unit_model *u, const json_t *one)
{
    size_t count = model_trained_parameters(u->model), i = 0;
    json_t *norms = json_object_get(one, "norms"), *value;
    size_t *order = memory_alloc((count + 1) * sizeof(*order));
    const char *name;

    model_torch_order(u->model, order);
    assert_int_equal(count, json_object_size(norms));
    json_object_foreach(norms, name, value)
    {
        (void)value;
        assert_string_equal(model_parameter(u->model, order[i])->name, name);
        i++;
    }
    free(order);
}

/* Give each parameter its weights as a moment: it is stored like them in the files that
 * transformers or PEFT wrote. */
static void check_layout(struct unit_model *u, const char *dir, const char *stem)
{
    struct error err = { 0 };
    struct safetensors *set;

    set = safetensors_open(dir, stem, false, &err);
    unit_must(set != NULL, &err);
    for (size_t i = 0; i < model_parameters(u->model); i++) {
        const struct parameter *p = model_parameter(u->model, i);
        struct tensor_source shape = model_stored_shape(p);
        const struct stored_tensor *t = safetensors_find(set, p->name);
        float *moment;

        if (!p->trainable)
            continue;
        assert_non_null(t);
        assert_int_equal(shape.rank, t->rank);
        for (size_t j = 0; j < t->rank; j++)
            assert_int_equal(shape.shape[j], t->shape[j]);
        moment = memory_alloc(t->bytes);
        model_write_moment(u->model, MOMENT_2, p, p->weight.data);
        unit_must(model_read_stored_moment(u->model, MOMENT_2, p, moment, &err), &err);
        assert_memory_equal(moment, t->data, t->bytes);
        free(moment);
    }
    safetensors_close(set);
}

static void test_model_torch_agrees_with_transformers(void **state)
{
    const json_t *cases = json_object_get(golden, "models");

    (void)state;
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        char *dir = folder_of(one, NULL);
        struct unit_model u = open_folder(dir);

        start(&u);
        check_order(&u, one);
        /* no checkpoint of torch has a part of a tensor (TS515) */
        if (!u.config.architecture->experts.only_tensors)
            check_layout(&u, dir, "model");
        unit_model_stop(&u);
        unit_dir_free(dir);
    }
}

static void test_model_torch_agrees_with_peft(void **state)
{
    const json_t *cases = json_object_get(golden, "adapters");

    (void)state;
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        const char *base = json_string_value(json_object_get(one, "base"));
        char *dir = folder_of(find_case("models", base), NULL), *adapter = unit_dir_new();
        struct unit_model u = open_folder(dir);

        put_json(json_object_get(one, "config"), adapter, "adapter_config.json");
        put_tensors(one, adapter, "adapter_model.safetensors", NULL);
        u.plan.method = METHOD_LORA;
        u.plan.adapter_name_or_path = adapter;
        start(&u);
        check_order(&u, one);
        check_layout(&u, adapter, "adapter_model");
        unit_model_stop(&u);
        unit_dir_free(dir);
        unit_dir_free(adapter);
    }
}

/* Each module of a block that can be trained is in the order of its architecture exactly
 * once. */
static void test_model_torch_orders_list_every_module(void **state)
{
    const struct architecture *a;

    (void)state;
    for (size_t i = 0; (a = architecture_at(i)); i++)
        for (enum module module = 0; module < MODULES; module++) {
            size_t times = 0;

            for (size_t j = 0; a->order[j] != MODULES; j++)
                times += a->order[j] == module;
            if (a->paths[module] && module_in_block(module) && !module_is_buffer(module))
                assert_int_equal(times, 1);
            else
                assert_true(times == 0 || module_in_block(module));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_torch_agrees_with_transformers),
        cmocka_unit_test(test_model_torch_agrees_with_peft),
        cmocka_unit_test(test_model_torch_orders_list_every_module),
    };

    return cmocka_run_group_tests(tests, architectures_setup, architectures_teardown);
}
