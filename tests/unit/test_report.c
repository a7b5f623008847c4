/* tests/unit/test_report.c - the text that people and scripts read. */
#include "config.h"

#include "runner/output/report.h"

#include <signal.h>

#include "runner/output/report_json.h"
#include "tests/unit/unit.h"

static struct finding found[] = {
    { .rule = "TS105",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .key = "model_dtype",
      .at = { 309, 7, 14 },
      .cut = 7,
      .old_text = "float16",
      .new_text = "float32",
      .message = "a sentence",
      .because = "a fact",
      .note = "what stays" },
    { .rule = "TS701",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .key = "Lora_rank",
      .at = { 1, 2, 1 },
      .old_text = "Lora_rank",
      .new_text = "lora_rank",
      .message = "spelled \033[31mso" },
    { .rule = "TS108",
      .severity = SEVERITY_INFO,
      .apply = APPLY_SAFE,
      .key = "fp16",
      .at = { 1, 3, 1 },
      .old_text = "",
      .new_text = "fp16: true\n",
      .message = "a line more" },
};

static struct patch patch_of(size_t count)
{
    return (struct patch) { .job = "gsm8k.yaml",
                            .findings = { .list = found, .count = count },
                            .is_job = true,
                            .changed = count > 0 };
}

static void test_report_findings_read_like_a_compilers(void **state)
{
    struct patch patch = patch_of(3);
    struct text out;

    (void)state;
    text_init(&out, 0);
    report_findings_text(&patch, &out);
    assert_string_equal(out.data, "gsm8k.yaml:7:14: error[TS105]: a sentence\n"
                                  "    model_dtype: float16 -> float32   (what stays)\n"
                                  "    because: a fact\n"
                                  "gsm8k.yaml:2:1: warning[TS701]: spelled \\x1b[31mso\n"
                                  "    Lora_rank -> lora_rank\n"
                                  "gsm8k.yaml:3:1: info[TS108]: a line more\n"
                                  "    + fp16: true\n");
    text_clear(&out);
}

static void test_report_finding_of_the_whole_file_has_no_position(void **state)
{
    struct finding whole = { .rule = "TS009",
                             .severity = SEVERITY_ERROR,
                             .message = "empty" };
    struct patch patch = { .job = "a\nb.yaml",
                           .findings = { .list = &whole, .count = 1 } };
    struct text out;

    (void)state;
    text_init(&out, 0);
    report_findings_text(&patch, &out);
    assert_string_equal(out.data, "a\\x0ab.yaml: error[TS009]: empty\n");
    text_clear(&out);
}

/* Findings that are already fixed get no advice. */
static void test_report_no_advice_on_fixed_findings(void **state)
{
    struct finding advice = { .rule = "TS103",
                              .severity = SEVERITY_WARNING,
                              .message = "may overflow",
                              .note = "use another policy",
                              .fixed = true };
    struct patch patch = { .job = "a.yaml", .findings = { .list = &advice, .count = 1 } };
    struct text out;

    (void)state;
    text_init(&out, 0);
    report_findings_text(&patch, &out);
    assert_string_equal(out.data, "a.yaml: warning[TS103]: may overflow\n"
                                  "    fixed with the others\n");
    advice.fixed = false;
    advice.resolved = true;
    text_reset(&out);
    report_findings_text(&patch, &out);
    assert_string_equal(out.data, "a.yaml: warning[TS103]: may overflow\n"
                                  "    gone after the other edits\n");
    advice = (struct finding) { .rule = "TS112",
                                .severity = SEVERITY_WARNING,
                                .message = "no use",
                                .key = "loss_scale",
                                .old_text = "loss_scale: 128",
                                .new_text = "# loss_scale: 128",
                                .label = "removed" };
    text_reset(&out);
    report_findings_text(&patch, &out);
    assert_string_equal(out.data, "a.yaml: warning[TS112]: no use\n"
                                  "    loss_scale: 128 -> removed\n");
    text_clear(&out);
}

