/*
 * tests/fuzz/fuzz_document.c - documents: any bytes can be read, every position is within
 * the text, and every offered edit changes its key or value and nothing else.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "patcher/document/directive.h"
#include "patcher/document/edits.h"
#include "patcher/findings/rewrite.h"

static void check_node(const struct document *document, const struct node *node)
{
    struct mark mark = document_mark(document, node->at.byte);

    if (node->at.byte + node->bytes > document->len || strlen(node->text) > node->len ||
        mark.line != node->at.line || mark.column != node->at.column)
        abort();
    if (node->kind == NODE_ALIAS && (!node->target || node->target->kind == NODE_ALIAS))
        abort();
    for (size_t i = 0; i < node->count; i++) {
        if (node->kind == NODE_LIST)
            check_node(document, node->items[i]);
        if (node->kind == NODE_MAP) {
            check_node(document, node->entries[i].key);
            check_node(document, node->entries[i].value);
        }
    }
}

/* Check that `key` became `name` (NULL: removed) with the value `value` (NULL:
 * unchanged). */
static void check_edit(const struct document *document, const struct finding *edit,
                       const char *key, const char *name, const char *value)
{
    struct arena *arena = arena_new();
    struct edits *edits = edits_new();
    const char *const but[] = { key, name ? name : key, NULL };
    const struct entry *entry;
    struct document now;
    struct text out;

    text_init(&out, 0);
    if (!edits_replace(edits, edit->at.byte, edit->cut, edit->new_text, NULL) ||
        !edits_apply(edits, document->data, document->len, &out, NULL))
        abort();
    document_read(out.data, out.len, arena, &now);
    if (out.len <= DOCUMENT_MAX_BYTES) {
        if (!now.root || !document_same_but(document, &now, but))
            abort();
        entry = name ? document_find(&now, name) : NULL;
        if (name && (!entry || (value && strcmp(entry->value->text, value) != 0)))
            abort();
    }
    text_clear(&out);
    edits_free(edits);
    arena_free(arena);
}

static void check_entry(const struct document *document, const struct entry *entry,
                        struct arena *arena)
{
    struct finding edit = { 0 };
    struct rewrite how = { document, arena, &edit };
    const char *key = entry->key->text;

    if (document_find(document, "new") || strcmp(key, "<<") == 0 ||
        strlen(key) != entry->key->len)
        return;
    if (rewrite_value(&how, entry, "v") == REWRITE_OK)
        check_edit(document, &edit, key, key, "v");
    if (rewrite_key(&how, entry, "new") == REWRITE_OK)
        check_edit(document, &edit, key, "new", NULL);
    if (rewrite_insert(&how, entry, "new", "v") == REWRITE_OK)
        check_edit(document, &edit, "new", "new", "v");
    if (rewrite_remove(&how, entry, "TS606") == REWRITE_OK)
        check_edit(document, &edit, key, NULL, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct arena *arena = arena_new();
    struct document document;
    struct directive *directives;

    document_read((const char *)data, len, arena, &document);
    if (!document.root && document.remark_count == 0)
        abort();
    for (size_t i = 0; i < document.remark_count; i++)
        if (document.remarks[i].fault == DOCUMENT_OK || !document.remarks[i].text[0])
            abort();
    if (document.root)
        check_node(&document, document.root);
    for (size_t i = 0, count = directives_read(&document, arena, &directives); i < count;
         i++)
        if (directives[i].at.byte + directives[i].bytes > document.len)
            abort();
    for (size_t i = 0; document.root && i < document.root->count && i < 8; i++) {
        check_entry(&document, &document.root->entries[i], arena);
        document_line_keeps(&document, document.root->entries[i].value->at);
    }
    arena_free(arena);
    return 0;
}
