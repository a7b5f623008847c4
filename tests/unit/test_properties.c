/*
 * tests/unit/test_properties.c - properties of every patch, over real files of three
 * projects, each in several forms, on each class of device, under each policy, with and
 * without unsafe edits:
 *
 *   only the reported spans change, and they do not overlap
 *   only the reported keys change their data; PyYAML, if installed, agrees
 *   all comments stay, in their order
 *   a second patch changes nothing
 *   undoing the spans restores the first text, byte for byte
 *   no error that was reported as fixed remains
 *
 * The test runs a fixed part of the combinations; TRAINSPOOL_PROPERTIES=all runs all.
 */
#include "config.h"

#include "patcher/patcher.h"

#include "base/json.h"
#include "base/size.h"
#include "base/spawn.h"
#include "patcher/document/edits.h"
#include "precision/device.h"
#include "tests/unit/corpus.h"

enum { SHARE = 131, TIMEOUT_MS = 3600 * 1000 };

static const char *const devices[] = { "T4",   "A100", "P100", "P40",          "GTX 1660",
                                       "V100", "H100", "cpu",  "sm_120:16GiB", NULL };
static const char *const policies[] = {
    NULL,
    "trainspool.policy=report",
    "trainspool.policy=bf16",
    "trainspool.policy=fp32",
    "trainspool.policy=noclip",
    "trainspool.policy=noscaler",
    "trainspool.target=external",
};

/* Transformations of the file before the patch. */
static const char *const forms[] = { "unchanged", "CRLF", "byte order mark", "no newline",
                                     "fp16 for bf16" };

struct combination {
    const char *path;
    size_t form, device, policy;
    bool unsafe;
};

struct walk {
    bool all;
    char *dir; /* texts for PyYAML */
    size_t looked, changed, edits, compared;
    struct text list; /* for PyYAML: before, after and keys, one line each */
};

static void report_violation(const struct combination *c, const char *what)
{
    fail_msg("%s (%s) on %s, %s%s: %s", c->path, forms[c->form],
             devices[c->device] ? devices[c->device] : "no device",
             policies[c->policy] ? policies[c->policy] : "sound",
             c->unsafe ? ", unsafe" : "", what);
}

#define CHECK(c, promise) ((promise) ? (void)0 : report_violation(c, #promise))

static bool is_made(const struct finding *finding)
{
    return finding->new_text && finding->resolved;
}

static void check_spans(const struct combination *c, const struct patch *patch)
{
    struct edits *forward = edits_new(), *back = edits_new();
    size_t grown = 0;
    struct text out;

    text_init(&out, 0);
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        CHECK(c, finding->at.byte + finding->cut <= patch->document.len);
        CHECK(c, !finding->new_text || strlen(finding->old_text) == finding->cut);
        if (!is_made(finding))
            continue;
        CHECK(c, finding->apply != APPLY_MANUAL);
        CHECK(c, edits_replace(forward, finding->at.byte, finding->cut, finding->new_text,
                               NULL));
        CHECK(c, edits_replace(back, finding->at.byte + grown, strlen(finding->new_text),
                               finding->old_text, NULL));
        grown += strlen(finding->new_text) - finding->cut;
    }
    CHECK(c, edits_apply(forward, patch->document.data, patch->document.len, &out, NULL));
    CHECK(c, out.len == patch->len && memcmp(out.data, patch->text, out.len) == 0);
    text_reset(&out);
    CHECK(c, edits_apply(back, patch->text, patch->len, &out, NULL));
    CHECK(c, out.len == patch->document.len &&
                 memcmp(out.data, patch->document.data, out.len) == 0);
    text_clear(&out);
    edits_free(forward);
    edits_free(back);
}

/* Collect lines that begin with #, and text after ` #` on lines without quotes, without
 * using the patcher's reader. */
static void check_comments(const struct combination *c, const struct patch *patch)
{
    const char *line = patch->document.data, *after = patch->text;

    while (*line) {
        size_t len = strcspn(line, "\r\n");
        const char *hash = memmem(line, len, " #", 2);
        struct text comment;

        if (line[strspn(line, " ")] == '#')
            hash = line + strspn(line, " ");
        else if (hash && (memchr(line, '"', len) || memchr(line, '\'', len)))
            hash = NULL;
        text_init(&comment, 0);
        if (hash) {
            hash += *hash == ' ';
            text_add(&comment, hash, len - (size_t)(hash - line));
            after = strstr(after, comment.data);
            if (!after)
                report_violation(c, comment.data);
            after += comment.len;
        }
        text_clear(&comment);
        line += len + strspn(line + len, "\r\n");
    }
}

