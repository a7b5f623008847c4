/* runner/output/report_json.c - converts findings, devices and patches to JSON
 * objects. */
#include "config.h"

#include "runner/output/report_json.h"

#include <string.h>

json_t *report_json_string(const char *string)
{
    return string ? json_visible(string, strlen(string)) : json_null();
}

json_t *report_json_device(const struct device *device)
{
    json_t *object;
    char capability[16];

    if (!device)
        return json_null();
    device_capability_text(device, capability);
    object = json_object();
    json_object_set_new(object, "name", report_json_string(device->name));
    json_object_set_new(object, "compute_capability",
                        capability[0] ? json_string(capability) : json_null());
    json_object_set_new(object, "memory_bytes", json_integer((json_int_t)device->memory));
    return object;
}

static json_t *finding_object(const struct finding *finding)
{
    json_t *object = json_object();

    json_object_set_new(object, "rule", report_json_string(finding->rule));
    json_object_set_new(object, "severity",
                        json_string(severity_names[finding->severity]));
    json_object_set_new(object, "applicability",
                        json_string(apply_names[finding->apply]));
    json_object_set_new(object, "fixed", json_boolean(finding->fixed));
    json_object_set_new(object, "key", report_json_string(finding->key));
    json_object_set_new(object, "line", json_integer(finding->at.line));
    json_object_set_new(object, "column", json_integer(finding->at.column));
    json_object_set_new(object, "byte_offset",
                        json_integer((json_int_t)finding->at.byte));
    json_object_set_new(object, "byte_length", json_integer((json_int_t)finding->cut));
    if (finding->old_text && finding->new_text) {
        json_object_set_new(object, "old", report_json_string(finding->old_text));
        json_object_set_new(object, "new", report_json_string(finding->new_text));
    }
    json_object_set_new(object, "message", report_json_string(finding->message));
    json_object_set_new(object, "because", report_json_string(finding->because));
    json_object_set_new(object, "note", report_json_string(finding->note));
    json_object_set_new(object, "group",
                        finding->group ? json_integer(finding->group) : json_null());
    return object;
}

json_t *report_json_findings(const struct findings *findings)
{
    json_t *list = json_array();

    for (size_t i = 0; i < findings->count; i++)
        json_array_append_new(list, finding_object(&findings->list[i]));
    return list;
}

static json_t *digest_or_null(const char *digest)
{
    return digest[0] ? json_string(digest) : json_null();
}

json_t *report_json_patch(const struct patch *patch, const struct device *device)
{
    json_t *object = json_object();

    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "job", report_json_string(patch->job));
    json_object_set_new(object, "sha256", digest_or_null(patch->before));
    json_object_set_new(object, "sha256_after", digest_or_null(patch->after));
    json_object_set_new(object, "device", report_json_device(device));
    json_object_set_new(object, "findings", report_json_findings(&patch->findings));
    json_object_set_new(object, "changed", json_boolean(patch->changed));
    json_object_set_new(object, "backup", report_json_string(patch->backup));
    return object;
}

bool report_json(struct report *report, json_t *value, struct error *err)
{
    struct text line;
    bool ok;

    text_init(&line, 0);
    ok = json_write(value, &line) && text_addc(&line, '\n');
    if (ok)
        report_write(report, &line);
    else
        error_set(err, ERROR_SYSTEM, "cannot write the result as JSON");
    json_decref(value);
    text_clear(&line);
    return ok;
}

void report_json_failure(struct report *report, const struct options *options,
                         const char *job, const struct error *err)
{
    json_t *object;

    report_error(options->program, err);
    if (!options->json)
        return;
    object = json_object();
    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "job", report_json_string(job));
    json_object_set_new(object, "error", report_json_string(err->text));
    report_json(report, object, NULL);
}
