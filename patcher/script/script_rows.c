/* patcher/script/script_rows.c - an argument of a call as a row of a document. */
#include "config.h"

#include "patcher/script/script_rows.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "patcher/schema/schema.h"
#include "patcher/schema/schema_value.h"

enum { ROWS_MAX = 400, NESTED_DEPTH = 4 };

/* ---- Nodes ---- */

struct node *script_rows_node(struct script *script, const struct syntax *at,
                              enum node_kind kind, const char *text)
{
    struct node *node = arena_alloc(script->arena, sizeof(*node));

    *node = (struct node) { .kind = kind,
                            .flow = true,
                            .at = document_mark(script->document, at->at),
                            .bytes = at->end - at->at,
                            .text = text,
                            .len = strlen(text) };
    return node;
}

static struct node *value_node(struct script *script, const struct script_value *value,
                               const struct syntax *at, int depth);

struct map_building {
    struct script *script;
    struct node *map;
    int depth;
};

static void add_member(void *context, const struct script_argument *argument)
{
    struct map_building *to = context;
    struct script_value value = script_evaluate(to->script, argument->value);
    struct node *node = value_node(to->script, &value, argument->value, to->depth + 1);
    struct node *name;

    if (!argument->name || !node || to->map->count == ROWS_MAX)
        return;
    if (!to->map->entries)
        to->map->entries =
            arena_array(to->script->arena, ROWS_MAX, sizeof(*to->map->entries));
    name = script_rows_node(to->script, argument->written, NODE_SCALAR, argument->name);
    to->map->entries[to->map->count++] = (struct entry) { name, node, false };
}

static struct node *value_node(struct script *script, const struct script_value *value,
                               const struct syntax *at, int depth)
{
    struct map_building map = { .script = script, .depth = depth };
    const char *text;
    struct node *node;

    if (value->kind == SCRIPT_DICT && depth < NESTED_DEPTH) {
        map.map = script_rows_node(script, at, NODE_MAP, "");
        script_members(script, value->node, add_member, &map);
        return map.map;
    }
    text = value->kind == SCRIPT_LIST && !value->text
               ? script_list_text(script, value->node)
               : script_yaml(script, value);
    if (!text)
        return NULL;
    node = script_rows_node(script, at, NODE_SCALAR, text);
    node->style = value->kind == SCRIPT_STRING ? STYLE_DOUBLE : STYLE_PLAIN;
    node->edit =
        value->computed || value->kind == SCRIPT_LIST ? NODE_COMPUTED : NODE_LITERAL;
    return node;
}

/* ---- Rows ---- */

void script_rows_init(struct script_rows *rows, struct script *script)
{
    struct node *root = script_rows_node(script, script->tree.root, NODE_MAP, "");

    root->entries = arena_array(script->arena, ROWS_MAX + 1, sizeof(*root->entries));
    script->items = arena_array(script->arena, ROWS_MAX + 1, sizeof(*script->items));
    *rows = (struct script_rows) { .script = script, .root = root };
}

/* Return the index of the row of a key, or that of the next new row. */
static size_t index_of(const struct node *root, const char *key)
{
    size_t at = 0;

    while (at < root->count && strcmp(root->entries[at].key->text, key) != 0)
        at++;
    return at;
}

void script_rows_add(struct script_rows *rows, struct node *key, struct node *value,
                     const struct script_item *item)
{
    size_t at = index_of(rows->root, key->text);

    if (at == ROWS_MAX)
        return;
    rows->root->entries[at] = (struct entry) { key, value, false };
    rows->script->items[at] = *item;
    rows->root->count += at == rows->root->count;
}

void script_rows_remove(struct script_rows *rows, const char *key)
{
    struct entry *entries = rows->root->entries;
    struct script_item *items = rows->script->items;
    size_t at = index_of(rows->root, key), rest;

    if (at == rows->root->count)
        return;
    rest = --rows->root->count - at;
    memmove(&entries[at], &entries[at + 1], rest * sizeof(*entries));
    memmove(&items[at], &items[at + 1], rest * sizeof(*items));
}

void script_rows_add_fact(struct script_rows *rows, const char *name, const char *value,
                          const struct syntax *at)
{
    struct node *key = script_rows_node(rows->script, at, NODE_SCALAR, name);
    struct node *node = script_rows_node(rows->script, at, NODE_SCALAR, value);

    node->edit = NODE_FIXED;
    script_rows_add(rows, key, node, &(struct script_item) { .value = at });
}

/* Return the text to edit: the literal, if the name that leads to it is read once. */
static const struct syntax *editable(struct script *script,
                                     const struct script_value *value,
                                     const struct syntax *written)
{
    if (!value->node || value->computed)
        return written;
    if (value->name && script_count_uses(script, value->name) > 1)
        return written;
    return value->kind == SCRIPT_LIST || value->kind == SCRIPT_DICT ? written
                                                                    : value->node;
}

/* ---- What is not a row ---- */

/* Remember an argument under a name, with its value or, if `unread`, its text. */
static void leave(struct script_rows *rows, const char *name,
                  const struct script_argument *argument, bool unread)
{
    struct script *script = rows->script;
    struct script_value value = script_evaluate(script, argument->value);
    struct node *node = unread ? NULL : value_node(script, &value, argument->value, 0);
    size_t count = script->facts.left_count;

    if (count == ROWS_MAX)
        return;
    if (!rows->left)
        script->facts.left = rows->left =
            arena_array(script->arena, ROWS_MAX, sizeof(*rows->left));
    if (!node)
        node = script_rows_node(script, argument->value, NODE_SCALAR,
                                syntax_text(&script->tree, argument->value));
    rows->left[count].entry =
        (struct entry) { script_rows_node(script, argument->written, NODE_SCALAR, name),
                         node, false };
    rows->left[count].unread = unread;
    script->facts.left_count++;
}

