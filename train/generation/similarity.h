/*
 * train/generation/similarity.h - how similar a generated text is to the expected one:
 * BLEU and ROUGE as LLaMA-Factory computes them (train/sft/metric.py, ComputeSimilarity).
 *
 * ROUGE counts the words of train/generation/words.h, BLEU characters.
 */
#ifndef TRAIN_GENERATION_SIMILARITY_H
#define TRAIN_GENERATION_SIMILARITY_H

#include <stdbool.h>
#include <stddef.h>

enum score { SCORE_ROUGE_1, SCORE_ROUGE_2, SCORE_ROUGE_L, SCORE_BLEU_4, SCORES };
/* "rouge-1" */
extern const char *const score_names[SCORES];

struct similarity {
    double scores[SCORES]; /* in percent, with 4 decimals */
    bool has_chinese;      /* ROUGE counts characters where LLaMA-Factory counts words */
};

/* Return whether the score depends on how words are found. */
bool similarity_counts_words(enum score score);

/* Compare two texts; invalid UTF-8 counts as U+FFFD. */
struct similarity similarity_measure(const char *generated, size_t generated_len,
                                     const char *expected, size_t expected_len);

#endif
