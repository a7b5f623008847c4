/* patcher/script/script_operator.c - the value of an operator's operands. */
#include "config.h"

#include "patcher/script/script_internal.h"

#include <math.h>
#include <string.h>

static const struct script_value unknown = { .kind = SCRIPT_UNKNOWN };

static struct script_value negate(struct script *script, const struct syntax *node)
{
    struct script_value value = script_evaluate(script, syntax_field(node, "argument"));

    if (value.kind != SCRIPT_NUMBER || script->tree.data[node->at] != '-')
        return unknown;
    value.number = -value.number;
    value.node = node;
    return value;
}

static struct script_value invert(struct script *script, const struct syntax *node)
{
    struct script_value value = script_evaluate(script, syntax_field(node, "argument"));
    int truth = script_truth(&value);

    if (truth < 0)
        return unknown;
    return (struct script_value) {
        .kind = SCRIPT_BOOL, .boolean = !truth, .computed = value.computed, .node = node
    };
}

static struct script_value combine(struct script *script, const struct syntax *node)
{
    struct script_value left = script_evaluate(script, syntax_field(node, "left"));
    struct script_value right = script_evaluate(script, syntax_field(node, "right"));
    bool is_and = syntax_is(&script->tree, syntax_field(node, "operator"), "and");
    int a = script_truth(&left), b = script_truth(&right);

    /* one side may decide alone */
    if (a == !is_and) {
        left.computed |= right.computed;
        return left;
    }
    if (b == !is_and && b >= 0) {
        right.computed = true;
        return right;
    }
    if (a < 0)
        return unknown;
    right.computed |= left.computed;
    return right;
}

static struct script_value calculate(struct script *script, const struct syntax *node)
{
    struct script_value left = script_evaluate(script, syntax_field(node, "left"));
    struct script_value right = script_evaluate(script, syntax_field(node, "right"));
    const struct syntax *sign = syntax_field(node, "operator");
    const char *text = sign ? syntax_text(&script->tree, sign) : "";
    double value;

    if (left.kind != SCRIPT_NUMBER || right.kind != SCRIPT_NUMBER)
        return unknown;
    value = strcmp(text, "+") == 0    ? left.number + right.number
            : strcmp(text, "-") == 0  ? left.number - right.number
            : strcmp(text, "*") == 0  ? left.number * right.number
            : strcmp(text, "/") == 0  ? left.number / right.number
            : strcmp(text, "//") == 0 ? floor(left.number / right.number)
            : strcmp(text, "**") == 0 ? pow(left.number, right.number)
                                      : NAN;
    if (!isfinite(value))
        return unknown;
    left = script_number(node, value);
    left.computed = true;
    return left;
}

/* A tuple of two numbers, (8, 0), as 8.0. */
static bool as_number(struct script *script, const struct script_value *value,
                      double *out)
{
    const struct syntax *first =
        value->kind == SCRIPT_LIST && !value->text ? value->node->first : NULL;
    struct script_value major, minor;

    *out = value->number;
    if (value->kind == SCRIPT_NUMBER || (value->kind == SCRIPT_LIST && value->text))
        return true;
    if (value->kind == SCRIPT_BOOL) {
        *out = value->boolean;
        return true;
    }
    if (!first || !first->next)
        return false;
    major = script_evaluate(script, first);
    minor = script_evaluate(script, first->next);
    *out = major.number + minor.number / 10;
    return major.kind == SCRIPT_NUMBER && minor.kind == SCRIPT_NUMBER;
}

static bool same_text(const struct script_value *a, const struct script_value *b,
                      bool *same)
{
    bool a_named = a->kind == SCRIPT_STRING || a->kind == SCRIPT_DTYPE,
         b_named = b->kind == SCRIPT_STRING || b->kind == SCRIPT_DTYPE;

    if (a->kind == SCRIPT_NULL || b->kind == SCRIPT_NULL) {
        *same = a->kind == b->kind;
        return a->kind != SCRIPT_UNKNOWN && b->kind != SCRIPT_UNKNOWN;
    }
    if (!a_named || !b_named)
        return false;
    *same = a->kind == b->kind && strcmp(a->text, b->text) == 0;
    return true;
}

static struct script_value compare(struct script *script, const struct syntax *node)
{
    const struct syntax *sign = syntax_field(node, "operators");
    struct script_value left = script_evaluate(script, node->first);
    struct script_value right = script_evaluate(script, node->last);
    const char *text = sign ? syntax_text(&script->tree, sign) : "";
    struct script_value result = script_bool(node, false);
    double a, b;
    bool same;

    if (!sign || node->first->next != sign || sign->next != node->last)
        return unknown; /* a < b < c */
    result.computed = left.computed || right.computed;
    if (same_text(&left, &right, &same)) {
        if (strcmp(text, "==") != 0 && strcmp(text, "is") != 0 &&
            strcmp(text, "!=") != 0 && strcmp(text, "is not") != 0)
            return unknown;
        result.boolean = (text[0] == '=' || strcmp(text, "is") == 0) == same;
        return result;
    }
    if (!as_number(script, &left, &a) || !as_number(script, &right, &b))
        return unknown;
    result.boolean = strcmp(text, ">=") == 0   ? a >= b
                     : strcmp(text, ">") == 0  ? a > b
                     : strcmp(text, "<") == 0  ? a < b
                     : strcmp(text, "<=") == 0 ? a <= b
                     : strcmp(text, "==") == 0 ? a == b
                                               : a != b;
    return result;
}

static struct script_value choose(struct script *script, const struct syntax *node)
{
    const struct syntax *yes = node->first, *test = yes ? yes->next : NULL,
                        *no = test ? test->next : NULL;
    struct script_value value;
    int truth;

    if (!no)
        return unknown;
    value = script_evaluate(script, test);
    truth = script_truth(&value);
    if (truth < 0)
        return unknown;
    value = script_evaluate(script, truth ? yes : no);
    value.computed = true;
    return value;
}

struct member_search {
    const char *name;
    const struct syntax *found;
};

static void find_member(void *context, const struct script_argument *argument)
{
    struct member_search *search = context;

    if (argument->name && strcmp(argument->name, search->name) == 0)
        search->found = argument->value;
}

/* `capability[0]`, `dtypes["fp16"]` */
static struct script_value pick(struct script *script, const struct syntax *node)
{
    struct script_value object = script_evaluate(script, syntax_field(node, "value"));
    struct script_value key = script_evaluate(script, syntax_field(node, "subscript"));
    struct member_search search = { .name = key.text };

    if (object.kind == SCRIPT_LIST && object.text && key.kind == SCRIPT_NUMBER &&
        script->device)
        return script_computed(script_number(
            node, key.number == 0 ? script->device->major : script->device->minor));
    if (object.kind != SCRIPT_DICT || key.kind != SCRIPT_STRING)
        return unknown;
    script_members(script, object.node, find_member, &search);
    return search.found ? script_computed(script_evaluate(script, search.found))
                        : unknown;
}

struct script_value script_operate(struct script *script, const struct syntax *node)
{
    typedef struct script_value operation(struct script *, const struct syntax *);
    static operation *const operations[SYNTAX_KINDS] = {
        [SYNTAX_UNARY] = negate,       [SYNTAX_NOT] = invert,
        [SYNTAX_BOOLEAN] = combine,    [SYNTAX_BINARY] = calculate,
        [SYNTAX_COMPARISON] = compare, [SYNTAX_CONDITIONAL] = choose,
        [SYNTAX_SUBSCRIPT] = pick,
    };

    return operations[node->kind] ? operations[node->kind](script, node)
                                  : (struct script_value) { .node = node };
}
