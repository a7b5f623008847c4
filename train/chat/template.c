/* train/chat/template.c - the named templates of LLaMA-Factory, one row each. */
#include "config.h"

#include "train/chat/template.h"

#include <string.h>

#include "base/size.h"
#include "train/chat/template_internal.h"

#define CONTENT SLOT_CONTENT
#define BOS     SLOT_BOS
#define EOS     SLOT_EOS

/* The turns of Qwen, which many models have adopted. */
#define IM_SYSTEM    "<|im_start|>system\n" CONTENT "<|im_end|>\n"
#define IM_USER      "<|im_start|>user\n" CONTENT "<|im_end|>\n<|im_start|>assistant\n"
#define IM_ASSISTANT CONTENT "<|im_end|>\n"
#define IM_ROWS                                                      \
    .system = IM_SYSTEM, .user = IM_USER, .assistant = IM_ASSISTANT, \
    .specials = { "<|im_start|>", "<|im_end|>" }, .document_end = "<|im_end|>"
#define IM_TOOL "<|im_start|>tool\n" CONTENT "<|im_end|>\n<|im_start|>assistant\n"
#define QWEN_ROWS                                                         \
    IM_ROWS, .tools = "qwen",                                             \
             .observation = "<|im_start|>user\n<tool_response>\n" CONTENT \
                            "\n</tool_response><|im_end|>\n<|im_start|>assistant\n"

#define GEMMA_TURN(role) \
    "<start_of_turn>" role "\n" CONTENT "<end_of_turn>\n<start_of_turn>model\n"
#define GEMMA_ROWS                                                             \
    .prefix = BOS, .system = CONTENT "\n\n", .user = GEMMA_TURN("user"),       \
    .observation = GEMMA_TURN("tool"), .assistant = CONTENT "<end_of_turn>\n", \
    .system_in_question = true, .specials = { "<start_of_turn>", "<end_of_turn>" }

#define LLAMA2_ROWS                                                     \
    .system = "<<SYS>>\n" CONTENT "\n<</SYS>>\n\n",                     \
    .user = BOS "[INST] " CONTENT " [/INST]", .assistant = CONTENT EOS, \
    .system_in_question = true

#define LLAMA3_HEAD(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define LLAMA3_TURN(role) LLAMA3_HEAD(role) CONTENT "<|eot_id|>"

#define MISTRAL_TOOL(blank) \
    "[TOOL_RESULTS]" blank "{\"content\": " CONTENT "}[/TOOL_RESULTS]"

#define GRANITE(role) "<|start_of_role|>" role "<|end_of_role|>"
#define GRANITE_ROWS                                                          \
    .system = GRANITE("system") CONTENT "<|end_of_text|>\n",                  \
    .user = GRANITE("user") CONTENT "<|end_of_text|>\n" GRANITE("assistant"), \
    .assistant = CONTENT "<|end_of_text|>\n",                                 \
    .specials = { "<|start_of_role|>", "<|end_of_role|>" }

