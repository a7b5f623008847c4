/* runner/options/names.h - a table from names to things; both are the caller's. */
#ifndef RUNNER_OPTIONS_NAMES_H
#define RUNNER_OPTIONS_NAMES_H

#include <stddef.h>

struct names {
    struct names_slot {
        const char *name;
        void *thing;
    } * slots; /* open addressing; room is a power of two, at most three quarters full */
    size_t count, room;
};

void *names_find(const struct names *names, const char *name); /* NULL: not there */
/* The name must not be there, and must live as long as the table. */
void names_add(struct names *names, const char *name, void *thing);
/* Frees the table, after `drop` was called for each thing. */
void names_clear(struct names *names, void (*drop)(void *thing));

#endif
