/* train/text/pattern.h - regular expressions of tokenizer.json: written for Oniguruma,
 * executed by PCRE2 over UTF-8 with Unicode's classes. */
#ifndef TRAIN_TEXT_PATTERN_H
#define TRAIN_TEXT_PATTERN_H

#include "base/json.h"

struct pattern;
struct pattern_scratch; /* state of searches, and what they may take; one per thread */

/* Compile {"String": ...} or {"Regex": ...}. ERROR_DATA naming `where`. */
struct pattern *pattern_new(const json_t *json, const char *where, struct error *err);
/* Compile a built-in expression; never fails. */
struct pattern *pattern_compile(const char *regex);
/* Compile an expression that must match a whole text, as Python's re.fullmatch.
 * ERROR_DATA naming `where`. */
struct pattern *pattern_compile_whole(const char *regex, const char *where,
                                      struct error *err);
void pattern_free(struct pattern *pattern); /* NULL is allowed */

struct pattern_scratch *pattern_scratch_new(void);
void pattern_scratch_free(struct pattern_scratch *scratch); /* NULL is allowed */

/* Limit the work on a text: its searches fail after `cpu_seconds`, and pattern_spend does
 * after `work` units in total. */
void pattern_scratch_limit(struct pattern_scratch *scratch, size_t work,
                           double cpu_seconds);
/* Take so much of the limit; NULL has none. False, from then on, if it is exceeded. */
bool pattern_spend(struct pattern_scratch *scratch, size_t work);
size_t pattern_work_left(const struct pattern_scratch *scratch);
/* Return whether a limit was exceeded. */
bool pattern_is_spent(const struct pattern_scratch *scratch);

/* A search in well-formed UTF-8 text. */
struct pattern_search {
    const struct pattern *pattern;
    struct pattern_scratch *scratch;
    const char *text;
    size_t len;
    size_t from;  /* where to continue; 0 at first */
    bool matched; /* the last match, if any: */
    size_t start, end;
    /* a limit was exceeded: the expression takes too long on this text */
    bool failed;
};

/* Find the next match. Empty matches count, except where the last match ended. */
bool pattern_next(struct pattern_search *search);
/* Return whether a text, which ends in a zero byte, has a match.  *failed, unless NULL, is
 * whether a limit was exceeded, which counts as no match. */
bool pattern_matches(const struct pattern *pattern, const char *text, bool *failed);

#endif
