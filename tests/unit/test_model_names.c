/* tests/unit/test_model_names.c - the architectures of published models by name. */
#include "config.h"

#include "tests/unit/unit.h"

#include "base/size.h"
#include "train/model/architecture.h"
#include "train/model/model_names.h"

static void test_names_of_families(void **state)
{
    static const struct {
        const char *name, *type;
    } cases[] = {
        { "Qwen/Qwen3-4B", "qwen3" },
        { "unsloth/Qwen3-4B-unsloth-bnb-4bit", "qwen3" },
        { "Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3_moe" },
        { "me/qwen3-8b-a100-bs64", "qwen3" },
        { "me/qwen3-4b-lora-a1b2", "qwen3" },
        { "Qwen/Qwen1.5-MoE-A2.7B", "qwen2_moe" },
        { "Qwen/Qwen3-VL-4B-Instruct", "qwen3_vl" },
        { "Qwen/Qwen3-VL-30B-A3B-Thinking", "qwen3_vl_moe" },
        { "nvidia/audio-flamingo-3-hf", "audioflamingo3" },
        { "nvidia/music-flamingo-2601-hf", "musicflamingo" },
        { "Qwen/Qwen2.5-VL-3B-Instruct", "qwen2_5_vl" },
        { "CohereLabs/command-a-vision-07-2025", "cohere2_vision" },
        { "llava-hf/llava-onevision-qwen2-7b-ov-hf", "llava_onevision" },
        { "Qwen/Qwen2.5-Coder-7B", "qwen2" },
        { "deepseek-ai/DeepSeek-R1", "deepseek_v3" },
        { "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen2" },
        { "deepseek-ai/deepseek-coder-6.7b-base", "llama" },
        { "deepseek-ai/DeepSeek-Coder-V2-Lite-Base", "deepseek_v2" },
        { "google/gemma-3-1b-it", "gemma3_text" },
        { "google/gemma-3-4b-it", "gemma3" },
        { "google/gemma-2-2b", "gemma2" },
        { "google/gemma-2b", "gemma" },
        { "ibm-granite/granite-3.1-1b-a400m-base", "granitemoe" },
        { "ibm-granite/granite-3.1-2b-base", "granite" },
        { "mistralai/Mistral-Small-24B-Base-2501", "mistral" },
        { "mistralai/Mistral-Small-3.1-24B-Base-2503", "mistral3" },
        { "mistralai/Mistral-Small-4-119B-2603", "mistral3" },
        { "meta-llama/Llama-3.2-1B", "llama" },
        { "meta-llama/Llama-3.2-11B-Vision", "mllama" },
        { "meta-llama/Llama-4-Scout-17B-16E", "llama4" },
        { "zai-org/glm-4-9b-chat", "chatglm" },
        { "zai-org/glm-4-9b-chat-hf", "glm" },
        { "zai-org/GLM-4-9B-0414", "glm4" },
        { "openai-community/gpt2", "gpt2" },
        { "OpenMOSS-Team/MOSS-VL-Instruct-0708", "moss_vl" },
        { "someone/gpt2-something", NULL },
        { "someone/my-own-model", NULL },
        { "tiiuae/falcon-7b-instruct", "falcon" },
        { "tiiuae/Falcon3-7B-Base", "llama" },
        { "/models/Qwen/Qwen3-4B", NULL },
        { "./Qwen3-4B", NULL },
        { "a/b/Qwen3-4B", NULL },
        { "Qwen3-4B", NULL },
        { "Qwen/", NULL },
        { "", NULL },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const char *type = model_name_type(cases[i].name);

        if (!cases[i].type)
            assert_null(type);
        else if (!type || strcmp(type, cases[i].type) != 0)
            fail_msg("%s: %s", cases[i].name, type ? type : "unknown");
    }
}