/* Names and strings: LLaMA-Factory, src/llamafactory/data/template.py at ff6d4d12. */
static const struct chat_template templates[] = {
    { .name = "default",
      .replaces_model_chat = true,
      .system = "System: " CONTENT EOS "\n",
      .user = "Human: " CONTENT EOS "\nAssistant:",
      .assistant = CONTENT EOS "\n" },
    { .name = "alpaca",
      .replaces_model_chat = true,
      .system = CONTENT,
      .user = "### Instruction:\n" CONTENT "\n\n### Response:\n",
      .assistant = CONTENT EOS "\n\n",
      .default_system = "Below is an instruction that describes a task. Write a "
                        "response that appropriately completes the request.\n\n" },
    { .name = "breeze",
      .prefix = BOS,
      .system = CONTENT,
      .user = "[INST] " CONTENT " [/INST] ",
      .assistant = CONTENT,
      .ends_with_eos = true },
    { .name = "chatml",
      .stops = { "<|im_end|>", "<|im_start|>" },
      .replaces_eos = true,
      .replaces_model_chat = true,
      IM_ROWS,
      .observation = IM_TOOL },
    { .name = "chatml_de",
      .stops = { "<|im_end|>", "<|im_start|>" },
      .replaces_eos = true,
      .replaces_model_chat = true,
      IM_ROWS,
      .observation = IM_TOOL,
      .default_system = "Du bist ein freundlicher und hilfsbereiter KI-Assistent." },
    { .name = "cohere",
      .prefix = BOS,
      .system = "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>" CONTENT "<|END_OF_TURN_TOKEN|>",
      .user = "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>" CONTENT
              "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
      .assistant = CONTENT EOS,
      .specials = { "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>" } },
    { .name = "deepseek",
      .prefix = BOS,
      .system = CONTENT "\n\n",
      .user = "User: " CONTENT "\n\nAssistant:",
      .assistant = CONTENT EOS },
    { .name = "deepseek3",
      .prefix = BOS,
      .system = CONTENT,
      .user = "<｜User｜>" CONTENT "<｜Assistant｜>",
      .assistant = CONTENT EOS,
      .specials = { "<｜User｜>", "<｜Assistant｜>" } },
    { .name = "deepseekcoder",
      .prefix = BOS,
      .system = CONTENT,
      .user = "### Instruction:\n" CONTENT "\n### Response:",
      .assistant = "\n" CONTENT "\n<|EOT|>\n",
      .default_system =
          "You are an AI programming assistant, utilizing the DeepSeek Coder model, "
          "developed by DeepSeek Company, and you only answer questions related to "
          "computer science. For politically sensitive questions, security and privacy "
          "issues, and other non-computer science questions, you will refuse to "
          "answer.\n" },
    { .name = "deepseekr1",
      .prefix = BOS,
      .system = CONTENT,
      .user = "<｜User｜>" CONTENT "<｜Assistant｜>",
      .assistant = CONTENT EOS,
      .reasons = true,
      .specials = { "<｜User｜>", "<｜Assistant｜>" } },
    { .name = "empty", .system = CONTENT, .user = CONTENT, .assistant = CONTENT },
    { .name = "fewshot",
      .replaces_model_chat = true,
      .system = CONTENT,
      .user = CONTENT,
      .assistant = CONTENT "\n\n",
      .ends_with_eos = true },
    { .name = "gemma",
      .stops = { "<end_of_turn>" },
      .replaces_eos = true,
      GEMMA_ROWS,
      .document_end = "<end_of_turn>" },
    { .name = "gemma2",
      .stops = { "<eos>", "<end_of_turn>" },
      GEMMA_ROWS,
      .ends_with_eos = true },
    { .name = "gemma3",
      .stops = { "<end_of_turn>" },
      .replaces_eos = true,
      GEMMA_ROWS,
      .document_end = "<end_of_turn>" },
    { .name = "granite3", GRANITE_ROWS },
    { .name = "granite4",
      .stops = { "<|end_of_text|>" },
      GRANITE_ROWS,
      .observation =
          GRANITE("tool") CONTENT "<|end_of_text|>\n<|start_of_role|>assistant\n",
      .default_system =
          "You are Granite, developed by IBM. You are a helpful AI assistant." },
    { .name = "llama2", LLAMA2_ROWS },
    { .name = "llama2_zh",
      LLAMA2_ROWS,
      .default_system = "You are a helpful assistant. 你是一个乐于助人的助手。" },
    { .name = "llama3",
      .stops = { "<|eot_id|>", "<|eom_id|>" },
      .replaces_eos = true,
      .prefix = BOS,
      .system = LLAMA3_TURN("system"),
      .user = LLAMA3_TURN("user") LLAMA3_HEAD("assistant"),
      .observation = LLAMA3_TURN("ipython") LLAMA3_HEAD("assistant"),
      .assistant = CONTENT "<|eot_id|>",
      .tools = "llama3",
      .specials = { "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>" },
      .document_end = "<|end_of_text|>" },
    { .name = "ministral",
      .prefix = BOS,
      .system = CONTENT "\n\n",
      .user = "[INST]" CONTENT "[/INST]",
      .observation = MISTRAL_TOOL(""),
      .assistant = CONTENT EOS,
      .function = "[TOOL_CALLS]" CONTENT EOS,
      .tools = "mistral",
      .system_in_question = true },
    { .name = "mistral",
      .prefix = BOS,
      .system = CONTENT "\n\n",
      .user = "[INST] " CONTENT "[/INST]",
      .observation = MISTRAL_TOOL(" "),
      .assistant = " " CONTENT EOS,
      .function = "[TOOL_CALLS] " CONTENT EOS,
      .tools = "mistral",
      .system_in_question = true },
    { .name = "mistral_small",
      .prefix = BOS,
      .system = "[SYSTEM_PROMPT]" CONTENT "[/SYSTEM_PROMPT]",
      .user = "[INST]" CONTENT "[/INST]",
      .observation = MISTRAL_TOOL(""),
      .assistant = CONTENT EOS,
      .function = "[TOOL_CALLS]" CONTENT EOS,
      .tools = "mistral",
      .specials = { "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]" } },
    { .name = "openchat",
      .prefix = BOS,
      .system = CONTENT,
      .user = "GPT4 Correct User: " CONTENT EOS "GPT4 Correct Assistant:",
      .assistant = CONTENT EOS },
    { .name = "openchat-3.6",
      .stops = { "<|eot_id|>" },
      .prefix = BOS,
      .system = CONTENT,
      .user = LLAMA3_HEAD("GPT4 Correct User") CONTENT
      "<|eot_id|>" LLAMA3_HEAD("GPT4 Correct Assistant"),
      .assistant = CONTENT EOS,
      .specials = { "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>" } },
    { .name = "opencoder",
      .stops = { "<|im_end|>" },
      IM_ROWS,
      .observation = IM_TOOL,
      .default_system = "You are OpenCoder, created by OpenCoder Team." },
    { .name = "phi",
      .stops = { "<|end|>" },
      .replaces_eos = true,
      .system = "<|system|>\n" CONTENT "<|end|>\n",
      .user = "<|user|>\n" CONTENT "<|end|>\n<|assistant|>\n",
      .assistant = CONTENT "<|end|>\n",
      .specials = { "<|user|>", "<|assistant|>", "<|end|>" },
      .document_end = "<|end|>" },
    { .name = "phi4",
      .stops = { "<|im_end|>" },
      .replaces_eos = true,
      .system = "<|im_start|>system<|im_sep|>" CONTENT "<|im_end|>",
      .user = "<|im_start|>user<|im_sep|>" CONTENT
              "<|im_end|><|im_start|>assistant<|im_sep|>",
      .assistant = CONTENT "<|im_end|>",
      .specials = { "<|im_start|>", "<|im_sep|>", "<|im_end|>" },
      .document_end = "<|im_end|>" },
    { .name = "phi4_mini",
      .stops = { "<|end|>" },
      .replaces_eos = true,
      .tools = "phi4_mini",
      .system = "<|system|>" CONTENT "<|end|>",
      .user = "<|user|>" CONTENT "<|end|><|assistant|>",
      .assistant = CONTENT "<|end|>",
      .specials = { "<|user|>", "<|assistant|>", "<|end|>" },
      .document_end = "<|end|>" },
    { .name = "qwen",
      .stops = { "<|im_end|>" },
      .replaces_eos = true,
      QWEN_ROWS,
      .default_system =
          "You are Qwen, created by Alibaba Cloud. You are a helpful assistant." },
    { .name = "qwen3",
      .stops = { "<|im_end|>" },
      .replaces_eos = true,
      QWEN_ROWS,
      .reasons = true },
    { .name = "qwen3_nothink",
      .stops = { "<|im_end|>" },
      .replaces_eos = true,
      QWEN_ROWS },
    { .name = "sailor",
      .stops = { "<|im_end|>" },
      .system = IM_SYSTEM,
      .assistant = IM_ASSISTANT,
      .specials = { "<|im_start|>", "<|im_end|>" },
      .user = "<|im_start|>question\n" CONTENT "<|im_end|>\n<|im_start|>answer\n",
      .default_system =
          "You are an AI assistant named Sailor created by Sea AI Lab. Your answer "
          "should be friendly, unbiased, faithful, informative and detailed." },
    { .name = "seed_coder",
      .system = BOS "system\n" CONTENT EOS,
      .user = BOS "user\n" CONTENT EOS BOS "assistant\n",
      .assistant = CONTENT EOS,
      .default_system =
          "You are an AI programming assistant, utilizing the Seed-Coder model, "
          "developed by ByteDance Seed, and you only answer questions related to "
          "computer science. For politically sensitive questions, security and privacy "
          "issues, and other non-computer science questions, you will refuse to "
          "answer.\n\n" },
    { .name = "smollm", .stops = { "<|im_end|>" }, IM_ROWS },
    { .name = "smollm2",
      .stops = { "<|im_end|>" },
      IM_ROWS,
      .default_system =
          "You are a helpful AI assistant named SmolLM, trained by Hugging Face." },
    { .name = "solar",
      .system = "### System:\n" CONTENT "\n\n",
      .user = "### User:\n" CONTENT "\n\n### Assistant:\n",
      .assistant = CONTENT,
      .ends_with_eos = true },
    { .name = "vicuna",
      .replaces_model_chat = true,
      .system = CONTENT,
      .user = "USER: " CONTENT " ASSISTANT:",
      .assistant = CONTENT EOS,
      .default_system = "A chat between a curious user and an artificial intelligence "
                        "assistant. The assistant gives helpful, detailed, and polite "
                        "answers to the user's questions." },
    { .name = "xuanyuan",
      .system = CONTENT,
      .user = "Human: " CONTENT " Assistant:",
      .assistant = CONTENT EOS,
      .default_system =
          "以下是用户和人工智能助手之间的对话。用户以Human开头，人工智能助手以Assistant开头，会对人类提出的问题给出有帮助、高质量、详细和礼貌的回答，并且总是拒绝参与与不道德、不安全、有争议、政治敏感等相关的话题、问题和指示。\n" },
    { .name = "yi", .stops = { "<|im_end|>" }, IM_ROWS },
    { .name = "zephyr",
      .system = "<|system|>\n" CONTENT EOS,
      .user = "<|user|>\n" CONTENT EOS "<|assistant|>\n",
      .assistant = CONTENT EOS,
      .default_system = "You are Zephyr, a helpful assistant." },
};

