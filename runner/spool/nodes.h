/*
 * runner/spool/nodes.h - the watches of several machines on one folder. Each is a node with
 * a name, and has files of its own in .trainspool/nodes:
 *
 *   NAME.lock  held by the watch: one per node
 *   NAME.beat  rewritten each second: a count, and how many jobs of each user run there
 *   NAME.json  what it shows of its devices (fleet_view.h)
 *   NAME.probe its devices, for which the others check jobs (candidates.h)
 *
 * Every node decides what runs on its devices. The lock of a job, and its state as read
 * under that lock, decide which of several nodes starts it. What one node does for all,
 * taking in jobs and recording the end of those of dead nodes, is done by the first by name
 * of those that live. While nodes disagree on which that is, two of them work; the locks and
 * states of the jobs keep that harmless.
 *
 * A node lives as long as others see its count change, by their own clocks. Where all
 * watches run in one machine, whose locks all of them see, its lock must be held, too.
 */
#ifndef RUNNER_SPOOL_NODES_H
#define RUNNER_SPOOL_NODES_H

#include "base/log.h"
#include "runner/spool/people.h"

enum { NODE_NAME_ROOM = 65 };
#define NODE_BEAT_SECONDS 1
/* Return after how many seconds without a beat a node is dead: 10, or a shorter lease
 * (base/shared_files.h). */
double nodes_silence(void);

/* Functions accept NULL: the watch has the folder to itself. */
struct nodes;

/* Write the name of this machine, as far as it can be that of a node. */
void nodes_host(char out[NODE_NAME_ROOM]);
/* Fail with ERROR_USAGE if it cannot be the name of a node. */
bool nodes_name_is_valid(const char *name, struct error *err);

/* The devices of a node. */
struct node_devices {
    const char *node;
    const struct probe *probe;
    bool cpu; /* its watch uses the CPU, too */
};

/* Take the place of a node; the spool is the current directory, with the folder of
 * the files.  own: what the others see of it.  local: all watches run in this machine. NULL: *busy, another watch has the place, or
 * *err. */
struct nodes *nodes_open(const char *name, const struct node_devices *own, bool local,
                         struct log *log, bool *busy, struct error *err);
/* Leave: the others need not wait for a beat. */
void nodes_close(struct nodes *nodes);

/* Look at the others and beat, when it is time; *running: what this node runs. Return whether
 * others came or went, or the lead changed. */
bool nodes_poll(struct nodes *nodes, const struct people *running);
/* Return when to call it again, by clock_seconds. */
double nodes_due(const struct nodes *nodes);

/* Return the name of this node; "" alone. */
const char *nodes_name(const struct nodes *nodes);
bool nodes_lead(const struct nodes *nodes);
/* Return whether the watch of that node lives; this one does. */
bool nodes_live(const struct nodes *nodes, const char *name);

/* List those of the nodes that live, up to `room`; return how many. They are valid until the
 * next call that looks at the nodes. */
size_t nodes_devices(const struct nodes *nodes, struct node_devices out[], size_t room);

/* Note a job that another node runs; node "": it no longer does. */
void nodes_note_job(struct nodes *nodes, const char *job, const char *node, uid_t user);
/* Add the jobs that other nodes run to those of their owners. */
void nodes_count(const struct nodes *nodes, struct people *people);

/*
 * The turn: the right to choose jobs where limits count the jobs of all nodes. Taking it
 * reads what the others run; the next one to have it reads what this one then runs. Return false if another node has it: try again soon.
 */
bool nodes_take_turn(struct nodes *nodes);
void nodes_end_turn(struct nodes *nodes, const struct people *running);

#endif
