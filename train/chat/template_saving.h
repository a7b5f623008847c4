/*
 * train/chat/template_saving.h - what the tokenizer files of a trained model must say, so
 * that other programs write prompts, and end answers, as the training did.
 *
 * As LLaMA-Factory 0.9.5 does it (data/template.py: fix_special_tokens,
 * fix_jinja_template, get_ollama_modelfile), and transformers' Trainer with the ids of
 * generation_config.json (Trainer._align_special_tokens, 4.56 and later).
 */
#ifndef TRAIN_CHAT_TEMPLATE_SAVING_H
#define TRAIN_CHAT_TEMPLATE_SAVING_H

#include "train/chat/template.h"

#define TEMPLATE_ENDS_MAX 4

/* Texts belong to the struct; NULL: the model's own files already say it. */
struct template_saving {
    char *chat_template; /* Jinja source of chat_template.jinja */
    char *modelfile;     /* Ollama's Modelfile; NULL: no chat template is known */
    char *eos_token;     /* the token that ends an answer */
    char *pad_token;
    char *stops[TEMPLATE_ENDS_MAX]; /* special tokens that end an answer, too */
    size_t stop_count;
    int64_t eos_id, pad_id; /* the tokenizer's, as they are after the change; -1: none */
    int64_t stop_ids[TEMPLATE_ENDS_MAX];
    json_t *new_tokens; /* members of "added_tokens" that tokenizer.json lacks, or NULL */
    /* the model's own chat template is kept, but writes a conversation differently from
     * the template that the training used */
    bool conversations_differ;
};

/* Decide what to save after a training with the template `name`, which must exist; NULL:
 * the one that template_guess finds. `system` is default_system of the job, or NULL. */
void template_saving_make(const struct tokenizer *tokenizer, const char *name,
                          const char *system, struct template_saving *out);
void template_saving_clear(struct template_saving *saving);

#endif
