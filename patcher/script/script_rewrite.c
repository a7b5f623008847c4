/* patcher/script/script_rewrite.c - change, add, rename or remove one argument. */
#include "config.h"

#include "patcher/script/script_rewrite.h"

#include <ctype.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "patcher/script/script_internal.h"

struct edit {
    size_t at, cut;
    const char *text, *label;
};

static void emit(const struct rewrite *rewrite, struct edit edit)
{
    struct finding *out = rewrite->out;

    out->at = document_mark(rewrite->document, edit.at);
    out->cut = edit.cut;
    out->old_text =
        arena_copy(rewrite->arena, rewrite->document->data + edit.at, edit.cut);
    out->new_text = edit.text;
    out->label = edit.label;
}

static const struct script_item *item_of(const struct rewrite *rewrite,
                                         const struct entry *entry)
{
    const struct node *root = rewrite->document->root;

    return entry >= root->entries && entry < root->entries + root->count
               ? &rewrite->document->script->items[entry - root->entries]
               : NULL;
}

static bool is_number(const char *value)
{
    return isdigit((unsigned char)value[value[0] == '-']);
}

/* ---- A value as Python ---- */

static const char *dtype_python(const struct rewrite *rewrite, const struct syntax *old,
                                const char *value)
{
    const struct syntax_tree *tree = &rewrite->document->script->tree;
    const char *path = syntax_dotted(tree, old), *dot;

    if (old->kind == SYNTAX_NAME && old->field && strcmp(old->field, "attribute") == 0)
        return strcmp(value, "float32") == 0   ? "float"
               : strcmp(value, "float16") == 0 ? "half"
                                               : value; /* a method: x.half() */
    dot = path ? strrchr(path, '.') : NULL;
    if (dot && text_starts(path, "torch."))
        return arena_printf(rewrite->arena, "%.*s.%s", (int)(dot - path), path, value);
    return arena_printf(rewrite->arena, "torch.%s", value);
}

static bool is_dtype(const char *value)
{
    return strcmp(value, "float32") == 0 || strcmp(value, "float16") == 0 ||
           strcmp(value, "bfloat16") == 0;
}

/* Quote like the string it replaces. */
static const char *string_python(const struct rewrite *rewrite, const struct syntax *old,
                                 const char *value)
{
    const char *data = rewrite->document->data;
    char quote = '"';

    if (old && old->kind == SYNTAX_STRING && data[old->end - 1] == '\'')
        quote = '\'';
    return arena_printf(rewrite->arena, "%c%s%c", quote, value, quote);
}

/* Return the value in Python; NULL: it has no form. */
static const char *python_of(const struct rewrite *rewrite, const struct syntax *old,
                             const char *value)
{
    if (strcmp(value, "true") == 0)
        return "True";
    if (strcmp(value, "false") == 0)
        return "False";
    if (is_number(value))
        return value;
    if (strpbrk(value, "\"'\\\n{}[]"))
        return NULL;
    if (is_dtype(value) && !(old && old->kind == SYNTAX_STRING))
        return dtype_python(rewrite, old, value);
    return string_python(rewrite, old, value);
}

static enum rewrite_fault rewrite_script_value(const struct rewrite *rewrite,
                                               const struct entry *entry,
                                               const char *value)
{
    const struct script_item *item = item_of(rewrite, entry);
    const char *text;

    if (!item || !item->value || entry->value->edit == NODE_FIXED)
        return REWRITE_SHAPE;
    if (strcmp(entry->key->text, "flash_attn") == 0 && strcmp(value, "auto") == 0)
        value = "sdpa"; /* attn_implementation has no auto */
    text = python_of(rewrite, item->value, value);
    if (!text)
        return REWRITE_SHAPE;
    emit(rewrite, (struct edit) { item->value->at, item->value->end - item->value->at,
                                  text, NULL });
    if (entry->value->edit == NODE_COMPUTED && rewrite->out->apply == APPLY_SAFE)
        rewrite->out->apply = APPLY_UNSAFE;
    return REWRITE_OK;
}

/* ---- The name of an argument ---- */

static enum rewrite_fault rewrite_script_key(const struct rewrite *rewrite,
                                             const struct entry *entry, const char *name)
{
    const struct script_item *item = item_of(rewrite, entry);
    const struct syntax *key = NULL;

    if (item && item->argument && item->argument->kind == SYNTAX_KEYWORD)
        key = syntax_field(item->argument, "name");
    if (item && item->argument && item->argument->kind == SYNTAX_PAIR)
        key = syntax_field(item->argument, "key");
    if (!key || (key->kind != SYNTAX_NAME && key->kind != SYNTAX_STRING))
        return REWRITE_SHAPE;
    emit(rewrite,
         (struct edit) { key->at, key->end - key->at,
                         key->kind == SYNTAX_STRING ? string_python(rewrite, key, name)
                                                    : arena_strdup(rewrite->arena, name),
                         NULL });
    return REWRITE_OK;
}

/* ---- A new argument ---- */

/* Return whether a call spreads what is not known: the key may be in it. */
static bool spreads_unknown(struct script *script, const struct syntax *holder)
{
    const struct syntax *list = syntax_field(holder, "arguments");

    for (const struct syntax *child = list ? list->first : holder->first; child;
         child = child->next)
        if (child->kind == SYNTAX_DOUBLE_STAR &&
            script_evaluate(script, child->first).kind != SCRIPT_DICT)
            return true;
    return false;
}

