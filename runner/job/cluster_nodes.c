/* runner/job/cluster_nodes.c - runs sinfo, here or in another process, and keeps its
 * answers. */
#include "config.h"

#include "runner/job/cluster_nodes.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/spawn.h"
#include "patcher/schema/slurm_values.h"

enum { SINFO_MS = 5000, SINFO_BYTES = 1 << 20, CACHED = 16, PARTITION_SIZE = 260 };
static const double cached_seconds = 60;

struct answer {
    char partition[PARTITION_SIZE];
    char *lines;   /* NULL: `why` there are none */
    char why[200]; /* "" and no lines: unused */
    double at;
};

struct cluster_nodes {
    struct answer list[CACHED];
    int asker; /* the process that runs sinfo; -1: none */
};

struct cluster_nodes *cluster_nodes_new(void)
{
    struct cluster_nodes *nodes = memory_alloc(sizeof(*nodes));

    *nodes = (struct cluster_nodes) { .asker = -1 };
    return nodes;
}

static void forget(struct answer *answer)
{
    free(answer->lines);
    *answer = (struct answer) { .lines = NULL };
}

void cluster_nodes_free(struct cluster_nodes *nodes)
{
    for (size_t i = 0; nodes && i < CACHED; i++)
        forget(&nodes->list[i]);
    if (nodes && nodes->asker >= 0)
        close(nodes->asker);
    free(nodes);
}

/* ---- Running sinfo ---- */

static void note_failure(struct answer *answer, const struct spawn_result *result,
                         const struct text *errors)
{
    const char *line = errors->len > 0 ? errors->data : "";

    if (result->timed_out)
        snprintf(answer->why, sizeof(answer->why), "sinfo did not answer within %d s",
                 SINFO_MS / 1000);
    else
        snprintf(answer->why, sizeof(answer->why), "sinfo failed with status %d%s%.*s",
                 result->status, *line ? ": " : "", (int)strcspn(line, "\n"), line);
}

static void run_sinfo(struct answer *out)
{
    char *words[] = { "sinfo", "-h", "-o", "%G|%f", NULL, NULL, NULL };
    struct spawn_result result = { 0 };
    struct error err = { 0 };
    struct text lines, errors;

    if (out->partition[0]) {
        words[4] = "-p";
        words[5] = out->partition;
    }
    text_init(&lines, SINFO_BYTES);
    text_init(&errors, SINFO_BYTES);
    if (!spawn_capture(words, SINFO_MS, &lines, &errors, &result, &err))
        snprintf(out->why, sizeof(out->why), "%.190s", err.text);
    else if (result.timed_out || result.status != 0)
        note_failure(out, &result, &errors);
    else
        out->lines = memory_strdup(lines.len > 0 ? lines.data : "");
    text_clear(&errors);
    text_clear(&lines);
}

/* ---- Another process ---- */

/* What it answers, followed by the lines. */
struct reply {
    size_t len; /* SIZE_MAX: no lines */
    char why[200];
};

