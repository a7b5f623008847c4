/* patcher/schema/schema_generate.c - keys of text generation. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

static const char *const plain_dtypes[] = { "auto", "float16", "bfloat16", "float32",
                                            NULL };
static const char *const engines[] = { "huggingface", "vllm", "sglang", NULL };
static const char *const lora_backends[] = { "triton", "flashinfer", NULL };

static const struct key rows[] = {
    { TS_USED("predict_with_generate", KEY_BOOL, "false"),
      .into = TS_FIELD(predict_with_generate),
      .help = "in evaluations, also generate answers to the prompts and count the "
              "correct ones",
      .manual = "Prompts are not cut; they may have at most cutoff_len tokens. See "
                "EVALUATION." },
    TS_IGNORED("generation_max_length", KEY_INT, NULL, "generation setting"),
    TS_IGNORED("generation_num_beams", KEY_INT, NULL, "generation setting"),
    TS_IGNORED("infer_num_beams", KEY_INT, "1", "generation setting"),
    TS_IGNORED("generation_config", KEY_ANY, NULL, "generation setting"),
    { TS_USED("do_sample", KEY_BOOL, "true"), .into = TS_FIELD(generation.do_sample),
      .help = "sample tokens at random; false takes the most likely token" },
    { TS_USED("temperature", KEY_REAL, "0.95"), .min = 0, .max = 1e6,
      .into = TS_FIELD(generation.temperature),
      .help = "divisor of the logits before sampling; 0 takes the most likely token" },
    { TS_USED("top_p", KEY_REAL, "0.7"), .positive = true, .max = 1,
      .into = TS_FIELD(generation.top_p),
      .help = "sample from the smallest set of most likely tokens whose "
              "probabilities add up to this share" },
    { TS_USED("top_k", KEY_INT, "50"), .min = 0, .max = TS_NO_MAX,
      .into = TS_FIELD(generation.top_k),
      .help = "sample from this many of the most likely tokens; 0 takes all" },
    TS_DIFFERS("num_beams", KEY_INT, "1", "beam search",
               "answers are generated with one beam, greedily or by sampling"),
    TS_IGNORED("max_length", KEY_INT, "1024", "generation setting"),
    { TS_USED("max_new_tokens", KEY_INT, "1024"), .min = 1, .max = 1048576,
      .into = TS_FIELD(generation.max_new_tokens),
      .help = "maximum length of a generated answer, in tokens" },
    { TS_USED("repetition_penalty", KEY_REAL, "1.0"), .positive = true, .max = 1e6,
      .into = TS_FIELD(generation.repetition_penalty),
      .help = "above 1, makes tokens that already occurred less likely" },
    TS_IGNORED("length_penalty", KEY_REAL, "1.0", "generation setting"),
    TS_IGNORED("skip_special_tokens", KEY_BOOL, "true", "generation setting"),
    TS_REJECTED_ENUM("infer_backend", engines, "huggingface", "hf", "inference engine",
                     "trainspool generates text itself"),
    TS_IGNORED("vllm_maxlen", KEY_INT, "4096", "vLLM setting"),
    TS_IGNORED("vllm_gpu_util", KEY_REAL, "0.7", "vLLM setting"),
    TS_IGNORED("vllm_enforce_eager", KEY_BOOL, "false", "vLLM setting"),
    TS_IGNORED("vllm_max_lora_rank", KEY_INT, "32", "vLLM setting"),
    TS_IGNORED("vllm_config", KEY_ANY, NULL, "vLLM setting"),
    TS_IGNORED("sglang_maxlen", KEY_INT, "4096", "SGLang setting"),
    TS_IGNORED("sglang_mem_fraction", KEY_REAL, "0.7", "SGLang setting"),
    TS_IGNORED("sglang_tp_size", KEY_INT, "-1", "SGLang setting"),
    TS_IGNORED("sglang_config", KEY_ANY, NULL, "SGLang setting"),
    TS_IGNORED_ENUM("sglang_lora_backend", lora_backends, "triton", "SGLang setting"),

    TS_IGNORED_ENUM("vllm_dtype", plain_dtypes, "auto", "vLLM setting"),
};
const struct keys schema_generate_keys = { "Generation", rows, TS_COUNT(rows) };
