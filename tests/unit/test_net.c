/* tests/unit/test_net.c - connections over TCP, of this machine. */
#include "config.h"

#include "base/net.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/link.h"
#include "tests/unit/unit.h"

static int listen_on(int *port)
{
    struct error err = { 0 };
    int listener = net_listen(port, &err);

    if (listener < 0)
        fail_msg("%s", err.text);
    return listener;
}

static bool has_option(int fd, int level, int name)
{
    int value = 0;
    socklen_t len = sizeof(value);

    return getsockopt(fd, level, name, &value, &len) == 0 && value != 0;
}

static bool closes_on_exec(int fd)
{
    return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

static void open_pair_at(const char *address, int ends[2])
{
    struct error err = { 0 };
    int port = 0, listener = listen_on(&port);

    ends[0] = net_connect(address, port, 5, &err);
    if (ends[0] < 0)
        fail_msg("%s", err.text);
    ends[1] = net_accept(listener, 5, &err);
    assert_true(ends[1] >= 0);
    close(listener);
}

static void open_pair(int ends[2])
{
    open_pair_at("127.0.0.1", ends);
}

static void test_net_listens_on_any_free_port(void **state)
{
    int first = 0, second = 0;
    int a = listen_on(&first), b = listen_on(&second);

    (void)state;
    assert_true(first > 0 && first < 65536);
    assert_true(second > 0 && second < 65536);
    assert_int_not_equal(first, second);
    assert_true(closes_on_exec(a));
    close(a);
    close(b);
}

static void test_net_listens_on_a_given_port(void **state)
{
    struct error err = { 0 };
    int port = 0, wanted, ends[2];
    int listener = listen_on(&port), again;

    (void)state;
    wanted = port;
    assert_int_equal(net_listen(&wanted, &err), -1);
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_non_null(strstr(err.text, "cannot listen on port"));
    error_clear(&err);

    /* also while a connection of its previous user lingers */
    ends[0] = net_connect("127.0.0.1", port, 5, &err);
    ends[1] = net_accept(listener, 5, &err);
    assert_true(ends[0] >= 0 && ends[1] >= 0);
    close(ends[1]);
    close(ends[0]);
    close(listener);
    again = net_listen(&wanted, &err);
    assert_true(again >= 0);
    assert_int_equal(wanted, port);
    close(again);
}

static void test_net_refuses_ports_that_do_not_exist(void **state)
{
    static const int ports[] = { 65536, 70000, 1 << 20, -1 };

    (void)state;
    for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++) {
        struct error err = { 0 };
        int port = ports[i];
        int fd = net_listen(&port, &err);

        if (fd >= 0) {
            close(fd);
            fail_msg("listens on port %d for %d", port, ports[i]);
        }
        assert_true(err.code != ERROR_NONE);
        error_clear(&err);
        assert_int_equal(net_connect("127.0.0.1", ports[i], 1, &err), -1);
        assert_true(err.code != ERROR_NONE);
    }
}

static void test_net_connects_by_name_and_address(void **state)
{
    static const char *const names[] = { "127.0.0.1", "localhost" };
    int port = 0, listener = listen_on(&port);

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct error err = { 0 };
        int ends[2];
        char got = 0;

        ends[0] = net_connect(names[i], port, 5, &err);
        if (ends[0] < 0)
            fail_msg("%s", err.text);
        ends[1] = net_accept(listener, 5, &err);
        assert_true(ends[1] >= 0);
        for (int k = 0; k < 2; k++) {
            assert_true(closes_on_exec(ends[k]));
            assert_true(has_option(ends[k], IPPROTO_TCP, TCP_NODELAY));
            assert_true(has_option(ends[k], SOL_SOCKET, SO_KEEPALIVE));
            assert_true(link_is_alive(ends[k]));
            assert_true(link_send(ends[k], "x", 1, 1, &err));
            assert_true(link_receive(ends[!k], &got, 1, 1, &err));
            assert_int_equal(got, 'x');
        }
        close(ends[0]);
        close(ends[1]);
    }
    close(listener);
}

static void test_net_reports_a_closed_port(void **state)
{
    struct error err = { 0 };
    int port = 0, listener = listen_on(&port);
    double started = clock_seconds();

    (void)state;
    close(listener);
    assert_int_equal(net_connect("127.0.0.1", port, 10, &err), -1);
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_non_null(strstr(err.text, "cannot connect to 127.0.0.1, port"));
    assert_non_null(strstr(err.text, "refused"));
    assert_true(clock_seconds() - started < 5);
    error_clear(&err);
    assert_int_equal(net_connect("no-such-host.invalid", port, 1, &err), -1);
    assert_non_null(strstr(err.text, "no-such-host.invalid"));
}

static void test_net_accept_ends_after_its_time(void **state)
{
    struct error err = { 0 };
    int port = 0, listener = listen_on(&port);
    double started = clock_seconds(), took;

    (void)state;
    assert_int_equal(net_accept(listener, 0.3, &err), -1);
    took = clock_seconds() - started;
    assert_int_equal(err.code, ERROR_NONE);
    assert_true(took >= 0.29 && took < 3);
    assert_int_equal(net_accept(listener, 0, &err), -1);
    assert_int_equal(err.code, ERROR_NONE);
    close(listener);
}

