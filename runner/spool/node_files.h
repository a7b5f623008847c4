/* runner/spool/node_files.h - the files of the nodes of a spool, in .trainspool/nodes. */
#ifndef RUNNER_SPOOL_NODE_FILES_H
#define RUNNER_SPOOL_NODE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "precision/probe.h"
#include "runner/spool/spool.h"

#define NODE_FILES SPOOL_INNER "/nodes"

/* Return the path of a file of a node of a spool, malloc'ed. */
char *node_file(const char *spool, const char *node, const char *ending);
/* Call a function for each node that has a beat. */
void node_files_each(const char *spool, void (*node)(void *context, const char *name),
                     void *context);
/* Remove all files of a node but its lock, which its watch holds. */
void node_files_remove(const char *spool, const char *node);

/* What a node shows to the others. Zeroed at first. */
struct node_beat {
    uint64_t count;
    uint64_t start;   /* differs for each watch of the node */
    char machine[40]; /* distinguishes machines of one name; "": not known */
    struct node_user {
        uid_t id;
        size_t running;
    } * user; /* malloc'ed */
    size_t users;
};

/* Write the identity of this machine. */
void node_machine(char out[40]);
void node_beat_add(struct node_beat *beat, uid_t user, size_t running);
void node_beat_clear(struct node_beat *beat); /* forgets the users alone */
bool node_beat_write(int fd, const struct node_beat *beat);
/* Return false, with errno, if there is none, or one that is just being written. */
bool node_beat_read(const char *spool, const char *node, struct node_beat *out);

/* Write, read the devices of a node; cpu: its watch uses the CPU. */
bool node_probe_write(const char *node, const struct probe *probe, bool cpu,
                      struct error *err);
bool node_probe_read(const char *spool, const char *node, struct probe *out, bool *cpu);

#endif
