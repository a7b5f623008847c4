/* tests/unit/test_corpus.c - real files of three projects are read, checked and fixed, or
 * left unchanged. */
#include "config.h"

#include "patcher/patcher.h"

#include <dirent.h>

#include "base/size.h"
#include "base/spawn.h"
#include "precision/device.h"
#include "tests/unit/unit.h"

#define FILES_MAX  2000
#define TIMEOUT_MS (60 * 1000)

struct corpus {
    char *paths[FILES_MAX];
    size_t count;
};

static void find_files(const char *dir, struct corpus *out)
{
    DIR *stream = opendir(dir);
    struct dirent *entry;

    while (stream && (entry = readdir(stream))) {
        char *path = path_join(dir, entry->d_name);
        bool keep = false;

        if (entry->d_name[0] != '.' && file_is_dir(path))
            find_files(path, out);
        else if (text_ends(path, ".yaml") || text_ends(path, ".yml"))
            keep = out->count < FILES_MAX;
        if (keep)
            out->paths[out->count++] = path;
        else
            free(path);
    }
    if (stream)
        closedir(stream);
}

/* List the files below a folder of the corpus; skip the test if it does not exist. */
static struct corpus *corpus_new(const char *folder)
{
    struct corpus *corpus = memory_alloc(sizeof(*corpus));
    char *dir = unit_shared(folder);

    if (!dir) {
        print_message("# SKIP no %s\n", folder);
        free(corpus);
        skip();
    }
    find_files(dir, corpus);
    free(dir);
    assert_true(corpus->count > 0);
    return corpus;
}

static void corpus_free(struct corpus *corpus)
{
    for (size_t i = 0; i < corpus->count; i++)
        free(corpus->paths[i]);
    free(corpus);
}

static struct device device_of(const char *name)
{
    struct device device = { 0 };

    assert_true(device_find(name, &device, NULL));
    return device;
}

static void check(const char *path, const struct text *text, const char *device_name,
                  const char *policy, struct patch *out)
{
    struct device device = device_of(device_name);
    const char *set[] = { policy, NULL };
    struct patch_options how = { .job = path,
                                 .device = &device,
                                 .set = policy ? set : NULL };
    struct error err = { 0 };

    if (!patcher_check(text->data, text->len, &how, out, &err))
        fail_msg("%s on %s: %s", path, device_name, err.text);
}

static void load(const char *path, struct text *out)
{
    text_init(out, 0);
    assert_true(file_read(path, DOCUMENT_MAX_BYTES, out, NULL, NULL));
}

/* A patched text requires no further patch. */
static void check_converges(const char *path, const struct text *text, const char *device,
                            const char *policy)
{
    struct patch patch, again;
    struct text patched;

    check(path, text, device, policy, &patch);
    text_init(&patched, 0);
    text_add(&patched, patch.text, patch.len);
    check(path, &patched, device, policy, &again);
    if (again.changed)
        fail_msg("%s on %s, %s: patched twice", path, device, policy ? policy : "");
    patch_clear(&again);
    patch_clear(&patch);
    text_clear(&patched);
}

static void test_corpus_converges_on_each_device(void **state)
{
    static const char *const devices[] = { "cpu", "P100", "TITAN RTX", "GTX 1660",
                                           "A100" };
    struct corpus *corpus = corpus_new("corpus");

    (void)state;
    for (size_t i = 0; i < corpus->count; i++) {
        struct text text;

        load(corpus->paths[i], &text);
        for (size_t k = 0; k < TS_COUNT(devices); k++)
            check_converges(corpus->paths[i], &text, devices[k], NULL);
        text_clear(&text);
    }
    corpus_free(corpus);
}

static void test_corpus_converges_under_each_policy(void **state)
{
    static const char *const policies[] = {
        "trainspool.policy=bf16",     "trainspool.policy=fp32",
        "trainspool.policy=report",   "trainspool.policy=noclip",
        "trainspool.policy=noscaler",
    };
    struct corpus *corpus = corpus_new("corpus/llamafactory");

    (void)state;
    for (size_t i = 0; i < corpus->count; i++) {
        struct text text;

        load(corpus->paths[i], &text);
        for (size_t k = 0; k < TS_COUNT(policies); k++) {
            check_converges(corpus->paths[i], &text, "T4", policies[k]);
            check_converges(corpus->paths[i], &text, "A100", policies[k]);
        }
        text_clear(&text);
    }
    corpus_free(corpus);
}

/* Expect one error, that the file belongs to another tool, and no finding about its
 * keys. */
static void check_other_tool(const char *path)
{
    struct patch patch;
    struct text text;
    size_t reported = 0;

    load(path, &text);
    check(path, &text, "sm_75", NULL, &patch);
    for (size_t i = 0; i < patch.findings.count; i++) {
        const struct finding *finding = &patch.findings.list[i];

        reported += strcmp(finding->rule, "TS706") == 0;
        if (strcmp(finding->rule, "TS706") != 0 && finding->severity != SEVERITY_INFO)
            fail_msg("%s: %s %s", path, finding->rule, finding->message);
    }
    if (reported != 1)
        fail_msg("%s: %zu findings of TS706", path, reported);
    assert_false(patch.changed);
    assert_true(patch_rejected(&patch));
    patch_clear(&patch);
    text_clear(&text);
}