/* A caller that went before it was accepted leaves the listener usable. */
static void test_net_accept_survives_a_caller_that_goes(void **state)
{
    const struct linger reset = { .l_onoff = 1, .l_linger = 0 };
    struct error err = { 0 };
    int port = 0, listener = listen_on(&port), gone, fd, live;

    (void)state;
    gone = net_connect("127.0.0.1", port, 5, &err);
    assert_true(gone >= 0);
    setsockopt(gone, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(gone);
    fd = net_accept(listener, 0.2, &err);
    assert_int_equal(err.code, ERROR_NONE);
    if (fd >= 0) {
        char byte;

        assert_false(link_receive(fd, &byte, 1, 1, NULL));
        close(fd);
    }
    live = net_connect("127.0.0.1", port, 5, &err);
    fd = net_accept(listener, 5, &err);
    assert_true(live >= 0 && fd >= 0);
    assert_true(link_is_alive(fd));
    close(live);
    close(fd);
    close(listener);
}

static void test_net_connection_shows_the_end_of_its_peer(void **state)
{
    const struct linger reset = { .l_onoff = 1, .l_linger = 0 };

    (void)state;
    for (int hard = 0; hard < 2; hard++) {
        struct error err = { 0 };
        int ends[2];
        char byte;

        open_pair(ends);
        assert_true(link_is_alive(ends[0]));
        assert_false(link_has_data(ends[0]));
        if (hard)
            setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        else
            assert_true(link_send(ends[1], "x", 1, 1, &err));
        close(ends[1]);
        assert_false(link_is_alive(ends[0]));
        assert_true(link_has_data(ends[0]));
        if (!hard)
            assert_true(link_receive(ends[0], &byte, 1, 1, &err));
        assert_false(link_receive(ends[0], &byte, 1, 1, &err));
        assert_non_null(strstr(err.text, "has ended"));
        close(ends[0]);
    }
}

/* ---- A network that is lost ---- */

#define OWN_ADDRESS "10.77.1.1"

/* Give the loopback interface an address of its own, or take it away: nothing can be sent
 * from there then. */
static void set_address(bool present)
{
    struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP };
    struct ifreq request = { .ifr_name = "lo:1" };
    struct sockaddr_in address = { .sin_family = AF_INET };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    assert_int_equal(inet_pton(AF_INET, OWN_ADDRESS, &address.sin_addr), 1);
    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &up), 0);
    if (present)
        memcpy(&request.ifr_addr, &address, sizeof(address));
    assert_int_equal(ioctl(fd, present ? SIOCSIFADDR : SIOCSIFFLAGS, &request), 0);
    close(fd);
}

/* False: not permitted here. */
static bool enter_own_network(void)
{
    return unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
}

/* Fill the connection; the peer reads nothing. */
static void fill(int end)
{
    static char bytes[1 << 16];
    int tries = 0;

    while (tries++ < 3) {
        while (send(end, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
            tries = 0;
        poll(NULL, 0, 20);
    }
}

/* slow: the peer has no room for the rest; otherwise all data were received before. Exit
 * with 0 if the end is noticed, and with 1 if it is seen where there is none. */
static void lose_network(bool slow)
{
    const double limit = NET_LOST_SECONDS + 10;
    double started;
    int ends[2];

    set_address(true);
    open_pair_at(OWN_ADDRESS, ends);
    if (slow)
        fill(ends[0]);
    for (started = clock_seconds(); slow && clock_seconds() - started < limit;) {
        if (!link_is_alive(ends[0]))
            _exit(1);
        poll(NULL, 0, 100);
    }
    if (slow)
        _exit(0);
    set_address(false);
    fill(ends[0]);
    for (started = clock_seconds(); link_is_alive(ends[0]); poll(NULL, 0, 100))
        if (clock_seconds() - started > limit)
            _exit(1);
    _exit(clock_seconds() - started > NET_LOST_SECONDS - 2 ? 0 : 1);
}

static void test_net_notices_a_lost_network_and_no_slow_peer(void **state)
{
    pid_t children[2];

    (void)state;
    fflush(NULL);
    for (int slow = 0; slow < 2; slow++) {
        children[slow] = fork();
        assert_true(children[slow] >= 0);
        if (children[slow] == 0) {
            if (!enter_own_network())
                _exit(77);
            lose_network(slow == 1);
        }
    }
    for (int slow = 0; slow < 2; slow++) {
        int status;

        assert_int_equal(waitpid(children[slow], &status, 0), children[slow]);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            skip();
        if (status != 0)
            fail_msg("%s", slow ? "the end of a slow peer was seen"
                                : "a lost network was not noticed");
    }
}

static void test_net_addresses_include_the_loopback(void **state)
{
    char list[16][NET_ADDRESS], few[1][NET_ADDRESS];
    size_t count = net_addresses(list, 16);
    bool loopback = false;

    (void)state;
    assert_true(count >= 1 && count <= 16);
    for (size_t i = 0; i < count; i++) {
        bool is = strncmp(list[i], "127.", 4) == 0 || strcmp(list[i], "::1") == 0;

        assert_true(list[i][0] != '\0' && !strchr(list[i], '%'));
        if (loopback && !is)
            fail_msg("%s comes after the loopback", list[i]);
        loopback = loopback || is;
    }
    assert_true(loopback);
    assert_int_equal(net_addresses(few, 1), 1);
    assert_int_equal(net_addresses(few, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_net_listens_on_any_free_port),
        cmocka_unit_test(test_net_listens_on_a_given_port),
        cmocka_unit_test(test_net_refuses_ports_that_do_not_exist),
        cmocka_unit_test(test_net_connects_by_name_and_address),
        cmocka_unit_test(test_net_reports_a_closed_port),
        cmocka_unit_test(test_net_accept_ends_after_its_time),
        cmocka_unit_test(test_net_accept_survives_a_caller_that_goes),
        cmocka_unit_test(test_net_connection_shows_the_end_of_its_peer),
        cmocka_unit_test(test_net_notices_a_lost_network_and_no_slow_peer),
        cmocka_unit_test(test_net_addresses_include_the_loopback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
