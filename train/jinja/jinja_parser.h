/*
 * train/jinja/jinja_parser.h - what the two halves of the parser share: jinja_expression.c
 * reads what stands inside of tags, jinja_parser.c the tags.  Functions return NULL once
 * *err is set.
 */
#ifndef TRAIN_JINJA_JINJA_PARSER_H
#define TRAIN_JINJA_JINJA_PARSER_H

#include "train/jinja/jinja_lexer.h"
#include "train/jinja/jinja_node.h"

enum { JINJA_NAME_BUCKETS = 256 };

struct jinja_name {
    struct jinja_name *next;
    size_t len;
    char text[];
};

struct jinja_parser {
    struct arena *arena;
    const char *name; /* of the template */
    const struct jinja_token *at;
    struct jinja_name *names[JINJA_NAME_BUCKETS];
    size_t depth, loops;
    bool generation;              /* seen one */
    bool varargs, kwargs, caller; /* seen as names */
    struct error *err;
};

/* Children of a node under construction. */
struct jinja_kids {
    struct jinja_node **list; /* malloc'ed */
    size_t count, room;
};

/* Each name has one address. */
const char *jinja_intern(struct jinja_parser *parser, const char *text, size_t len);
struct jinja_node *jinja_node_new(struct jinja_parser *parser, enum jinja_op op,
                                  uint32_t line);
/* Up to three children, the last ones NULL where there are fewer. */
struct jinja_node *jinja_node_of(struct jinja_parser *parser, enum jinja_op op,
                                 uint32_t line, struct jinja_node *const *kids,
                                 size_t count);
void jinja_kids_add(struct jinja_kids *kids, struct jinja_node *kid);
/* Give the children to the node, in the arena, and free the list. */
struct jinja_node *jinja_kids_give(struct jinja_parser *parser, struct jinja_kids *kids,
                                   struct jinja_node *node);

void *jinja_parse_fail(struct jinja_parser *parser, const char *fmt, ...) TS_PRINTF(2, 3);
/* "unexpected 'x'", of the token in work. */
void *jinja_unexpected(struct jinja_parser *parser);
bool jinja_is_name(const struct jinja_token *token, const char *name);
bool jinja_is_operator(const struct jinja_token *token, const char *text);
/* Go past it if it is there. */
bool jinja_skip_name(struct jinja_parser *parser, const char *name);
bool jinja_skip_operator(struct jinja_parser *parser, const char *text);
bool jinja_expect_operator(struct jinja_parser *parser, const char *text);
const char *jinja_expect_name(struct jinja_parser *parser); /* any name; NULL: none */
bool jinja_deeper(struct jinja_parser *parser); /* one level; parser->depth-- */

/* jinja_expression.c */
struct jinja_node *jinja_parse_expression(struct jinja_parser *parser);
struct jinja_node *
jinja_parse_condition(struct jinja_parser *parser); /* no `if` behind */
/* Expressions, parted by commas: one, or a tuple of them.  choices: with inline `if`. */
struct jinja_node *jinja_parse_tuple(struct jinja_parser *parser, bool choices);
/* A name, names parted by commas, or ns.member where members is set. */
struct jinja_node *jinja_parse_target(struct jinja_parser *parser, bool members);
/* `| name(...)` again and again; node may be NULL.  begun: the first has no bar. */
struct jinja_node *jinja_parse_filters(struct jinja_parser *parser,
                                       struct jinja_node *node, bool begun);

#endif
