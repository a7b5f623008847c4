/* train/jinja/jinja_parser.c - tags and the text between them to a tree. */
#include "config.h"

#include "train/jinja/jinja_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/jinja/jinja_text.h"
#include "train/jinja/jinja_value.h"

#define SOURCE_MAX ((size_t)1 << 20)

enum { PARSE_DEPTH_MAX = 200 };

const char *jinja_intern(struct jinja_parser *parser, const char *text, size_t len)
{
    struct jinja_name **bucket, *name;
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    bucket = &parser->names[hash % JINJA_NAME_BUCKETS];
    for (name = *bucket; name; name = name->next)
        if (name->len == len && memcmp(name->text, text, len) == 0)
            return name->text;
    name = arena_alloc(parser->arena, sizeof(*name) + len + 1);
    memcpy(name->text, text, len);
    name->len = len;
    name->next = *bucket;
    *bucket = name;
    return name->text;
}

struct jinja_node *jinja_node_new(struct jinja_parser *parser, enum jinja_op op,
                                  uint32_t line)
{
    struct jinja_node *node = arena_alloc(parser->arena, sizeof(*node));

    node->op = op;
    node->line = line;
    return node;
}

struct jinja_node *jinja_node_of(struct jinja_parser *parser, enum jinja_op op,
                                 uint32_t line, struct jinja_node *const *kids,
                                 size_t count)
{
    struct jinja_node *node = jinja_node_new(parser, op, line);

    node->kids = arena_array(parser->arena, count, sizeof(*node->kids));
    memcpy(node->kids, kids, count * sizeof(*node->kids));
    node->count = count;
    return node;
}

void jinja_kids_add(struct jinja_kids *kids, struct jinja_node *kid)
{
    if (kids->count == kids->room) {
        kids->room = kids->room ? 2 * kids->room : 8;
        kids->list = memory_resize(kids->list, kids->room, sizeof(*kids->list));
    }
    kids->list[kids->count++] = kid;
}

struct jinja_node *jinja_kids_move(struct jinja_parser *parser, struct jinja_kids *kids,
                                   struct jinja_node *node)
{
    node->kids = arena_array(parser->arena, kids->count + 1, sizeof(*node->kids));
    if (kids->count > 0)
        memcpy(node->kids, kids->list, kids->count * sizeof(*node->kids));
    node->count = kids->count;
    free(kids->list);
    return node;
}

void *jinja_parse_fail(struct jinja_parser *parser, const char *fmt, ...)
{
    char text[200];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    jinja_error(parser->err, parser->name, parser->at->line, "%s", text);
    return NULL;
}

void *jinja_unexpected(struct jinja_parser *parser)
{
    static const char *const kinds[] = {
        [TOKEN_END] = "end of template",
        [TOKEN_DATA] = "text",
        [TOKEN_VARIABLE_BEGIN] = "begin of print statement",
        [TOKEN_VARIABLE_END] = "end of print statement",
        [TOKEN_BLOCK_BEGIN] = "begin of statement block",
        [TOKEN_BLOCK_END] = "end of statement block",
        [TOKEN_STRING] = "string",
        [TOKEN_INT] = "integer",
        [TOKEN_REAL] = "float",
    };
    const struct jinja_token *token = parser->at;

    if (token->kind == TOKEN_NAME || token->kind == TOKEN_OPERATOR)
        return jinja_parse_fail(parser, "unexpected '%.*s'",
                                token->len < 60 ? (int)token->len : 60, token->text);
    return jinja_parse_fail(parser, "unexpected %s", kinds[token->kind]);
}

static bool is_text(const struct jinja_token *token, const char *text)
{
    return token->len == strlen(text) && memcmp(token->text, text, token->len) == 0;
}

bool jinja_is_name(const struct jinja_token *token, const char *name)
{
    return token->kind == TOKEN_NAME && is_text(token, name);
}

bool jinja_is_operator(const struct jinja_token *token, const char *text)
{
    return token->kind == TOKEN_OPERATOR && is_text(token, text);
}

bool jinja_skip_name(struct jinja_parser *parser, const char *name)
{
    bool matches = jinja_is_name(parser->at, name);

    parser->at += matches;
    return matches;
}

bool jinja_skip_operator(struct jinja_parser *parser, const char *text)
{
    bool matches = jinja_is_operator(parser->at, text);

    parser->at += matches;
    return matches;
}

bool jinja_expect_operator(struct jinja_parser *parser, const char *text)
{
    return jinja_skip_operator(parser, text) || jinja_unexpected(parser);
}

const char *jinja_expect_name(struct jinja_parser *parser)
{
    const struct jinja_token *token = parser->at;

    if (token->kind != TOKEN_NAME)
        return jinja_unexpected(parser);
    parser->at++;
    return jinja_intern(parser, token->text, token->len);
}

