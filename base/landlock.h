/*
 * base/landlock.h - Landlock (landlock(7)): what this process may do with files, whatever
 * its user may do. It holds for the process and all that it starts, for good.
 */
#ifndef BASE_LANDLOCK_H
#define BASE_LANDLOCK_H

#include "base/error.h"

enum landlock_access {
    LANDLOCK_READ,  /* read files and list folders */
    LANDLOCK_RUN,   /* and execute files */
    LANDLOCK_USE,   /* read and write existing files: devices */
    LANDLOCK_WRITE, /* read, and change everything below: no devices, sockets or pipes */
};

struct landlock {
    int version; /* of the kernel's interface */
    int fd;      /* -1: closed */
};

/* Return the version of the kernel's interface; 0: it has none, or a version that cannot
 * rename a file into another folder. */
int landlock_version(void);
/* Begin a list of what is allowed. `network`: also allow TCP. ERROR_SYSTEM. */
bool landlock_open(struct landlock *out, bool network, struct error *err);
/* Allow it for `path`, and for all below if that is a folder. A missing path is no
 * error; ERROR_FAULT: it is unknown whether it is missing. */
bool landlock_allow(const struct landlock *list, const char *path,
                    enum landlock_access access, struct error *err);
/* Refuse everything else to this thread, and to what it starts from now on, and close the
 * list. */
bool landlock_enter(struct landlock *list, struct error *err);
void landlock_close(struct landlock *list);

#endif
