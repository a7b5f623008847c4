/* train/generation/answer.h - the answer in a text: where it stands, and whether it is right. */
#ifndef TRAIN_GENERATION_ANSWER_H
#define TRAIN_GENERATION_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

/* Where an answer stands, and how near a number has to be. */
struct answer_rule {
    const char *tag; /* in the first <tag>..</tag>; NULL: no such */
    /* else behind the first of these, to the line's end; NULL: no such */
    const char *marker;
    double tolerance; /* share of the right number; 0: the same number */
};

/* Inside the text, blanks around it taken off. */
struct answer {
    const char *text;
    size_t len;
};

/* Without tag and marker all of the text is the answer.  False where there is none, or an
 * empty one. */
bool answer_find(const struct answer_rule *rule, const char *text, size_t len,
                 struct answer *out);

/*
 * Two numbers are compared as such: |given - wanted| <= tolerance |wanted|.  A number may
 * have a currency before it, commas between groups of three digits, and a full stop or a
 * per cent sign behind it.  Anything else has to be the same, byte for byte.
 */
bool answer_right(const struct answer_rule *rule, struct answer given,
                  struct answer wanted);
bool answer_number(struct answer answer, double *out);

struct verdict {
    bool found, right;
};
/* A completion against what was expected, of which the answer is found by the same rule,
 * and is all of it where the rule finds none. */
struct verdict answer_judge(const struct answer_rule *rule, const char *text, size_t len,
                            const char *expected, size_t expected_len);

#endif
