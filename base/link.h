/*
 * base/link.h - a socket between two processes of one run: bytes, a descriptor, and the
 * news that the other has ended.
 *
 * `seconds` is the longest wait for the other side, 0: as long as it lives.  A peer that
 * has ended is ERROR_SYSTEM at once, however it ended.
 */
#ifndef BASE_LINK_H
#define BASE_LINK_H

#include "base/error.h"

/* Two connected ends, both closed on exec. */
bool link_pair(int ends[2], struct error *err);

bool link_send(int end, const void *data, size_t bytes, double seconds,
               struct error *err);
bool link_receive(int end, void *data, size_t bytes, double seconds, struct error *err);

/* Hand an open file over; the receiver's copy is its own, closed on exec, -1 on
 * failure. */
bool link_send_file(int end, int file, double seconds, struct error *err);
int link_receive_file(int end, double seconds, struct error *err);

/* false: the other side has ended (what it sent before can still be read). */
bool link_alive(int end);

#endif
