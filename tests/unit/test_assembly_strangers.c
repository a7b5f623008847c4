/* tests/unit/test_assembly_strangers.c - ranks that meet among files of earlier starts,
 * programs that are no ranks, and ranks that cannot take part. */
#include "config.h"

#include "runner/cluster/assembly.h"

#include "tests/unit/unit_assembly.h"

static void test_assembly_ignores_files_of_other_starts(void **state)
{
    char long_key[301];

    (void)state;
    memset(long_key, 'a', sizeof(long_key));
    long_key[sizeof(long_key) - 1] = '\0';
    for (int kind = 0; kind < 8; kind++) {
        clear();
        switch (kind) {
        case 0:
            write_ranks(file, "another", some_key, closed_port());
            break;
        case 1:
            write_ranks(file, "start", some_key, closed_port());
            break;
        case 2:
            write_ranks(file, "start", "short", closed_port());
            break;
        case 3:
            write_ranks(file, "start", long_key, closed_port());
            break;
        case 4:
            write_ranks(file, "start", some_key, -1);
            break;
        case 5:
            write_text(file, "{\"start\": \"start\", \"key\"");
            break;
        case 6:
            write_text(file, "[1, 2]");
            break;
        default:
            write_text(file, "{\"start\": 1, \"key\": 2, \"port\": {}, \"addresses\": "
                             "[{}, 1, null, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}");
        }
        seat(0, 3)->wait = 0.5;
        seat(1, 3);
        seat(2, 3);
        start_all();
        wait_for_all();
        for (size_t i = 0; i < used; i++)
            expect_met(&places[i]);
        assert_true(places[1].seconds < SOON);
        assert_false(file_is_there(file));
    }
}

/* The loopback of another machine is not that of this one, whatever listens there. */
static void test_assembly_calls_no_loopback_of_another_machine(void **state)
{
    struct error err = { 0 };
    int port = 0, listener = net_listen(&port, &err);
    char text[400];

    (void)state;
    snprintf(
        text, sizeof(text),
        "{\"start\": \"start\", \"key\": \"%s\", \"reply\": \"%s\", \"host\": \"another\", "
        "\"port\": %d, \"addresses\": [\"127.0.0.1\", \"::1\", \"localhost\"]}",
        some_key, some_key, port);
    write_text(file, text);
    seat(1, 2)->patience = 1;
    start_all();
    assert_int_equal(net_accept(listener, 1.5, &err), -1);
    wait_for_all();
    expect_refused(&places[0], ERROR_SYSTEM, "cannot reach rank 0");
    close(listener);
}

/* ---- Strangers ---- */

static int call(int port)
{
    struct error err = { 0 };
    int fd = net_connect("127.0.0.1", port, 5, &err);

    if (fd < 0)
        fail_msg("%s", err.text);
    return fd;
}

static void test_assembly_ignores_strangers(void **state)
{
    char garbage[8192];
    int port, fds[4];

    (void)state;
    for (size_t i = 0; i < sizeof(garbage); i++)
        garbage[i] = (char)(i * 31);
    seat(0, 3);
    seat(1, 3)->wait = 0.7;
    seat(2, 3)->wait = 0.7;
    start_all();
    port = port_of_file(NULL, NULL);
    for (size_t i = 0; i < TS_COUNT(fds); i++)
        fds[i] = call(port);
    link_send(fds[0], garbage, sizeof(garbage), 1, NULL);
    close(fds[1]);
    link_send(fds[2], "GET / HTTP/1.0\r\n\r\n", 18, 1, NULL);
    close(fds[2]);
    memset(garbage, 0, sizeof(garbage));
    link_send(fds[3], garbage, sizeof(garbage), 1, NULL);
    wait_for_all();
    for (size_t i = 0; i < used; i++) {
        expect_met(&places[i]);
        assert_true(places[i].seconds < SOON);
    }
    close(fds[0]);
    close(fds[3]);
}

/* Neither one that says nothing, nor many of them, delay the ranks. */
static void test_assembly_waits_for_no_silent_stranger(void **state)
{
    int port, fds[100];

    (void)state;
    seat(0, 3);
    seat(1, 3)->wait = 0.7;
    seat(2, 3)->wait = 0.7;
    start_all();
    port = port_of_file(NULL, NULL);
    for (size_t i = 0; i < TS_COUNT(fds); i++)
        fds[i] = call(port);
    link_send(fds[0], "trainspool rank", 16, 1, NULL);
    wait_for_all();
    for (size_t i = 0; i < used; i++) {
        expect_met(&places[i]);
        assert_true(places[i].seconds < SOON);
    }
    for (size_t i = 0; i < TS_COUNT(fds); i++)
        close(fds[i]);
}

