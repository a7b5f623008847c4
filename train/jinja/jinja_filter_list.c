/* train/jinja/jinja_filter_list.c - the filters of lists and dicts. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "train/jinja/jinja_call.h"
#include "train/jinja/jinja_format.h"
#include "train/jinja/jinja_print.h"
#include "train/jinja/jinja_string.h"
#include "train/jinja/jinja_text.h"

/* The input of map, select and similar filters: false values are empty. */
static struct jinja_list items_if_true(struct jinja_run *run,
                                       const struct jinja_value *value)
{
    return jinja_truth(value) ? jinja_items(run, value)
                              : (struct jinja_list) { .count = 0 };
}

/* A list with capacity for `room` items and count 0, which the filter increases. */
static struct jinja_value empty_list(struct jinja_run *run, enum jinja_kind kind,
                                     size_t room)
{
    struct jinja_value list = jinja_list_new(run, kind, room);

    if (!jinja_failed(run))
        list.list->count = 0;
    return list;
}

static void push(struct jinja_value *list, const struct jinja_value *item)
{
    list->list->items[list->list->count++] = *item;
}

/* One part of a path: digits are an index. */
static struct jinja_value path_part(const char *text, size_t len)
{
    int64_t index = 0;

    for (size_t i = 0; i < len; i++) {
        if (!jinja_is_digit(text[i]) || i > 9)
            return jinja_string(text, len);
        index = 10 * index + (text[i] - '0');
    }
    return len > 0 ? jinja_int(index) : jinja_string(text, len);
}

/* item.a.0.b for the path "a.0.b"; the item itself without a path. The default replaces
 * an undefined value. */
static struct jinja_value get_path(struct jinja_run *run, struct jinja_value item,
                                   const struct jinja_value *path,
                                   const struct jinja_value *default_value)
{
    size_t at = 0, len;

    jinja_work(run, path->kind == JINJA_STRING ? path->len : 0);
    if (path->kind == JINJA_INT)
        return jinja_item(run, &item, path);
    for (; path->kind == JINJA_STRING && at <= path->len && !jinja_failed(run);
         at += len + 1) {
        const char *dot = memchr(path->text + at, '.', path->len - at);
        struct jinja_value part;

        len = dot ? (size_t)(dot - path->text) - at : path->len - at;
        part = path_part(path->text + at, len);
        item = jinja_item(run, &item, &part);
        if (default_value && default_value->kind > JINJA_NONE &&
            item.kind == JINJA_UNDEFINED)
            item = *default_value;
    }
    return item;
}

static struct jinja_value fold_case(struct jinja_run *run, struct jinja_value value,
                                    bool case_sensitive)
{
    return case_sensitive || value.kind != JINJA_STRING || jinja_failed(run)
               ? value
               : jinja_case(run, &value, CASE_LOWER);
}

static struct jinja_value filter_list(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    struct jinja_list items = jinja_items(run, &call->self);
    struct jinja_value list = jinja_list_new(run, JINJA_LIST, items.count);

    if (!jinja_failed(run) && items.count > 0)
        memcpy(list.list->items, items.items, items.count * sizeof(*items.items));
    return list;
}

static struct jinja_value filter_first(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    struct jinja_list items;

    if (call->self.kind == JINJA_ITERATOR) {
        struct jinja_list *list = call->self.list;

        if (list->next < list->count)
            return list->items[list->next++];
    }
    items = jinja_items(run, &call->self);
    return items.count > 0 && !jinja_failed(run)
               ? items.items[0]
               : jinja_undefined_hint("No first item, sequence was empty.");
}

static struct jinja_value filter_last(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    struct jinja_list items;

    if (call->self.kind == JINJA_ITERATOR)
        return jinja_fail(run, "'generator' object is not reversible");
    items = jinja_items(run, &call->self);
    return items.count > 0 && !jinja_failed(run)
               ? items.items[items.count - 1]
               : jinja_undefined_hint("No last item, sequence was empty.");
}

static struct jinja_value filter_join(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    struct jinja_value separator =
        call->args[0].kind == JINJA_ABSENT ? JINJA_TEXT("") : call->args[0];
    struct jinja_list items = jinja_items(run, &call->self);
    struct jinja_value parts = empty_list(run, JINJA_LIST, items.count);

    separator = jinja_str(run, &separator);
    for (size_t i = 0; i < items.count && !jinja_failed(run); i++) {
        struct jinja_value part = get_path(run, items.items[i], &call->args[1], NULL);

        push(&parts, &part);
    }
    return jinja_failed(run) ? jinja_none()
                             : jinja_join(run, &separator, parts.list, true);
}

