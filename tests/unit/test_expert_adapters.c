/* tests/unit/test_expert_adapters.c - adapters on the parameters that have the matrices of
 * all experts: their names and files, and what they do not go together with. */
#include "config.h"

#include "tests/unit/unit_architectures.h"

#include "base/file.h"
#include "train/model/encoder_adapters.h"
#include "train/model/lora.h"
#include "train/model/shapes.h"

#define JOINED "experts.gate_up_proj,experts.down_proj"

/* Return a model of the golden file with adapters of experts. */
static struct unit_model open_case(const char *name, const char *parameters)
{
    char *dir = folder_of(find_case("models", name), NULL);
    struct unit_model u = open_folder(dir);

    u.plan.method = METHOD_LORA;
    u.plan.lora_target = "q_proj";
    u.plan.lora_target_parameters = parameters;
    u.plan.optimizer = optimizer_find("adamw_torch");
    unit_dir_free(dir);
    return u;
}

/* Return the error of its layout, or "". */
static const char *refusal(struct unit_model *u)
{
    static struct error err;
    struct shapes shapes;

    err = (struct error) { 0 };
    if (shapes_make(&u->plan, &u->config, 0, 0, u->arena, &shapes, &err))
        return "";
    assert_int_equal(err.code, ERROR_JOB);
    return err.text;
}

/* Compare the keys of adapter_config.json, without blanks. */
static void check_written(const char *name, const char *targets, const char *parameters,
                          const char *written)
{
    struct unit_model u = open_case(name, parameters);
    struct error err = { 0 };
    struct lora lora;
    struct text text;

    u.plan.lora_target = targets;
    unit_must(lora_read(&u.plan, &u.config, &lora, &err), &err);
    text_init(&text, 0);
    assert_true(lora_write_config(&lora, u.config.architecture, "base", &text));
    for (size_t i = text.len = 0; text.data[i]; i++)
        if (text.data[i] != ' ' && text.data[i] != '\n')
            text.data[text.len++] = text.data[i];
    text.data[text.len] = '\0';
    if (!strstr(text.data, written))
        fail_msg("%s: %s is not in %s", name, written, text.data);
    text_clear(&text);
    arena_free(u.arena);
}

/* Parameters of experts, and layers of an encoder, but none of the text model. */
static void test_expert_adapters_go_with_those_of_an_encoder(void **state)
{
    static const struct encoder_tensor qkv = { .path = "visual.blocks.0.attn.qkv" };
    static const struct encoder_list encoder = {
        .list = &qkv, .count = 1, .blocks = "visual.blocks.", .run = 1
    };
    struct unit_model u = open_case("gpt_oss", "experts.down_proj");
    struct architecture a = *u.config.architecture;
    struct error err = { 0 };
    struct lora lora;
    struct text text;

    (void)state;
    a.has_towers = true;
    u.plan.lora_target = "";
    unit_must(lora_read(&u.plan, &u.config, &lora, &err), &err);
    lora.encoder_list = &encoder;
    encoder_adapters_all(&encoder, &lora);
    text_init(&text, 0);
    assert_true(lora_write_config(&lora, &a, "base", &text));
    if (!strstr(text.data, "\"target_modules\": "
                           "\"visual\\\\.blocks\\\\.(?:0)\\\\.attn\\\\.qkv\""))
        fail_msg("%s", text.data);
    text_clear(&text);
    arena_free(u.arena);
}

