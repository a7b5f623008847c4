/* train/jinja/jinja_evaluate.c - expressions, with Python's semantics of the
 * operators. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "train/jinja/jinja_call.h"
#include "train/jinja/jinja_format.h"
#include "train/jinja/jinja_print.h"
#include "train/text/unicode.h"

static struct jinja_value evaluate_name(struct jinja_run *run,
                                        const struct jinja_node *node)
{
    struct jinja_value name = jinja_string(node->name, strlen(node->name));
    struct jinja_value value = { .kind = JINJA_FUNCTION };
    const struct jinja_builtin *global;
    const struct jinja_value *given;
    size_t visited = 0;

    for (const struct jinja_scope *scope = run->scope; scope; scope = scope->parent)
        for (const struct jinja_variable *at = scope->variables; at; at = at->next) {
            visited++;
            if (at->name == node->name)
                return jinja_work(run, visited) ? at->value : jinja_none();
        }
    jinja_work(run, visited);
    given = jinja_dict_find(run, run->variables.dict, &name);
    if (given)
        return *given;
    global = jinja_global_find(name.text, name.len);
    if (!global)
        return jinja_undefined(run, NULL, name);
    value.function = jinja_alloc(run, 1, sizeof(*value.function));
    if (!value.function)
        return jinja_none();
    value.function->builtin = global;
    value.function->self = jinja_none();
    return value;
}

static struct jinja_value evaluate_constant(struct jinja_run *run,
                                            const struct jinja_node *node)
{
    (void)run;
    return node->value;
}

static struct jinja_value evaluate_list(struct jinja_run *run,
                                        const struct jinja_node *node)
{
    struct jinja_value list =
        jinja_list_new(run, node->op == OP_LIST ? JINJA_LIST : JINJA_TUPLE, node->count);

    for (size_t i = 0; i < node->count && !jinja_failed(run); i++)
        list.list->items[i] = jinja_evaluate(run, node->kids[i]);
    return list;
}

static struct jinja_value evaluate_dict(struct jinja_run *run,
                                        const struct jinja_node *node)
{
    struct jinja_value dict = jinja_dict_new(run, JINJA_DICT);

    for (size_t i = 0; i < node->count && !jinja_failed(run); i += 2) {
        struct jinja_value key = jinja_evaluate(run, node->kids[i]);
        struct jinja_value value = jinja_evaluate(run, node->kids[i + 1]);

        if (!jinja_failed(run))
            jinja_dict_set(run, dict.dict, &key, &value);
    }
    return dict;
}

static const struct {
    const char *name;
    enum {
        INDEX,
        INDEX0,
        REVINDEX,
        REVINDEX0,
        FIRST,
        LAST,
        LENGTH,
        DEPTH,
        DEPTH0,
        PREVIOUS,
        NEXT
    } part;
} loop_parts[] = {
    { "index", INDEX },       { "index0", INDEX0 }, { "revindex", REVINDEX },
    { "first", FIRST },       { "last", LAST },     { "revindex0", REVINDEX0 },
    { "length", LENGTH },     { "depth", DEPTH },   { "depth0", DEPTH0 },
    { "previtem", PREVIOUS }, { "nextitem", NEXT },
};

static struct jinja_value loop_part(const struct jinja_loop *loop, size_t row)
{
    int64_t index = (int64_t)loop->index, count = (int64_t)loop->items->count;

    switch (loop_parts[row].part) {
    case INDEX:
        return jinja_int(index + 1);
    case INDEX0:
        return jinja_int(index);
    case REVINDEX:
        return jinja_int(count - index);
    case REVINDEX0:
        return jinja_int(count - index - 1);
    case FIRST:
        return jinja_bool(index == 0);
    case LAST:
        return jinja_bool(index + 1 == count);
    case LENGTH:
        return jinja_int(count);
    case DEPTH:
        return jinja_int(1); /* only recursive loops have deeper levels */
    case DEPTH0:
        return jinja_int(0);
    case PREVIOUS:
        return index > 0 ? loop->items->items[index - 1]
                         : jinja_undefined_hint("there is no previous item");
    default:
        return index + 1 < count ? loop->items->items[index + 1]
                                 : jinja_undefined_hint("there is no next item");
    }
}

/* Names that the value itself has: methods, and the members of `loop` and of
 * namespaces. */
