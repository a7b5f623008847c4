/* tests/unit/test_spool_metrics.c - the sums of running jobs by device. */
#include "config.h"

#include "runner/spool/spool_metrics.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/unit/unit.h"

static const struct {
    const char *name, *devices, *kind;
    int planned; /* bytes, in run.json */
} jobs[] = {
    { "a", "cuda:0", "NVIDIA H100", 100 },
    { "b", "cuda:1", "NVIDIA H100", 20 },
    { "c", "cuda:0,1", "2 x NVIDIA H100", 3 }, /* on each */
    { "d", "cpu", "EPYC", 5 },
    { "e", "", "NVIDIA H100", 7 }, /* of run */
};

static void write_plan(const char *name, int bytes)
{
    char path[64], text[64];

    snprintf(path, sizeof(path), "%s.run", name);
    assert_return_code(mkdir(path, 0700), errno);
    snprintf(path, sizeof(path), "%s.run/run.json", name);
    snprintf(text, sizeof(text), "{\"memory\": {\"total\": %d}}", bytes);
    assert_true(file_create(path, text, strlen(text), 0600, NULL));
}

static void assert_sample(const struct text *page, const char *device, int bytes)
{
    char line[160];

    snprintf(line, sizeof(line),
             "\ntrainspool_device_memory_planned_bytes{device=\"%s\"} %d\n", device,
             bytes);
    if (!strstr(page->data, line))
        fail_msg("no %s in %s", line, page->data);
}

static void test_metrics_sum_memory_by_device(void **state)
{
    struct listed listed[TS_COUNT(jobs)] = { { 0 } };
    const struct listed *running[TS_COUNT(jobs)];
    const struct overview overview = { .jobs = listed,
                                       .count = TS_COUNT(jobs),
                                       .running = running,
                                       .running_count = TS_COUNT(jobs) };
    const struct spool_counters counters = { 0 };
    char *dir = unit_dir_new(), path[64];
    struct text page;

    (void)state;
    assert_return_code(chdir(dir), errno);
    for (size_t i = 0; i < TS_COUNT(jobs); i++) {
        write_plan(jobs[i].name, jobs[i].planned);
        snprintf(path, sizeof(path), "%s.yaml", jobs[i].name);
        listed[i] = (struct listed) { .path = memory_strdup(path),
                                      .name = memory_strdup(jobs[i].name),
                                      .running = true };
        snprintf(listed[i].record.devices, sizeof(listed[i].record.devices), "%s",
                 jobs[i].devices);
        snprintf(listed[i].record.device, sizeof(listed[i].record.device), "%s",
                 jobs[i].kind);
        listed[i].record.state = JOB_RUNNING;
        running[i] = &listed[i];
    }
    text_init(&page, 0);
    assert_true(spool_metrics_write(&counters, &overview, "", &page));
    assert_sample(&page, "cuda:0", 103);
    assert_sample(&page, "cuda:1", 23);
    assert_sample(&page, "cpu", 5);
    assert_sample(&page, "NVIDIA H100", 7);
    text_clear(&page);
    for (size_t i = 0; i < TS_COUNT(jobs); i++) {
        free(listed[i].path);
        free(listed[i].name);
    }
    assert_return_code(chdir("/"), errno);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics_sum_memory_by_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
