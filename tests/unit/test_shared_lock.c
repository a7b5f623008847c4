/* tests/unit/test_shared_lock.c - a lock among machines, which are host names here: at most one
 * of them holds it, a dead one loses it, and one that stood still changes nothing more. */
#include "config.h"

#include "base/shared_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/landlock.h"
#include "base/lease_file.h"
#include "base/shared_files.h"
#include "base/size.h"
#include "base/ticks.h"
#include "base/walk.h"
#include "tests/unit/unit.h"

enum { LOST = 42, REFUSED = 43 };

static char *dir, *lock;

static int set_up(void **state)
{
    (void)state;
    dir = unit_dir_new();
    lock = path_join(dir, "lock");
    setenv("TRAINSPOOL_LEASE", "0.6", 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(lock);
    unit_dir_free(dir);
    return 0;
}

static void pause_for(double seconds)
{
    usleep((useconds_t)(seconds * 1e6));
}

static int take(void)
{
    struct error err = { 0 };
    bool busy;
    int fd = shared_lock(lock, &busy, &err);

    if (fd < 0)
        fail_msg("%s", busy ? "busy" : err.text);
    return fd;
}

static void assert_busy(void)
{
    struct error err = { 0 };
    bool busy;

    assert_int_equal(shared_lock(lock, &busy, &err), -1);
    assert_true(busy);
}

static bool exists(const char *name)
{
    char *path = path_join(dir, name);
    bool is = file_exists(path);

    free(path);
    return is;
}

static void put(const char *name, const char *text)
{
    char *path = path_join(dir, name);
    struct error err = { 0 };

    if (!file_replace(path, text, strlen(text), 0644, &err))
        fail_msg("%s", err.text);
    free(path);
}

/* Write a lease, of this machine if host is NULL. */
static void put_lease(const char *name, const char *host, const char *boot, bool is_free,
                      int64_t count)
{
    struct error err = { 0 };
    struct lease lease;
    struct text text;

    assert_true(lease_new(&lease, &err));
    if (host)
        snprintf(lease.host, sizeof(lease.host), "%s", host);
    if (boot)
        snprintf(lease.boot, sizeof(lease.boot), "%s", boot);
    lease.free = is_free;
    lease.count = count;
    lease.token = 7;
    text_init(&text, 0);
    lease_write(&lease, &text);
    put(name, text.data);
    text_clear(&text);
}

static void test_local_lock_has_no_lease(void **state)
{
    int fd;

    (void)state;
    setenv("TRAINSPOOL_LEASE", "0", 1);
    assert_false(shared_files_at(dir));
    fd = take();
    assert_true(shared_is_locked(lock));
    shared_unlock(fd, lock);
    assert_false(shared_is_locked(lock));
    assert_false(exists("lock.1"));
}

static void test_next_holder_has_the_next_lease(void **state)
{
    int fd;

    (void)state;
    assert_true(shared_files_at(dir));
    fd = take();
    assert_true(exists("lock.1") && shared_is_locked(lock));
    assert_busy();
    shared_unlock(fd, lock);
    assert_false(shared_is_locked(lock));
    fd = take();
    assert_true(exists("lock.2") && !exists("lock.1"));
    shared_unlock(fd, lock);
}

static void test_dead_machine_loses_the_lock(void **state)
{
    char host[SHARED_HOST];
    double began = clock_seconds();

    (void)state;
    put_lease("lock.3", "other", NULL, false, 1);
    put("lock", "");
    assert_busy();
    assert_true(shared_is_locked(lock));
    shared_lock_holder(lock, host);
    assert_string_equal(host, "other");
    pause_for(0.3);
    assert_busy();
    while (shared_is_locked(lock) && clock_seconds() - began < 5)
        pause_for(0.02);
    assert_true(clock_seconds() - began >= 0.6);
    assert_true(clock_seconds() - began < 3);
    assert_false(shared_is_locked(lock));         /* who looks at it may take it next */
    put_lease("lock.3", "other", NULL, false, 2); /* it lives, after all */
    assert_busy();
    pause_for(0.7);
    shared_unlock(take(), lock);
    assert_true(exists("lock.4") && !exists("lock.3"));
}

static void test_live_machine_keeps_the_lock(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        put_lease("lock.1", "other", NULL, false, i);
        assert_busy();
        pause_for(0.1);
    }
}

