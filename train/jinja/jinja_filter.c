/* train/jinja/jinja_filter.c - the filters of single values: strings, numbers, JSON. */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/jinja/jinja_call.h"
#include "train/jinja/jinja_format.h"
#include "train/jinja/jinja_print.h"
#include "train/jinja/jinja_string.h"
#include "train/jinja/jinja_text.h"

static struct jinja_value filter_case(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    struct jinja_value string = jinja_str(run, &call->self);

    return jinja_failed(run) ? string
                             : jinja_case(run, &string, (enum jinja_case)call->variant);
}

static struct jinja_value filter_trim(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    struct jinja_value string = jinja_str(run, &call->self);
    const struct jinja_value *chars = &call->args[0];

    if (jinja_failed(run))
        return string;
    if (chars->kind == JINJA_ABSENT || chars->kind == JINJA_NONE)
        return jinja_strip(run, &string, NULL, SIDE_BOTH);
    return chars->kind == JINJA_STRING ? jinja_strip(run, &string, chars, SIDE_BOTH)
                                       : jinja_fail(run, "strip arg must be None or str");
}

static struct jinja_value filter_string(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    return jinja_str(run, &call->self);
}

static struct jinja_value filter_safe(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    struct jinja_value string = jinja_str(run, &call->self);

    string.is_escaped = true;
    return string;
}

struct jinja_value jinja_escape(struct jinja_run *run, const struct jinja_value *value)
{
    static const char plain[] = "&<>'\"";
    static const char *const named[] = { "&amp;", "&lt;", "&gt;", "&#39;", "&#34;" };
    struct jinja_value string = jinja_str(run, value), escaped;
    struct text text;

    text_init(&text, 0);
    jinja_work(run, 4 * (size_t)string.len);
    for (size_t i = 0; !jinja_failed(run) && i < string.len; i++) {
        const char *known = string.text[i] ? strchr(plain, string.text[i]) : NULL;

        if (known)
            text_adds(&text, named[known - plain]);
        else
            text_addc(&text, string.text[i]);
    }
    escaped = jinja_take(run, &text);
    escaped.is_escaped = true;
    text_clear(&text);
    return escaped;
}

/* variant: whether a text that is escaped is escaped again. */
static struct jinja_value filter_escape(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    bool done = call->self.kind == JINJA_STRING && call->self.is_escaped;

    return done && !call->variant ? call->self : jinja_escape(run, &call->self);
}

static struct jinja_value filter_replace(struct jinja_run *run,
                                         const struct jinja_call *call)
{
    struct jinja_value string = jinja_str(run, &call->self);
    struct jinja_value old = jinja_str(run, &call->args[0]);
    struct jinja_value new = jinja_str(run, &call->args[1]);
    int64_t limit =
        call->args[2].kind == JINJA_NONE ? -1 : jinja_arg_int(run, &call->args[2], -1);

    return jinja_failed(run) ? string : jinja_replace(run, &string, &old, &new, limit);
}

static struct jinja_value filter_default(struct jinja_run *run,
                                         const struct jinja_call *call)
{
    bool missing = call->self.kind == JINJA_UNDEFINED ||
                   (jinja_arg_truth(&call->args[1], false) && !jinja_truth(&call->self));

    (void)run;
    if (!missing)
        return call->self;
    return call->args[0].kind == JINJA_ABSENT ? JINJA_TEXT("") : call->args[0];
}

static struct jinja_value filter_length(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    return jinja_int(jinja_length(run, &call->self));
}

static struct jinja_value filter_tojson(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    struct jinja_json_style style = {
        .ascii = jinja_arg_truth(&call->args[0], false),
        .sorted = jinja_arg_truth(&call->args[3], false),
    };

    if (call->args[1].kind == JINJA_INT || call->args[1].kind == JINJA_STRING)
        style.indent = &call->args[1];
    if (call->args[2].kind > JINJA_NONE)
        style.separators = &call->args[2];
    return jinja_to_json(run, &call->self, &style);
}

/* This many blanks, or the string itself. */
static struct jinja_value indentation(struct jinja_run *run,
                                      const struct jinja_value *arg)
{
    struct jinja_value blank = JINJA_TEXT(" "), width;

    if (arg->kind == JINJA_STRING)
        return *arg;
    width = jinja_int(jinja_arg_int(run, arg, 4));
    return jinja_failed(run) ? blank : jinja_arithmetic(run, OP_MULTIPLY, &blank, &width);
}

