/* train/jinja/jinja_value.c - creation, comparison and access of values. */
#include "config.h"

#include "train/jinja/jinja_value.h"

#include <stdlib.h>
#include <string.h>

#include "train/text/unicode.h"

static const char *const types[JINJA_KINDS] = {
    [JINJA_ABSENT] = "absent",     [JINJA_UNDEFINED] = "Undefined",
    [JINJA_NONE] = "NoneType",     [JINJA_BOOL] = "bool",
    [JINJA_INT] = "int",           [JINJA_REAL] = "float",
    [JINJA_STRING] = "str",        [JINJA_LIST] = "list",
    [JINJA_TUPLE] = "tuple",       [JINJA_RANGE] = "range",
    [JINJA_VIEW] = "dict view",    [JINJA_ITERATOR] = "generator",
    [JINJA_DICT] = "dict",         [JINJA_NAMESPACE] = "Namespace",
    [JINJA_FUNCTION] = "function", [JINJA_LOOP] = "LoopContext",
};

const char *jinja_type(const struct jinja_value *value)
{
    return types[value->kind];
}

struct jinja_value jinja_none(void)
{
    return (struct jinja_value) { .kind = JINJA_NONE };
}

struct jinja_value jinja_bool(bool truth)
{
    return (struct jinja_value) { .kind = JINJA_BOOL, .truth = truth };
}

struct jinja_value jinja_int(int64_t integer)
{
    return (struct jinja_value) { .kind = JINJA_INT, .integer = integer };
}

struct jinja_value jinja_real(double real)
{
    return (struct jinja_value) { .kind = JINJA_REAL, .real = real };
}

struct jinja_value jinja_string(const char *data, size_t len)
{
    return (
        struct jinja_value) { .kind = JINJA_STRING, .len = (uint32_t)len, .text = data };
}

struct jinja_value jinja_copy(struct jinja_run *run, const char *data, size_t len)
{
    char *copy = jinja_alloc(run, len + 1, 1);

    if (!copy)
        return jinja_none();
    if (len > 0)
        memcpy(copy, data, len);
    return jinja_string(copy, len);
}

struct jinja_value jinja_take(struct jinja_run *run, struct text *text)
{
    struct jinja_value value;

    if (text->overflow)
        value = jinja_fail(run, "a text has more than %zu bytes", text->max);
    else
        value = jinja_copy(run, text->data, text->len);
    text_reset(text);
    return value;
}

struct jinja_value jinja_list_new(struct jinja_run *run, enum jinja_kind kind,
                                  size_t count)
{
    struct jinja_value value = { .kind = (uint8_t)kind };

    value.list = jinja_alloc(run, 1, sizeof(*value.list));
    if (!value.list)
        return jinja_none();
    value.list->items = jinja_alloc(run, count + 1, sizeof(*value.list->items));
    value.list->count = value.list->items ? count : 0;
    return value;
}

struct jinja_value jinja_pair(struct jinja_run *run, struct jinja_value a,
                              struct jinja_value b)
{
    struct jinja_value pair = jinja_list_new(run, JINJA_TUPLE, 2);

    if (jinja_failed(run))
        return jinja_none();
    pair.list->items[0] = a;
    pair.list->items[1] = b;
    return pair;
}

struct jinja_value jinja_dict_new(struct jinja_run *run, enum jinja_kind kind)
{
    struct jinja_value value = { .kind = (uint8_t)kind };

    value.dict = jinja_alloc(run, 1, sizeof(*value.dict));
    return value.dict ? value : jinja_none();
}

struct jinja_value jinja_undefined(struct jinja_run *run,
                                   const struct jinja_value *object,
                                   struct jinja_value name)
{
    struct jinja_value value = name;

    if (name.kind == JINJA_INT && object) {
        char hint[96];
        int len = snprintf(hint, sizeof(hint), "%s object has no element %lld",
                           jinja_type(object), (long long)name.integer);

        value = jinja_copy(run, hint, (size_t)len);
        value.is_message = true;
    } else if (name.kind != JINJA_STRING) {
        value = JINJA_TEXT("there is no such element");
        value.is_message = true;
    }
    if (jinja_failed(run))
        return jinja_none();
    value.kind = JINJA_UNDEFINED;
    value.object = object ? object->kind : JINJA_ABSENT;
    return value;
}

struct jinja_value jinja_undefined_hint(const char *hint)
{
    struct jinja_value value = jinja_string(hint, strlen(hint));