static struct jinja_value filter_items(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    struct jinja_value view;

    if (call->self.kind == JINJA_UNDEFINED)
        return empty_list(run, JINJA_ITERATOR, 0);
    if (call->self.kind != JINJA_DICT)
        return jinja_fail(run, "Can only get item pairs from a mapping.");
    view = jinja_view(run, call->self.dict, "dict_items");
    view.kind = JINJA_ITERATOR;
    return view;
}

static struct jinja_value filter_reverse(struct jinja_run *run,
                                         const struct jinja_call *call)
{
    struct jinja_list items = jinja_items(run, &call->self);
    struct jinja_value list = empty_list(run, JINJA_ITERATOR, items.count), empty;

    for (size_t i = items.count; i-- > 0 && !jinja_failed(run);)
        push(&list, &items.items[i]);
    if (call->self.kind != JINJA_STRING || jinja_failed(run))
        return list;
    empty = JINJA_TEXT("");
    return jinja_join(run, &empty, list.list, true);
}

/* A stable sort by keys stored next to the items. */
struct sorting {
    struct jinja_run *run;
    bool reverse;
};

struct sorted {
    struct jinja_value key, item;
    size_t index;
};

static int compare_sorted(const void *a, const void *b, void *context)
{
    const struct sorting *sorting = context;
    const struct sorted *left = a, *right = b;
    int order = jinja_failed(sorting->run)
                    ? 0
                    : jinja_compare(sorting->run, &left->key, &right->key, "<");

    if (order != 0)
        return sorting->reverse ? -order : order;
    return left->index < right->index ? -1 : left->index > right->index;
}

static struct jinja_value sort_by(struct jinja_run *run, struct sorted *list,
                                  size_t count, bool reverse)
{
    struct sorting sorting = { run, reverse };
    struct jinja_value sorted = empty_list(run, JINJA_LIST, count);

    if (jinja_failed(run))
        return sorted;
    qsort_r(list, count, sizeof(*list), compare_sorted, &sorting);
    for (size_t i = 0; i < count; i++)
        push(&sorted, &list[i].item);
    return sorted;
}

/* "a,b.c": a tuple with the value of each path; Python compares lists of them. */
static struct jinja_value sort_key(struct jinja_run *run, const struct jinja_value *item,
                                   const struct jinja_value *paths, bool case_sensitive)
{
    struct jinja_value comma = JINJA_TEXT(","), parts, key;

    if (paths->kind != JINJA_STRING)
        return fold_case(run, get_path(run, *item, paths, NULL), case_sensitive);
    parts = jinja_split(run, paths, &comma, -1, false);
    key = empty_list(run, JINJA_LIST, jinja_failed(run) ? 0 : parts.list->count);
    for (size_t i = 0; !jinja_failed(run) && i < parts.list->count; i++) {
        struct jinja_value part = fold_case(
            run, get_path(run, *item, &parts.list->items[i], NULL), case_sensitive);

        push(&key, &part);
    }
    return key;
}

static struct jinja_value filter_sort(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    struct jinja_list items = jinja_items(run, &call->self);
    bool case_sensitive = jinja_arg_truth(&call->args[1], false);
    struct sorted *list = jinja_alloc(run, items.count + 1, sizeof(*list));

    for (size_t i = 0; i < items.count && !jinja_failed(run); i++)
        list[i] = (struct sorted) {
            sort_key(run, &items.items[i], &call->args[2], case_sensitive),
            items.items[i],
            i,
        };
    return sort_by(run, list, items.count, jinja_arg_truth(&call->args[0], false));
}

static struct jinja_value filter_dictsort(struct jinja_run *run,
                                          const struct jinja_call *call)
{
    struct jinja_value by_value = JINJA_TEXT("value"), view;
    bool values = jinja_equal(run, &call->args[1], &by_value);
    struct sorted *list;

    if (call->self.kind != JINJA_DICT)
        return jinja_fail(run, "dictsort requires a mapping, not %s",
                          jinja_type(&call->self));
    view = jinja_view(run, call->self.dict, "dict_items");
    list = jinja_alloc(run, call->self.dict->count + 1, sizeof(*list));
    for (size_t i = 0; !jinja_failed(run) && i < view.list->count; i++)
        list[i] = (struct sorted) {
            fold_case(run, view.list->items[i].list->items[values],
                      jinja_arg_truth(&call->args[0], false)),
            view.list->items[i],
            i,
        };
    return sort_by(run, list, jinja_failed(run) ? 0 : view.list->count,
                   jinja_arg_truth(&call->args[2], false));
}

