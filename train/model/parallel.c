/* train/model/parallel.c - orders from rank 0, results and errors from the other
 * ranks. */
#include "config.h"

#include "train/model/parallel.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/link.h"

#define LAST_REPORT_SECONDS 2 /* to read what a rank wrote before it exited */
#define CAUSE_SECONDS       1 /* for the link of the first rank that ended to close */
#define AWAIT_MS            5
#define PIECE_NUMBERS       ((size_t)1 << 20)
#define TEXT_MAX            ((uint64_t)1 << 16)
#define MESSAGE_TEXT_MAX    ((uint64_t)8 << 20)

/* A message from a rank to rank 0: a head, then `bytes` bytes. */
enum message_kind {
    MESSAGE_NUMBERS,
    MESSAGE_MOMENTS,
    MESSAGE_TEXT,
    MESSAGE_ERROR,
    MESSAGE_STOP /* before another: this rank was asked to stop */
};
struct head {
    enum message_kind content;
    uint64_t bytes;
};

size_t parallel_rank(const struct backend_group *group)
{
    return group ? (size_t)group->rank : 0;
}

size_t parallel_ranks(const struct backend_group *group)
{
    return group ? (size_t)group->ranks : 1;
}

size_t parallel_share_count(const struct backend_group *group, size_t count)
{
    size_t ranks = parallel_ranks(group);

    return (count + ranks - 1 - parallel_rank(group)) / ranks;
}

static int other_ranks(const struct backend_group *group)
{
    return group && group->rank == 0 ? group->ranks - 1 : 0;
}

bool parallel_join(const struct backend_group *group, const struct plan *plan,
                   struct backend *be, struct error *err)
{
    struct backend_group joined;

    if (!group)
        return true;
    if (!be->ops->join)
        return error_set(err, ERROR_DEVICE,
                         "cannot use several GPUs: this build has no NCCL; configure "
                         "with nccl.h in the include path, or give ranks: 1");
    joined = *group;
    joined.sent = plan_sent_gradients(plan);
    return be->ops->join(be, &joined, err);
}

static bool send_order(const struct backend_group *group,
                       const struct parallel_order *order, struct error *err)
{
    for (int i = 0; i < other_ranks(group); i++)
        if (!link_send(group->links[i], order, sizeof(*order), 0, err))
            return false;
    return true;
}

bool parallel_send_order(const struct backend_group *group, enum parallel_work work,
                         struct error *err)
{
    return send_order(group, &(struct parallel_order) { .work = work }, err);
}

bool parallel_send_step(const struct backend_group *group, double rate, struct error *err)
{
    return send_order(
        group, &(struct parallel_order) { .work = PARALLEL_STEP, .rate = rate }, err);
}

bool parallel_send_load(const struct backend_group *group, int64_t step,
                        struct error *err)
{
    const struct parallel_order order = { .work = PARALLEL_LOAD_BEST,
                                          .span.first = (size_t)step };

    return send_order(group, &order, err);
}

bool parallel_send_save(const struct backend_group *group, int64_t step,
                        struct error *err)
{
    const struct parallel_order order = { .work = PARALLEL_SAVE,
                                          .span.first = (size_t)step };

    return send_order(group, &order, err);
}

bool parallel_receive_order(const struct backend_group *group, struct parallel_order *out,
                            struct error *err)
{
    return link_receive(group->links[0], out, sizeof(*out), 0, err);
}

bool parallel_order_waits(const struct backend_group *group)
{
    return link_has_data(group->links[0]);
}

static bool send_message(const struct backend_group *group, enum message_kind what,
                         const void *data, size_t bytes, struct error *err)
{
    const struct head head = { what, bytes }, stop = { MESSAGE_STOP, 0 };

    if (group->stop && *group->stop &&
        !link_send(group->links[0], &stop, sizeof(stop), 0, err))
        return false;
    return link_send(group->links[0], &head, sizeof(head), 0, err) &&
           link_send(group->links[0], data, bytes, 0, err);
}

/* Read the error of a rank, which it sent instead of the expected result. */
static bool receive_error(const struct backend_group *group, int other, double seconds,
                          struct error *err)
{
    struct error theirs;

