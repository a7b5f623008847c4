/* train/jinja/jinja_lexer.c - Jinja's lexer.py with trim_blocks and lstrip_blocks: a
 * block removes the newline after it, and the blanks before it on its line; `-` removes
 * all white space, `+` keeps it. */
#include "config.h"

#include "train/jinja/jinja_lexer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "train/jinja/jinja_text.h"
#include "train/text/unicode.h"

enum { NESTING_MAX = 200 };

struct lexer {
    struct arena *arena;
    const char *source, *name;
    size_t len, at;
    uint32_t line;
    size_t counted;         /* newlines before this position are in `line` */
    char open[NESTING_MAX]; /* closing characters of the open brackets */
    size_t depth;
    struct jinja_tokens *out;
    struct error *err;
};

static uint32_t line_at(struct lexer *lexer, size_t at)
{
    for (; lexer->counted < at; lexer->counted++)
        lexer->line += lexer->source[lexer->counted] == '\n';
    return lexer->line;
}

#define FAIL(lexer, ...) \
    jinja_error((lexer)->err, (lexer)->name, line_at(lexer, (lexer)->at), __VA_ARGS__)

static struct jinja_token *add(struct lexer *lexer, enum jinja_token_kind kind, size_t at)
{
    struct jinja_tokens *out = lexer->out;
    struct jinja_token *token;

    if (out->count == out->room) {
        out->room = out->room ? 2 * out->room : 64;
        out->list = memory_resize(out->list, out->room, sizeof(*out->list));
    }
    token = &out->list[out->count++];
    *token = (struct jinja_token) { .kind = kind, .line = line_at(lexer, at) };
    return token;
}

static bool starts(const struct lexer *lexer, size_t at, const char *what)
{
    size_t len = strlen(what);

    return lexer->len - at >= len && memcmp(lexer->source + at, what, len) == 0;
}

static char byte_at(const struct lexer *lexer, size_t at)
{
    return at < lexer->len ? lexer->source[at] : 0;
}

static bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

static size_t skip_space(const struct lexer *lexer, size_t at)
{
    return at + jinja_leading_space(lexer->source + at, lexer->len - at);
}

/* The position after the end tag of a block and the white space that it removes; 0 if
 * there is no end tag. */
static size_t skip_end_tag(const struct lexer *lexer, size_t at, const char *tag)
{
    char sign = byte_at(lexer, at);
    bool signed_ = sign == '-' || (sign == '+' && strcmp(tag, "}}") != 0);

    if (!starts(lexer, at + (at < lexer->len && signed_), tag))
        return 0;
    at += signed_ + strlen(tag);
    if (sign == '-')
        return skip_space(lexer, at);
    return !signed_ && strcmp(tag, "}}") != 0 && byte_at(lexer, at) == '\n' ? at + 1 : at;
}

/* Add the text before a tag at `end`, without the white space that the tag removes. */
static void add_data(struct lexer *lexer, size_t from, size_t end, char sign, bool block)
{
    size_t kept = end, line_start = end;
    struct jinja_token *token;

    if (sign == '-') {
        kept -= jinja_trailing_space(lexer->source + from, end - from);
    } else if (sign != '+' && block) {
        while (line_start > from && lexer->source[line_start - 1] != '\n')
            line_start--;
        if ((line_start > 0 ? lexer->source[line_start - 1] == '\n' : true) &&
            skip_space(lexer, line_start) >= end)
            kept = line_start;
    }
    if (kept == from)
        return;
    token = add(lexer, TOKEN_DATA, from);
    token->text = lexer->source + from;
    token->len = kept - from;
}

static char sign_at(const struct lexer *lexer, size_t at)
{
    char sign = byte_at(lexer, at);

    return sign == '-' || sign == '+' ? sign : 0;
}

/* The position after `{% word`, without the white space after it; 0 if it does not
 * match. */
static size_t skip_statement_name(const struct lexer *lexer, size_t at, const char *word)
{
    at += 2;
    at = skip_space(lexer, at + (sign_at(lexer, at) != 0));
    if (!starts(lexer, at, word))
        return 0;
    return skip_space(lexer, at + strlen(word));
}

