/* tests/unit/test_stop.c - which signals are one request, and which one ends a process. */
#include "config.h"

#include "base/stop.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static void test_stop_requests_within_two_seconds_are_one(void **state)
{
    struct stop_request request = { 0 };

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_false(stop_request_add(&request, i % 2 ? SIGINT : SIGHUP));
    assert_int_equal(request.number, SIGTERM);
    request.first -= STOP_TOGETHER_SECONDS - 1;
    assert_false(stop_request_add(&request, SIGTERM));
    request.first -= 1.001;
    assert_true(stop_request_add(&request, SIGTERM));
    assert_true(stop_request_add(&request, SIGINT));
}

/* Start a process that catches signals, waits for one, and then exits with its number
 * when `end` is closed; return its process id. */
static pid_t start(const int end[2], const int ready[2])
{
    pid_t pid = fork();
    volatile sig_atomic_t *stop;
    char byte;

    if (pid != 0) {
        close(end[0]);
        close(ready[1]);
        return pid;
    }
    close(end[1]);
    stop = stop_catch();
    if (write(ready[1], "", 1) != 1)
        _exit(99);
    while (read(end[0], &byte, 1) > 0)
        ;
    for (int i = 0; !*stop && i < 5000; i++)
        poll(NULL, 0, 1);
    _exit(*stop);
}

/* Send signals, 0 for stop_ask, with pauses between them; return how the process ended. */
static int status_after(const int *numbers, const int *pauses, size_t count)
{
    int end[2], ready[2], status;
    char byte;
    pid_t pid;

    assert_return_code(pipe(end), 0);
    assert_return_code(pipe(ready), 0);
    pid = start(end, ready);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    for (size_t i = 0; i < count; i++) {
        poll(NULL, 0, pauses[i]);
        if (numbers[i] == 0)
            assert_true(stop_ask(pid));
        else
            assert_return_code(kill(pid, numbers[i]), 0);
    }
    close(end[1]);
    close(ready[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_stop_catches_signals_that_arrive_together(void **state)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGINT, SIGTERM };
    static const int pauses[] = { 0, 20, 20, 20, 20 };
    int status = status_after(numbers, pauses, 5);

    (void)state;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), SIGINT);
}

static void test_stop_ends_a_process_at_a_later_signal(void **state)
{
    static const int numbers[] = { SIGINT, SIGTERM };
    static const int pauses[] = { 0, (int)(STOP_TOGETHER_SECONDS * 1000) + 50 };
    int status = status_after(numbers, pauses, 2);

    (void)state;
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
}

/* A watch may ask long after systemd did. */
static void test_stop_ask_never_ends_a_process(void **state)
{
    static const int numbers[] = { SIGTERM, 0, 0 };
    static const int pauses[] = { 0, (int)(STOP_TOGETHER_SECONDS * 1000) + 50, 20 };
    int status = status_after(numbers, pauses, 3);

    (void)state;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), SIGTERM);
    assert_int_equal(WEXITSTATUS(status_after(numbers + 1, pauses, 1)), SIGTERM);
}

static void test_stop_respects_nohup(void **state)
{
    sigset_t set;

    (void)state;
    stop_signals(&set);
    assert_int_equal(sigismember(&set, SIGHUP), 1);
    signal(SIGHUP, SIG_IGN);
    stop_signals(&set);
    assert_int_equal(sigismember(&set, SIGHUP), 0);
    assert_int_equal(sigismember(&set, SIGTERM), 1);
    signal(SIGHUP, SIG_DFL);
}

#if defined(__x86_64__)
/* Signal this process while the stack pointer is at `stack`. */
static void raise_at(char *stack)
{
    long number = SYS_kill;

    __asm__ volatile("mov %%rsp, %%r12\n\t"
                     "mov %[stack], %%rsp\n\t"
                     "syscall\n\t"
                     "mov %%r12, %%rsp"
                     : "+a"(number)
                     : "D"((long)getpid()), "S"((long)SIGTERM), [stack] "r"(stack)
                     : "rcx", "r11", "r12", "memory", "cc");
}

/* As in oneDNN's matmuls. */
static void test_stop_leaves_the_memory_at_the_stack_pointer(void **state)
{
    enum { BYTES = 256 << 10 };
    char *memory = malloc(BYTES);
    int how;
    pid_t pid;

    (void)state;
    assert_non_null(memory);
    memset(memory, 7, BYTES);
    pid = fork();
    if (pid == 0) {
        volatile sig_atomic_t *stop = stop_catch();
        bool same = true;

        raise_at(memory + BYTES / 2);
        for (size_t i = 0; i < BYTES; i++)
            same = same && memory[i] == 7;
        _exit(*stop != SIGTERM ? 2 : same ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    free(memory);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_requests_within_two_seconds_are_one),
        cmocka_unit_test(test_stop_catches_signals_that_arrive_together),
        cmocka_unit_test(test_stop_ends_a_process_at_a_later_signal),
        cmocka_unit_test(test_stop_ask_never_ends_a_process),
        cmocka_unit_test(test_stop_respects_nohup),
#if defined(__x86_64__)
        cmocka_unit_test(test_stop_leaves_the_memory_at_the_stack_pointer),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
