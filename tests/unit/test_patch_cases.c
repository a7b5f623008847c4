/*
 * tests/unit/test_patch_cases.c - the folders of tests/patch/, each a job and its
 * expected patch.
 *
 *   job.yaml        the job
 *   device          as in --device; "none": unknown; followed by ", no code": found in
 *                   this machine, but this build has no code for it; "cpu, no code for
 *                   NAME"; ", here": found in this machine; ", next to NAME": with
 *                   another kind
 *   free            bytes free on it, which is then in this machine ("18GiB")
 *   host            bytes free on the host ("8GiB")
 *   want.yaml       the text after the safe edits
 *   want.findings   one per line: position, severity, rule, applicability, then the edit
 *   options         words: unsafe, run, spooled, roots, resume (run --resume), launched
 *                   (ranks of a launcher), nameless (why the device is unknown), guessed (nothing
 *                   names the device), heal-memory and heal-diverged (the problem to remedy)
 *   job.run/, out/  what a previous run left next to the job and in its output_dir
 *
 * With PATCH_CASES_WRITE set, the test writes the expected files, for a person to review.
 */
#include "config.h"

#include "patcher/patcher.h"

#include <dirent.h>

#include "base/size.h"
#include "precision/device.h"
#include "tests/unit/unit.h"

#define CASES_MAX 4000

struct patch_case {
    char *dir;
    struct text job, device, options, yaml, findings;
    struct device requested, host;
    struct patch_options how;
};

static void read_part(const char *dir, const char *name, struct text *out, bool needed)
{
    struct error err = { 0 };
    char *path = path_join(dir, name);

    text_init(out, 0);
    if ((needed || file_exists(path)) &&
        !file_read(path, DOCUMENT_MAX_BYTES, out, NULL, &err))
        fail_msg("%s", err.text);
    free(path);
}

/* Read a size from a file; 0 if the file does not exist. */
static uint64_t read_bytes(const char *dir, const char *name)
{
    struct text text;
    uint64_t bytes = 0;

    read_part(dir, name, &text, false);
    text.data[strcspn(text.data, "\n")] = 0;
    if (text.data[0] && !device_parse_bytes(text.data, &bytes))
        fail_msg("%s: %s is no size", dir, text.data);
    text_clear(&text);
    return bytes;
}

/* Put the device in this machine, with so much free memory. */
static void put_in_this_machine(struct patch_case *test)
{
    uint64_t bytes = read_bytes(test->dir, "free");

    test->host.available = read_bytes(test->dir, "host");
    if (bytes == 0)
        return;
    test->requested.here = test->requested.runnable = true;
    test->requested.available = bytes;
}

static void read_case(struct patch_case *test, char *job)
{
    static const char *const roots[] = { "/tmp", NULL };
    static const struct heal heals[] = { { AILMENT_MEMORY, "it cannot allocate 9 MiB" },
                                         { AILMENT_DIVERGED, "50 steps were skipped" } };
    struct error err = { 0 };
    bool writing = getenv("PATCH_CASES_WRITE") != NULL;
    const char *device;
    char *lacks, *here, *next_to;

    read_part(test->dir, "job.yaml", &test->job, true);
    read_part(test->dir, "device", &test->device, true);
    read_part(test->dir, "options", &test->options, false);
    read_part(test->dir, "want.yaml", &test->yaml, !writing);
    read_part(test->dir, "want.findings", &test->findings, !writing);
    test->device.data[strcspn(test->device.data, "\n")] = 0;
    lacks = strstr(test->device.data, ", no code");
    here = strstr(test->device.data, ", here");
    next_to = strstr(test->device.data, ", next to ");
    test->device.data[strcspn(test->device.data, ",")] = 0;
    device = test->device.data;
    if (strcmp(device, "none") != 0 && !device_find(device, &test->requested, &err))
        fail_msg("%s", err.text);
    test->requested.here = test->requested.runnable = here != NULL;
    if (next_to)
        snprintf(test->requested.unlike, sizeof(test->requested.unlike), "%s",
                 next_to + strlen(", next to "));
    if (lacks) {
        test->requested.here = true;
        snprintf(test->requested.passed_over, sizeof(test->requested.passed_over), "%s",
                 test->requested.kind == DEVICE_CPU ? lacks + strlen(", no code for ")
                                                    : "");
    }
    put_in_this_machine(test);
    test->how = (struct patch_options) {
        .job = job,
        .host = &test->host,
        .device = strcmp(device, "none") != 0 ? &test->requested : NULL,
        .unsafe = strstr(test->options.data, "unsafe"),
        .will_run = strstr(test->options.data, "run"),
        .spooled = strstr(test->options.data, "spooled"),
        .resume = strstr(test->options.data, "resume"),
        .no_device =
            strstr(test->options.data, "nameless") ? "sinfo names no model" : NULL,
        .launched = strstr(test->options.data, "launched"),
        .guessed = strstr(test->options.data, "guessed"),
        .roots = strstr(test->options.data, "roots") ? roots : NULL,
        .heal = strstr(test->options.data, "heal-memory")     ? &heals[0]
                : strstr(test->options.data, "heal-diverged") ? &heals[1]
                                                              : NULL,
    };
}

