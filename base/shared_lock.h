/*
 * base/shared_lock.h - a lock among the processes of several machines.
 *
 * On a local file system this is the lock of base/file.h, and nothing else.  On a shared one
 * flock(2) may mean nothing to another machine: NFS mounted with `nolock` or
 * `local_lock=all`, and sshfs, grant it to each.  There the holder also has a lease: the
 * file NAME.N next to the lock NAME, with the machine of its holder and a count.
 *
 *   - To take the lock, a process takes the flock, and creates NAME.N+1, where N is the
 *     highest number there is.  Only one can: the file gets its name by link(2) or
 *     renameat2(2), which are atomic everywhere.
 *   - The holder increases the count every lease / 12 seconds.
 *   - The lease is free if its file says so, or if the flock is free and its holder was on
 *     this machine, since it was started.  A holder on another machine is dead when a process has
 *     seen no change of the file for a whole lease, by its own clock.
 *   - A holder that could not increase the count for 2/3 of a lease stops itself, and
 *     until then changes no name in any folder without a look at the clock.  One that does
 *     not keep it (below) changes no name in any folder from then on, until it unlocks it.
 *
 * Clocks of machines are not compared.  Guaranteed, if flock is local: two machines never
 * both hold the lock, provided that (1) the file system shows a process what others wrote,
 * when it opens the file again, within 1/3 of a lease, and (2) a system call that changes a
 * name takes no longer than that once it has begun.  If flock works among the machines, that
 * is not needed.  Not covered: a process that is stopped between its look at the clock and
 * the system call that follows, for longer than that; containers on one machine that have
 * the same host name, but different mounts of a file system whose flock is local.
 *
 * All functions may be called by any thread.  A process that keeps leases must not fork
 * without exec; a child that is forked holds none.
 */
#ifndef BASE_SHARED_LOCK_H
#define BASE_SHARED_LOCK_H

#include <stdbool.h>

#include "base/error.h"

enum { SHARED_HOST = 65 };

/* As file_lock.  Also busy while the holder on another machine may live: call it again to
 * find out, from a process that stays. */
int shared_lock(const char *name, bool *busy, struct error *err);
/* Close the descriptor, and let other machines take the lock at once. */
void shared_unlock(int fd, const char *name);
/* Close the descriptor; a child that inherited it holds the lock from now on. */
void shared_lock_pass(int fd, const char *name);
/* Hold the lock that the parent passed with the descriptor, and has renewed within 2/3 of a
 * lease. */
bool shared_lock_adopt(int fd, const char *name, struct error *err);

/* Keep the lease of a lock until it is unlocked: needed to hold it for longer than some
 * seconds, by threads of base/ticks.h.  lost() is called in any thread as soon as it is lost, and before the next change
 * of a name (base/walk.h) in this process; it must not return. */
bool shared_lock_keep(const char *name, void (*lost)(const char *why), struct error *err);

/* As file_is_locked, for holders on any machine. */
bool shared_is_locked(const char *name);
/* Of a lock that is busy: return whether another machine has its lease, which gave no sign of
 * life since this process saw it first.  shared_lock() gets it after a whole lease of that. */
bool shared_lock_is_doubtful(const char *name);
/* Write the host of the machine that holds the lease, or "": this one, or it is not known. */
void shared_lock_holder(const char *name, char host[SHARED_HOST]);

#endif
