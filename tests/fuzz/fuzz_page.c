/*
 * tests/fuzz/fuzz_page.c - report pages: whatever the files of a run contain, its page is
 * UTF-8 and has no markup except our own.  Input, separated by zero bytes: job.yaml,
 * state.json, metrics.jsonl, train.log, run.json, autopsy.json, samples.jsonl.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "runner/page/page.h"

/* All elements of a page. */
static const char *const tags[] = {
    "!DOCTYPE", "a",     "body",   "code",       "dd",     "del",    "desc",   "details",
    "div",      "dl",    "dt",     "figcaption", "figure", "footer", "h1",     "h2",
    "h3",       "head",  "header", "html",       "i",      "ins",    "link",   "main",
    "meta",     "nav",   "output", "p",          "path",   "pre",    "script", "section",
    "small",    "span",  "style",  "summary",    "svg",    "table",  "tbody",  "td",
    "th",       "thead", "time",   "title",      "tr",
};

static bool is_ours(const char *name, size_t len)
{
    for (size_t i = 0; i < TS_COUNT(tags); i++)
        if (strlen(tags[i]) == len && memcmp(tags[i], name, len) == 0)
            return true;
    return false;
}

/* Check that the tag at `at` is ours and closes its quotes.  Return its end. */
static const char *check_tag(const char *at, size_t *scripts)
{
    const char *name = at + 1 + (at[1] == '/');
    size_t len = strcspn(name, " >\n");
    bool quoted = false;

    FUZZ_HOLDS(is_ours(name, len));
    *scripts += at[1] != '/' && len == 6 && memcmp(name, "script", 6) == 0;
    for (at = name + len; *at && (quoted || *at != '>'); at++) {
        FUZZ_HOLDS(*at != '<');
        quoted ^= *at == '"';
    }
    FUZZ_HOLDS(*at == '>' && !quoted);
    return at;
}

/* Return the end of a style or script element, which contains only our own text, or
 * NULL. */
static const char *skip_verbatim(const char *at)
{
    if (strncmp(at, "<style>", 7) == 0)
        return strstr(at, "</style>");
    if (strncmp(at, "<script>", 8) == 0)
        return strstr(at, "</script>");
    return NULL;
}

static void check_page(const struct text *page)
{
    size_t scripts = 0;

    FUZZ_HOLDS(text_is_utf8(page->data, page->len, NULL));
    FUZZ_HOLDS(strlen(page->data) == page->len);
    for (const char *at = page->data; (at = strchr(at, '<'));) {
        const char *end = skip_verbatim(at);

        at = check_tag(at, &scripts);
        at = end ? end : at;
    }
    FUZZ_HOLDS(scripts == 1);
    FUZZ_HOLDS(page->len >= 8 && strcmp(page->data + page->len - 8, "</html>\n") == 0);
}

/* Check that the paths of drawings contain only commands and numbers. */
static void check_paths(const struct text *page)
{
    for (const char *at = page->data; (at = strstr(at, " d=\""));) {
        at += strlen(" d=\"");
        at += strspn(at, "MLHVhv0123456789. -");
        FUZZ_HOLDS(*at == '"');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char *const names[] = { "job.run/job.yaml",      "job.run/state.json",
                                         "job.run/metrics.jsonl", "job.run/train.log",
                                         "job.run/run.json",      "job.run/autopsy.json",
                                         "job.run/samples.jsonl" };
    struct fuzz_part rest = { (const char *)data, len };
    struct page_data page_data;
    struct text page;
    struct error err = { 0 };
    struct job job;
    char path[300];

    snprintf(path, sizeof(path), "%s/job.yaml", fuzz_dir());
    job_init(&job, path);
    FUZZ_HOLDS(job_make_dir(&job, &err));
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        struct fuzz_part part = fuzz_take(&rest, 0);

        fuzz_file(names[i], part.data, part.len);
    }
    text_init(&page, 0);
    if (page_data_read(&job, &page_data, &err)) {
        FUZZ_HOLDS(page_make(&page_data, &page));
        check_page(&page);
        check_paths(&page);
    }
    page_data_clear(&page_data);
    text_clear(&page);
    job_clear(&job);
    return 0;
}
