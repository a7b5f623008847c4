/*
 * base/outlet.h - output that never stops its writer: lines go into a buffer of fixed
 * size, and a thread writes them to a descriptor of any kind, which may be a full pipe,
 * a stopped terminal, a full disk or a closed socket.  Lines that do not fit
 * or cannot be written are dropped and counted.
 */
#ifndef BASE_OUTLET_H
#define BASE_OUTLET_H

#include <stdbool.h>
#include <stddef.h>

struct outlet;

/* Write a line with its newline that says that `lines` lines were dropped here.  Runs in
 * the thread. */
typedef void outlet_notice(int fd, size_t lines, char *out, size_t room);

/* fd stays open until outlet_free has returned. */
struct outlet *outlet_new(int fd, size_t bytes, outlet_notice *notice);
/* Add whole lines, each with its newline. */
void outlet_add(struct outlet *outlet, const char *lines, size_t len);
/* Write what is not written yet, and everything later, to another descriptor.  Close the
 * previous one, once a write to it has returned, or leave it to the caller. */
void outlet_redirect(struct outlet *outlet, int fd, bool close_previous);
/* Wait until everything is written, but not longer than `seconds` without progress.  A
 * write that does not return keeps its descriptor. */
void outlet_free(struct outlet *outlet, double seconds);

#endif
