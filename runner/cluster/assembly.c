/* runner/cluster/assembly.c - the file that names rank 0, and what ranks say first. */
#include "config.h"

#include "runner/cluster/assembly.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/link.h"
#include "base/size.h"
#include "base/walk.h"
#include "runner/cluster/callers.h"

enum {
    DISMISS_SECONDS = 10, /* for ranks that a launcher starts at the same time */
    FILE_MAX = 16 << 10,
    PORT_MAX = 65535,
    GREETING_SECONDS = 5,    /* for what a rank says first */
    REPLY_SECONDS = 30,      /* of a rank that was called */
    ATTEMPT_SECONDS = 3,     /* to connect to one address */
    OTHER_FILES = 64,        /* that a rank opens besides connections */
    REPORT_SECONDS = 30,     /* between lines about missing ranks */
    LOOK_MILLISECONDS = 200, /* between looks for the file */
    EARLY_SECONDS = 5,       /* after which all ranks look less often */
    LATE_MILLISECONDS = 1000 /* a thousand ranks then are a thousand looks per second */
};

enum purpose { PURPOSE_LINK, PURPOSE_PAIR };

/* The first message of a connection.  Programs of other versions read the same first
 * fields. */
struct greeting {
    char magic[16], version[48];
    char key[ASSEMBLY_KEY + 1];
    int32_t rank, size;
    enum purpose purpose;
    struct endpoint own; /* of PURPOSE_LINK */
};

/* The reply: who answers, or why the rank cannot take part.  Its key is not that of the
 * greeting: a program that got a greeting by chance cannot give itself out as a rank. */
struct reply {
    char magic[16];
    char key[ASSEMBLY_KEY + 1];
    int32_t rank;
    char refusal[200]; /* "": welcome */
};

static const char magic[16] = "trainspool rank";

/* ---- Endpoints ---- */

/* The machine, by the start of its kernel, and its network: containers have their own. */
static void name_host(char out[96])
{
    struct text boot;
    char network[48] = "";
    ssize_t len = readlink("/proc/self/ns/net", network, sizeof(network) - 1);

    network[len > 0 ? len : 0] = '\0';
    text_init(&boot, 0);
    file_read("/proc/sys/kernel/random/boot_id", 64, &boot, NULL, NULL);
    snprintf(out, 96, "%.*s %s", boot.len ? (int)strcspn(boot.data, "\n") : 0,
             boot.len ? boot.data : "", network);
    text_clear(&boot);
}

/* torchrun keeps MASTER_PORT for itself; other launchers leave it to rank 0.  A dismissal
 * needs no port of its own, and may follow from one that is in use. */
static bool wanted_port(const struct assembly *assembly, int *out, struct error *err)
{
    const char *port = getenv("MASTER_PORT");
    char *end;
    long value;

    *out = 0;
    if (!port || !*port || assembly->world->rank > 0 || assembly->dismisses ||
        getenv("TORCHELASTIC_RUN_ID"))
        return true;
    value = strtol(port, &end, 10);
    if (*end != '\0' || value < 1 || value > PORT_MAX)
        return error_set(err, ERROR_USAGE,
                         "MASTER_PORT=%.60s in the environment is not a number from 1 to "
                         "%d",
                         port, PORT_MAX);
    *out = (int)value;
    return true;
}

static bool listen_here(struct assembly *assembly, struct endpoint *out,
                        struct error *err)
{
    const char *master = getenv("MASTER_ADDR");
    size_t first = 0;

    *out = (struct endpoint) { .port = 0 };
    if (!wanted_port(assembly, &out->port, err))
        return false;
    if (assembly->world->rank == 0 && master && strlen(master) < NET_ADDRESS)
        snprintf(out->addresses[first++], NET_ADDRESS, "%s", master);
    name_host(out->host);
    net_addresses(out->addresses + first, ASSEMBLY_ADDRESSES - first);
    assembly->listener = net_listen(&out->port, err);
    return assembly->listener >= 0;
}

/* ---- The file ---- */

