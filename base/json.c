/* base/json.c - JSON: jansson parses; our own writer prints 0.1 as 0.1. */
#include "config.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static const char byte_order_mark[] = "\xef\xbb\xbf";

static json_t *load(const char *data, size_t len, size_t flags, json_error_t *why)
{
    return json_loadb(data, len,
                      flags | JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
                      why);
}

static json_t *load_any(const char *data, size_t len, bool loose, json_error_t *why)
{
    json_t *value = load(data, len, 0, why);

    if (!value && loose && json_error_code(why) == json_error_numeric_overflow)
        value = load(data, len, JSON_DECODE_INT_AS_REAL, why);
    return value;
}

/* Replace the infinities outside strings by a number of as many characters, so that the
 * positions in errors stay. */
static void replace_infinities(char *data, size_t len)
{
    static const char name[] = "Infinity", number[] = "1.7e+308";
    const size_t width = sizeof(name) - 1;
    bool inside = false;

    for (size_t i = 0; i < len; i++) {
        if (!inside && len - i >= width && memcmp(data + i, name, width) == 0)
            memcpy(data + i, number, width);
        else if (inside && data[i] == '\\')
            i++;
        else if (data[i] == '"')
            inside = !inside;
    }
}

static json_t *read_any(const char *data, size_t len, bool loose, json_error_t *why)
{
    json_t *value = load_any(data, len, loose, why);
    struct text copy;

    if (value || !loose || !memmem(data, len, "Infinity", 8))
        return value;
    text_init(&copy, 0);
    text_add(&copy, data, len);
    replace_infinities(copy.data, len);
    value = load_any(copy.data, len, loose, why);
    text_clear(&copy);
    return value;
}

/* The name of a text and the line it begins on, for errors. */
struct origin {
    const char *name;
    uint32_t line;
    bool loose;
};

static json_t *read_text(const char *data, size_t len, const struct origin *origin,
                         struct error *err)
{
    size_t skip = len >= 3 && memcmp(data, byte_order_mark, 3) == 0 ? 3 : 0;
    json_error_t why;
    json_t *value = read_any(data + skip, len - skip, origin->loose, &why);
    struct mark at = { .line = origin->line, .column = 1 };

    if (value)
        return value;
    if (why.line > 0)
        at.line += (uint32_t)why.line - 1;
    if (why.column > 0)
        at.column = (uint32_t)why.column;
    if (why.position > 0)
        at.byte = skip + (size_t)why.position;
    if (why.text[0])
        error_at(err, ERROR_DATA, origin->name, at, "invalid JSON: %s", why.text);
    else /* Jansson has no words for this */
        error_set(err, ERROR_DATA, "%s: not enough memory for its JSON", origin->name);
    return NULL;
}

json_t *json_read_text(const char *data, size_t len, const char *name, uint32_t line,
                       struct error *err)
{
    return read_text(data, len, &(struct origin) { name, line, false }, err);
}

json_t *json_read_loose(const char *data, size_t len, const char *name, uint32_t line,
                        struct error *err)
{
    return read_text(data, len, &(struct origin) { name, line, true }, err);
}

static json_t *read_file(const char *name, size_t max, bool loose, struct error *err)
{
    struct text text;
    json_t *value = NULL;

    text_init(&text, max);
    if (file_read(name, max, &text, NULL, err))
        value = read_text(text.data, text.len, &(struct origin) { name, 1, loose }, err);
    text_clear(&text);
    return value;
}

json_t *json_read_file(const char *name, size_t max, struct error *err)
{
    return read_file(name, max, false, err);
}

json_t *json_read_loose_file(const char *name, size_t max, struct error *err)
{
    return read_file(name, max, true, err);
}

json_t *json_number(double value)
{
    if (isnan(value))
        return json_string("NaN");
    if (isinf(value))
        return json_string(value > 0 ? "Infinity" : "-Infinity");
    return json_real(value);
}

json_t *json_visible(const char *data, size_t len)
{
    struct text shown;
    json_t *value;

    if (text_is_utf8(data, len, NULL))
        return json_stringn(data, len);
    text_init(&shown, 0);
    text_add_visible(&shown, data, len);
    value = json_string(shown.data);
    text_clear(&shown);
    return value;
}

/* Return how many bytes at the start of a string need no escape. */
static size_t plain_bytes(const char *string, size_t len)
{
    size_t n = 0;

    while (n < len && (unsigned char)string[n] >= 0x20 && string[n] != 0x7f &&
           string[n] != '"' && string[n] != '\\')
        n++;
    return n;
}

void json_add_string(struct text *out, const char *string, size_t len)
{
    static const char special[] = "\b\f\n\r\t\"\\", escape[] = "bfnrt\"\\";

    text_addc(out, '"');
    for (size_t i = 0; i < len; i++) {
        size_t plain = plain_bytes(string + i, len - i);
        const char *at;

        text_add(out, string + i, plain);
        i += plain;
        if (i == len)
            break;
        at = string[i] ? strchr(special, string[i]) : NULL;
        if (at)
            text_addf(out, "\\%c", escape[at - special]);
        else
            text_addf(out, "\\u%04x", (unsigned char)string[i]);
    }
    text_addc(out, '"');
}