bool jinja_nest(struct jinja_parser *parser)
{
    return ++parser->depth < PARSE_DEPTH_MAX ||
           jinja_parse_fail(parser, "the template is nested too deep");
}

static struct jinja_node *parse_block(struct jinja_parser *parser,
                                      const char *const *ends);

static bool expect_kind(struct jinja_parser *parser, enum jinja_token_kind kind)
{
    if (parser->at->kind != kind)
        return jinja_unexpected(parser);
    parser->at++;
    return true;
}

/* Parse the body of a statement, up to the tag with one of these names; the parser is
 * then after the name, which is stored in *word. */
static struct jinja_node *parse_body(struct jinja_parser *parser, const char *const *ends,
                                     const char **word)
{
    struct jinja_node *body;

    jinja_skip_operator(parser, ":");
    if (!expect_kind(parser, TOKEN_BLOCK_END) || !jinja_nest(parser))
        return NULL;
    body = parse_block(parser, ends);
    parser->depth--;
    if (!body)
        return NULL;
    if (parser->at->kind == TOKEN_END)
        return jinja_parse_fail(parser, "Unexpected end of template: '%s' is missing",
                                ends[0]);
    if (word)
        *word = jinja_intern(parser, parser->at->text, parser->at->len);
    parser->at++;
    return body;
}

static struct jinja_node *parse_simple_body(struct jinja_parser *parser, const char *end)
{
    return parse_body(parser, (const char *const[]) { end, NULL }, NULL);
}

static struct jinja_node *parse_for(struct jinja_parser *parser, uint32_t line)
{
    static const char *const ends[] = { "endfor", "else", NULL };
    struct jinja_node *kids[5] = { NULL };
    const char *word;

    kids[0] = jinja_parse_target(parser, false);
    if (!kids[0] || (!jinja_skip_name(parser, "in") && !jinja_unexpected(parser)))
        return NULL;
    kids[1] = jinja_parse_tuple(parser, false);
    if (!kids[1] ||
        (jinja_skip_name(parser, "if") && !(kids[2] = jinja_parse_expression(parser))))
        return NULL;
    if (jinja_is_name(parser->at, "recursive"))
        return jinja_parse_fail(parser, "recursive loops are not supported");
    parser->loops++;
    kids[3] = parse_body(parser, ends, &word);
    parser->loops--;
    if (!kids[3])
        return NULL;
    if (strcmp(word, "else") == 0 && !(kids[4] = parse_simple_body(parser, "endfor")))
        return NULL;
    return jinja_node_of(parser, OP_FOR, line, kids, 5);
}

static struct jinja_node *parse_if(struct jinja_parser *parser, uint32_t line)
{
    static const char *const ends[] = { "endif", "elif", "else", NULL };
    struct jinja_kids kids = { 0 };
    const char *word = "elif";
    struct jinja_node *part = NULL;

    while (strcmp(word, "elif") == 0) {
        part = jinja_parse_tuple(parser, false);
        jinja_kids_add(&kids, part);
        part = part ? parse_body(parser, ends, &word) : NULL;
        jinja_kids_add(&kids, part);
        if (!part)
            break;
    }
    if (part && strcmp(word, "else") == 0) {
        part = parse_simple_body(parser, "endif");
        jinja_kids_add(&kids, part);
    }
    if (part)
        return jinja_kids_move(parser, &kids, jinja_node_new(parser, OP_IF, line));
    free(kids.list);
    return NULL;
}

static struct jinja_node *parse_set(struct jinja_parser *parser, uint32_t line)
{
    struct jinja_node *kids[3] = { jinja_parse_target(parser, true) };

    if (!kids[0])
        return NULL;
    if (jinja_skip_operator(parser, "=")) {
        kids[1] = jinja_parse_tuple(parser, true);
        return kids[1] ? jinja_node_of(parser, OP_SET, line, kids, 2) : NULL;
    }
    if (jinja_is_operator(parser->at, "|") &&
        !(kids[1] = jinja_parse_filters(parser, NULL, false)))
        return NULL;
    kids[2] = parse_simple_body(parser, "endset");
    return kids[2] ? jinja_node_of(parser, OP_SET_BLOCK, line, kids, 3) : NULL;
}

