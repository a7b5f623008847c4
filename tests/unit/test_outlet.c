/* tests/unit/test_outlet.c - output whose reader is slow, stuck, or gone. */
#include "config.h"

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/outlet.h"

enum { ROOM = 4096, LINES = 1000 };

static void notice(int fd, size_t lines, char *out, size_t room)
{
    (void)fd;
    snprintf(out, room, "%zu lost\n", lines);
}

static void add(struct outlet *outlet, int number)
{
    char line[64];
    int len = snprintf(line, sizeof(line), "line %04d of some length\n", number);

    outlet_add(outlet, line, (size_t)len);
}

/* Return how many lines of a text are as added, in order, and how many were reported as
 * lost; a line that was cut is one of those. */
static size_t count(char *text, size_t *lost)
{
    size_t lines = 0, n;
    int last = -1, number;
    char *rest = NULL;

    *lost = 0;
    for (char *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strlen(line) == strlen("line 0000 of some length")) {
            assert_int_equal(sscanf(line, "line %d of some length", &number), 1);
            assert_true(number > last);
            last = number;
            lines++;
        } else if (text_ends(line, " lost") && sscanf(line, "%zu", &n) == 1) {
            *lost += n;
        }
    }
    return lines;
}

static char *contents(int fd)
{
    struct text text;
    char buffer[ROOM];
    ssize_t got;

    text_init(&text, 0);
    while ((got = read(fd, buffer, sizeof(buffer))) > 0)
        text_add(&text, buffer, (size_t)got);
    return text_detach(&text, NULL);
}

static void test_outlet_writes_all_lines_in_order(void **state)
{
    int fd = memfd_create("out", 0);
    struct outlet *outlet = outlet_new(fd, 64 * LINES, notice);
    size_t lost;
    char *text;

    (void)state;
    for (int i = 0; i < LINES; i++)
        add(outlet, i);
    outlet_free(outlet, 60);
    lseek(fd, 0, SEEK_SET);
    text = contents(fd);
    assert_int_equal(count(text, &lost), LINES);
    assert_int_equal(lost, 0);
    free(text);
    close(fd);
}

static void test_outlet_does_not_wait_for_a_reader(void **state)
{
    double from = clock_seconds();
    struct outlet *outlet;
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    outlet = outlet_new(ends[1], ROOM, notice);
    for (int i = 0; i < 100 * LINES; i++) /* more than the pipe takes */
        add(outlet, i % 10000);
    outlet_free(outlet, 0.05);
    assert_true(clock_seconds() - from < 10);
    close(ends[0]); /* the write returns, and the thread ends */
}

static void *read_to_end(void *context)
{
    return contents(*(int *)context);
}

static void test_outlet_reports_what_a_slow_reader_missed(void **state)
{
    struct outlet *outlet;
    size_t lines, lost;
    pthread_t reader;
    void *text;
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, ROOM) >= 0);
    outlet = outlet_new(ends[1], ROOM, notice);
    for (int i = 0; i < LINES; i++)
        add(outlet, i);
    assert_int_equal(pthread_create(&reader, NULL, read_to_end, &ends[0]), 0);
    outlet_free(outlet, 60);
    close(ends[1]);
    pthread_join(reader, &text);
    lines = count(text, &lost);
    assert_true(lost > 0);
    assert_int_equal(lines + lost, LINES);
    free(text);
    close(ends[0]);
}

/* A write that is under way when the log is rotated ends in the old file. */
static void test_outlet_writes_no_line_to_two_files(void **state)
{
    int fd = memfd_create("out", 0);
    struct outlet *outlet;
    size_t old, new, lost, more;
    pthread_t reader;
    void *text;
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, ROOM) >= 0);
    outlet = outlet_new(ends[1], 64 * LINES, notice);
    for (int i = 0; i < LINES; i++)
        add(outlet, i);
    nanosleep(&(struct timespec) { .tv_nsec = 50000000 }, NULL); /* the pipe is full */
    outlet_redirect(outlet, fd, true);
    assert_int_equal(pthread_create(&reader, NULL, read_to_end, &ends[0]), 0);
    outlet_free(outlet, 60);
    pthread_join(reader, &text);
    old = count(text, &lost);
    free(text);
    lseek(fd, 0, SEEK_SET);
    text = contents(fd);
    new = count(text, &more);
    assert_true(old > 0 && new > 0);
    assert_int_equal(old + lost + new + more, LINES);
    free(text);
    close(ends[0]);
    close(fd);
}

static void test_outlet_survives_the_end_of_its_reader(void **state)
{
    int fd = memfd_create("out", 0);
    struct outlet *outlet;
    size_t lines, lost;
    int ends[2];
    char *text;

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    outlet = outlet_new(ends[1], 64 * LINES, notice);
    for (int i = 0; i < 10; i++)
        add(outlet, i);
    outlet_redirect(outlet, fd, true); /* the first lines may be lost */
    for (int i = 10; i < LINES; i++)
        add(outlet, i);
    outlet_free(outlet, 60);
    lseek(fd, 0, SEEK_SET);
    text = contents(fd);
    lines = count(text, &lost);
    assert_int_equal(lines + lost, LINES);
    assert_true(lines >= LINES - 10);
    free(text);
    close(fd);
}

static void test_outlet_reports_what_a_full_disk_refused(void **state)
{
    static const struct timespec moment = { .tv_nsec = 1000000 };
    char *dir = unit_dir_new(), *path = path_join(dir, "log"), *text;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct outlet *outlet;
    size_t lines, lost;

    (void)state;
    unit_disk_full(ROOM);
    outlet = outlet_new(fd, 64 * LINES, notice);
    for (int i = 0; i < LINES; i++)
        add(outlet, i);
    while (lseek(fd, 0, SEEK_END) < ROOM)
        nanosleep(&moment, NULL);
    nanosleep(&(struct timespec) { .tv_nsec = 50000000 }, NULL); /* for refusals */
    unit_disk_free();
    add(outlet, LINES);
    outlet_free(outlet, 60);
    lseek(fd, 0, SEEK_SET);
    text = contents(fd);
    assert_non_null(strstr(text, "line 1000 of some length\n"));
    lines = count(text, &lost);
    assert_true(lost > 0);
    assert_int_equal(lines + lost, LINES + 1);
    free(text);
    close(fd);
    free(path);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outlet_writes_all_lines_in_order),
        cmocka_unit_test(test_outlet_does_not_wait_for_a_reader),
        cmocka_unit_test(test_outlet_reports_what_a_slow_reader_missed),
        cmocka_unit_test(test_outlet_writes_no_line_to_two_files),
        cmocka_unit_test(test_outlet_survives_the_end_of_its_reader),
        cmocka_unit_test(test_outlet_reports_what_a_full_disk_refused),
    };

    return cmocka_run_group_tests_name("outlet", tests, NULL, NULL);
}