    value.kind = JINJA_UNDEFINED;
    value.is_message = true;
    return value;
}

static struct jinja_value list_from_json(struct jinja_run *run, const json_t *json)
{
    struct jinja_value list = jinja_list_new(run, JINJA_LIST, json_array_size(json));

    for (size_t i = 0; !jinja_failed(run) && i < list.list->count; i++)
        list.list->items[i] = jinja_from_json(run, json_array_get(json, i));
    return list;
}

static struct jinja_value dict_from_json(struct jinja_run *run, const json_t *json)
{
    struct jinja_value dict = jinja_dict_new(run, JINJA_DICT);
    size_t room = json_object_size(json), len;
    const char *key;
    json_t *value;

    if (jinja_failed(run))
        return dict;
    dict.dict->entries = jinja_alloc(run, room + 1, sizeof(*dict.dict->entries));
    dict.dict->room = dict.dict->entries ? room : 0;
    json_object_keylen_foreach((json_t *)json, key, len, value)
    {
        struct jinja_entry entry = { jinja_copy(run, key, len),
                                     jinja_from_json(run, value) };

        if (jinja_failed(run))
            return jinja_none();
        dict.dict->entries[dict.dict->count++] = entry;
    }
    return dict;
}

struct jinja_value jinja_from_json(struct jinja_run *run, const json_t *json)
{
    struct jinja_value value = jinja_none();

    if (!jinja_enter(run))
        return value;
    if (json_is_object(json))
        value = dict_from_json(run, json);
    else if (json_is_array(json))
        value = list_from_json(run, json);
    else if (json_is_string(json))
        value = jinja_copy(run, json_string_value(json), json_string_length(json));
    else if (json_is_integer(json))
        value = jinja_int(json_integer_value(json));
    else if (json_is_real(json))
        value = jinja_real(json_real_value(json));
    else if (json_is_boolean(json))
        value = jinja_bool(json_is_true(json));
    jinja_leave(run);
    return value;
}

bool jinja_truth(const struct jinja_value *value)
{
    switch ((enum jinja_kind)value->kind) {
    case JINJA_BOOL:
        return value->truth;
    case JINJA_INT:
        return value->integer != 0;
    case JINJA_REAL:
        return value->real != 0;
    case JINJA_STRING:
        return value->len > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_VIEW:
        return value->list->count > 0;
    case JINJA_DICT:
        return value->dict->count > 0;
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    default:
        return true;
    }
}

bool jinja_is_number(const struct jinja_value *value)
{
    return value->kind == JINJA_BOOL || value->kind == JINJA_INT ||
           value->kind == JINJA_REAL;
}

double jinja_as_real(const struct jinja_value *number)
{
    if (number->kind == JINJA_REAL)
        return number->real;
    return number->kind == JINJA_BOOL ? number->truth : (double)number->integer;
}

static int64_t integer_of(const struct jinja_value *number)
{
    return number->kind == JINJA_BOOL ? number->truth : number->integer;
}

static int compare_numbers(const struct jinja_value *a, const struct jinja_value *b)
{
    if (a->kind == JINJA_REAL || b->kind == JINJA_REAL) {
        double left = jinja_as_real(a), right = jinja_as_real(b);

        return left < right ? -1 : left > right;
    }
    return integer_of(a) < integer_of(b) ? -1 : integer_of(a) > integer_of(b);
}

static bool equal_lists(struct jinja_run *run, const struct jinja_list *a,
                        const struct jinja_list *b)
{
    bool equal = a->count == b->count && jinja_enter(run);

    if (!equal)
        return false;
    for (size_t i = 0; i < a->count && equal; i++)
        equal = jinja_equal(run, &a->items[i], &b->items[i]);
    jinja_leave(run);
    return equal;
}

static bool equal_dicts(struct jinja_run *run, const struct jinja_dict *a,
                        const struct jinja_dict *b)
{
    bool equal = a->count == b->count && jinja_enter(run);

    if (!equal)
        return false;
    for (size_t i = 0; i < a->count && equal; i++) {
        const struct jinja_value *other = jinja_dict_find(run, b, &a->entries[i].key);

        equal = other && jinja_equal(run, &a->entries[i].value, other);
    }
    jinja_leave(run);
    return equal;
}

