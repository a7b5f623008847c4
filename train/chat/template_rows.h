/*
 * train/chat/template_rows.h - private to the tables of named templates: parts that several
 * rows share.
 */
#ifndef TRAIN_CHAT_TEMPLATE_ROWS_H
#define TRAIN_CHAT_TEMPLATE_ROWS_H

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
    .specials = { "<|im_start|>", "<|im_end|>" }
#define IM_TOOL "<|im_start|>tool\n" CONTENT "<|im_end|>\n<|im_start|>assistant\n"
/* The first stop of answers replaces the end-of-text token. */
#define REPLACES_EOS(stop) .stops = { stop }, .replaces_eos = true, .document_end = stop
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

#define GEMMA4_TURN(role) "<|turn>" role "\n" CONTENT "<turn|>\n<|turn>model\n"
#define GEMMA4_ROWS                                                                \
    REPLACES_EOS("<turn|>"),                                                       \
        .prefix = BOS, .system = "<|turn>system\n<|think|>" CONTENT "<turn|>\n",   \
        .user = GEMMA4_TURN("user"), .observation = GEMMA4_TURN("tool"),           \
        .assistant = CONTENT "<turn|>\n", .function = "<|tool>" CONTENT "<tool|>", \
        .tools = "gemma4", .default_system = "You are a helpful assistant.",       \
        .thoughts = { "<|channel>thought\n", "<channel|>" },                       \
        .specials = { "<|turn>", "<turn|>" }, .reasons = true

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

#define GLM4_ROWS                                                                    \
    .prefix = "[gMASK]<sop>", .system = "<|system|>\n" CONTENT,                      \
    .user = "<|user|>\n" CONTENT "<|assistant|>", .assistant = "\n" CONTENT,         \
    .observation = "<|observation|>\n" CONTENT "<|assistant|>", .function = CONTENT, \
    .ends_with_eos = true,                                                           \
    .specials = { "[gMASK]", "<sop>", "<|user|>", "<|assistant|>" }

#define LLAMA3_ROWS                                                               \
    .stops = { "<|eot_id|>", "<|eom_id|>" }, .replaces_eos = true, .prefix = BOS, \
    .system = LLAMA3_TURN("system"),                                              \
    .user = LLAMA3_TURN("user") LLAMA3_HEAD("assistant"),                         \
    .observation = LLAMA3_TURN("ipython") LLAMA3_HEAD("assistant"),               \
    .assistant = CONTENT "<|eot_id|>", .tools = "llama3",                         \
    .specials = { "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>" }

#define MISTRAL_ROWS                                                              \
    .prefix = BOS, .system = CONTENT "\n\n", .user = "[INST] " CONTENT "[/INST]", \
    .observation = MISTRAL_TOOL(" "), .assistant = " " CONTENT EOS,               \
    .function = "[TOOL_CALLS] " CONTENT EOS, .tools = "mistral",                  \
    .system_in_question = true

#define MINISTRAL_ROWS                                                           \
    .prefix = BOS, .system = CONTENT "\n\n", .user = "[INST]" CONTENT "[/INST]", \
    .observation = MISTRAL_TOOL(""), .assistant = CONTENT EOS,                   \
    .function = "[TOOL_CALLS]" CONTENT EOS, .tools = "mistral",                  \
    .system_in_question = true

#define VICUNA_ROWS                                                                      \
    .system = CONTENT, .user = "USER: " CONTENT " ASSISTANT:", .assistant = CONTENT EOS, \
    .default_system = "A chat between a curious user and an artificial intelligence "    \
                      "assistant. The assistant gives helpful, detailed, and polite "    \
                      "answers to the user's questions."

#endif
