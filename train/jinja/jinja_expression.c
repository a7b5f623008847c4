/* train/jinja/jinja_expression.c - parser of expressions, with the precedence of Jinja's
 * parser.py. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "train/jinja/jinja_call.h"
#include "train/jinja/jinja_parser.h"

/* From the loosest to the tightest; each level calls the next. */
static struct jinja_node *parse_unary(struct jinja_parser *parser, bool filters);

/* Left-associative operators of equal precedence. */
struct level {
    struct {
        const char *text;
        enum jinja_op op;
    } operators[5];
    bool are_names; /* the operators are names: and, or */
};

enum {
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_ADD,
    LEVEL_CONCAT,
    LEVEL_MULTIPLY,
    LEVEL_POWER,
    LEVELS
};

static const struct level levels[LEVELS] = {
    [LEVEL_OR] = { { { "or", OP_OR } }, true },
    [LEVEL_AND] = { { { "and", OP_AND } }, true },
    [LEVEL_ADD] = { { { "+", OP_ADD }, { "-", OP_SUBTRACT } }, false },
    [LEVEL_CONCAT] = { { { "~", OP_CONCAT } }, false },
    [LEVEL_MULTIPLY] = { { { "*", OP_MULTIPLY },
                           { "/", OP_DIVIDE },
                           { "//", OP_FLOOR_DIVIDE },
                           { "%", OP_MODULO } },
                         false },
    [LEVEL_POWER] = { { { "**", OP_POWER } }, false },
};

static const struct {
    const char *text;
    enum jinja_op op;
} comparisons[] = {
    { "==", OP_EQ }, { "!=", OP_NE }, { "<", OP_LT },
    { "<=", OP_LE }, { ">", OP_GT },  { ">=", OP_GE },
};

static struct jinja_node *binary_node(struct jinja_parser *parser, enum jinja_op op,
                                      uint32_t line, struct jinja_node *a,
                                      struct jinja_node *b)
{
    return a && b ? jinja_node_of(parser, op, line, (struct jinja_node *[]) { a, b }, 2)
                  : NULL;
}

static struct jinja_node *unary_node(struct jinja_parser *parser, enum jinja_op op,
                                     uint32_t line, struct jinja_node *a)
{
    return a ? jinja_node_of(parser, op, line, &a, 1) : NULL;
}

/* Take the current operator; false if it is not of this level. */
static bool take_operator(struct jinja_parser *parser, const struct level *level,
                          enum jinja_op *op)
{
    for (size_t i = 0; i < TS_COUNT(level->operators) && level->operators[i].text; i++)
        if (level->are_names ? jinja_skip_name(parser, level->operators[i].text)
                             : jinja_skip_operator(parser, level->operators[i].text)) {
            *op = level->operators[i].op;
            return true;
        }
    return false;
}

/* Take a comparison operator. */
static struct jinja_node *parse_level(struct jinja_parser *parser, int index);

static bool take_comparison(struct jinja_parser *parser, enum jinja_op *op)
{
    for (size_t i = 0; i < TS_COUNT(comparisons); i++)
        if (jinja_skip_operator(parser, comparisons[i].text)) {
            *op = comparisons[i].op;
            return true;
        }
    *op = OP_IN;
    if (jinja_skip_name(parser, "in"))
        return true;
    *op = OP_NOT_IN;
    if (!jinja_is_name(parser->at, "not") || !jinja_is_name(parser->at + 1, "in"))
        return false;
    parser->at += 2;
    return true;
}

static struct jinja_node *parse_compare(struct jinja_parser *parser)
{
    uint32_t line = parser->at->line;
    struct jinja_node *first = parse_level(parser, LEVEL_ADD);
    struct jinja_kids kids = { 0 };
    enum jinja_op op;

    jinja_kids_add(&kids, first);
    while (first && take_comparison(parser, &op)) {
        struct jinja_node *right =
            unary_node(parser, op, parser->at->line, parse_level(parser, LEVEL_ADD));

        jinja_kids_add(&kids, right);
        if (!right)
            first = NULL;
    }
    if (first && kids.count > 1)
        return jinja_kids_move(parser, &kids, jinja_node_new(parser, OP_COMPARE, line));
    free(kids.list);
    return first;
}

