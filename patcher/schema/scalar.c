/* patcher/schema/scalar.c - converts text to booleans, numbers, sizes and times. */
#include "config.h"

#include "patcher/schema/scalar.h"

#include "base/size.h"
#include "precision/memory.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The booleans of YAML 1.1, https://yaml.org/type/bool.html; `old`: not in YAML 1.2. */
static const struct word {
    const char *name;
    bool value, old;
} words[] = {
    { "true", true, false }, { "false", false, false }, { "yes", true, true },
    { "no", false, true },   { "on", true, true },      { "off", false, true },
    { "y", true, true },     { "n", false, true },
};

/* Return whether the node may have another type than string: it is plain or quoted, not
 * empty, has no NUL, and no tag makes it a string. */
static bool readable(const struct node *node)
{
    if (node->kind != NODE_SCALAR || node->style == STYLE_LITERAL ||
        node->style == STYLE_FOLDED)
        return false;
    if (node->tag && (strcmp(node->tag, "!") == 0 || strcmp(node->tag, "!!str") == 0 ||
                      strcmp(node->tag, "tag:yaml.org,2002:str") == 0))
        return false;
    return node->len > 0 && strlen(node->text) == node->len;
}

static enum scalar_kind quoted_or(const struct node *node, enum scalar_kind kind)
{
    return node->style == STYLE_PLAIN ? kind : SCALAR_QUOTED;
}

enum scalar_kind scalar_bool(const struct node *node, bool *out)
{
    node = node_value(node);
    if (!readable(node))
        return SCALAR_WRONG;
    for (size_t i = 0; i < TS_COUNT(words); i++)
        if (strcasecmp(node->text, words[i].name) == 0) {
            *out = words[i].value;
            return quoted_or(node, words[i].old ? SCALAR_YAML11 : SCALAR_GOOD);
        }
    return SCALAR_WRONG;
}

enum scalar_kind scalar_choice(const struct node *node, int *out)
{
    bool value = false;
    enum scalar_kind kind;

    node = node_value(node);
    if (readable(node) && strcasecmp(node->text, "auto") == 0) {
        *out = 2;
        return SCALAR_GOOD;
    }
    kind = scalar_bool(node, &value);
    *out = value;
    return kind;
}

static size_t digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* Match [0-9]* [. [0-9]*] [e [+-] [0-9]+] with a digit before or after the point. */
static bool is_decimal(const char *text)
{
    size_t whole = digits(text), part = 0;

    text += whole;
    if (*text == '.') {
        part = digits(++text);
        text += part;
    }
    if (whole + part == 0)
        return false;
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '+' || *text == '-';
        if (digits(text) == 0)
            return false;
        text += digits(text);
    }
    return *text == 0;
}

/* Read 1_000.5 without its underscores. */
static bool read_underscores(const char *text, double *out)
{
    char plain[64];
    size_t len = 0;

    if (!isdigit((unsigned char)text[0]) || strlen(text) >= sizeof(plain))
        return false;
    for (; *text; text++)
        if (*text != '_')
            plain[len++] = *text;
    plain[len] = 0;
    if (!is_decimal(plain))
        return false;
    *out = strtod(plain, NULL);
    return true;
}

/* Read 12:30 in base 60, as YAML 1.1 does: 750. */
static bool read_sexagesimal(const char *text, double *out)
{
    double value = 0;
    bool more = false;

    for (;;) {
        size_t len = digits(text);
        long part = strtol(text, NULL, 10);

        if (len == 0 || len > 9 || (more && (len > 2 || part > 59)))
            return false;
        value = 60 * value + (double)part;
        text += len;
        if (*text == 0)
            break;
        if (*text++ != ':')
            return false;
        more = true;
    }
    *out = value;
    return more;
}

/* Read 017, 0o17, 0x1f, 0b11. */
static bool read_other_base(const char *text, double *out)
{
    const char *start;
    char *end;
    int base;

    if (text[0] != '0')
        return false;
    base = text[1] == 'x' ? 16 : text[1] == 'b' ? 2 : 8;
    start = text + (text[1] == 'x' || text[1] == 'b' || text[1] == 'o' ? 2 : 1);
    if (!isxdigit((unsigned char)*start))
        return false;
    *out = (double)strtoull(start, &end, base);
    return *end == 0;
}

/* A number with leading zeros is octal in YAML 1.1 and decimal in YAML 1.2. */
static bool has_leading_zero(const char *text)
{
    return text[0] == '0' && isdigit((unsigned char)text[1]) && text[digits(text)] == 0;
}

static enum scalar_kind read_number(const char *text, double *out)
{
    double sign = 1;

    if (strcasecmp(text, ".nan") == 0) {
        *out = NAN;
        return SCALAR_GOOD;
    }
    if (*text == '-' || *text == '+')
        sign = *text++ == '-' ? -1 : 1;
    if (strcasecmp(text, ".inf") == 0) {
        *out = sign * INFINITY;
        return SCALAR_GOOD;
    }
    if (has_leading_zero(text)) {
        if (!read_other_base(text, out))
            *out = strtod(text, NULL);
        *out *= sign;
        return SCALAR_YAML11;
    }
    if (is_decimal(text)) {
        *out = sign * strtod(text, NULL);
        return SCALAR_GOOD;
    }
    if (read_other_base(text, out) || read_underscores(text, out) ||
        read_sexagesimal(text, out)) {
        *out *= sign;
        return text[0] == '0' && text[1] == 'x' ? SCALAR_GOOD : SCALAR_YAML11;
    }
    return SCALAR_WRONG;
}

enum scalar_kind scalar_number(const struct node *node, double *out)
{
    enum scalar_kind kind;

    node = node_value(node);
    if (!readable(node))
        return SCALAR_WRONG;
    kind = read_number(node->text, out);
    return kind == SCALAR_GOOD ? quoted_or(node, kind) : kind;
}

enum scalar_kind scalar_size(const struct node *node)
{
    static const struct device any = { 0 };
    struct error ignored = { 0 };
    uint64_t bytes;
    bool good;

    node = node_value(node);
    good = readable(node) && memory_limit(node->text, &any, &bytes, &ignored);
    error_clear(&ignored);
    return good ? SCALAR_GOOD : SCALAR_WRONG;
}

enum scalar_kind scalar_seconds(const struct node *node, double *out)
{
    static const struct {
        char letter;
        double seconds;
    } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
    char *end;

    node = node_value(node);
    if (!readable(node))
        return SCALAR_WRONG;
    if (is_decimal(node->text)) {
        *out = strtod(node->text, NULL);
        return quoted_or(node, SCALAR_GOOD);
    }
    if (!isdigit((unsigned char)node->text[0]))
        return SCALAR_WRONG;
    *out = strtod(node->text, &end);
    for (size_t i = 0; i < TS_COUNT(units); i++)
        if (end[0] == units[i].letter && end[1] == 0) {
            *out *= units[i].seconds;
            return SCALAR_GOOD;
        }
    return SCALAR_WRONG;
}

const char *scalar_print(double value, struct arena *arena)
{
    char text[64];

    if (isnan(value))
        return ".nan";
    if (isinf(value))
        return value > 0 ? ".inf" : "-.inf";
    if (fabs(value) <= 1e15 && value == floor(value)) {
        snprintf(text, sizeof(text), "%.0f", value);
        return arena_strdup(arena, text);
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(text, sizeof(text), "%.*g", precision, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return arena_strdup(arena, text);
}
