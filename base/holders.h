/*
 * base/holders.h - the processes that hold the lock (flock) of a file, as proc(5) shows
 * them, what they do, and where they are.
 *
 * No process id is stored anywhere: a process gets a signal only if it holds the lock at
 * that time.  Its pidfd is opened before this is verified, so that the signal cannot
 * reach another process that got the same id.
 */
#ifndef BASE_HOLDERS_H
#define BASE_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct holders {
    size_t count;
    bool stopped;   /* all of them, by a signal such as SIGSTOP or by a debugger */
    bool blocked;   /* some wait in the kernel, for a disk for example */
    double seconds; /* of processor time that all of them used */
};

/* Look at the processes that hold the lock of an open file. */
void holders_read(int fd, struct holders *out);
/* Send a signal to each of them; SIGTERM as stop_ask does.  Return how many got it. */
size_t holders_signal(int fd, int number);
/* Write the path of the control group (version 2) that one of them is in, as in
 * /proc/PID/cgroup.  Return false if that is not known. */
bool holders_group(int fd, char *out, size_t room);

#endif
