/*
 * train/generation/words.h - a text as words, for scores that count words.
 *
 * The words are those of jieba 0.42.1 (jieba.cut), which LLaMA-Factory uses, for text
 * without Chinese characters.  jieba joins these by a dictionary of 349,046 words and a
 * model of its own, which trainspool does not have: each Chinese character is a word here.
 */
#ifndef TRAIN_GENERATION_WORDS_H
#define TRAIN_GENERATION_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct word {
    const char *text; /* in the text that was split */
    size_t len;
};

struct words {
    struct word *list; /* malloc'ed */
    size_t count, room;
    bool has_chinese; /* the words may differ from jieba's */
};

/* Append the words of well-formed UTF-8, blanks included; together they are the text. */
void words_split(struct words *words, const char *text, size_t len);
void words_add(struct words *words, const char *text, size_t len);
void words_clear(struct words *words);

/* Return whether Python counts the code point as white space (str.isspace). */
bool words_is_space(int32_t point);

#endif
