/* tests/unit/test_convergence.c - edits of several rules converge to one text, and the
 * findings lead to it from the original text.  The rules are defined in this file. */
#include "config.h"

#include "patcher/convergence.h"

#include "base/size.h"
#include "patcher/document/edits.h"
#include "patcher/findings/propose.h"
#include "patcher/findings/rewrite.h"
#include "patcher/rules/rules.h"
#include "tests/unit/unit.h"

static void (*rules_under_test)(struct rule_context *context);

const struct rule *rules_find(const char *id)
{
    static struct rule rule = { .severity = SEVERITY_ERROR };

    rule.id = id;
    return &rule;
}

size_t rules_count(void)
{
    return 0;
}

const struct rule *rules_at(size_t at)
{
    (void)at;
    return NULL;
}

void rules_run(struct rule_context *context)
{
    rules_under_test(context);
}

/* ---- Rules ---- */

struct ask {
    const char *rule, *key;
    enum apply apply;
    int group;
};

static struct finding *report(struct rule_context *context, struct ask ask)
{
    return findings_add(context->findings, &(struct finding) { .rule = ask.rule,
                                                               .severity = SEVERITY_ERROR,
                                                               .apply = ask.apply,
                                                               .key = ask.key,
                                                               .group = ask.group,
                                                               .message = "m" });
}

static void set_value(struct rule_context *context, struct ask ask, const char *value)
{
    struct finding *finding = report(context, ask);

    rewrite_value(&(struct rewrite) { context->document, context->arena, finding },
                  document_find(context->document, ask.key), value);
}

static void add_line(struct rule_context *context, struct ask ask, const char *value)
{
    struct finding *finding = report(context, ask);

    rewrite_insert(&(struct rewrite) { context->document, context->arena, finding }, NULL,
                   ask.key, value);
}

static bool has_value(struct rule_context *context, const char *key, const char *value)
{
    const struct entry *entry = document_find(context->document, key);

    return entry && strcmp(entry->value->text, value) == 0;
}

static bool lacks(struct rule_context *context, const char *key)
{
    return !document_find(context->document, key);
}

/* ---- Results ---- */

static const struct patch_options plain = { .job = "job.yaml" };

static bool convergence(const char *text, const struct patch_options *options,
                        void (*rules)(struct rule_context *context), struct patch *out,
                        struct error *err)
{
    struct analyzer analyzer = { .options = options,
                                 .arena = arena_new(),
                                 .checkpoint = FORMAT_COUNT };

    *out = (struct patch) { .arena = analyzer.arena };
    rules_under_test = rules;
    return converge_text(&analyzer, text, strlen(text), true, out, err);
}

/* Check that the edits of the findings, applied to the original text, give the final
 * text. */
static void assert_edits_give(const struct patch *patch, const char *expected)
{
    struct edits *edits = edits_new();
    struct text out;

    text_init(&out, 0);
    assert_string_equal(patch->text, expected);
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        if (!finding->new_text || !finding->resolved)
            continue;
        assert_memory_equal(patch->document.data + finding->at.byte, finding->old_text,
                            finding->cut);
        assert_true(edits_replace(edits, finding->at.byte, finding->cut,
                                  finding->new_text, NULL));
    }
    assert_true(
        edits_apply(edits, patch->document.data, patch->document.len, &out, NULL));
    assert_string_equal(out.data, expected);
    text_clear(&out);
    edits_free(edits);
}

static const struct finding *find(const struct patch *patch, const char *rule,
                                  const char *key)
{
    const struct finding *found = NULL;

    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        if (strcmp(finding->rule, rule) == 0 && finding->key &&
            strcmp(finding->key, key) == 0) {
            assert_null(found);
            found = finding;
        }
    }
    assert_non_null(found);
    return found;
}

/* ---- Tests ---- */

static void rule_bf16(struct rule_context *context)
{
    if (has_value(context, "bf16", "true"))
        set_value(context, (struct ask) { "TS102", "bf16", APPLY_SAFE, 0 }, "false");
}

static void test_convergence_makes_a_safe_edit(void **state)
{
    struct patch patch;

    (void)state;
    assert_true(
        convergence("seed: 1\nbf16: true # c\n", &plain, rule_bf16, &patch, NULL));
    assert_edits_give(&patch, "seed: 1\nbf16: false # c\n");
    assert_true(patch.changed);
    assert_false(patch.rejected);
    assert_true(find(&patch, "TS102", "bf16")->resolved);
    assert_false(find(&patch, "TS102", "bf16")->fixed);
    assert_int_equal(find(&patch, "TS102", "bf16")->at.line, 2);
    assert_int_equal(patch.plan.request.bf16, CHOICE_NO);
    assert_string_not_equal(patch.before, patch.after);
    arena_free(patch.arena);
    assert_true(convergence("bf16: false\n", &plain, rule_bf16, &patch, NULL));
    assert_false(patch.changed);
    assert_string_equal(patch.before, patch.after);
    arena_free(patch.arena);
}