static void test_corpus_recognizes_other_tools(void **state)
{
    static const char *const folders[] = { "corpus/axolotl", "corpus/torchtune" };

    (void)state;
    for (size_t k = 0; k < TS_COUNT(folders); k++) {
        struct corpus *corpus = corpus_new(folders[k]);

        for (size_t i = 0; i < corpus->count; i++)
            check_other_tool(corpus->paths[i]);
        corpus_free(corpus);
    }
}

/* Return whether the rule is about names and values: TS701 to TS706. */
static bool is_name_rule(const struct finding *finding)
{
    return strncmp(finding->rule, "TS70", 4) == 0 && finding->rule[4] >= '1' &&
           finding->rule[4] <= '6';
}

/* Check the names and values of a file that runs in its own project. */
static size_t check_names(const char *path, const struct text *text)
{
    struct patch patch;
    size_t reported = 0;

    check(path, text, "sm_80", NULL, &patch);
    for (size_t i = 0; i < patch.findings.count; i++)
        reported += is_name_rule(&patch.findings.list[i]);
    if (reported > 1 ||
        (reported == 1 && strcmp(patch.findings.list[0].rule, "TS706") != 0))
        fail_msg("%s: %zu findings of names", path, reported);
    patch_clear(&patch);
    return reported;
}

/* Check each file for this program and for a script; a text that is not a job is reported
 * once. */
static void test_corpus_recognizes_every_key(void **state)
{
    struct corpus *corpus = corpus_new("corpus/llamafactory");

    (void)state;
    for (size_t i = 0; i < corpus->count; i++) {
        struct text text;

        load(corpus->paths[i], &text);
        if (check_names(corpus->paths[i], &text) == 0) {
            text_adds(&text, "\ntrainspool:\n  target: external\n");
            assert_int_equal(check_names(corpus->paths[i], &text), 0);
        }
        text_clear(&text);
    }
    corpus_free(corpus);
}

/* Preference jobs of LLaMA-Factory are accepted unchanged: the only errors are about
 * templates of other models, such as qwen3_vl. */
static void test_corpus_accepts_preferences(void **state)
{
    struct corpus *corpus = corpus_new("corpus/llamafactory");
    size_t accepted = 0;

    (void)state;
    for (size_t i = 0; i < corpus->count; i++) {
        struct text text;
        struct patch patch;

        load(corpus->paths[i], &text);
        if (strstr(text.data, "\nstage: dpo\n")) {
            check(corpus->paths[i], &text, "sm_80", NULL, &patch);
            for (size_t k = 0; k < patch.findings.count; k++)
                if (patch.findings.list[k].severity == SEVERITY_ERROR &&
                    !text_equal(patch.findings.list[k].key, "template"))
                    fail_msg("%s: %s", corpus->paths[i], patch.findings.list[k].message);
            assert_int_equal(patch.plan.stage, STAGE_DPO);
            patch_clear(&patch);
            accepted++;
        }
        text_clear(&text);
    }
    assert_true(accepted > 0);
    corpus_free(corpus);
}

/* Find the line `key: true`, or return NULL. */
static const char *find_line(const struct text *text, const char *line)
{
    const char *at = text->data;
    size_t len = strlen(line);

    for (; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, line, len) == 0 && strchr("\n ", at[len]))
            return at;
    return NULL;
}

/* ---- bf16 on compute capability 7.5 ---- */

/* The fixed files, and the differences that PyYAML should find between both versions. */
struct fixed_files {
    char *argv[2 + 2 * FILES_MAX + 1]; /* python3, the script, pairs of files, NULL */
    size_t count, attention;
    struct text expected; /* from the script */
};

static void replace_line(struct text *text, const char *line, const char *replacement)
{
    const char *at = find_line(text, line);
    size_t before = (size_t)(at - text->data);
    struct text changed;

    text_init(&changed, 0);
    text_add(&changed, text->data, before);
    text_adds(&changed, replacement);
    text_adds(&changed, at + strlen(line));
    text_reset(text);
    text_add(text, changed.data, changed.len);
    text_clear(&changed);
}

/* Expect bf16: true to become false, followed by a new line fp16: true; auto instead of
 * FlashAttention 2; and no other change. */
static void expect_edits(const struct text *text, bool fa2, struct text *expected)
{
    text_init(expected, 0);
    text_add(expected, text->data, text->len);
    replace_line(expected, "bf16: true", "bf16: false\nfp16: true");
    if (fa2)
        replace_line(expected, "flash_attn: fa2", "flash_attn: auto");
}

static void check_rules(const struct patch *patch, bool fa2)
{
    size_t bf16 = 0, attention = 0;

    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];
        bool is_bf16 = strcmp(finding->rule, "TS102") == 0;

        if (!finding->new_text || finding->apply != APPLY_SAFE)
            continue;
        bf16 += is_bf16;
        attention += strcmp(finding->rule, "TS205") == 0;
        if (!is_bf16 && strcmp(finding->rule, "TS205") != 0)
            fail_msg("%s edits %s too", finding->rule, finding->key);
    }
    assert_int_equal(bf16, 2);
    assert_int_equal(attention, fa2);
}

