/* train/jinja/jinja_method.c - methods of strings, dicts, lists and loops. Methods that
 * change a value in place (list.append) are refused, as in transformers' sandbox. */
#include "config.h"

#include <string.h>

#include "train/jinja/jinja_call.h"
#include "train/jinja/jinja_format.h"
#include "train/jinja/jinja_print.h"
#include "train/jinja/jinja_string.h"

/* An argument that must be a string; NULL if it is absent or none, or on failure. */
static const struct jinja_value *string_of(struct jinja_run *run,
                                           const struct jinja_value *arg)
{
    if (arg->kind == JINJA_ABSENT || arg->kind == JINJA_NONE)
        return NULL;
    if (arg->kind == JINJA_STRING)
        return arg;
    jinja_fail(run, "must be str, not %s", jinja_type(arg));
    return NULL;
}

static struct jinja_value method_strip(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    const struct jinja_value *chars = string_of(run, &call->args[0]);

    return jinja_failed(run)
               ? jinja_none()
               : jinja_strip(run, &call->self, chars, (enum jinja_side)call->variant);
}

static struct jinja_value method_split(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    const struct jinja_value *separator = string_of(run, &call->args[0]);
    int64_t limit = jinja_arg_int(run, &call->args[1], -1);
    bool from_right = call->variant == SIDE_RIGHT;

    if (from_right && !separator && limit >= 0)
        return jinja_fail(run, "rsplit() at white space with a maximum is not supported");
    return jinja_failed(run)
               ? jinja_none()
               : jinja_split(run, &call->self, separator, limit, from_right);
}

static struct jinja_value method_splitlines(struct jinja_run *run,
                                            const struct jinja_call *call)
{
    return jinja_lines(run, &call->self, jinja_arg_truth(&call->args[0], false));
}

static bool has_end(const struct jinja_value *string, const struct jinja_value *part,
                    int side)
{
    return part->len <= string->len &&
           memcmp(side == SIDE_LEFT ? string->text
                                    : string->text + string->len - part->len,
                  part->text, part->len) == 0;
}

/* A string, or a tuple of strings. */
static struct jinja_value method_ends(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    const struct jinja_value *part = &call->args[0];
    size_t count = part->kind == JINJA_TUPLE ? part->list->count : 1;

    if (call->args[1].kind != JINJA_ABSENT)
        return jinja_fail(run, "startswith() and endswith() with a position: not "
                               "supported");
    for (size_t i = 0; i < count; i++) {
        const struct jinja_value *one =
            part->kind == JINJA_TUPLE ? &part->list->items[i] : part;

        if (!jinja_arg_string(run, one) || !jinja_work(run, one->len))
            return jinja_none();
        if (has_end(&call->self, one, call->variant))
            return jinja_bool(true);
    }
    return jinja_bool(false);
}

static struct jinja_value method_remove_end(struct jinja_run *run,
                                            const struct jinja_call *call)
{
    struct jinja_value self = call->self;
    const struct jinja_value *part = &call->args[0];

    if (!jinja_arg_string(run, part) || !has_end(&self, part, call->variant))
        return self;
    return jinja_string(self.text + (call->variant == SIDE_LEFT ? part->len : 0),
                        self.len - part->len);
}

static struct jinja_value method_case(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    return jinja_case(run, &call->self, (enum jinja_case)call->variant);
}

static struct jinja_value method_replace(struct jinja_run *run,
                                         const struct jinja_call *call)
{
    int64_t limit = jinja_arg_int(run, &call->args[2], -1);

    if (!jinja_arg_string(run, &call->args[0]) || !jinja_arg_string(run, &call->args[1]))
        return jinja_none();
    return jinja_replace(run, &call->self, &call->args[0], &call->args[1], limit);
}

/* Convert a byte position to characters. */
static struct jinja_value method_find(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    struct jinja_value before = call->self;
    int64_t at;

    if (!jinja_arg_string(run, &call->args[0]))
        return jinja_none();
    at = jinja_find(run, &call->self, &call->args[0], call->variant == SIDE_RIGHT);
    if (at < 0)
        return jinja_int(-1);
    before.len = (uint32_t)at;
    return jinja_int(jinja_length(run, &before));
}

