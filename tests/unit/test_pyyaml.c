/* tests/unit/test_pyyaml.c - PyYAML, an independent reader, finds the same scalars at the
 * same bytes in every file of the corpus. */
#include "config.h"

#include "base/spawn.h"
#include "patcher/document/document.h"
#include "tests/unit/corpus.h"

enum { FILES_MAX = 2000, TIMEOUT_MS = 120 * 1000 };

struct walk {
    char *argv[FILES_MAX + 3]; /* python3, the script, the files */
    size_t count;
    struct text ours; /* in the format of the script's output */
};

static void show_scalar(const struct node *node, struct text *out)
{
    bool block = node->style == STYLE_LITERAL || node->style == STYLE_FOLDED;

    if (node->bytes == 0)
        text_adds(out, "S - - ");
    else if (block)
        text_addf(out, "S %zu - ", node->at.byte);
    else
        text_addf(out, "S %zu %zu ", node->at.byte, node->at.byte + node->bytes);
    for (size_t i = 0; i < node->len; i++)
        text_addf(out, "%02x", (unsigned)(unsigned char)node->text[i]);
    text_adds(out, node->len ? "\n" : "-\n");
}

static void show(const struct node *node, struct text *out)
{
    if (node->kind == NODE_SCALAR)
        show_scalar(node, out);
    for (size_t i = 0; i < node->count; i++) {
        if (node->kind == NODE_LIST)
            show(node->items[i], out);
        if (node->kind == NODE_MAP) {
            show(node->entries[i].key, out);
            show(node->entries[i].value, out);
        }
    }
}

static void take(void *context, const char *path, const struct text *text)
{
    struct arena *arena = arena_new();
    struct walk *walk = context;
    struct document document;

    assert_true(walk->count < FILES_MAX + 2);
    walk->argv[walk->count++] = memory_strdup(path);
    document_read(text->data, text->len, arena, &document);
    text_addf(&walk->ours, "F %s\n", path);
    show(document.root, &walk->ours);
    arena_free(arena);
}

static bool has_pyyaml(void)
{
    char *const argv[] = { "python3", "-c", "import yaml", NULL };
    struct spawn_result result;

    return spawn_capture(argv, TIMEOUT_MS, NULL, NULL, &result, NULL) &&
           result.status == 0;
}

static void test_document_agrees_with_pyyaml(void **state)
{
    struct walk *walk;
    struct error err = { 0 };
    struct spawn_result result;
    struct text python;

    (void)state;
    unit_need_shared("corpus/MANIFEST.tsv");
    if (!has_pyyaml()) {
        print_message("# SKIP there is no python3 with yaml\n");
        skip();
    }
    walk = memory_alloc(sizeof(*walk));
    text_init(&python, 0);
    text_init(&walk->ours, 0);
    walk->argv[0] = memory_strdup("python3");
    walk->argv[1] = unit_source("tests/unit/pyyaml_marks.py");
    walk->count = 2;
    corpus_walk(take, walk);
    if (!spawn_capture(walk->argv, TIMEOUT_MS, &python, NULL, &result, &err))
        fail_msg("%s", err.text);
    assert_int_equal(result.status, 0);
    assert_true(python.len > 1 << 16);
    assert_string_equal(walk->ours.data, python.data);
    for (size_t i = 0; i < walk->count; i++)
        free(walk->argv[i]);
    text_clear(&walk->ours);
    text_clear(&python);
    free(walk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document_agrees_with_pyyaml),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
