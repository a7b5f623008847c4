/*
 * base/shared_files.h - file systems that other machines may use at the same time.
 */
#ifndef BASE_SHARED_FILES_H
#define BASE_SHARED_FILES_H

#include <stdbool.h>

/*
 * Return whether another machine may use the file system of an open file or folder: NFS,
 * SMB, FUSE and cluster file systems, by the type that statfs(2) gives.  Local file systems
 * and types that are not known are not shared.
 *
 * TRAINSPOOL_LEASE=SECONDS declares all file systems shared, 0 none.
 */
bool shared_files(int fd);
/* The same for a name, whose file or folder exists. */
bool shared_files_at(const char *name);

/* Seconds after which a machine that gave no sign of life counts as dead: those of
 * TRAINSPOOL_LEASE, or 60.  NFS may show another machine attributes that are as old as
 * that (nfs(5), acregmax). */
double shared_lease_seconds(void);

#endif