static void test_expert_adapters_are_named_as_in_peft(void **state)
{
    (void)state;
    check_written("gpt_oss", "q_proj", JOINED,
                  "\"target_parameters\":[\"mlp.experts.gate_up_proj\","
                  "\"mlp.experts.down_proj\"]");
    check_written("gpt_oss", "q_proj", JOINED, "\"target_modules\":[\"q_proj\"]");
    check_written("granitemoe", "q_proj", "down_proj",
                  "\"target_parameters\":[\"block_sparse_moe.experts.down_proj\"]");
    /* an empty list, not null: PEFT then adapts some by default */
    check_written("gpt_oss", "", "experts.down_proj", "\"target_modules\":[]");
    /* layers of one expert do not exist next to them */
    check_written("mixtral", "w1,q_proj", JOINED, "\"target_modules\":[\"q_proj\"]");
    check_written("gpt_oss", "q_proj", "1.mlp.experts.down_proj,2.mlp.experts.down_proj",
                  "\"target_parameters\":[\"1.mlp.experts.down_proj\","
                  "\"2.mlp.experts.down_proj\"]");
}

/* Adapters of a block have the names that are free there. */
static void test_expert_adapters_of_one_block(void **state)
{
    struct unit_model u = open_case(
        "gpt_oss", "model.layers.1.mlp.experts.gate_up_proj,2.mlp.experts.gate_up_proj,"
                   "2.mlp.experts.down_proj");
    struct error err = { 0 };
    struct shapes shapes;
    size_t found = 0, side;

    (void)state;
    unit_must(shapes_make(&u.plan, &u.config, 0, 0, u.arena, &shapes, &err), &err);
    for (size_t i = 0; i < shapes.count; i++) {
        const struct shape_parameter *p = &shapes.parameters[i];
        const bool down = p->module == MODULE_EXPERT_DOWN, is_a = p->part == PART_LORA_A;

        if (p->part < PART_LORA_A || !module_is_of_experts(p->module))
            continue;
        assert_true(p->layer > 0 && (p->layer == 2 || !down));
        assert_int_equal(strstr(p->name, ".experts.base_layer.") != NULL,
                         p->layer == 2 && !down);
        side = is_a == down ? u.config.expert_size : u.config.hidden_size;
        if (!is_a && !down) /* gate and up */
            side = 2 * u.config.expert_size;
        assert_int_equal(p->rows * p->cols, u.config.experts * 4 * side);
        found++;
    }
    assert_int_equal(found, 6);
    arena_free(u.arena);
}

/* B starts as zero, so nothing is added: the loss is that of the base, also in 4 bits. */
static void test_expert_adapters_start_without_effect(void **state)
{
    (void)state;
    for (int bits = 0; bits <= 4; bits += 4) {
        double losses[2];

        for (size_t i = 0; i < 2; i++) {
            char *dir = folder_of(find_case("models", "gpt_oss"), NULL);
            struct unit_model u = open_folder(dir);

            u.plan.method = METHOD_LORA;
            u.plan.lora_target = "q_proj";
            u.plan.quantization_bit = bits;
            u.plan.lora_target_parameters = i ? JOINED : NULL;
            start(&u);
            losses[i] = unit_loss(&u, &batch);
            unit_model_stop(&u);
            unit_dir_free(dir);
        }
        assert_true(losses[0] == losses[1]);
    }
}