static struct jinja_node *parse_not(struct jinja_parser *parser)
{
    uint32_t line = parser->at->line;
    struct jinja_node *node;

    if (!jinja_skip_name(parser, "not"))
        return parse_compare(parser);
    if (!jinja_nest(parser))
        return NULL;
    node = parse_not(parser);
    parser->depth--;
    return unary_node(parser, OP_NOT, line, node);
}

static struct jinja_node *parse_level(struct jinja_parser *parser, int index)
{
    uint32_t line = parser->at->line;
    struct jinja_node *left;
    enum jinja_op op;

    if (index == LEVEL_NOT)
        return parse_not(parser);
    if (index == LEVELS)
        return parse_unary(parser, true);
    left = parse_level(parser, index + 1);
    while (left && take_operator(parser, &levels[index], &op)) {
        left = binary_node(parser, op, line, left, parse_level(parser, index + 1));
        line = parser->at->line;
    }
    return left;
}

struct jinja_node *jinja_parse_condition(struct jinja_parser *parser)
{
    return parse_level(parser, LEVEL_OR);
}

struct jinja_node *jinja_parse_expression(struct jinja_parser *parser)
{
    struct jinja_node *node = NULL;

    if (!jinja_nest(parser))
        return NULL;
    node = jinja_parse_condition(parser);
    while (node && jinja_is_name(parser->at, "if")) {
        struct jinja_node *kids[3] = { NULL, node, NULL };
        uint32_t line = parser->at++->line;
        bool fine;

        kids[0] = jinja_parse_condition(parser);
        fine = kids[0];
        if (fine && jinja_skip_name(parser, "else"))
            fine = (kids[2] = jinja_parse_expression(parser));
        node = fine ? jinja_node_of(parser, OP_CHOICE, line, kids, 3) : NULL;
    }
    parser->depth--;
    return node;
}

static bool ends_tuple(const struct jinja_parser *parser)
{
    return parser->at->kind == TOKEN_VARIABLE_END ||
           parser->at->kind == TOKEN_BLOCK_END || jinja_is_operator(parser->at, ")");
}

struct jinja_node *jinja_parse_tuple(struct jinja_parser *parser, bool choices)
{
    uint32_t line = parser->at->line;
    struct jinja_kids kids = { 0 };
    struct jinja_node *node = NULL;

    do {
        if (kids.count > 0 && ends_tuple(parser))
            break;
        node = choices ? jinja_parse_expression(parser) : jinja_parse_condition(parser);
        jinja_kids_add(&kids, node);
        if (kids.count == 1 && node && !jinja_is_operator(parser->at, ",")) {
            free(kids.list);
            return node;
        }
    } while (node && jinja_skip_operator(parser, ","));
    if (node)
        return jinja_kids_move(parser, &kids, jinja_node_new(parser, OP_TUPLE, line));
    free(kids.list);
    return NULL;
}

static struct jinja_node *parse_single_target(struct jinja_parser *parser, bool members)
{
    uint32_t line = parser->at->line;
    const char *name;
    struct jinja_node *node;

    if (jinja_is_operator(parser->at, "(")) {
        if (!jinja_nest(parser))
            return NULL;
        parser->at++;
        node = jinja_parse_target(parser, members);
        parser->depth--;
        return node && jinja_expect_operator(parser, ")") ? node : NULL;
    }
    name = jinja_expect_name(parser);
    if (!name)
        return NULL;
    node = jinja_node_new(parser, OP_NAME, line);
    node->name = name;
    if (members && jinja_skip_operator(parser, ".")) {
        node->op = OP_MEMBER;
        node->member = jinja_expect_name(parser);
        return node->member ? node : NULL;
    }
    return node;
}

