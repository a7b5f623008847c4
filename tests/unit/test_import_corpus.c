/* tests/unit/test_import_corpus.c - real files of other tools are imported completely,
 * and the jobs pass check. */
#include "config.h"

#include "tests/unit/unit_import.h"

#include "base/size.h"
#include "patcher/patcher.h"
#include "precision/device.h"
#include "tests/unit/corpus.h"

/* Return whether a key, one above it, or all keys below it have an outcome. */
static bool has_outcome(const struct trial *trial, const struct entry *entry)
{
    const struct node *value = entry->value;

    for (size_t i = 0; i < trial->import.key_count; i++)
        if (trial->import.keys[i].at.byte == entry->key->at.byte)
            return true;
    if (value->kind == NODE_MAP && value->count > 0) {
        for (size_t i = 0; i < value->count; i++)
            if (!has_outcome(trial, &value->entries[i]))
                return false;
        return true;
    }
    if (value->kind != NODE_LIST || value->count == 0)
        return false;
    for (size_t i = 0; i < value->count; i++)
        for (size_t k = 0; k < value->items[i]->count; k++)
            if (value->items[i]->kind != NODE_MAP ||
                !has_outcome(trial, &value->items[i]->entries[k]))
                return false;
    return true;
}

static void check_keys(const struct trial *trial, const char *path,
                       const struct text *text)
{
    struct document source;
    struct text flat;

    /* comments are wrapped, but never within a word */
    text_init(&flat, 0);
    text_add(&flat, trial->import.text.data, trial->import.text.len);
    document_read(text->data, text->len, trial->arena, &source);
    for (size_t i = 0; i < source.root->count; i++)
        if (!has_outcome(trial, &source.root->entries[i]))
            fail_msg("%s: %s is lost", path, source.root->entries[i].key->text);
    for (size_t i = 0; i < trial->import.key_count; i++) {
        const struct import_key *key = &trial->import.keys[i];

        if ((key->outcome == IMPORT_CARRIED) == (key->into == NULL) ||
            (key->outcome == IMPORT_CARRIED) != (key->why == NULL))
            fail_msg("%s: %s is %s, into %s, because %s", path, key->name,
                     import_outcome_names[key->outcome],
                     key->into ? key->into : "(nothing)",
                     key->why ? key->why : "(nothing)");
        if (key->outcome == IMPORT_CARRIED)
            continue;
        if (!strstr(flat.data, key->name))
            fail_msg("%s: no comment names %s", path, key->name);
    }
    text_clear(&flat);
}

/*
 * Warnings that check may report: files that are not here, an optimizer with 32-bit states,
 * learning rates out of range as in the original, a template that is not available, a
 * projector that the model may not have.  Errors are not allowed, but for a name of a model
 * whose architecture is not supported, which no import can change.
 */
static const char *const may_warn[] = { "TS307", "TS406", "TS707", "TS713" };

static void check_job(const struct trial *trial, const char *path)
{
    struct device device = { 0 };
    struct patch_options how = { .job = "imported.yaml", .device = &device };
    struct error err = { 0 };
    struct patch patch;

    assert_true(device_find("A100 80GB", &device, NULL));
    if (!patcher_check(trial->import.text.data, trial->import.text.len, &how, &patch,
                       &err))
        fail_msg("%s: %s", path, err.text);
    assert_true(patch.is_job);
    assert_false(patch.changed);
    for (size_t i = 0; i < patch.findings.count; i++) {
        const struct finding *finding = &patch.findings.list[i];
        bool known = finding->severity == SEVERITY_INFO;

        for (size_t k = 0; k < TS_COUNT(may_warn); k++)
            known |= strcmp(finding->rule, may_warn[k]) == 0;
        if (strcmp(finding->rule, "TS716") == 0 &&
            strcmp(finding->key, "model_name_or_path") == 0)
            continue;
        known |= strcmp(finding->rule, "TS716") == 0 &&
                 strcmp(finding->key, "freeze_multi_modal_projector") == 0;
        if (!known || finding->severity == SEVERITY_ERROR)
            fail_msg("%s: %s %s: %s", path, finding->rule, finding->key,
                     finding->message);
    }
    patch_clear(&patch);
}

struct tally {
    size_t imported, refused, nothing;
};

static void import_one(void *context, const char *path, const struct text *text)
{
    struct tally *tally = context;
    struct trial trial = trial_new(path, text->data, text->len);

    if (trial.good) {
        check_keys(&trial, path, text);
        check_job(&trial, path);
        tally->imported++;
    } else if (trial.err.code == ERROR_JOB) {
        tally->refused++;
        assert_true(trial.err.at.line > 0);
    } else {
        tally->nothing++;
        assert_int_equal(trial.err.code, ERROR_DATA);
    }
    trial_end(&trial);
}

static void test_import_of_real_files_passes_check(void **state)
{
    struct tally tally = { 0 };

    (void)state;
    corpus_walk(import_one, &tally);
    print_message("# %zu imported, %zu refused, %zu no such file\n", tally.imported,
                  tally.refused, tally.nothing);
    assert_true(tally.imported > tally.refused + tally.nothing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import_of_real_files_passes_check),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
