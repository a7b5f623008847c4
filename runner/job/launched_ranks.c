/* runner/job/launched_ranks.c - what rank 0 sends before a run, and the other ranks. */
#include "config.h"

#include "runner/job/launched_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/link.h"
#include "runner/cluster/assembly.h"
#include "runner/job/containment.h"
#include "runner/job/launched.h"
#include "runner/output/report.h"
#include "train/model/parallel.h"

enum { FINISH_SECONDS = 5 }; /* to send the last word to one rank */

/* Before the text of the job. */
struct brief {
    uint64_t bytes;
    enum device_kind kind;
    bool no_onednn, no_sandbox;
};

/* ---- Rank 0 ---- */

static bool send_brief(const struct launched_start *start, const struct ranks *ranks,
                       struct error *err)
{
    const struct brief brief = { .bytes = start->text->len,
                                 .kind = start->machine->device.kind,
                                 .no_onednn = start->options->no_onednn,
                                 .no_sandbox = start->options->no_sandbox };

    for (int r = 1; r < start->world->size; r++)
        if (!link_send(ranks->links[r - 1], &brief, sizeof(brief), 0, err) ||
            !link_send(ranks->links[r - 1], start->text->data, start->text->len, 0, err))
            return false;
    return true;
}

/* CPUs connect each pair of ranks; NCCL connects GPUs. */
static bool connect_pairs(struct assembly *assembly, enum device_kind kind,
                          const int *links, int **peers, struct error *err)
{
    if (kind != DEVICE_CPU)
        return true;
    *peers = memory_alloc((size_t)assembly->world->size * sizeof(**peers));
    return assembly_connect_pairs(assembly, links, *peers, err);
}

bool launched_ranks_meet(const struct launched_start *start, struct ranks *out,
                         struct error *err)
{
    const size_t size = (size_t)start->world->size;
    char *file = launched_file(start->job);
    struct assembly assembly;
    bool met, ok;

    *out = (struct ranks) { .group = { .ranks = (int)size },
                            .links = memory_alloc(size * sizeof(*out->links)) };
    assembly_init(&assembly, start->world, file);
    met = assembly_meet(&assembly, start->stop, start->log, out->links, err);
    ok = met && send_brief(start, out, err) &&
         connect_pairs(&assembly, start->machine->device.kind, out->links, &out->peers,
                       err);
    out->group.links = out->links;
    out->group.peers = out->peers;
    if (met && !ok && err->code != ERROR_STOPPED)
        parallel_explain(&out->group, err);
    assembly_end(&assembly);
    if (!met && err->code != ERROR_STOPPED)
        assembly_dismiss(start->world, file, out->links, start->stop);
    free(file);
    if (ok)
        log_line(start->log, LOG_INFO, "ranks: %d on %d machine%s, started by %s",
                 start->world->size, start->world->nodes,
                 start->world->nodes == 1 ? "" : "s", start->world->launcher);
    return ok;
}

bool launched_ranks_begin(const struct ranks *ranks, int64_t zero_stage,
                          struct error *err)
{
    for (int r = 1; r < ranks->group.ranks; r++)
        if (!link_send(ranks->links[r - 1], &zero_stage, sizeof(zero_stage), 0, err)) {
            parallel_explain(&ranks->group, err);
            return false;
        }
    return true;
}

void launched_ranks_finish(const struct ranks *ranks, int status)
{
    const int32_t last = status;

    for (int r = 1; ranks->links && !ranks->children && r < ranks->group.ranks; r++)
        if (ranks->links[r - 1] >= 0)
            link_send(ranks->links[r - 1], &last, sizeof(last), FINISH_SECONDS, NULL);
}

/* ---- The other ranks ---- */

/* Receive what rank 0 sends before the run. */
static bool receive(int link, void *data, size_t bytes, struct error *err)
{
    return link_receive(link, data, bytes, 0, NULL) ||
           error_set(err, ERROR_SYSTEM,
                     "rank 0 ended before the run began: see what it printed");
}