static void rules_word_and_bf16(struct rule_context *context)
{
    rule_bf16(context);
    if (has_value(context, "bf16", "yes")) {
        set_value(context, (struct ask) { "TS102", "bf16", APPLY_SAFE, 0 }, "false");
        set_value(context, (struct ask) { "TS052", "bf16", APPLY_SAFE, 0 }, "true");
    }
}

static void test_convergence_assigns_an_overlapping_edit_to_the_later_rule(void **state)
{
    struct patch patch;

    (void)state;
    assert_true(convergence("bf16: yes   # c\nseed: 1\n", &plain, rules_word_and_bf16,
                            &patch, NULL));
    assert_edits_give(&patch, "bf16: false # c\nseed: 1\n");
    assert_non_null(find(&patch, "TS102", "bf16")->new_text);
    assert_null(find(&patch, "TS052", "bf16")->new_text);
    assert_true(find(&patch, "TS052", "bf16")->resolved);
    assert_false(patch.rejected);
    arena_free(patch.arena);
}

static void rules_same_value(struct rule_context *context)
{
    if (!has_value(context, "bf16", "true"))
        return;
    set_value(context, (struct ask) { "TS125", "bf16", APPLY_SAFE, 0 }, "false");
    set_value(context, (struct ask) { "TS102", "bf16", APPLY_SAFE, 0 }, "false");
}

static void test_convergence_drops_an_edit_no_longer_proposed(void **state)
{
    struct patch patch;

    (void)state;
    assert_true(convergence("bf16: true\n", &plain, rules_same_value, &patch, NULL));
    assert_edits_give(&patch, "bf16: false\n");
    assert_non_null(find(&patch, "TS125", "bf16")->new_text);
    assert_null(find(&patch, "TS102", "bf16")->new_text);
    assert_true(find(&patch, "TS102", "bf16")->resolved);
    arena_free(patch.arena);
}

static void rules_two_lines(struct rule_context *context)
{
    if (lacks(context, "tf32"))
        add_line(context, (struct ask) { "TS300", "tf32", APPLY_SAFE, 0 }, "false");
    if (lacks(context, "fp16"))
        add_line(context, (struct ask) { "TS108", "fp16", APPLY_SAFE, 0 }, "true");
    if (lacks(context, "fp16"))
        add_line(context, (struct ask) { "TS100", "fp16", APPLY_SAFE, 0 }, "true");
    if (has_value(context, "fp16", "true"))
        set_value(context, (struct ask) { "TS500", "fp16", APPLY_SAFE, 0 }, "false");
}

static void test_convergence_appends_lines_once_and_in_order(void **state)
{
    struct patch patch;

    (void)state;
    assert_true(convergence("seed: 1", &plain, rules_two_lines, &patch, NULL));
    assert_edits_give(&patch, "seed: 1\nfp16: false\ntf32: false\n");
    assert_string_equal(find(&patch, "TS500", "fp16")->new_text, "\nfp16: false\n");
    arena_free(patch.arena);
    assert_true(convergence("seed: 1\n", &plain, rules_two_lines, &patch, NULL));
    assert_edits_give(&patch, "seed: 1\nfp16: false\ntf32: false\n");
    arena_free(patch.arena);
}

static void name_and_line(struct rule_context *context, const char *rule)
{
    const struct entry *wrong = document_find(context->document, "gp16");
    struct ask rename = { rule, "gp16", APPLY_SAFE, 0 };

    if (lacks(context, "fp16"))
        add_line(context, (struct ask) { "TS108", "fp16", APPLY_SAFE, 0 }, "true");
    if (wrong)
        rewrite_key(&(struct rewrite) { context->document, context->arena,
                                        report(context, rename) },
                    wrong, "fp16");
}

static void rules_new_name_and_line(struct rule_context *context)
{
    name_and_line(context, "TS601");
}

static void rules_right_name_and_line(struct rule_context *context)
{
    name_and_line(context, "TS702");
}

static void test_convergence_adds_a_key_once(void **state)
{
    struct patch patch;

    (void)state;
    assert_true(
        convergence("\"gp16\": false\n", &plain, rules_new_name_and_line, &patch, NULL));
    assert_edits_give(&patch, "\"fp16\": false\n");
    assert_null(find(&patch, "TS108", "fp16")->new_text);
    arena_free(patch.arena);
}

