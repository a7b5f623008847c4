/* tests/unit/test_finding.c - findings are in the order in which a person reads the
 * file. */
#include "config.h"

#include "patcher/findings/finding.h"

#include "tests/unit/unit.h"

static void add(struct findings *findings, const char *rule, size_t byte,
                enum severity severity, const char *now)
{
    findings_add(findings, &(struct finding) { .rule = rule,
                                               .severity = severity,
                                               .at = { byte, 1, 1 },
                                               .new_text = now });
}

static void test_findings_sort_by_position_then_rule(void **state)
{
    static const char *const expected[] = { "TS101", "TS102", "TS001", "TS002" };
    struct arena *arena = arena_new();
    struct findings findings;

    (void)state;
    findings_init(&findings, arena);
    add(&findings, "TS002", 9, SEVERITY_INFO, NULL);
    add(&findings, "TS102", 1, SEVERITY_INFO, NULL);
    add(&findings, "TS001", 9, SEVERITY_INFO, NULL);
    add(&findings, "TS101", 1, SEVERITY_INFO, NULL);
    findings_sort(&findings);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(findings.list[i].rule, expected[i]);
    arena_free(arena);
}

static void test_findings_sort_keeps_the_order_of_inserts_at_one_position(void **state)
{
    struct arena *arena = arena_new();
    struct findings findings;

    (void)state;
    findings_init(&findings, arena);
    add(&findings, "TS108", 5, SEVERITY_INFO, "fp16: true\n");
    add(&findings, "TS102", 5, SEVERITY_INFO, "a: b\n");
    findings_sort(&findings);
    assert_string_equal(findings.list[0].rule, "TS108");
    arena_free(arena);
}

static void test_findings_worst_skips_fixed_findings(void **state)
{
    struct arena *arena = arena_new();
    struct findings findings;

    (void)state;
    findings_init(&findings, arena);
    assert_int_equal(findings_worst(&findings), -1);
    for (int i = 0; i < 100; i++)
        add(&findings, "TS104", (size_t)i, SEVERITY_INFO, NULL);
    assert_int_equal(findings_worst(&findings), SEVERITY_INFO);
    add(&findings, "TS105", 3, SEVERITY_ERROR, NULL);
    assert_int_equal(findings_worst(&findings), SEVERITY_ERROR);
    findings.list[100].fixed = true;
    assert_int_equal(findings_worst(&findings), SEVERITY_INFO);
    assert_string_equal(severity_names[SEVERITY_ERROR], "error");
    assert_string_equal(apply_names[APPLY_SAFE], "safe");
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_findings_sort_by_position_then_rule),
        cmocka_unit_test(test_findings_sort_keeps_the_order_of_inserts_at_one_position),
        cmocka_unit_test(test_findings_worst_skips_fixed_findings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
