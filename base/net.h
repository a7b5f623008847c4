/*
 * base/net.h - TCP connections between the machines of a run, which are ends of links
 * (base/link.h).
 *
 * A machine that is lost sends nothing: connections probe an idle peer, and link_is_alive
 * returns false after NET_LOST_SECONDS without an answer.  A peer that only computes for
 * long answers, because its kernel does.
 */
#ifndef BASE_NET_H
#define BASE_NET_H

#include <stddef.h>

#include "base/error.h"

enum { NET_LOST_SECONDS = 15, NET_ADDRESS = 64 };

/* Listen on all addresses of this machine.  *port 0: any free port; set to the port in use.
 * Return a socket, close-on-exec, or -1. */
int net_listen(int *port, struct error *err);
/* Return a connection, close-on-exec.  -1 without an error: none came within the time. */
int net_accept(int listener, double seconds, struct error *err);
/* Connect to an address or a name.  Return a socket, close-on-exec, or -1. */
int net_connect(const char *address, int port, double seconds, struct error *err);

/* Write the addresses of this machine that others may reach, then those of the loopback
 * interface; return how many. */
size_t net_addresses(char out[][NET_ADDRESS], size_t room);

#endif
