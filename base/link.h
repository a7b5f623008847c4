/*
 * base/link.h - a socket between two processes of one run, on this machine (link_pair) or
 * on two (base/net.h): bytes, a descriptor, and detection of the other process's end.
 * `seconds` is the longest wait for the other side; 0 waits as long as it lives.  A peer
 * that has ended is ERROR_SYSTEM at once, however it ended.
 */
#ifndef BASE_LINK_H
#define BASE_LINK_H

#include "base/error.h"

/* The error of a process that notices the end of another. */
#define LINK_OTHER_ENDED "another process of this run has ended"

/* Create two connected sockets, both close-on-exec. */
bool link_pair(int ends[2], struct error *err);

bool link_send(int end, const void *data, size_t bytes, double seconds,
               struct error *err);
bool link_receive(int end, void *data, size_t bytes, double seconds, struct error *err);

/* Pass an open file to a process of this machine; the receiver gets its own descriptor, close-on-exec, or -1 on
 * failure. */
bool link_send_file(int end, int file, double seconds, struct error *err);
int link_receive_file(int end, double seconds, struct error *err);

/* Return whether link_receive would not wait: there are data, or the other side ended. */
bool link_has_data(int end);
/* false: the other side has ended (data it sent earlier can still be read). */
bool link_is_alive(int end);

#endif
