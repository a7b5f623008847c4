/*
 * tests/unit/test_report_sarif.c - the output for code hosts and editors: every job of
 * tests/patch as SARIF, with its fixes applied by their byte regions.
 */
#include "config.h"

#include "runner/output/report_sarif.h"

#include <dirent.h>

#include "patcher/rules/rules.h"
#include "precision/device.h"
#include "tests/unit/unit.h"

#define JOBS_MAX 1000

static json_t *member(json_t *from, const char *name)
{
    json_t *value = json_object_get(from, name);

    if (!value)
        fail_msg("%s is missing", name);
    return value;
}

static size_t number(json_t *from, const char *name)
{
    return (size_t)json_integer_value(member(from, name));
}

/* ---- Invariants, including those of the schema ---- */

static void check_result(json_t *run, json_t *result, size_t len)
{
    json_t *rules = member(member(member(run, "tool"), "driver"), "rules");
    const char *id = json_string_value(member(result, "ruleId"));
    json_t *rule = json_array_get(rules, number(result, "ruleIndex"));
    json_t *place =
        member(json_array_get(member(result, "locations"), 0), "physicalLocation");
    json_t *file = member(place, "artifactLocation");
    json_t *artifact = json_array_get(member(run, "artifacts"), number(file, "index"));
    json_t *region = json_object_get(place, "region");

    assert_string_equal(id, json_string_value(member(rule, "id")));
    assert_string_equal(json_string_value(member(file, "uri")),
                        json_string_value(member(member(artifact, "location"), "uri")));
    assert_true(json_string_length(member(member(result, "message"), "text")) > 0);
    if (!region)
        return;
    assert_true(number(region, "byteOffset") + number(region, "byteLength") <= len);
    assert_true(number(region, "startLine") > 0 && number(region, "startColumn") > 0);
    if (json_object_get(region, "endLine"))
        assert_true(number(region, "endLine") > number(region, "startLine") ||
                    number(region, "endColumn") > number(region, "startColumn"));
}

static void check_rules(json_t *run)
{
    json_t *rules = member(member(member(run, "tool"), "driver"), "rules"), *rule;
    size_t at;

    assert_int_equal(json_array_size(rules), rules_count());
    json_array_foreach(rules, at, rule)
    {
        const char *text = json_string_value(member(member(rule, "help"), "text"));

        assert_non_null(strstr(text, json_string_value(member(rule, "id"))));
        member(member(rule, "shortDescription"), "text");
        member(member(rule, "defaultConfiguration"), "level");
    }
}

/* ---- Fixes ---- */

struct replacement {
    size_t at, cut, order;
    const char *now;
};

static int compare(const void *a, const void *b)
{
    const struct replacement *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static size_t collect(json_t *result, struct replacement *list, size_t count)
{
    json_t *fix, *change, *one;
    size_t i, j, k;

    json_array_foreach(json_object_get(result, "fixes"), i, fix)
        json_array_foreach(member(fix, "artifactChanges"), j, change)
            json_array_foreach(member(change, "replacements"), k, one)
    {
        json_t *region = member(one, "deletedRegion");

        assert_true(count < JOBS_MAX);
        list[count] = (struct replacement) {
            .at = number(region, "byteOffset"),
            .cut = number(region, "byteLength"),
            .order = count,
            .now = json_string_value(member(member(one, "insertedContent"), "text")),
        };
        count++;
    }
    return count;
}

static void make_fixes(json_t *results, const char *data, size_t len, struct text *out)
{
    static struct replacement list[JOBS_MAX];
    size_t count = 0, from = 0, i;
    json_t *result;

    json_array_foreach(results, i, result) count = collect(result, list, count);
    qsort(list, count, sizeof(list[0]), compare);
    for (i = 0; i < count; i++) {
        assert_true(list[i].at >= from);
        text_add(out, data + from, list[i].at - from);
        text_adds(out, list[i].now);
        from = list[i].at + list[i].cut;
    }
    text_add(out, data + from, len - from);
}

/* ---- Jobs ---- */

/* The device of a case, as far as --device can express it. */
static const struct device *read_device(const char *dir, struct device *storage)
{
    char *path = path_join(dir, "device");
    struct text name;
    bool found;

    text_init(&name, 0);
    assert_true(file_read(path, 256, &name, NULL, NULL));
    name.data[strcspn(name.data, ",\n")] = 0;
    found = device_find(name.data, storage, NULL);
    text_clear(&name);
    free(path);
    return found ? storage : NULL;
}

static bool try_case(const char *dir)
{
    char *job = path_join(dir, "job.yaml");
    struct device storage;
    struct patch_options options = { .job = job };
    struct patch patch;
    struct text made;
    json_t *log = report_sarif_new(), *run, *result;
    size_t i;
    bool changed;

    options.device = read_device(dir, &storage);
    assert_true(patcher_check_file(&options, &patch, NULL));
    report_sarif_add(log, &patch, false);
    run = json_array_get(member(log, "runs"), 0);
    json_array_foreach(member(run, "results"), i, result)
        check_result(run, result, patch.document.len);
    text_init(&made, 0);
    make_fixes(member(run, "results"), patch.document.data, patch.document.len, &made);
    if (made.len != patch.len || memcmp(made.data, patch.text, patch.len) != 0)
        fail_msg("%s: the fixes make\n%s\ninstead of\n%s", job, made.data, patch.text);
    changed = patch.changed;
    text_clear(&made);
    json_decref(log);
    patch_clear(&patch);
    free(job);
    return changed;
}

static void test_sarif_fixes_make_what_patch_makes(void **state)
{
    char *top = unit_source("tests/patch");
    DIR *dir = opendir(top);
    struct dirent *entry;
    size_t changed = 0;

    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        char *path = path_join(top, entry->d_name), *job = path_join(path, "job.yaml");

        if (entry->d_name[0] != '.' && file_exists(job))
            changed += try_case(path);
        free(job);
        free(path);
    }
    closedir(dir);
    free(top);
    assert_true(changed > 50);
}