/* List the top-level keys that edits change or write; an edit may rename a key.  The
 * list is in the arena. */
static const char **expected_keys(const struct patch *patch)
{
    const char **keys =
        arena_array(patch->arena, 2 * patch->findings.count + 1, sizeof(*keys));
    size_t count = 0;

    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        if (!is_made(finding) || !finding->key)
            continue;
        keys[count++] = finding->key;
        if (finding->new_text[strcspn(finding->new_text, " :\r\n")] == 0)
            keys[count++] = finding->new_text;
    }
    return keys;
}

static char *pair_path(const struct walk *walk, const struct patch *patch,
                       const char *end)
{
    char name[80];

    snprintf(name, sizeof(name), "%.16s%.16s.%s", patch->before, patch->after, end);
    return path_join(walk->dir, name);
}

static void put(char *path, const char *data, size_t len)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    free(path);
}

/* Add new texts only: many devices need the same edits. */
static void add_for_pyyaml(struct walk *walk, const struct patch *patch,
                           const char *const *keys)
{
    char *path = pair_path(walk, patch, "before");

    if (file_exists(path)) {
        free(path);
        return;
    }
    put(path, patch->document.data, patch->document.len);
    put(pair_path(walk, patch, "after"), patch->text, patch->len);
    text_addf(&walk->list, "%.16s%.16s", patch->before, patch->after);
    for (; *keys; keys++)
        text_addf(&walk->list, " %s", *keys);
    text_addc(&walk->list, '\n');
    walk->compared++;
}

static bool remains(const struct patch *patch, const struct finding *wanted)
{
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        if (!finding->resolved && strcmp(finding->rule, wanted->rule) == 0 &&
            strcmp(finding->key ? finding->key : "", wanted->key ? wanted->key : "") == 0)
            return true;
    }
    return false;
}

static void check_second(const struct combination *c, const struct patch_options *options,
                         const struct patch *patch)
{
    struct patch_options without_set = *options;
    struct patch again;

    without_set.set = NULL; /* it is in the text now */
    CHECK(c, patcher_check(patch->text, patch->len, &without_set, &again, NULL));
    CHECK(c, !again.changed);
    CHECK(c, patch_rejected(&again) == patch_rejected(patch));
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        if (finding->resolved && finding->severity == SEVERITY_ERROR &&
            !remains(patch, finding))
            CHECK(c, !remains(&again, finding));
    }
    patch_clear(&again);
}

static void check(struct walk *walk, const struct combination *c, const struct text *text)
{
    const char *const set[] = { policies[c->policy], NULL };
    struct device device = { 0 };
    struct patch_options options = { .job = c->path,
                                     .device = devices[c->device] ? &device : NULL,
                                     .unsafe = c->unsafe,
                                     .set = set[0] ? set : NULL };
    struct error err = { 0 };
    const char **keys;
    struct patch patch;

    if (devices[c->device])
        assert_true(device_find(devices[c->device], &device, NULL));
    if (!patcher_check(text->data, text->len, &options, &patch, &err))
        report_violation(c, err.text);
    walk->looked++;
    walk->changed += patch.changed;
    check_spans(c, &patch);
    check_second(c, &options, &patch);
    if (patch.changed) {
        struct document after;

        document_read(patch.text, patch.len, patch.arena, &after);
        keys = expected_keys(&patch);
        check_comments(c, &patch);
        CHECK(c, document_same_but(&patch.document, &after, keys));
        add_for_pyyaml(walk, &patch, keys);
        for (size_t i = 0; i < patch.findings.count; i++)
            walk->edits += is_made(&patch.findings.list[i]);
    }
    patch_clear(&patch);
}

static void apply_form(size_t form, const struct text *from, struct text *out)
{
    static const char was[] = "\nbf16: true", now[] = "\nfp16: true";
    const char *found;

    text_reset(out);
    if (form == 2)
        text_adds(out, "\357\273\277");
    for (size_t i = 0; i < from->len; i++) {
        if (form == 1 && from->data[i] == '\n' && (i == 0 || from->data[i - 1] != '\r'))
            text_addc(out, '\r');
        text_addc(out, from->data[i]);
    }
    while (form == 3 && out->len > 0 && out->data[out->len - 1] == '\n')
        out->data[--out->len] = 0;
    if (form == 4 && (found = strstr(out->data, was)))
        memcpy(out->data + (found - out->data), now, sizeof(now) - 1);
}

