/*
 * runner/spool/examiner.c - forks examiners, sends them requests over a socket, and ends
 * those that exceed a limit.
 */
#include "config.h"

#include "runner/spool/examiner.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/user.h"
#include "runner/job/child_environment.h"
#include "runner/job/cluster_nodes.h"
#include "runner/job/containment.h"

extern char **environ;

/* Four jobs whose files are on a hung mount do not stop the others. */
enum { EXAMINERS_MAX = 4, DYING_MAX = 2 * EXAMINERS_MAX };
enum { OUT_OF_MEMORY = 3 }; /* the exit status of arena.c */

/* An examiner that holds on to more memory than this ends; the next job gets another. */
static const uint64_t keep_bytes = 32 << 20;

/*
 * A check takes milliseconds. Only counting a large corpus, which is another process with
 * a patience of 120 s (steps.c), takes longer. The headers of the largest known models
 * need 60 MiB.
 */
const struct examine_limits examine_limits = { .seconds = 180,
                                               .cpu_seconds = 20,
                                               .bytes = (size_t)512 << 20 };

struct examiner {
    pid_t pid;  /* 0: none */
    uid_t user; /* whose jobs it examines */
    int socket;
    bool busy;
    struct examine_request request;
    double deadline;
    struct machine machine; /* as it knows it */
    uint64_t version;       /* of the candidates that it knows */
};

struct examiners {
    const struct examine_how *how;
    struct examiner list[EXAMINERS_MAX];
    /* killed, and not gone yet: a process that waits for a disk cannot be killed */
    pid_t dying[DYING_MAX];
};

struct examiners *examiners_new(const struct examine_how *how)
{
    struct examiners *examiners = memory_alloc(sizeof(*examiners));

    examiners->how = how;
    return examiners;
}

/* ---- In the examiner ---- */

/* What is not for this user's programs may be in the environment. A list that is not freed
 * stays reachable. */
static bool take_user(const struct user *user, struct error *err)
{
    if (user_is_own(user->id))
        return true;
    environ = child_environment(user);
    return user_become(user, err);
}

/* In the folder of the watch, which is the only one that it writes to. */
static bool contain(const struct examine_how *how, struct error *err)
{
    if (how->contained)
        return containment_enter_examiner(how->machine, err);
    setenv("TRAINSPOOL_SANDBOX", "0", true); /* for the processes that it starts */
    return true;
}

/* Never return. It ends with the watch, or when the watch closes the socket. It keeps
 * the watch's mask of signals, so that only the watch ends it. */
static void serve(const struct examiners *examiners, int socket, const struct user *user,
                  pid_t watch)
{
    struct examine_request request;
    struct error none = { 0 };
    bool is_user =
        take_user(user, &none) &&
        cluster_nodes_detach(examiners->how->machine->cluster, socket, &none) &&
        contain(examiners->how, &none);
    uint64_t data = limits_data_bytes();

    /* only now: another user's process would forget it */
    if (!limits_end_with(watch))
        _exit(0);
    prctl(PR_SET_NAME, "trainspool-exam"); /* for ps */
    limits_no_core();
    limits_data(examiners->how->limits->bytes);
    while (recv(socket, &request, sizeof(request), 0) == (ssize_t)sizeof(request)) {
        struct examine_result result = { .end = EXAMINE_FAULT };

        limits_cpu(examiners->how->limits->cpu_seconds);
        if (is_user)
            examiners->how->examine(&request, examiners->how, &result);
        else
            result.err = none;
        if (send(socket, &result, sizeof(result), MSG_NOSIGNAL) < 0 ||
            limits_data_bytes() > data + keep_bytes || !is_user)
            break;
    }
    _exit(0);
}

/* Keep no lock of the watch: an examiner that hangs would hold it. */
static void close_others(int socket)
{
    if (socket > 3)
        close_range(3, (unsigned)socket - 1, 0);
    close_range((unsigned)socket + 1, ~0U, 0);
}

/* ---- In the watch ---- */

static uint64_t version_of(const struct examiners *examiners)
{
    return examiners->how->candidates ? examiners->how->candidates->version : 0;
}

static bool start(struct examiners *examiners, struct examiner *examiner, uid_t id,
                  struct error *err)
{
    const pid_t watch = getpid();
    struct user user;
    int ends[2];

