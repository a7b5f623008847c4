/*
 * train/text/pattern.h - the regular expressions of tokenizer.json: written for Oniguruma, run
 * by PCRE2 over UTF-8 with Unicode's classes.
 */
#ifndef TRAIN_TEXT_PATTERN_H
#define TRAIN_TEXT_PATTERN_H

#include "base/json.h"

struct pattern;
struct pattern_scratch; /* what a search needs; one for each thread */

/* From {"String": ...} or {"Regex": ...}.  ERROR_DATA naming `where`. */
struct pattern *pattern_new(const json_t *json, const char *where, struct error *err);
/* From an expression of our own; never fails. */
struct pattern *pattern_compile(const char *regex);
void pattern_free(struct pattern *pattern); /* NULL is allowed */

struct pattern_scratch *pattern_scratch_new(void);
void pattern_scratch_free(struct pattern_scratch *scratch); /* NULL is allowed */

/* A search through a text of well-formed UTF-8. */
struct pattern_search {
    const struct pattern *pattern;
    struct pattern_scratch *scratch;
    const char *text;
    size_t len;
    size_t from;  /* where to look on; 0 at first */
    bool matched; /* there has been a match, the last one: */
    size_t start, end;
    /* a limit was passed: the expression takes too long on this text */
    bool failed;
};

/* The next match.  An empty one is found too, but not where the last match ended. */
bool pattern_next(struct pattern_search *search);

#endif