static struct jinja_value filter_indent(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    struct jinja_value indent = indentation(run, &call->args[0]), lines, value;
    bool first = jinja_arg_truth(&call->args[1], false);
    bool blank = jinja_arg_truth(&call->args[2], false);
    struct jinja_value newline = JINJA_TEXT("\n"), ended;
    struct text text;

    ended = jinja_failed(run) ? newline
                              : jinja_arithmetic(run, OP_ADD, &call->self, &newline);
    lines = jinja_failed(run) ? newline : jinja_lines(run, &ended, false);
    if (jinja_failed(run))
        return newline;
    text_init(&text, 0);
    for (size_t i = 0; i < lines.list->count && jinja_work(run, indent.len); i++) {
        const struct jinja_value *line = &lines.list->items[i];

        if (i > 0)
            text_addc(&text, '\n');
        if (i == 0 ? first : blank || line->len > 0)
            text_add(&text, indent.text, indent.len);
        text_add(&text, line->text, line->len);
    }
    value = jinja_take(run, &text);
    text_clear(&text);
    return value;
}

/* Parse a number as Python's int() and float() do; false if it is invalid. */
static bool read_number(struct jinja_run *run, const struct jinja_value *string, int base,
                        bool real, struct jinja_value *out)
{
    struct jinja_value text = jinja_strip(run, string, NULL, SIDE_BOTH);
    char digits[64], *end;
    size_t len = 0;

    for (size_t i = 0; i < text.len && len + 1 < sizeof(digits); i++)
        if (text.text[i] != '_' || i == 0 || text.text[i - 1] == '_' || i + 1 == text.len)
            digits[len++] = text.text[i];
    digits[len] = 0;
    if (len == 0 || len + 1 == sizeof(digits) || strlen(digits) != len ||
        strcspn(digits, "xXpP(") < (base == 16 ? 0 : len))
        return false;
    errno = 0;
    *out =
        real ? jinja_real(strtod(digits, &end)) : jinja_int(strtoll(digits, &end, base));
    return *end == 0 && end != digits && (errno == 0 || real);
}

static struct jinja_value to_int(struct jinja_run *run, double real,
                                 const struct jinja_value *default_value)
{
    if (isnan(real) || isinf(real))
        return default_value->kind == JINJA_ABSENT ? jinja_int(0) : *default_value;
    if (fabs(real) >= 9.2e18)
        return jinja_fail(run, "an integer exceeds 64 bits");
    return jinja_int((int64_t)real);
}

static struct jinja_value filter_int(struct jinja_run *run, const struct jinja_call *call)
{
    int64_t base = jinja_arg_int(run, &call->args[1], 10);
    struct jinja_value number;

    if (jinja_is_number(&call->self))
        return call->self.kind == JINJA_REAL
                   ? to_int(run, call->self.real, &call->args[0])
                   : jinja_int(jinja_arg_int(run, &call->self, 0));
    if (call->self.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, &call->self);
    if (base == 0)
        return jinja_fail(run, "int with base 0 is not supported");
    if (call->self.kind == JINJA_STRING) {
        if (base >= 2 && base <= 36 &&
            read_number(run, &call->self, (int)base, false, &number))
            return number;
        if (read_number(run, &call->self, 10, true, &number))
            return to_int(run, number.real, &call->args[0]);
    }
    return call->args[0].kind == JINJA_ABSENT ? jinja_int(0) : call->args[0];
}

static struct jinja_value filter_float(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    struct jinja_value number;

    if (call->self.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, &call->self);
    if (jinja_is_number(&call->self))
        return jinja_real(jinja_as_real(&call->self));
    if (call->self.kind == JINJA_STRING &&
        read_number(run, &call->self, 10, true, &number))
        return number;
    return call->args[0].kind == JINJA_ABSENT ? jinja_real(0) : call->args[0];
}

static struct jinja_value filter_abs(struct jinja_run *run, const struct jinja_call *call)
{
    struct jinja_value self = call->self;

    if (!jinja_is_number(&self))
        return self.kind == JINJA_UNDEFINED
                   ? jinja_fail_undefined(run, &self)
                   : jinja_fail(run, "bad operand type for abs(): '%s'",
                                jinja_type(&self));
    if (self.kind == JINJA_REAL)
        return jinja_real(fabs(self.real));
    self = jinja_int(jinja_arg_int(run, &self, 0));
    if (self.integer == INT64_MIN)
        return jinja_fail(run, "an integer exceeds 64 bits");
    return jinja_int(self.integer < 0 ? -self.integer : self.integer);
}

/* Round decimal digits half to even, as Python's round and printf do. */
static struct jinja_value round_common(const struct jinja_value *value, int64_t precision)
{
    char digits[400];
    double power;

    if (value->kind == JINJA_REAL && precision >= 0) {
        snprintf(digits, sizeof(digits), "%.*f", precision > 20 ? 20 : (int)precision,
                 value->real);
        return jinja_real(strtod(digits, NULL));
    }
    if (precision >= 0)
        return jinja_int(value->kind == JINJA_BOOL ? value->truth : value->integer);
    power = pow(10, (double)-precision);
    if (value->kind == JINJA_REAL)
        return jinja_real(nearbyint(value->real / power) * power);
    return jinja_int((int64_t)(nearbyint(jinja_as_real(value) / power) * power));
}

