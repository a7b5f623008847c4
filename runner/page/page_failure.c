/*
 * runner/page/page_failure.c - the failure section: the reason of a failed run, and its
 * autopsy.
 */
#include "config.h"

#include "runner/page/page_sections.h"

#include <math.h>
#include <stdio.h>

/* "token 12 at position 3 of sample 48" */
static void row_batch_position(const json_t *batch, struct text *out)
{
    double index = page_number(batch, "index"), count = page_number(batch, "count");
    double sample = page_number(batch, "sample"), token = page_number(batch, "token");
    char line[160];

    if (isnan(index))
        return;
    snprintf(line, sizeof(line), "%.0f of %.0f", index + 1, count);
    page_row(out, "Micro-batch", line);
    if (isnan(sample) || isnan(token))
        return;
    snprintf(line, sizeof(line), "sample %.0f, token %.0f at position %.0f", sample,
             token, page_number(batch, "position"));
    page_row(out, "Origin", line);
}

static void add_inspection(const json_t *inspection, const char *row_class,
                           struct text *out)
{
    double layer = page_number(inspection, "layer");
    char shown[32];

    text_addf(out, "<tr%s><td>", row_class);
    html_text(out, page_string(inspection, "operation"));
    text_adds(out, "</td><td>");
    html_text(out, page_string(inspection, "tensor"));
    text_adds(out, "</td><td>");
    if (!isnan(layer))
        text_addf(out, "%.0f", layer);
    text_adds(out, "</td><td>");
    html_text(out, page_string(inspection, "format"));
    html_number(page_number(inspection, "largest"), HTML_PLAIN, shown);
    text_addf(out, "</td><td>%s</td><td>", shown);
    if (json_is_number(json_object_get(inspection, "nan")))
        text_addf(out, "%.0f NaN, %.0f inf", page_number(inspection, "nan"),
                  page_number(inspection, "inf"));
    text_adds(out, "</td></tr>\n");
}

static void add_inspections(const json_t *autopsy, struct text *out)
{
    const json_t *before = json_object_get(autopsy, "before");
    const json_t *found = json_object_get(autopsy, "found");

    if (!json_is_object(found))
        return;
    text_adds(out, "<h3>Operations up to the first non-finite value</h3>\n"
                   "<div class=\"scroll\" role=\"region\" aria-label=\"Operations\" "
                   "tabindex=\"0\">\n"
                   "<table class=\"looks\">\n"
                   "<thead><tr><th scope=\"col\">operation</th><th "
                   "scope=\"col\">output</th><th scope=\"col\">layer</th><th "
                   "scope=\"col\">format</th><th scope=\"col\">largest finite</th><th "
                   "scope=\"col\">not finite</th></tr></thead>\n"
                   "<tbody>\n");
    for (size_t i = 0; i < json_array_size(before); i++)
        add_inspection(json_array_get(before, i), "", out);
    add_inspection(found, " class=\"found\"", out);
    text_adds(out, "</tbody>\n</table>\n</div>\n");
}

static void add_autopsy(const json_t *autopsy, struct text *out)
{
    struct text line;

    text_init(&line, 0);
    text_addf(&line, "%sstep %.0f: %s",
              json_is_true(json_object_get(autopsy, "preflight"))    ? "Preflight, "
              : json_is_true(json_object_get(autopsy, "evaluation")) ? "Evaluation at "
                                                                     : "",
              page_number(autopsy, "step"), page_string(autopsy, "sentence"));
    text_adds(out, "<table class=\"pairs\">\n<tbody>\n");
    page_row(out, "Autopsy", line.data);
    page_row(out, "Advice", page_string(autopsy, "advice"));
    page_row_number(out, "Loss scale", autopsy, "loss_scale", "");
    row_batch_position(json_object_get(autopsy, "micro_batch"), out);
    text_adds(out, "</tbody>\n</table>\n");
    add_inspections(autopsy, out);
    text_clear(&line);
}

void page_trouble(const struct page_data *data, struct text *out)
{
    const struct job_record *record = &data->record;
    bool vanished = record->state == JOB_RUNNING && !data->running;

    if (record->state == JOB_FAILED || record->state == JOB_REJECTED ||
        record->state == JOB_BLOCKED || vanished) {
        text_adds(out, "<div class=\"alarm\" role=\"note\"><p>");
        html_text(out, vanished            ? "trainspool-train crashed"
                       : record->reason[0] ? record->reason
                                           : "unknown reason");
        text_adds(out, "</p></div>\n");
    }
    if (data->autopsy)
        add_autopsy(data->autopsy, out);
}