    if (!user_find(id, &user, err))
        return false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return error_errno(err, "cannot create a socket pair");
    examiner->pid = fork();
    if (examiner->pid == 0) {
        close_others(ends[1]);
        serve(examiners, ends[1], &user, watch);
    }
    if (examiner->pid < 0) {
        error_errno(err, "cannot start a process");
        examiner->pid = 0;
        close(ends[0]);
    } else {
        examiner->socket = ends[0];
        examiner->machine = *examiners->how->machine;
        examiner->version = version_of(examiners);
        examiner->user = id;
    }
    close(ends[1]);
    return examiner->pid != 0;
}

static void reap_dying(struct examiners *examiners)
{
    for (size_t i = 0; i < DYING_MAX; i++)
        if (examiners->dying[i] && waitpid(examiners->dying[i], NULL, WNOHANG) != 0)
            examiners->dying[i] = 0;
}

/* Kill an examiner without waiting for its end. */
static void abandon(struct examiners *examiners, struct examiner *examiner)
{
    close(examiner->socket);
    kill(examiner->pid, SIGKILL);
    for (size_t i = 0; i < DYING_MAX; i++)
        if (!examiners->dying[i]) {
            examiners->dying[i] = examiner->pid;
            break;
        }
    *examiner = (struct examiner) { 0 };
    reap_dying(examiners);
}

void examiners_free(struct examiners *examiners)
{
    if (!examiners)
        return;
    for (size_t i = 0; i < EXAMINERS_MAX; i++)
        if (examiners->list[i].pid)
            abandon(examiners, &examiners->list[i]);
    free(examiners);
}

static size_t count_dying(const struct examiners *examiners)
{
    size_t count = 0;

    for (size_t i = 0; i < DYING_MAX; i++)
        count += examiners->dying[i] != 0;
    return count;
}

static struct examiner *find_busy(struct examiners *examiners, const char *name)
{
    for (size_t i = 0; i < EXAMINERS_MAX; i++)
        if (examiners->list[i].busy && strcmp(examiners->list[i].request.name, name) == 0)
            return &examiners->list[i];
    return NULL;
}

/* Jobs that hung before share one examiner. */
static bool may_examine(const struct examiners *examiners, bool suspect)
{
    size_t busy = count_dying(examiners);

    for (size_t i = 0; i < EXAMINERS_MAX; i++) {
        if (suspect && examiners->list[i].busy && examiners->list[i].request.suspect)
            return false;
        busy += examiners->list[i].busy;
    }
    return busy < EXAMINERS_MAX;
}

static struct examiner *find_idle(struct examiners *examiners, uid_t user)
{
    struct examiner *none = NULL, *other = NULL;

    for (size_t i = 0; i < EXAMINERS_MAX; i++) {
        struct examiner *examiner = &examiners->list[i];

        if (examiner->pid && !examiner->busy &&
            (examiner->version != version_of(examiners) ||
             memcmp(&examiner->machine, examiners->how->machine,
                    sizeof(struct machine)) != 0))
            abandon(examiners, examiner);
        if (examiner->pid && !examiner->busy && examiner->user == user)
            return examiner;
        if (examiner->pid && !examiner->busy)
            other = examiner;
        none = examiner->pid || none ? none : examiner;
    }
    if (none)
        return none;
    abandon(examiners, other);
    return other;
}

/* Give the request to an examiner that waits for one. Returns NULL with *err. */
static struct examiner *assign(struct examiners *examiners,
                               const struct examine_request *request, struct error *err)
{
    struct examiner *examiner = find_idle(examiners, request->user);

    if (examiner->pid &&
        send(examiner->socket, request, sizeof(*request), MSG_NOSIGNAL) < 0)
        abandon(examiners, examiner); /* it ended meanwhile */
    else if (examiner->pid)
        goto sent;
    if (!start(examiners, examiner, request->user, err))
        return NULL;
    if (send(examiner->socket, request, sizeof(*request), MSG_NOSIGNAL) < 0) {
        error_errno(err, "cannot reach the process that examines jobs");
        abandon(examiners, examiner);
        return NULL;
    }
sent:
    examiner->busy = true;
    examiner->request = *request;
    examiner->deadline = clock_seconds() + examiners->how->limits->seconds;
    return examiner;
}