/* Parse (a, b=1) of a macro or of a call block. */
static bool parse_signature(struct jinja_parser *parser, struct jinja_node *macro)
{
    struct jinja_argument list[64] = { { 0 } };
    size_t count = 0;

    if (!jinja_expect_operator(parser, "("))
        return false;
    while (!jinja_is_operator(parser->at, ")")) {
        if (count == TS_COUNT(list))
            return jinja_parse_fail(parser, "more than %zu parameters", TS_COUNT(list));
        if (count > 0 && !jinja_expect_operator(parser, ","))
            return false;
        list[count].name = jinja_expect_name(parser);
        if (!list[count].name)
            return false;
        if (jinja_skip_operator(parser, "=") &&
            !(list[count].value = jinja_parse_expression(parser)))
            return false;
        if (count > 0 && list[count - 1].value && !list[count].value)
            return jinja_parse_fail(parser,
                                    "non-default argument follows default argument");
        count++;
    }
    parser->at++;
    macro->arguments = arena_array(parser->arena, count + 1, sizeof(*list));
    memcpy(macro->arguments, list, count * sizeof(*list));
    macro->argument_count = count;
    return true;
}

/* Parse the body of a macro; names in it show what it reads of its call. */
static bool parse_macro_body(struct jinja_parser *parser, struct jinja_node *macro,
                             const char *end)
{
    bool varargs = parser->varargs, kwargs = parser->kwargs, caller = parser->caller;
    size_t loops = parser->loops;

    parser->varargs = parser->kwargs = parser->caller = false;
    parser->loops = 0;
    macro->kids = arena_array(parser->arena, 1, sizeof(*macro->kids));
    macro->kids[0] = parse_simple_body(parser, end);
    macro->count = 1;
    macro->reads_varargs = parser->varargs;
    macro->reads_kwargs = parser->kwargs;
    macro->reads_caller = parser->caller;
    parser->varargs = varargs;
    parser->kwargs = kwargs;
    parser->caller = caller;
    parser->loops = loops;
    return macro->kids[0];
}

static struct jinja_node *parse_macro(struct jinja_parser *parser, uint32_t line)
{
    struct jinja_node *macro = jinja_node_new(parser, OP_MACRO, line);

    macro->name = jinja_expect_name(parser);
    return macro->name && parse_signature(parser, macro) &&
                   parse_macro_body(parser, macro, "endmacro")
               ? macro
               : NULL;
}

static struct jinja_node *parse_call_block(struct jinja_parser *parser, uint32_t line)
{
    struct jinja_node *kids[2] = { NULL, jinja_node_new(parser, OP_MACRO, line) };

    kids[1]->name = "caller";
    if (jinja_is_operator(parser->at, "(") && !parse_signature(parser, kids[1]))
        return NULL;
    kids[0] = jinja_parse_expression(parser);
    if (!kids[0])
        return NULL;
    if (kids[0]->op != OP_CALL)
        return jinja_parse_fail(parser, "expected call");
    return parse_macro_body(parser, kids[1], "endcall")
               ? jinja_node_of(parser, OP_CALL_BLOCK, line, kids, 2)
               : NULL;
}

static struct jinja_node *parse_filter_block(struct jinja_parser *parser, uint32_t line)
{
    struct jinja_node *kids[2] = { jinja_parse_filters(parser, NULL, true) };

    kids[1] = kids[0] ? parse_simple_body(parser, "endfilter") : NULL;
    return kids[1] ? jinja_node_of(parser, OP_FILTERED, line, kids, 2) : NULL;
}

static struct jinja_node *parse_with(struct jinja_parser *parser, uint32_t line)
{
    struct jinja_kids kids = { 0 };
    struct jinja_node *part = NULL;

    while (parser->at->kind != TOKEN_BLOCK_END) {
        if (kids.count > 0 && !jinja_expect_operator(parser, ","))
            goto fail;
        part = jinja_parse_target(parser, false);
        jinja_kids_add(&kids, part);
        if (!part || !jinja_expect_operator(parser, "="))
            goto fail;
        part = jinja_parse_expression(parser);
        jinja_kids_add(&kids, part);
        if (!part)
            goto fail;
    }
    part = parse_simple_body(parser, "endwith");
    jinja_kids_add(&kids, part);
    if (part)
        return jinja_kids_move(parser, &kids, jinja_node_new(parser, OP_WITH, line));
fail:
    free(kids.list);
    return NULL;
}

static struct jinja_node *parse_generation(struct jinja_parser *parser, uint32_t line)
{
    struct jinja_node *body = parse_simple_body(parser, "endgeneration");

    parser->generation = true;
    return body ? jinja_node_of(parser, OP_GENERATION, line, &body, 1) : NULL;
}

static struct jinja_node *parse_print(struct jinja_parser *parser, uint32_t line)
{
    struct jinja_node *value = jinja_parse_tuple(parser, true);

    return value ? jinja_node_of(parser, OP_PRINT, line, &value, 1) : NULL;
}

static struct jinja_node *parse_jump(struct jinja_parser *parser, enum jinja_op op,
                                     uint32_t line)
{
    if (parser->loops == 0)
        return jinja_parse_fail(parser, "break and continue must be inside a for loop");
    return jinja_node_new(parser, op, line);
}

static struct jinja_node *parse_break(struct jinja_parser *parser, uint32_t line)
{
    return parse_jump(parser, OP_BREAK, line);
}