static struct jinja_value method_index(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    struct jinja_value at = method_find(run, call);

    return !jinja_failed(run) && at.integer < 0 ? jinja_fail(run, "substring not found")
                                                : at;
}

static struct jinja_value method_count(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    struct jinja_value rest = call->self;
    int64_t count = 0, at;

    if (!jinja_arg_string(run, &call->args[0]))
        return jinja_none();
    if (call->args[0].len == 0)
        return jinja_int(jinja_length(run, &rest) + 1);
    while ((at = jinja_find(run, &rest, &call->args[0], false)) >= 0) {
        rest.text += (size_t)at + call->args[0].len;
        rest.len -= (uint32_t)at + call->args[0].len;
        count++;
    }
    return jinja_int(count);
}

static struct jinja_value method_join(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    struct jinja_list items = jinja_items(run, &call->args[0]);

    return jinja_failed(run) ? jinja_none() : jinja_join(run, &call->self, &items, false);
}

static struct jinja_value method_format(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    return jinja_format_braces(run, &call->self, call->given);
}

static struct jinja_value method_pad(struct jinja_run *run, const struct jinja_call *call)
{
    struct jinja_value fill = call->args[1];
    int64_t width = jinja_arg_int(run, &call->args[0], 0);

    if (fill.kind == JINJA_ABSENT)
        fill = JINJA_TEXT(" ");
    if (!jinja_arg_string(run, &fill))
        return jinja_none();
    if (jinja_length(run, &fill) != 1)
        return jinja_fail(run, "The fill character must be exactly one character long");
    return jinja_pad(run, &call->self, width, &fill, (enum jinja_side)call->variant);
}

/* (before, separator, after); without the separator, the whole text and two empty
 * ones. */
static struct jinja_value method_partition(struct jinja_run *run,
                                           const struct jinja_call *call)
{
    struct jinja_value parts = jinja_list_new(run, JINJA_TUPLE, 3),
                       empty = JINJA_TEXT("");
    const struct jinja_value *self = &call->self, *separator = &call->args[0];
    bool last = call->variant == SIDE_RIGHT;
    size_t after;
    int64_t at;

    if (jinja_failed(run) || !jinja_arg_string(run, separator))
        return jinja_none();
    if (separator->len == 0)
        return jinja_fail(run, "empty separator");
    at = jinja_find(run, self, separator, last);
    after = (size_t)at + separator->len;
    parts.list->items[0] =
        at < 0 ? (last ? empty : *self) : jinja_string(self->text, (size_t)at);
    parts.list->items[1] = at < 0 ? empty : *separator;
    parts.list->items[2] = at < 0 ? (last ? *self : empty)
                                  : jinja_string(self->text + after, self->len - after);
    return parts;
}

static struct jinja_value method_is(struct jinja_run *run, const struct jinja_call *call)
{
    return jinja_bool(jinja_is_class(run, &call->self, (enum jinja_class)call->variant));
}