static void test_unsupported_names(void **state)
{
    (void)state;
    assert_null(model_name_unsupported("Qwen/Qwen3-4B"));
    assert_null(model_name_unsupported("Qwen/Qwen3.5-0.8B"));
    assert_null(model_name_unsupported("Qwen/Qwen3.5-27B"));
    assert_null(model_name_unsupported("Qwen/Qwen3.5-35B-A3B"));
    assert_null(model_name_unsupported("zai-org/GLM-4.5-Air"));
    assert_null(model_name_unsupported("baidu/ERNIE-4.5-21B-A3B-PT"));
    assert_null(model_name_unsupported("microsoft/Phi-3.5-MoE-instruct"));
    assert_null(model_name_unsupported("zai-org/GLM-4.7-Flash"));
    assert_null(model_name_unsupported("deepseek-ai/deepseek-moe-16b-base"));
    assert_null(model_name_unsupported("deepseek-ai/DeepSeek-V2-Lite-Chat"));
    assert_null(model_name_unsupported("deepseek-ai/DeepSeek-V3-0324"));
    assert_null(model_name_unsupported("moonshotai/Moonlight-16B-A3B"));
    assert_null(model_name_unsupported("moonshotai/Kimi-K2-Instruct"));
    assert_null(model_name_unsupported("tencent/Youtu-LLM-2B"));
    assert_string_equal(model_name_unsupported("deepseek-ai/DeepSeek-V3.2-Exp"),
                        "deepseek_v32");
    assert_string_equal(model_name_unsupported("nvidia/DeepSeek-V4-Flash-NVFP4"),
                        "deepseek_v4");
    assert_null(model_name_unsupported("openai/gpt-oss-20b"));
    assert_null(model_name_unsupported("tencent/Hunyuan-A13B-Instruct"));
    assert_null(model_name_unsupported("MiniMaxAI/MiniMax-M2"));
    assert_null(model_name_unsupported("LGAI-EXAONE/EXAONE-3.5-2.4B-Instruct"));
    assert_null(model_name_unsupported("LGAI-EXAONE/EXAONE-Deep-7.8B"));
    assert_null(model_name_unsupported("Qwen/Qwen-7B"));
    assert_null(model_name_unsupported("bigscience/bloomz-560m"));
    assert_null(model_name_unsupported("Qwen/Qwen3-VL-30B-A3B-Instruct"));
    assert_null(model_name_unsupported("Qwen/Qwen3-Next-80B-A3B-Instruct"));
    assert_null(model_name_unsupported("Qwen/Qwen3-Coder-Next"));
    assert_null(model_name_unsupported("meta-llama/Llama-4-Scout-17B-16E-Instruct"));
    assert_null(model_name_unsupported("facebook/MobileLLM-R1-950M"));
    assert_null(model_name_unsupported("google/gemma-3-4b-it"));
    assert_null(model_name_unsupported("Qwen/Qwen2.5-VL-7B-Instruct"));
    assert_string_equal(model_name_unsupported("google/gemma-3n-E2B-it"), "gemma3n");
    assert_null(model_name_unsupported("tiiuae/Falcon-H1-1.5B-Deep-Base"));
    assert_null(model_name_unsupported("ibm-granite/granite-4.0-h-tiny"));
    assert_null(model_name_unsupported("ibm-granite/granite-4.0-micro"));
    assert_null(model_name_unsupported("LiquidAI/LFM2-1.2B"));
    assert_null(model_name_unsupported("LiquidAI/LFM2-2.6B-Exp"));
    assert_null(model_name_unsupported("LiquidAI/LFM2-8B-A1B"));
    assert_null(model_name_unsupported("LiquidAI/LFM2-VL-450M"));
    assert_null(model_name_unsupported("LiquidAI/LFM2.5-1.2B-Instruct"));
    assert_string_equal(model_name_unsupported("LiquidAI/LFM2-Audio-1.5B"), "lfm2_audio");
    assert_null(model_name_unsupported("google/gemma-4-31B"));
    assert_null(model_name_unsupported("google/gemma-4-26B-A4B"));
    assert_null(model_name_unsupported("google/gemma-4-26B-A4B-it"));
    assert_null(model_name_unsupported("unsloth/gemma-4-12B-it"));
    assert_null(model_name_unsupported("google/gemma-4-E2B-it"));
    assert_null(model_name_unsupported("unsloth/gemma-4-E4B"));
    assert_null(model_name_unsupported("google/gemma-3-4b-it"));
    assert_null(model_name_unsupported("databricks/dbrx-instruct"));
    assert_null(model_name_unsupported("LnL-AI/dbrx-base-converted-v2"));
    assert_string_equal(model_name_type("LnL-AI/dbrx-base-converted-v2"),
                        "dbrx_converted");
    assert_null(model_name_unsupported("swiss-ai/Apertus-8B-Instruct-2509"));
    assert_null(model_name_unsupported("someone/my-own-model"));
    assert_string_equal(model_name_unsupported("OpenMOSS-Team/MOSS-VL-Instruct-0708"),
                        "moss_vl");
    assert_string_equal(model_name_unsupported("ai21labs/Jamba-v0.1"), "jamba");
}

static void test_formats_in_names(void **state)
{
    (void)state;
    assert_string_equal(model_name_quantized("a/Llama-3.gguf"), "GGUF");
    assert_null(model_name_quantized("Qwen/Qwen3-8B-FP8"));
    assert_null(model_name_quantized("nvidia/Qwen3-Next-80B-A3B-NVFP4"));
    assert_string_equal(model_name_quantized("a/Qwen3-4B-mlx-4bit"), "MLX");
    assert_null(model_name_quantized("Qwen/Qwen2-7B-Instruct-GPTQ-Int4"));
    assert_null(model_name_quantized("Qwen/Qwen2.5-7B-Instruct-AWQ"));
    assert_null(model_name_quantized("a/mlxy-7b"));
    assert_null(model_name_quantized("models-GGUF"));
    assert_null(model_name_quantized("unsloth/Qwen3-4B-bnb-4bit"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_families),
        cmocka_unit_test(test_unsupported_names),
        cmocka_unit_test(test_formats_in_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
