/* tests/unit/test_link.c - data between two processes, and the effect of one of them
 * ending. */
#include "config.h"

#include "base/link.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

enum { MANY = 3 << 20 }; /* more than a socket buffer holds */

static void open_pair(int ends[2])
{
    struct error err = { 0 };

    if (!link_pair(ends, &err))
        fail_msg("%s", err.text);
}

static void finish(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_link_carries_more_than_a_socket_holds(void **state)
{
    unsigned char *bytes = malloc(MANY);
    struct error err = { 0 };
    int ends[2];
    pid_t child;

    (void)state;
    open_pair(ends);
    for (size_t i = 0; i < MANY; i++)
        bytes[i] = (unsigned char)(i * 7 >> 3);
    child = fork();
    if (child == 0) {
        close(ends[0]);
        _exit(link_send(ends[1], bytes, MANY, 0, NULL) ? 0 : 1);
    }
    close(ends[1]);
    memset(bytes, 0, MANY);
    assert_true(link_receive(ends[0], bytes, MANY, 20, &err));
    for (size_t i = 0; i < MANY; i++)
        if (bytes[i] != (unsigned char)(i * 7 >> 3))
            fail_msg("byte %zu", i);
    finish(child);
    close(ends[0]);
    free(bytes);
}

static void test_link_reports_the_end_after_pending_data(void **state)
{
    struct error err = { 0 };
    int ends[2], number = 0;
    pid_t child;

    (void)state;
    open_pair(ends);
    child = fork();
    if (child == 0) {
        number = 41;
        link_send(ends[1], &number, sizeof(number), 0, NULL);
        kill(getpid(), SIGKILL);
    }
    close(ends[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_false(link_is_alive(ends[0]));
    assert_true(link_receive(ends[0], &number, sizeof(number), 0, &err));
    assert_int_equal(number, 41);
    assert_false(link_receive(ends[0], &number, sizeof(number), 0, &err));
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_non_null(strstr(err.text, "has ended"));
    error_clear(&err);
    assert_false(link_send(ends[0], &number, sizeof(number), 0, &err));
    assert_non_null(strstr(err.text, "has ended"));
    close(ends[0]);
}

static void test_link_times_out(void **state)
{
    struct error err = { 0 };
    int ends[2], number;

    (void)state;
    open_pair(ends);
    assert_true(link_is_alive(ends[0]));
    assert_false(link_receive(ends[0], &number, sizeof(number), 0.01, &err));
    assert_non_null(strstr(err.text, "does not answer"));
    error_clear(&err);
    assert_int_equal(link_receive_file(ends[0], 0.01, &err), -1);
    assert_non_null(strstr(err.text, "does not answer"));
    close(ends[0]);
    close(ends[1]);
}

static void test_link_passes_a_file_descriptor(void **state)
{
    struct error err = { 0 };
    int ends[2], pipe_of[2], file;
    char word[6] = "";

    (void)state;
    open_pair(ends);
    assert_int_equal(pipe(pipe_of), 0);
    assert_true(link_send_file(ends[0], pipe_of[1], 0, &err));
    file = link_receive_file(ends[1], 0, &err);
    assert_true(file >= 0 && file != pipe_of[1]);
    assert_true(fcntl(file, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(file, "hello", 5), 5);
    assert_int_equal(read(pipe_of[0], word, 5), 5);
    assert_string_equal(word, "hello");
    assert_true(link_send(ends[0], word, 1, 0, &err));
    assert_int_equal(link_receive_file(ends[1], 0, &err), -1);
    assert_non_null(strstr(err.text, "sent no file"));
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(pipe_of[i]);
    }
    close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_link_carries_more_than_a_socket_holds),
        cmocka_unit_test(test_link_reports_the_end_after_pending_data),
        cmocka_unit_test(test_link_times_out),
        cmocka_unit_test(test_link_passes_a_file_descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
