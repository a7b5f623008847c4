/* train/jinja/jinja_format.c - arithmetic and formatting as in Python. */
#include "config.h"

#include "train/jinja/jinja_format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/jinja/jinja_print.h"
#include "train/jinja/jinja_text.h"

/* Printing a large number takes as long as 4 KiB of text. */
enum { NUMBER_WORK = 4 << 10 };

static const char *const signs[] = {
    [OP_ADD] = "+",           [OP_SUBTRACT] = "-", [OP_MULTIPLY] = "*", [OP_DIVIDE] = "/",
    [OP_FLOOR_DIVIDE] = "//", [OP_MODULO] = "%",   [OP_POWER] = "**",
};

static struct jinja_value fail_overflow(struct jinja_run *run)
{
    return jinja_fail(run, "an integer exceeds 64 bits");
}

static struct jinja_value power_of(struct jinja_run *run, int64_t base, int64_t exponent)
{
    int64_t power = 1;

    if (exponent < 0)
        return base == 0 ? jinja_fail(run, "0.0 cannot be raised to a negative power")
                         : jinja_real(pow((double)base, (double)exponent));
    if (base >= -1 && base <= 1)
        return jinja_int(exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base);
    while (exponent-- > 0)
        if (__builtin_mul_overflow(power, base, &power))
            return fail_overflow(run);
    return jinja_int(power);
}