static void walk_file(void *context, const char *path, const struct text *text)
{
    static uint32_t dice;
    struct walk *walk = context;
    size_t form_count = strstr(path, "llamafactory") ? TS_COUNT(forms) : 1;
    struct combination c = { .path = path };
    struct text formed;

    text_init(&formed, 0);
    for (c.form = 0; c.form < form_count; c.form++) {
        apply_form(c.form, text, &formed);
        for (c.device = 0; c.device < TS_COUNT(devices); c.device++)
            for (c.policy = 0; c.policy < TS_COUNT(policies); c.policy++)
                for (int unsafe = 0; unsafe < 2; unsafe++) {
                    c.unsafe = unsafe;
                    dice = dice * 1664525 + 1013904223;
                    if (walk->all || dice >> 8 < (1u << 24) / SHARE)
                        check(walk, &c, &formed);
                }
    }
    text_clear(&formed);
}

/* Run PyYAML; it prints nothing if only reported keys change. */
static void run_pyyaml(const struct walk *walk)
{
    char *script = unit_source("tests/unit/pyyaml_same.py");
    char *const probe[] = { "python3", "-c", "import yaml", NULL };
    char *const argv[] = { "python3", script, walk->dir, NULL };
    struct spawn_result result;
    struct error err = { 0 };
    struct text said;

    text_init(&said, 0);
    put(path_join(walk->dir, "list"), walk->list.data, walk->list.len);
    if (!spawn_capture(probe, TIMEOUT_MS, NULL, NULL, &result, NULL) ||
        result.status != 0) {
        print_message("# no python3 with yaml: PyYAML is not compared\n");
    } else {
        if (!spawn_capture(argv, TIMEOUT_MS, &said, NULL, &result, &err))
            fail_msg("%s", err.text);
        if (result.status != 0 || said.len > 0)
            fail_msg("%s", said.data);
    }
    text_clear(&said);
    free(script);
}

static void test_properties_hold_for_every_patch(void **state)
{
    const char *wish = getenv("TRAINSPOOL_PROPERTIES");
    struct walk walk = { .all = wish && strcmp(wish, "all") == 0 };

    (void)state;
    unit_need_shared("corpus/MANIFEST.tsv");
    walk.dir = unit_dir_new();
    text_init(&walk.list, 0);
    corpus_walk(walk_file, &walk);
    print_message(
        "# %zu combinations, %zu of them changed, %zu edits, %zu pairs of texts for "
        "PyYAML\n",
        walk.looked, walk.changed, walk.edits, walk.compared);
    assert_true(walk.looked > 500 && walk.changed > 100);
    run_pyyaml(&walk);
    text_clear(&walk.list);
    unit_dir_free(walk.dir);
}

/* Convert all scalars to strings; of a duplicate key the last one counts. */
static json_t *to_json(const struct node *node)
{
    json_t *json;

    node = node_value(node);
    if (node->kind == NODE_SCALAR)
        return json_stringn(node->text, node->len);
    json = node->kind == NODE_MAP ? json_object() : json_array();
    for (size_t i = 0; i < node->count; i++)
        if (node->kind == NODE_MAP)
            json_object_set_new(json, node->entries[i].key->text,
                                to_json(node->entries[i].value));
        else
            json_array_append_new(json, to_json(node->items[i]));
    return json;
}

/* A file written as JSON has the same data for the YAML reader and the JSON reader. */
static void read_as_both(void *context, const char *path, const struct text *text)
{
    struct arena *arena = arena_new();
    struct document yaml, flow;
    json_t *from_yaml, *from_flow, *from_json;
    size_t *count = context;
    struct text written;

    text_init(&written, 0);
    document_read(text->data, text->len, arena, &yaml);
    from_yaml = to_json(yaml.root);
    assert_true(json_write(from_yaml, &written));
    document_read(written.data, written.len, arena, &flow);
    if (!flow.root)
        fail_msg("%s as JSON: %s", path, flow.remarks[0].text);
    from_flow = to_json(flow.root);
    from_json = json_read_text(written.data, written.len, path, 1, NULL);
    if (!json_equal(from_yaml, from_flow) || !json_equal(from_flow, from_json))
        fail_msg("%s has other data as JSON: %s", path, written.data);
    ++*count;
    json_decref(from_yaml);
    json_decref(from_flow);
    json_decref(from_json);
    text_clear(&written);
    arena_free(arena);
}

static void test_properties_json_is_read_equally_by_both_readers(void **state)
{
    size_t count = 0;

    (void)state;
    corpus_walk(read_as_both, &count);
    assert_true(count > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_properties_json_is_read_equally_by_both_readers),
        cmocka_unit_test(test_properties_hold_for_every_patch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