static void add_pair(struct fixed_files *fixed_files, const char *path, const char *dir,
                     const struct patch *patch, bool fa2)
{
    char name[32], *copy;

    snprintf(name, sizeof(name), "%zu.yaml", fixed_files->count);
    copy = path_join(dir, name);
    assert_true(file_replace(copy, patch->text, patch->len, 0644, NULL));
    fixed_files->argv[2 + 2 * fixed_files->count] = memory_strdup(path);
    fixed_files->argv[3 + 2 * fixed_files->count] = copy;
    fixed_files->count++;
    fixed_files->attention += fa2;
    text_adds(&fixed_files->expected, "bf16: True -> False\n");
    if (fa2)
        text_adds(&fixed_files->expected, "flash_attn: 'fa2' -> 'auto'\n");
    text_adds(&fixed_files->expected, "fp16: None -> True\n\n");
}

static void check_fixed(const char *path, const struct text *text, const char *dir,
                        struct fixed_files *fixed_files)
{
    bool fa2 = find_line(text, "flash_attn: fa2") != NULL;
    struct patch patch;
    struct text expected;

    expect_edits(text, fa2, &expected);
    check(path, text, "sm_75", NULL, &patch);
    if (patch.len != expected.len || memcmp(patch.text, expected.data, expected.len) != 0)
        fail_msg("%s becomes\n%s", path, patch.text);
    check_rules(&patch, fa2);
    add_pair(fixed_files, path, dir, &patch, fa2);
    patch_clear(&patch);
    text_clear(&expected);
}

/* PyYAML finds that only these keys differ. */
static void check_as_pyyaml_reads(struct fixed_files *fixed_files)
{
    char *const probe[] = { "python3", "-c", "import yaml", NULL };
    struct spawn_result result;
    struct error err = { 0 };
    struct text found;

    if (!spawn_capture(probe, TIMEOUT_MS, NULL, NULL, &result, NULL) || result.status) {
        print_message("# SKIP there is no python3 with yaml to read both files\n");
        return;
    }
    text_init(&found, 0);
    if (!spawn_capture(fixed_files->argv, TIMEOUT_MS, &found, NULL, &result, &err))
        fail_msg("%s", err.text);
    assert_int_equal(result.status, 0);
    assert_string_equal(found.data, fixed_files->expected.data);
    text_clear(&found);
}

static void check_unchanged(const char *path, const struct text *text)
{
    struct patch patch;
    bool reported = false;

    check(path, text, "sm_75", NULL, &patch);
    for (size_t i = 0; i < patch.findings.count; i++)
        reported |= strcmp(patch.findings.list[i].rule, "TS102") == 0;
    assert_true(reported);
    assert_false(patch.changed);
    patch_clear(&patch);
}

static void fix_all(const struct corpus *corpus, const char *dir,
                    struct fixed_files *fixed_files)
{
    size_t pure = 0, other = 0;

    for (size_t i = 0; i < corpus->count; i++) {
        struct text text;

        load(corpus->paths[i], &text);
        if (find_line(&text, "model_class: llm"))
            /* in v1 format: never edited */
            other += find_line(&text, "bf16: true") != NULL;
        else if (find_line(&text, "bf16: true"))
            check_fixed(corpus->paths[i], &text, dir, fixed_files);
        else if (find_line(&text, "pure_bf16: true") && ++pure)
            check_unchanged(corpus->paths[i], &text);
        text_clear(&text);
    }
    assert_true(fixed_files->count + other >= 30);
    assert_true(fixed_files->attention >= 4);
    assert_true(pure >= 2);
}

static void test_corpus_bf16_on_turing(void **state)
{
    struct corpus *corpus = corpus_new("corpus/llamafactory");
    struct fixed_files *fixed_files = memory_alloc(sizeof(*fixed_files));
    char *dir = unit_dir_new();

    (void)state;
    memset(fixed_files, 0, sizeof(*fixed_files));
    text_init(&fixed_files->expected, 0);
    fixed_files->argv[0] = memory_strdup("python3");
    fixed_files->argv[1] = unit_source("tests/unit/pyyaml_differs.py");
    fix_all(corpus, dir, fixed_files);
    check_as_pyyaml_reads(fixed_files);
    for (size_t i = 0; fixed_files->argv[i]; i++)
        free(fixed_files->argv[i]);
    text_clear(&fixed_files->expected);
    free(fixed_files);
    unit_dir_free(dir);
    corpus_free(corpus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_corpus_converges_on_each_device),
        cmocka_unit_test(test_corpus_converges_under_each_policy),
        cmocka_unit_test(test_corpus_recognizes_other_tools),
        cmocka_unit_test(test_corpus_recognizes_every_key),
        cmocka_unit_test(test_corpus_accepts_preferences),
        cmocka_unit_test(test_corpus_bf16_on_turing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
