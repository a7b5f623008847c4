/*
 * tests/unit/test_adapter_check.c - an adapter's files are compared with a model without
 * reading their values.
 */
#include "config.h"

#include "tests/unit/unit_model.h"
#include "tests/unit/unit_tokenizer.h"
#include "train/model/adapter_check.h"

#define LLAMA(layers, width, more)                                                    \
    "{\"model_type\": \"llama\", \"vocab_size\": 50, \"hidden_size\": " #width ","    \
    "\"intermediate_size\": 48, \"num_hidden_layers\": " #layers ","                  \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"initializer_range\": " \
    "0.2" more "}"

static const char llama[] = LLAMA(2, 32, ""),
                  tied[] = LLAMA(2, 32, ", \"tie_word_embeddings\": true"),
                  gpt2[] = "{\"model_type\": \"gpt2\", \"vocab_size\": 50, \"n_embd\": "
                           "32,\"n_layer\": 2, \"n_head\": 4, \"n_positions\": 64}";

/* Save a model that has been made. */
static void save(struct unit_model *u, const char *dir)
{
    struct error err = { 0 };

    unit_model_start(u, 8, 1, 1);
    unit_must(model_save(u->model, dir, &err), &err);
    unit_model_stop(u);
}

/* Make a folder with a new adapter of a random model. */
static char *adapter_of(const char *config, const char *target, const char *whole)
{
    char *base = unit_dir_new(), *dir = unit_dir_new();
    struct unit_model u = unit_model_text(config, unit_plan(base));

    unit_write_string(base, "tokenizer.json", "{}");
    u.plan.train_from_scratch = true;
    save(&u, base);
    u = unit_model_text(config, unit_plan(base));
    u.plan.method = METHOD_LORA;
    u.plan.lora_target = target;
    u.plan.additional_target = whole;
    save(&u, dir);
    unit_dir_free(base);
    return dir;
}

static void check(const char *dir, const char *config, const char *expected)
{
    struct unit_model u = unit_model_text(config, unit_plan("base"));
    struct error err = { 0 };
    bool ok = adapter_check(dir, &u.config, &err);

    if (ok != !expected || (expected && !strstr(err.text, expected)))
        fail_msg("%s: \"%s\", not \"%s\"", config, err.text, expected ? expected : "");
    if (expected && !strstr(err.text, dir))
        fail_msg("wrong error: %s", err.text);
    arena_free(u.arena);
}

/* Adapters are accepted by their own model. */
static void test_adapter_check_accepts_its_own_model(void **state)
{
    static const struct {
        const char *config, *target, *whole;
    } cases[] = {
        { llama, "all", NULL },
        { llama, "q_proj,down_proj", "embed_tokens,lm_head,norm" },
        { tied, "v_proj", "embed_tokens" },  /* its file has two copies of it */
        { gpt2, "c_attn", "mlp.c_fc,ln_f" }, /* stored transposed, and with biases */
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char *dir = adapter_of(cases[i].config, cases[i].target, cases[i].whole);

        check(dir, cases[i].config, NULL);
        unit_dir_free(dir);
    }
}

static void test_adapter_check_rejects_other_models(void **state)
{
    char *dir = adapter_of(llama, "q_proj,down_proj", NULL);

    (void)state;
    check(dir, LLAMA(3, 32, ""), "no tensor base_model.model.model.layers.2.self_attn");
    check(dir, LLAMA(1, 32, ""),
          "it has 8 tensors, but only 4 of them belong to this model");
    check(dir, LLAMA(2, 64, ""), "q_proj.lora_A.weight is [4, 32], not [4, 64]");
    check(dir, gpt2, "adapter_config.json: target_modules: there is no layer");
    unit_dir_free(dir);
    dir = adapter_of(llama, "q_proj", "norm");
    check(dir, LLAMA(2, 32, ", \"attention_bias\": true"), NULL); /* has its A and B */
    unit_dir_free(dir);
    dir = adapter_of(gpt2, "c_attn", "ln_f");
    check(dir, llama, "there is no layer");
    unit_dir_free(dir);
}

/* If only the configuration exists, only it is compared with the model. */
static void test_adapter_check_works_without_tensors(void **state)
{
    char *dir = unit_dir_new();

    (void)state;
    unit_write_string(dir, "adapter_config.json",
                      "{\"r\": 8, \"target_modules\": [\"q_proj\"]}");
    check(dir, llama, NULL);
    check(dir, gpt2, "there is no layer \"q_proj\"");
    unit_write_string(dir, "adapter_model.safetensors", "broken");
    check(dir, llama, "adapter_model.safetensors");
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adapter_check_accepts_its_own_model),
        cmocka_unit_test(test_adapter_check_rejects_other_models),
        cmocka_unit_test(test_adapter_check_works_without_tensors),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