static struct jinja_value filter_unique(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    struct jinja_list items = jinja_items(run, &call->self);
    struct jinja_value list = empty_list(run, JINJA_ITERATOR, items.count);
    struct jinja_value seen = jinja_dict_new(run, JINJA_DICT);

    for (size_t i = 0; i < items.count && !jinja_failed(run); i++) {
        struct jinja_value key =
            fold_case(run, get_path(run, items.items[i], &call->args[1], NULL),
                      jinja_arg_truth(&call->args[0], false));

        if (jinja_failed(run) || jinja_dict_find(run, seen.dict, &key))
            continue;
        jinja_dict_set(run, seen.dict, &key, &key);
        push(&list, &items.items[i]);
    }
    return list;
}

/* variant: -1 for the minimum, 1 for the maximum. */
static struct jinja_value filter_extreme(struct jinja_run *run,
                                         const struct jinja_call *call)
{
    struct jinja_list items = jinja_items(run, &call->self);
    bool case_sensitive = jinja_arg_truth(&call->args[0], false);
    int sign = call->variant;
    struct jinja_value best = jinja_none(), key, best_key = jinja_none();

    if (items.count == 0 && !jinja_failed(run))
        return jinja_undefined_hint("No aggregated item, sequence was empty.");
    for (size_t i = 0; i < items.count && !jinja_failed(run); i++) {
        key = fold_case(run, get_path(run, items.items[i], &call->args[1], NULL),
                        case_sensitive);
        if (i > 0 &&
            sign * jinja_compare(run, &key, &best_key, sign < 0 ? "<" : ">") <= 0)
            continue;
        best = items.items[i];
        best_key = key;
    }
    return best;
}

static struct jinja_value filter_sum(struct jinja_run *run, const struct jinja_call *call)
{
    struct jinja_list items = jinja_items(run, &call->self);
    struct jinja_value sum =
        call->args[1].kind == JINJA_ABSENT ? jinja_int(0) : call->args[1];

    for (size_t i = 0; i < items.count && !jinja_failed(run); i++) {
        struct jinja_value item = get_path(run, items.items[i], &call->args[0], NULL);

        if (!jinja_failed(run))
            sum = jinja_arithmetic(run, OP_ADD, &sum, &item);
    }
    return sum;
}

/* Lists of `size` items; the last one is padded if there is a fill value. */
static struct jinja_value filter_batch(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    struct jinja_list items = jinja_items(run, &call->self);
    int64_t size = jinja_arg_int(run, &call->args[0], 1);
    struct jinja_value all = empty_list(run, JINJA_ITERATOR, items.count), row;
    size_t width;

    if (jinja_failed(run) || size < 1)
        return jinja_fail(run, "batch requires a size of at least 1");
    for (size_t i = 0; i < items.count && !jinja_failed(run); i += width) {
        bool full = items.count - i >= (size_t)size;
        bool filled = !full && call->args[1].kind > JINJA_NONE;

        width = full ? (size_t)size : items.count - i;
        row = jinja_list_new(run, JINJA_LIST, filled ? (size_t)size : width);
        for (size_t k = 0; !jinja_failed(run) && k < row.list->count; k++)
            row.list->items[k] = k < width ? items.items[i + k] : call->args[1];
        push(&all, &row);
    }
    return all;
}

static struct jinja_value filter_slice(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    struct jinja_list items = jinja_items(run, &call->self);
    int64_t slices = jinja_arg_int(run, &call->args[0], 1);
    struct jinja_value all;
    size_t at = 0;

    if (jinja_failed(run) || slices < 1)
        return jinja_fail(run, "slice requires a number of at least 1");
    all = empty_list(run, JINJA_ITERATOR, (size_t)slices);
    for (size_t i = 0; i < (size_t)slices && !jinja_failed(run); i++) {
        bool extra = i < items.count % (size_t)slices;
        size_t width = items.count / (size_t)slices + extra;
        bool filled = !extra && call->args[1].kind > JINJA_NONE;
        struct jinja_value row = jinja_list_new(run, JINJA_LIST, width + filled);

        for (size_t k = 0; !jinja_failed(run) && k < row.list->count; k++)
            row.list->items[k] = k < width ? items.items[at + k] : call->args[1];
        at += width;
        push(&all, &row);
    }
    return all;
}

/* A named argument of map(attribute=..., default=...), or NULL. */
static const struct jinja_value *named_argument(const struct jinja_arguments *given,
                                                const char *name)
{
    for (size_t i = 0; i < given->count; i++)
        if (given->names[i] && strcmp(given->names[i], name) == 0)
            return &given->values[i];
    return NULL;
}

/* The arguments after the first `from` positional ones. */
static struct jinja_arguments skip_positional(const struct jinja_arguments *given,
                                              size_t from)
{
    return (struct jinja_arguments) { .values = given->values + from,
                                      .names = given->names + from,
                                      .count = given->count - from,
                                      .positional = given->positional - from };
}

