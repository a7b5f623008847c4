/*
 * runner/cluster/assembly.h - the ranks that a launcher started find each other, over TCP.
 *
 * Rank 0 listens, and writes its addresses, its port and two random keys into a file that
 * only its user can read. The others wait for that file and connect. A file that an earlier
 * start left, and a program that does not have the keys, is ignored.
 */
#ifndef RUNNER_CLUSTER_ASSEMBLY_H
#define RUNNER_CLUSTER_ASSEMBLY_H

#include <signal.h>

#include "base/log.h"
#include "base/net.h"
#include "runner/cluster/world.h"

enum {
    ASSEMBLY_SECONDS =
        600,           /* for all ranks to arrive: schedulers start nodes one by one */
    ASSEMBLY_KEY = 32, /* hexadecimal digits: 128 random bits */
    ASSEMBLY_ADDRESSES = 8
};

/* Where a rank listens. */
struct endpoint {
    char host[96]; /* names the machine and its network: its loopback reaches that rank */
    char addresses[ASSEMBLY_ADDRESSES][NET_ADDRESS]; /* "": none */
    int port;
};

struct assembly {
    const struct world *world;
    const char *file;
    char key[ASSEMBLY_KEY + 1],
        reply[ASSEMBLY_KEY + 1]; /* of who calls, and who answers */
    int listener;
    struct callers *callers;
    const volatile sig_atomic_t *stop;
    /* of rank 0, which meets the others only to end them; set before meeting */
    bool dismisses;
    const int *met; /* links to ranks that need no dismissal, -1 for others; NULL: none */
    struct endpoint *ranks; /* of rank 0: all; others: all after assembly_share */
    double patience;        /* seconds; ASSEMBLY_SECONDS unless changed before meeting */
};

/* `world` and `file` are borrowed.  Call assembly_end in any case. */
void assembly_init(struct assembly *assembly, const struct world *world,
                   const char *file);

/*
 * Every rank: links to the ranks as in struct backend_group, which the caller closes; all
 * are -1 before.  Rank 0 returns when all others have connected.  `log` may be NULL.
 *
 * ERROR_SYSTEM names the ranks that did not arrive in time, or why a rank cannot take part:
 * another version of this program, another number of ranks.  ERROR_STOPPED if *stop.
 */
bool assembly_meet(struct assembly *assembly, const volatile sig_atomic_t *stop,
                   struct log *log, int links[], struct error *err);
/* Every rank, at the same time: connect each pair. peers has a socket for each other rank,
 * and -1 for this one; the caller closes them. */
bool assembly_connect_pairs(struct assembly *assembly, const int links[], int peers[],
                            struct error *err);
/* Stop listening; rank 0 removes the file. */
void assembly_end(struct assembly *assembly);
/* Rank 0, which cannot meet the others: end those that wait for it, and come within ten
 * seconds. met: as in struct assembly. */
void assembly_dismiss(const struct world *world, const char *file, const int *met,
                      const volatile sig_atomic_t *stop);

#endif
