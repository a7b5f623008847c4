/* Tests of train/model/cross_layers.h: which layers of a model remain, and what is kept.
 * test_architectures.c compares the values with transformers'. */
#include "config.h"

#include "train/model/cross_layers.h"

#include "tests/unit/unit_architectures.h"
#include "train/model/lora_config.h"

static bool parse(const char *text, struct arena *arena, struct model_config *out,
                  struct error *err)
{
    return model_config_parse(text, strlen(text), "config.json", arena, out, err);
}

#define MLLAMA_WITH(layer)                                                               \
    "{\"model_type\": \"mllama\", \"text_config\": {\"cross_attention_layers\": [" layer \
    "]}}"

static void assert_module(const struct model_config *c, enum module module, size_t layer,
                          const char *expected)
{
    struct text name;

    text_init(&name, 0);
    architecture_name(c->architecture, &(struct module_place) { module, layer, 0 },
                      &name);
    assert_string_equal(name.data, expected);
    text_clear(&name);
}

/* The layers of cross-attention are kept, under the names of both versions, and the others
 * have the numbers that they have with them. */
static void test_cross_layers_are_kept(void **state)
{
    static const char text[] =
        "{\"model_type\": \"mllama\", \"text_config\": {\"dropout\": 0.25, "
        "\"model_type\": \"mllama_text_model\", \"tie_word_embeddings\": true%s}, "
        "\"torch_dtype\": \"bfloat16\", \"tie_word_embeddings\": true}";
    static const struct {
        const char *name;
        bool kept;
    } names[] = {
        { "language_model.model.layers.3.cross_attn.q_proj.weight", true },
        { "model.language_model.layers.38.cross_attn_attn_gate", true },
        { "language_model.model.layers.2.self_attn.q_proj.weight", false },
        { "model.language_model.layers.39.mlp.up_proj.weight", false },
        { "language_model.model.layers.43.mlp.up_proj.weight", false },
        { "language_model.model.layers.3", false },
        { "language_model.model.layers.x.mlp.up_proj.weight", false },
        { "language_model.model.norm.weight", false },
        { "vision_model.class_embedding", true },
        { "model.multi_modal_projector.bias", true },
    };
    struct arena *arena = arena_new();
    struct model_config c;
    struct error err = { 0 };

    (void)state;
    unit_must(parse(arena_printf(arena, text, ""), arena, &c, &err), &err);
    assert_int_equal(c.layers, 32);
    assert_int_equal(model_config_numbered(&c), 40);
    assert_int_equal(c.vocab_size, 128256);
    assert_int_equal(c.more_embeddings, 8);
    assert_int_equal(c.padding, 128004);
    assert_true(c.attention_dropout == 0.25 && c.rope.theta == 500000.0 && !c.tied);
    assert_module(&c, MODULE_Q, 2, "model.language_model.layers.2.self_attn.q_proj");
    assert_module(&c, MODULE_Q, 3, "model.language_model.layers.4.self_attn.q_proj");
    assert_module(&c, MODULE_DOWN, 31, "model.language_model.layers.39.mlp.down_proj");
    for (size_t i = 0; i < TS_COUNT(names); i++)
        if (model_config_keeps(&c, names[i].name) != names[i].kept)
            fail_msg("%s", names[i].name);
    unit_must(parse(arena_printf(arena, text, ", \"cross_attention_layers\": []"), arena,
                    &c, &err),
              &err);
    assert_int_equal(c.layers, 40);
    assert_false(model_config_keeps(&c, names[0].name));
    arena_free(arena);
}

/* freeze_trainable_layers counts all layers, as LLaMA-Factory does: the last two of four are
 * one of cross-attention, which is only kept, and one that is trained. */
static void test_cross_layers_count_in_freeze(void **state)
{
    char *dir = folder_of(find_case("models", "towers-mllama"), NULL);
    struct unit_model u = open_folder(dir);
    size_t trained = 0;

    (void)state;
    u.plan.method = METHOD_FREEZE;
    u.plan.freeze_trainable_layers = 2;
    start(&u);
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *p = model_parameter(u.model, i);

        assert_true(p->trainable ==
                    text_starts(p->name, "model.language_model.layers.2."));
        trained += p->trainable;
    }
    assert_int_equal(trained, 9);
    unit_model_stop(&u);
    unit_dir_free(dir);
}

/* PEFT must find no layer of cross-attention, whose MLP has the same names; and a list of
 * layers counts all of them. */
