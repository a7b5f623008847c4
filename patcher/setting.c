/* patcher/setting.c - one edit per setting, each on the result of the one before. */
#include "config.h"

#include "patcher/setting.h"

#include <string.h>

#include "patcher/document/edit_log.h"
#include "patcher/findings/rewrite.h"
#include "patcher/schema/schema.h"

static const char block_name[] = "trainspool";

struct setting {
    struct arena *arena;
    const char *key;                   /* at the top level, or in the block */
    const char *value, *value_in_flow; /* as written in a block, and in a flow mapping */
    bool in_block;
};

/* Read the value as one node that takes all of these bytes; NULL for the start of a
 * block, and for a tag or anchor with a value. */
static const struct node *read_value(const char *value, bool flow, struct arena *arena)
{
    const char *line = arena_printf(arena, flow ? "{k: %s}\n" : "k: %s\n", value);
    struct document document;
    const struct entry *entry;

    document_read(line, strlen(line), arena, &document);
    entry = document_find(&document, "k");
    return entry && document.root->count == 1 && document.remark_count == 0 &&
                   entry->value->bytes == strlen(value) && !entry->value->tag &&
                   !entry->value->anchor && entry->value->style != STYLE_LITERAL &&
                   entry->value->style != STYLE_FOLDED
               ? entry->value
               : NULL;
}

static const char *quote(const char *value, struct arena *arena)
{
    char *out = arena_alloc(arena, 2 * strlen(value) + 3), *to = out;

    *to++ = '\'';
    for (; *value; value++) {
        if (*value == '\'')
            *to++ = '\'';
        *to++ = *value;
    }
    *to = '\'';
    return out;
}

/* Return the text if YAML reads it as this value, otherwise quoted; NULL if YAML cannot
 * have these bytes on one line. */
static const char *as_yaml(const char *value, bool flow, struct arena *arena)
{
    const char *quoted;
    const struct node *node;

    if (read_value(value, flow, arena))
        return value;
    quoted = quote(value, arena);
    node = read_value(quoted, flow, arena);
    return node && strcmp(node->text, value) == 0 ? quoted : NULL;
}

static bool split(const char *text, struct arena *arena, struct setting *out,
                  struct error *err)
{
    const char *equals = strchr(text, '=');
    const size_t prefix = sizeof(block_name);
    struct plan scratch = { 0 };

    if (!equals || equals == text || strpbrk(text, "\r\n"))
        return error_set(err, ERROR_USAGE,
                         "--set requires KEY=VALUE on one line, not '%s'", text);
    *out = (struct setting) { .arena = arena };
    out->key = arena_copy(arena, text, (size_t)(equals - text));
    if (!schema_set(out->key, equals + 1, arena, &scratch, err))
        return false;
    out->value = as_yaml(equals + 1, false, arena);
    out->value_in_flow = as_yaml(equals + 1, true, arena);
    if (!out->value || !out->value_in_flow)
        return error_set(err, ERROR_USAGE,
                         "cannot set %s: the value must be one line of UTF-8 text",
                         out->key);
    out->in_block = !schema_find(out->key);
    if (strncmp(out->key, block_name, prefix - 1) == 0 && out->key[prefix - 1] == '.') {
        out->key += prefix;
        out->in_block = true;
    }
    return true;
}

static enum rewrite_fault edit(const struct rewrite *rewrite,
                               const struct setting *setting)
{
    const struct document *document = rewrite->document;
    const struct entry *block = document_find(document, block_name);
    const struct node *map =
        setting->in_block ? block ? block->value : NULL : document->root;
    const struct entry *entry = node_find(map, setting->key);
    const char *value = map && map->flow ? setting->value_in_flow : setting->value;
    const char *of_block =
        arena_printf(setting->arena, "{%s: %s}", setting->key, setting->value_in_flow);

    if (entry)
        return rewrite_value(rewrite, entry, value);
    if (!setting->in_block)
        return rewrite_insert(rewrite, NULL, setting->key, value);
    if (!block)
        return rewrite_insert(rewrite, NULL, block_name, of_block);
    if (map->kind == NODE_MAP && map->count > 0)
        return rewrite_insert(rewrite, &map->entries[map->count - 1], setting->key,
                              value);
    return node_is_null(map) ? rewrite_value(rewrite, block, of_block) : REWRITE_SHAPE;
}

static bool apply_one(const struct setting *setting, const char **data, size_t *len,
                      struct error *err)
{
    struct finding finding = { .rule = "" };
    struct edit_log *edit_log = edit_log_new(*data, *len, setting->arena);
    struct document document;

    document_read(*data, *len, setting->arena, &document);
    if (!document.root)
        return true;
    if (edit(&(struct rewrite) { &document, setting->arena, &finding }, setting) !=
        REWRITE_OK)
        return error_set(
            err, ERROR_USAGE,
            "cannot set %s: the layout of its value in the job does not allow an edit",
            setting->key);
    edit_log_replace(edit_log, &(struct edit_log_entry) { finding.at.byte, finding.cut,
                                                          finding.new_text, 0 });
    *data = edit_log_text(edit_log, len);
    return true;
}

bool setting_apply(const char *const *set, struct arena *arena, const char **data,
                   size_t *len, struct error *err)
{
    struct setting setting;

    for (; set && *set; set++)
        if (!split(*set, arena, &setting, err) || !apply_one(&setting, data, len, err))
            return false;
    return true;
}