static struct jinja_value filter_map(struct jinja_run *run, const struct jinja_call *call)
{
    const struct jinja_arguments *given = call->given;
    const struct jinja_value *path = named_argument(given, "attribute"),
                             *name = given->values;
    struct jinja_list items = items_if_true(run, &call->self);
    struct jinja_value list = empty_list(run, JINJA_ITERATOR, items.count), item;
    const struct jinja_builtin *filter = NULL;
    struct jinja_arguments rest = { 0 };

    if (given->positional > 0) {
        path = NULL;
        filter =
            name->kind == JINJA_STRING ? jinja_filter_find(name->text, name->len) : NULL;
        rest = skip_positional(given, 1);
    }
    if (!path && !filter)
        return jinja_fail(run, "map requires the name of a filter, or attribute=");
    for (size_t i = 0; i < items.count && !jinja_failed(run); i++) {
        item = path
                   ? get_path(run, items.items[i], path, named_argument(given, "default"))
                   : jinja_invoke(run, filter, &items.items[i], &rest);
        push(&list, &item);
    }
    return list;
}

/* select and reject by a test; selectattr and rejectattr by a test of an attribute. */
static struct jinja_value select_items(struct jinja_run *run,
                                       const struct jinja_call *call, bool by_part,
                                       bool expected)
{
    const struct jinja_arguments *given = call->given;
    struct jinja_list items = items_if_true(run, &call->self);
    struct jinja_value list = empty_list(run, JINJA_ITERATOR, items.count);
    const struct jinja_builtin *test = NULL;
    struct jinja_arguments rest = { 0 };

    if (by_part && given->positional == 0)
        return jinja_fail(run, "Missing parameter for attribute name");
    if (given->positional > by_part) {
        const struct jinja_value *name = &given->values[by_part];

        test = name->kind == JINJA_STRING ? jinja_test_find(name->text, name->len) : NULL;
        if (!test)
            return jinja_fail(run, "there is no test of this name");
        rest = skip_positional(given, by_part + 1u);
    }
    for (size_t i = 0; i < items.count && !jinja_failed(run); i++) {
        struct jinja_value part =
            by_part ? get_path(run, items.items[i], given->values, NULL) : items.items[i];

        if (test && !jinja_failed(run))
            part = jinja_invoke(run, test, &part, &rest);
        if (!jinja_failed(run) && jinja_truth(&part) == expected)
            push(&list, &items.items[i]);
    }
    return list;
}

static struct jinja_value filter_select(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    return select_items(run, call, false, true);
}

static struct jinja_value filter_reject(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    return select_items(run, call, false, false);
}

static struct jinja_value filter_selectattr(struct jinja_run *run,
                                            const struct jinja_call *call)
{
    return select_items(run, call, true, true);
}

static struct jinja_value filter_rejectattr(struct jinja_run *run,
                                            const struct jinja_call *call)
{
    return select_items(run, call, true, false);
}

static const struct jinja_builtin filters[] = {
    { .name = "list", .code = filter_list },
    { .name = "first", .code = filter_first },
    { .name = "last", .code = filter_last },
    { .name = "join", .code = filter_join, .parameters = { "d", "attribute" } },
    { .name = "items", .code = filter_items },
    { .name = "reverse", .code = filter_reverse },
    { .name = "sort",
      .code = filter_sort,
      .parameters = { "reverse", "case_sensitive", "attribute" } },
    { .name = "dictsort",
      .code = filter_dictsort,
      .parameters = { "case_sensitive", "by", "reverse" } },
    { .name = "unique",
      .code = filter_unique,
      .parameters = { "case_sensitive", "attribute" } },
    { .name = "min",
      .code = filter_extreme,
      .variant = -1,
      .parameters = { "case_sensitive", "attribute" } },
    { .name = "max",
      .code = filter_extreme,
      .variant = 1,
      .parameters = { "case_sensitive", "attribute" } },
    { .name = "sum", .code = filter_sum, .parameters = { "attribute", "start" } },
    { .name = "batch",
      .code = filter_batch,
      .parameters = { "linecount", "fill_with" },
      .required = 1 },
    { .name = "slice",
      .code = filter_slice,
      .parameters = { "slices", "fill_with" },
      .required = 1 },
    { .name = "map", .code = filter_map, .variadic = true },
    { .name = "select", .code = filter_select, .variadic = true },
    { .name = "reject", .code = filter_reject, .variadic = true },
    { .name = "selectattr", .code = filter_selectattr, .variadic = true },
    { .name = "rejectattr", .code = filter_rejectattr, .variadic = true },
    { .name = NULL },
};

const struct jinja_builtin *jinja_filter_list_find(const char *name, size_t len)
{
    return jinja_builtin_find(filters, name, len);
}
