/* base/lease_file.h - the text of a lease: who has it, and how often it was renewed. */
#ifndef BASE_LEASE_FILE_H
#define BASE_LEASE_FILE_H

#include <stdint.h>

#include "base/text.h"

enum { LEASE_BYTES = 512 };

struct lease {
    bool free;
    char host[65]; /* name of the machine */
    char boot[37]; /* UUID of its start */
    uint64_t token;
    int64_t count;
};

/* A lease of this machine with a random token. */
bool lease_new(struct lease *out, struct error *err);
/* Write a line; all lines of one lease are equally long. */
void lease_write(const struct lease *lease, struct text *out);
/* Return false if the text is no lease. */
bool lease_read(const char *text, size_t len, struct lease *out);
/* Return whether it is of this machine, since its last start. */
bool lease_is_here(const struct lease *lease);

#endif