bool jinja_equal(struct jinja_run *run, const struct jinja_value *a,
                 const struct jinja_value *b)
{
    if (!jinja_work(run, 0))
        return false;
    if (jinja_is_number(a) && jinja_is_number(b))
        return !(a->kind == JINJA_REAL && a->real != a->real) &&
               !(b->kind == JINJA_REAL && b->real != b->real) &&
               compare_numbers(a, b) == 0;
    if (a->kind != b->kind)
        return false;
    switch ((enum jinja_kind)a->kind) {
    case JINJA_STRING:
        return a->len == b->len && jinja_work(run, a->len) &&
               memcmp(a->text, b->text, a->len) == 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
        return equal_lists(run, a->list, b->list);
    case JINJA_DICT:
        return equal_dicts(run, a->dict, b->dict);
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return true;
    default:
        return a->list == b->list;
    }
}

static int compare_strings(struct jinja_run *run, const struct jinja_value *a,
                           const struct jinja_value *b)
{
    size_t len = a->len < b->len ? a->len : b->len;
    int order = jinja_work(run, len) ? memcmp(a->text, b->text, len) : 0;

    return order != 0 ? order : a->len < b->len ? -1 : a->len > b->len;
}

static int compare_lists(struct jinja_run *run, const struct jinja_list *a,
                         const struct jinja_list *b, const char *sign)
{
    size_t common = a->count < b->count ? a->count : b->count;
    int order = a->count < b->count ? -1 : a->count > b->count;

    if (!jinja_enter(run))
        return 0;
    for (size_t i = 0; i < common && !jinja_failed(run); i++)
        if (!jinja_equal(run, &a->items[i], &b->items[i])) {
            order = jinja_compare(run, &a->items[i], &b->items[i], sign);
            break;
        }
    jinja_leave(run);
    return order;
}

int jinja_compare(struct jinja_run *run, const struct jinja_value *a,
                  const struct jinja_value *b, const char *sign)
{
    if (!jinja_work(run, 0))
        return 0;
    if (jinja_is_number(a) && jinja_is_number(b))
        return compare_numbers(a, b);
    if (a->kind == JINJA_STRING && b->kind == JINJA_STRING)
        return compare_strings(run, a, b);
    if (a->kind == b->kind && (a->kind == JINJA_LIST || a->kind == JINJA_TUPLE))
        return compare_lists(run, a->list, b->list, sign);
    jinja_fail(run, "'%s' not supported between instances of '%s' and '%s'", sign,
               jinja_type(a), jinja_type(b));
    return 0;
}

static bool text_contains(struct jinja_run *run, const struct jinja_value *all,
                          const struct jinja_value *one)
{
    if (one->kind != JINJA_STRING) {
        jinja_fail(run, "'in <string>' requires string as left operand, not %s",
                   jinja_type(one));
        return false;
    }
    return jinja_work(run, all->len) &&
           (one->len == 0 || memmem(all->text, all->len, one->text, one->len));
}

bool jinja_contains(struct jinja_run *run, const struct jinja_value *all,
                    const struct jinja_value *one)
{
    struct jinja_list items;

    if (all->kind == JINJA_STRING)
        return text_contains(run, all, one);
    if (all->kind == JINJA_DICT)
        return jinja_dict_find(run, all->dict, one);
    items = jinja_items(run, all);
    for (size_t i = 0; i < items.count && !jinja_failed(run); i++)
        if (jinja_equal(run, &items.items[i], one))
            return true;
    return false;
}

bool jinja_is_hashable(struct jinja_run *run, const struct jinja_value *key)
{
    bool fine = key->kind != JINJA_LIST && key->kind != JINJA_DICT;

    if (key->kind == JINJA_TUPLE && jinja_enter(run)) {
        for (size_t i = 0; i < key->list->count && fine; i++)
            fine = jinja_is_hashable(run, &key->list->items[i]);
        jinja_leave(run);
    }
    return fine && !jinja_failed(run);
}

const struct jinja_value *jinja_dict_find(struct jinja_run *run,
                                          const struct jinja_dict *dict,
                                          const struct jinja_value *key)
{
    if (key->kind != JINJA_STRING && !jinja_is_hashable(run, key)) {
        jinja_fail(run, "unhashable type: '%s'", jinja_type(key));
        return NULL;
    }
    for (size_t i = 0; i < dict->count && jinja_work(run, 0); i++) {
        const struct jinja_value *other = &dict->entries[i].key;
        bool texts = other->kind == JINJA_STRING && key->kind == JINJA_STRING;

        /* the length is compared first, and most keys are short */
        if (texts ? other->len == key->len && jinja_work(run, key->len) &&
                        memcmp(other->text, key->text, key->len) == 0
                  : jinja_equal(run, other, key))
            return &dict->entries[i].value;
    }
    return NULL;
}