static bool make_key(char key[ASSEMBLY_KEY + 1], struct error *err)
{
    unsigned char bytes[ASSEMBLY_KEY / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return error_errno(err, "cannot get random numbers");
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(key + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static bool write_file(const struct assembly *assembly, struct error *err)
{
    const struct endpoint *own = &assembly->ranks[0];
    json_t *addresses = json_array();
    json_t *object;
    struct text text;
    bool ok;

    for (size_t i = 0; i < ASSEMBLY_ADDRESSES && own->addresses[i][0]; i++)
        json_array_append_new(addresses, json_string(own->addresses[i]));
    object = json_pack("{s:s, s:s, s:s, s:s, s:i, s:o}", "start", assembly->world->start,
                       "key", assembly->key, "reply", assembly->reply, "host", own->host,
                       "port", own->port, "addresses", addresses);
    text_init(&text, 0);
    ok = json_write_pretty(object, &text) &&
         file_replace(assembly->file, text.data, text.len, 0600, err);
    text_clear(&text);
    json_decref(object);
    return ok || error_set(err, ERROR_SYSTEM, "cannot write %s", assembly->file);
}

/* Return whether the file is there, whole, and not of an earlier start. */
static bool read_file(struct assembly *assembly, struct endpoint *out)
{
    json_t *object = json_read_file(assembly->file, FILE_MAX, NULL);
    const json_t *list = json_object_get(object, "addresses");
    const char *start = json_string_value(json_object_get(object, "start"));
    const char *key = json_string_value(json_object_get(object, "key"));
    const char *reply = json_string_value(json_object_get(object, "reply"));
    const char *host = json_string_value(json_object_get(object, "host"));
    bool ok = start && key && reply && host && strlen(key) == ASSEMBLY_KEY &&
              strlen(reply) == ASSEMBLY_KEY && strcmp(start, assembly->world->start) == 0;

    *out = (struct endpoint) { 0 };
    if (ok) {
        strcpy(assembly->key, key);
        strcpy(assembly->reply, reply);
        snprintf(out->host, sizeof(out->host), "%s", host);
        out->port = (int)json_integer_value(json_object_get(object, "port"));
        for (size_t i = 0; i < ASSEMBLY_ADDRESSES && i < json_array_size(list); i++) {
            const char *address = json_string_value(json_array_get(list, i));

            snprintf(out->addresses[i], NET_ADDRESS, "%s", address ? address : "");
        }
    }
    json_decref(object);
    return ok && out->port > 0;
}

/* ---- Greetings ---- */

static struct greeting greet(const struct assembly *assembly, enum purpose purpose)
{
    struct greeting greeting = { .version = PACKAGE_VERSION,
                                 .rank = assembly->world->rank,
                                 .size = assembly->world->size,
                                 .purpose = purpose };

    memcpy(greeting.magic, magic, sizeof(magic));
    strcpy(greeting.key, assembly->key);
    if (purpose == PURPOSE_LINK)
        greeting.own = assembly->ranks[assembly->world->rank];
    return greeting;
}

static bool refuse(struct reply *reply, const char *fmt, ...) TS_PRINTF(2, 3);
static bool refuse(struct reply *reply, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(reply->refusal, sizeof(reply->refusal), fmt, args);
    va_end(args);
    return false;
}

/* Return whether the caller may take part; fill the refusal otherwise. taken: ranks that
 * have connected, a descriptor each. */
static bool is_welcome(const struct assembly *assembly, const struct greeting *greeting,
                       const int taken[], struct reply *reply)
{
    const struct world *world = assembly->world;

    if (strncmp(greeting->version, PACKAGE_VERSION, sizeof(greeting->version)) != 0)
        return refuse(reply,
                      "it runs trainspool-train %.40s, and rank %d " PACKAGE_VERSION
                      ": install the same version on all nodes",
                      greeting->version, world->rank);
    if (greeting->size != world->size)
        return refuse(reply, "it is one of %d ranks, and rank %d one of %d",
                      greeting->size, world->rank, world->size);
    if (greeting->rank <= world->rank || greeting->rank >= world->size)
        return refuse(reply, "there is no rank %d of %d", greeting->rank, world->size);
    /* a launcher may start a rank again that ended while it waited for the others */
    if (taken[greeting->rank] >= 0 &&
        (greeting->purpose == PURPOSE_PAIR || link_is_alive(taken[greeting->rank])))
        return refuse(reply, "there are two ranks %d", greeting->rank);
    return true;
}

static bool keys_are_equal(const char *a, const char *b)
{
    unsigned char differs = 0;

    for (size_t i = 0; i < ASSEMBLY_KEY; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return differs == 0;
}

/* Accept a connection.  Return its rank, and put the socket at taken[rank]; 0: none came
 * that is one of us.  -1: a rank cannot take part, and *err says why. */
static int accept_rank(struct assembly *assembly, enum purpose purpose, double seconds,
                       int taken[], struct error *err)
{
    struct reply reply = { .rank = assembly->world->rank };
    struct greeting greeting;
    int fd = callers_next(assembly->callers, assembly->listener, seconds, &greeting, err);
    bool ok;

    if (fd < 0)
        return err->code ? -1 : 0;
    memcpy(reply.magic, magic, sizeof(magic));
    strcpy(reply.key, assembly->reply);
    if (memcmp(greeting.magic, magic, sizeof(magic)) != 0 ||
        !keys_are_equal(greeting.key, assembly->key) || greeting.purpose != purpose) {
        close(fd);
        return 0;
    }
    ok = is_welcome(assembly, &greeting, taken, &reply);
    if (!link_send(fd, &reply, sizeof(reply), GREETING_SECONDS, NULL) || !ok) {
        close(fd);
        if (!ok)
            error_set(err, ERROR_SYSTEM, "rank %d cannot take part: %s", greeting.rank,
                      reply.refusal);
        return ok ? 0 : -1;
    }
    if (taken[greeting.rank] >= 0)
        close(taken[greeting.rank]);
    taken[greeting.rank] = fd;
    if (purpose == PURPOSE_LINK)
        assembly->ranks[greeting.rank] = greeting.own;
    return greeting.rank;
}

static bool is_stopped(const struct assembly *assembly, struct error *err)
{
    return assembly->stop && *assembly->stop &&
           !error_set(err, ERROR_STOPPED, "stopped on request");
}

/* Return whether the file names another rank 0 than the one that was called. */
static bool has_changed(const struct assembly *assembly)
{
    struct assembly now = { .world = assembly->world, .file = assembly->file };
    struct endpoint ignored;

    return read_file(&now, &ignored) && strcmp(now.key, assembly->key) != 0;
}

/* Wait until a rank that was called says something or ends.  False: do not wait longer. */
static bool wait_for_reply(const struct assembly *assembly, int fd, enum purpose purpose,
                           struct error *err)
{
    const double until =
        clock_seconds() + (purpose == PURPOSE_LINK ? REPLY_SECONDS : assembly->patience);

    while (!link_has_data(fd)) {
        if (is_stopped(assembly, err) || clock_seconds() > until || !link_is_alive(fd) ||
            (purpose == PURPOSE_LINK && has_changed(assembly)))
            return false;
        poll(&(struct pollfd) { .fd = fd, .events = POLLIN }, 1, LOOK_MILLISECONDS);
    }
    return true;
}

/* Return a connection to a rank, or -1; *err only says that the rank refuses, or a stop. */
static int call_address(const struct assembly *assembly, const char *address, int port,
                        int rank, enum purpose purpose, struct error *err)
{
    const struct greeting greeting = greet(assembly, purpose);
    struct reply reply;
    int fd = net_connect(address, port, ATTEMPT_SECONDS, NULL);

    if (fd < 0)
        return -1;
    if (link_send(fd, &greeting, sizeof(greeting), GREETING_SECONDS, NULL) &&
        wait_for_reply(assembly, fd, purpose, err) &&
        link_receive(fd, &reply, sizeof(reply), GREETING_SECONDS, NULL) &&
        memcmp(reply.magic, magic, sizeof(magic)) == 0 &&
        keys_are_equal(reply.key, assembly->reply) && reply.rank == rank) {
        reply.refusal[sizeof(reply.refusal) - 1] = '\0';
        if (!reply.refusal[0])
            return fd;
        error_set(err, ERROR_SYSTEM, "rank %d cannot take part: %s",
                  assembly->world->rank, reply.refusal);
    }
    close(fd);
    return -1;
}

/* Return whether the address leads back to the machine that uses it. */
static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strcmp(address, "localhost") == 0;
}

static int call_rank(const struct assembly *assembly, const struct endpoint *to, int rank,
                     enum purpose purpose, struct error *err)
{
    char host[96];
    int fd = -1;

    name_host(host);
    for (size_t i = 0; i < ASSEMBLY_ADDRESSES && to->addresses[i][0] && fd < 0 &&
                       err->code == ERROR_NONE;
         i++)
        if (!is_loopback(to->addresses[i]) || strcmp(host, to->host) == 0)
            fd = call_address(assembly, to->addresses[i], to->port, rank, purpose, err);
    return fd;
}

/* ---- Meeting ---- */

/* Name the ranks that have not come, such as "ranks 2, 3, 7". */
static void name_missing(const struct world *world, const int links[], struct text *out)
{
    size_t named = 0, missing = 0;

    for (int r = 1; r < world->size; r++)
        missing += links[r - 1] < 0;
    text_addf(out, "rank%s ", missing == 1 ? "" : "s");
    for (int r = 1; r < world->size && named < 8; r++)
        if (links[r - 1] < 0)
            text_addf(out, "%s%d", named++ ? ", " : "", r);
    if (missing > named)
        text_addf(out, " and %zu more", missing - named);
}

static bool set_missing(const struct assembly *assembly, const int links[],
                        struct error *err)
{
    struct text text;

    text_init(&text, 0);
    name_missing(assembly->world, links, &text);
    error_set(
        err, ERROR_SYSTEM,
        "%.200s of %d did not connect within %.0f s: see the launcher's output for "
        "why they did not start, and whether they can reach port %d of this machine",
        text.data, assembly->world->size, assembly->patience, assembly->ranks[0].port);
    text_clear(&text);
    return false;
}

static void log_missing(const struct assembly *assembly, const int links[],
                        struct log *log)
{
    struct text text;

    text_init(&text, 0);
    name_missing(assembly->world, links, &text);
    log_line(log, LOG_INFO, "waiting for %s of %d", text.data, assembly->world->size);
    text_clear(&text);
}

/* Rank 0: wait for the others.  links[r - 1] is that of rank r. */
static bool gather(struct assembly *assembly, struct log *log, int links[],
                   struct error *err)
{
    const double until = clock_seconds() + assembly->patience;
    double report = clock_seconds() + REPORT_SECONDS;
    int *taken = memory_alloc((size_t)assembly->world->size * sizeof(*taken));
    int left = 0, rank = 0;

    for (int r = 0; r < assembly->world->size; r++)
        taken[r] = -1;
    for (int r = 1; r < assembly->world->size; r++)
        left += !assembly->met || assembly->met[r - 1] < 0;
    while (left > 0 && rank >= 0 && !is_stopped(assembly, err)) {
        rank = accept_rank(assembly, PURPOSE_LINK, 0.5, taken, err);
        if (rank > 0) {
            left -= links[rank - 1] < 0;
            links[rank - 1] = taken[rank];
        } else if (clock_seconds() > until) {
            rank = -1;
            set_missing(assembly, links, err);
        } else if (clock_seconds() > report && log) {
            report = clock_seconds() + REPORT_SECONDS;
            log_missing(assembly, links, log);
        }
    }
    free(taken);
    return left == 0;
}

static bool open_assembly(struct assembly *assembly, struct error *err)
{
    return make_key(assembly->key, err) && make_key(assembly->reply, err) &&
           write_file(assembly, err);
}

/* Other ranks: find rank 0. */
static bool find_rank_0(struct assembly *assembly, int *link, struct error *err)
{
    const double began = clock_seconds(), until = began + assembly->patience;
    struct endpoint to = { 0 };
    bool found = false;

    *link = -1;
    while (*link < 0 && err->code == ERROR_NONE && !is_stopped(assembly, err)) {
        if (read_file(assembly, &to)) {
            found = true;
            *link = call_rank(assembly, &to, 0, PURPOSE_LINK, err);
        }
        if (*link >= 0 || err->code != ERROR_NONE)
            break;
        if (clock_seconds() < until)
            poll(NULL, 0,
                 clock_seconds() < began + EARLY_SECONDS ? LOOK_MILLISECONDS
                                                         : LATE_MILLISECONDS);
        else if (found)
            error_set(err, ERROR_SYSTEM,
                      "cannot reach rank 0 at %s, port %d: does a firewall stand between "
                      "the nodes?",
                      to.addresses[0], to.port);
        else
            error_set(
                err, ERROR_SYSTEM,
                "rank 0 did not write %s within %.0f s: is the folder of the job on "
                "a file system that all nodes share?",
                assembly->file, assembly->patience);
    }
    return *link >= 0;
}

void assembly_init(struct assembly *assembly, const struct world *world, const char *file)
{
    *assembly = (struct assembly) {
        .world = world, .file = file, .listener = -1, .patience = ASSEMBLY_SECONDS
    };
    assembly->ranks = memory_alloc((size_t)world->size * sizeof(*assembly->ranks));
    assembly->callers = callers_new(sizeof(struct greeting), GREETING_SECONDS);
}

/* A process may open 1024 files by default, which is fewer than the largest run needs. */
static bool allow_connections(const struct world *world, int count, struct error *err)
{
    const uint64_t allowed = limits_raise_files(), needed = (uint64_t)count + OTHER_FILES;

    return allowed >= needed ||
           error_set(
               err, ERROR_SYSTEM,
               "rank %d of %d needs %llu open files, and this process may open %llu: "
               "raise the limit (ulimit -Hn)",
               world->rank, world->size, (unsigned long long)needed,
               (unsigned long long)allowed);
}

bool assembly_meet(struct assembly *assembly, const volatile sig_atomic_t *stop,
                   struct log *log, int links[], struct error *err)
{
    const struct world *world = assembly->world;
    struct error own = { 0 };
    bool ok;

    assembly->stop = stop;
    for (int i = 0; i < (world->rank == 0 ? world->size - 1 : 1); i++)
        links[i] = -1;
    ok = (assembly->dismisses ||
          allow_connections(world, world->rank == 0 ? world->size : 1, &own)) &&
         listen_here(assembly, &assembly->ranks[world->rank], &own) &&
         (world->rank == 0
              ? open_assembly(assembly, &own) && gather(assembly, log, links, &own)
              : find_rank_0(assembly, links, &own));
    return ok || error_set(err, own.code, "%s", own.text);
}

/* ---- Pairs ---- */

/* Rank 0 sends where all listen. */
static bool share_endpoints(struct assembly *assembly, const int links[],
                            struct error *err)
{
    const struct world *world = assembly->world;
    const size_t bytes = (size_t)world->size * sizeof(*assembly->ranks);

    if (world->rank > 0)
        return link_receive(links[0], assembly->ranks, bytes, 0, err);
    for (int i = 0; i < world->size - 1; i++)
        if (!link_send(links[i], assembly->ranks, bytes, 0, err))
            return false;
    return true;
}

/* Each rank calls those before it, in order, then answers those after it: rank 0 answers at
 * once, so each later one gets its turn. */
bool assembly_connect_pairs(struct assembly *assembly, const int links[], int peers[],
                            struct error *err)
{
    const struct world *world = assembly->world;
    const double until = clock_seconds() + assembly->patience;
    struct error own = { 0 };
    int left = world->size - 1 - world->rank;

    for (int r = 0; r < world->size; r++)
        peers[r] = -1;
    if (!allow_connections(world, world->rank == 0 ? 2 * world->size : world->size,
                           err) ||
        !share_endpoints(assembly, links, err))
        return false;
    for (int r = 0; r < world->rank; r++) {
        peers[r] = call_rank(assembly, &assembly->ranks[r], r, PURPOSE_PAIR, &own);
        if (peers[r] < 0)
            return own.code ? error_set(err, own.code, "%s", own.text)
                            : error_set(err, ERROR_SYSTEM,
                                        "cannot reach rank %d at %s, port %d", r,
                                        assembly->ranks[r].addresses[0],
                                        assembly->ranks[r].port);
    }
    while (left > 0) {
        int rank = accept_rank(assembly, PURPOSE_PAIR, 0.5, peers, &own);

        if (rank < 0 || is_stopped(assembly, &own))
            return error_set(err, own.code, "%s", own.text);
        left -= rank > 0;
        for (int i = 0; i < (world->rank == 0 ? world->size - 1 : 1); i++)
            if (!link_is_alive(links[i]))
                return error_set(err, ERROR_SYSTEM, LINK_OTHER_ENDED);
        if (rank == 0 && clock_seconds() > until)
            return error_set(err, ERROR_SYSTEM, "%d ranks did not connect to rank %d",
                             left, world->rank);
    }
    return true;
}

void assembly_end(struct assembly *assembly)
{
    if (assembly->listener >= 0)
        close(assembly->listener);
    if (assembly->world && assembly->world->rank == 0 && assembly->key[0])
        walk_unlink(assembly->file);
    callers_free(assembly->callers);
    free(assembly->ranks);
    *assembly = (struct assembly) { .listener = -1 };
}

void assembly_dismiss(const struct world *world, const char *file, const int *met,
                      const volatile sig_atomic_t *stop)
{
    int *links = memory_alloc((size_t)world->size * sizeof(*links));
    struct assembly assembly;
    struct error ignored = { 0 };

    assembly_init(&assembly, world, file);
    assembly.patience = DISMISS_SECONDS;
    assembly.dismisses = true;
    assembly.met = met;
    assembly_meet(&assembly, stop, NULL, links, &ignored);
    assembly_end(&assembly);
    for (int r = 1; r < world->size; r++)
        if (links[r - 1] >= 0)
            close(links[r - 1]);
    free(links);
}