static void test_crash_on_this_machine_costs_no_wait(void **state)
{
    (void)state;
    put_lease("lock.8", NULL, NULL, false, 1);
    put("lock", "");
    assert_false(shared_is_locked(lock));
    shared_unlock(take(), lock);
    assert_true(exists("lock.9"));
    put_lease("lock.10", NULL, "00000000-0000-0000-0000-000000000000", false, 1);
    assert_busy(); /* another start of a machine of that name, which may be a copy of it */
}

static void test_free_lease_costs_no_wait(void **state)
{
    (void)state;
    put_lease("lock.1", "other", NULL, true, 1);
    shared_unlock(take(), lock);
}

static void test_damaged_lease_counts_as_held(void **state)
{
    static const char *const texts[] = {
        "",
        "\n",
        "trainspool-lease 1 held",
        "trainspool-lease 1 held a b 0000000000000007 0000000000000001",
        "trainspool-lease 1 held a b 0000000000000007 00000000000001\n",
        "trainspool-lease 1 gone a b 0000000000000007 0000000000000001\n",
        "trainspool-lease 1 free a b 0000000000000007 ffffffffffffffff\n",
        "trainspool-lease 1 free a b 0000000000000007 0000000000000001\n\n",
        "trainspool-lease 1 free a  0000000000000007 0000000000000001\n",
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        put("lock.1", texts[i]);
        assert_busy();
    }
    pause_for(0.7);
    shared_unlock(take(), lock);
}

static void test_other_files_are_no_leases(void **state)
{
    static const char *const names[] = { "lock.0",  "lock.01",
                                         "lock.1x", "lock.-1",
                                         "lock.",   "lock.99999999999999999999",
                                         "block.5" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(names); i++)
        put(names[i], "x");
    shared_unlock(take(), lock);
    assert_true(exists("lock.1"));
    for (size_t i = 0; i < TS_COUNT(names); i++)
        assert_true(exists(names[i]));
}

static void test_lease_that_vanishes_is_looked_for_again(void **state)
{
    char host[SHARED_HOST], *path = path_join(dir, "lock.5");

    (void)state;
    put("lock", "");
    assert_int_equal(symlink("nowhere", path), 0); /* listed, but not there */
    assert_true(shared_is_locked(lock));
    assert_false(shared_lock_is_doubtful(lock));
    shared_lock_holder(lock, host);
    assert_string_equal(host, "");
    free(path);
}

static void test_unlock_leaves_the_lease_of_another_holder(void **state)
{
    int fd = take();

    (void)state;
    /* in a folder that was made again */
    put_lease("lock.1", NULL, "00000000-0000-0000-0000-000000000000", false, 1);
    shared_unlock(fd, lock);
    assert_busy();
}

static bool can_change(const char *name)
{
    char *path = path_join(dir, name);
    bool can = walk_mkdir(path, 0700) == 0;

    assert_true(can || errno == ESTALE);
    free(path);
    return can;
}

static void test_holder_that_does_not_renew_changes_nothing_later(void **state)
{
    int fd = take();
    pid_t pid;
    int status;

    (void)state;
    assert_true(can_change("early"));
    pause_for(0.5);
    assert_false(can_change("late"));
    pid = fork();
    if (pid == 0) /* the lock is not its own */
        _exit(!can_change("child"));
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    shared_unlock(fd, lock);
    assert_true(can_change("later"));
}

/* ---- Other processes ---- */

static void end_lost(const char *why)
{
    (void)why;
    _exit(LOST);
}

static void make_folder(const char *path)
{
    walk_mkdir(path, 0700);
}

static void remove_folder(const char *path)
{
    file_remove_tree(path, NULL);
}

/* In a child: hold the lock, kept, and change a folder every 5 ms, for 10 seconds. */
static void hold_and_change(int fd, void (*change)(const char *path))
{
    struct error err = { 0 };

    if (!(fd >= 0 ? shared_lock_adopt(fd, lock, &err) : (fd = take()) >= 0) ||
        !shared_lock_keep(lock, end_lost, &err))
        _exit(REFUSED);
    put("ready", "");
    for (int i = 0; i < 2000; i++) {
        char name[32], *path;

        snprintf(name, sizeof(name), "change%d", i);
        path = path_join(dir, name);
        change(path);
        free(path);
        pause_for(0.005);
    }
    _exit(0);
}

static pid_t start_changer(int fd, void (*change)(const char *path))
{
    double began = clock_seconds();
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        hold_and_change(fd, change);
    while (!exists("ready") && clock_seconds() - began < 10)
        pause_for(0.01);
    return pid;
}

