/* train/jinja/jinja_string.c - Python's string operations. */
#include "config.h"

#include "train/jinja/jinja_string.h"

#include <string.h>

#include <utf8proc.h>

#include "train/jinja/jinja_print.h"
#include "train/jinja/jinja_text.h"
#include "train/text/unicode.h"

static bool is_cased(int32_t point)
{
    return utf8proc_tolower(point) != point || utf8proc_toupper(point) != point;
}

static bool starts_word(int32_t before)
{
    return jinja_is_space(before) || strchr("-({[<", before < 0x80 ? before : 'x');
}

static int32_t convert_case(enum jinja_case how, int32_t point, int32_t before,
                            bool first)
{
    switch (how) {
    case CASE_UPPER:
        return utf8proc_toupper(point);
    case CASE_LOWER:
        return utf8proc_tolower(point);
    case CASE_SWAP:
        return utf8proc_tolower(point) != point ? utf8proc_tolower(point)
                                                : utf8proc_toupper(point);
    case CASE_TITLE:
        first = first || !is_cased(before);
        break;
    case CASE_WORDS:
        first = first || starts_word(before);
        break;
    default:
        break;
    }
    return first ? utf8proc_totitle(point) : utf8proc_tolower(point);
}

struct jinja_value jinja_case(struct jinja_run *run, const struct jinja_value *string,
                              enum jinja_case how)
{
    int32_t before = ' ', point;
    struct jinja_value value;
    struct text text;
    char bytes[4];
    size_t len;

    text_init(&text, 0);
    if (!jinja_work(run, 8 * (size_t)string->len))
        return jinja_none();
    for (size_t i = 0; i < string->len; i += len) {
        len = unicode_first(string->text + i, string->len - i, &point);
        /* a common letter whose uppercase form has two letters */
        if (point == 0xdf && how == CASE_UPPER)
            text_adds(&text, "SS");
        else
            text_add(&text, bytes,
                     unicode_put(convert_case(how, point, before, i == 0), bytes));
        before = point;
    }
    value = jinja_take(run, &text);
    text_clear(&text);
    return value;
}

static bool has_point(struct jinja_run *run, const struct jinja_value *chars,
                      int32_t expected)
{
    int32_t point;

    jinja_work(run, chars->len);
    for (size_t i = 0; i < chars->len && !jinja_failed(run);) {
        i += unicode_first(chars->text + i, chars->len - i, &point);
        if (point == expected)
            return true;
    }
    return false;
}

struct jinja_value jinja_strip(struct jinja_run *run, const struct jinja_value *string,
                               const struct jinja_value *chars, enum jinja_side side)
{
    const char *text = string->text;
    size_t len = string->len, bytes;
    int32_t point;

    while (side & SIDE_LEFT && len > 0) {
        bytes = unicode_first(text, len, &point);
        if (chars ? !has_point(run, chars, point) : !jinja_is_space(point))
            break;
        text += bytes;
        len -= bytes;
    }
    while (side & SIDE_RIGHT && len > 0) {
        bytes = unicode_last(text, len, &point);
        if (chars ? !has_point(run, chars, point) : !jinja_is_space(point))
            break;
        len -= bytes;
    }
    jinja_work(run, 4 * (string->len - len)); /* character by character */
    return jinja_string(text, len);
}

/* An empty `old` matches before every character and at the end. */
static void replace_empty(struct text *out, const struct jinja_value *string,
                          const struct jinja_value *new, int64_t limit)
{
    size_t len;
    int32_t point;

    for (size_t i = 0; i < string->len; i += len) {
        len = unicode_first(string->text + i, string->len - i, &point);
        if (limit != 0) {
            text_add(out, new->text, new->len);
            limit--;
        }
        text_add(out, string->text + i, len);
    }
    if (limit != 0)
        text_add(out, new->text, new->len);
}

struct jinja_value jinja_replace(struct jinja_run *run, const struct jinja_value *string,
                                 const struct jinja_value *old,
                                 const struct jinja_value *new, int64_t limit)
{
    const char *at = string->text, *end = at + string->len, *found;
    struct jinja_value value;
    struct text text;

    text_init(&text, 0);
    if (old->len == 0) {
        replace_empty(&text, string, new, limit);
        at = end;
    }
    while (limit != 0 && old->len > 0 &&
           (found = memmem(at, (size_t)(end - at), old->text, old->len))) {
        text_add(&text, at, (size_t)(found - at));
        text_add(&text, new->text, new->len);
        at = found + old->len;
        limit--;
    }
    text_add(&text, at, (size_t)(end - at));
    jinja_work(run, string->len + text.len);
    value = jinja_take(run, &text);
    text_clear(&text);
    return value;
}

