/* train/model/model_names.c - the table of published models. */
#include "config.h"

#include "train/model/model_names.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

#include "base/size.h"
#include "train/model/architecture.h"
#include "train/model/multimodal.h"

#define NAME_BYTES_MAX 96          /* the limit of the hub */
#define ACTIVE         "-a[0-9]*b" /* in a pattern: has_active_size, too */

/* Patterns of names without their owner, in lower case; the first that matches counts.
 * Sources: config.json of the models; the names that LLaMA-Factory, Axolotl and torchtune
 * list. */
static const struct name_row {
    const char *pattern, *type;
} name_rows[] = {
    { "afm-4.5b*", "arcee" },
    { "ai21-jamba-*", "jamba" },
    { "apertus-*", "apertus" },
    { "audio-flamingo-3*", "audioflamingo3" },
    { "aya-23-*", "cohere" },
    { "aya-expanse-*", "cohere" },
    { "aya-vision-*", "aya_vision" },
    { "bloom-*", "bloom" },
    { "bloomz-*", "bloom" },
    { "breeze-7b-*", "mistral" },
    { "btlm-3b-*", "btlm" },
    { "c4ai-command-a-*", "cohere2" },
    { "c4ai-command-r7b-*", "cohere2" },
    { "c4ai-command-r-*", "cohere" },
    { "cerebras-gpt-*", "gpt2" },
    { "chatglm*", "chatglm" },
    { "chinese-llama-2-*", "llama" },
    { "chinese-alpaca-2-*", "llama" },
    { "codegemma-*", "gemma" },
    { "codellama-*", "llama" },
    { "codeqwen1.5-*", "qwen2" },
    { "codestral-22b-*", "mistral" },
    { "cogito-v1-preview-llama-*", "llama" },
    { "cogito-v1-preview-qwen-*", "qwen2" },
    { "command-a-vision-*", "cohere2_vision" },
    { "command-a-*", "cohere2" },
    { "dbrx-*-converted*", "dbrx_converted" },
    { "dbrx-*", "dbrx" },
    { "deepseek-r1-distill-qwen-*", "qwen2" },
    { "deepseek-r1-distill-llama-*", "llama" },
    { "deepseek-r1-0528-qwen3-*", "qwen3" },
    { "deepseek-r1*", "deepseek_v3" },
    { "deepseek-v4*", "deepseek_v4" },
    { "deepseek-v3.2*", "deepseek_v32" },
    { "deepseek-v3*", "deepseek_v3" },
    { "deepseek-v2*", "deepseek_v2" },
    { "deepseek-coder-v2-*", "deepseek_v2" },
    { "deepseek-moe-*", "deepseek" },
    { "deepseek-llm-*", "llama" },
    { "deepseek-math-7b-*", "llama" },
    { "deepseek-coder-*", "llama" },
    { "devstral-small-2-*", "mistral3" },
    { "devstral-small-250*", "mistral" },
    { "distilgpt2", "gpt2" },
    { "dolly-v2-*", "gpt_neox" },
    { "dots.ocr", "dots_ocr" },
    { "ernie-4.5-vl-*", "ernie4_5_vl_moe" },
    { "ernie-4.5-*-a[0-9]*b*", "ernie4_5_moe" },
    { "ernie-4.5-0.3b*", "ernie4_5" },
    { "exaone-4.0-*", "exaone4" },
    { "exaone-3*", "exaone" },
    { "exaone-deep-*", "exaone" },
    { "falcon-h1-*", "falcon_h1" },
    { "falcon3-mamba-*", "falcon_mamba" },
    { "falcon-mamba-*", "falcon_mamba" },
    { "falcon3-*", "llama" },
    { "falcon-[0-9]*b*", "falcon" },
    { "falcon-rw-*", "falcon" },
    { "flan-t5-*", "t5" },
    { "functiongemma-*", "gemma3_text" },
    { "gemma-2b*", "gemma" },
    { "gemma-7b*", "gemma" },
    { "gemma-1.1-*", "gemma" },
    { "gemma-2-*", "gemma2" },
    { "gemma-3-270m*", "gemma3_text" },
    { "gemma-3-1b-*", "gemma3_text" },
    { "gemma-3n-*", "gemma3n" },
    { "gemma-3-*", "gemma3" },
    { "gemma-4-12b*", "gemma4_unified" },
    { "gemma-4-*", "gemma4" },
    { "glm-4-9b*-hf", "glm" },
    { "glm-4-*-0414", "glm4" },
    { "glm-z1-*-0414", "glm4" },
    { "glm-4-9b*", "chatglm" },
    { "glm-4.1v-*", "glm4v" },
    { "glm-4.5v*", "glm4v_moe" },
    { "glm-4.6v-flash*", "glm4v" },
    { "glm-4.6v*", "glm4v_moe" },
    { "glm-4.7-flash*", "glm4_moe_lite" },
    { "glm-4.[567]*", "glm4_moe" },
    { "glm-ocr*", "glm_ocr" },
    { "gpt2", "gpt2" },
    { "gpt2-medium", "gpt2" },
    { "gpt2-large", "gpt2" },
    { "gpt2-xl", "gpt2" },
    { "gpt-j-6b*", "gptj" },
    { "gpt-neo-*", "gpt_neo" },
    { "gpt-neox-20b", "gpt_neox" },
    { "gpt-oss-*", "gpt_oss" },
    { "granite-3.[0-9]-*-a[48]00m-*", "granitemoe" },
    { "granite-vision-*", "llava_next" },
    { "granite-4.0-*", "granitemoehybrid" },
    { "granite-3.[0-9]-*b-*", "granite" },
    { "granite-20b-code-*", "gpt_bigcode" },
    { "granite-34b-code-*", "gpt_bigcode" },
    { "granite-3b-code-*", "llama" },
    { "granite-8b-code-*", "llama" },
    { "granite-7b-*", "llama" },
    { "hunyuan-a13b-*", "hunyuan_v1_moe" },
    { "hunyuan-*b-instruct*", "hunyuan_v1_dense" },
    { "hunyuan-*b-pretrain*", "hunyuan_v1_dense" },
    { "hunyuan-mt-7b*", "hunyuan_v1_dense" },
    { "hy-mt1.5-*", "hunyuan_v1_dense" },
    { "hy-mt2-*", "hunyuan_v1_dense" },
    { "index-1.9b*", "index" },
    { "intern-s1*", "interns1" },
    { "internlm3-*", "internlm3" },
    { "internlm2_5-*", "internlm2" },
    { "internlm2-*", "internlm2" },
    { "internlm-*", "internlm" },
    { "internvl*-hf", "internvl" },
    { "jamba-*", "jamba" },
    { "keye-vl-*", "Keye" },
    { "kimi-dev-72b*", "qwen2" },
    { "kimi-k2-*", "kimi_k2" },
    { "kimi-vl-*", "kimi_vl" },
    { "kimi-linear-*", "kimi_linear" },
    { "lfm2-audio-*", "lfm2_audio" },
    { "lfm2.5-audio-*", "lfm2_audio" },
    { "lfm2-*-a[0-9]*b*", "lfm2_moe" },
    { "lfm2.5-*-a[0-9]*b*", "lfm2_moe" },
    { "lfm2-vl-*", "lfm2_vl" },
    { "lfm2.5-vl-*", "lfm2_vl" },
    { "lfm2-*", "lfm2" },
    { "lfm2.5-*", "lfm2" },
    { "llama-4-*", "llama4" },
    { "llama-3.2-*-vision*", "mllama" },
    { "llama-3_[13]-nemotron-*", "nemotron-nas" },
    { "llama-2-*", "llama" },
    { "llama-3*", "llama" },
    { "llama3-llava-*", "llava_next" },
    { "llama3*", "llama" },
    { "llama-7b", "llama" },
    { "llama-13b", "llama" },
    { "llama-30b", "llama" },
    { "llama-65b", "llama" },
    { "llava-1.5-*", "llava" },
    { "llava-v1.6-*", "llava_next" },
    { "llava-next-video-*", "llava_next_video" },
    { "llava-next-*", "llava_next" },
    { "llava-onevision-*", "llava_onevision" },
    { "magistral-small-2509*", "mistral3" },
    { "magistral-small-250*", "mistral" },
    { "mamba-codestral-*", "mamba2" },
    { "mathstral-*", "mistral" },
    { "medgemma-27b-text-*", "gemma3_text" },
    { "medgemma-*", "gemma3" },
    { "meta-llama-3*", "llama" },
    { "mimo-vl-*", "qwen2_5_vl" },
    { "mimo-v2-*", "mimo_v2_flash" },
    { "mimo-7b-*", "mimo" },
    { "minicpm-o-*", "minicpmo" },
    { "minicpm-v-*", "minicpmv" },
    { "minicpm3-*", "minicpm3" },
    { "minicpm4*", "minicpm" },
    { "minicpm-[12]b*", "minicpm" },
    { "minimax-text-01*", "minimax" },
    { "minimax-m1-*", "minimax" },
    { "minimax-m2*", "minimax_m2" },
    { "ministral-3-*", "mistral3" },
    { "ministral-8b-*", "mistral" },
    { "minitron-*", "nemotron" },
    { "mistral-nemo-minitron-*", "mistral" },
    { "mistral-small-3.[12]-*", "mistral3" },
    { "mistral-small-4-*", "mistral3" },
    { "mistral-small-*", "mistral" },
    { "mistral-large-instruct-24*", "mistral" },
    { "mistral-nemo-*", "mistral" },
    { "mistral-7b-*", "mistral" },
    { "mixtral-*", "mixtral" },
    { "mobilellm-r1-*", "llama4_text" },
    { "moonlight-*", "deepseek_v3" },
    { "moss-vl-*", "moss_vl" },
    { "mpt-*", "mpt" },
    { "music-flamingo-*", "musicflamingo" },
    { "nemotron-mini-4b-*", "nemotron" },
    { "nemotron-4-*", "nemotron" },
    { "nemotron-h-*", "nemotron_h" },
    { "nvidia-nemotron-nano-*", "nemotron_h" },
    { "nvidia-nemotron-3-nano-*", "nemotron_h" },
    { "olmo-2-*", "olmo2" },
    { "olmo-3*", "olmo3" },
    { "olmo-*-hf", "olmo" },
    { "olmoe-*", "olmoe" },
    { "open_llama_*", "llama" },
    { "openchat-3.5*", "mistral" },
    { "openchat-3.6-*", "llama" },
    { "opencoder-*", "llama" },
    { "opt-*", "opt" },
    { "paddleocr-vl*", "paddleocr_vl" },
    { "paligemma*", "paligemma" },
    { "phi-1*", "phi" },
    { "phi-2", "phi" },
    { "phi-3.5-moe-*", "phimoe" },
    { "phi-3-small-*", "phi3small" },
    { "phi-3-vision-*", "phi3_v" },
    { "phi-3.5-vision-*", "phi3_v" },
    { "phi-4-multimodal-*", "phi4mm" },
    { "phi-3*", "phi3" },
    { "phi-4*", "phi3" },
    { "pixtral-12b*", "llava" },
    { "pythia-*", "gpt_neox" },
    { "qvq-*", "qwen2_vl" },
    { "qwen1.5-moe-*", "qwen2_moe" },
    { "qwen1.5-*", "qwen2" },
    { "qwen2-57b-a14b*", "qwen2_moe" },
    { "qwen2-audio-*", "qwen2_audio" },
    { "qwen2-vl-*", "qwen2_vl" },
    { "qwen2-*", "qwen2" },
    { "qwen2.5-omni-*", "qwen2_5_omni" },
    { "qwen2.5-vl-*", "qwen2_5_vl" },
    { "qwen2.5-*", "qwen2" },
    { "qwen3.5-*-a[0-9]*b*", "qwen3_5_moe" },
    { "qwen3.5-*", "qwen3_5" },
    { "qwen3-next-*", "qwen3_next" },
    { "qwen3-coder-next*", "qwen3_next" },
    { "qwen3-omni-*", "qwen3_omni_moe" },
    { "qwen3-vl-*-a[0-9]*b*", "qwen3_vl_moe" },
    { "qwen3-vl-*", "qwen3_vl" },
    { "qwen3-*-a[0-9]*b*", "qwen3_moe" },
    { "qwen3-*", "qwen3" },
    { "qwen-[0-9]*b*", "qwen" },
    { "qwq-*", "qwen2" },
    { "recurrentgemma-*", "recurrent_gemma" },
    { "redpajama-incite-*", "gpt_neox" },
    { "seed-coder-*", "llama" },
    { "seed-oss-*", "seed_oss" },
    { "skywork-reward-v2-qwen3-*", "qwen3" },
    { "smollm3-*", "smollm3" },
    { "smollm2-*", "llama" },
    { "smollm-*", "llama" },
    { "smolvlm2-*", "smolvlm" },
    { "smolvlm-*", "idefics3" },
    { "solar-10.7b-*", "llama" },
    { "stable-code-3b", "stablelm" },
    { "stablelm-base-alpha-*", "gpt_neox" },
    { "stablelm-tuned-alpha-*", "gpt_neox" },
    { "stablelm-*", "stablelm" },
    { "starcoder", "gpt_bigcode" },
    { "starcoder2-*", "starcoder2" },
    { "starcoderbase*", "gpt_bigcode" },
    { "telechat2*", "telechat" },
    { "tiny_starcoder_py", "gpt_bigcode" },
    { "tinyllama*", "llama" },
    { "trinity-*", "afmoe" },
    { "vibethinker-1.5b*", "qwen2" },
    { "vicuna-*", "llama" },
    { "video-llava-*", "video_llava" },
    { "voxtral-*", "voxtral" },
    { "whisper-*", "whisper" },
    { "xgen-7b-*", "llama" },
    { "xuanyuan*", "llama" },
    { "yi-vl-*", "llava" },
    { "yi-*", "llama" },
    { "youtu-llm-*", "youtu_llm" },
    { "youtu-vl-*", "youtu_vl" },
    { "yuan2-*", "yuan" },
    { "zephyr-orpo-*", "mixtral" },
    { "zephyr-7b-*", "mistral" },
};

