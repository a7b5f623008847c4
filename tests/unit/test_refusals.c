/* tests/unit/test_refusals.c - the tables of what other trainers refuse: each row is
 * complete, and its versions and terms can be evaluated. */
#include "config.h"

#include "patcher/rules/refusals.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static const struct refusals *const tables[] = {
    &refusals_llamafactory, &refusals_llamafactory_trainer,
    &refusals_transformers, &refusals_accelerate,
    &refusals_trl,
};

static struct version parse(const char *text)
{
    struct version version;

    assert_true(version_read(text, &version));
    return version;
}

static bool needs_key(enum refusal_test test)
{
    return test != REFUSAL_RANKS && test != REFUSAL_SCRIPT && test != REFUSAL_BACKEND;
}

static bool needs_operand(enum refusal_test test)
{
    switch (test) {
    case REFUSAL_IN:
    case REFUSAL_NOT_IN:
    case REFUSAL_OTHER:
    case REFUSAL_ONLY:
    case REFUSAL_ABOVE:
    case REFUSAL_BELOW:
    case REFUSAL_LESS:
    case REFUSAL_COUNT:
    case REFUSAL_SCRIPT:
    case REFUSAL_VERSION:
    case REFUSAL_BEFORE:
    case REFUSAL_BACKEND:
        return true;
    default:
        return false;
    }
}

static void check_terms(const struct refusal *row)
{
    size_t count = 0;

    while (count < REFUSAL_TERMS && row->when[count].test != REFUSAL_END) {
        const struct refusal_term *term = &row->when[count++];

        if (needs_key(term->test))
            assert_non_null(term->key);
        assert_int_equal(term->with != NULL, needs_operand(term->test));
        if (term->test == REFUSAL_VERSION || term->test == REFUSAL_BEFORE) {
            assert_true(package_find(term->key) < PACKAGES);
            parse(term->with);
        }
    }
    assert_true(count > 0);
    assert_non_null(row->when[0].key);
}

static void check_versions(const struct refusals *refusals, const struct refusal *row)
{
    struct version since = parse(row->since ? row->since : refusals->oldest), other;

    other = parse(refusals->oldest);
    assert_true(version_compare(&other, &since) <= 0);
    if (row->before) {
        other = parse(row->before);
        assert_true(version_compare(&since, &other) < 0);
    }
    assert_int_equal(row->said != NULL, row->reworded != NULL);
    if (row->reworded) {
        other = parse(row->reworded);
        assert_true(version_compare(&since, &other) < 0);
    }
}

static void test_refusals_have_terms_words_and_versions(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(tables); i++) {
        assert_true(tables[i]->count > 0);
        for (size_t j = 0; j < tables[i]->count; j++) {
            const struct refusal *row = &tables[i]->rows[j];

            assert_true(row->says && strlen(row->says) > 10);
            check_terms(row);
            check_versions(tables[i], row);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals_have_terms_words_and_versions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