static void test_report_status_follows_the_contract(void **state)
{
    struct options options = { 0 };
    struct patch patch = patch_of(3);

    (void)state;
    assert_int_equal(report_status(&patch, &options, false), EXIT_FINDINGS);
    /* an edit would be made: check reports it, patch has made it */
    found[0].resolved = true;
    assert_int_equal(report_status(&patch, &options, true), EXIT_FINDINGS);
    assert_int_equal(report_status(&patch, &options, false), EXIT_FINE);
    options.fail_on = "warning";
    assert_int_equal(report_status(&patch, &options, false), EXIT_FINDINGS);
    found[1].resolved = true;
    assert_int_equal(report_status(&patch, &options, false), EXIT_FINE);
    options.fail_on = "info";
    assert_int_equal(report_status(&patch, &options, false), EXIT_FINDINGS);
    found[0].resolved = found[1].resolved = false;
    patch.is_job = false;
    assert_int_equal(report_status(&patch, &options, false), EXIT_NO_JOB);
    patch = patch_of(0);
    patch.is_job = true;
    assert_int_equal(report_status(&patch, &options, true), EXIT_FINE);
}

static void test_report_reason_is_the_first_remaining_error(void **state)
{
    struct patch patch = patch_of(3);
    struct text out;

    (void)state;
    text_init(&out, 0);
    report_reason(&patch, &out);
    assert_string_equal(out.data, "TS105 in line 7: a sentence");
    text_reset(&out);
    found[0].resolved = true;
    report_reason(&patch, &out);
    assert_string_equal(out.data, "");
    found[0].resolved = false;
    text_clear(&out);
}

static void test_report_every_error_has_an_exit_status(void **state)
{
    size_t count;
    const struct exit_row *rows = report_exits(&count);

    (void)state;
    for (int code = ERROR_NONE; code < ERROR_CODES; code++) {
        bool known[2] = { false, false };

        for (size_t i = 0; i < count; i++) {
            known[0] |= rows[i].status == report_exit((enum error_code)code);
            known[1] |= rows[i].status == report_training_exit((enum error_code)code);
        }
        assert_true(known[0] && known[1]);
        assert_int_equal(code == ERROR_NONE,
                         report_exit((enum error_code)code) == EXIT_FINE);
    }
    assert_int_equal(report_exit(ERROR_STOPPED), 128 + SIGTERM);
    assert_int_equal(report_training_exit(ERROR_DATA), EXIT_FINDINGS);
    assert_int_equal(report_exit(ERROR_DATA), EXIT_NO_JOB);
}

static void test_report_json_has_the_members_of_the_contract(void **state)
{
    static const char *const members[] = { "rule",   "severity",    "applicability",
                                           "fixed",  "key",         "line",
                                           "column", "byte_offset", "byte_length",
                                           "old",    "new",         "message",
                                           "because" };
    struct findings findings = { .list = found, .count = 1 };
    json_t *list = report_json_findings(&findings);

    (void)state;
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        assert_non_null(json_object_get(json_array_get(list, 0), members[i]));
    json_decref(list);
}

static void test_report_json_handles_names_that_are_not_utf8(void **state)
{
    json_t *string = report_json_string("a\xff.yaml");

    (void)state;
    assert_non_null(string);
    assert_string_equal(json_string_value(string), "a\\xff.yaml");
    json_decref(string);
    string = report_json_string(NULL);
    assert_true(json_is_null(string));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_findings_read_like_a_compilers),
        cmocka_unit_test(test_report_finding_of_the_whole_file_has_no_position),
        cmocka_unit_test(test_report_no_advice_on_fixed_findings),
        cmocka_unit_test(test_report_status_follows_the_contract),
        cmocka_unit_test(test_report_reason_is_the_first_remaining_error),
        cmocka_unit_test(test_report_every_error_has_an_exit_status),
        cmocka_unit_test(test_report_json_has_the_members_of_the_contract),
        cmocka_unit_test(test_report_json_handles_names_that_are_not_utf8),
    };

    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
