/* tests/unit/test_spans.c - in every job file of other projects, each top-level value can
 * be replaced by its bytes without changing anything else. */
#include "config.h"

#include "patcher/document/document.h"

#include "patcher/document/edits.h"
#include "patcher/findings/rewrite.h"
#include "tests/unit/corpus.h"

struct counts {
    size_t values, empty, rewritten, refused;
};

/* Read the text again after one edit: it has the new value, and the old values
 * elsewhere. */
static void check_edit(const char *path, const struct document *document, const char *key,
                       const struct finding *edit)
{
    struct arena *arena = arena_new();
    struct edits *edits = edits_new();
    const char *const but[] = { key, NULL };
    const struct entry *entry;
    struct document now;
    struct text out;

    text_init(&out, 0);
    assert_true(edits_replace(edits, edit->at.byte, edit->cut, edit->new_text, NULL));
    assert_true(edits_apply(edits, document->data, document->len, &out, NULL));
    document_read(out.data, out.len, arena, &now);
    entry = now.root ? document_find(&now, key) : NULL;
    if (!entry || strcmp(entry->value->text, "new") != 0 ||
        !document_same_but(document, &now, but))
        fail_msg("%s: %s cannot be replaced: %s", path, key, out.data);
    text_clear(&out);
    edits_free(edits);
    arena_free(arena);
}

static void check_value(struct counts *counts, const char *path,
                        const struct document *document, const struct entry *entry)
{
    struct arena *arena = arena_new();
    struct finding edit = { .at = entry->value->at, .cut = entry->value->bytes };

    edit.new_text = edit.cut ? "new" : " new";
    check_edit(path, document, entry->key->text, &edit);
    counts->values++;
    counts->empty += edit.cut == 0;
    if (rewrite_value(&(struct rewrite) { document, arena, &edit }, entry, "new") ==
        REWRITE_OK) {
        check_edit(path, document, entry->key->text, &edit);
        counts->rewritten++;
    } else {
        counts->refused++;
    }
    arena_free(arena);
}

static void check_file(void *context, const char *path, const struct text *text)
{
    struct arena *arena = arena_new();
    struct document document;

    document_read(text->data, text->len, arena, &document);
    if (!document.root || document.remark_count > 0)
        fail_msg("%s: %s", path, document.remarks[0].text);
    for (size_t i = 0; i < document.root->count; i++)
        if (document.root->entries[i].value->kind == NODE_SCALAR)
            check_value(context, path, &document, &document.root->entries[i]);
    arena_free(arena);
}

static void test_spans_replace_values_by_their_bytes(void **state)
{
    struct counts counts = { 0 };
    size_t files = corpus_walk(check_file, &counts);

    (void)state;
    print_message("# %zu files, %zu values, %zu empty; %zu rewritten, %zu refused\n",
                  files, counts.values, counts.empty, counts.rewritten, counts.refused);
    assert_true(files > 0 && counts.values > 20 * files &&
                counts.refused < counts.values / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans_replace_values_by_their_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