/* Write why an examiner ended without an answer. Return whether that is the job's
 * fault. */
static bool describe_end(const struct examine_limits *limits, int status,
                         struct error *err)
{
    const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

    if (number == SIGXCPU)
        error_set(err, ERROR_DATA,
                  "checking it takes more than %g s of CPU time; look for a damaged or "
                  "very large file of the model",
                  limits->cpu_seconds);
    else if (number == 0 && WEXITSTATUS(status) == OUT_OF_MEMORY)
        error_set(err, ERROR_DATA,
                  "checking it takes more than %zu MiB of memory; look for a damaged or "
                  "very large file of the model",
                  limits->bytes >> 20);
    else if (number == 0 || number == SIGKILL || number == SIGTERM)
        return error_set(err, ERROR_FAULT, "the process that examined it ended");
    else
        error_set(err, ERROR_DATA,
                  "checking it ended with signal %d (%s); this is a bug in trainspool",
                  number, strsignal(number));
    return true;
}

/* An examiner ended without an answer. If that is the job's fault, let another one reject
 * the job, and return it; otherwise return NULL with *err. */
static struct examiner *replace(struct examiners *examiners, struct examiner *examiner,
                                struct error *err)
{
    struct examine_request request = examiner->request;
    struct error why = { 0 };
    int status = 0;
    bool by_job;

    close(examiner->socket);
    while (waitpid(examiner->pid, &status, 0) < 0 && errno == EINTR)
        ;
    *examiner = (struct examiner) { 0 };
    by_job = describe_end(examiners->how->limits, status, &why);
    if (!by_job || request.refused[0]) {
        error_set(err, ERROR_FAULT, "%s", why.text);
        return NULL;
    }
    snprintf(request.refused, sizeof(request.refused), "%.*s",
             (int)sizeof(request.refused) - 1, why.text);
    return assign(examiners, &request, err);
}

static void give_up(struct examiners *examiners, struct examiner *examiner,
                    struct examine_result *out)
{
    abandon(examiners, examiner);
    *out = (struct examine_result) { .end = EXAMINE_FAULT, .late = true };
    error_set(&out->err, ERROR_FAULT,
              "checking it did not end within %g s; look for a file system that does not "
              "answer",
              examiners->how->limits->seconds);
}

/* Wait for an answer until `until`, or until the deadline of the examiner. */
static bool collect(struct examiners *examiners, struct examiner *examiner, double until,
                    struct examine_result *out)
{
    for (;;) {
        const double end = fmin(until, examiner->deadline);
        struct pollfd answer = { examiner->socket, POLLIN, 0 };
        ssize_t got = recv(examiner->socket, out, sizeof(*out), MSG_DONTWAIT);
        double now = clock_seconds();

        if (got == (ssize_t)sizeof(*out)) {
            examiner->busy = false;
            return true;
        }
        if (got >= 0 || (errno != EAGAIN && errno != EINTR)) {
            *out = (struct examine_result) { .end = EXAMINE_FAULT };
            examiner = replace(examiners, examiner, &out->err);
            if (!examiner)
                return true;
        } else if (now >= examiner->deadline) {
            give_up(examiners, examiner, out);
            return true;
        } else if (now >= until) {
            return false;
        } else {
            poll(&answer, 1, (int)((end - now) * 1000) + 1);
        }
    }
}

enum examine_answer examiners_ask(struct examiners *examiners,
                                  const struct examine_request *request, double until,
                                  struct examine_result *out)
{
    struct examiner *examiner = find_busy(examiners, request->name);

    *out = (struct examine_result) { .end = EXAMINE_FAULT };
    reap_dying(examiners);
    if (!examiner && !may_examine(examiners, request->suspect))
        return EXAMINERS_FULL;
    if (!examiner) {
        examiner = assign(examiners, request, &out->err);
        if (examiner && examiners->how->meanwhile)
            examiners->how->meanwhile(examiners->how->context);
    }
    if (!examiner)
        return EXAMINERS_ANSWERED;
    return collect(examiners, examiner, until, out) ? EXAMINERS_ANSWERED : EXAMINERS_WORK;
}