/* ---- Programs that a rank calls ---- */

/* An earlier start left a file, and its port now belongs to a program that accepts callers
 * and says nothing. */
static void test_assembly_leaves_a_silent_program(void **state)
{
    struct error err = { 0 };
    int port = 0, listener = net_listen(&port, &err);

    (void)state;
    write_ranks(file, "start", some_key, port);
    seat(1, 2);
    seat(0, 2)->wait = 1;
    start_all();
    wait_for_all();
    for (size_t i = 0; i < used; i++)
        expect_met(&places[i]);
    assert_true(places[0].seconds < 1 + SOON);

    clear();
    write_ranks(file, "start", some_key, port);
    seat(1, 2)->stop_after = 0.5;
    start_all();
    wait_for_all();
    expect_refused(&places[0], ERROR_STOPPED, "stopped");
    assert_true(places[0].seconds < SOON);
    close(listener);
}

/* A program gives itself out as rank 0, with what it hears and without the file. */
static void test_assembly_believes_no_other_rank_0(void **state)
{
    struct error err = { 0 };
    int port = 0, listener = net_listen(&port, &err), fd;
    char heard[4096], answer[512] = "trainspool rank";

    (void)state;
    write_ranks(file, "start", some_key, port);
    seat(1, 2)->patience = 1;
    start_all();
    for (double until = clock_seconds() + 5; clock_seconds() < until;) {
        if ((fd = net_accept(listener, 0.5, &err)) < 0)
            continue;
        poll(NULL, 0, 50);
        assert_true(recv(fd, heard, sizeof(heard), MSG_DONTWAIT) > 100);
        memcpy(answer + 16, some_key, sizeof(some_key));
        link_send(fd, answer, sizeof(answer), 1, NULL);
        close(fd);
    }
    wait_for_all();
    expect_refused(&places[0], ERROR_SYSTEM, "cannot reach rank 0");
    close(listener);
}

/* A program of this version that has another key is a stranger, too. */
static void test_assembly_ignores_another_key(void **state)
{
    char *other = path_join(folder, "other.json");
    struct place *stranger;

    (void)state;
    seat(0, 2);
    start(&places[0]);
    write_ranks(other, "start", some_key, port_of_file(NULL, NULL));
    stranger = seat(1, 2);
    stranger->file = other;
    stranger->patience = 1;
    start(stranger);
    wait_for(stranger);
    expect_refused(stranger, ERROR_SYSTEM, "cannot reach rank 0 at 127.0.0.1");
    start(seat(1, 2));
    wait_for(&places[0]);
    wait_for(&places[2]);
    expect_met(&places[0]);
    expect_met(&places[2]);
    free(other);
}

/* ---- What ranks say ---- */

/* Get what a rank says first: be rank 0 until it has spoken. */
static size_t hear_greeting(int rank, int size, void *out, size_t room)
{
    char *other = path_join(folder, "heard.json");
    struct error err = { 0 };
    int port = 0, listener = net_listen(&port, &err), fd;
    char key[ASSEMBLY_KEY + 1];
    struct place *place;
    size_t bytes = 0;

    assert_true(listener >= 0);
    port_of_file(key, NULL);
    write_ranks(other, "start", key, port);
    place = seat(rank, size);
    place->file = other;
    start(place);
    fd = net_accept(listener, 10, &err);
    assert_true(fd >= 0);
    poll(NULL, 0, 300);
    while (bytes < room && link_has_data(fd) &&
           link_receive(fd, (char *)out + bytes, 1, 1, NULL))
        bytes++;
    kill(place->process, SIGKILL);
    assert_int_equal(waitpid(place->process, NULL, 0), place->process);
    close(listener);
    close(fd);
    free(other);
    return bytes;
}

static bool contains(const char *data, size_t len, const char *text)
{
    return memmem(data, len, text, strlen(text)) != NULL;
}

static void test_assembly_refuses_another_version(void **state)
{
    char greeting[4096], reply[1024] = "";
    size_t bytes, got = 0;
    char *version;
    int fd;

    (void)state;
    seat(0, 3);
    start(&places[0]);
    bytes = hear_greeting(1, 3, greeting, sizeof(greeting));
    assert_true(bytes > 100 && bytes < sizeof(greeting));
    version = memmem(greeting, bytes, PACKAGE_VERSION, strlen(PACKAGE_VERSION));
    assert_non_null(version);
    memcpy(version, "9.9.9", 6);
    fd = call(port_of_file(NULL, NULL));
    assert_true(link_send(fd, greeting, bytes, 1, NULL));
    while (got < sizeof(reply) && link_receive(fd, reply + got, 1, 2, NULL))
        got++;
    assert_true(contains(reply, got, "it runs trainspool-train 9.9.9, and rank 0 "));
    assert_true(contains(reply, got, "install the same version"));
    close(fd);
    wait_for(&places[0]);
    expect_refused(&places[0], ERROR_SYSTEM,
                   "rank 1 cannot take part: it runs trainspool-train 9.9.9");
}