/* Roles whose arguments decide what is trained. */
static bool is_reported(const struct script_class *row)
{
    return row->role == ROLE_ADAPTER || row->role == ROLE_QUANTIZATION ||
           row->role == ROLE_MODEL || row->role == ROLE_TRAINER ||
           row->role == ROLE_ARGUMENTS;
}

/* ---- Arguments ---- */

static bool is_choice(const char *key)
{
    return strcmp(key, "fp16") == 0 || strcmp(key, "bf16") == 0;
}

/* Values of attn_implementation as a job has them; others are left out. */
static bool name_attention(struct script_value *value)
{
    static const char *const names[][2] = {
        { "flash_attention_2", "fa2" },
        { "flash_attention_3", "fa3" },
        { "sdpa", "sdpa" },
        { "eager", "disabled" },
    };

    for (size_t i = 0; value->kind == SCRIPT_STRING && i < TS_COUNT(names); i++)
        if (strcmp(names[i][0], value->text) == 0) {
            value->text = names[i][1];
            return true;
        }
    return false;
}

void script_rows_add_argument(struct script_rows *rows, const char *key,
                              const struct script_argument *argument)
{
    struct script *script = rows->script;
    struct script_value value = script_evaluate(script, argument->value);
    const struct syntax *at = editable(script, &value, argument->value);
    struct node *name, *node;

    value.computed |= argument->computed;
    if (value.kind == SCRIPT_STRING && is_choice(key))
        return;
    if (strcmp(key, "flash_attn") == 0 && !name_attention(&value))
        return;
    if (value.kind == SCRIPT_STRING && strcmp(key, "gradient_checkpointing") == 0) {
        /* Unsloth's own, "unsloth" */
        script_rows_add_fact(rows, key, "true", argument->value);
        return;
    }
    node = value_node(script, &value, at, 0);
    if (!node && is_choice(key)) {
        script_rows_add_fact(rows, key, "auto", argument->value); /* the script decides */
        return;
    }
    if (!node) {
        if (argument->name)
            leave(rows, key, argument, true);
        return;
    }
    name = script_rows_node(script, script_argument_keyword(argument), NODE_SCALAR, key);
    script_rows_add(rows, name, node,
                    &(struct script_item) { argument->holder, argument->written, at });
}

/* Add what an argument of TRL means that a job says otherwise: SFTConfig(loss_type=), and
 * those of DPOConfig and its relatives. Return whether it is such an argument. */
static bool take_loss(struct script_rows *rows, const struct script_argument *argument)
{
    static const struct {
        const char *programs, *name, *key;
    } names[] = {
        { "dpo orpo cpo kto", "beta", "pref_beta" }, /* not of grpo: another beta */
        { "kto", "desirable_weight", "kto_chosen_weight" },
        { "kto", "undesirable_weight", "kto_rejected_weight" },
    };
    struct script_value value;

    if (!rows->row->program || !argument->name)
        return false;
    for (size_t i = 0; i < TS_COUNT(names); i++)
        if (strcmp(argument->name, names[i].name) == 0 &&
            value_is_listed(names[i].programs, rows->row->program)) {
            script_rows_add_argument(rows, names[i].key, argument);
            return true;
        }
    if (strcmp(rows->row->program, "sft") != 0 ||
        strcmp(argument->name, "loss_type") != 0)
        return false;
    value = script_evaluate(rows->script, argument->value);
    if (value.kind == SCRIPT_STRING && strcmp(value.text, "dft") == 0)
        script_rows_add_fact(rows, "use_dft_loss", "true", argument->value);
    return true;
}

void script_rows_take(void *context, const struct script_argument *argument)
{
    struct script_rows *rows = context;
    const char *key = script_key_of(rows->row, argument);
    const struct key *known = key ? schema_find(key) : NULL;

    if (take_loss(rows, argument))
        return;
    if (!key || (!rows->row->exact && rows->row->role == ROLE_ARGUMENTS &&
                 (!known || known->use == KEY_OTHER_TOOL))) {
        if (argument->name && is_reported(rows->row))
            leave(rows, argument->name, argument, false);
        return;
    }
    script_rows_add_argument(rows, key, argument);
}

/* Remember each `**name` of a call whose members are not known. */
static void leave_spreads(struct script_rows *rows, const struct syntax *call)
{
    const struct syntax *list = syntax_field(call, "arguments");
    const struct syntax *at = list ? list->first : NULL;

    for (; at && is_reported(rows->row); at = at->next) {
        struct script_argument spread = { .value = at, .written = at, .holder = call };

        if (at->kind == SYNTAX_DOUBLE_STAR && at->first &&
            script_evaluate(rows->script, syntax_plain(at->first)).kind != SCRIPT_DICT)
            leave(rows, syntax_text(&rows->script->tree, at), &spread, true);
    }
}

void script_rows_take_call(struct script_rows *rows, const struct syntax *call)
{
    rows->row = script_class_of(rows->script, call);
    if (!rows->row)
        return;
    script_arguments(rows->script, call, script_rows_take, rows);
    leave_spreads(rows, call);
}
