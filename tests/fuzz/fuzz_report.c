/*
 * tests/fuzz/fuzz_report.c - reports on a job: the text is safe for a terminal, JSON and
 * SARIF read back and their edits give the patched text, and no report contains the value
 * of a secret key.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "patcher/document/diff.h"
#include "patcher/document/edits.h"
#include "patcher/patcher.h"
#include "patcher/schema/redact.h"
#include "runner/output/report.h"
#include "runner/output/report_excerpt.h"
#include "runner/output/report_json.h"
#include "runner/output/report_sarif.h"

static const char secret[] = "XSECRETX", line[] = "\nhf_hub_token: XSECRETX # c\n";

/* Check that the text is UTF-8, has no control characters except line feeds, and no
 * secret. */
static void check_shown(const struct text *text)
{
    FUZZ_HOLDS(text_is_utf8(text->data, text->len, NULL));
    FUZZ_HOLDS(!memmem(text->data, text->len, secret, sizeof(secret) - 1));
    for (size_t i = 0; i < text->len; i++)
        FUZZ_HOLDS(text->data[i] == '\n' ||
                   ((unsigned char)text->data[i] >= 0x20 && text->data[i] != 0x7f));
}

static void check_excerpts(const struct patch *patch)
{
    struct excerpt *excerpt = excerpt_new(&patch->document, 60, false);
    struct text text;

    text_init(&text, 0);
    for (size_t i = 0; i < patch->findings.count; i++)
        excerpt_add(excerpt, &patch->findings, i, &text);
    check_shown(&text);
    text_reset(&text);
    report_findings_text(patch, &text);
    check_shown(&text);
    text_clear(&text);
    excerpt_free(excerpt);
}

/* Return the value after it was written and read back.  The reference to it is
 * dropped. */
static json_t *round_trip(json_t *value)
{
    struct error err = { 0 };
    struct text text;
    json_t *again;

    text_init(&text, 0);
    FUZZ_HOLDS(json_write(value, &text));
    again = json_read_text(text.data, text.len, "report", 1, &err);
    FUZZ_HOLDS(again);
    json_decref(value);
    text_clear(&text);
    return again;
}

static size_t number(const json_t *object, const char *key)
{
    return (size_t)json_integer_value(json_object_get(object, key));
}

/* Check that the edits of resolved findings, applied by a reader of the report, give the
 * patched text. */
static void check_edits(const struct patch *patch, const struct edits *edits)
{
    struct text out;

    text_init(&out, 0);
    FUZZ_HOLDS(edits_apply(edits, patch->document.data, patch->document.len, &out, NULL));
    FUZZ_HOLDS(out.len == patch->len && memcmp(out.data, patch->text, out.len) == 0);
    text_clear(&out);
}

static void check_json(const struct patch *patch, const struct device *device)
{
    json_t *object = round_trip(report_json_patch(patch, device)), *finding;
    struct edits *edits = edits_new();
    size_t i;

    json_array_foreach(json_object_get(object, "findings"), i, finding)
    {
        const char *now = json_string_value(json_object_get(finding, "new"));

        if (now && patch->findings.list[i].resolved)
            FUZZ_HOLDS(edits_replace(edits, number(finding, "byte_offset"),
                                     number(finding, "byte_length"), now, NULL));
    }
    if (patch->document.root)
        check_edits(patch, edits);
    edits_free(edits);
    json_decref(object);
}

/* Add the edits of a result's fix, if it has one. */
static void take_fix(const json_t *result, struct edits *edits)
{
    const json_t *fix = json_array_get(json_object_get(result, "fixes"), 0);
    const json_t *change = json_array_get(json_object_get(fix, "artifactChanges"), 0);
    const json_t *replacement;
    size_t i;

    json_array_foreach(json_object_get(change, "replacements"), i, replacement)
    {
        const json_t *region = json_object_get(replacement, "deletedRegion");
        const char *now = json_string_value(
            json_object_get(json_object_get(replacement, "insertedContent"), "text"));

        FUZZ_HOLDS(edits_replace(edits, number(region, "byteOffset"),
                                 number(region, "byteLength"), now ? now : "", NULL));
    }
}

static void check_sarif(const struct patch *patch)
{
    json_t *log = report_sarif_new(), *results, *result;
    struct edits *edits = edits_new();
    size_t i;

    report_sarif_add(log, patch, true);
    log = round_trip(log);
    results = json_object_get(json_array_get(json_object_get(log, "runs"), 0), "results");
    FUZZ_HOLDS(json_array_size(results) >= patch->findings.count);
    json_array_foreach(results, i, result) take_fix(result, edits);
    if (patch->document.root)
        check_edits(patch, edits);
    edits_free(edits);
    json_decref(log);
}

/* Check the redacted text and its diff to the patched text. */
static void check_diff(const struct patch *patch, const struct text *text)
{
    struct diff_options options = {
        .from = "was", .to = "now", .context = 3, .visible = true
    };
    struct text was, now, diff;

    text_init(&was, 0);
    text_init(&now, 0);
    text_init(&diff, 0);
    FUZZ_HOLDS(redact_text(text->data, text->len, &was));
    FUZZ_HOLDS(redact_text(patch->text, patch->len, &now));
    FUZZ_HOLDS(!memmem(was.data, was.len, secret, sizeof(secret) - 1));
    FUZZ_HOLDS(diff_unified(was.data, was.len, now.data, now.len, &options, &diff));
    check_shown(&diff);
    text_clear(&was);
    text_clear(&now);
    text_clear(&diff);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct device device = { 0 };
    struct patch_options options = { .job = "job \xff.yaml", .device = &device };
    struct patch patch;
    struct text text;

    if (len > 0 && memmem(data, len, "XSECR", 5))
        return -1;
    FUZZ_HOLDS(device_find("T4", &device, NULL));
    text_init(&text, 0);
    text_add(&text, data, len);
    text_adds(&text, line);
    if (patcher_check(text.data, text.len, &options, &patch, NULL)) {
        check_excerpts(&patch);
        check_json(&patch, &device);
        if (len % 16 == 0) /* SARIF lists all rules, which takes long */
            check_sarif(&patch);
        check_diff(&patch, &text);
    }
    patch_clear(&patch);
    text_clear(&text);
    return 0;
}