static void test_convergence_fixes_names_first(void **state)
{
    struct patch patch;

    (void)state;
    assert_true(convergence("\"gp16\": false\n", &plain, rules_right_name_and_line,
                            &patch, NULL));
    assert_edits_give(&patch, "\"fp16\": false\n");
    for (size_t i = 0; i < patch.findings.count; i++)
        assert_string_not_equal(patch.findings.list[i].rule, "TS108");
    arena_free(patch.arena);
}

static void rules_group(struct rule_context *context)
{
    if (has_value(context, "bf16", "true") && has_value(context, "fp16", "true")) {
        set_value(context, (struct ask) { "TS101", "bf16", APPLY_SAFE, 7 }, "false");
        set_value(context, (struct ask) { "TS101", "fp16", APPLY_UNSAFE, 7 }, "false");
    }
}

static void test_convergence_makes_all_edits_of_a_group_or_none(void **state)
{
    const struct patch_options unsafe = { .job = "job.yaml", .unsafe = true };
    struct patch patch;

    (void)state;
    assert_true(
        convergence("bf16: true\nfp16: true\n", &plain, rules_group, &patch, NULL));
    assert_edits_give(&patch, "bf16: true\nfp16: true\n");
    assert_true(patch.rejected);
    assert_non_null(find(&patch, "TS101", "fp16")->new_text);
    arena_free(patch.arena);
    assert_true(
        convergence("bf16: true\nfp16: true\n", &unsafe, rules_group, &patch, NULL));
    assert_edits_give(&patch, "bf16: false\nfp16: false\n");
    assert_false(patch.rejected);
    arena_free(patch.arena);
}

static void test_convergence_makes_no_edit_under_policy_report(void **state)
{
    struct patch patch;

    (void)state;
    assert_true(convergence("bf16: true\ntrainspool: {policy: report}\n", &plain,
                            rule_bf16, &patch, NULL));
    assert_false(patch.changed);
    assert_true(patch.rejected);
    assert_non_null(find(&patch, "TS102", "bf16")->new_text);
    assert_false(find(&patch, "TS102", "bf16")->resolved);
    arena_free(patch.arena);
}

static void rules_late(struct rule_context *context)
{
    rule_bf16(context);
    if (has_value(context, "bf16", "false"))
        report(context, (struct ask) { "TS402", "seed", APPLY_MANUAL, 0 })->at =
            document_find(context->document, "seed")->value->at;
}

static void test_convergence_maps_late_findings_to_the_original_text(void **state)
{
    struct patch patch;

    (void)state;
    assert_true(convergence("{bf16: true, seed: 1}\n", &plain, rules_late, &patch, NULL));
    assert_edits_give(&patch, "{bf16: false, seed: 1}\n");
    assert_int_equal(find(&patch, "TS402", "seed")->at.byte, 19);
    assert_int_equal(find(&patch, "TS402", "seed")->at.column, 20);
    assert_false(find(&patch, "TS402", "seed")->resolved);
    assert_true(patch.rejected);
    arena_free(patch.arena);
}

static void rules_counting(struct rule_context *context)
{
    struct finding *finding;

    rule_bf16(context);
    finding = report(context, (struct ask) { "TS301", "seed", APPLY_MANUAL, 0 });
    finding->at = document_find(context->document, "seed")->value->at;
    finding->message = document_find(context->document, "bf16")->value->text;
}

static void test_convergence_reports_the_final_values(void **state)
{
    struct patch patch;

    (void)state;
    assert_true(
        convergence("bf16: true\nseed: 1\n", &plain, rules_counting, &patch, NULL));
    assert_string_equal(find(&patch, "TS301", "seed")->message, "false");
    assert_false(find(&patch, "TS301", "seed")->resolved);
    arena_free(patch.arena);
}

static void rules_endless(struct rule_context *context)
{
    set_value(context, (struct ask) { "TS102", "bf16", APPLY_SAFE, 0 },
              has_value(context, "bf16", "true") ? "false" : "true");
}

static void rule_careless(struct rule_context *context)
{
    struct finding *finding;

    if (!has_value(context, "seed", "1"))
        return;
    finding = report(context, (struct ask) { "TS102", "bf16", APPLY_SAFE, 0 });
    finding->at = document_mark(context->document, 0);
    finding->old_text = "";
    finding->new_text = "- ";
}

static void rule_twice(struct rule_context *context)
{
    struct finding *finding =
        report(context, (struct ask) { "TS102", "bf16", APPLY_SAFE, 0 });

    finding->at = document_mark(context->document, 0);
    finding->old_text = "";
    finding->new_text = "seed: 2\n";
}

static void test_convergence_refuses_endless_and_breaking_edits(void **state)
{
    static void (*const broken[])(struct rule_context *) = { rules_endless, rule_careless,
                                                             rule_twice };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(broken); i++) {
        struct error err = { 0 };
        struct patch patch;

        assert_false(
            convergence("bf16: true\nseed: 1\n", &plain, broken[i], &patch, &err));
        assert_int_equal(err.code, ERROR_SYSTEM);
        assert_non_null(strstr(err.text, "internal error"));
        arena_free(patch.arena);
    }
}