static struct jinja_value filter_round(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    int64_t precision = jinja_arg_int(run, &call->args[0], 0);
    const struct jinja_value *method = &call->args[1];
    double power = pow(10, (double)precision), real;
    struct jinja_value ceil_ = JINJA_TEXT("ceil"), floor_ = JINJA_TEXT("floor"),
                       common = JINJA_TEXT("common");

    if (!jinja_is_number(&call->self))
        return jinja_fail(run, "round requires a number, not %s",
                          jinja_type(&call->self));
    if (precision < -15 || precision > 20)
        return jinja_fail(run, "round must be from -15 to 20 digits, not %lld",
                          (long long)precision);
    if (method->kind == JINJA_ABSENT || jinja_equal(run, method, &common))
        return round_common(&call->self, precision);
    real = jinja_as_real(&call->self) * power;
    if (jinja_equal(run, method, &ceil_))
        return jinja_real((ceil(real) + 0.0) /
                          power); /* no -0.0: in Python these are integers */
    return jinja_equal(run, method, &floor_)
               ? jinja_real((floor(real) + 0.0) / power)
               : jinja_fail(run, "method must be common, ceil or floor");
}

/* Positional arguments as a tuple, or named ones as a dict. */
static struct jinja_value filter_format(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    const struct jinja_arguments *given = call->given;
    struct jinja_value string = jinja_str(run, &call->self);
    struct jinja_value values = jinja_list_new(run, JINJA_TUPLE, given->positional);
    struct jinja_value named = jinja_dict_new(run, JINJA_DICT);

    if (jinja_failed(run))
        return string;
    for (size_t i = 0; i < given->count; i++) {
        if (!given->names[i]) {
            values.list->items[i] = given->values[i];
        } else {
            struct jinja_value name =
                jinja_string(given->names[i], strlen(given->names[i]));

            jinja_dict_set(run, named.dict, &name, &given->values[i]);
        }
    }
    return jinja_format_percent(run, &string, named.dict->count > 0 ? &named : &values);
}

static struct jinja_value filter_center(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    struct jinja_value string = jinja_str(run, &call->self), blank = JINJA_TEXT(" ");
    int64_t width = jinja_arg_int(run, &call->args[0], 80);

    return jinja_failed(run) ? string : jinja_pad(run, &string, width, &blank, SIDE_BOTH);
}

static struct jinja_value filter_attr(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    const struct jinja_builtin *method =
        call->args[0].kind == JINJA_STRING
            ? jinja_method_find(&call->self, call->args[0].text, call->args[0].len)
            : NULL;

    if (method || call->self.kind == JINJA_NAMESPACE || call->self.kind == JINJA_LOOP)
        return jinja_attribute(run, &call->self, &call->args[0]);
    return jinja_undefined(run, &call->self, call->args[0]);
}

static const struct jinja_builtin filters[] = {
    { .name = "upper", .code = filter_case, .variant = CASE_UPPER },
    { .name = "lower", .code = filter_case, .variant = CASE_LOWER },
    { .name = "title", .code = filter_case, .variant = CASE_WORDS },
    { .name = "capitalize", .code = filter_case, .variant = CASE_CAPITALIZE },
    { .name = "trim", .code = filter_trim, .parameters = { "chars" } },
    { .name = "string", .code = filter_string },
    { .name = "safe", .code = filter_safe },
    { .name = "escape", .code = filter_escape },
    { .name = "e", .code = filter_escape },
    { .name = "forceescape", .code = filter_escape, .variant = true },
    { .name = "replace",
      .code = filter_replace,
      .parameters = { "old", "new", "count" },
      .required = 2 },
    { .name = "default",
      .code = filter_default,
      .parameters = { "default_value", "boolean" } },
    { .name = "d", .code = filter_default, .parameters = { "default_value", "boolean" } },
    { .name = "length", .code = filter_length },
    { .name = "count", .code = filter_length },
    { .name = "tojson",
      .code = filter_tojson,
      .parameters = { "ensure_ascii", "indent", "separators", "sort_keys" } },
    { .name = "indent",
      .code = filter_indent,
      .parameters = { "width", "first", "blank" } },
    { .name = "int", .code = filter_int, .parameters = { "default", "base" } },
    { .name = "float", .code = filter_float, .parameters = { "default" } },
    { .name = "abs", .code = filter_abs },
    { .name = "round", .code = filter_round, .parameters = { "precision", "method" } },
    { .name = "format", .code = filter_format, .variadic = true },
    { .name = "center", .code = filter_center, .parameters = { "width" } },
    { .name = "attr", .code = filter_attr, .parameters = { "name" }, .required = 1 },
    { .name = NULL },
};

const struct jinja_builtin *jinja_filter_find(const char *name, size_t len)
{
    const struct jinja_builtin *row = jinja_builtin_find(filters, name, len);

    return row ? row : jinja_filter_list_find(name, len);
}