static bool write_all(int fd, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0) {
        ssize_t done = send(fd, at, len, MSG_NOSIGNAL);

        if (done < 0 && errno != EINTR)
            return false;
        at += done > 0 ? done : 0;
        len -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

/* Return false at the end of the stream, or at `until`. */
static bool read_all(int fd, void *data, size_t len, double until)
{
    char *at = data;

    while (len > 0) {
        struct pollfd poll_fd = { fd, POLLIN, 0 };
        const double left = until - clock_seconds();
        ssize_t got;

        if (left <= 0 ||
            poll(&poll_fd, 1, left > 60 ? 60000 : (int)(left * 1000) + 1) < 0)
            return false;
        if (!poll_fd.revents)
            continue;
        got = read(fd, at, len);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        at += got > 0 ? got : 0;
        len -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* Answer until the other end is closed.  The one who asks reads files of others, so its
 * words are checked again. */
static void serve(int socket)
{
    struct answer answer = { .lines = NULL };

    while (read_all(socket, answer.partition, sizeof(answer.partition), 1e18)) {
        struct reply reply = { .len = SIZE_MAX };
        bool ok;

        answer.partition[PARTITION_SIZE - 1] = '\0';
        if (answer.partition[0] && !slurm_is_name(answer.partition))
            break;
        run_sinfo(&answer);
        if (answer.lines)
            reply.len = strlen(answer.lines);
        memcpy(reply.why, answer.why, sizeof(reply.why));
        ok = write_all(socket, &reply, sizeof(reply)) &&
             (!answer.lines || write_all(socket, answer.lines, reply.len));
        forget(&answer);
        if (!ok)
            break;
    }
}

/* Return whether PATH has the program. */
static bool has_sinfo(void)
{
    const char *path = getenv("PATH");
    char name[1024];

    for (; path && *path; path += strcspn(path, ":"), path += *path == ':') {
        const size_t len = strcspn(path, ":");

        if (len > 0 && len < sizeof(name) - 8) {
            snprintf(name, sizeof(name), "%.*s/sinfo", (int)len, path);
            if (access(name, X_OK) == 0)
                return true;
        }
    }
    return false;
}

bool cluster_nodes_detach(struct cluster_nodes *nodes, int other, struct error *err)
{
    const pid_t parent = getpid();
    int ends[2];
    pid_t pid;

    if (!nodes || !has_sinfo())
        return true;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return error_errno(err, "cannot create a socket pair");
    pid = fork();
    if (pid == 0) {
        close(other);
        close(ends[0]);
        prctl(PR_SET_NAME, "trainspool-exam"); /* for ps */
        limits_no_core();
        if (limits_end_with(parent))
            serve(ends[1]);
        _exit(0);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return error_errno(err, "cannot start a process");
    }
    nodes->asker = ends[0];
    return true;
}

static void ask_asker(int *asker, struct answer *out)
{
    const double until = clock_seconds() + SINFO_MS / 1000.0 + 1;
    struct reply reply;
    bool ok = write_all(*asker, out->partition, sizeof(out->partition)) &&
              read_all(*asker, &reply, sizeof(reply), until) &&
              (reply.len == SIZE_MAX || reply.len <= SINFO_BYTES);

    if (ok && reply.len != SIZE_MAX) {
        out->lines = memory_alloc(reply.len + 1);
        ok = read_all(*asker, out->lines, reply.len, until);
        out->lines[ok ? reply.len : 0] = '\0';
    } else if (ok) {
        snprintf(out->why, sizeof(out->why), "%.*s", (int)sizeof(reply.why) - 1,
                 reply.why);
    }
    if (ok)
        return;
    free(out->lines);
    out->lines = NULL;
    snprintf(out->why, sizeof(out->why), "the process that runs sinfo does not answer");
    close(*asker); /* an answer that comes late is for another question */
    *asker = -1;
}

/* ---- Asking ---- */

static bool is_known(const struct answer *answer, const char *partition)
{
    return (answer->lines || answer->why[0]) && strcmp(answer->partition, partition) == 0;
}

/* Return the answer of the last minute, or the place for a new one. */
static struct answer *find(struct cluster_nodes *nodes, const char *partition)
{
    struct answer *oldest = &nodes->list[0];

    for (size_t i = 0; i < CACHED; i++) {
        if (is_known(&nodes->list[i], partition))
            return &nodes->list[i];
        if (nodes->list[i].at < oldest->at)
            oldest = &nodes->list[i];
    }
    return oldest;
}

static const char *take_lines(const struct answer *answer, struct arena *arena,
                              struct error *err)
{
    if (answer->lines)
        return arena_strdup(arena, answer->lines);
    error_set(err, ERROR_DEVICE, "%s", answer->why);
    return NULL;
}

const char *cluster_nodes_ask(struct cluster_nodes *nodes, const char *partition,
                              struct arena *arena, struct error *err)
{
    struct answer own = { .lines = NULL },
                  *answer = nodes ? find(nodes, partition) : &own;
    const char *lines;

    if (!is_known(answer, partition) || clock_seconds() - answer->at >= cached_seconds) {
        forget(answer);
        snprintf(answer->partition, sizeof(answer->partition), "%s", partition);
        if (nodes && nodes->asker >= 0)
            ask_asker(&nodes->asker, answer);
        else
            run_sinfo(answer);
        answer->at = clock_seconds();
    }
    lines = take_lines(answer, arena, err);
    if (!nodes)
        forget(&own);
    return lines;
}
