/* runner/report_sarif.c - one run, a result for each finding, a fix for each edit. */
#include "config.h"

#include "runner/report_sarif.h"

#include <ctype.h>
#include <string.h>

#include "patcher/rules.h"
#include "runner/report_json.h"

static const char *const levels[] = {
    [SEVERITY_INFO] = "note",
    [SEVERITY_WARNING] = "warning",
    [SEVERITY_ERROR] = "error",
};

static json_t *text_object(const char *text)
{
    json_t *object = json_object();

    json_object_set_new(object, "text", report_json_string(text ? text : ""));
    return object;
}

/* A path as a relative reference: what RFC 3986 does not allow in one as %XX. */
static json_t *location_of(const char *path)
{
    json_t *object = json_object();
    struct text uri;

    text_init(&uri, 0);
    for (; *path; path++) {
        unsigned char byte = (unsigned char)*path;

        if (byte < 0x80 && (isalnum(byte) || strchr("-._~/", byte)))
            text_addc(&uri, *path);
        else
            text_addf(&uri, "%%%02X", byte);
    }
    json_object_set_new(object, "uri", json_string(uri.data));
    text_clear(&uri);
    return object;
}

static json_t *bytes_of(const struct finding *finding)
{
    json_t *region = json_object();

    json_object_set_new(region, "byteOffset", json_integer((json_int_t)finding->at.byte));
    json_object_set_new(region, "byteLength", json_integer((json_int_t)finding->cut));
    return region;
}

static json_t *place_of(const char *job, const struct finding *finding)
{
    json_t *place = json_object(), *outer = json_object(), *region;

    json_object_set_new(place, "artifactLocation", location_of(job));
    if (finding->at.line) {
        region = bytes_of(finding);
        json_object_set_new(region, "startLine", json_integer(finding->at.line));
        json_object_set_new(region, "startColumn", json_integer(finding->at.column));
        json_object_set_new(place, "region", region);
    }
    json_object_set_new(outer, "physicalLocation", place);
    return outer;
}

static json_t *fix_of(const char *job, const struct finding *finding)
{
    json_t *replacement = json_object(), *change = json_object(), *fix = json_object();
    json_t *replacements = json_array(), *changes = json_array();

    json_object_set_new(replacement, "deletedRegion", bytes_of(finding));
    json_object_set_new(replacement, "insertedContent", text_object(finding->now));
    json_array_append_new(replacements, replacement);
    json_object_set_new(change, "artifactLocation", location_of(job));
    json_object_set_new(change, "replacements", replacements);
    json_array_append_new(changes, change);
    json_object_set_new(fix, "description",
                        text_object(finding->note ? finding->note : finding->message));
    json_object_set_new(fix, "artifactChanges", changes);
    return fix;
}

static json_t *result_of(const char *job, const struct finding *finding)
{
    json_t *result = json_object(), *places = json_array(), *fixes = json_array();

    json_object_set_new(result, "ruleId", json_string(finding->rule));
    json_object_set_new(result, "level", json_string(levels[finding->severity]));
    json_object_set_new(result, "message", text_object(finding->message));
    json_array_append_new(places, place_of(job, finding));
    json_object_set_new(result, "locations", places);
    if (finding->was && finding->now)
        json_array_append_new(fixes, fix_of(job, finding));
    if (json_array_size(fixes) > 0)
        json_object_set(result, "fixes", fixes);
    json_decref(fixes);
    return result;
}

static json_t *rule_list(void)
{
    json_t *list = json_array();

    for (size_t i = 0; i < rules_count(); i++) {
        const struct rule *of = rules_at(i);
        json_t *rule = json_object(), *preset = json_object();

        json_object_set_new(preset, "level", json_string(levels[of->severity]));
        json_object_set_new(rule, "id", json_string(of->id));
        json_object_set_new(rule, "shortDescription", text_object(of->title));
        if (of->explain)
            json_object_set_new(rule, "fullDescription", text_object(of->explain));
        json_object_set_new(rule, "defaultConfiguration", preset);
        json_array_append_new(list, rule);
    }
    return list;
}

json_t *report_sarif_new(void)
{
    json_t *driver = json_object(), *tool = json_object(), *run = json_object();
    json_t *runs = json_array(), *log = json_object();

    json_object_set_new(driver, "name", json_string("trainspool"));
    json_object_set_new(driver, "version", json_string(PACKAGE_VERSION));
    json_object_set_new(driver, "rules", rule_list());
    json_object_set_new(tool, "driver", driver);
    json_object_set_new(run, "tool", tool);
    json_object_set_new(run, "columnKind", json_string("unicodeCodePoints"));
    json_object_set_new(run, "results", json_array());
    json_array_append_new(runs, run);
    json_object_set_new(log, "$schema",
                        json_string("https://json.schemastore.org/sarif-2.1.0.json"));
    json_object_set_new(log, "version", json_string("2.1.0"));
    json_object_set_new(log, "runs", runs);
    return log;
}

void report_sarif_add(json_t *log, const struct patch *patch)
{
    json_t *run = json_array_get(json_object_get(log, "runs"), 0);
    json_t *results = json_object_get(run, "results");

    for (size_t i = 0; i < patch->findings.count; i++)
        json_array_append_new(results, result_of(patch->job, &patch->findings.list[i]));
}