/* Lex {% raw %} ... {% endraw %}, at its start. *done: it was one. */
static bool lex_raw(struct lexer *lexer, bool *done)
{
    size_t at = skip_statement_name(lexer, lexer->at, "raw"), end;

    *done = at > 0 && (starts(lexer, at, "%}") || starts(lexer, at, "-%}"));
    if (!*done)
        return true;
    at = starts(lexer, at, "-") ? skip_space(lexer, at + 3) : at + 2;
    for (end = at; end < lexer->len; end++) {
        size_t word =
            starts(lexer, end, "{%") ? skip_statement_name(lexer, end, "endraw") : 0;
        size_t next = word ? skip_end_tag(lexer, word, "%}") : 0;

        if (next) {
            add_data(lexer, at, end, sign_at(lexer, end + 2), true);
            lexer->at = next;
            return true;
        }
    }
    return FAIL(lexer, "Missing end of raw directive");
}

static bool lex_comment(struct lexer *lexer)
{
    size_t at = lexer->at + 2;

    for (at += sign_at(lexer, at) != 0; at < lexer->len; at++) {
        size_t next = skip_end_tag(lexer, at, "#}");

        if (next) {
            lexer->at = next;
            return true;
        }
    }
    return FAIL(lexer, "Missing end of comment tag");
}

/* Lex a number with _ between its digits, which are dropped. */
static bool lex_number(struct lexer *lexer)
{
    size_t at = lexer->at, count = 0;
    char digits[64];
    bool real = false, member = at > 0 && lexer->source[at - 1] == '.';
    struct jinja_token *token;
    const char *begin = digits;
    char *end;
    int base = 10;

    while (at < lexer->len && count + 1 < sizeof(digits)) {
        char c = lexer->source[at], next = byte_at(lexer, at + 1);
        bool exponent = (c == 'e' || c == 'E') && base == 10;
        bool sign = exponent && (next == '+' || next == '-');

        if (count == 1 && digits[0] == '0' && is_one_of(c, "xXoObB"))
            base = (c | 32) == 'x' ? 16 : (c | 32) == 'o' ? 8 : 2;
        else if (c == '_' &&
                 (jinja_is_digit(next) || (base == 16 && jinja_is_hex(next)))) {
            at++;
            continue;
        } else if ((c == '.' && base == 10 && !real && !member && jinja_is_digit(next)) ||
                   (exponent && !strchr(digits, 'e') &&
                    (jinja_is_digit(next) ||
                     (sign && jinja_is_digit(byte_at(lexer, at + 2))))))
            real = true;
        else if (!jinja_is_digit(c) && !(base == 16 && jinja_is_hex(c)))
            break;
        digits[count++] = exponent ? 'e' : c;
        digits[count] = 0;
        at++;
        if (sign && real)
            digits[count++] = lexer->source[at++];
        digits[count] = 0;
    }
    token = add(lexer, real ? TOKEN_REAL : TOKEN_INT, lexer->at);
    lexer->at = at;
    errno = 0;
    if (real)
        token->real = strtod(digits, &end);
    else
        token->integer = strtoll(begin + (base == 10 ? 0 : 2), &end, base);
    return (errno == 0 || real) && *end == 0
               ? true
               : FAIL(lexer, "the number %s is not supported", digits);
}

static bool lex_string(struct lexer *lexer)
{
    char quote = lexer->source[lexer->at];
    size_t from = lexer->at + 1, end = from;
    struct jinja_token *token;
    struct text text;
    bool ok;

    while (end < lexer->len && lexer->source[end] != quote)
        end += 1 + (lexer->source[end] == '\\');
    if (end >= lexer->len)
        return FAIL(lexer, "unexpected char '%c': the string has no end", quote);
    text_init(&text, 0);
    ok = jinja_unescape(lexer->source + from, end - from, &text) ||
         FAIL(lexer, "a string has a broken or unsupported escape");
    token = add(lexer, TOKEN_STRING, lexer->at);
    token->text = arena_copy(lexer->arena, text.data, text.len);
    token->len = text.len;
    text_clear(&text);
    lexer->at = end + 1;
    return ok;
}

static bool is_word(const struct lexer *lexer, size_t at, size_t *len)
{
    int32_t point;

    if (at >= lexer->len)
        return false;
    *len = unicode_first(lexer->source + at, lexer->len - at, &point);
    return point < 0x80 ? point == '_' || jinja_is_digit((char)point) ||
                              ((point | 32) >= 'a' && (point | 32) <= 'z')
                        : unicode_is_word(point);
}

static void lex_name(struct lexer *lexer)
{
    struct jinja_token *token = add(lexer, TOKEN_NAME, lexer->at);
    size_t at = lexer->at, len;

    while (is_word(lexer, at, &len))
        at += len;
    token->text = lexer->source + lexer->at;
    token->len = at - lexer->at;
    lexer->at = at;
}