/* A side is the end that the method works on, or the end where the search starts. */
static const struct jinja_builtin string_methods[] = {
    { .name = "strip",
      .code = method_strip,
      .variant = SIDE_BOTH,
      .parameters = { "chars" } },
    { .name = "lstrip",
      .code = method_strip,
      .variant = SIDE_LEFT,
      .parameters = { "chars" } },
    { .name = "rstrip",
      .code = method_strip,
      .variant = SIDE_RIGHT,
      .parameters = { "chars" } },
    { .name = "split",
      .code = method_split,
      .variant = SIDE_LEFT,
      .parameters = { "sep", "maxsplit" } },
    { .name = "rsplit",
      .code = method_split,
      .variant = SIDE_RIGHT,
      .parameters = { "sep", "maxsplit" } },
    { .name = "splitlines", .code = method_splitlines, .parameters = { "keepends" } },
    { .name = "startswith",
      .code = method_ends,
      .variant = SIDE_LEFT,
      .parameters = { "prefix", "start", "end" },
      .required = 1 },
    { .name = "endswith",
      .code = method_ends,
      .variant = SIDE_RIGHT,
      .parameters = { "suffix", "start", "end" },
      .required = 1 },
    { .name = "removeprefix",
      .code = method_remove_end,
      .variant = SIDE_LEFT,
      .parameters = { "prefix" },
      .required = 1 },
    { .name = "removesuffix",
      .code = method_remove_end,
      .variant = SIDE_RIGHT,
      .parameters = { "suffix" },
      .required = 1 },
    { .name = "upper", .code = method_case, .variant = CASE_UPPER },
    { .name = "lower", .code = method_case, .variant = CASE_LOWER },
    { .name = "casefold", .code = method_case, .variant = CASE_LOWER },
    { .name = "title", .code = method_case, .variant = CASE_TITLE },
    { .name = "capitalize", .code = method_case, .variant = CASE_CAPITALIZE },
    { .name = "swapcase", .code = method_case, .variant = CASE_SWAP },
    { .name = "replace",
      .code = method_replace,
      .parameters = { "old", "new", "count" },
      .required = 2 },
    { .name = "find",
      .code = method_find,
      .variant = SIDE_LEFT,
      .parameters = { "sub" },
      .required = 1 },
    { .name = "rfind",
      .code = method_find,
      .variant = SIDE_RIGHT,
      .parameters = { "sub" },
      .required = 1 },
    { .name = "index",
      .code = method_index,
      .variant = SIDE_LEFT,
      .parameters = { "sub" },
      .required = 1 },
    { .name = "count", .code = method_count, .parameters = { "sub" }, .required = 1 },
    { .name = "join", .code = method_join, .parameters = { "iterable" }, .required = 1 },
    { .name = "format", .code = method_format, .variadic = true },
    { .name = "ljust",
      .code = method_pad,
      .variant = SIDE_RIGHT,
      .parameters = { "width", "fillchar" },
      .required = 1 },
    { .name = "rjust",
      .code = method_pad,
      .variant = SIDE_LEFT,
      .parameters = { "width", "fillchar" },
      .required = 1 },
    { .name = "center",
      .code = method_pad,
      .variant = SIDE_BOTH,
      .parameters = { "width", "fillchar" },
      .required = 1 },
    { .name = "partition",
      .code = method_partition,
      .variant = SIDE_LEFT,
      .parameters = { "sep" },
      .required = 1 },
    { .name = "rpartition",
      .code = method_partition,
      .variant = SIDE_RIGHT,
      .parameters = { "sep" },
      .required = 1 },
    { .name = "isalpha", .code = method_is, .variant = CLASS_ALPHA },
    { .name = "isdigit", .code = method_is, .variant = CLASS_DIGIT },
    { .name = "isdecimal", .code = method_is, .variant = CLASS_DIGIT },
    { .name = "isnumeric", .code = method_is, .variant = CLASS_DIGIT },
    { .name = "isalnum", .code = method_is, .variant = CLASS_ALNUM },
    { .name = "isspace", .code = method_is, .variant = CLASS_SPACE },
    { .name = "isupper", .code = method_is, .variant = CLASS_UPPER },
    { .name = "islower", .code = method_is, .variant = CLASS_LOWER },
    { .name = NULL },
};

static struct jinja_value method_get(struct jinja_run *run, const struct jinja_call *call)
{
    const struct jinja_value *found =
        jinja_dict_find(run, call->self.dict, &call->args[0]);

    if (found)
        return *found;
    return call->args[1].kind == JINJA_ABSENT ? jinja_none() : call->args[1];
}

static struct jinja_value method_keys(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    return jinja_view(run, call->self.dict, "dict_keys");
}

static struct jinja_value method_values(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    return jinja_view(run, call->self.dict, "dict_values");
}

static struct jinja_value method_items(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    return jinja_view(run, call->self.dict, "dict_items");
}

static struct jinja_value method_itself(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    (void)run;
    return call->self; /* values are immutable, so the copy is the value itself */
}

static struct jinja_value method_refuse(struct jinja_run *run,
                                        const struct jinja_call *call)
{
    return jinja_fail(run,
                      "a %s must not be changed in place; make a new one with + or set",
                      jinja_type(&call->self));
}

