/*
 * runner/output/report_sarif.c - writes one SARIF run, with a result for each finding and
 * a fix for each edit.
 */
#include "config.h"

#include "runner/output/report_sarif.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "patcher/rules/rules.h"
#include "runner/output/report_json.h"

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

/* Make a path below the working directory relative to it, because code hosts look for it
 * there. */
static const char *relative(const char *path)
{
    char *here = *path == '/' ? getcwd(NULL, 0) : NULL;
    size_t len = here ? strlen(here) : 0;

    if (here && strncmp(path, here, len) == 0 && path[len] == '/' && path[len + 1] != '/')
        path += len + 1;
    free(here);
    return path;
}

/* Encode a path as RFC 3986 requires: other bytes become %XX, one by one, so that a name
 * that is not UTF-8 can be expressed too; an absolute path gets its scheme. */
static json_t *uri_of(const char *path)
{
    struct text uri;
    json_t *value;

    text_init(&uri, 0);
    path = relative(path);
    text_adds(&uri, *path == '/' ? "file://" : "");
    for (; *path; path++) {
        unsigned char byte = (unsigned char)*path;

        if (byte < 0x80 && (isalnum(byte) || strchr("-._~/", byte)))
            text_addc(&uri, *path);
        else
            text_addf(&uri, "%%%02X", byte);
    }
    value = json_string(uri.data);
    text_clear(&uri);
    return value;
}

/* Return the index of a job among the artifacts of the run. */
struct job {
    const struct patch *patch;
    size_t index;
};

static json_t *location_of(const struct job *job)
{
    json_t *object = json_object();

    json_object_set_new(object, "uri", uri_of(job->patch->job));
    json_object_set_new(object, "index", json_integer((json_int_t)job->index));
    return object;
}

static json_t *bytes_of(const struct finding *finding)
{
    json_t *region = json_object();

    json_object_set_new(region, "byteOffset", json_integer((json_int_t)finding->at.byte));
    json_object_set_new(region, "byteLength", json_integer((json_int_t)finding->cut));
    return region;
}

static json_t *region_of(const struct job *job, const struct finding *finding)
{
    json_t *region = bytes_of(finding);
    struct mark end;

    json_object_set_new(region, "startLine", json_integer(finding->at.line));
    json_object_set_new(region, "startColumn", json_integer(finding->at.column));
    if (finding->cut > 0 && job->patch->document.data) {
        end = document_mark(&job->patch->document, finding->at.byte + finding->cut);
        json_object_set_new(region, "endLine", json_integer(end.line));
        json_object_set_new(region, "endColumn", json_integer(end.column));
    }
    return region;
}

static json_t *place_of(const struct job *job, const struct finding *finding)
{
    json_t *place = json_object(), *outer = json_object();

    json_object_set_new(place, "artifactLocation", location_of(job));
    if (finding->at.line)
        json_object_set_new(place, "region", region_of(job, finding));
    json_object_set_new(outer, "physicalLocation", place);
    return outer;
}

/* ---- Fixes ---- */

/* Return whether trainspool patch would make its edit. */
static bool is_fixable(const struct finding *finding)
{
    return finding->resolved && finding->old_text && finding->new_text;
}

/* Return whether an earlier finding of its group has a fix that contains this edit. */
static bool is_fixed_before(const struct findings *findings, size_t at)
{
    for (size_t i = 0; findings->list[at].group && i < at; i++)
        if (findings->list[i].group == findings->list[at].group &&
            is_fixable(&findings->list[i]))
            return true;
    return false;
}

static json_t *replacement_of(const struct finding *finding)
{
    json_t *replacement = json_object();

    json_object_set_new(replacement, "deletedRegion", bytes_of(finding));
    json_object_set_new(replacement, "insertedContent", text_object(finding->new_text));
    return replacement;
}

/* Collect all edits of its group, because they only make sense together. */
static json_t *replacements_of(const struct findings *findings, size_t at)
{
    const struct finding *finding = &findings->list[at];
    json_t *list = json_array();

    for (size_t i = 0; i < findings->count; i++)
        if (i == at || (finding->group && findings->list[i].group == finding->group &&
                        is_fixable(&findings->list[i])))
            json_array_append_new(list, replacement_of(&findings->list[i]));
    return list;
}

static json_t *fixes_of(const struct job *job, size_t at)
{
    const struct findings *findings = &job->patch->findings;
    const struct finding *finding = &findings->list[at];
    json_t *change = json_object(), *fix = json_object();
    json_t *changes = json_array(), *fixes = json_array();

    json_object_set_new(change, "artifactLocation", location_of(job));
    json_object_set_new(change, "replacements", replacements_of(findings, at));
    json_array_append_new(changes, change);
    json_object_set_new(fix, "description",
                        text_object(finding->note ? finding->note : finding->message));
    json_object_set_new(fix, "artifactChanges", changes);
    json_array_append_new(fixes, fix);
    return fixes;
}

/* ---- Results ---- */

static size_t index_of(const char *rule)
{
    size_t at = 0;

    while (rules_at(at) && strcmp(rules_at(at)->id, rule) != 0)
        at++;
    return at;
}