/* Round toward minus infinity, as Python does. */
static struct jinja_value divide_floor(struct jinja_run *run, enum jinja_op op, int64_t a,
                                       int64_t b)
{
    int64_t rest;

    if (b == 0)
        return jinja_fail(run, "integer division or modulo by zero");
    if (b == -1)
        return op == OP_MODULO  ? jinja_int(0)
               : a == INT64_MIN ? fail_overflow(run)
                                : jinja_int(-a);
    rest = a % b;
    if (op == OP_MODULO)
        return jinja_int(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
    return jinja_int(a / b - (rest != 0 && (rest < 0) != (b < 0)));
}

static struct jinja_value compute_ints(struct jinja_run *run, enum jinja_op op, int64_t a,
                                       int64_t b)
{
    int64_t out = 0;
    bool overflow;

    if (op == OP_POWER)
        return power_of(run, a, b);
    if (op == OP_FLOOR_DIVIDE || op == OP_MODULO)
        return divide_floor(run, op, a, b);
    if (op == OP_DIVIDE)
        return b == 0 ? jinja_fail(run, "division by zero")
                      : jinja_real((double)a / (double)b);
    overflow = op == OP_ADD        ? __builtin_add_overflow(a, b, &out)
               : op == OP_SUBTRACT ? __builtin_sub_overflow(a, b, &out)
                                   : __builtin_mul_overflow(a, b, &out);
    return overflow ? fail_overflow(run) : jinja_int(out);
}

static struct jinja_value compute_reals(struct jinja_run *run, enum jinja_op op, double a,
                                        double b)
{
    double rest;

    if (b == 0 && (op == OP_DIVIDE || op == OP_FLOOR_DIVIDE || op == OP_MODULO))
        return jinja_fail(run, "float division by zero");
    switch (op) {
    case OP_ADD:
        return jinja_real(a + b);
    case OP_SUBTRACT:
        return jinja_real(a - b);
    case OP_MULTIPLY:
        return jinja_real(a * b);
    case OP_DIVIDE:
        return jinja_real(a / b);
    case OP_POWER:
        rest = pow(a, b);
        return (isnan(rest) || isinf(rest)) && isfinite(a) && isfinite(b)
                   ? jinja_fail(run, "** of these numbers is not finite")
                   : jinja_real(rest);
    default:
        rest = fmod(a, b);
        if (rest != 0 && (rest < 0) != (b < 0))
            rest += b;
        else if (rest == 0)
            rest = copysign(0.0, b);
        if (op == OP_MODULO)
            return jinja_real(rest);
        a = (a - rest) / b;
        return jinja_real(a - floor(a) > 0.5 ? floor(a) + 1 : floor(a));
    }
}

static struct jinja_value add_lists(struct jinja_run *run, const struct jinja_value *a,
                                    const struct jinja_value *b)
{
    size_t first = a->list->count, second = b->list->count;
    struct jinja_value sum = jinja_list_new(run, a->kind, first + second);

    if (jinja_failed(run))
        return sum;
    memcpy(sum.list->items, a->list->items, first * sizeof(*sum.list->items));
    memcpy(sum.list->items + first, b->list->items, second * sizeof(*sum.list->items));
    return sum;
}

static struct jinja_value add_strings(struct jinja_run *run, const struct jinja_value *a,
                                      const struct jinja_value *b)
{
    char *sum = jinja_alloc(run, (size_t)a->len + b->len + 1, 1);

    if (!sum)
        return jinja_none();
    memcpy(sum, a->text, a->len);
    memcpy(sum + a->len, b->text, b->len);
    return jinja_string(sum, (size_t)a->len + b->len);
}

static struct jinja_value repeat(struct jinja_run *run, const struct jinja_value *what,
                                 int64_t times)
{
    size_t count = times > 0 ? (size_t)times : 0, len;
    struct jinja_value all;

    if (what->kind == JINJA_STRING) {
        char *text;

        if (!size_mul(count, what->len, &len))
            len = SIZE_MAX;
        text = jinja_alloc(run, len, 1);
        for (size_t i = 0; text && i < len; i += what->len)
            memcpy(text + i, what->text, what->len);
        return text ? jinja_string(text, len) : jinja_none();
    }
    if (!size_mul(count, what->list->count, &len) || len > JINJA_BYTES_MAX)
        len = JINJA_BYTES_MAX;
    all = jinja_list_new(run, what->kind, len);
    for (size_t i = 0; !jinja_failed(run) && i < len; i++)
        all.list->items[i] = what->list->items[i % what->list->count];
    return all;
}

static bool is_sequence(const struct jinja_value *value)
{
    return value->kind == JINJA_STRING || value->kind == JINJA_LIST ||
           value->kind == JINJA_TUPLE;
}

static int64_t integer_of(const struct jinja_value *value)
{
    return value->kind == JINJA_BOOL ? value->truth : value->integer;
}

static bool is_integer(const struct jinja_value *value)
{
    return value->kind == JINJA_BOOL || value->kind == JINJA_INT;
}

struct jinja_value jinja_arithmetic(struct jinja_run *run, enum jinja_op op,
                                    const struct jinja_value *a,
                                    const struct jinja_value *b)
{
    if (a->kind == JINJA_UNDEFINED || b->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a->kind == JINJA_UNDEFINED ? a : b);
    if (is_integer(a) && is_integer(b))
        return compute_ints(run, op, integer_of(a), integer_of(b));
    if (jinja_is_number(a) && jinja_is_number(b))
        return compute_reals(run, op, jinja_as_real(a), jinja_as_real(b));
    if (op == OP_ADD && a->kind == JINJA_STRING && b->kind == JINJA_STRING)
        return add_strings(run, a, b);
    if (op == OP_ADD && a->kind == b->kind && is_sequence(a))
        return add_lists(run, a, b);
    if (op == OP_MULTIPLY && is_sequence(a) && is_integer(b))
        return repeat(run, a, integer_of(b));
    if (op == OP_MULTIPLY && is_integer(a) && is_sequence(b))
        return repeat(run, b, integer_of(a));
    if (op == OP_ADD && a->kind == JINJA_STRING)
        return jinja_fail(run, "can only concatenate str (not \"%s\") to str",
                          jinja_type(b));
    return jinja_fail(run, "unsupported operand type(s) for %s: '%s' and '%s'", signs[op],
                      jinja_type(a), jinja_type(b));
}

/* A conversion with its flags, width and precision; their length is checked. */
struct conversion {
    char spec[16];
    char letter;
    struct jinja_value key; /* of %(key)s; ABSENT: the next value */
};

static void add_number(struct jinja_run *run, struct text *out,
                       const struct conversion *conversion,
                       const struct jinja_value *value)
{
    char format[24];
    double real;

    if (!jinja_is_number(value)) {
        jinja_fail(run, "%%%c format: a real number is required, not %s",
                   conversion->letter, jinja_type(value));
        return;
    }
    jinja_work(run, NUMBER_WORK);
    real = jinja_as_real(value);
    if (conversion->letter != 'd') {
        snprintf(format, sizeof(format), "%%%s%c", conversion->spec, conversion->letter);
        text_addf(out, format, real);
        return;
    }
    snprintf(format, sizeof(format), "%%%slld", conversion->spec);
    if (is_integer(value) || fabs(real) < 9e18)
        text_addf(out, format,
                  (long long)(is_integer(value) ? integer_of(value) : (int64_t)real));
    else
        fail_overflow(run);
}

static void convert(struct jinja_run *run, struct text *out,
                    const struct conversion *conversion, const struct jinja_value *value)
{
    if (conversion->letter == 's' && !conversion->spec[0])
        jinja_add(run, out, value);
    else if (conversion->letter == 'r' && !conversion->spec[0])
        jinja_add_repr(run, out, value);
    else if (strchr("dfeEgG", conversion->letter))
        add_number(run, out, conversion, value);
    else
        jinja_fail(run, "the format %%%s%c is not supported", conversion->spec,
                   conversion->letter);
}

/* Parse a conversion after %; return its bytes, 0 if it is invalid. */
static size_t read_conversion(const char *text, size_t len, struct conversion *out)
{
    size_t at = 0, spec = 0;

    *out = (struct conversion) { .letter = 0 };
    if (len > 0 && text[0] == '(') {
        while (at < len && text[at] != ')')
            at++;
        out->key = jinja_string(text + 1, at - 1);
        at++;
    }
    for (; at < len && text[at] && strchr("-+ 0123456789.", text[at]); at++) {
        if (spec == 6)
            return 0;
        out->spec[spec++] = text[at];
    }
    if (at >= len || !text[at])
        return 0;
    out->letter = text[at] == 'i' ? 'd' : text[at];
    return at + 1;
}

static struct jinja_value next_value(struct jinja_run *run,
                                     const struct jinja_value *values, size_t *used,
                                     const struct conversion *conversion)
{
    const struct jinja_value *found;

    if (conversion->key.kind != JINJA_ABSENT) {
        if (values->kind != JINJA_DICT)
            return jinja_fail(run, "format requires a mapping");
        found = jinja_dict_find(run, values->dict, &conversion->key);
        return found ? *found : jinja_fail(run, "a key of the format is missing");
    }
    if (values->kind != JINJA_TUPLE && *used == 0)
        return (*used)++, *values;
    if (values->kind != JINJA_TUPLE || *used == values->list->count)
        return jinja_fail(run, "not enough arguments for format string");
    return values->list->items[(*used)++];
}

static void format_percent(struct jinja_run *run, struct text *out,
                           const struct jinja_value *format,
                           const struct jinja_value *values)
{
    struct conversion conversion;
    size_t used = 0, count;

    for (size_t i = 0; i < format->len && !jinja_failed(run); i++) {
        size_t read;

        if (format->text[i] != '%') {
            text_addc(out, format->text[i]);
            continue;
        }
        read = read_conversion(format->text + i + 1, format->len - i - 1, &conversion);
        i += read;
        if (read == 0) {
            jinja_fail(run, "a format is incomplete or not supported");
        } else if (conversion.letter == '%') {
            text_addc(out, '%');
        } else {
            struct jinja_value value = next_value(run, values, &used, &conversion);
            size_t before = out->len;

            if (!jinja_failed(run))
                convert(run, out, &conversion, &value);
            jinja_work(run, out->len - before);
        }
    }
    count = values->kind == JINJA_TUPLE
                ? values->list->count
                : values->kind != JINJA_LIST && values->kind != JINJA_DICT &&
                      values->kind != JINJA_UNDEFINED;
    if (!jinja_failed(run) && used < count)
        jinja_fail(run, "not all arguments converted during string formatting");
}

struct jinja_value jinja_format_percent(struct jinja_run *run,
                                        const struct jinja_value *format,
                                        const struct jinja_value *values)
{
    struct jinja_value value;
    struct text text;

    text_init(&text, 0);
    jinja_work(run, 4 * (size_t)format->len);
    format_percent(run, &text, format, values);
    value = jinja_take(run, &text);
    text_clear(&text);
    return value;
}

/* The value for {}, {0} or {name}; fail if there is none. */
static struct jinja_value find_field(struct jinja_run *run, const char *name, size_t len,
                                     const struct jinja_arguments *given, size_t *used)
{
    size_t position = len == 0 ? (*used)++ : 0;

    if (len > 0 && len < 4 && jinja_is_digit(name[0]))
        for (size_t i = 0; i < len; i++)
            position = 10 * position + (size_t)(name[i] - '0');
    else if (len > 0)
        position = SIZE_MAX;
    for (size_t i = 0; i < given->count; i++)
        if (given->names[i] ? strlen(given->names[i]) == len &&
                                  memcmp(given->names[i], name, len) == 0
                            : position-- == 0)
            return given->values[i];
    return jinja_fail(run, "format() has no argument for {%.*s}",
                      len < 40 ? (int)len : 40, name);
}

static void format_braces(struct jinja_run *run, struct text *out,
                          const struct jinja_value *format,
                          const struct jinja_arguments *given)
{
    size_t used = 0;

    for (size_t i = 0; i < format->len && !jinja_failed(run); i++) {
        const char *at = format->text + i, *close;
        bool doubled = i + 1 < format->len && at[1] == at[0];
        struct jinja_value value;

        if ((*at != '{' && *at != '}') || doubled) {
            text_addc(out, *at);
            i += doubled && (*at == '{' || *at == '}');
            continue;
        }
        close = *at == '{' ? memchr(at, '}', format->len - i) : NULL;
        if (!close || memchr(at, ':', (size_t)(close - at)) ||
            memchr(at, '!', (size_t)(close - at)) ||
            memchr(at, '.', (size_t)(close - at))) {
            jinja_fail(run, "format(): only {}, {0} and {name} are supported");
            return;
        }
        jinja_work(run, given->count * JINJA_STEP_BYTES);
        value = find_field(run, at + 1, (size_t)(close - at) - 1, given, &used);
        if (!jinja_failed(run))
            jinja_add(run, out, &value);
        i += (size_t)(close - at);
    }
}

struct jinja_value jinja_format_braces(struct jinja_run *run,
                                       const struct jinja_value *format,
                                       const struct jinja_arguments *given)
{
    struct jinja_value value;
    struct text text;

    text_init(&text, 0);
    jinja_work(run, 4 * (size_t)format->len);
    format_braces(run, &text, format, given);
    value = jinja_take(run, &text);
    text_clear(&text);
    return value;
}