struct jinja_node *jinja_parse_target(struct jinja_parser *parser, bool members)
{
    uint32_t line = parser->at->line;
    struct jinja_node *node = parse_single_target(parser, members);
    struct jinja_kids kids = { 0 };

    if (!node || !jinja_is_operator(parser->at, ","))
        return node;
    jinja_kids_add(&kids, node);
    while (node && jinja_skip_operator(parser, ",")) {
        if (jinja_is_name(parser->at, "in") || jinja_is_operator(parser->at, ")") ||
            jinja_is_operator(parser->at, "="))
            break;
        node = parse_single_target(parser, members);
        jinja_kids_add(&kids, node);
    }
    if (node)
        return jinja_kids_move(parser, &kids, jinja_node_new(parser, OP_TUPLE, line));
    free(kids.list);
    return NULL;
}

/* Parse expressions in brackets up to `close`; for a dict, keys and values. */
static struct jinja_node *parse_items(struct jinja_parser *parser, enum jinja_op op,
                                      const char *close)
{
    struct jinja_node *node = jinja_node_new(parser, op, parser->at->line), *item = node;
    struct jinja_kids kids = { 0 };

    parser->at++;
    while (item && !jinja_is_operator(parser->at, close)) {
        item = jinja_parse_expression(parser);
        jinja_kids_add(&kids, item);
        if (item && op == OP_DICT) {
            item = jinja_expect_operator(parser, ":") ? jinja_parse_expression(parser)
                                                      : NULL;
            jinja_kids_add(&kids, item);
        }
        if (item && !jinja_is_operator(parser->at, close) &&
            !jinja_expect_operator(parser, ","))
            item = NULL;
    }
    if (item && jinja_expect_operator(parser, close))
        return jinja_kids_move(parser, &kids, node);
    free(kids.list);
    return NULL;
}

/* Adjacent literals are one string. */
static struct jinja_node *parse_string(struct jinja_parser *parser)
{
    struct jinja_node *node = jinja_node_new(parser, OP_CONSTANT, parser->at->line);
    struct text text;

    text_init(&text, 0);
    for (; parser->at->kind == TOKEN_STRING; parser->at++)
        text_add(&text, parser->at->text, parser->at->len);
    node->value = jinja_string(arena_copy(parser->arena, text.data, text.len), text.len);
    text_clear(&text);
    return node;
}

static struct jinja_node *parse_name(struct jinja_parser *parser)
{
    static const struct {
        const char *name;
        enum jinja_kind kind;
        bool truth;
    } constants[] = {
        { "true", JINJA_BOOL, true },   { "True", JINJA_BOOL, true },
        { "false", JINJA_BOOL, false }, { "False", JINJA_BOOL, false },
        { "none", JINJA_NONE, false },  { "None", JINJA_NONE, false },
    };
    struct jinja_node *node = jinja_node_new(parser, OP_NAME, parser->at->line);

    for (size_t i = 0; i < TS_COUNT(constants); i++)
        if (jinja_skip_name(parser, constants[i].name)) {
            node->op = OP_CONSTANT;
            node->value = constants[i].kind == JINJA_BOOL ? jinja_bool(constants[i].truth)
                                                          : jinja_none();
            return node;
        }
    node->name = jinja_expect_name(parser);
    if (!node->name)
        return NULL;
    parser->varargs |= strcmp(node->name, "varargs") == 0;
    parser->kwargs |= strcmp(node->name, "kwargs") == 0;
    parser->caller |= strcmp(node->name, "caller") == 0;
    return node;
}

static struct jinja_node *parse_parentheses(struct jinja_parser *parser)
{
    uint32_t line = parser->at++->line;
    struct jinja_node *node;

    if (jinja_skip_operator(parser, ")"))
        return jinja_node_new(parser, OP_TUPLE, line);
    node = jinja_parse_tuple(parser, true);
    return node && jinja_expect_operator(parser, ")") ? node : NULL;
}

static struct jinja_node *parse_primary(struct jinja_parser *parser)
{
    const struct jinja_token *token = parser->at;
    struct jinja_node *node;