static bool has_key(struct script *script, const struct syntax *call, const char *key)
{
    struct script_argument found;

    return call->kind == SYNTAX_CALL &&
           script_argument_find(script, call, key, -1, &found);
}

/* Return the row to insert after: the wanted one, or the last argument of the training
 * arguments. */
static const struct script_item *find_anchor(const struct rewrite *rewrite,
                                             const struct entry *after)
{
    struct script *script = rewrite->document->script;
    const struct node *root = rewrite->document->root;
    const struct script_item *item = after ? item_of(rewrite, after) : NULL;
    const struct script_class *row;
    const struct script_item *last = NULL;

    for (size_t i = 0; i < root->count; i++) {
        const struct script_item *other = &script->items[i];

        if (!other->argument || (other->argument->kind != SYNTAX_KEYWORD &&
                                 other->argument->kind != SYNTAX_PAIR))
            continue;
        row = other->call->kind == SYNTAX_CALL ? script_class_of(script, other->call)
                                               : NULL;
        if (row && row->role != ROLE_ARGUMENTS)
            continue;
        if (!row && root->entries[i].value->edit == NODE_COMPUTED)
            continue;
        if (item == other)
            return other;
        if (!last || other->argument->at > last->argument->at)
            last = other;
    }
    return last;
}

static const char *new_argument(const struct rewrite *rewrite,
                                const struct script_item *anchor, const char *key,
                                const char *value)
{
    const struct syntax *argument = anchor->argument, *name = argument->first;
    const char *between =
        arena_copy(rewrite->arena, rewrite->document->data + name->end,
                   argument->last->at - name->end); /* `=`, ` = `, `: ` */

    if (strpbrk(between, "#\r\n\\()"))
        between = argument->kind == SYNTAX_KEYWORD ? "=" : ": ";
    if (argument->kind == SYNTAX_KEYWORD)
        return arena_printf(rewrite->arena, "%s%s%s", key, between, value);
    return arena_printf(rewrite->arena, "%s%s%s", string_python(rewrite, name, key),
                        between, value);
}

/* Return where a line of its own can be inserted: after the anchor's comma, on a line
 * that ends there or in a comment.  0: there is none. */
static size_t line_after(const struct document *document, size_t end)
{
    const char *data = document->data;
    size_t at = end + strspn(data + end, " \t");

    if (data[at] != ',')
        return 0;
    at++;
    at += strspn(data + at, " \t");
    return data[at] == '#' || data[at] == '\n' || data[at] == '\r'
               ? document_line_end(document, at)
               : 0;
}

static enum rewrite_fault rewrite_script_insert(const struct rewrite *rewrite,
                                                const struct entry *after,
                                                const char *key, const char *value)
{
    const struct document *document = rewrite->document;
    struct script *script = document->script;
    const struct script_item *anchor = find_anchor(rewrite, after);
    const char *python, *text;
    size_t start, end, line;
    bool own_line;

    if (!script_may_add(key) || !anchor || spreads_unknown(script, anchor->call) ||
        has_key(script, anchor->call, key))
        return REWRITE_SHAPE;
    python = python_of(rewrite, NULL, value);
    if (!python)
        return REWRITE_SHAPE;
    text = new_argument(rewrite, anchor, key, python);
    end = anchor->argument->end;
    start = document_line_start(document, anchor->argument->at);
    own_line = strspn(document->data + start, " \t") >= anchor->argument->at - start;
    line = own_line ? line_after(document, end) : 0;
    if (line > 0)
        emit(rewrite, (struct edit) { line, 0,
                                      arena_printf(rewrite->arena, "%.*s%s,%s",
                                                   (int)(anchor->argument->at - start),
                                                   document->data + start, text,
                                                   document_newline(document, start)),
                                      text });
    else
        emit(rewrite,
             (struct edit) { end, 0, arena_printf(rewrite->arena, ", %s", text), text });
    return REWRITE_OK;
}

/* ---- Remove an argument ---- */

static enum rewrite_fault rewrite_script_remove(const struct rewrite *rewrite,
                                                const struct entry *entry,
                                                const char *rule)
{
    const struct document *document = rewrite->document;
    const struct script_item *item = item_of(rewrite, entry);
    const struct syntax *argument = item ? item->argument : NULL;
    size_t start, end;

    if (!argument ||
        (argument->kind != SYNTAX_KEYWORD && argument->kind != SYNTAX_PAIR) ||
        entry->value->edit == NODE_FIXED)
        return REWRITE_SHAPE;
    start = document_line_start(document, argument->at);
    if (strspn(document->data + start, " \t") < argument->at - start ||
        line_after(document, argument->end) == 0 ||
        document_line_end(document, argument->at) <= argument->end)
        return REWRITE_SHAPE;
    end = argument->end + strspn(document->data + argument->end, " \t") + 1;
    emit(rewrite,
         (struct edit) { argument->at, end - argument->at,
                         arena_printf(rewrite->arena, "# trainspool %s removed: %.*s",
                                      rule, (int)(end - argument->at),
                                      document->data + argument->at),
                         "removed" });
    return REWRITE_OK;
}

const struct rewriter script_rewriter = { rewrite_script_value, rewrite_script_key,
                                          rewrite_script_insert, rewrite_script_remove };
