/* patcher/script/script_tree.c - parse with tree-sitter and copy what matters; the only
 * file that uses the library. */
#include "config.h"

#include "patcher/script/script_tree.h"

#include <string.h>
#include <tree_sitter/api.h>

#include "base/size.h"
#include "base/text.h"

/* A file of the largest size takes 0.3 s; only hostile input takes longer. */
#define TIMEOUT_MICROSECONDS 5000000

extern const TSLanguage *tree_sitter_python(void);

const bool script_tree_supported = true;

/* Names in tree-sitter-python 0.23, src/node-types.json. */
static const struct kind_name {
    const char *name;
    enum syntax_kind kind;
} names[] = {
    { "aliased_import", SYNTAX_ALIAS },
    { "argument_list", SYNTAX_ARGUMENTS },
    { "as_pattern", SYNTAX_AS },
    { "assignment", SYNTAX_ASSIGNMENT },
    { "attribute", SYNTAX_ATTRIBUTE },
    { "augmented_assignment", SYNTAX_AUGMENTED },
    { "binary_operator", SYNTAX_BINARY },
    { "boolean_operator", SYNTAX_BOOLEAN },
    { "call", SYNTAX_CALL },
    { "class_definition", SYNTAX_CLASS },
    { "comparison_operator", SYNTAX_COMPARISON },
    { "concatenated_string", SYNTAX_STRING },
    { "conditional_expression", SYNTAX_CONDITIONAL },
    { "default_parameter", SYNTAX_DEFAULT },
    { "dictionary", SYNTAX_DICTIONARY },
    { "dictionary_splat", SYNTAX_DOUBLE_STAR },
    { "dotted_name", SYNTAX_DOTTED },
    { "elif_clause", SYNTAX_ELIF },
    { "else_clause", SYNTAX_ELSE },
    { "expression_list", SYNTAX_TUPLE },
    { "false", SYNTAX_FALSE },
    { "float", SYNTAX_FLOAT },
    { "for_statement", SYNTAX_FOR },
    { "function_definition", SYNTAX_FUNCTION },
    { "identifier", SYNTAX_NAME },
    { "if_statement", SYNTAX_IF },
    { "import_from_statement", SYNTAX_IMPORT_FROM },
    { "import_statement", SYNTAX_IMPORT },
    { "integer", SYNTAX_INTEGER },
    { "keyword_argument", SYNTAX_KEYWORD },
    { "lambda", SYNTAX_LAMBDA },
    { "list", SYNTAX_LIST },
    { "list_splat", SYNTAX_STAR },
    { "none", SYNTAX_NONE },
    { "not_operator", SYNTAX_NOT },
    { "pair", SYNTAX_PAIR },
    { "parameters", SYNTAX_PARAMETERS },
    { "parenthesized_expression", SYNTAX_PARENTHESES },
    { "pattern_list", SYNTAX_TUPLE },
    { "return_statement", SYNTAX_RETURN },
    { "string", SYNTAX_STRING },
    { "subscript", SYNTAX_SUBSCRIPT },
    { "true", SYNTAX_TRUE },
    { "try_statement", SYNTAX_TRY },
    { "tuple", SYNTAX_TUPLE },
    { "tuple_pattern", SYNTAX_TUPLE },
    { "typed_default_parameter", SYNTAX_DEFAULT },
    { "unary_operator", SYNTAX_UNARY },
    { "while_statement", SYNTAX_WHILE },
    { "with_statement", SYNTAX_WITH },
};

struct copying {
    struct syntax_tree *tree;
    uint16_t comment; /* symbol of the grammar */
    uint8_t *kinds;   /* by symbol */
    size_t symbols, nodes, depth;
    size_t at; /* position of a fault */
    enum script_fault fault;
    struct syntax *top; /* innermost node copied */
};

static uint8_t kind_of(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(names); i++)
        if (strcmp(names[i].name, name) == 0)
            return (uint8_t)names[i].kind;
    return SYNTAX_OTHER;
}

static void index_symbols(struct copying *copying, const TSLanguage *language)
{
    copying->symbols = ts_language_symbol_count(language);
    copying->kinds = arena_alloc(copying->tree->arena, copying->symbols);
    for (size_t i = 0; i < copying->symbols; i++)
        if (ts_language_symbol_type(language, (TSSymbol)i) == TSSymbolTypeRegular)
            copying->kinds[i] = kind_of(ts_language_symbol_name(language, (TSSymbol)i));
    copying->comment =
        ts_language_symbol_for_name(language, "comment", strlen("comment"), true);
}

static void add_comment(struct syntax_tree *tree, TSNode node)
{
    if (tree->comment_count < SYNTAX_MAX_COMMENTS)
        tree->comments[tree->comment_count++] =
            (struct byte_range) { ts_node_start_byte(node), ts_node_end_byte(node) };
}

static void fail(struct copying *copying, enum script_fault fault, TSNode node)
{
    if (copying->fault == SCRIPT_OK) {
        copying->fault = fault;
        copying->at = ts_node_start_byte(node);
    }
}

static void append(struct copying *copying, TSNode node, const char *field,
                   enum syntax_kind kind)
{
    struct syntax *made = arena_alloc(copying->tree->arena, sizeof(*made));

