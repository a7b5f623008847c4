/* base/spawn.h - start a program, capture its output, and return how it ended. */
#ifndef BASE_SPAWN_H
#define BASE_SPAWN_H

#include <sys/types.h>

#include "base/text.h"

struct spawn_result {
    int status;     /* exit status, or 128 + signal */
    bool timed_out; /* killed after timeout_ms */
};

/* Run argv (argv[0] is a path, or looked up in PATH) without standard input, and collect
 * its standard output in *out and standard error in *errors (each may be NULL:
 * /dev/null).  It is killed when this thread ends, however that ends.  ERROR_SYSTEM if it
 * cannot be started; a nonzero exit status is not an error here. */
bool spawn_capture(char *const argv[], int timeout_ms, struct text *out,
                   struct text *errors, struct spawn_result *result, struct error *err);

/* Return the path of a program in the directory of the running one (/proc/self/exe),
 * malloc'ed. */
char *spawn_sibling(const char *name);

#endif