static bool get_member(struct jinja_run *run, const struct jinja_value *value,
                       const struct jinja_value *name, struct jinja_value *out)
{
    const struct jinja_builtin *method = jinja_method_find(value, name->text, name->len);

    if (value->kind == JINJA_LOOP)
        for (size_t i = 0; i < TS_COUNT(loop_parts); i++)
            if (strlen(loop_parts[i].name) == name->len &&
                memcmp(loop_parts[i].name, name->text, name->len) == 0) {
                *out = loop_part(value->loop, i);
                return true;
            }
    if (!method)
        return false;
    *out = (struct jinja_value) { .kind = JINJA_FUNCTION };
    out->function = jinja_alloc(run, 1, sizeof(*out->function));
    if (!out->function)
        return false;
    out->function->builtin = method;
    out->function->self = *value;
    return true;
}

static struct jinja_value text_at(struct jinja_run *run, const struct jinja_value *value,
                                  int64_t index)
{
    int64_t count = jinja_length(run, value);
    size_t at = 0, len = 0;
    int32_t point;

    index += index < 0 ? count : 0;
    if (index < 0 || index >= count)
        return jinja_undefined(run, value, jinja_int(index));
    for (; at < value->len; at += len) {
        len = unicode_first(value->text + at, value->len - at, &point);
        if (index-- == 0)
            break;
    }
    return jinja_string(value->text + at, len);
}

static struct jinja_value item_at(struct jinja_run *run, const struct jinja_value *value,
                                  int64_t index)
{
    int64_t count, given = index;

    if (value->kind == JINJA_STRING)
        return text_at(run, value, index);
    if (value->kind != JINJA_LIST && value->kind != JINJA_TUPLE &&
        value->kind != JINJA_RANGE)
        return jinja_undefined(run, value, jinja_int(given));
    count = (int64_t)value->list->count;
    index += index < 0 ? count : 0;
    return index >= 0 && index < count ? value->list->items[index]
                                       : jinja_undefined(run, value, jinja_int(given));
}

struct jinja_value jinja_item(struct jinja_run *run, const struct jinja_value *value,
                              const struct jinja_value *key)
{
    const struct jinja_value *found;
    struct jinja_value member;

    if (jinja_failed(run))
        return jinja_none();
    if (value->kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (value->kind == JINJA_DICT || value->kind == JINJA_NAMESPACE) {
        found =
            jinja_is_hashable(run, key) ? jinja_dict_find(run, value->dict, key) : NULL;
        if (found)
            return *found;
    } else if (key->kind == JINJA_INT || key->kind == JINJA_BOOL) {
        return item_at(run, value, key->kind == JINJA_INT ? key->integer : key->truth);
    }
    if (key->kind == JINJA_STRING && value->kind != JINJA_NAMESPACE &&
        get_member(run, value, key, &member))
        return member;
    return jinja_undefined(run, value, *key);
}

struct jinja_value jinja_attribute(struct jinja_run *run, const struct jinja_value *value,
                                   const struct jinja_value *name)
{
    struct jinja_value member;

    if (!jinja_failed(run) && value->kind != JINJA_UNDEFINED &&
        get_member(run, value, name, &member))
        return member;
    return jinja_item(run, value, name);
}

static struct jinja_value evaluate_attribute(struct jinja_run *run,
                                             const struct jinja_node *node)
{
    struct jinja_value object = jinja_evaluate(run, node->kids[0]);
    struct jinja_value name = jinja_string(node->name, strlen(node->name));

    return jinja_attribute(run, &object, &name);
}

static struct jinja_value evaluate_item(struct jinja_run *run,
                                        const struct jinja_node *node)
{
    struct jinja_value object = jinja_evaluate(run, node->kids[0]);
    struct jinja_value key = jinja_evaluate(run, node->kids[1]);

    return jinja_item(run, &object, &key);
}

/* A missing part of a slice, or none, is the default. */
static int64_t slice_part(struct jinja_run *run, const struct jinja_node *node,
                          int64_t default_value)
{
    struct jinja_value value = node ? jinja_evaluate(run, node) : jinja_none();

    return jinja_failed(run) || value.kind == JINJA_NONE
               ? default_value
               : jinja_arg_int(run, &value, default_value);
}

/* As in Python's slice.indices: negative values count from the end, and all are
 * clipped. */
static int64_t clip(int64_t index, int64_t count, int64_t step)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? count - 1 : count;

    index += index < 0 ? count : 0;
    return index < low ? low : index > high ? high : index;
}

static struct jinja_value join_characters(struct jinja_run *run,
                                          const struct jinja_list *list)
{
    struct text text;
    struct jinja_value value;

    text_init(&text, 0);
    for (size_t i = 0; i < list->count; i++)
        text_add(&text, list->items[i].text, list->items[i].len);
    value = jinja_take(run, &text);
    text_clear(&text);
    return value;
}

