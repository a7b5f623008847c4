/* tests/unit/test_corpus.c - real files of three projects: read, checked, mended, left
 * alone. */
#include "config.h"

#include "patcher/patcher.h"

#include <dirent.h>

#include "base/size.h"
#include "precision/device.h"
#include "tests/unit/unit.h"

#define FILES_MAX 2000

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

/* The files below a folder of the corpus; skips the test where it is absent. */
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

/* What a patch writes needs no patch. */
static void check_settles(const char *path, const struct text *text, const char *device,
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

static void test_corpus_settles_on_each_device(void **state)
{
    static const char *const devices[] = { "cpu", "P100", "TITAN RTX", "GTX 1660",
                                           "A100" };
    struct corpus *corpus = corpus_new("corpus");

    (void)state;
    for (size_t i = 0; i < corpus->count; i++) {
        struct text text;

        load(corpus->paths[i], &text);
        for (size_t k = 0; k < TS_COUNT(devices); k++)
            check_settles(corpus->paths[i], &text, devices[k], NULL);
        text_clear(&text);
    }
    corpus_free(corpus);
}

static void test_corpus_settles_under_each_policy(void **state)
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
            check_settles(corpus->paths[i], &text, "T4", policies[k]);
            check_settles(corpus->paths[i], &text, "A100", policies[k]);
        }
        text_clear(&text);
    }
    corpus_free(corpus);
}

/* One error, that it is another tool's file, and nothing of its keys. */
static void check_foreign(const char *path)
{
    struct patch patch;
    struct text text;
    size_t told = 0;

    load(path, &text);
    check(path, &text, "sm_75", NULL, &patch);
    for (size_t i = 0; i < patch.findings.count; i++) {
        const struct finding *finding = &patch.findings.list[i];

        told += strcmp(finding->rule, "TS706") == 0;
        if (strcmp(finding->rule, "TS706") != 0 && finding->severity != SEVERITY_INFO)
            fail_msg("%s: %s %s", path, finding->rule, finding->message);
    }
    if (told != 1)
        fail_msg("%s: %zu findings of TS706", path, told);
    assert_false(patch.changed);
    assert_true(patch_rejected(&patch));
    patch_clear(&patch);
    text_clear(&text);
}

static void test_corpus_knows_other_tools(void **state)
{
    static const char *const folders[] = { "corpus/axolotl", "corpus/torchtune" };

    (void)state;
    for (size_t k = 0; k < TS_COUNT(folders); k++) {
        struct corpus *corpus = corpus_new(folders[k]);

        for (size_t i = 0; i < corpus->count; i++)
            check_foreign(corpus->paths[i]);
        corpus_free(corpus);
    }
}

/* The line that is `key: true`, or NULL. */
static const char *find_line(const struct text *text, const char *line)
{
    const char *at = text->data;
    size_t len = strlen(line);

    for (; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, line, len) == 0 && strchr("\n ", at[len]))
            return at;
    return NULL;
}

/* bf16: true becomes false, and a line fp16: true stands behind it; nothing else. */
static void check_mended(const char *path, const struct text *text, const char *line)
{
    size_t before = (size_t)(line - text->data), rest;
    struct patch patch;
    struct text wanted;

    rest = before + strlen("bf16: true");
    text_init(&wanted, 0);
    text_add(&wanted, text->data, before);
    text_adds(&wanted, "bf16: false");
    text_adds(&wanted, "\nfp16: true\n");
    assert_int_equal(text->data[rest], '\n');
    text_add(&wanted, text->data + rest + 1, text->len - rest - 1);
    check(path, text, "sm_75", NULL, &patch);
    if (patch.len != wanted.len || memcmp(patch.text, wanted.data, wanted.len) != 0)
        fail_msg("%s becomes\n%s", path, patch.text);
    for (size_t i = 0; i < patch.findings.count; i++)
        if (patch.findings.list[i].now)
            assert_string_equal(patch.findings.list[i].rule, "TS102");
    patch_clear(&patch);
    text_clear(&wanted);
}

static void check_left_alone(const char *path, const struct text *text)
{
    struct patch patch;
    bool told = false;

    check(path, text, "sm_75", NULL, &patch);
    for (size_t i = 0; i < patch.findings.count; i++)
        told |= strcmp(patch.findings.list[i].rule, "TS102") == 0;
    assert_true(told);
    assert_false(patch.changed);
    patch_clear(&patch);
}

static void test_corpus_bf16_on_turing(void **state)
{
    struct corpus *corpus = corpus_new("corpus/llamafactory");
    size_t mended = 0, pure = 0;

    (void)state;
    for (size_t i = 0; i < corpus->count; i++) {
        const char *line;
        struct text text;

        load(corpus->paths[i], &text);
        if (find_line(&text, "model_class: llm")) {
            text_clear(&text);
            continue; /* of v1, which has other keys and is never edited */
        }
        if ((line = find_line(&text, "bf16: true"))) {
            check_mended(corpus->paths[i], &text, line);
            mended++;
        } else if (find_line(&text, "pure_bf16: true")) {
            check_left_alone(corpus->paths[i], &text);
            pure++;
        }
        text_clear(&text);
    }
    assert_true(mended >= 29);
    assert_true(pure >= 2);
    corpus_free(corpus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_corpus_settles_on_each_device),
        cmocka_unit_test(test_corpus_settles_under_each_policy),
        cmocka_unit_test(test_corpus_knows_other_tools),
        cmocka_unit_test(test_corpus_bf16_on_turing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
