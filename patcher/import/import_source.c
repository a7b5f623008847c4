/* patcher/import/import_source.c - look up values of the imported file as texts, numbers
 * and lists. */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/nearest.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"

/* ${a}, where a is ${b}, and so on: torchtune's files have two levels. */
#define REFERENCES_MAX 8
#define REFERENCES_ALL 1000 /* limit for one value, at any depth */
#define TEXT_MAX       DOCUMENT_MAX_SCALAR
#define PATH_WORD      128 /* longer names are not keys of any tool */

bool import_refuse(struct importing *im, enum error_code code, const struct node *at,
                   const char *fmt, ...)
{
    char text[sizeof(im->err->text)];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return error_at(im->err, code, im->file, at ? at->at : (struct mark) { 0 }, "%s",
                    text);
}

const struct entry *import_find_written(const struct importing *im, const char *path)
{
    const struct node *node = im->source->root;

    for (;;) {
        size_t len = strcspn(path, ".");
        const struct entry *entry;
        char name[PATH_WORD];

        if (len >= sizeof(name))
            return NULL;
        memcpy(name, path, len);
        name[len] = 0;
        entry = node_find(node, name);
        if (!path[len] || !entry)
            return entry;
        node = node_value(entry->value);
        path += len + 1;
    }
}

const struct entry *import_find(const struct importing *im, const char *path)
{
    const struct entry *entry = import_find_written(im, path);

    return entry && !node_is_null(entry->value) ? entry : NULL;
}

struct resolving {
    const struct importing *im;
    struct text out;
    size_t remaining; /* references that may still be resolved */
};

/* Append a text with its ${...} resolved.  Return false if one cannot be found, if they
 * are circular, or if there are too many. */
static bool add_resolved(struct resolving *to, const char *from, size_t depth)
{
    const char *start, *end;

    while ((start = strstr(from, "${")) && (end = strchr(start, '}'))) {
        char path[PATH_WORD] = "";
        const struct entry *entry = NULL;

        if (!text_add(&to->out, from, (size_t)(start - from)))
            return false;
        if ((size_t)(end - start) < sizeof(path)) {
            snprintf(path, sizeof(path), "%.*s", (int)(end - start - 2), start + 2);
            entry = import_find(to->im, path);
        }
        if (!entry || depth == 0 || to->remaining-- == 0 ||
            node_value(entry->value)->kind != NODE_SCALAR ||
            !add_resolved(to, node_value(entry->value)->text, depth - 1))
            return false;
        from = end + 1;
    }
    return text_adds(&to->out, from);
}

const char *import_text(struct importing *im, const struct node *node)
{
    const struct node *value = node_value(node);
    struct resolving to = { .im = im, .remaining = REFERENCES_ALL };
    const char *resolved = NULL;

    if (value->kind != NODE_SCALAR || strlen(value->text) != value->len) {
        import_refuse(im, ERROR_DATA, node, "this must be a single value");
        return NULL;
    }
    if (!strstr(value->text, "${"))
        return value->text;
    text_init(&to.out, TEXT_MAX);
    if (add_resolved(&to, value->text, REFERENCES_MAX))
        resolved = arena_strdup(im->arena, to.out.data);
    else
        import_refuse(im, ERROR_DATA, node, "cannot resolve ${...} in this file: %s",
                      value->text);
    text_clear(&to.out);
    return resolved;
}

const char *import_text_of(struct importing *im, const struct node *map, const char *key)
{
    const struct entry *entry = node_find(map, key);

    return entry && !node_is_null(entry->value) ? import_text(im, entry->value) : NULL;
}

const char *import_get(struct importing *im, const char *path)
{
    const struct entry *entry = import_find(im, path);

    return entry ? import_text(im, entry->value) : NULL;
}

bool import_is_true(const struct importing *im, const char *path)
{
    const struct entry *entry = import_find(im, path);
    bool value = false;

    return entry && scalar_bool(entry->value, &value) != SCALAR_WRONG && value;
}

double import_number(struct importing *im, const char *path, double default_value)
{
    const struct entry *entry = import_find(im, path);
    const char *text = entry ? import_text(im, entry->value) : NULL;
    struct node node = { .kind = NODE_SCALAR, .text = text };
    double value = default_value;

    if (!text)
        return default_value;
    node.len = strlen(text);
    if (scalar_number(&node, &value) == SCALAR_WRONG) {
        import_refuse(im, ERROR_DATA, entry->value, "%s must be a number", path);
        return default_value;
    }
    return value;
}

const char *import_joined(struct importing *im, const struct node *node)
{
    const char *joined = NULL;

    node = node_value(node);
    if (node->kind == NODE_SCALAR)
        return import_text(im, node);
    for (size_t i = 0; node->kind == NODE_LIST && i < node->count; i++) {
        const struct node *item = node_value(node->items[i]);

        if (item->kind != NODE_SCALAR || strlen(item->text) != item->len ||
            strchr(item->text, ','))
            return NULL;
        joined =
            joined ? arena_printf(im->arena, "%s,%s", joined, item->text) : item->text;
        if (strlen(joined) > TEXT_MAX)
            return NULL;
    }
    return joined;
}

bool import_is_off(const struct node *node)
{
    static const char *const off_words[] = {
        "0", "0.0", "false", "no", "off", "none", ""
    };

    node = node_value(node);
    if (node->kind != NODE_SCALAR)
        return node->count == 0;
    for (size_t i = 0; i < TS_COUNT(off_words); i++)
        if (strlen(node->text) == strlen(off_words[i]) &&
            nearest_is_same_name(node->text, off_words[i]))
            return true;
    return node_is_null(node);
}

