/* runner/page/page.c - writes the head of the page and the sections that have content. */
#include "config.h"

#include "runner/page/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "runner/page/page_sections.h"

static const size_t page_max = (size_t)64 << 20;

/* In the order of the page. */
static const struct {
    const char *id, *title;
    page_part *add;
} sections[] = {
    { "trouble", "Failure", page_trouble },
    { "figures", "Summary", page_figures },
    { "curves", "Curves", page_curves },
    { "samples", "Generations", page_samples },
    { "changes", "Changes to the job", page_changes },
    { "plan", "Plan", page_plan },
    { "environment", "Environment", page_environment },
    { "events", "Events", page_events },
    { "text", "Job file", page_text },
};

/* Styles are allowed in attributes, which position labels; the script is allowed by its
 * hash, so a script injected through a hostile name cannot run. */
static void add_head(const struct page_data *data, struct text *out)
{
    char hash[64];

    html_hash(page_script, hash);
    text_addf(
        out,
        "<!DOCTYPE html>\n"
        "<html lang=\"en\">\n"
        "<head>\n"
        "<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "style-src 'unsafe-inline'; img-src data:; script-src %s\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"generator\" content=\"trainspool %s\">\n"
        "<link rel=\"icon\" href=\"data:,\">\n"
        "<title>",
        hash, PACKAGE_VERSION);
    html_text(out, data->job->name);
    text_addf(out, ": %s</title>\n<style>\n%s</style>\n</head>\n", page_state(data),
              page_style);
}

/* "full training of smollm2-135m, fp16-mixed on TITAN RTX" */
static void add_subject(const struct page_data *data, struct text *out)
{
    const json_t *model = json_object_get(data->facts, "model");
    const char *mode = page_string(json_object_get(data->facts, "precision"), "mode");

    if (!data->facts)
        return;
    text_adds(out, "<p class=\"subject\">");
    html_textf(out, "%s training of %s, %s", page_string(model, "method"),
               path_base(page_string(model, "path")), mode);
    if (data->record.device[0])
        html_textf(out, " on %s", data->record.device);
    if (data->record.node[0])
        html_textf(out, " of node %s", data->record.node);
    text_adds(out, "</p>\n");
}

static void add_header(const struct page_data *data, struct text *out)
{
    text_adds(out, "<header>\n<h1>");
    html_text(out, data->job->name);
    text_addf(out, " <span class=\"state %s\">%s</span></h1>\n",
              data->record.state == JOB_RUNNING && !data->running
                  ? "failed"
                  : job_state_names[data->record.state],
              page_state(data));
    add_subject(data, out);
    text_adds(out, "</header>\n");
}

/* Append each section to `body` and a link to it to `links`. */
static void add_sections(const struct page_data *data, struct text *links,
                         struct text *body)
{
    struct text part;

    text_init(&part, page_max);
    for (size_t i = 0; i < TS_COUNT(sections); i++) {
        text_reset(&part);
        sections[i].add(data, &part);
        if (part.len == 0)
            continue;
        text_addf(links, "<a href=\"#%s\">%s</a>\n", sections[i].id, sections[i].title);
        text_addf(body,
                  "<section id=\"%s\" aria-labeledby=\"%s-h\">\n"
                  "<h2 id=\"%s-h\">%s</h2>\n",
                  sections[i].id, sections[i].id, sections[i].id, sections[i].title);
        text_add(body, part.data, part.len);
        text_adds(body, "</section>\n");
    }
    text_clear(&part);
}

bool page_make(const struct page_data *data, struct text *out)
{
    struct text links, body;
    char now[32];

    text_init(&links, 0);
    text_init(&body, page_max);
    clock_iso(now);
    add_sections(data, &links, &body);
    add_head(data, out);
    text_adds(out, "<body>\n<main>\n");
    add_header(data, out);
    text_addf(out, "<nav aria-label=\"Sections\">\n%s</nav>\n", links.data);
    text_add(out, body.data, body.len);
    text_addf(out,
              "</main>\n"
              "<footer>Written by trainspool %s on <time>%s</time>.</footer>\n"
              "<script>%s</script>\n"
              "</body>\n"
              "</html>\n",
              PACKAGE_VERSION, now, page_script);
    out->overflow |= body.overflow;
    text_clear(&links);
    text_clear(&body);
    return !out->overflow;
}

bool page_write(const struct job *job, const char *name, struct error *err)
{
    char *own = path_join(job->run_dir, "report.html");
    struct page_data data;
    struct text page;
    bool ok;

    text_init(&page, page_max);
    ok = page_data_read(job, &data, err) &&
         (page_make(&data, &page) ||
          error_set(err, ERROR_DATA, "the report of %s would be larger than %zu MiB",
                    job->path, page_max >> 20)) &&
         file_replace(name ? name : own, page.data, page.len, 0644, err);
    page_data_clear(&data);
    text_clear(&page);
    free(own);
    return ok;
}
