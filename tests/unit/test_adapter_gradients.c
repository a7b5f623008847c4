/* tests/unit/test_adapter_gradients.c - checks every gradient of adapters of tiny models. */
#include "config.h"

#include "tests/unit/unit_gradients.h"

static void check_kind(const char *text, const char *target, double dropout, bool dora)
{
    char *dir = base_of(text);
    struct unit_model u = unit_model_text(text, unit_plan(dir));

    u.plan.method = METHOD_LORA;
    u.plan.lora_target = target;
    u.plan.lora_dropout = dropout;
    u.plan.use_dora = dora;
    check_all(&u);
    unit_dir_free(dir);
}

static void check_adapters(const char *text, const char *target, double dropout)
{
    check_kind(text, target, dropout, false);
}

static void check_decomposed(const char *text, const char *target, double dropout)
{
    check_kind(text, target, dropout, true);
}

static void test_adapter_gradients_dora(void **state)
{
    (void)state;
    check_decomposed(llama, "all", 0);
    check_decomposed(llama, "all", 0.25);
    check_decomposed(qwen2, "k_proj,down_proj", 0.25);
    check_decomposed(qwen2, "q_proj,v_proj,o_proj", 0);
    check_decomposed(gpt2, "all", 0);
    check_decomposed(gpt_neox_drops, "all", 0.25);
    check_decomposed(gpt_neox, "dense,dense_4h_to_h", 0);
}

static void check_rotated(const char *text, const char *target, int64_t size)
{
    char *dir = base_of(text);
    struct unit_model u = unit_model_text(text, unit_plan(dir));

    u.plan.method = METHOD_OFT;
    u.plan.oft_target = target;
    u.plan.oft_block_size = size;
    check_all(&u);
    unit_dir_free(dir);
}

/* Layers that rotate their input are next to some that do not, and have one block or
 * several. */
static void test_adapter_gradients_oft(void **state)
{
    (void)state;
    check_rotated(llama, "all", 4);
    check_rotated(qwen2, "k_proj,down_proj", 2);
    check_rotated(qwen2, "q_proj,v_proj,o_proj,up_proj", 64);
    check_rotated(gpt_neox, "all", 4);
    check_rotated(qwen2_moe, "q_proj,o_proj", 4);
    check_rotated(gpt_neox_drops, "dense,dense_4h_to_h", 8);
}

static void test_adapter_gradients_lora(void **state)
{
    (void)state;
    check_adapters(llama, "all", 0);
}

static void test_adapter_gradients_lora_of_other_architectures(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(others); i++) {
        check_adapters(others[i], "all", 0);
        check_adapters(others[i], "all", 0.3);
    }
    check_adapters(gpt2, "mlp.c_proj", 0);
    check_adapters(gpt_neox, "dense", 0);
}

static void test_adapter_gradients_lora_on_some_layers(void **state)
{
    (void)state;
    check_adapters(qwen2, "k_proj,up_proj", 0);
    check_adapters(qwen2, "down_proj", 0);
    check_adapters(qwen2, "q_proj,v_proj", 0);
}

static void test_adapter_gradients_lora_with_dropout(void **state)
{
    (void)state;
    check_adapters(llama, "all", 0.25);
    for (size_t i = 0; i < TS_COUNT(drops); i++)
        check_adapters(drops[i], "all", 0);
    check_adapters(gpt_neox_drops, "all", 0.25);
}

static void check_additional(const char *text, const char *target, const char *more)
{
    char *dir = base_of(text);
    struct unit_model u = unit_model_text(text, unit_plan(dir));

    u.plan.method = METHOD_LORA;
    u.plan.lora_target = target;
    u.plan.additional_target = more;
    check_all(&u);
    unit_dir_free(dir);
}

static void test_adapter_gradients_additional_target(void **state)
{
    (void)state;
    check_additional(qwen2, "q_proj,v_proj", "embed_tokens,k_proj,norm");
    check_additional(gpt2, "c_attn", "wpe,ln_2");
    check_additional(gpt2, "mlp.c_proj", "ln_f,lm_head");
    check_additional(gpt2_drops, "mlp.c_proj", "wte,wpe");
    check_additional(gpt_neox, "dense_h_to_4h", "embed_in,query_key_value");
    check_additional(phi, "fc1", "lm_head,input_layernorm");
    check_additional(gemma3, "o_proj", "post_attention_layernorm,k_norm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adapter_gradients_lora),
        cmocka_unit_test(test_adapter_gradients_dora),
        cmocka_unit_test(test_adapter_gradients_oft),
        cmocka_unit_test(test_adapter_gradients_lora_of_other_architectures),
        cmocka_unit_test(test_adapter_gradients_lora_on_some_layers),
        cmocka_unit_test(test_adapter_gradients_lora_with_dropout),
        cmocka_unit_test(test_adapter_gradients_additional_target),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
