/* train/jinja/jinja_global.c - predefined functions: range, dict ... */
#include "config.h"

#include <string.h>
#include <time.h>

#include "train/jinja/jinja_call.h"
#include "train/jinja/jinja_print.h"

/* 26 July 2024, 00:00 UTC. */
#define CLOCK ((time_t)1721952000)

enum { RANGE_MAX = 100000 }; /* Jinja's sandbox limit */

/* Return the text of a range when it is printed. */
static const char *range_text(struct jinja_run *run, int64_t from, int64_t to,
                              int64_t step)
{
    return step == 1 ? arena_printf(run->arena, "range(%lld, %lld)", (long long)from,
                                    (long long)to)
                     : arena_printf(run->arena, "range(%lld, %lld, %lld)",
                                    (long long)from, (long long)to, (long long)step);
}

static struct jinja_value global_range(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    bool one = call->args[1].kind == JINJA_ABSENT;
    int64_t from = one ? 0 : jinja_arg_int(run, &call->args[0], 0);
    int64_t to = jinja_arg_int(run, &call->args[one ? 0 : 1], 0);
    int64_t step = jinja_arg_int(run, &call->args[2], 1);
    double count;
    struct jinja_value range;

    if (jinja_failed(run))
        return jinja_none();
    if (step == 0)
        return jinja_fail(run, "range() arg 3 must not be zero");
    count =
        ((double)to - (double)from + (double)step - (step > 0 ? 1 : -1)) / (double)step;
    if (count > RANGE_MAX)
        return jinja_fail(run, "Range too big. The sandbox blocks ranges larger than %d",
                          RANGE_MAX);
    range = jinja_list_new(run, JINJA_RANGE, count > 0 ? (size_t)count : 0);
    if (!jinja_failed(run))
        range.list->label = range_text(run, from, to, step);
    for (size_t i = 0; !jinja_failed(run) && i < range.list->count; i++)
        range.list->items[i] = jinja_int(from + (int64_t)i * step);
    return range;
}

/* Add a list of pairs, as Python's dict() does. */
static void add_pairs(struct jinja_run *run, struct jinja_dict *dict,
                      const struct jinja_value *pairs)
{
    struct jinja_list list = jinja_items(run, pairs);

    for (size_t i = 0; i < list.count && !jinja_failed(run); i++) {
        struct jinja_list pair = jinja_items(run, &list.items[i]);

        if (jinja_failed(run))
            return;
        if (pair.count != 2)
            jinja_fail(run,
                       "dictionary update sequence element #%zu has length %zu; 2 is "
                       "required",
                       i, pair.count);
        else
            jinja_dict_set(run, dict, &pair.items[0], &pair.items[1]);
    }
}

/* Make dict(...) and namespace(...) from pairs, a mapping and names. */
static struct jinja_value make_dict(struct jinja_run *run, const struct jinja_call *call,
                                    enum jinja_kind kind)
{
    struct jinja_value dict = jinja_dict_new(run, kind);

    for (size_t i = 0; i < call->given->count && !jinja_failed(run); i++) {
        const struct jinja_value *value = &call->given->values[i];
        const char *name = call->given->names[i];
        struct jinja_value key = jinja_string(name, name ? strlen(name) : 0), view;

        if (name) {
            jinja_dict_set(run, dict.dict, &key, value);
            continue;
        }
        if (i > 0)
            return jinja_fail(run, "dict() and namespace() take a mapping and names");
        if (value->kind == JINJA_UNDEFINED)
            return jinja_fail_undefined(run, value);
        if (value->kind != JINJA_DICT) {
            add_pairs(run, dict.dict, value);
            continue;
        }
        view = *value;
        for (size_t k = 0; k < view.dict->count && !jinja_failed(run); k++)
            jinja_dict_set(run, dict.dict, &view.dict->entries[k].key,
                           &view.dict->entries[k].value);
    }
    return dict;
}

static struct jinja_value global_dict(struct jinja_run *run,
                                      const struct jinja_call *call)
{
    return make_dict(run, call, JINJA_DICT);
}

static struct jinja_value global_namespace(struct jinja_run *run,
                                           const struct jinja_call *call)
{
    return make_dict(run, call, JINJA_NAMESPACE);
}

static struct jinja_value global_raise(struct jinja_run *run,
                                       const struct jinja_call *call)
{
    struct jinja_value message = jinja_str(run, &call->args[0]);

    if (jinja_failed(run))
        return message;
    run->refused = true;
    return jinja_fail(run, "%.*s", message.len < 300 ? (int)message.len : 300,
                      message.text);
}

static struct jinja_value global_strftime(struct jinja_run *run,
                                          const struct jinja_call *call)
{
    time_t now = CLOCK;
    struct tm tm;
    struct jinja_value format;
    char text[256];
    size_t len;

    if (!jinja_arg_string(run, &call->args[0]))
        return jinja_none();
    gmtime_r(&now, &tm);
    format = jinja_copy(run, call->args[0].text, call->args[0].len);
    if (jinja_failed(run))
        return format;
    len = strftime(text, sizeof(text), format.text, &tm);
    return jinja_copy(run, text, len);
}

static const struct jinja_builtin globals[] = {
    { .name = "range",
      .code = global_range,
      .parameters = { "start", "stop", "step" },
      .required = 1 },
    { .name = "dict", .code = global_dict, .variadic = true },
    { .name = "namespace", .code = global_namespace, .variadic = true },
    { .name = "raise_exception",
      .code = global_raise,
      .parameters = { "message" },
      .required = 1 },
    { .name = "strftime_now",
      .code = global_strftime,
      .parameters = { "format" },
      .required = 1 },
    { .name = NULL },
};

const struct jinja_builtin *jinja_global_find(const char *name, size_t len)
{
    return jinja_builtin_find(globals, name, len);
}
