/*
 * bench/delay_link.c - joins two network namespaces by a link with a delay and a rate, for
 * kernels without sch_netem.
 *
 *     delay_link NAMESPACE INTERFACE NAMESPACE INTERFACE MICROSECONDS MBIT
 *
 * Makes a TUN interface in each namespace (a file such as /run/netns/NAME), and copies packets
 * between them until it is killed: each leaves MICROSECONDS after the link has sent it, at
 * MBIT megabits per second (0: as fast as it can).  It prints "up" when the interfaces exist;
 * the script that started it then sets their addresses.  The exit status is 77 if the system does not
 * allow it.  A link without a rate passes about 1.5 Gbit/s, and takes a core.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    PACKET_MAX = 16064,
    PACKETS = 8192, /* in flight in one direction */
    QUEUE_NANOSECONDS =
        50000000, /* that wait here for their turn; others in the kernel */
    SKIP = 77
};

struct packet {
    int64_t due; /* nanoseconds */
    ssize_t bytes;
    char *data;
};

/* One direction: a ring of packets, of which head is the oldest. */
struct direction {
    int from, to;
    int64_t free_at; /* when the link has sent what it has */
    unsigned head, tail;
    struct packet ring[PACKETS];
};

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void stop(const char *what)
{
    fprintf(stderr, "delay_link: %s: %s\n", what, strerror(errno));
    exit(SKIP);
}

static int make_interface(const char *namespace, const char *name)
{
    struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
    int space = open(namespace, O_RDONLY | O_CLOEXEC);
    int fd;

    if (space < 0 || setns(space, CLONE_NEWNET) != 0)
        stop(namespace);
    close(space);
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        stop("/dev/net/tun");
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (ioctl(fd, TUNSETIFF, &request) != 0)
        stop(name);
    return fd;
}

/* Take packets from an interface. Return whether there was one. */
static int take(struct direction *way, int64_t delay, double nanoseconds_per_byte)
{
    int64_t start = now();
    int any = 0;

    while (way->tail - way->head < PACKETS && way->free_at - start <= QUEUE_NANOSECONDS) {
        struct packet *packet = &way->ring[way->tail % PACKETS];

        packet->bytes = read(way->from, packet->data, PACKET_MAX);
        if (packet->bytes <= 0)
            break;
        if (way->free_at < start)
            way->free_at = start;
        way->free_at += (int64_t)((double)packet->bytes * nanoseconds_per_byte);
        packet->due = way->free_at + delay;
        way->tail++;
        any = 1;
    }
    return any;
}

/* Pass on what is due.  A packet that the other interface has no room for is lost. */
static int pass_on(struct direction *way)
{
    int64_t time = now();
    int any = 0;

    while (way->head != way->tail && way->ring[way->head % PACKETS].due <= time) {
        struct packet *packet = &way->ring[way->head++ % PACKETS];

        if (write(way->to, packet->data, (size_t)packet->bytes) < 0 && errno != EAGAIN &&
            errno != EIO && errno != EINVAL)
            stop("cannot write a packet");
        any = 1;
    }
    return any;
}

static void wait_for_any(struct direction ways[2])
{
    struct pollfd polls[2];
    int64_t time = now(), next = time + 1000000000;
    struct timespec left;

    for (int d = 0; d < 2; d++) {
        const struct direction *way = &ways[d];
        bool full =
            way->tail - way->head == PACKETS || way->free_at - time > QUEUE_NANOSECONDS;

        polls[d] = (struct pollfd) { .fd = full ? -1 : way->from, .events = POLLIN };
        if (way->head != way->tail && way->ring[way->head % PACKETS].due < next)
            next = way->ring[way->head % PACKETS].due;
    }
    if (next < time)
        next = time;
    left = (struct timespec) { .tv_sec = (next - time) / 1000000000,
                               .tv_nsec = (next - time) % 1000000000 };
    ppoll(polls, 2, &left, NULL);
}

int main(int argc, char **argv)
{
    static struct direction ways[2];
    double rate = argc == 7 ? atof(argv[6]) : 0;
    int64_t delay = argc == 7 ? atoll(argv[5]) * 1000 : 0;

    if (argc != 7) {
        fprintf(stderr, "usage: delay_link NAMESPACE INTERFACE NAMESPACE INTERFACE "
                        "MICROSECONDS MBIT\n");
        return 2;
    }
    ways[0].from = ways[1].to = make_interface(argv[1], argv[2]);
    ways[1].from = ways[0].to = make_interface(argv[3], argv[4]);
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < PACKETS; i++)
            if (!(ways[d].ring[i].data = malloc(PACKET_MAX)))
                stop("memory");
    prctl(PR_SET_PDEATHSIG, 15);
    prctl(PR_SET_TIMERSLACK, 1L);
    puts("up");
    fflush(stdout);
    for (;;) {
        int any = 0;

        for (int d = 0; d < 2; d++) {
            any |= take(&ways[d], delay, rate > 0 ? 8000 / rate : 0);
            any |= pass_on(&ways[d]);
        }
        if (!any)
            wait_for_any(ways);
    }
}