static struct jinja_node *parse_continue(struct jinja_parser *parser, uint32_t line)
{
    return parse_jump(parser, OP_CONTINUE, line);
}

static const struct {
    const char *word;
    struct jinja_node *(*parse)(struct jinja_parser *parser, uint32_t line);
} statements[] = {
    { "if", parse_if },
    { "for", parse_for },
    { "set", parse_set },
    { "macro", parse_macro },
    { "generation", parse_generation },
    { "break", parse_break },
    { "continue", parse_continue },
    { "call", parse_call_block },
    { "filter", parse_filter_block },
    { "with", parse_with },
    { "print", parse_print },
};

static struct jinja_node *parse_statement(struct jinja_parser *parser)
{
    const struct jinja_token *token = parser->at;
    struct jinja_node *node;

    for (size_t i = 0; i < TS_COUNT(statements); i++) {
        if (!jinja_skip_name(parser, statements[i].word))
            continue;
        node = statements[i].parse(parser, token->line);
        return node && expect_kind(parser, TOKEN_BLOCK_END) ? node : NULL;
    }
    if (token->kind != TOKEN_NAME)
        return jinja_parse_fail(parser, "tag name expected");
    return jinja_parse_fail(parser, "Encountered unknown tag '%.*s'",
                            token->len < 60 ? (int)token->len : 60, token->text);
}

static struct jinja_node *parse_data(struct jinja_parser *parser)
{
    const struct jinja_token *token = parser->at++;
    struct jinja_node *node = jinja_node_new(parser, OP_DATA, token->line);

    node->value = jinja_string(token->text, token->len);
    return node;
}

static struct jinja_node *parse_variable(struct jinja_parser *parser)
{
    uint32_t line = parser->at++->line;
    struct jinja_node *node = parse_print(parser, line);

    return node && expect_kind(parser, TOKEN_VARIABLE_END) ? node : NULL;
}

static bool is_end(const struct jinja_token *token, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (jinja_is_name(token, *ends))
            return true;
    return false;
}

/* Parse up to the end of the template, or to the name of an ending tag. */
static struct jinja_node *parse_block(struct jinja_parser *parser,
                                      const char *const *ends)
{
    struct jinja_node *block = jinja_node_new(parser, OP_BLOCK, parser->at->line), *part;
    struct jinja_kids kids = { 0 };

    while (parser->at->kind != TOKEN_END) {
        if (parser->at->kind == TOKEN_DATA) {
            part = parse_data(parser);
        } else if (parser->at->kind == TOKEN_VARIABLE_BEGIN) {
            part = parse_variable(parser);
        } else {
            parser->at++;
            if (is_end(parser->at, ends))
                break;
            part = parse_statement(parser);
        }
        if (!part) {
            free(kids.list);
            return NULL;
        }
        jinja_kids_add(&kids, part);
    }
    return jinja_kids_move(parser, &kids, block);
}

/* Build the tree in the arena; false with *err. */
static bool parse(struct jinja *jinja, const char *source, size_t len, struct error *err)
{
    struct jinja_parser parser = { .arena = jinja->arena,
                                   .name = jinja->name,
                                   .err = err };
    struct jinja_tokens tokens;
    size_t bad;
    bool ok;

    if (len > SOURCE_MAX)
        return error_set(err, ERROR_DATA, "%s: %zu bytes are too long for a template",
                         jinja->name, len);
    if (!text_is_utf8(source, len, &bad))
        return error_set(err, ERROR_DATA, "%s: not UTF-8 at byte %zu", jinja->name,
                         bad + 1);
    ok = jinja_lex(jinja->arena, source, len, jinja->name, &tokens, err);
    if (ok) {
        parser.at = tokens.list;
        jinja->loop = jinja_intern(&parser, "loop", 4);
        jinja->caller = jinja_intern(&parser, "caller", 6);
        jinja->varargs = jinja_intern(&parser, "varargs", 7);
        jinja->kwargs = jinja_intern(&parser, "kwargs", 6);
        jinja->body = parse_block(&parser, NULL);
        jinja->generation = parser.generation;
    }
    free(tokens.list);
    return ok && jinja->body;
}

struct jinja *jinja_parse(const char *source, size_t len, const char *name,
                          struct error *err)
{
    struct arena *arena = arena_new();
    struct jinja *jinja = arena_alloc(arena, sizeof(*jinja));

    jinja->arena = arena;
    jinja->name = arena_strdup(arena, name);
    if (parse(jinja, source, len, err))
        return jinja;
    arena_free(arena);
    return NULL;
}

void jinja_free(struct jinja *jinja)
{
    if (jinja)
        arena_free(jinja->arena);
}

bool jinja_marks_generation(const struct jinja *jinja)
{
    return jinja->generation;
}