static bool make_room(struct jinja_run *run, struct jinja_dict *dict)
{
    size_t room = dict->room ? 2 * dict->room : 8;
    struct jinja_entry *entries;

    if (dict->count < dict->room)
        return true;
    entries = jinja_alloc(run, room, sizeof(*entries));
    if (!entries)
        return false;
    if (dict->count > 0)
        memcpy(entries, dict->entries, dict->count * sizeof(*entries));
    dict->entries = entries;
    dict->room = room;
    return true;
}

void jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict,
                    const struct jinja_value *key, const struct jinja_value *value)
{
    struct jinja_value *found = (struct jinja_value *)jinja_dict_find(run, dict, key);

    if (jinja_failed(run))
        return;
    if (found)
        *found = *value;
    else if (make_room(run, dict))
        dict->entries[dict->count++] = (struct jinja_entry) { *key, *value };
}

/* The characters of a string as a list. */
static struct jinja_list characters(struct jinja_run *run,
                                    const struct jinja_value *value)
{
    struct jinja_value list = jinja_list_new(run, JINJA_LIST, value->len);
    size_t at = 0, count = 0;

    if (jinja_failed(run))
        return (struct jinja_list) { .count = 0 };
    while (at < value->len) {
        int32_t point;
        size_t len = unicode_first(value->text + at, value->len - at, &point);

        list.list->items[count++] = jinja_string(value->text + at, len);
        at += len;
    }
    list.list->count = count;
    return *list.list;
}

static struct jinja_list take_remaining(struct jinja_list *iterator)
{
    struct jinja_list rest = { .items = iterator->items + iterator->next,
                               .count = iterator->count - iterator->next };

    iterator->next = iterator->count;
    return rest;
}

bool jinja_is_iterable(const struct jinja_value *value)
{
    return value->kind == JINJA_UNDEFINED || value->kind == JINJA_LOOP ||
           (value->kind >= JINJA_STRING && value->kind <= JINJA_DICT);
}

struct jinja_list jinja_items(struct jinja_run *run, const struct jinja_value *value)
{
    switch ((enum jinja_kind)value->kind) {
    case JINJA_UNDEFINED:
        break;
    case JINJA_STRING:
        return characters(run, value);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_VIEW:
        return *value->list;
    case JINJA_ITERATOR:
        return take_remaining(value->list);
    case JINJA_DICT: {
        struct jinja_value keys = jinja_view(run, value->dict, "dict_keys");

        if (!jinja_failed(run))
            return *keys.list;
        break;
    }
    default:
        jinja_fail(run, "'%s' object is not iterable", jinja_type(value));
    }
    return (struct jinja_list) { .count = 0 };
}

static int64_t count_characters(struct jinja_run *run, const struct jinja_value *value)
{
    int64_t count = 0;

    if (!jinja_work(run, value->len))
        return -1;
    for (size_t i = 0; i < value->len; i++)
        count += ((unsigned char)value->text[i] & 0xc0) != 0x80;
    return count;
}

int64_t jinja_length(struct jinja_run *run, const struct jinja_value *value)
{
    switch ((enum jinja_kind)value->kind) {
    case JINJA_UNDEFINED:
        return 0;
    case JINJA_STRING:
        return count_characters(run, value);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_VIEW:
        return (int64_t)value->list->count;
    case JINJA_DICT:
        return (int64_t)value->dict->count;
    case JINJA_LOOP:
        return (int64_t)value->loop->items->count;
    default:
        jinja_fail(run, "object of type '%s' has no len()", jinja_type(value));
        return -1;
    }
}

struct jinja_value jinja_view(struct jinja_run *run, const struct jinja_dict *dict,
                              const char *label)
{
    struct jinja_value view = jinja_list_new(run, JINJA_VIEW, dict->count);
    bool values = strcmp(label, "dict_values") == 0,
         items = strcmp(label, "dict_items") == 0;

    if (jinja_failed(run))
        return view;
    view.list->label = label;
    for (size_t i = 0; i < dict->count && !jinja_failed(run); i++) {
        const struct jinja_entry *entry = &dict->entries[i];

        view.list->items[i] = items    ? jinja_pair(run, entry->key, entry->value)
                              : values ? entry->value
                                       : entry->key;
    }
    return view;
}