/* Two remarks of one rule on one key, and an edit elsewhere that causes a second
 * analysis. */
static void rule_two_remarks(struct rule_context *context)
{
    const struct ask ask = { "TS713", "dataset", APPLY_MANUAL, 0 };

    report(context, ask)->message = "a is not there";
    report(context, ask)->message = "b is not there";
    if (has_value(context, "bf16", "true"))
        set_value(context, (struct ask) { "TS102", "bf16", APPLY_SAFE, 0 }, "false");
}

static void test_convergence_keeps_remarks_at_one_position_apart(void **state)
{
    struct patch patch;

    (void)state;
    assert_true(convergence("dataset: a,b\nbf16: true\n", &plain, rule_two_remarks,
                            &patch, NULL));
    assert_int_equal(patch.findings.count, 3);
    assert_string_equal(patch.findings.list[0].message, "a is not there");
    assert_string_equal(patch.findings.list[1].message, "b is not there");
    assert_false(patch.findings.list[0].resolved);
    assert_false(patch.findings.list[1].resolved);
    arena_free(patch.arena);
}

static void test_convergence_reports_a_text_that_is_not_a_job(void **state)
{
    struct patch patch;

    (void)state;
    assert_true(convergence("- a\n", &plain, rule_bf16, &patch, NULL));
    assert_false(patch.is_job);
    assert_false(patch.has_plan);
    assert_true(patch.rejected);
    assert_int_equal(patch.findings.count, 1);
    assert_string_equal(patch.findings.list[0].rule, "TS009");
    arena_free(patch.arena);
}

static void rule_two_ways(struct rule_context *context)
{
    if (!has_value(context, "bf16", "true"))
        return;
    set_value(context, (struct ask) { "TS102", "bf16", APPLY_SAFE, 0 }, "false");
    add_line(context, (struct ask) { "TS405", "max_grad_norm", APPLY_UNSAFE, 0 }, "0.5");
}

/* An edit that another edit made unnecessary is not reported as made. */
static void test_convergence_claims_no_unnecessary_edit(void **state)
{
    struct patch patch;

    (void)state;
    assert_true(convergence("bf16: true\n", &plain, rule_two_ways, &patch, NULL));
    assert_edits_give(&patch, "bf16: false\n");
    assert_true(find(&patch, "TS405", "max_grad_norm")->resolved);
    assert_null(find(&patch, "TS405", "max_grad_norm")->new_text);
    arena_free(patch.arena);
}

static void rule_with_remark(struct rule_context *context)
{
    if (!has_value(context, "bf16", "true"))
        return;
    set_value(context, (struct ask) { "TS102", "bf16", APPLY_SAFE, 0 }, "false");
    propose_remark(&(struct proposal) { context->document, context->findings },
                   &(struct finding) { .rule = "TS106", .message = "m" },
                   document_find(context->document, "model_dtype"));
}

/* The finding is reported with its whole value, not with its first character. */
static void test_convergence_keeps_the_span_of_findings_resolved_by_others(void **state)
{
    struct patch patch;
    const struct finding *resolved;

    (void)state;
    assert_true(convergence("bf16: true\nmodel_dtype: float16\n", &plain,
                            rule_with_remark, &patch, NULL));
    resolved = find(&patch, "TS106", "model_dtype");
    assert_true(resolved->resolved);
    assert_int_equal(resolved->cut, strlen("float16"));
    arena_free(patch.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convergence_makes_a_safe_edit),
        cmocka_unit_test(test_convergence_claims_no_unnecessary_edit),
        cmocka_unit_test(test_convergence_keeps_the_span_of_findings_resolved_by_others),
        cmocka_unit_test(test_convergence_assigns_an_overlapping_edit_to_the_later_rule),
        cmocka_unit_test(test_convergence_drops_an_edit_no_longer_proposed),
        cmocka_unit_test(test_convergence_appends_lines_once_and_in_order),
        cmocka_unit_test(test_convergence_adds_a_key_once),
        cmocka_unit_test(test_convergence_fixes_names_first),
        cmocka_unit_test(test_convergence_makes_all_edits_of_a_group_or_none),
        cmocka_unit_test(test_convergence_makes_no_edit_under_policy_report),
        cmocka_unit_test(test_convergence_maps_late_findings_to_the_original_text),
        cmocka_unit_test(test_convergence_reports_the_final_values),
        cmocka_unit_test(test_convergence_keeps_remarks_at_one_position_apart),
        cmocka_unit_test(test_convergence_refuses_endless_and_breaking_edits),
        cmocka_unit_test(test_convergence_reports_a_text_that_is_not_a_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
