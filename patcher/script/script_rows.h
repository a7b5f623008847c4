/* patcher/script/script_rows.h - the rows of a script's document, from its calls. */
#ifndef PATCHER_SCRIPT_SCRIPT_ROWS_H
#define PATCHER_SCRIPT_SCRIPT_ROWS_H

#include "patcher/script/script_internal.h"

struct script_rows {
    struct script *script;
    struct node *root;
    const struct script_class *row; /* of the call whose arguments are read */
    struct script_left *left;       /* script->facts.left, or NULL: none yet */
};

/* Start with no rows; script.items has one item per row. */
void script_rows_init(struct script_rows *rows, struct script *script);
/* Return a node of a text that is borrowed, at a position of the script. */
struct node *script_rows_node(struct script *script, const struct syntax *at,
                              enum node_kind kind, const char *text);
/* Add a row, or replace the row of the same key. */
void script_rows_add(struct script_rows *rows, struct node *key, struct node *value,
                     const struct script_item *item);
/* Remove the row of a key, if there is one. */
void script_rows_remove(struct script_rows *rows, const char *key);
/* Add a row for what no argument says: the text at `at` shows why.  It cannot be edited. */
void script_rows_add_fact(struct script_rows *rows, const char *name, const char *value,
                          const struct syntax *at);
/* Add the row of an argument under a key. */
void script_rows_add_argument(struct script_rows *rows, const char *key,
                              const struct script_argument *argument);
/* Add the row of an argument of rows.row under its key there.  One without a key, or of a
 * value that is not known, is added to script->facts.left.  For script_arguments and
 * script_members. */
void script_rows_take(void *rows, const struct script_argument *argument);
/* The same for all arguments of a call, if the call has a class. */
void script_rows_take_call(struct script_rows *rows, const struct syntax *call);

#endif
