/* patcher/script/syntax.c - walk a syntax tree. */
#include "config.h"

#include "patcher/script/syntax.h"

#include <string.h>

#include "base/text.h"

struct syntax *syntax_field(const struct syntax *node, const char *field)
{
    for (struct syntax *child = node ? node->first : NULL; child; child = child->next)
        if (child->field && strcmp(child->field, field) == 0)
            return child;
    return NULL;
}

const struct syntax *syntax_plain(const struct syntax *node)
{
    while (node && node->kind == SYNTAX_PARENTHESES && node->first)
        node = node->first;
    return node;
}

bool syntax_is(const struct syntax_tree *tree, const struct syntax *node,
               const char *text)
{
    size_t len = strlen(text);

    return node && node->end - node->at == len &&
           memcmp(tree->data + node->at, text, len) == 0;
}

const char *syntax_text(const struct syntax_tree *tree, const struct syntax *node)
{
    return arena_copy(tree->arena, tree->data + node->at, node->end - node->at);
}

const char *syntax_dotted(const struct syntax_tree *tree, const struct syntax *node)
{
    const char *object;

    node = syntax_plain(node);
    if (node && node->kind == SYNTAX_NAME)
        return syntax_text(tree, node);
    if (node && node->kind == SYNTAX_DOTTED)
        return syntax_text(tree, node);
    if (!node || node->kind != SYNTAX_ATTRIBUTE)
        return NULL;
    object = syntax_dotted(tree, syntax_field(node, "object"));
    node = syntax_field(node, "attribute");
    return object && node
               ? arena_printf(tree->arena, "%s.%s", object, syntax_text(tree, node))
               : NULL;
}

const struct syntax *syntax_next(const struct syntax *node, const struct syntax *top)
{
    if (node->first)
        return node->first;
    while (node != top && !node->next)
        node = node->parent;
    return node == top ? NULL : node->next;
}

const struct syntax *syntax_around(const struct syntax *node, enum syntax_kind kind,
                                   enum syntax_kind other)
{
    for (node = node->parent; node; node = node->parent)
        if (node->kind == kind || node->kind == other)
            return node;
    return NULL;
}

bool syntax_contains(const struct syntax *outer, const struct syntax *inner)
{
    return outer->at <= inner->at && inner->end <= outer->end;
}