static bool balance(struct lexer *lexer, char c)
{
    static const char open[] = "([{", close[] = ")]}";
    const char *opened = is_one_of(c, open) ? strchr(open, c) : NULL;

    if (opened) {
        if (lexer->depth == NESTING_MAX)
            return FAIL(lexer, "brackets are nested too deep");
        lexer->open[lexer->depth++] = close[opened - open];
    } else if (is_one_of(c, close)) {
        if (lexer->depth == 0)
            return FAIL(lexer, "unexpected '%c'", c);
        if (lexer->open[--lexer->depth] != c)
            return FAIL(lexer, "unexpected '%c', expected '%c'", c,
                        lexer->open[lexer->depth]);
    }
    return true;
}

static bool lex_operator(struct lexer *lexer)
{
    static const char *const operators[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";",
    };

    for (size_t i = 0; i < TS_COUNT(operators); i++)
        if (starts(lexer, lexer->at, operators[i])) {
            struct jinja_token *token = add(lexer, TOKEN_OPERATOR, lexer->at);

            token->text = operators[i];
            token->len = strlen(operators[i]);
            if (token->len == 1 && !balance(lexer, operators[i][0]))
                return false;
            lexer->at += token->len;
            return true;
        }
    return FAIL(lexer, "unexpected char '%c'", lexer->source[lexer->at]);
}

/* Lex the inside of {{ }} or {% %}, up to its end. */
static bool lex_tag(struct lexer *lexer, bool block)
{
    const char *tag = block ? "%}" : "}}";

    add(lexer, block ? TOKEN_BLOCK_BEGIN : TOKEN_VARIABLE_BEGIN, lexer->at);
    lexer->at += 2;
    lexer->at += sign_at(lexer, lexer->at) != 0;
    lexer->depth = 0;
    for (;;) {
        size_t next = lexer->depth == 0 ? skip_end_tag(lexer, lexer->at, tag) : 0, len;
        bool ok = true;

        if (next) {
            add(lexer, block ? TOKEN_BLOCK_END : TOKEN_VARIABLE_END, lexer->at);
            lexer->at = next;
            return true;
        }
        lexer->at = skip_space(lexer, lexer->at);
        if (lexer->at >= lexer->len)
            return FAIL(lexer, "the template ends inside a tag");
        if (lexer->depth == 0 && skip_end_tag(lexer, lexer->at, tag))
            continue;
        if (jinja_is_digit(lexer->source[lexer->at]))
            ok = lex_number(lexer);
        else if (is_word(lexer, lexer->at, &len))
            lex_name(lexer);
        else if (is_one_of(lexer->source[lexer->at], "'\""))
            ok = lex_string(lexer);
        else
            ok = lex_operator(lexer);
        if (!ok)
            return false;
    }
}

/* Lex the text up to the next tag, and the tag. */
static bool lex_next(struct lexer *lexer)
{
    size_t from = lexer->at, at = from;
    bool block, raw = false;

    while (at < lexer->len &&
           !(lexer->source[at] == '{' && is_one_of(byte_at(lexer, at + 1), "{%#")))
        at++;
    block = byte_at(lexer, at + 1) != '{';
    add_data(lexer, from, at, at < lexer->len ? sign_at(lexer, at + 2) : '+', block);
    lexer->at = at;
    if (at >= lexer->len)
        return true;
    if (lexer->source[at + 1] == '#')
        return lex_comment(lexer);
    if (block && !lex_raw(lexer, &raw))
        return false;
    return raw || lex_tag(lexer, block);
}

/* Convert \r\n and \r to \n, and drop one newline at the end, as Jinja does. */
static void normalize(struct lexer *lexer, const char *source, size_t len)
{
    char *copy = arena_copy(lexer->arena, source, len);
    size_t kept = 0;

    for (size_t i = 0; i < len; i++) {
        if (source[i] == '\r' && i + 1 < len && source[i + 1] == '\n')
            continue;
        copy[kept++] = source[i] == '\r' ? '\n' : source[i];
    }
    lexer->source = copy;
    lexer->len = kept - (kept > 0 && copy[kept - 1] == '\n');
}

bool jinja_lex(struct arena *arena, const char *source, size_t len, const char *name,
               struct jinja_tokens *out, struct error *err)
{
    struct lexer lexer = {
        .arena = arena, .name = name, .line = 1, .out = out, .err = err
    };

    *out = (struct jinja_tokens) { .list = NULL };
    normalize(&lexer, source, len);
    while (lexer.at < lexer.len)
        if (!lex_next(&lexer))
            return false;
    add(&lexer, TOKEN_END, lexer.at);
    return true;
}