static pid_t start_holder(int fd)
{
    return start_changer(fd, make_folder);
}

static int count_changes(void)
{
    char name[32];
    int count = 0;

    do
        snprintf(name, sizeof(name), "change%d", count++);
    while (exists(name));
    return count - 1;
}

static int status_of(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_child_holds_what_its_parent_passed(void **state)
{
    int fd = take();
    pid_t pid = start_holder(fd);

    (void)state;
    shared_lock_pass(fd, lock);
    pause_for(1); /* it renews the lease */
    assert_busy();
    assert_true(shared_is_locked(lock));
    kill(pid, SIGKILL);
    status_of(pid);
    assert_false(shared_is_locked(lock));
    shared_unlock(take(), lock);
}

static void test_child_that_starts_too_late_does_not_hold(void **state)
{
    int fd = take();
    pid_t pid;

    (void)state;
    pause_for(0.5);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        hold_and_change(fd, make_folder);
    assert_int_equal(status_of(pid), REFUSED);
    shared_unlock(fd, lock);
}

static bool read_lease(const char *name, int number, struct lease *out)
{
    struct text path, content;
    bool ok;

    text_init(&path, 0);
    text_init(&content, LEASE_BYTES);
    text_addf(&path, "%s.%d", name, number);
    ok = file_read(path.data, LEASE_BYTES, &content, NULL, NULL) &&
         lease_read(content.data, content.len, out);
    text_clear(&content);
    text_clear(&path);
    return ok;
}

/* In a child: give leases back while a thread renews one after another. */
static void give_back_while_renewed(void)
{
    enum { LOCKS = 24, ROUNDS = 6 };
    struct error err = { 0 };
    struct lease lease, before;
    char *names[LOCKS], name[16];

    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof(name), "lock%d", i);
        names[i] = path_join(dir, name);
    }
    for (int number = 1; number <= ROUNDS; number++) {
        int fds[LOCKS];
        bool busy;

        for (int i = 0; i < LOCKS; i++) {
            fds[i] = shared_lock(names[i], &busy, &err);
            if (fds[i] < 0 || !shared_lock_keep(names[i], end_lost, &err))
                _exit(REFUSED);
        }
        read_lease(names[0], number, &before);
        while (!read_lease(names[0], number, &lease) || lease.count == before.count)
            pause_for(0.0001);
        for (int i = 0; i < LOCKS; i++)
            shared_unlock(fds[number % 2 ? LOCKS - 1 - i : i],
                          names[number % 2 ? LOCKS - 1 - i : i]);
        pause_for(0.02);
        for (int i = 0; i < LOCKS; i++)
            if (!read_lease(names[i], number, &lease) || !lease.free)
                _exit(1);
    }
    _exit(0);
}

static void test_lease_is_not_renewed_after_its_end(void **state)
{
    pid_t pid;

    (void)state;
    setenv("TRAINSPOOL_LEASE", "3", 1);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        give_back_while_renewed();
    assert_int_equal(status_of(pid), 0);
}

static void look_outside(const char *why)
{
    int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);

    (void)why;
    _exit(fd < 0 && errno == EACCES ? LOST : 1);
}

static void hold_in_sandbox(void)
{
    struct error err = { 0 };
    struct landlock list;

    if (take() < 0 || !shared_lock_keep(lock, look_outside, &err) ||
        !landlock_open(&list, false, &err) ||
        !landlock_allow(&list, dir, LANDLOCK_WRITE, &err) ||
        !landlock_enter(&list, &err) || !ticks_restart(&err))
        _exit(REFUSED);
    put("ready", "");
    pause_for(1.5); /* it can renew */
    put("renewed", "");
    pause_for(10);
    _exit(0);
}

static void test_threads_can_be_put_into_a_sandbox(void **state)
{
    double began = clock_seconds();
    pid_t pid;

    (void)state;
    if (landlock_version() == 0)
        skip();
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        hold_in_sandbox();
    while (!exists("renewed") && clock_seconds() - began < 10)
        pause_for(0.01);
    assert_true(exists("renewed"));
    put_lease("lock.2", "other", NULL, false, 1);
    assert_int_equal(status_of(pid), LOST);
}

static void test_holder_ends_when_another_machine_took_over(void **state)
{
    pid_t pid = start_holder(-1);

    (void)state;
    put_lease("lock.2", "other", NULL, false, 1);
    assert_int_equal(status_of(pid), LOST);
}