/* Special tokens that identify a template, in this order. */
static const char *const guesses[][2] = {
    { "<|start_header_id|>", "llama3" },
    { "<start_of_turn>", "gemma" },
    { "<|im_start|>", "chatml" },
};

const struct chat_template *template_find(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(templates); i++)
        if (strcmp(templates[i].name, name) == 0)
            return &templates[i];
    return NULL;
}

const struct chat_template *template_guess(const struct tokenizer *tokenizer)
{
    const struct chat *own = tokenizer_attached(tokenizer);

    if (own)
        return chat_as_template(own);
    for (size_t i = 0; i < TS_COUNT(guesses); i++)
        if (tokenizer_find(tokenizer, guesses[i][0]) >= 0)
            return template_find(guesses[i][1]);
    return template_find("default");
}

const struct chat *template_model_chat(const struct chat_template *chat)
{
    return chat->model_chat;
}

const char *template_name(size_t index)
{
    return index < TS_COUNT(templates) ? templates[index].name : NULL;
}

const char *template_row_name(const struct chat_template *chat)
{
    return chat->name;
}

const char *template_missing(const struct chat_template *chat,
                             const struct tokenizer *tokenizer)
{
    for (size_t i = 0; i < TEMPLATE_SPECIALS && chat->specials[i]; i++)
        if (tokenizer_find(tokenizer, chat->specials[i]) < 0)
            return chat->specials[i];
    return NULL;
}

bool template_writes_end(const struct chat_template *chat)
{
    return chat->ends_with_eos || (chat->assistant && strstr(chat->assistant, EOS));
}

int64_t template_document_end(const struct chat_template *chat,
                              const struct tokenizer *tokenizer)
{
    int64_t end = -1;

    if (chat && chat->document_end)
        end = tokenizer_find(tokenizer, chat->document_end);
    return end >= 0 ? end : tokenizer_eos(tokenizer);
}
