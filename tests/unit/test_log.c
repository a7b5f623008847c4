/* tests/unit/test_log.c - one line per event, whatever it contains. */
#include "config.h"

#include "base/log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/unit.h"

/* Read what log_line wrote, without the time. */
static void read_log(int fd, char *out, size_t room)
{
    ssize_t got = pread(fd, out, room - 1, 0);

    assert_true(got >= 0);
    out[got] = 0;
}

static void test_log_line_is_one_line(void **state)
{
    int fd = memfd_create("log", 0);
    struct log *log = log_new(fd, LOG_INFO);
    char out[1000];

    (void)state;
    log_line(log, LOG_WARN, "job %s: look\x1b[31m\nerror forged", "qwen");
    read_log(fd, out, sizeof(out));
    assert_int_equal(out[19], 'Z');
    assert_string_equal(out + 20, " warn job qwen: look\\x1b[31m\\x0aerror forged\n");
    log_free(log);
    close(fd);
}

static void test_log_drops_lines_below_its_level(void **state)
{
    int fd = memfd_create("log", 0);
    struct log *log = log_new(fd, LOG_WARN);
    char out[1000];

    (void)state;
    log_line(log, LOG_DEBUG, "debug");
    log_line(log, LOG_INFO, "info");
    read_log(fd, out, sizeof(out));
    assert_string_equal(out, "");
    log_line(log, LOG_ERROR, "job qwen: failed");
    read_log(fd, out, sizeof(out));
    assert_string_equal(out + 20, " error job qwen: failed\n");
    log_free(log);
    close(fd);
}

static void test_log_of_a_journal_has_priorities(void **state)
{
    int fd = memfd_create("log", 0);
    struct log *log = log_new(fd, LOG_DEBUG);
    char out[1000];

    (void)state;
    log_for_journal(log);
    log_detach(log);
    log_line(log, LOG_ERROR, "one\n<7>forged");
    log_line(log, LOG_WARN, "two");
    log_line(log, LOG_INFO, "three");
    log_line(log, LOG_DEBUG, "four");
    log_free(log);
    read_log(fd, out, sizeof(out));
    assert_string_equal(out, "<3>one\\x0a<7>forged\n<4>two\n<6>three\n<7>four\n");
    close(fd);
}

static void test_log_reports_dropped_lines(void **state)
{
    static char long_line[4000];
    struct log *log;
    struct text text;
    char buffer[4096];
    int ends[2];
    ssize_t got;

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    log = log_new(ends[1], LOG_INFO);
    log_detach(log);
    memset(long_line, 'x', sizeof(long_line) - 1);
    for (int i = 0; i < 200; i++) /* 800 kB: more than pipe and buffer */
        log_line(log, LOG_INFO, "%s", long_line);
    text_init(&text, 0);
    while (!strstr(text.data, "dropped here: they could not be written\n")) {
        got = read(ends[0], buffer, sizeof(buffer));
        assert_true(got > 0);
        text_add(&text, buffer, (size_t)got);
    }
    assert_non_null(strstr(text.data, "Z warn log: "));
    text_clear(&text);
    log_free(log);
    close(ends[0]);
    close(ends[1]);
}

static void test_log_null_drops_every_line(void **state)
{
    (void)state;
    log_line(NULL, LOG_ERROR, "dropped");
    log_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_line_is_one_line),
        cmocka_unit_test(test_log_drops_lines_below_its_level),
        cmocka_unit_test(test_log_of_a_journal_has_priorities),
        cmocka_unit_test(test_log_reports_dropped_lines),
        cmocka_unit_test(test_log_null_drops_every_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