static struct jinja_value evaluate_slice(struct jinja_run *run,
                                         const struct jinja_node *node)
{
    struct jinja_value object = jinja_evaluate(run, node->kids[0]), part;
    int64_t step = slice_part(run, node->kids[3], 1), count, from, to;
    struct jinja_list items;
    size_t taken = 0;

    if (jinja_failed(run))
        return jinja_none();
    if (object.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, &object);
    if (object.kind < JINJA_STRING || object.kind > JINJA_RANGE)
        return jinja_fail(run, "'%s' object cannot be sliced", jinja_type(&object));
    if (step == 0)
        return jinja_fail(run, "slice step cannot be zero");
    items = jinja_items(run, &object);
    count = (int64_t)items.count;
    from = slice_part(run, node->kids[1], step < 0 ? count : 0);
    to = slice_part(run, node->kids[2], step < 0 ? -count - 1 : count);
    from = clip(from, count, step);
    to = clip(to, count, step);
    part = jinja_list_new(run, object.kind == JINJA_STRING ? JINJA_LIST : object.kind,
                          items.count);
    if (jinja_failed(run))
        return part;
    while (step < 0 ? from > to : from < to) {
        part.list->items[taken++] = items.items[from];
        if (__builtin_add_overflow(from, step, &from))
            break;
    }
    part.list->count = taken;
    return object.kind == JINJA_STRING ? join_characters(run, part.list) : part;
}

static struct jinja_value evaluate_call(struct jinja_run *run,
                                        const struct jinja_node *node)
{
    struct jinja_value function = jinja_evaluate(run, node->kids[0]);
    struct jinja_arguments given;

    if (!jinja_evaluate_arguments(run, node, &given))
        return jinja_none();
    run->line = node->line;
    return jinja_call(run, &function, &given, NULL);
}

/* Evaluate a filter or test. */
static struct jinja_value evaluate_builtin(struct jinja_run *run,
                                           const struct jinja_node *node)
{
    struct jinja_value self = jinja_evaluate(run, node->kids[0]);
    struct jinja_arguments given;

    if (!jinja_evaluate_arguments(run, node, &given))
        return jinja_none();
    run->line = node->line;
    if (!node->builtin)
        return jinja_fail(run, "No %s named '%s'; it is not supported",
                          node->op == OP_TEST ? "test" : "filter", node->name);
    return jinja_invoke(run, node->builtin, &self, &given);
}

static struct jinja_value evaluate_not(struct jinja_run *run,
                                       const struct jinja_node *node)
{
    struct jinja_value value = jinja_evaluate(run, node->kids[0]);

    return jinja_bool(!jinja_truth(&value));
}

static struct jinja_value evaluate_sign(struct jinja_run *run,
                                        const struct jinja_node *node)
{
    struct jinja_value value = jinja_evaluate(run, node->kids[0]);
    bool minus = node->op == OP_NEGATIVE;

    if (jinja_failed(run))
        return value;
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, &value);
    if (value.kind == JINJA_REAL)
        return jinja_real(minus ? -value.real : value.real);
    if (!jinja_is_number(&value))
        return jinja_fail(run, "bad operand type for unary %c: '%s'", minus ? '-' : '+',
                          jinja_type(&value));
    value = jinja_int(value.kind == JINJA_BOOL ? value.truth : value.integer);
    if (minus && __builtin_sub_overflow((int64_t)0, value.integer, &value.integer))
        return jinja_fail(run, "an integer exceeds 64 bits");
    return value;
}

static struct jinja_value evaluate_logic(struct jinja_run *run,
                                         const struct jinja_node *node)
{
    struct jinja_value left = jinja_evaluate(run, node->kids[0]);

    if (jinja_failed(run) || jinja_truth(&left) == (node->op == OP_OR))
        return left;
    return jinja_evaluate(run, node->kids[1]);
}

static struct jinja_value evaluate_choice(struct jinja_run *run,
                                          const struct jinja_node *node)
{
    struct jinja_value condition = jinja_evaluate(run, node->kids[0]);

    if (!jinja_failed(run) && jinja_truth(&condition))
        return jinja_evaluate(run, node->kids[1]);
    return node->kids[2] ? jinja_evaluate(run, node->kids[2])
                         : jinja_undefined_hint("the inline if-expression evaluated to "
                                                "false and no else section was defined");
}

static struct jinja_value evaluate_concat(struct jinja_run *run,
                                          const struct jinja_node *node)
{
    struct jinja_value all;
    struct text text;

    text_init(&text, 0);
    for (size_t i = 0; i < node->count && !jinja_failed(run); i++) {
        struct jinja_value part = jinja_evaluate(run, node->kids[i]);

        if (!jinja_failed(run))
            jinja_add(run, &text, &part);
    }
    all = jinja_take(run, &text);
    text_clear(&text);
    return all;
}

