/* train/jinja/jinja_parser.h - private to the two parts of the parser: jinja_expression.c
 * parses the inside of tags, jinja_parser.c the tags. Functions return NULL once *err is
 * set. */
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
    bool generation;              /* a {% generation %} block was seen */
    bool varargs, kwargs, caller; /* these names were seen */
    struct error *err;
};

/* Children of a node under construction. */
struct jinja_kids {
    struct jinja_node **list; /* malloc'ed */
    size_t count, room;
};

/* Return the unique address of a name. */
const char *jinja_intern(struct jinja_parser *parser, const char *text, size_t len);
struct jinja_node *jinja_node_new(struct jinja_parser *parser, enum jinja_op op,
                                  uint32_t line);
/* Make a node with up to three children, the last ones NULL if there are fewer. */
struct jinja_node *jinja_node_of(struct jinja_parser *parser, enum jinja_op op,
                                 uint32_t line, struct jinja_node *const *kids,
                                 size_t count);
void jinja_kids_add(struct jinja_kids *kids, struct jinja_node *kid);
/* Move the children to the node, in the arena, and free the list. */
struct jinja_node *jinja_kids_move(struct jinja_parser *parser, struct jinja_kids *kids,
                                   struct jinja_node *node);

void *jinja_parse_fail(struct jinja_parser *parser, const char *fmt, ...) TS_PRINTF(2, 3);
/* Fail with "unexpected 'x'" for the current token. */
void *jinja_unexpected(struct jinja_parser *parser);
bool jinja_is_name(const struct jinja_token *token, const char *name);
bool jinja_is_operator(const struct jinja_token *token, const char *text);
/* Skip it if it is the current token. */
bool jinja_skip_name(struct jinja_parser *parser, const char *name);
bool jinja_skip_operator(struct jinja_parser *parser, const char *text);
bool jinja_expect_operator(struct jinja_parser *parser, const char *text);
const char *jinja_expect_name(struct jinja_parser *parser); /* any name; NULL: none */
bool jinja_nest(struct jinja_parser *parser);               /* leave: parser->depth-- */

/* jinja_expression.c */
struct jinja_node *jinja_parse_expression(struct jinja_parser *parser);
struct jinja_node *
jinja_parse_condition(struct jinja_parser *parser); /* no inline `if` */
/* Parse expressions separated by commas: one, or a tuple. choices: with inline `if`. */
struct jinja_node *jinja_parse_tuple(struct jinja_parser *parser, bool choices);
/* Parse a name, names separated by commas, or ns.member if `members` is set. */
struct jinja_node *jinja_parse_target(struct jinja_parser *parser, bool members);
/* Parse any number of `| name(...)`; node may be NULL. begun: the first has no bar. */
struct jinja_node *jinja_parse_filters(struct jinja_parser *parser,
                                       struct jinja_node *node, bool begun);

#endif
