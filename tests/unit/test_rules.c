/* tests/unit/test_rules.c - the table of rules: each one has an ID, texts and test
 * cases. */
#include "config.h"

#include "patcher/rules/rules.h"

#include <dirent.h>

#include "base/size.h"
#include "patcher/schema/schema.h"
#include "tests/unit/unit.h"

/* TS105 -> ts105, the prefix of its cases. */
static void lower_id(const struct rule *rule, char out[8])
{
    snprintf(out, 8, "ts%s-", rule->id + 2);
}

static bool has_case(const struct rule *rule, bool near)
{
    char *top = unit_source("tests/patch"), prefix[8];
    DIR *dir = opendir(top);
    struct dirent *entry;
    bool found = false;

    lower_id(rule, prefix);
    while (dir && (entry = readdir(dir)))
        found |= text_starts(entry->d_name, prefix) &&
                 near == (strstr(entry->d_name, "-near-") != NULL);
    if (dir)
        closedir(dir);
    free(top);
    return found;
}

static void test_rules_have_texts_and_ids(void **state)
{
    const size_t count = rules_count();

    (void)state;
    assert_true(count > 50);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(strlen(rules_at(i)->id), 5);
        assert_ptr_equal(rules_find(rules_at(i)->id), rules_at(i));
        assert_true(strlen(rules_at(i)->title) > 8);
        assert_true(strlen(rules_at(i)->explain) > 60);
        assert_true(strlen(rules_at(i)->source) > 8);
        if (i > 0)
            assert_true(strcmp(rules_at(i - 1)->id, rules_at(i)->id) < 0);
    }
    assert_null(rules_at(count));
    assert_null(rules_find("TS999"));
    assert_null(rules_find("TS"));
    assert_null(rules_find("TSx01"));
}

/* TS010 and TS011 need a file on disk, TS717 a working directory (tests/cli/paths.t); the
 * cases of TS601 cover TS602 and TS604; TS128 to TS131 need a script, as in tests/scripts;
 * TS729 needs sbatch (tests/cli/slurm_check.t). */
static bool is_tested_elsewhere(const char *id)
{
    static const char *const ids[] = { "TS010", "TS011", "TS128", "TS129", "TS130",
                                       "TS131", "TS602", "TS604", "TS717", "TS729" };

    for (size_t i = 0; i < TS_COUNT(ids); i++)
        if (strcmp(id, ids[i]) == 0)
            return true;
    return false;
}

static void test_rules_have_a_case_and_a_near_miss(void **state)
{
    const size_t count = rules_count();

    (void)state;
    for (size_t i = 0; i < count; i++) {
        if (is_tested_elsewhere(rules_at(i)->id))
            continue;
        if (!has_case(rules_at(i), false))
            fail_msg("%s has no case in tests/patch", rules_at(i)->id);
        if (!has_case(rules_at(i), true))
            fail_msg("%s has no near miss in tests/patch", rules_at(i)->id);
    }
}

static void test_rules_of_the_schema_exist(void **state)
{
    const struct key *key;

    (void)state;
    for (size_t i = 0; (key = schema_at(&schema_job, i)); i++)
        if (key->rule)
            assert_non_null(rules_find(key->rule));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_have_texts_and_ids),
        cmocka_unit_test(test_rules_have_a_case_and_a_near_miss),
        cmocka_unit_test(test_rules_of_the_schema_exist),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
