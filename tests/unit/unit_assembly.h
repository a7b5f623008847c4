/*
 * tests/unit/unit_assembly.h - processes that meet as the ranks of a launcher do, and what
 * came of each.
 */
#ifndef TESTS_UNIT_UNIT_ASSEMBLY_H
#define TESTS_UNIT_UNIT_ASSEMBLY_H

#include <dirent.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/link.h"
#include "base/size.h"
#include "runner/cluster/assembly.h"
#include "tests/unit/unit.h"

enum {
    PLACES = 24,  /* processes of a test */
    TIMEOUT = 60, /* seconds of a process */
    SOON = 3      /* seconds of what must not wait for anything */
};

/* What a process does after it has met the others. */
enum then { THEN_END, THEN_PAIR, THEN_LEAVE };

/* A rank: what it is given, and what came of it. */
struct place {
    struct world world;
    const char *file;
    double patience, wait; /* seconds; wait: before it begins */
    enum then then;
    double stop_after;        /* 0: never */
    rlim_t files, files_most; /* limits of open files, or 0 */
    pid_t process;

    bool ok;
    struct error err;
    double seconds;
    int leaked;  /* descriptors */
    mode_t mode; /* rank 0: of the file */
};

static struct place *places; /* shared with the processes */
static size_t used;
static char *folder, *file;
static volatile sig_atomic_t stop;

static inline void clear(void)
{
    used = 0;
    memset(places, 0, PLACES * sizeof(*places));
}

static inline int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Return whether each peer receives what this rank sends, and the reverse. */
static inline bool greet_peers(const struct world *world, const int peers[])
{
    bool ok = peers[world->rank] == -1;

    for (int r = 0; r < world->size; r++) {
        int number = 1000 * world->rank + r;

        ok = ok &&
             (r == world->rank || link_send(peers[r], &number, sizeof(number), 10, NULL));
    }
    for (int r = 0; r < world->size; r++) {
        int number = 0;

        ok = ok && (r == world->rank ||
                    (link_receive(peers[r], &number, sizeof(number), 10, NULL) &&
                     number == 1000 * r + world->rank));
    }
    return ok;
}

/* Wait until the other side of each link has said goodbye. */
static inline bool part(const int links[], int count)
{
    bool ok = true;
    char byte = 0;

    for (int i = 0; i < count; i++)
        ok = ok && link_send(links[i], &byte, 1, 10, NULL);
    for (int i = 0; i < count; i++)
        ok = ok && link_receive(links[i], &byte, 1, 10, NULL);
    return ok;
}

static inline void on_alarm(int number)
{
    stop = number;
}

static inline void play(struct place *place)
{
    const struct world *world = &place->world;
    const int count = world->rank == 0 ? world->size - 1 : 1;
    int *links = calloc((size_t)world->size, sizeof(*links));
    int *peers = calloc((size_t)world->size, sizeof(*peers));
    struct assembly assembly;
    struct stat status;
    double started;
    int before;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (place->wait > 0)
        poll(NULL, 0, (int)(place->wait * 1000));
    if (place->stop_after > 0) {
        signal(SIGALRM, on_alarm);
        ualarm((useconds_t)(place->stop_after * 1e6), 0);
    } else {
        alarm(TIMEOUT);
    }
    if (place->files > 0)
        setrlimit(RLIMIT_NOFILE, &(struct rlimit) { place->files, place->files_most });
    before = open_files();
    started = clock_seconds();
    for (int r = 0; r < world->size; r++)
        peers[r] = -1;
    assembly_init(&assembly, world, place->file);
    if (place->patience > 0)
        assembly.patience = place->patience;
    place->ok = assembly_meet(&assembly, &stop, NULL, links, &place->err);
    if (place->ok && stat(place->file, &status) == 0)
        place->mode = status.st_mode & 07777;
    if (place->ok && place->then == THEN_LEAVE)
        _exit(0);
    if (place->ok && place->then == THEN_PAIR)
        place->ok = assembly_connect_pairs(&assembly, links, peers, &place->err) &&
                    greet_peers(world, peers);
    place->seconds = clock_seconds() - started;
    place->ok = place->ok && part(links, count);
    assembly_end(&assembly);
    for (int i = 0; i < count; i++)
        if (links[i] >= 0)
            close(links[i]);
    for (int r = 0; r < world->size; r++)
        if (peers[r] >= 0)
            close(peers[r]);
    place->leaked = open_files() - before;
    free(links);
    free(peers);
    _exit(0);
}