static bool compare_values(struct jinja_run *run, enum jinja_op op,
                           const struct jinja_value *a, const struct jinja_value *b)
{
    static const char *const signs[] = {
        [OP_LT] = "<", [OP_LE] = "<=", [OP_GT] = ">", [OP_GE] = ">="
    };
    int order;

    if (op == OP_EQ || op == OP_NE)
        return jinja_equal(run, a, b) == (op == OP_EQ);
    if (op == OP_IN || op == OP_NOT_IN)
        return jinja_contains(run, b, a) == (op == OP_IN);
    if (a->kind == JINJA_UNDEFINED || b->kind == JINJA_UNDEFINED) {
        jinja_fail_undefined(run, a->kind == JINJA_UNDEFINED ? a : b);
        return false;
    }
    if ((a->kind == JINJA_REAL && isnan(a->real)) ||
        (b->kind == JINJA_REAL && isnan(b->real)))
        return false;
    order = jinja_compare(run, a, b, signs[op]);
    return op == OP_LT   ? order < 0
           : op == OP_LE ? order <= 0
           : op == OP_GT ? order > 0
                         : order >= 0;
}

static struct jinja_value evaluate_compare(struct jinja_run *run,
                                           const struct jinja_node *node)
{
    struct jinja_value left = jinja_evaluate(run, node->kids[0]);

    for (size_t i = 1; i < node->count && !jinja_failed(run); i++) {
        struct jinja_value right = jinja_evaluate(run, node->kids[i]->kids[0]);

        if (jinja_failed(run) || !compare_values(run, node->kids[i]->op, &left, &right))
            return jinja_bool(false);
        left = right;
    }
    return jinja_bool(true);
}

/* A string of `safe` or `escape` plus another, which is escaped. */
static struct jinja_value add_escaped(struct jinja_run *run, struct jinja_value *left,
                                      struct jinja_value *right)
{
    struct jinja_value sum;

    if (!left->is_escaped)
        *left = jinja_escape(run, left);
    if (!right->is_escaped)
        *right = jinja_escape(run, right);
    sum = jinja_arithmetic(run, OP_ADD, left, right);
    sum.is_escaped = true;
    return sum;
}

static struct jinja_value evaluate_arithmetic(struct jinja_run *run,
                                              const struct jinja_node *node)
{
    struct jinja_value left = jinja_evaluate(run, node->kids[0]);
    struct jinja_value right = jinja_evaluate(run, node->kids[1]);

    if (jinja_failed(run))
        return jinja_none();
    run->line = node->line;
    if (left.kind == JINJA_STRING && node->op == OP_MODULO)
        return jinja_format_percent(run, &left, &right);
    if (node->op == OP_ADD && left.kind == JINJA_STRING && right.kind == JINJA_STRING &&
        (left.is_escaped || right.is_escaped))
        return add_escaped(run, &left, &right);
    return jinja_arithmetic(run, node->op, &left, &right);
}

struct jinja_value jinja_evaluate(struct jinja_run *run, const struct jinja_node *node)
{
    static struct jinja_value (*const code[])(struct jinja_run *,
                                              const struct jinja_node *) = {
        [OP_CONSTANT] = evaluate_constant,
        [OP_NAME] = evaluate_name,
        [OP_LIST] = evaluate_list,
        [OP_TUPLE] = evaluate_list,
        [OP_DICT] = evaluate_dict,
        [OP_ATTRIBUTE] = evaluate_attribute,
        [OP_ITEM] = evaluate_item,
        [OP_SLICE] = evaluate_slice,
        [OP_CALL] = evaluate_call,
        [OP_FILTER] = evaluate_builtin,
        [OP_TEST] = evaluate_builtin,
        [OP_NOT] = evaluate_not,
        [OP_NEGATIVE] = evaluate_sign,
        [OP_POSITIVE] = evaluate_sign,
        [OP_AND] = evaluate_logic,
        [OP_OR] = evaluate_logic,
        [OP_ADD] = evaluate_arithmetic,
        [OP_SUBTRACT] = evaluate_arithmetic,
        [OP_MULTIPLY] = evaluate_arithmetic,
        [OP_DIVIDE] = evaluate_arithmetic,
        [OP_FLOOR_DIVIDE] = evaluate_arithmetic,
        [OP_MODULO] = evaluate_arithmetic,
        [OP_POWER] = evaluate_arithmetic,
        [OP_CONCAT] = evaluate_concat,
        [OP_COMPARE] = evaluate_compare,
        [OP_CHOICE] = evaluate_choice,
    };
    struct jinja_value value;

    if (!jinja_work(run, 0) || !jinja_enter(run))
        return jinja_none();
    value = code[node->op](run, node);
    jinja_leave(run);
    return jinja_failed(run) ? jinja_none() : value;
}
