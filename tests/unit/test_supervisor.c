/* tests/unit/test_supervisor.c - what a service manager hears, and when. */
#include "config.h"

#include "runner/spool/supervisor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/unit.h"

/* Bind a socket whose name is this one's, and let NOTIFY_SOCKET name it. */
static int listen_here(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char name[64];
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    socklen_t len;

    snprintf(name, sizeof(name), "@trainspool-test-%d", (int)getpid());
    len = (socklen_t)(sizeof(address.sun_family) + strlen(name));
    memcpy(address.sun_path, name, strlen(name));
    address.sun_path[0] = 0;
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

/* Return the next datagram; "": there is none. */
static const char *hear(int fd)
{
    static char text[4096];
    ssize_t got = recv(fd, text, sizeof(text) - 1, 0);

    text[got > 0 ? got : 0] = 0;
    return text;
}

static void test_supervisor_is_none_without_a_socket(void **state)
{
    static const char *const names[] = { NULL, "", "relative", "vsock:2:1234" };
    struct supervisor *supervisor;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        unsetenv("NOTIFY_SOCKET");
        if (names[i])
            setenv("NOTIFY_SOCKET", names[i], 1);
        setenv("WATCHDOG_USEC", "1000", 1);
        supervisor = supervisor_open();
        assert_null(supervisor);
        assert_null(getenv("WATCHDOG_USEC"));
    }
    supervisor_ready(NULL);
    supervisor_poll(NULL, true);
    assert_true(isinf(supervisor_due(NULL)));
    supervisor_close(NULL);
}

static void test_supervisor_beats_at_half_the_interval(void **state)
{
    int fd = listen_here();
    struct supervisor *supervisor;
    double now;

    (void)state;
    setenv("WATCHDOG_USEC", "60000000", 1);
    supervisor = supervisor_open();
    assert_non_null(supervisor);
    assert_null(getenv("NOTIFY_SOCKET"));
    now = clock_seconds();
    assert_true(supervisor_due(supervisor) <= now);
    supervisor_poll(supervisor, false);
    assert_string_equal(hear(fd), "WATCHDOG=1\n");
    assert_true(supervisor_due(supervisor) >= now + 30);
    assert_true(supervisor_due(supervisor) <= clock_seconds() + 30);
    supervisor_poll(supervisor, false);
    assert_string_equal(hear(fd), "");
    supervisor_close(supervisor);
    close(fd);
}

static void test_supervisor_reloads_with_a_time(void **state)
{
    int fd = listen_here();
    struct supervisor *supervisor = supervisor_open();
    const char *text;

    (void)state;
    supervisor_reloading(supervisor);
    text = hear(fd);
    assert_memory_equal(text, "RELOADING=1\nMONOTONIC_USEC=", 27);
    assert_true(strtod(text + 27, NULL) > 0);
    supervisor_ready(supervisor);
    assert_string_equal(hear(fd), "READY=1\n");
    supervisor_close(supervisor);
    close(fd);
}

/* A status is one line, and is sent once. */
static void test_supervisor_describes_in_one_line(void **state)
{
    int fd = listen_here();
    struct supervisor *supervisor = supervisor_open();

    (void)state;
    supervisor_describe(supervisor, "running a\nREADY=1");
    supervisor_poll(supervisor, false);
    assert_string_equal(hear(fd), "STATUS=running a\\x0aREADY=1\n");
    supervisor_describe(supervisor, "running a\nREADY=1");
    supervisor_poll(supervisor, false);
    assert_string_equal(hear(fd), "");
    assert_true(isinf(supervisor_due(supervisor)));
    supervisor_close(supervisor);
    close(fd);
}

/* What does not fit into the queue of the socket is sent later. */
static void test_supervisor_is_ready_in_the_end(void **state)
{
    int fd = listen_here(), ready = 0;
    struct supervisor *supervisor = supervisor_open();
    const char *text;

    (void)state;
    for (int i = 0; i < 3000 && supervisor_due(supervisor) > clock_seconds() + 1; i++)
        supervisor_reloading(supervisor);
    assert_true(supervisor_due(supervisor) < clock_seconds() + 1);
    supervisor_ready(supervisor);
    for (int i = 0; i < 100 && !ready; i++) {
        while (*(text = hear(fd)))
            ready += strstr(text, "READY=1\n") != NULL;
        usleep(20000);
        supervisor_poll(supervisor, false);
    }
    assert_int_equal(ready, 1);
    supervisor_close(supervisor);
    close(fd);
}

/* More time is asked for only at the end, and only while a job saves. */
static void test_supervisor_asks_for_time(void **state)
{
    int fd = listen_here();
    struct supervisor *supervisor = supervisor_open();

    (void)state;
    supervisor_poll(supervisor, true);
    assert_string_equal(hear(fd), "");
    supervisor_stopping(supervisor);
    supervisor_stopping(supervisor);
    assert_string_equal(hear(fd), "STOPPING=1\n");
    assert_string_equal(hear(fd), "");
    supervisor_poll(supervisor, false);
    assert_string_equal(hear(fd), "");
    supervisor_poll(supervisor, true);
    assert_memory_equal(hear(fd), "EXTEND_TIMEOUT_USEC=", 20);
    assert_true(supervisor_due(supervisor) < clock_seconds() + 60);
    supervisor_close(supervisor);
    close(fd);
}

static void test_supervisor_knows_the_journal(void **state)
{
    char stream[64];
    struct stat st;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fstat(ends[1], &st), 0);
    unsetenv("JOURNAL_STREAM");
    assert_false(supervisor_reads(ends[1]));
    snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev,
             (uintmax_t)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    assert_true(supervisor_reads(ends[1]));
    snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev,
             (uintmax_t)st.st_ino + 1);
    setenv("JOURNAL_STREAM", stream, 1);
    assert_false(supervisor_reads(ends[1]));
    setenv("JOURNAL_STREAM", "8:x", 1);
    assert_false(supervisor_reads(ends[1]));
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_supervisor_is_none_without_a_socket),
        cmocka_unit_test(test_supervisor_beats_at_half_the_interval),
        cmocka_unit_test(test_supervisor_reloads_with_a_time),
        cmocka_unit_test(test_supervisor_describes_in_one_line),
        cmocka_unit_test(test_supervisor_is_ready_in_the_end),
        cmocka_unit_test(test_supervisor_asks_for_time),
        cmocka_unit_test(test_supervisor_knows_the_journal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
