/* runner/spool/spool_nodes.c - the part of a spool that shares the folder with the watches of
 * other machines. */
#include "config.h"

#include "runner/spool/spool_inside.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/shared_files.h"
#include "runner/spool/fleet_use.h"

static const double turn_again = 0.05; /* seconds */

void spool_nodes_choose(struct spool *spool)
{
    spool->node[0] = 0;
    if (spool->asked_node)
        snprintf(spool->node, sizeof(spool->node), "%s", spool->asked_node);
    else if (shared_files(spool->dir))
        nodes_host(spool->node);
    spool->turn_at = INFINITY;
}

static void find_candidates(struct spool *spool)
{
    candidates_make(&spool->candidates, spool->how.machine, spool->nodes);
    spool->intake.candidates = spool->how.candidates = &spool->candidates;
}

bool spool_nodes_open(struct spool *spool, bool *busy, struct error *err)
{
    if (!spool->node[0])
        return true;
    spool->nodes =
        nodes_open(spool->node,
                   &(struct node_devices) { .node = spool->node,
                                            .probe = &spool->how.machine->probe,
                                            .cpu = spool->fleet->devices[0].usable },
                   !shared_files(spool->dir), spool->intake.log, busy, err);
    spool->intake.nodes = spool->nodes;
    spool->fleet->nodes = spool->nodes;
    if (spool->nodes)
        find_candidates(spool);
    return spool->nodes != NULL;
}

void spool_nodes_close(struct spool *spool)
{
    nodes_close(spool->nodes);
    spool->nodes = NULL;
    spool->intake.nodes = NULL;
    spool->intake.candidates = spool->how.candidates = NULL;
    candidates_clear(&spool->candidates);
    spool->fleet->nodes = NULL;
}

void spool_nodes_poll(struct spool *spool)
{
    if (clock_seconds() < nodes_due(spool->nodes))
        return;
    if (spool->fleet->people.on)
        fleet_use_count(spool->fleet);
    if (nodes_poll(spool->nodes, &spool->fleet->people)) {
        spool->scan_at = fmin(spool->scan_at, spool->rest_until);
        spool->woken = true;
        find_candidates(spool);
    }
}

/* Only limits that count jobs of all nodes need it. */
bool spool_nodes_take_turn(struct spool *spool)
{
    const bool may = !spool->fleet->people.on || queue_count(&spool->intake.queue) == 0 ||
                     nodes_take_turn(spool->nodes);

    spool->turn_at = may ? INFINITY : clock_seconds() + turn_again;
    return may;
}

void spool_end_turn(struct spool *spool)
{
    if (!spool->nodes || !spool->fleet->people.on)
        return;
    fleet_use_count(spool->fleet);
    nodes_end_turn(spool->nodes, &spool->fleet->people);
}

const char *spool_node(const struct spool *spool)
{
    return spool->node;
}

bool spool_leads(const struct spool *spool)
{
    return nodes_lead(spool->nodes);
}