    if (!link_receive(group->links[other], &theirs, sizeof(theirs), seconds, err))
        return false;
    theirs.text[sizeof(theirs.text) - 1] = '\0';
    return error_set(err, theirs.code, "rank %d: %.480s", other + 1, theirs.text);
}

static bool unexpected(int other, struct error *err)
{
    return error_set(err, ERROR_SYSTEM,
                     "rank %d sent an unexpected message; was trainspool-train "
                     "replaced while it started?",
                     other + 1);
}

/* Receive the head of an expected message. */
static bool receive_head(const struct backend_group *group, int other,
                         enum message_kind what, struct head *out, struct error *err)
{
    do {
        if (!link_receive(group->links[other], out, sizeof(*out), 0, err))
            return false;
        if (out->content == MESSAGE_STOP && group->stop && !*group->stop)
            *group->stop = SIGTERM;
    } while (out->content == MESSAGE_STOP);
    if (out->content == MESSAGE_ERROR)
        return receive_error(group, other, 0, err);
    return out->content == what || unexpected(other, err);
}

static bool receive_message(const struct backend_group *group, int other,
                            enum message_kind what, void *data, size_t bytes,
                            struct error *err)
{
    struct head head;

    if (!receive_head(group, other, what, &head, err))
        return false;
    return head.bytes == bytes ? link_receive(group->links[other], data, bytes, 0, err)
                               : unexpected(other, err);
}

bool parallel_send_text(const struct backend_group *group, const char *text,
                        struct error *err)
{
    return send_message(group, MESSAGE_TEXT, text, strlen(text) + 1, err);
}

bool parallel_receive_text(const struct backend_group *group, int rank, char **text,
                           struct error *err)
{
    struct head head;

    *text = NULL;
    if (!receive_head(group, rank - 1, MESSAGE_TEXT, &head, err))
        return false;
    if (head.bytes == 0 || head.bytes > MESSAGE_TEXT_MAX)
        return unexpected(rank - 1, err);
    *text = memory_alloc(head.bytes);
    if (!link_receive(group->links[rank - 1], *text, head.bytes, 0, err))
        return false;
    (*text)[head.bytes - 1] = '\0';
    return true;
}

bool parallel_await_text(const struct backend_group *group, int rank,
                         struct heartbeat *heartbeat, char **text, struct error *err)
{
    while (!link_has_data(group->links[rank - 1])) {
        heartbeat_tick(heartbeat);
        poll(NULL, 0, AWAIT_MS);
    }
    return parallel_receive_text(group, rank, text, err);
}

bool parallel_sum(const struct backend_group *group, double *numbers, size_t count,
                  struct error *err)
{
    double *theirs;
    bool ok = true;

    if (!group)
        return true;
    if (group->rank > 0)
        return send_message(group, MESSAGE_NUMBERS, numbers, count * sizeof(*numbers),
                            err);
    theirs = memory_alloc(count * sizeof(*theirs));
    for (int i = 0; ok && i < other_ranks(group); i++) {
        ok = receive_message(group, i, MESSAGE_NUMBERS, theirs, count * sizeof(*theirs),
                             err);
        for (size_t j = 0; ok && j < count; j++)
            numbers[j] += theirs[j];
    }
    free(theirs);
    return ok;
}

bool parallel_ready(const struct backend_group *group, struct error *err)
{
    double ready = 1;

    return parallel_sum(group, &ready, 1, err);
}

static bool send_text(const struct backend_group *group, const char *text,
                      struct error *err)
{
    uint64_t bytes = text ? strlen(text) + 1 : 0;

    for (int i = 0; i < other_ranks(group); i++)
        if (!link_send(group->links[i], &bytes, sizeof(bytes), 0, err) ||
            !link_send(group->links[i], text, bytes, 0, err))
            return false;
    return true;
}

bool parallel_share_text(const struct backend_group *group, char **text,
                         struct error *err)
{
    uint64_t bytes;

    if (!group)
        return true;
    if (group->rank == 0)
        return send_text(group, *text, err);
    *text = NULL;
    if (!link_receive(group->links[0], &bytes, sizeof(bytes), 0, err))
        return false;
    if (bytes == 0)
        return true;
    if (bytes > TEXT_MAX)
        return error_set(err, ERROR_SYSTEM, "rank 0 sent a text of %llu bytes",
                         (unsigned long long)bytes);
    *text = memory_alloc(bytes);
    return link_receive(group->links[0], *text, bytes, 0, err);
}