static void test_expert_adapters_refuse(void **state)
{
    static const struct {
        const char *model, *parameters, *message;
    } cases[] = {
        { "gpt_oss", "experts.gate_proj",
          "lora_target_parameters: there is no parameter \"experts.gate_proj\"; there are "
          "mlp.experts.gate_up_proj, mlp.experts.down_proj" },
        { "gpt_oss", "7.mlp.experts.down_proj", "there is no parameter" },
        { "gpt_oss", "gate_up_proj_bias", "there is no parameter" },
        { "dbrx", "ffn.experts.mlp.w1",
          "lora_target_parameters: a model of model_type dbrx has no" },
        { "llama", "mlp.experts.down_proj", "model_type llama has no" },
        { "gemma4", JOINED, "model_type gemma4_text has no" },
        { "deepseek", JOINED, "model_type deepseek has no" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct unit_model u = open_case(cases[i].model, cases[i].parameters);

        u.plan.lora_target = "all";
        if (!strstr(refusal(&u), cases[i].message))
            fail_msg("%s: %s", cases[i].model, refusal(&u));
        arena_free(u.arena);
    }
}

static void test_expert_adapters_refuse_other_settings(void **state)
{
    struct unit_model u = open_case("gpt_oss", JOINED);

    (void)state;
    assert_string_equal(refusal(&u), "");
    u.plan.lora_dropout = 0.1;
    assert_non_null(strstr(refusal(&u),
                           "lora_target_parameters requires lora_dropout: 0, "
                           "not 0.1"));
    u.plan.lora_dropout = 0;
    u.plan.use_dora = true;
    assert_non_null(strstr(refusal(&u), "use_dora: adapters of experts are not supported "
                                        "with it; remove lora_target_parameters"));
    u.plan.use_dora = false;
    u.plan.pissa_init = true;
    assert_non_null(strstr(refusal(&u), "remove lora_target_parameters"));
    u.plan.pissa_init = false;
    u.plan.optimizer = optimizer_find("adafactor");
    assert_non_null(strstr(refusal(&u), "lora_target_parameters: an optimizer"));
    u.plan.optimizer = optimizer_find("adamw_torch");
    u.plan.method = METHOD_OFT;
    u.plan.oft_block_size = 4;
    assert_non_null(strstr(refusal(&u), "requires finetuning_type: lora"));
    arena_free(u.arena);
}

/* An adapter_config.json of PEFT. */
static void check_read(const char *rest, const char *message)
{
    struct unit_model u = open_case("gpt_oss", NULL);
    char *dir = unit_dir_new(), *name = path_join(dir, "adapter_config.json");
    struct error err = { 0 };
    struct lora lora;
    struct text text;
    bool ok;

    text_init(&text, 0);
    text_addf(&text, "{\"r\": 8, \"lora_alpha\": 16, \"target_modules\": [], %s}", rest);
    unit_must(file_replace(name, text.data, text.len, 0600, &err), &err);
    u.plan.adapter_name_or_path = dir;
    ok = lora_read(&u.plan, &u.config, &lora, &err);
    if (ok != !message || (message && !strstr(err.text, message)))
        fail_msg("%s: %s", rest, err.text);
    if (ok)
        assert_true(lora.joined && lora.rank == 4 && lora.adapted[MODULE_EXPERT_DOWN] &&
                    !lora.adapted[MODULE_EXPERT_GATE]);
    text_clear(&text);
    free(name);
    unit_dir_free(dir);
    arena_free(u.arena);
}

static void test_expert_adapters_are_read_as_peft_writes_them(void **state)
{
    (void)state;
    check_read("\"target_parameters\": [\"experts.down_proj\"], \"rank_pattern\": "
               "{\"experts.down_proj\": 4}",
               NULL);
    check_read("\"target_parameters\": [\"q_proj.weight\"]",
               "target_parameters: there is no parameter \"q_proj.weight\"");
    check_read("\"target_parameters\": \"experts.down_proj\"", "must be a list of names");
    check_read("\"target_parameters\": [\"experts.down_proj\"], \"lora_dropout\": 0.1",
               "lora_dropout must be 0 with target_parameters");
    check_read(
        "\"target_parameters\": [\"experts.gate_up_proj\", \"experts.down_proj\"], "
        "\"rank_pattern\": {\".*\\\\.gate_up_proj\": 16}",
        "rank_pattern gives");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expert_adapters_are_named_as_in_peft),
        cmocka_unit_test(test_expert_adapters_go_with_those_of_an_encoder),
        cmocka_unit_test(test_expert_adapters_of_one_block),
        cmocka_unit_test(test_expert_adapters_start_without_effect),
        cmocka_unit_test(test_expert_adapters_refuse),
        cmocka_unit_test(test_expert_adapters_refuse_other_settings),
        cmocka_unit_test(test_expert_adapters_are_read_as_peft_writes_them),
    };

    return cmocka_run_group_tests(tests, architectures_setup, architectures_teardown);
}