static void test_sarif_rules_can_be_read_from_the_log(void **state)
{
    json_t *log = report_sarif_new();

    (void)state;
    check_rules(json_array_get(member(log, "runs"), 0));
    json_decref(log);
}

static const char *uri_of(const char *job)
{
    struct patch patch = { .job = job, .is_job = true };
    json_t *log = report_sarif_new(), *run = json_array_get(member(log, "runs"), 0);
    static char uri[256];

    report_sarif_add(log, &patch, false);
    snprintf(
        uri, sizeof(uri), "%s",
        json_string_value(member(
            member(json_array_get(member(run, "artifacts"), 0), "location"), "uri")));
    json_decref(log);
    return uri;
}

static void test_sarif_names_files_by_uri(void **state)
{
    (void)state;
    assert_string_equal(uri_of("jobs/a.yaml"), "jobs/a.yaml");
    assert_string_equal(uri_of("../a b#c%.yaml"), "../a%20b%23c%25.yaml");
    assert_string_equal(uri_of("C:\\a.yaml"), "C%3A%5Ca.yaml");
    assert_string_equal(uri_of("\xc3\xa9\xff.yaml"), "%C3%A9%FF.yaml");
    assert_string_equal(uri_of("/tmp/a.yaml"), "file:///tmp/a.yaml");
}

static void test_sarif_lists_suppressed_findings_on_request(void **state)
{
    struct finding reported = { .rule = "TS105", .message = "reported" };
    struct finding hidden = { .rule = "TS104", .message = "hidden" };
    struct patch patch = { .job = "a.yaml",
                           .findings = { .list = &reported, .count = 1 },
                           .ignored = { .list = &hidden, .count = 1 } };
    json_t *log = report_sarif_new(), *run = json_array_get(member(log, "runs"), 0);
    json_t *results = member(run, "results");

    (void)state;
    report_sarif_add(log, &patch, false);
    assert_int_equal(json_array_size(results), 1);
    assert_null(json_object_get(json_array_get(results, 0), "suppressions"));
    report_sarif_add(log, &patch, true);
    assert_int_equal(json_array_size(results), 3);
    assert_int_equal(json_array_size(member(json_array_get(results, 1), "suppressions")),
                     0);
    assert_int_equal(json_array_size(member(json_array_get(results, 2), "suppressions")),
                     1);
    json_decref(log);
}

static void test_sarif_reports_unreadable_jobs(void **state)
{
    struct error err = { .text = "cannot open it" };
    json_t *log = report_sarif_new(), *run = json_array_get(member(log, "runs"), 0);
    json_t *invocation = json_array_get(member(run, "invocations"), 0);

    (void)state;
    assert_true(json_is_true(member(invocation, "executionSuccessful")));
    report_sarif_failure(log, "a.yaml", &err);
    report_sarif_failure(log, "b.yaml", &err);
    assert_true(json_is_false(member(invocation, "executionSuccessful")));
    assert_int_equal(json_array_size(member(invocation, "toolExecutionNotifications")),
                     2);
    json_decref(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sarif_fixes_make_what_patch_makes),
        cmocka_unit_test(test_sarif_rules_can_be_read_from_the_log),
        cmocka_unit_test(test_sarif_names_files_by_uri),
        cmocka_unit_test(test_sarif_lists_suppressed_findings_on_request),
        cmocka_unit_test(test_sarif_reports_unreadable_jobs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