static json_t *result_of(const struct job *job, const struct finding *finding)
{
    json_t *result = json_object(), *places = json_array(), *more = json_object();

    json_object_set_new(result, "ruleId", json_string(finding->rule));
    json_object_set_new(result, "ruleIndex",
                        json_integer((json_int_t)index_of(finding->rule)));
    json_object_set_new(result, "level", json_string(levels[finding->severity]));
    json_object_set_new(result, "message", text_object(finding->message));
    json_array_append_new(places, place_of(job, finding));
    json_object_set_new(result, "locations", places);
    json_object_set_new(more, "applicability", json_string(apply_names[finding->apply]));
    if (finding->because)
        json_object_set_new(more, "because", report_json_string(finding->because));
    json_object_set_new(result, "properties", more);
    return result;
}

/* A SARIF run states for all its results whether they are suppressed, or for none. */
static void add_results(json_t *results, const struct job *job, bool suppressed)
{
    const struct patch *patch = job->patch;

    for (size_t i = 0; i < patch->findings.count; i++) {
        json_t *result = result_of(job, &patch->findings.list[i]);

        if (is_fixable(&patch->findings.list[i]) && !is_fixed_before(&patch->findings, i))
            json_object_set_new(result, "fixes", fixes_of(job, i));
        if (suppressed)
            json_object_set_new(result, "suppressions", json_array());
        json_array_append_new(results, result);
    }
    for (size_t i = 0; suppressed && i < patch->ignored.count; i++) {
        json_t *result = result_of(job, &patch->ignored.list[i]);
        json_t *list = json_array(), *one = json_object();

        json_object_set_new(one, "kind", json_string("inSource"));
        json_array_append_new(list, one);
        json_object_set_new(result, "suppressions", list);
        json_array_append_new(results, result);
    }
}

static json_t *help_of(const struct rule *rule)
{
    struct text help;
    json_t *object;

    text_init(&help, 0);
    text_addf(&help, "%s\n\nSource: %s\n\nThe same text: trainspool explain %s",
              rule->explain, rule->source, rule->id);
    object = text_object(help.data);
    text_clear(&help);
    return object;
}

static json_t *rule_list(void)
{
    json_t *list = json_array();

    for (size_t i = 0; i < rules_count(); i++) {
        const struct rule *of = rules_at(i);
        json_t *rule = json_object(), *defaults = json_object();

        json_object_set_new(defaults, "level", json_string(levels[of->severity]));
        json_object_set_new(rule, "id", json_string(of->id));
        json_object_set_new(rule, "shortDescription", text_object(of->title));
        json_object_set_new(rule, "fullDescription", text_object(of->explain));
        json_object_set_new(rule, "help", help_of(of));
        json_object_set_new(rule, "defaultConfiguration", defaults);
        json_array_append_new(list, rule);
    }
    return list;
}

static json_t *artifact_of(const struct patch *patch)
{
    json_t *artifact = json_object(), *location = json_object(), *hashes = json_object();

    json_object_set_new(location, "uri", uri_of(patch->job));
    json_object_set_new(artifact, "location", location);
    if (patch->before[0]) {
        json_object_set_new(hashes, "sha-256", json_string(patch->before));
        json_object_set(artifact, "hashes", hashes);
    }
    json_decref(hashes);
    return artifact;
}

json_t *report_sarif_new(void)
{
    json_t *driver = json_object(), *tool = json_object(), *run = json_object();
    json_t *runs = json_array(), *log = json_object();
    json_t *invocation = json_object(), *invocations = json_array();

    json_object_set_new(driver, "name", json_string("trainspool"));
    json_object_set_new(driver, "version", json_string(PACKAGE_VERSION));
    json_object_set_new(driver, "rules", rule_list());
    json_object_set_new(tool, "driver", driver);
    json_object_set_new(run, "tool", tool);
    json_object_set_new(invocation, "executionSuccessful", json_true());
    json_array_append_new(invocations, invocation);
    json_object_set_new(run, "invocations", invocations);
    json_object_set_new(run, "artifacts", json_array());
    json_object_set_new(run, "columnKind", json_string("unicodeCodePoints"));
    json_object_set_new(run, "results", json_array());
    json_array_append_new(runs, run);
    json_object_set_new(log, "$schema",
                        json_string("https://json.schemastore.org/sarif-2.1.0.json"));
    json_object_set_new(log, "version", json_string("2.1.0"));
    json_object_set_new(log, "runs", runs);
    return log;
}

static json_t *run_of(json_t *log)
{
    return json_array_get(json_object_get(log, "runs"), 0);
}

void report_sarif_add(json_t *log, const struct patch *patch, bool suppressed)
{
    json_t *artifacts = json_object_get(run_of(log), "artifacts");
    const struct job job = { patch, json_array_size(artifacts) };

    json_array_append_new(artifacts, artifact_of(patch));
    add_results(json_object_get(run_of(log), "results"), &job, suppressed);
}

void report_sarif_failure(json_t *log, const char *job, const struct error *err)
{
    json_t *invocation = json_array_get(json_object_get(run_of(log), "invocations"), 0);
    json_t *list = json_object_get(invocation, "toolExecutionNotifications");
    json_t *one = json_object(), *places = json_array(), *place = json_object();
    json_t *outer = json_object(), *location = json_object();

    if (!list) {
        list = json_array();
        json_object_set_new(invocation, "toolExecutionNotifications", list);
    }
    json_object_set_new(invocation, "executionSuccessful", json_false());
    json_object_set_new(location, "uri", uri_of(job));
    json_object_set_new(place, "artifactLocation", location);
    json_object_set_new(outer, "physicalLocation", place);
    json_array_append_new(places, outer);
    json_object_set_new(one, "locations", places);
    json_object_set_new(one, "level", json_string("error"));
    json_object_set_new(one, "message", text_object(err->text));
    json_array_append_new(list, one);
}