/* A version without an end, with each byte set: rank 0 must not read past it. */
static void test_assembly_survives_a_version_without_an_end(void **state)
{
    char greeting[4096];
    size_t bytes;
    char *version;
    int fd;

    (void)state;
    seat(0, 3);
    start(&places[0]);
    bytes = hear_greeting(1, 3, greeting, sizeof(greeting));
    version = memmem(greeting, bytes, PACKAGE_VERSION, strlen(PACKAGE_VERSION));
    assert_non_null(version);
    memset(version, 'v', 48);
    fd = call(port_of_file(NULL, NULL));
    assert_true(link_send(fd, greeting, bytes, 1, NULL));
    wait_for(&places[0]);
    close(fd);
    expect_refused(&places[0], ERROR_SYSTEM, "it runs trainspool-train vvvv");
}

static void test_assembly_refuses_another_size(void **state)
{
    (void)state;
    seat(0, 4);
    seat(1, 5);
    start_all();
    wait_for_all();
    expect_refused(&places[0], ERROR_SYSTEM,
                   "rank 1 cannot take part: it is one of 5 ranks, and rank 0 one of 4");
    expect_refused(&places[1], ERROR_SYSTEM,
                   "rank 1 cannot take part: it is one of 5 ranks, and rank 0 one of 4");
    assert_false(file_is_there(file));
}

static void test_assembly_refuses_a_rank_that_is_taken(void **state)
{
    (void)state;
    seat(0, 3);
    seat(1, 3);
    seat(1, 3)->wait = 1;
    start_all();
    wait_for(&places[0]);
    wait_for(&places[2]);
    expect_refused(&places[0], ERROR_SYSTEM, "there are two ranks 1");
    expect_refused(&places[2], ERROR_SYSTEM, "there are two ranks 1");
    wait_for(&places[1]); /* its link ended */
    assert_false(places[1].ok);
}

/* A launcher starts a rank again that ended while rank 0 waited for the others. */
static void test_assembly_takes_a_rank_that_was_started_again(void **state)
{
    (void)state;
    seat(0, 3);
    seat(1, 3)->then = THEN_LEAVE;
    seat(1, 3)->wait = 0.5;
    seat(2, 3)->wait = 1;
    start_all();
    wait_for_all();
    expect_met(&places[0]);
    expect_met(&places[2]);
    expect_met(&places[3]);
}

/* ---- MASTER_PORT ---- */

static void test_assembly_reads_the_port_of_rank_0(void **state)
{
    static const char *const wrong[] = { "abc", "0", "-1", "65536", "29500x", " " };
    char number[16];
    int port = closed_port();

    (void)state;
    for (size_t i = 0; i < TS_COUNT(wrong); i++) {
        clear();
        setenv("MASTER_PORT", wrong[i], 1);
        seat(0, 2);
        start_all();
        wait_for_all();
        expect_refused(&places[0], ERROR_USAGE, "MASTER_PORT=");
    }
    clear();
    snprintf(number, sizeof(number), "%d", port);
    setenv("MASTER_PORT", number, 1);
    seat(0, 2);
    seat(1, 2)->wait = 1;
    start_all();
    assert_int_equal(port_of_file(NULL, NULL), port);
    wait_for_all();
    unsetenv("MASTER_PORT");
    expect_met(&places[0]);
    expect_met(&places[1]);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_assembly_ignores_files_of_other_starts),
        TEST(test_assembly_calls_no_loopback_of_another_machine),
        TEST(test_assembly_ignores_strangers),
        TEST(test_assembly_waits_for_no_silent_stranger),
        TEST(test_assembly_leaves_a_silent_program),
        TEST(test_assembly_believes_no_other_rank_0),
        TEST(test_assembly_ignores_another_key),
        TEST(test_assembly_refuses_another_version),
        TEST(test_assembly_survives_a_version_without_an_end),
        TEST(test_assembly_refuses_another_size),
        TEST(test_assembly_refuses_a_rank_that_is_taken),
        TEST(test_assembly_takes_a_rank_that_was_started_again),
        TEST(test_assembly_reads_the_port_of_rank_0),
    };
#undef TEST

    share_places();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