/* A list without room for items only counts them. */
static void add_part(struct jinja_list *list, const char *from, const char *end)
{
    if (list->items)
        list->items[list->count] = jinja_string(from, (size_t)(end - from));
    list->count++;
}

/* What to split, and at most how often; a negative limit is none. */
struct splitting {
    struct jinja_run *run;
    const char *at, *end;
    const struct jinja_value *separator; /* NULL: white space */
    int64_t limit;
    bool from_right;
};

static void split_space(struct jinja_list *list, const struct splitting *how)
{
    const char *at = how->at, *end = how->end;
    int64_t limit = how->limit;

    at += jinja_leading_space(at, (size_t)(end - at));
    while (at < end) {
        const char *word = at;
        size_t len = 0;
        int32_t point;

        if (limit-- == 0) {
            add_part(list, at, end); /* including trailing white space, as in Python */
            return;
        }
        do {
            at += len;
            len = at < end ? unicode_first(at, (size_t)(end - at), &point) : 0;
        } while (len > 0 && !jinja_is_space(point));
        add_part(list, word, at);
        at += jinja_leading_space(at, (size_t)(end - at));
    }
}

static void split_text(struct jinja_list *list, const struct splitting *how)
{
    const struct jinja_value *separator = how->separator;
    const char *at = how->at, *end = how->end, *found;
    int64_t limit = how->limit;

    while (limit-- != 0 &&
           (found = memmem(at, (size_t)(end - at), separator->text, separator->len))) {
        add_part(list, at, found);
        at = found + separator->len;
    }
    add_part(list, at, end);
}

static void reverse(struct jinja_list *list)
{
    for (size_t i = 0; list->items && i < list->count / 2; i++) {
        struct jinja_value swap = list->items[i];

        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = swap;
    }
}

/* Compare at a position of a search from the right. Count the work where the first byte
 * is equal: in a text of equal bytes, each comparison goes far. */
static bool matches(struct jinja_run *run, const char *at, const struct jinja_value *part)
{
    return part->len == 0 || (*at == *part->text && jinja_work(run, part->len) &&
                              memcmp(at, part->text, part->len) == 0);
}

static void split_text_right(struct jinja_list *list, const struct splitting *how)
{
    const char *at = how->at, *end = how->end;
    size_t len = how->separator->len;
    int64_t limit = how->limit;

    for (const char *from = end - len;
         from >= at && limit != 0 && !jinja_failed(how->run);) {
        if (matches(how->run, from, how->separator)) {
            add_part(list, from + len, end);
            end = from;
            limit--;
            if ((size_t)(from - at) < len)
                break;
            from -= len;
        } else {
            from--;
        }
    }
    add_part(list, at, end);
    reverse(list);
}

static void split(struct jinja_list *list, const struct splitting *how)
{
    if (!how->separator)
        split_space(list, how);
    else if (how->from_right && how->separator->len <= (size_t)(how->end - how->at))
        split_text_right(list, how);
    else
        split_text(list, how);
}

struct jinja_value jinja_split(struct jinja_run *run, const struct jinja_value *string,
                               const struct jinja_value *separator, int64_t limit,
                               bool from_right)
{
    const struct splitting how = { .run = run,
                                   .at = string->text,
                                   .end = string->text + string->len,
                                   .separator = separator,
                                   .limit = limit,
                                   .from_right = from_right };
    struct jinja_list counted = { .count = 0 };
    struct jinja_value list;

    if (separator && separator->len == 0)
        return jinja_fail(run, "empty separator");
    if (!jinja_work(run, 2 * (size_t)string->len))
        return jinja_none();
    split(&counted, &how);
    list = jinja_list_new(run, JINJA_LIST, counted.count);
    if (jinja_failed(run))
        return list;
    list.list->count = 0;
    split(list.list, &how);
    return list;
}

/* str.splitlines has more line ends than \n. */
static bool ends_line(int32_t point)
{
    return (point >= '\n' && point <= '\r') || (point >= 0x1c && point <= 0x1e) ||
           point == 0x85 || point == 0x2028 || point == 0x2029;
}

static void split_lines(struct jinja_list *list, const struct jinja_value *string,
                        bool keep_ends)
{
    size_t line = 0, len;
    int32_t point;

    for (size_t i = 0; i < string->len; i += len) {
        len = unicode_first(string->text + i, string->len - i, &point);
        if (!ends_line(point))
            continue;
        if (point == '\r' && i + 1 < string->len && string->text[i + 1] == '\n')
            len = 2;
        add_part(list, string->text + line, string->text + i + (keep_ends ? len : 0));
        line = i + len;
    }
    if (line < string->len)
        add_part(list, string->text + line, string->text + string->len);
}