bool parallel_are_alive(const struct backend_group *group, struct error *err)
{
    for (int i = 0; i < other_ranks(group); i++)
        if (!link_is_alive(group->links[i]))
            return error_set(err, ERROR_SYSTEM, LINK_OTHER_ENDED);
    return true;
}

bool parallel_fetch(const void *context, const struct moment_span *span, void *to,
                    struct error *err)
{
    const struct backend_group *group = context;
    const struct parallel_order order = { .work = PARALLEL_FETCH, .span = *span };
    int other = (int)span->rank - 1;

    return link_send(group->links[other], &order, sizeof(order), 0, err) &&
           receive_message(group, other, MESSAGE_MOMENTS, to, span->bytes, err);
}

/* Send in pieces: a span may be as long as an embedding. */
bool parallel_serve_fetch(const struct backend_group *group, struct model *model,
                          const struct moment_span *span, struct error *err)
{
    const struct head head = { MESSAGE_MOMENTS, span->bytes };
    struct moment_span part = *span;
    void *numbers = memory_alloc(PIECE_NUMBERS * sizeof(double));
    bool ok = link_send(group->links[0], &head, sizeof(head), 0, err);

    for (size_t at = 0; ok && at < span->count; at += part.count) {
        part.first = span->first + at;
        part.count = span->count - at < PIECE_NUMBERS ? span->count - at : PIECE_NUMBERS;
        ok = model_read_span(model, &part, numbers, err) &&
             link_send(group->links[0], numbers, model_span_bytes(model, &part), 0, err);
    }
    free(numbers);
    return ok;
}

void parallel_report(const struct backend_group *group, const struct error *err)
{
    if (group && group->rank > 0)
        send_message(group, MESSAGE_ERROR, err, sizeof(*err), NULL);
}

/* Find the error that a rank sent last, and skip all messages before it. */
static bool read_last_error(const struct backend_group *group, int other,
                            struct error *err)
{
    struct error ignored = { 0 };
    struct head head;
    char rest[512];

    while (link_receive(group->links[other], &head, sizeof(head), LAST_REPORT_SECONDS,
                        &ignored)) {
        if (head.content == MESSAGE_ERROR) {
            receive_error(group, other, LAST_REPORT_SECONDS, err);
            return err->code != ERROR_NONE;
        }
        while (head.bytes > 0) {
            size_t part = head.bytes < sizeof(rest) ? head.bytes : sizeof(rest);

            if (!link_receive(group->links[other], rest, part, LAST_REPORT_SECONDS,
                              &ignored))
                return false;
            head.bytes -= part;
        }
    }
    return false;
}

/* What a rank reports that only found out that another one has ended. */
static bool is_consequence(const struct error *err)
{
    return strstr(err->text, LINK_OTHER_ENDED) != NULL;
}

/* Find a rank that has ended. Return whether it is the cause: it reported another error than
 * that a rank has ended, or none at all. *out: the last one that was found. */
static bool find_cause(const struct backend_group *group, bool seen[], struct error *out)
{
    for (int i = 0; i < other_ranks(group); i++) {
        struct error found = { 0 };

        if (seen[i] || link_is_alive(group->links[i]))
            continue;
        seen[i] = true;
        if (!read_last_error(group, i, &found))
            error_set(
                &found, ERROR_SYSTEM,
                "rank %d ended without reporting an error, or its machine does not answer",
                i + 1);
        *out = found;
        if (!is_consequence(&found))
            return true;
    }
    return false;
}

/* The ranks that notice the end of another may end before its own link does. */
void parallel_explain(const struct backend_group *group, struct error *err)
{
    const double until = clock_seconds() + CAUSE_SECONDS;
    bool *seen = memory_alloc((size_t)other_ranks(group) + 1);
    struct error found = { 0 };

    while (other_ranks(group) > 0 && !find_cause(group, seen, &found) &&
           clock_seconds() < until)
        poll(NULL, 0, 10);
    if (found.code != ERROR_NONE)
        *err = found;
    free(seen);
}