/* Words for a format of quantized weights that is not supported, between the signs - _ . of
 * a name. */
static const struct format_row {
    const char *word, *format;
} format_rows[] = {
    { "gguf", "GGUF" },
    { "exl2", "EXL2" },
    { "mlx", "MLX" },
    { "aqlm", "AQLM" },
};

/* Copy the part after the owner to `out`, in lower case.  Return false if this is not
 * OWNER/NAME. */
static bool split_name(const char *name, char out[NAME_BYTES_MAX + 1])
{
    const char *slash = strchr(name, '/');
    size_t len = slash ? strlen(slash + 1) : 0;

    if (!slash || slash == name || name[0] == '.' || name[0] == '~' ||
        strchr(slash + 1, '/') || len == 0 || len > NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i <= len; i++)
        out[i] = (char)tolower((unsigned char)slash[1 + i]);
    return true;
}

/* Return whether the name has the size of the active experts: "-A3B". */
static bool has_active_size(const char *folded)
{
    for (const char *at = folded; (at = strstr(at, "-a")); at += 2) {
        size_t digits = strspn(at + 2, "0123456789.");
        const char *end = at + 2 + digits;

        if (digits > 0 && end[0] == 'b' && (end[1] == 0 || end[1] == '-'))
            return true;
    }
    return false;
}

const char *model_name_type(const char *name)
{
    char folded[NAME_BYTES_MAX + 1];

    if (!split_name(name, folded))
        return NULL;
    for (size_t i = 0; i < TS_COUNT(name_rows); i++)
        if (fnmatch(name_rows[i].pattern, folded, 0) == 0 &&
            (!strstr(name_rows[i].pattern, ACTIVE) || has_active_size(folded)))
            return name_rows[i].type;
    return NULL;
}

const char *model_name_unsupported(const char *name)
{
    const char *type = model_name_type(name);

    return type && !architecture_find(type) && !multimodal_find(type) ? type : NULL;
}

const char *model_name_quantized(const char *name)
{
    char folded[NAME_BYTES_MAX + 1], *at = folded;

    if (!split_name(name, folded))
        return NULL;
    for (char *word; (word = strsep(&at, "-_."));)
        for (size_t i = 0; i < TS_COUNT(format_rows); i++)
            if (strcmp(word, format_rows[i].word) == 0)
                return format_rows[i].format;
    return NULL;
}