/* ---- tables ---- */

/* Return the comment that follows a value in the source. */
static const char *comment_of(const struct importing *im, const struct entry *entry)
{
    const struct node *value = entry->value;
    size_t from = value->at.byte + value->bytes, at, end;
    const char *data = im->source->data;

    if (value->kind != NODE_SCALAR || !document_comment(im->source, from, &at))
        return NULL;
    for (end = document_line_end(im->source, at);
         end > at && strchr(" \t\r\n", data[end - 1]); end--)
        continue;
    for (at++; at < end && data[at] == ' '; at++)
        continue;
    return end > at ? arena_copy(im->arena, data + at, end - at) : NULL;
}

/* Convert a text to the schema's type: yes is true, 1_000 is 1000. */
static const char *as_typed(struct importing *im, const struct key *key, const char *text)
{
    struct node read = { .kind = NODE_SCALAR, .text = text, .len = strlen(text) };
    double number;
    bool truth;
    int choice;

    if ((key->type == KEY_BOOL || key->type == KEY_BOOL_OR_TEXT) &&
        scalar_bool(&read, &truth) != SCALAR_WRONG)
        return truth ? "true" : "false";
    if (key->type == KEY_CHOICE && scalar_choice(&read, &choice) != SCALAR_WRONG)
        return choice == 2 ? "auto" : choice ? "true" : "false";
    if ((key->type == KEY_INT || key->type == KEY_REAL) &&
        scalar_number(&read, &number) == SCALAR_YAML11)
        return scalar_print(number, im->arena);
    return text;
}

static bool check_value(struct importing *im, const struct entry *entry, const char *from,
                        const struct key *key, const char *value)
{
    struct plan scratch = { 0 };
    struct error why = { 0 };

    if (key->use != KEY_USED || schema_set(key->name, value, im->arena, &scratch, &why))
        return true;
    return import_refuse(im, ERROR_DATA, entry->value, "cannot copy %s to %s: %s", from,
                         key->name, why.text);
}

bool import_is_valid(struct importing *im, const char *key, const char *value)
{
    struct plan scratch = { 0 };

    return schema_set(key, value, im->arena, &scratch, NULL);
}

bool import_copy(struct importing *im, const char *from, const char *to, const char *note)
{
    const struct entry *entry = import_find(im, from);
    const struct key *key = schema_find(to);
    const char *text;

    if (!entry) {
        import_mark_dropped(im, from, IMPORT_IDLE, "empty");
        return false;
    }
    text = key->type == KEY_LIST ? import_joined(im, entry->value)
                                 : import_text(im, entry->value);
    if (!text)
        return import_refuse(im, ERROR_DATA, entry->value, "%s must be a list of names",
                             from);
    text = as_typed(im, key, text);
    if (!check_value(im, entry, from, key, text))
        return false;
    import_set(im, to, text, note ? note : comment_of(im, entry));
    import_mark_carried(im, from, to);
    return true;
}

void import_copies(struct importing *im, const struct import_copy *rows, size_t count)
{
    for (size_t i = 0; i < count && !import_failed(im); i++)
        if (import_find_written(im, rows[i].from) &&
            !import_has_outcome(im, import_find_written(im, rows[i].from)))
            import_copy(im, rows[i].from, rows[i].to, rows[i].note);
}

static void drop_entry(struct importing *im, const struct import_group *row,
                       const struct entry *entry, const char *prefix)
{
    const char *why = import_idle_reason(entry->value, row->why);
    bool is_reason = why == row->why;

    import_add_outcome(
        im, entry,
        &(struct import_key) {
            .name = arena_printf(im->arena, "%s%s", prefix, entry->key->text),
            .outcome = is_reason ? row->outcome : IMPORT_IDLE,
            .why = why });
}

/* Return whether a word of a table matches the key.  `liger_*` matches the prefix. */
static bool pattern_matches(const char *word, size_t len, const char *key)
{
    if (len > 0 && word[len - 1] == '*')
        return strncmp(word, key, len - 1) == 0;
    return strlen(key) == len && strncmp(word, key, len) == 0;
}

static bool group_matches(const struct import_group *row, const char *key)
{
    for (const char *word = row->keys; *word;) {
        size_t len = strcspn(word, " ");

        if (pattern_matches(word, len, key))
            return true;
        word += len + strspn(word + len, " ");
    }
    return false;
}

void import_group_of_entry(struct importing *im, const struct entry *entry,
                           const struct import_group *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (group_matches(&rows[i], entry->key->text)) {
            drop_entry(im, &rows[i], entry, "");
            return;
        }
}

void import_groups(struct importing *im, const struct import_group *rows, size_t count)
{
    const struct node *root = im->source->root;

    for (size_t at = 0; at < root->count; at++)
        import_group_of_entry(im, &root->entries[at], rows, count);
}

void import_groups_of(struct importing *im, const char *block,
                      const struct import_group *rows, size_t count)
{
    const struct entry *of = import_find(im, block);
    const struct node *map = of ? node_value(of->value) : NULL;
    const char *prefix = arena_printf(im->arena, "%s.", block);

    for (size_t at = 0; map && map->kind == NODE_MAP && at < map->count; at++)
        for (size_t i = 0; i < count && !import_has_outcome(im, &map->entries[at]); i++)
            if (group_matches(&rows[i], map->entries[at].key->text))
                drop_entry(im, &rows[i], &map->entries[at], prefix);
}
