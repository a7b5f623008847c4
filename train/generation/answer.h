/* train/generation/answer.h - finding the answer in a text and comparing it with the
 * expected one. */
#ifndef TRAIN_GENERATION_ANSWER_H
#define TRAIN_GENERATION_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

/* How to find an answer, and the tolerance for numbers. */
struct answer_rule {
    const char *tag; /* the answer is in the first <tag>..</tag>; NULL: no tag */
    /* else it follows the first marker, to the end of the line; NULL: no marker */
    const char *marker;
    double tolerance; /* relative to the expected number; 0: equal */
};

/* A part of the text, without surrounding blanks. */
struct answer {
    const char *text;
    size_t len;
};

/* Find the answer; without tag and marker it is the whole text.  False if there is none,
 * or if it is empty. */
bool answer_find(const struct answer_rule *rule, const char *text, size_t len,
                 struct answer *out);

/*
 * Compare two answers.  Numbers match if |given - expected| <= tolerance |expected|.  A
 * number may have a currency before it, commas between groups of three digits, and a
 * period or a percent sign after it.  Anything else must be the same, byte for byte.
 */
bool answer_is_correct(const struct answer_rule *rule, struct answer given,
                       struct answer expected);
bool answer_number(struct answer answer, double *out);

struct verdict {
    bool found, correct;
};
/* Compare the answer in a completion with that in the expected text, found by the same
 * rule; if the rule finds none there, the whole expected text is the answer. */
struct verdict answer_judge(const struct answer_rule *rule, const char *text, size_t len,
                            const char *expected, size_t expected_len);

#endif