struct jinja_value jinja_lines(struct jinja_run *run, const struct jinja_value *string,
                               bool keep_ends)
{
    struct jinja_list counted = { .count = 0 };
    struct jinja_value list;

    if (!jinja_work(run, 2 * (size_t)string->len))
        return jinja_none();
    split_lines(&counted, string, keep_ends);
    list = jinja_list_new(run, JINJA_LIST, counted.count);
    if (jinja_failed(run))
        return list;
    list.list->count = 0;
    split_lines(list.list, string, keep_ends);
    return list;
}

int64_t jinja_find(struct jinja_run *run, const struct jinja_value *string,
                   const struct jinja_value *part, bool last)
{
    const char *found = NULL;

    if (!jinja_work(run, string->len) || part->len > string->len)
        return -1;
    if (!last) {
        found = part->len ? memmem(string->text, string->len, part->text, part->len)
                          : string->text;
        return found ? found - string->text : -1;
    }
    for (size_t i = string->len - part->len + 1; i-- > 0 && !jinja_failed(run);)
        if (matches(run, string->text + i, part))
            return (int64_t)i;
    return -1;
}

struct jinja_value jinja_join(struct jinja_run *run, const struct jinja_value *separator,
                              const struct jinja_list *items, bool convert)
{
    struct jinja_value value;
    struct text text;

    text_init(&text, 0);
    for (size_t i = 0; i < items->count && !jinja_failed(run); i++) {
        struct jinja_value item = items->items[i];

        if (!convert && item.kind != JINJA_STRING) {
            jinja_fail(run, "sequence item %zu: expected str instance, %s found", i,
                       jinja_type(&item));
            break;
        }
        if (i > 0)
            text_add(&text, separator->text, separator->len);
        jinja_work(run, separator->len);
        jinja_add(run, &text, &item);
    }
    value = jinja_take(run, &text);
    text_clear(&text);
    return value;
}

struct jinja_value jinja_pad(struct jinja_run *run, const struct jinja_value *string,
                             int64_t width, const struct jinja_value *fill,
                             enum jinja_side side)
{
    int64_t missing = width - jinja_length(run, string), left;
    struct jinja_value value;
    struct text text;

    if (jinja_failed(run) || missing <= 0)
        return *string;
    left = side == SIDE_BOTH ? missing / 2 + (missing & width & 1)
                             : (side == SIDE_LEFT ? missing : 0);
    if (missing > (int64_t)JINJA_BYTES_MAX / 8)
        return jinja_fail(run, "a width of %lld is too large", (long long)width);
    text_init(&text, 0);
    jinja_work(run, 4 * (size_t)missing * fill->len);
    for (int64_t i = 0; i < left && !jinja_failed(run); i++)
        text_add(&text, fill->text, fill->len);
    text_add(&text, string->text, string->len);
    for (int64_t i = left; i < missing && !jinja_failed(run); i++)
        text_add(&text, fill->text, fill->len);
    value = jinja_take(run, &text);
    text_clear(&text);
    return value;
}

static bool has_class(int32_t point, enum jinja_class class)
{
    utf8proc_category_t category = utf8proc_category(point);
    bool alpha = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;

    switch (class) {
    case CLASS_ALPHA:
        return alpha;
    case CLASS_DIGIT:
        return category == UTF8PROC_CATEGORY_ND;
    case CLASS_ALNUM:
        return alpha || unicode_is_numeric(point);
    case CLASS_SPACE:
        return jinja_is_space(point);
    default:
        return false;
    }
}

/* All characters are of the class; for upper and lower, all that have a case, and at
 * least one has. */
bool jinja_is_class(struct jinja_run *run, const struct jinja_value *string,
                    enum jinja_class class)
{
    bool cases = class == CLASS_UPPER || class == CLASS_LOWER, cased = false;
    int32_t point;

    if (!jinja_work(run, 8 * (size_t)string->len))
        return false;
    for (size_t i = 0; i < string->len;) {
        i += unicode_first(string->text + i, string->len - i, &point);
        if (!cases && !has_class(point, class))
            return false;
        if (!cases || !is_cased(point))
            continue;
        cased = true;
        if ((class == CLASS_UPPER ? utf8proc_toupper(point) : utf8proc_tolower(point)) !=
            point)
            return false;
    }
    return cases ? cased : string->len > 0;
}