static bool receive_brief(int link, struct brief *brief, struct text *text,
                          struct error *err)
{
    char *data;
    bool ok;

    if (!receive(link, brief, sizeof(*brief), err))
        return false;
    if (brief->bytes > DOCUMENT_MAX_BYTES)
        return error_set(err, ERROR_SYSTEM, "rank 0 sent a job of %llu bytes",
                         (unsigned long long)brief->bytes);
    data = memory_alloc(brief->bytes + 1);
    ok = receive(link, data, brief->bytes, err);
    if (ok)
        text_add(text, data, brief->bytes);
    free(data);
    return ok;
}

static bool receive_stage(void *context, int64_t *out, struct error *err)
{
    const int *link = context;

    return receive(*link, out, sizeof(*out), err);
}

/* Connect to the other ranks. */
static bool connect_followers(struct assembly *assembly, enum device_kind kind, int *link,
                              int **peers, struct error *err)
{
    const struct backend_group group = { .rank = assembly->world->rank, .links = link };

    if (connect_pairs(assembly, kind, link, peers, err))
        return true;
    if (err->code != ERROR_STOPPED)
        parallel_report(&group, err);
    return false;
}

/* Contain this rank as rank 0 contains itself, and train. */
static bool work(const struct world *world, struct machine *machine,
                 const struct job *job, const struct brief *brief,
                 const struct text *text, struct backend_group *group, struct error *err)
{
    struct containment containment = { .on = !brief->no_sandbox, .machine = machine };
    const struct rank_work how = { .group = *group,
                                   .machine = machine,
                                   .job = job,
                                   .text = text,
                                   .containment = &containment,
                                   .no_onednn = brief->no_onednn,
                                   .stage = receive_stage,
                                   .context = (void *)group->links };

    if (launched_name_device(world, brief->kind, machine, err) &&
        containment_enter(&containment, job, text, NULL, err))
        return rank_work(&how, err);
    parallel_report(&how.group, err);
    return false;
}

/* Return the exit status of rank 0, which may still write the model. */
static int wait_for_status(int link, struct error *err)
{
    int32_t status;

    if (link_receive(link, &status, sizeof(status), 0, NULL))
        return status;
    error_set(err, ERROR_SYSTEM, "rank 0 ended before the job did: see what it printed");
    return report_training_exit(err->code);
}

static void close_peers(const struct world *world, int *peers)
{
    for (int r = 0; peers && r < world->size; r++)
        if (peers[r] >= 0)
            close(peers[r]);
    free(peers);
}

int launched_ranks_follow(const struct options *options, const struct world *world,
                          const struct machine *machine, volatile sig_atomic_t *stop,
                          struct error *err)
{
    struct machine own = *machine;
    struct assembly assembly;
    struct brief brief;
    struct text text;
    struct job job;
    int link, *peers = NULL;
    struct backend_group group = { .rank = world->rank, .links = &link, .stop = stop };
    char *file;
    int status = EXIT_FINE;
    bool ok;

    job_init(&job, options->operands[0]);
    text_init(&text, DOCUMENT_MAX_BYTES);
    file = launched_file(&job);
    assembly_init(&assembly, world, file);
    ok = assembly_meet(&assembly, stop, NULL, &link, err) &&
         receive_brief(link, &brief, &text, err) &&
         connect_followers(&assembly, brief.kind, &link, &peers, err);
    assembly_end(&assembly);
    rank_ignore_signals(
        SIGTERM); /* a scheduler may drain the machine of this rank alone */
    group.peers = peers;
    ok = ok && work(world, &own, &job, &brief, &text, &group, err);
    if (ok)
        status = wait_for_status(link, err);
    close_peers(world, peers);
    if (link >= 0)
        close(link);
    free(file);
    text_clear(&text);
    job_clear(&job);
    if (err->code && err->code != ERROR_STOPPED)
        report_error(options->program, err);
    return ok ? status : report_training_exit(err->code);
}