void json_add_integer(struct text *out, int64_t value)
{
    uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;
    char digits[24], *at = digits + sizeof(digits);

    do
        *--at = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (value < 0)
        *--at = '-';
    text_add(out, at, (size_t)(digits + sizeof(digits) - at));
}

void json_add_real(struct text *out, double value)
{
    char digits[40];

    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof(digits), "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    text_adds(out, digits);
    if (!strpbrk(digits, ".e"))
        text_adds(out, ".0");
}

/* Writer state: output text, and spaces per level, 0 for one line. */
struct writer {
    struct text *out;
    int indent, level;
};

static bool write_value(struct writer *writer, const json_t *value);

static void write_break(struct writer *writer)
{
    if (writer->indent > 0)
        text_addf(writer->out, "\n%*s", writer->indent * writer->level, "");
}

static bool write_array(struct writer *writer, const json_t *array)
{
    size_t count = json_array_size(array);
    bool ok = true;

    text_addc(writer->out, '[');
    writer->level++;
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            text_addc(writer->out, ',');
        write_break(writer);
        ok = write_value(writer, json_array_get(array, i)) && ok;
    }
    writer->level--;
    if (count > 0)
        write_break(writer);
    text_addc(writer->out, ']');
    return ok;
}

static bool write_object(struct writer *writer, const json_t *object)
{
    /* jansson iterates over an object through a non-const pointer, without changing it */
    json_t *walked = (json_t *)object;
    const char *key;
    json_t *value;
    bool first = true, ok = true;

    text_addc(writer->out, '{');
    writer->level++;
    json_object_foreach(walked, key, value)
    {
        if (!first)
            text_addc(writer->out, ',');
        first = false;
        write_break(writer);
        json_add_string(writer->out, key, strlen(key));
        text_adds(writer->out, writer->indent > 0 ? ": " : ":");
        ok = write_value(writer, value) && ok;
    }
    writer->level--;
    if (!first)
        write_break(writer);
    text_addc(writer->out, '}');
    return ok;
}

static bool write_value(struct writer *writer, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return write_object(writer, value);
    case JSON_ARRAY:
        return write_array(writer, value);
    case JSON_STRING:
        json_add_string(writer->out, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        json_add_integer(writer->out, json_integer_value(value));
        break;
    case JSON_REAL:
        json_add_real(writer->out, json_real_value(value));
        break;
    case JSON_TRUE:
        text_adds(writer->out, "true");
        break;
    case JSON_FALSE:
        text_adds(writer->out, "false");
        break;
    case JSON_NULL:
        text_adds(writer->out, "null");
        break;
    }
    return !writer->out->overflow;
}

bool json_write(const json_t *value, struct text *out)
{
    return write_value(&(struct writer) { .out = out }, value);
}

bool json_write_pretty(const json_t *value, struct text *out)
{
    return write_value(&(struct writer) { .out = out, .indent = 2 }, value) &&
           text_addc(out, '\n');
}

/* Return the member if present, not null, and of the expected type. */
static const json_t *member(const json_t *object, const char *key,
                            bool is_wanted(const json_t *), const char *wanted,
                            const char *where, struct error *err)
{
    const json_t *value = json_object_get(object, key);

    if (!value || json_is_null(value))
        return NULL;
    if (is_wanted(value))
        return value;
    error_set(err, ERROR_DATA, "%s: %s must be %s", where, key, wanted);
    return NULL;
}

static bool is_integer(const json_t *value)
{
    return json_is_integer(value);
}

static bool is_number(const json_t *value)
{
    return json_is_number(value);
}

static bool is_boolean(const json_t *value)
{
    return json_is_boolean(value);
}

static bool is_string(const json_t *value)
{
    return json_is_string(value) &&
           !memchr(json_string_value(value), 0, json_string_length(value));
}

int64_t json_get_int(const json_t *object, const char *key, int64_t default_value,
                     const char *where, struct error *err)
{
    const json_t *value = member(object, key, is_integer, "an integer", where, err);

    return value ? json_integer_value(value) : default_value;
}

double json_get_real(const json_t *object, const char *key, double default_value,
                     const char *where, struct error *err)
{
    const json_t *value = member(object, key, is_number, "a number", where, err);

    return value ? json_number_value(value) : default_value;
}

bool json_get_bool(const json_t *object, const char *key, bool default_value,
                   const char *where, struct error *err)
{
    const json_t *value = member(object, key, is_boolean, "true or false", where, err);

    return value ? json_is_true(value) : default_value;
}

bool json_get_flag(const json_t *object, const char *key, bool default_value,
                   const char *where, struct error *err)
{
    return !json_is_null(json_object_get(object, key)) &&
           json_get_bool(object, key, default_value, where, err);
}

const char *json_get_string(const json_t *object, const char *key,
                            const char *default_value, const char *where,
                            struct error *err)
{
    const json_t *value = member(object, key, is_string, "a string", where, err);

    return value ? json_string_value(value) : default_value;
}