static void test_cross_layers_get_no_adapters(void **state)
{
    char *dir = folder_of(find_case("models", "towers-mllama"), NULL);
    struct unit_model u = open_folder(dir);
    char *saved = unit_dir_new(), *file = path_join(saved, "adapter_config.json");
    struct error err = { 0 };
    struct lora again;
    json_t *config;

    (void)state;
    u.plan.method = METHOD_LORA;
    u.plan.lora_target = "v_proj,up_proj";
    start(&u);
    unit_must(model_save(u.model, saved, &err), &err);
    config = json_read_file(file, (size_t)1 << 20, &err);
    unit_must(config != NULL, &err);
    assert_string_equal(
        json_string_value(json_object_get(config, "target_modules")),
        "model\\.language_model\\.layers\\.(?:0|2)\\.(?:self_attn\\.v_proj|"
        "mlp\\.up_proj)");
    json_object_set_new(config, "target_modules", json_pack("[s]", "v_proj"));
    json_object_set_new(config, "layers_to_transform", json_pack("[i, i]", 0, 2));
    put_json(config, saved, "adapter_config.json");
    unit_must(lora_config_read(saved, &u.config, &again, &err), &err);
    assert_true(again.adapted[MODULE_V] && !again.adapted[MODULE_UP]);
    json_object_set_new(config, "layers_to_transform", json_pack("[i, i]", 0, 1));
    put_json(config, saved, "adapter_config.json");
    assert_false(lora_config_read(saved, &u.config, &again, &err));
    json_decref(config);
    free(file);
    unit_model_stop(&u);
    unit_dir_free(saved);
    unit_dir_free(dir);
}

/* For a job with images they are layers like the others, so that nothing is left out. */
static void test_cross_layers_join(void **state)
{
    static const char text[] = "{\"model_type\": \"mllama\", \"text_config\": {}}";
    struct arena *arena = arena_new();
    struct model_config c;
    struct error err = { 0 };

    (void)state;
    unit_must(parse(text, arena, &c, &err), &err);
    for (int i = 0; i < 2; i++) { /* the second time changes nothing */
        unit_must(cross_layers_join(&c, arena, &err), &err);
        assert_int_equal(c.layers, 40);
        assert_int_equal(c.cross_layers, 8);
        assert_true(model_config_crosses(&c, 3) && !model_config_crosses(&c, 4));
        assert_true(model_config_has(&c, MODULE_CROSS_K, 38) &&
                    model_config_has(&c, MODULE_DOWN, 38) &&
                    !model_config_has(&c, MODULE_K, 38));
        assert_true(model_config_has(&c, MODULE_K, 39) &&
                    !model_config_has(&c, MODULE_CROSS_GATE, 39));
        assert_module(&c, MODULE_CROSS_V, 3,
                      "model.language_model.layers.3.cross_attn.v_proj");
        assert_module(&c, MODULE_CROSS_MLP_GATE, 38,
                      "model.language_model.layers.38.cross_attn_mlp_gate");
        assert_false(
            model_config_keeps(&c, "model.language_model.layers.3.cross_attn_attn_gate"));
        assert_true(model_config_keeps(&c, "model.vision_model.class_embedding"));
    }
    unit_must(parse(MLLAMA_WITH(""), arena, &c, &err), &err);
    unit_must(cross_layers_join(&c, arena, &err), &err);
    assert_true(c.layers == 40 && c.cross_layers == 0);
    unit_must(parse(MLLAMA_WITH("0, 3"), arena, &c, &err), &err);
    assert_false(cross_layers_join(&c, arena, &err));
    assert_non_null(strstr(err.text, "has layer 0, which is not supported with images"));
    arena_free(arena);
}

static void test_cross_layers_reject_other_lists(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { MLLAMA_WITH("40"),
          "cross_attention_layers must be a list of numbers from 0 to 39" },
        { MLLAMA_WITH("-1"),
          "cross_attention_layers must be a list of numbers from 0 to 39" },
        { MLLAMA_WITH("3.5"),
          "cross_attention_layers must be a list of numbers from 0 to 39" },
        { "{\"model_type\": \"mllama\", \"text_config\": {\"num_hidden_layers\": 2, "
          "\"cross_attention_layers\": [0, 1, 0]}}",
          "and leave at least one layer" },
        { "{\"model_type\": \"mllama\", \"text_config\": {\"cross_attention_layers\": 3}}",
          "cross_attention_layers must be a list" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct arena *arena = arena_new();
        struct model_config c;
        struct error err = { 0 };

        assert_false(parse(cases[i].text, arena, &c, &err));
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s", err.text);
        arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cross_layers_are_kept),
        cmocka_unit_test(test_cross_layers_count_in_freeze),
        cmocka_unit_test(test_cross_layers_get_no_adapters),
        cmocka_unit_test(test_cross_layers_join),
        cmocka_unit_test(test_cross_layers_reject_other_lists),
    };

    return cmocka_run_group_tests(tests, architectures_setup_all, architectures_teardown);
}