    *made = (struct syntax) { .kind = kind,
                              .field = field,
                              .at = ts_node_start_byte(node),
                              .end = ts_node_end_byte(node),
                              .parent = copying->top };
    if (!copying->top)
        copying->tree->root = made;
    else if (copying->top->last)
        copying->top->last->next = made;
    else
        copying->top->first = made;
    if (copying->top)
        copying->top->last = made;
    copying->top = made;
    copying->depth++;
}

/* Copy one node.  Return whether its children are to be copied, too. */
static bool copy_node(struct copying *copying, const TSTreeCursor *cursor)
{
    TSNode node = ts_tree_cursor_current_node(cursor);
    const char *field = ts_tree_cursor_current_field_name(cursor);
    bool named = ts_node_is_named(node);
    TSSymbol symbol = ts_node_symbol(node);
    enum syntax_kind kind =
        symbol < copying->symbols ? (enum syntax_kind)copying->kinds[symbol] : 0;

    if (ts_node_is_error(node) || ts_node_is_missing(node)) {
        fail(copying, SCRIPT_SYNTAX, node);
        return false;
    }
    if (symbol == copying->comment) {
        add_comment(copying->tree, node);
        return false;
    }
    if (!named && !(field && strncmp(field, "operator", strlen("operator")) == 0))
        return false;
    if (++copying->nodes > SYNTAX_MAX_NODES || copying->depth >= SYNTAX_MAX_DEPTH) {
        fail(copying, SCRIPT_LIMIT, node);
        return false;
    }
    append(copying, node, field, named ? kind : SYNTAX_OPERATOR);
    return true;
}

static void leave(struct copying *copying)
{
    copying->top = copying->top->parent;
    copying->depth--;
}

/* Visit the tree without recursion: a text of brackets is as deep as it is long. */
static void copy_tree(struct copying *copying, TSNode root)
{
    TSTreeCursor cursor = ts_tree_cursor_new(root);
    bool more = true;

    while (more && copying->fault == SCRIPT_OK) {
        bool copied = copy_node(copying, &cursor);

        if (copied && ts_tree_cursor_goto_first_child(&cursor))
            continue;
        if (copied)
            leave(copying);
        while (more && !ts_tree_cursor_goto_next_sibling(&cursor)) {
            more = ts_tree_cursor_goto_parent(&cursor);
            if (more)
                leave(copying);
        }
    }
    ts_tree_cursor_delete(&cursor);
}

static void mark_interpolated(struct syntax_tree *tree)
{
    for (struct syntax *node = tree->root; node;
         node = (struct syntax *)syntax_next(node, tree->root)) {
        if (node->kind != SYNTAX_STRING)
            continue;
        for (const struct syntax *in = node; in; in = syntax_next(in, node))
            node->interpolated |=
                in != node && in->kind != SYNTAX_OTHER && in->kind != SYNTAX_STRING;
    }
}

static enum script_fault parse(TSParser *parser, const char *data,
                               struct syntax_tree *out, size_t *at)
{
    struct copying copying = { .tree = out };
    TSTree *tree = ts_parser_parse_string(parser, NULL, data, (uint32_t)out->len);

    *at = 0;
    if (!tree)
        return SCRIPT_LIMIT;
    index_symbols(&copying, ts_parser_language(parser));
    out->root = NULL;
    out->comment_count = 0;
    copy_tree(&copying, ts_tree_root_node(tree));
    ts_tree_delete(tree);
    *at = copying.at;
    if (copying.fault == SCRIPT_OK && out->root)
        mark_interpolated(out);
    return copying.fault;
}

/* Return whether the line of a notebook is for its shell: `!pip ...`, `%cd ...`. */
static bool is_magic(const char *line)
{
    line += strspn(line, " \t");
    return (*line == '!' || *line == '%') && line[1] && !strchr(" \t\r\n=", line[1]);
}

/* Turn the line around `at` into an expression and a comment of the same length.  Return
 * false if it is none of a notebook. */
static bool hide_magic(char *data, size_t len, size_t at)
{
    size_t start = at < len ? at : len;

    while (start > 0 && data[start - 1] != '\n')
        start--;
    if (!is_magic(data + start))
        return false;
    start += strspn(data + start, " \t");
    data[start] = '0';
    data[start + 1] = '#';
    return true;
}

enum script_fault script_tree_read(const char *data, size_t len, struct arena *arena,
                                   struct syntax_tree *out, size_t *at)
{
    TSParser *parser = ts_parser_new();
    char *hidden = arena_copy(arena, data, len);
    enum script_fault fault;
    bool again;

    *out = (struct syntax_tree) { .data = data, .len = len, .arena = arena };
    out->comments = arena_array(arena, SYNTAX_MAX_COMMENTS, sizeof(*out->comments));
    ts_parser_set_language(parser, tree_sitter_python());
    ts_parser_set_timeout_micros(parser, TIMEOUT_MICROSECONDS);
    fault = parse(parser, hidden, out, at);
    again = false;
    for (size_t i = 0; fault == SCRIPT_SYNTAX && i < len; i++)
        if (i == 0 || hidden[i - 1] == '\n')
            again |= hide_magic(hidden, len, i);
    if (again)
        fault = parse(parser, hidden, out, at);
    ts_parser_delete(parser);
    return fault;
}
