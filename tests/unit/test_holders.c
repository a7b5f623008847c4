/* tests/unit/test_holders.c - which processes hold a lock, and signals to them. */
#include "config.h"

#include "base/holders.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

struct locked {
    char *dir, *name;
    int fd;              /* of this process, not locked */
    pid_t holder, other; /* the second one has the file open without a lock */
};

/* Start a process that waits for a signal with the file open. */
static pid_t start(const char *name, bool lock)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_return_code(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        int fd = open(name, O_RDWR);

        if (lock && flock(fd, LOCK_EX | LOCK_NB) != 0)
            _exit(1);
        if (write(ready[1], "", 1) != 1)
            _exit(2);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static int set_up(void **state)
{
    struct locked *locked = memory_alloc(sizeof(*locked));

    locked->dir = unit_dir_new();
    locked->name = path_join(locked->dir, "lock");
    locked->fd = open(locked->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    locked->holder = start(locked->name, true);
    locked->other = start(locked->name, false);
    *state = locked;
    return 0;
}

static int tear_down(void **state)
{
    struct locked *locked = *state;

    kill(locked->holder, SIGKILL);
    kill(locked->other, SIGKILL);
    while (wait(NULL) > 0)
        ;
    close(locked->fd);
    unit_dir_free(locked->dir);
    free(locked->name);
    free(locked);
    return 0;
}

static void test_holders_are_those_with_the_lock(void **state)
{
    const struct locked *locked = *state;
    struct holders holders;
    int unlocked = open(locked->name, O_RDONLY);

    holders_read(locked->fd, &holders);
    assert_int_equal(holders.count, 1);
    assert_false(holders.stopped);
    /* also without a name */
    assert_return_code(unlink(locked->name), 0);
    holders_read(unlocked, &holders);
    assert_int_equal(holders.count, 1);
    close(unlocked);
}

static void test_holders_show_a_stopped_process(void **state)
{
    const struct locked *locked = *state;
    struct holders holders;
    int status;

    kill(locked->holder, SIGSTOP);
    assert_int_equal(waitpid(locked->holder, &status, WUNTRACED), locked->holder);
    holders_read(locked->fd, &holders);
    assert_int_equal(holders.count, 1);
    assert_true(holders.stopped);
    assert_int_equal(holders_signal(locked->fd, SIGCONT), 1);
    assert_int_equal(waitpid(locked->holder, &status, WCONTINUED), locked->holder);
    holders_read(locked->fd, &holders);
    assert_false(holders.stopped);
}

static void test_holders_signal_reaches_only_them(void **state)
{
    const struct locked *locked = *state;
    struct holders holders;
    int status;

    assert_int_equal(holders_signal(locked->fd, SIGTERM), 1);
    assert_int_equal(waitpid(locked->holder, &status, 0), locked->holder);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
    assert_int_equal(waitpid(locked->other, &status, WNOHANG), 0);
    holders_read(locked->fd, &holders);
    assert_int_equal(holders.count, 0);
    assert_int_equal(holders_signal(locked->fd, SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_holders_are_those_with_the_lock, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_holders_show_a_stopped_process, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_holders_signal_reaches_only_them, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests_name("holders", tests, NULL, NULL);
}