    switch (token->kind) {
    case TOKEN_NAME:
        return parse_name(parser);
    case TOKEN_STRING:
        return parse_string(parser);
    case TOKEN_INT:
    case TOKEN_REAL:
        parser->at++;
        node = jinja_node_new(parser, OP_CONSTANT, token->line);
        node->value = token->kind == TOKEN_INT ? jinja_int(token->integer)
                                               : jinja_real(token->real);
        return node;
    default:
        break;
    }
    if (jinja_is_operator(token, "("))
        return parse_parentheses(parser);
    if (jinja_is_operator(token, "["))
        return parse_items(parser, OP_LIST, "]");
    if (jinja_is_operator(token, "{"))
        return parse_items(parser, OP_DICT, "}");
    return jinja_unexpected(parser);
}

static bool ends_slice_part(const struct jinja_parser *parser)
{
    return jinja_is_operator(parser->at, ":") || jinja_is_operator(parser->at, "]");
}

/* [key], [from:to:step] */
static struct jinja_node *parse_subscript(struct jinja_parser *parser,
                                          struct jinja_node *object)
{
    uint32_t line = parser->at++->line;
    struct jinja_node *kids[4] = { object };
    bool slice = false;

    if (!ends_slice_part(parser) && !(kids[1] = jinja_parse_expression(parser)))
        return NULL;
    for (size_t i = 2; i < 4 && jinja_skip_operator(parser, ":"); i++) {
        slice = true;
        if (!ends_slice_part(parser) && !(kids[i] = jinja_parse_expression(parser)))
            return NULL;
    }
    if (!slice && !kids[1])
        return jinja_unexpected(parser);
    if (!jinja_expect_operator(parser, "]"))
        return NULL;
    return jinja_node_of(parser, slice ? OP_SLICE : OP_ITEM, line, kids, slice ? 4 : 2);
}

/* .name, or .0 */
static struct jinja_node *parse_attribute(struct jinja_parser *parser,
                                          struct jinja_node *object)
{
    uint32_t line = parser->at++->line;
    struct jinja_node *node;

    if (parser->at->kind == TOKEN_INT)
        return binary_node(parser, OP_ITEM, line, object, parse_primary(parser));
    node = unary_node(parser, OP_ATTRIBUTE, line, object);
    node->name = jinja_expect_name(parser);
    return node->name ? node : NULL;
}

/* One argument of a call: positional arguments, then named ones, then * and **. */
static bool parse_argument(struct jinja_parser *parser, struct jinja_argument *out)
{
    if (jinja_skip_operator(parser, "*")) {
        out->spread = JINJA_STAR;
    } else if (jinja_skip_operator(parser, "**")) {
        out->spread = JINJA_DOUBLE_STAR;
    } else if (parser->at->kind == TOKEN_NAME && jinja_is_operator(parser->at + 1, "=")) {
        out->name = jinja_expect_name(parser);
        parser->at++;
    }
    out->value = jinja_parse_expression(parser);
    return out->value;
}

static bool parse_arguments(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_argument list[64] = { { 0 } };
    size_t count = 0;

    parser->at++;
    while (!jinja_is_operator(parser->at, ")")) {
        if (count == TS_COUNT(list))
            return jinja_parse_fail(parser, "more than %zu arguments", TS_COUNT(list));
        if (!parse_argument(parser, &list[count++]))
            return false;
        if (count > 1 && !list[count - 1].name && !list[count - 1].spread &&
            (list[count - 2].name || list[count - 2].spread))
            return jinja_parse_fail(parser,
                                    "invalid syntax for function call expression");
        if (!jinja_is_operator(parser->at, ")") && !jinja_expect_operator(parser, ","))
            return false;
    }
    parser->at++;
    node->arguments = arena_array(parser->arena, count + 1, sizeof(*node->arguments));
    memcpy(node->arguments, list, count * sizeof(*list));
    node->argument_count = count;
    return true;
}