static const struct jinja_builtin dict_methods[] = {
    { .name = "get",
      .code = method_get,
      .parameters = { "key", "default" },
      .required = 1 },
    { .name = "keys", .code = method_keys },
    { .name = "values", .code = method_values },
    { .name = "items", .code = method_items },
    { .name = "copy", .code = method_itself },
    { .name = "clear", .code = method_refuse, .variadic = true },
    { .name = "pop", .code = method_refuse, .variadic = true },
    { .name = "popitem", .code = method_refuse, .variadic = true },
    { .name = "setdefault", .code = method_refuse, .variadic = true },
    { .name = "update", .code = method_refuse, .variadic = true },
    { .name = NULL },
};

static struct jinja_value list_index(struct jinja_run *run, const struct jinja_call *call)
{
    const struct jinja_list *list = call->self.list;

    for (size_t i = 0; i < list->count; i++)
        if (jinja_equal(run, &list->items[i], &call->args[0]))
            return jinja_int((int64_t)i);
    return jinja_fail(run, "the value is not in the list");
}

static struct jinja_value list_count(struct jinja_run *run, const struct jinja_call *call)
{
    const struct jinja_list *list = call->self.list;
    int64_t count = 0;

    for (size_t i = 0; i < list->count; i++)
        count += jinja_equal(run, &list->items[i], &call->args[0]);
    return jinja_int(count);
}

static const struct jinja_builtin list_methods[] = {
    { .name = "index", .code = list_index, .parameters = { "value" }, .required = 1 },
    { .name = "count", .code = list_count, .parameters = { "value" }, .required = 1 },
    { .name = "copy", .code = method_itself },
    { .name = "append", .code = method_refuse, .variadic = true },
    { .name = "extend", .code = method_refuse, .variadic = true },
    { .name = "insert", .code = method_refuse, .variadic = true },
    { .name = "pop", .code = method_refuse, .variadic = true },
    { .name = "remove", .code = method_refuse, .variadic = true },
    { .name = "reverse", .code = method_refuse, .variadic = true },
    { .name = "sort", .code = method_refuse, .variadic = true },
    { .name = "clear", .code = method_refuse, .variadic = true },
    { .name = NULL },
};

static const struct jinja_builtin tuple_methods[] = {
    { .name = "index", .code = list_index, .parameters = { "value" }, .required = 1 },
    { .name = "count", .code = list_count, .parameters = { "value" }, .required = 1 },
    { .name = NULL },
};

static struct jinja_value loop_cycle(struct jinja_run *run, const struct jinja_call *call)
{
    if (call->given->count == 0)
        return jinja_fail(run, "no items for cycling given");
    return call->given->values[call->self.loop->index % call->given->count];
}

static struct jinja_value loop_changed(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    struct jinja_loop *loop = call->self.loop;
    struct jinja_value arguments = jinja_list_new(run, JINJA_TUPLE, call->given->count);
    bool changed;

    if (jinja_failed(run))
        return arguments;
    if (call->given->count > 0)
        memcpy(arguments.list->items, call->given->values,
               call->given->count * sizeof(*arguments.list->items));
    changed = loop->changed.kind == JINJA_ABSENT ||
              !jinja_equal(run, &loop->changed, &arguments);
    loop->changed = arguments;
    return jinja_bool(changed);
}

static const struct jinja_builtin loop_methods[] = {
    { .name = "cycle", .code = loop_cycle, .variadic = true },
    { .name = "changed", .code = loop_changed, .variadic = true },
    { .name = NULL },
};

const struct jinja_builtin *jinja_method_find(const struct jinja_value *self,
                                              const char *name, size_t len)
{
    static const struct jinja_builtin *const tables[JINJA_KINDS] = {
        [JINJA_STRING] = string_methods, [JINJA_DICT] = dict_methods,
        [JINJA_LIST] = list_methods,     [JINJA_TUPLE] = tuple_methods,
        [JINJA_LOOP] = loop_methods,     [JINJA_RANGE] = tuple_methods,
    };

    return tables[self->kind] ? jinja_builtin_find(tables[self->kind], name, len) : NULL;
}
