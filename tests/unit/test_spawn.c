/* tests/unit/test_spawn.c - output, status, timeouts, and what a child must not
 * inherit. */
#include "config.h"

#include "base/spawn.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

/* Run `script` with sh; texts are initialized here and cleared by the caller. */
static struct spawn_result run(const char *script, int timeout_ms, struct text *out,
                               struct text *errors)
{
    char *argv[] = { "sh", "-c", (char *)script, NULL };
    struct spawn_result result;
    struct error err = { 0 };

    if (!spawn_capture(argv, timeout_ms, out, errors, &result, &err))
        fail_msg("%s", err.text);
    return result;
}

static void test_spawn_collects_both_streams(void **state)
{
    struct text out, errors;
    struct spawn_result result;

    (void)state;
    text_init(&out, 0);
    text_init(&errors, 0);
    result = run("echo probe; echo trouble >&2; exit 7", 60000, &out, &errors);
    assert_int_equal(result.status, 7);
    assert_false(result.timed_out);
    assert_string_equal(out.data, "probe\n");
    assert_string_equal(errors.data, "trouble\n");
    text_clear(&out);
    text_clear(&errors);
}

static void test_spawn_gives_no_input_and_may_discard_output(void **state)
{
    (void)state;
    assert_int_equal(run("cat; echo dropped; echo dropped >&2", 60000, NULL, NULL).status,
                     0);
}

static void test_spawn_drops_output_above_the_ceiling(void **state)
{
    struct text out;

    (void)state;
    text_init(&out, 10000);
    assert_int_equal(run("head -c 1000000 /dev/zero", 60000, &out, NULL).status, 0);
    assert_true(out.overflow);
    assert_true(out.len <= 10000);
    text_clear(&out);
}

static void test_spawn_times_out(void **state)
{
    struct text out;
    struct spawn_result result;

    (void)state;
    text_init(&out, 0);
    result = run("echo early; sleep 100", 2000, &out, NULL);
    assert_true(result.timed_out);
    assert_int_equal(result.status, 128 + SIGKILL);
    assert_string_equal(out.data, "early\n");
    result = run("exec >/dev/null; sleep 100", 200, &out, NULL);
    assert_true(result.timed_out);
    text_clear(&out);
}

/* A grandchild holds both streams open, and a pipe that shows when it dies. */
static void test_spawn_timeout_kills_grandchildren(void **state)
{
    struct text out;
    struct pollfd end = { .events = POLLIN };
    int ends[2];

    (void)state;
    text_init(&out, 0);
    assert_int_equal(pipe(ends), 0);
    assert_true(run("sleep 100 & exit 0", 500, &out, NULL).timed_out);
    close(ends[1]);
    end.fd = ends[0];
    assert_int_equal(poll(&end, 1, 20000), 1);
    assert_true(end.revents & POLLHUP);
    close(ends[0]);
    text_clear(&out);
}

/* The program holds a pipe that shows when it dies. */
static void test_spawn_program_ends_with_its_parent(void **state)
{
    struct pollfd end = { .events = POLLIN };
    int ends[2], status;
    char byte;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char script[64], *argv[] = { "sh", "-c", script, NULL };
        struct spawn_result result;

        snprintf(script, sizeof(script), "printf x >&%d; exec sleep 100", ends[1]);
        spawn_capture(argv, 60000, NULL, NULL, &result, NULL);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    end.fd = ends[0];
    assert_int_equal(poll(&end, 1, 20000), 1);
    assert_true(end.revents & POLLHUP);
    close(ends[0]);
}

static void test_spawn_reports_the_signal(void **state)
{
    (void)state;
    assert_int_equal(run("kill -TERM $$", 60000, NULL, NULL).status, 128 + SIGTERM);
}

static void test_spawn_resets_signals(void **state)
{
    sigset_t mask, old;

    (void)state;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_BLOCK, &mask, &old);
    signal(SIGTERM, SIG_IGN);
    assert_int_equal(run("kill -TERM $$; sleep 1; exit 0", 60000, NULL, NULL).status,
                     128 + SIGTERM);
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

/* Descriptors of the pipes may be standard ones then. */
static void test_spawn_works_without_standard_streams(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct text out, errors;
        bool ok;

        for (int fd = 0; fd < 3; fd++)
            close(fd);
        text_init(&out, 0);
        text_init(&errors, 0);
        ok = run("echo out; echo errors >&2; exit 3", 60000, &out, &errors).status == 3 &&
             strcmp(out.data, "out\n") == 0 && strcmp(errors.data, "errors\n") == 0;
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_spawn_missing_program_is_an_error(void **state)
{
    char *argv[] = { "/nonexistent/program", NULL };
    struct spawn_result result;
    struct error err = { 0 };

    (void)state;
    assert_false(spawn_capture(argv, 1000, NULL, NULL, &result, &err));
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_string_equal(err.text,
                        "cannot start /nonexistent/program: No such file or directory");
}

static void test_spawn_sibling_is_in_the_same_directory(void **state)
{
    char *self = spawn_sibling("test_spawn"), *other = spawn_sibling("nothing");

    (void)state;
    assert_true(file_exists(self));
    assert_false(file_exists(other));
    free(self);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spawn_collects_both_streams),
        cmocka_unit_test(test_spawn_gives_no_input_and_may_discard_output),
        cmocka_unit_test(test_spawn_drops_output_above_the_ceiling),
        cmocka_unit_test(test_spawn_times_out),
        cmocka_unit_test(test_spawn_timeout_kills_grandchildren),
        cmocka_unit_test(test_spawn_program_ends_with_its_parent),
        cmocka_unit_test(test_spawn_reports_the_signal),
        cmocka_unit_test(test_spawn_resets_signals),
        cmocka_unit_test(test_spawn_works_without_standard_streams),
        cmocka_unit_test(test_spawn_missing_program_is_an_error),
        cmocka_unit_test(test_spawn_sibling_is_in_the_same_directory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