static void clear_case(struct patch_case *test)
{
    text_clear(&test->job);
    text_clear(&test->device);
    text_clear(&test->options);
    text_clear(&test->yaml);
    text_clear(&test->findings);
}

/* "7:14 error TS105 safe model_dtype: float16 -> float32" */
static void write_findings(const struct patch *patch, struct text *out)
{
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        text_addf(out, "%u:%u %s %s %s", finding->at.line, finding->at.column,
                  severity_names[finding->severity], finding->rule,
                  apply_names[finding->apply]);
        if (finding->key)
            text_addf(out, " %s", finding->key);
        if (finding->new_text) {
            text_adds(out, ": '");
            text_add_visible(out, finding->old_text, strlen(finding->old_text));
            text_adds(out, "' -> '");
            text_add_visible(out, finding->new_text, strlen(finding->new_text));
            text_adds(out, "'");
        }
        text_addc(out, '\n');
    }
}

static void write_part(const struct patch_case *test, const char *name, const char *data,
                       size_t len)
{
    char *path = path_join(test->dir, name);

    assert_true(file_replace(path, data, len, 0644, NULL));
    free(path);
}

static void compare(const struct patch_case *test, const struct patch *patch,
                    const struct text *findings)
{
    if (getenv("PATCH_CASES_WRITE")) {
        write_part(test, "want.yaml", patch->text, patch->len);
        write_part(test, "want.findings", findings->data, findings->len);
        return;
    }
    assert_string_equal(findings->data, test->findings.data);
    assert_int_equal(patch->len, test->yaml.len);
    assert_memory_equal(patch->text, test->yaml.data, patch->len);
}

/* Every finding has a rule with an explanation, a sentence, and a position in the
 * text. */
static void check_findings(const struct patch *patch)
{
    for (size_t i = 0; i < patch->findings.count; i++) {
        const struct finding *finding = &patch->findings.list[i];

        assert_non_null(finding->message);
        assert_true(strlen(finding->message) > 8);
        assert_true(finding->at.byte + finding->cut <= patch->document.len);
        if (finding->new_text)
            assert_memory_equal(finding->old_text,
                                patch->document.data + finding->at.byte, finding->cut);
    }
}

static void test_patch_case(void **state)
{
    struct patch_case test = { .dir = *state };
    struct error err = { 0 };
    struct patch patch, again;
    struct text findings;
    char *job = path_join(test.dir, "job.yaml");

    read_case(&test, job);
    text_init(&findings, 0);
    if (!patcher_check(test.job.data, test.job.len, &test.how, &patch, &err))
        fail_msg("%s: %s", test.dir, err.text);
    check_findings(&patch);
    write_findings(&patch, &findings);
    compare(&test, &patch, &findings);
    assert_true(patcher_check(patch.text, patch.len, &test.how, &again, &err));
    assert_false(again.changed);
    patch_clear(&again);
    patch_clear(&patch);
    text_clear(&findings);
    clear_case(&test);
    free(job);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct CMUnitTest *)a)->name,
                  ((const struct CMUnitTest *)b)->name);
}

static size_t find_cases(const char *top, struct CMUnitTest *tests, size_t room)
{
    DIR *dir = opendir(top);
    struct dirent *entry;
    size_t count = 0;

    while (dir && (entry = readdir(dir)) && count < room) {
        char *path = path_join(top, entry->d_name), *job = path_join(path, "job.yaml");

        if (file_exists(job))
            tests[count++] = (struct CMUnitTest) { .name = memory_strdup(entry->d_name),
                                                   .test_func = test_patch_case,
                                                   .initial_state = path };
        else
            free(path);
        free(job);
    }
    if (dir)
        closedir(dir);
    qsort(tests, count, sizeof(*tests), by_name);
    return count;
}

int main(void)
{
    static struct CMUnitTest tests[CASES_MAX];
    char *top = unit_source("tests/patch");
    size_t count = find_cases(top, tests, CASES_MAX);
    int failed = _cmocka_run_group_tests("patch", tests, count, NULL, NULL);

    for (size_t i = 0; i < count; i++) {
        free((char *)tests[i].name);
        free(tests[i].initial_state);
    }
    free(top);
    return count == 0 || count == CASES_MAX ? 1 : failed;
}