static struct jinja_node *parse_call(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_node *call = unary_node(parser, OP_CALL, parser->at->line, node);

    return call && parse_arguments(parser, call) ? call : NULL;
}

static struct jinja_node *parse_postfix(struct jinja_parser *parser,
                                        struct jinja_node *node)
{
    while (node) {
        if (jinja_is_operator(parser->at, "."))
            node = parse_attribute(parser, node);
        else if (jinja_is_operator(parser->at, "["))
            node = parse_subscript(parser, node);
        else if (jinja_is_operator(parser->at, "("))
            node = parse_call(parser, node);
        else
            break;
    }
    return node;
}

struct jinja_node *jinja_parse_filters(struct jinja_parser *parser,
                                       struct jinja_node *node, bool begun)
{
    while (begun || jinja_skip_operator(parser, "|")) {
        struct jinja_node *filter =
            jinja_node_of(parser, OP_FILTER, parser->at->line, &node, 1);

        begun = false;
        filter->name = jinja_expect_name(parser);
        if (!filter->name)
            return NULL;
        filter->builtin = jinja_filter_find(filter->name, strlen(filter->name));
        if (jinja_is_operator(parser->at, "(") && !parse_arguments(parser, filter))
            return NULL;
        node = filter;
    }
    return node;
}

/* A test may have one argument without parentheses: `x is divisibleby 3`. As in Jinja,
 * even `if` counts as one. */
static bool has_bare_argument(const struct jinja_parser *parser)
{
    const struct jinja_token *token = parser->at;

    return (token->kind >= TOKEN_NAME && token->kind <= TOKEN_REAL &&
            !jinja_is_name(token, "else") && !jinja_is_name(token, "or") &&
            !jinja_is_name(token, "and")) ||
           jinja_is_operator(token, "[") || jinja_is_operator(token, "{");
}

static struct jinja_node *parse_test(struct jinja_parser *parser, struct jinja_node *node)
{
    uint32_t line = parser->at++->line;
    bool negated = jinja_skip_name(parser, "not");
    struct jinja_node *test = unary_node(parser, OP_TEST, line, node);

    test->name = jinja_expect_name(parser);
    if (!test->name)
        return NULL;
    test->builtin = jinja_test_find(test->name, strlen(test->name));
    if (jinja_is_operator(parser->at, "(")) {
        if (!parse_arguments(parser, test))
            return NULL;
    } else if (jinja_is_name(parser->at, "is")) {
        return jinja_parse_fail(parser, "You cannot chain multiple tests with is");
    } else if (has_bare_argument(parser)) {
        test->arguments = arena_array(parser->arena, 1, sizeof(*test->arguments));
        test->argument_count = 1;
        test->arguments[0].value = parse_postfix(parser, parse_primary(parser));
        if (!test->arguments[0].value)
            return NULL;
    }
    return negated ? unary_node(parser, OP_NOT, line, test) : test;
}

static struct jinja_node *parse_filtered(struct jinja_parser *parser,
                                         struct jinja_node *node)
{
    while (node) {
        if (jinja_is_operator(parser->at, "|"))
            node = jinja_parse_filters(parser, node, false);
        else if (jinja_is_name(parser->at, "is"))
            node = parse_test(parser, node);
        else if (jinja_is_operator(parser->at, "("))
            node = parse_call(parser, node);
        else
            break;
    }
    return node;
}

static struct jinja_node *parse_unary(struct jinja_parser *parser, bool filters)
{
    uint32_t line = parser->at->line;
    bool minus = jinja_is_operator(parser->at, "-");
    struct jinja_node *node = NULL;

    if (!jinja_nest(parser))
        return NULL;
    if (minus || jinja_is_operator(parser->at, "+")) {
        parser->at++;
        node = unary_node(parser, minus ? OP_NEGATIVE : OP_POSITIVE, line,
                          parse_unary(parser, false));
    } else {
        node = parse_primary(parser);
    }
    node = parse_postfix(parser, node);
    if (filters)
        node = parse_filtered(parser, node);
    parser->depth--;
    return node;
}
