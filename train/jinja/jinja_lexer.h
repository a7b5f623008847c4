/* train/jinja/jinja_lexer.h - a template's text as tokens, with Jinja's white space
 * control. */
#ifndef TRAIN_JINJA_JINJA_LEXER_H
#define TRAIN_JINJA_JINJA_LEXER_H

#include "base/arena.h"

enum jinja_token_kind {
    TOKEN_END,
    TOKEN_DATA,           /* text between the tags, never empty */
    TOKEN_VARIABLE_BEGIN, /* {{ */
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN, /* {% */
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING, /* text: without quotes, escapes resolved */
    TOKEN_INT,
    TOKEN_REAL,
    TOKEN_OPERATOR /* text: == ** ( and others */
};

struct jinja_token {
    enum jinja_token_kind kind;
    uint32_t line;
    const char *text; /* in the arena */
    size_t len;
    int64_t integer;
    double real;
};

struct jinja_tokens {
    struct jinja_token *list; /* malloc'ed; the last is TOKEN_END */
    size_t count, room;
};

/* Errors have `name` before the line. The caller frees tokens->list in any case. */
bool jinja_lex(struct arena *arena, const char *source, size_t len, const char *name,
               struct jinja_tokens *out, struct error *err);

#endif
