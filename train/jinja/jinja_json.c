/* train/jinja/jinja_json.c - tojson as in transformers: Python's json.dumps. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/jinja/jinja_print.h"
#include "train/jinja/jinja_text.h"
#include "train/text/unicode.h"

/* The shortest digits of a number take several attempts. */
enum { REAL_WORK = 1 << 10 };

struct writer {
    struct jinja_run *run;
    struct text text;
    const struct jinja_json_style *style;
    struct jinja_value item, key; /* separators */
    size_t level;
};

static void write_value(struct writer *writer, const struct jinja_value *value);

/* Write a non-ASCII character as \uXXXX, or as a surrogate pair. */
static void write_point(struct text *out, int32_t point)
{
    if (point < 0x10000) {
        text_addf(out, "\\u%04x", (unsigned)point);
        return;
    }
    point -= 0x10000;
    text_addf(out, "\\u%04x\\u%04x", 0xd800u + (unsigned)(point >> 10),
              0xdc00u + (unsigned)(point & 0x3ff));
}

static void write_string(struct writer *writer, const struct jinja_value *string)
{
    static const char plain[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    struct text *out = &writer->text;
    size_t bytes;

    text_addc(out, '"');
    jinja_work(writer->run, 4 * (size_t)string->len);
    for (size_t i = 0; i < string->len && !jinja_failed(writer->run); i += bytes) {
        int32_t point;
        const char *known;

        bytes = unicode_first(string->text + i, string->len - i, &point);
        known = point > 0 && point < 0x80 ? strchr(plain, point) : NULL;
        if (known)
            text_addf(out, "\\%c", letters[known - plain]);
        else if (point < ' ' || (writer->style->ascii && point > 0x7e))
            write_point(out, point);
        else
            text_add(out, string->text + i, bytes);
    }
    text_addc(out, '"');
}

static void write_real(struct writer *writer, double real)
{
    struct text *out = &writer->text;

    jinja_work(writer->run, REAL_WORK);
    if (isnan(real))
        text_adds(out, "NaN");
    else if (isinf(real))
        text_adds(out, real < 0 ? "-Infinity" : "Infinity");
    else
        jinja_add_real(out, real);
}

/* Start a new indented line; nothing without indent. */
static void write_break(struct writer *writer)
{
    const struct jinja_value *indent = writer->style->indent;
    size_t times = indent ? writer->level : 0;

    if (!indent)
        return;
    text_addc(&writer->text, '\n');
    if (indent->kind == JINJA_INT)
        times = indent->integer > 0 ? times * (size_t)indent->integer : 0;
    if (!jinja_work(writer->run, times))
        return;
    while (times-- > 0 && !writer->text.overflow)
        text_add(&writer->text, indent->kind == JINJA_STRING ? indent->text : " ",
                 indent->kind == JINJA_STRING ? indent->len : 1);
}

static void write_list(struct writer *writer, const struct jinja_list *list)
{
    text_addc(&writer->text, '[');
    writer->level++;
    for (size_t i = 0; i < list->count && !jinja_failed(writer->run); i++) {
        if (i > 0)
            text_add(&writer->text, writer->item.text, writer->item.len);
        write_break(writer);
        write_value(writer, &list->items[i]);
    }
    writer->level--;
    if (list->count > 0)
        write_break(writer);
    text_addc(&writer->text, ']');
}

static void write_key(struct writer *writer, const struct jinja_value *key)
{
    if (key->kind == JINJA_STRING) {
        write_string(writer, key);
    } else if (jinja_is_number(key) || key->kind == JINJA_NONE) {
        text_addc(&writer->text, '"');
        write_value(writer, key);
        text_addc(&writer->text, '"');
    } else {
        jinja_fail(writer->run, "keys must be str, int, float, bool or None, not %s",
                   jinja_type(key));
    }
}

/* Sort by key; the keys were checked to be comparable. */
static int compare_entries(const void *a, const void *b, void *run)
{
    const struct jinja_entry *left = a, *right = b;

    return jinja_compare(run, &left->key, &right->key, "<");
}

static const struct jinja_entry *entries_of(struct writer *writer,
                                            const struct jinja_dict *dict)
{
    struct jinja_entry *sorted;

    if (!writer->style->sorted || dict->count == 0)
        return dict->entries;
    sorted = jinja_alloc(writer->run, dict->count, sizeof(*sorted));
    if (!sorted)
        return NULL;
    memcpy(sorted, dict->entries, dict->count * sizeof(*sorted));
    qsort_r(sorted, dict->count, sizeof(*sorted), compare_entries, writer->run);
    return sorted;
}

static void write_dict(struct writer *writer, const struct jinja_dict *dict)
{
    const struct jinja_entry *entries = entries_of(writer, dict);

    text_addc(&writer->text, '{');
    writer->level++;
    for (size_t i = 0; i < dict->count && !jinja_failed(writer->run); i++) {
        if (i > 0)
            text_add(&writer->text, writer->item.text, writer->item.len);
        write_break(writer);
        write_key(writer, &entries[i].key);
        text_add(&writer->text, writer->key.text, writer->key.len);
        write_value(writer, &entries[i].value);
    }
    writer->level--;
    if (dict->count > 0)
        write_break(writer);
    text_addc(&writer->text, '}');
}

static void write_any(struct writer *writer, const struct jinja_value *value)
{
    switch ((enum jinja_kind)value->kind) {
    case JINJA_NONE:
        text_adds(&writer->text, "null");
        break;
    case JINJA_BOOL:
        text_adds(&writer->text, value->truth ? "true" : "false");
        break;
    case JINJA_INT:
        text_addf(&writer->text, "%lld", (long long)value->integer);
        break;
    case JINJA_REAL:
        write_real(writer, value->real);
        break;
    case JINJA_STRING:
        write_string(writer, value);
        break;
    case JINJA_LIST:
    case JINJA_TUPLE:
        write_list(writer, value->list);
        break;
    case JINJA_DICT:
        write_dict(writer, value->dict);
        break;
    default:
        jinja_fail(writer->run, "Object of type %s is not JSON serializable",
                   jinja_type(value));
    }
}

static void write_value(struct writer *writer, const struct jinja_value *value)
{
    size_t before = writer->text.len;

    if (!jinja_enter(writer->run))
        return;
    write_any(writer, value);
    jinja_leave(writer->run);
    jinja_work(writer->run, writer->text.len - before);
}

static bool find_separators(struct writer *writer)
{
    const struct jinja_value *given = writer->style->separators;

    writer->item = writer->style->indent ? JINJA_TEXT(",") : JINJA_TEXT(", ");
    writer->key = JINJA_TEXT(": ");
    if (!given)
        return true;
    if ((given->kind != JINJA_LIST && given->kind != JINJA_TUPLE) ||
        given->list->count != 2 || given->list->items[0].kind != JINJA_STRING ||
        given->list->items[1].kind != JINJA_STRING) {
        jinja_fail(writer->run, "separators of tojson must be two strings");
        return false;
    }
    writer->item = given->list->items[0];
    writer->key = given->list->items[1];
    return true;
}

struct jinja_value jinja_to_json(struct jinja_run *run, const struct jinja_value *value,
                                 const struct jinja_json_style *style)
{
    struct writer writer = { .run = run, .style = style };
    struct jinja_value json = jinja_none();

    text_init(&writer.text, 0);
    if (find_separators(&writer)) {
        write_value(&writer, value);
        json = jinja_take(run, &writer.text);
    }
    text_clear(&writer.text);
    return json;
}
