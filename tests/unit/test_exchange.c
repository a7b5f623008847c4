/* tests/unit/test_exchange.c - transfers in both directions at the same time, larger than
 * the buffers of a socket, and the end of a peer. */
#include "config.h"

#include "base/exchange.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/link.h"
#include "base/net.h"
#include "base/size.h"
#include "tests/unit/unit.h"

enum { MANY = 5 << 20, TIMEOUT = 60 };

static void open_pair(int ends[2])
{
    struct error err = { 0 };

    if (!link_pair(ends, &err))
        fail_msg("%s", err.text);
}

/* The same over TCP. */
static void open_net_pair(int ends[2])
{
    struct error err = { 0 };
    int port = 0, listener = net_listen(&port, &err);

    ends[0] = net_connect("localhost", port, 5, &err);
    ends[1] = net_accept(listener, 5, &err);
    close(listener);
    if (ends[0] < 0 || ends[1] < 0)
        fail_msg("%s", err.text);
}

static unsigned char *bytes_of(unsigned seed, size_t count)
{
    unsigned char *bytes = malloc(count + 1);

    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * (2 * seed + 7) >> 3);
    return bytes;
}

static bool swap(int end, unsigned own, unsigned other, struct error *err)
{
    unsigned char *from = bytes_of(own, MANY), *want = bytes_of(other, MANY);
    unsigned char *to = calloc(MANY, 1);
    struct transfer list[] = { { .end = end, .from = from, .bytes = MANY },
                               { .end = end, .to = to, .bytes = MANY } };
    bool ok = exchange(list, TS_COUNT(list), err) && memcmp(to, want, MANY) == 0;

    free(from);
    free(want);
    free(to);
    return ok;
}

static pid_t fork_child(void)
{
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(TIMEOUT);
    }
    return child;
}

