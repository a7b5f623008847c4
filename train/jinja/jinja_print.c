/* train/jinja/jinja_print.c - str and repr. */
#include "config.h"

#include "train/jinja/jinja_print.h"

#include "train/jinja/jinja_text.h"

/* The shortest digits of a number take several attempts. */
enum { REAL_WORK = 1 << 10 };

static void add_items(struct jinja_run *run, struct text *out,
                      const struct jinja_list *list, const char *open, const char *close)
{
    text_adds(out, open);
    for (size_t i = 0; i < list->count && !jinja_failed(run); i++) {
        if (i > 0)
            text_adds(out, ", ");
        jinja_add_repr(run, out, &list->items[i]);
    }
    text_adds(out, close);
}

static void add_dict(struct jinja_run *run, struct text *out,
                     const struct jinja_dict *dict)
{
    text_addc(out, '{');
    for (size_t i = 0; i < dict->count && !jinja_failed(run); i++) {
        if (i > 0)
            text_adds(out, ", ");
        jinja_add_repr(run, out, &dict->entries[i].key);
        text_adds(out, ": ");
        jinja_add_repr(run, out, &dict->entries[i].value);
    }
    text_addc(out, '}');
}

static void add_view(struct jinja_run *run, struct text *out,
                     const struct jinja_list *view)
{
    text_adds(out, view->label);
    add_items(run, out, view, "([", "])");
}

static void add_range(struct text *out, const struct jinja_list *range)
{
    int64_t first = range->count > 0 ? range->items[0].integer : 0;
    int64_t step = range->count > 1 ? range->items[1].integer - first : 1;
    int64_t end = first + step * (int64_t)range->count;

    if (range->label) {
        text_adds(out, range->label);
        return;
    }
    text_addf(out, "range(%lld, %lld", (long long)first, (long long)end);
    if (step != 1)
        text_addf(out, ", %lld", (long long)step);
    text_addc(out, ')');
}

static void add_any(struct jinja_run *run, struct text *out,
                    const struct jinja_value *value)
{
    switch ((enum jinja_kind)value->kind) {
    case JINJA_NONE:
        text_adds(out, "None");
        break;
    case JINJA_BOOL:
        text_adds(out, value->truth ? "True" : "False");
        break;
    case JINJA_INT:
        text_addf(out, "%lld", (long long)value->integer);
        break;
    case JINJA_REAL:
        jinja_work(run, REAL_WORK);
        jinja_add_real(out, value->real);
        break;
    case JINJA_STRING:
        jinja_add_quoted(out, value->text, value->len);
        break;
    case JINJA_LIST:
        add_items(run, out, value->list, "[", "]");
        break;
    case JINJA_TUPLE:
        add_items(run, out, value->list, "(", value->list->count == 1 ? ",)" : ")");
        break;
    case JINJA_RANGE:
        add_range(out, value->list);
        break;
    case JINJA_VIEW:
        add_view(run, out, value->list);
        break;
    case JINJA_DICT:
        add_dict(run, out, value->dict);
        break;
    case JINJA_UNDEFINED:
        text_adds(out, "Undefined");
        break;
    default:
        jinja_fail(run, "a %s cannot be printed", jinja_type(value));
    }
}

void jinja_add_repr(struct jinja_run *run, struct text *out,
                    const struct jinja_value *value)
{
    size_t before = out->len;

    if (!jinja_enter(run))
        return;
    add_any(run, out, value);
    jinja_leave(run);
    jinja_work(run, out->len - before);
}

void jinja_add(struct jinja_run *run, struct text *out, const struct jinja_value *value)
{
    if (value->kind == JINJA_UNDEFINED)
        return;
    if (value->kind != JINJA_STRING)
        jinja_add_repr(run, out, value);
    else if (jinja_work(run, value->len))
        text_add(out, value->text, value->len);
}

struct jinja_value jinja_str(struct jinja_run *run, const struct jinja_value *value)
{
    struct text text;
    struct jinja_value string;

    if (value->kind == JINJA_STRING)
        return *value;
    text_init(&text, 0);
    jinja_add(run, &text, value);
    string = jinja_take(run, &text);
    text_clear(&text);
    return string;
}