static void test_holder_that_stood_still_changes_nothing(void **state)
{
    pid_t pid = start_holder(-1);
    int changes;

    (void)state;
    pause_for(0.1);
    kill(pid, SIGSTOP);
    pause_for(0.05);
    changes = count_changes();
    assert_true(changes > 0);
    pause_for(0.6);
    kill(pid, SIGCONT);
    assert_int_equal(status_of(pid), LOST);
    assert_int_equal(count_changes(), changes);
}

static void test_holder_that_stood_still_removes_nothing(void **state)
{
    enum { FOLDERS = 400 };
    int left = 0, before = 0;
    char name[32];
    pid_t pid;

    (void)state;
    for (int i = 0; i < FOLDERS; i++) {
        char *path;

        snprintf(name, sizeof(name), "change%d", i);
        path = path_join(dir, name);
        assert_int_equal(mkdir(path, 0700), 0);
        free(path);
    }
    pid = start_changer(-1, remove_folder);
    pause_for(0.1);
    kill(pid, SIGSTOP);
    pause_for(0.05);
    for (int i = 0; i < FOLDERS; i++) {
        snprintf(name, sizeof(name), "change%d", i);
        before += exists(name);
    }
    assert_true(before > 0 && before < FOLDERS);
    pause_for(0.6);
    kill(pid, SIGCONT);
    assert_int_equal(status_of(pid), LOST);
    for (int i = 0; i < FOLDERS; i++) {
        snprintf(name, sizeof(name), "change%d", i);
        left += exists(name);
    }
    assert_int_equal(left, before);
}

static void test_holder_ends_when_it_cannot_renew(void **state)
{
    pid_t pid;
    char *lease = path_join(dir, "lock.1");

    (void)state;
    pid = start_holder(-1);
    assert_int_equal(unlink(lease), 0);
    assert_int_equal(mkdir(lease, 0700), 0);
    assert_int_equal(status_of(pid), LOST);
    free(lease);
}

/* A machine where flock means nothing: each round it has another lock file. */
static void compete(int number)
{
    char name[16], *inside = path_join(dir, "inside");
    int got = 0;

    snprintf(name, sizeof(name), "machine%d", number);
    if (unshare(CLONE_NEWUTS) != 0 || sethostname(name, strlen(name)) != 0)
        _exit(REFUSED);
    for (double began = clock_seconds(); clock_seconds() - began < 1.5;) {
        struct error err = { 0 };
        bool busy;
        int fd, in;

        unlink(lock);
        fd = shared_lock(lock, &busy, &err);
        if (fd < 0)
            continue;
        in = open(inside, O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (in < 0)
            _exit(1); /* another one is in */
        close(in);
        pause_for(0.001);
        unlink(inside);
        shared_unlock(fd, lock);
        got++;
    }
    _exit(got > 0 ? 0 : 2);
}

static void test_one_of_several_machines_without_flock_holds_it(void **state)
{
    enum { MACHINES = 4 };
    pid_t pids[MACHINES];
    int refused = 0;

    (void)state;
    setenv("TRAINSPOOL_LEASE", "20", 1);
    for (int i = 0; i < MACHINES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            compete(i);
    }
    for (int i = 0; i < MACHINES; i++) {
        int status = status_of(pids[i]);

        refused += status == REFUSED;
        if (status != REFUSED)
            assert_int_equal(status, 0);
    }
    if (refused)
        skip(); /* no other host names for an ordinary user */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_local_lock_has_no_lease, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_next_holder_has_the_next_lease, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_dead_machine_loses_the_lock, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_live_machine_keeps_the_lock, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_crash_on_this_machine_costs_no_wait, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_free_lease_costs_no_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_lease_counts_as_held, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_other_files_are_no_leases, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_lease_that_vanishes_is_looked_for_again,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unlock_leaves_the_lease_of_another_holder,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_holder_that_does_not_renew_changes_nothing_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_child_holds_what_its_parent_passed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_child_that_starts_too_late_does_not_hold,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lease_is_not_renewed_after_its_end, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_threads_can_be_put_into_a_sandbox, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_holder_ends_when_another_machine_took_over,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_holder_that_stood_still_changes_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_holder_that_stood_still_removes_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_holder_ends_when_it_cannot_renew, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_one_of_several_machines_without_flock_holds_it, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