static void finish(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void swap_over(void (*open)(int ends[2]))
{
    struct error err = { 0 };
    int ends[2];
    pid_t child;

    open(ends);
    child = fork_child();
    if (child == 0) {
        close(ends[0]);
        _exit(!swap(ends[1], 1, 2, NULL));
    }
    close(ends[1]);
    if (!swap(ends[0], 2, 1, &err))
        fail_msg("%s", err.text);
    finish(child);
    close(ends[0]);
}

static void test_exchange_sends_both_ways_at_once(void **state)
{
    (void)state;
    swap_over(open_pair);
    swap_over(open_net_pair);
}

/* Each of three ranks sends to the two others, in an order of its own. */
static void test_exchange_needs_no_order(void **state)
{
    enum { RANKS = 3 };
    int peers[RANKS][RANKS];
    pid_t children[RANKS];

    (void)state;
    for (int a = 0; a < RANKS; a++)
        for (int b = a + 1; b < RANKS; b++) {
            int ends[2];

            open_pair(ends);
            peers[a][b] = ends[0];
            peers[b][a] = ends[1];
        }
    for (int r = 0; r < RANKS; r++) {
        children[r] = fork_child();
        if (children[r] == 0) {
            struct transfer list[2 * RANKS];
            unsigned char *from = bytes_of((unsigned)r, MANY);
            unsigned char *to[RANKS];
            size_t count = 0;
            bool bad;

            for (int i = 1; i < RANKS; i++) {
                int other = (r + i) % RANKS;

                to[other] = calloc(MANY, 1);
                list[count++] = (struct transfer) { .end = peers[r][other],
                                                    .from = from,
                                                    .bytes = MANY };
                list[count++] = (struct transfer) { .end = peers[r][other],
                                                    .to = to[other],
                                                    .bytes = MANY };
            }
            bad = !exchange(list, count, NULL);
            for (int i = 1; i < RANKS; i++) {
                int other = (r + i) % RANKS;
                unsigned char *want = bytes_of((unsigned)other, MANY);

                bad = bad || memcmp(to[other], want, MANY) != 0;
            }
            _exit(bad);
        }
    }
    for (int r = 0; r < RANKS; r++)
        finish(children[r]);
    for (int a = 0; a < RANKS; a++)
        for (int b = 0; b < RANKS; b++)
            if (a != b)
                close(peers[a][b]);
}

static void test_exchange_of_nothing_waits_for_nobody(void **state)
{
    struct error err = { 0 };
    struct transfer list[2];
    char byte = 0;
    int ends[2];

    (void)state;
    open_pair(ends);
    list[0] = (struct transfer) { .end = ends[0], .to = &byte, .bytes = 0 };
    list[1] = (struct transfer) { .end = ends[0], .from = &byte, .bytes = 1 };
    assert_true(exchange(NULL, 0, &err));
    assert_true(exchange(list, TS_COUNT(list), &err));
    assert_true(link_has_data(ends[1]));
    assert_int_equal(list[1].done, 1);
    close(ends[0]);
    close(ends[1]);
}

/* A peer that sent all it had and ended does not lose the data. */
static void test_exchange_receives_what_an_ended_peer_sent(void **state)
{
    struct error err = { 0 };
    struct transfer list[1];
    char got[6] = "";
    int ends[2];

    (void)state;
    open_net_pair(ends);
    assert_true(link_send(ends[1], "hello", 5, 0, &err));
    close(ends[1]);
    list[0] = (struct transfer) { .end = ends[0], .to = got, .bytes = 5 };
    assert_true(exchange(list, 1, &err));
    assert_string_equal(got, "hello");
    list[0] = (struct transfer) { .end = ends[0], .to = got, .bytes = 1 };
    assert_false(exchange(list, 1, &err));
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_non_null(strstr(err.text, "has ended"));
    close(ends[0]);
}

/* One of two peers ends, with the other silent: at once, however it ends. */
static void end_one_of_two(void (*open)(int ends[2]), bool sends)
{
    char *data = calloc(MANY, 1);
    struct error err = { 0 };
    struct transfer list[2];
    int silent[2], ended[2];
    double started;
    pid_t child;

    open(silent);
    open(ended);
    child = fork_child();
    if (child == 0) {
        usleep(300000);
        kill(getpid(), SIGKILL);
    }
    close(ended[1]);
    list[0] = (struct transfer) { .end = silent[0], .to = data, .bytes = MANY };
    list[1] = sends ? (struct transfer) { .end = ended[0], .from = data, .bytes = MANY }
                    : (struct transfer) { .end = ended[0], .to = data, .bytes = MANY };
    started = clock_seconds();
    assert_false(exchange(list, 2, &err));
    assert_non_null(strstr(err.text, "has ended"));
    assert_true(clock_seconds() - started < 2);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(silent[0]);
    close(silent[1]);
    close(ended[0]);
    free(data);
}

static void test_exchange_notices_the_end_of_a_peer(void **state)
{
    (void)state;
    end_one_of_two(open_pair, false);
    end_one_of_two(open_pair, true);
    end_one_of_two(open_net_pair, false);
    end_one_of_two(open_net_pair, true);
}

/* A peer that computes for long is not one that ended. */
static void test_exchange_waits_for_a_slow_peer(void **state)
{
    struct error err = { 0 };
    int ends[2];
    pid_t child;

    (void)state;
    open_net_pair(ends);
    child = fork_child();
    if (child == 0) {
        close(ends[0]);
        sleep(3);
        _exit(!swap(ends[1], 1, 2, NULL));
    }
    close(ends[1]);
    if (!swap(ends[0], 2, 1, &err))
        fail_msg("%s", err.text);
    finish(child);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchange_sends_both_ways_at_once),
        cmocka_unit_test(test_exchange_needs_no_order),
        cmocka_unit_test(test_exchange_of_nothing_waits_for_nobody),
        cmocka_unit_test(test_exchange_receives_what_an_ended_peer_sent),
        cmocka_unit_test(test_exchange_notices_the_end_of_a_peer),
        cmocka_unit_test(test_exchange_waits_for_a_slow_peer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