/* Prepare a rank, of a start named "start". */
static inline struct place *seat(int rank, int size)
{
    struct place *place = &places[used++];

    place->world = (struct world) { .launcher = "torchrun",
                                    .rank = rank,
                                    .size = size,
                                    .local_size = 1,
                                    .nodes = size,
                                    .start = "start" };
    place->file = file;
    return place;
}

static inline void start(struct place *place)
{
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        play(place);
    place->process = child;
}

static inline void wait_for(struct place *place)
{
    int status;

    assert_int_equal(waitpid(place->process, &status, 0), place->process);
    if (status != 0)
        fail_msg("rank %d: status %d", place->world.rank, status);
}

static inline void start_all(void)
{
    for (size_t i = 0; i < used; i++)
        start(&places[i]);
}

static inline void wait_for_all(void)
{
    for (size_t i = 0; i < used; i++)
        wait_for(&places[i]);
}

static inline void expect_met(const struct place *place)
{
    if (!place->ok || place->err.code != ERROR_NONE)
        fail_msg("rank %d: %s", place->world.rank, place->err.text);
    assert_int_equal(place->leaked, 0);
}

static inline void expect_refused(const struct place *place, enum error_code code,
                                  const char *text)
{
    if (place->ok || place->err.code != code || !strstr(place->err.text, text))
        fail_msg("rank %d: %s, without: %s", place->world.rank, place->err.text, text);
    assert_int_equal(place->leaked, 0);
}

static inline bool file_is_there(const char *name)
{
    struct stat status;

    return stat(name, &status) == 0;
}

/* ---- Files ---- */

/* Wait for the file of rank 0; return its port and, if wanted, its key and its host. */
static inline int port_of_file(char key[ASSEMBLY_KEY + 1], char host[96])
{
    int port = 0;

    for (int tries = 0; port == 0 && tries < 500; tries++) {
        json_t *object = json_read_file(file, 1 << 16, NULL);

        port = (int)json_integer_value(json_object_get(object, "port"));
        if (port && key)
            strcpy(key, json_string_value(json_object_get(object, "key")));
        if (port && host)
            snprintf(host, 96, "%s", json_string_value(json_object_get(object, "host")));
        json_decref(object);
        poll(NULL, 0, 10);
    }
    assert_true(port > 0);
    return port;
}

/* Return how a rank names this machine: the loopback of others does not lead to them. */
static const char *own_host(void)
{
    static char host[96];

    if (!host[0]) {
        struct place *place = seat(0, 2);

        start(place);
        port_of_file(NULL, host);
        kill(place->process, SIGKILL);
        assert_int_equal(waitpid(place->process, NULL, 0), place->process);
        unlink(file);
        clear();
    }
    return host;
}

static inline int begin(void **state)
{
    (void)state;
    folder = unit_dir_new();
    file = path_join(folder, "ranks.json");
    clear();
    own_host();
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    free(file);
    unit_dir_free(folder);
    return 0;
}

/* A port at which no program listens. */
static inline int closed_port(void)
{
    struct error err = { 0 };
    int port = 0, listener = net_listen(&port, &err);

    assert_true(listener >= 0);
    close(listener);
    return port;
}

static inline void write_text(const char *name, const char *text)
{
    struct error err = { 0 };

    assert_true(file_replace(name, text, strlen(text), 0600, &err));
}

/* Write a file as rank 0 does. */
static inline void write_ranks(const char *name, const char *of, const char *key,
                               int port)
{
    char text[1024];

    snprintf(
        text, sizeof(text),
        "{\"start\": \"%s\", \"key\": \"%s\", \"reply\": \"%032d\", \"host\": \"%s\", "
        "\"port\": %d, \"addresses\": [\"127.0.0.1\", \"::1\"]}",
        of, key, 0, own_host(), port);
    write_text(name, text);
}

static const char some_key[] = "0123456789abcdef0123456789abcdef";

/* Share the places with the processes. */
static inline void share_places(void)
{
    /* rank 0 may take its port and its address from there */
    unsetenv("MASTER_ADDR");
    unsetenv("MASTER_PORT");
    places = mmap(NULL, PLACES * sizeof(*places), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

#endif
