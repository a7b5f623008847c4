/* runner/options/names.h - a table from names to values; the caller owns both. */
#ifndef RUNNER_OPTIONS_NAMES_H
#define RUNNER_OPTIONS_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct names {
    struct names_slot {
        const char *name;
        void *thing;
    } * slots; /* open addressing; room is a power of two, at most three quarters full */
    size_t count, room;
};

void *names_find(const struct names *names, const char *name); /* NULL: not there */
/* Add a name, which must not exist and must live as long as the table. */
void names_add(struct names *names, const char *name, void *thing);
/* Remove the values that are not needed, and call `drop` for each of them. */
void names_keep(struct names *names, bool (*is_needed)(const void *thing),
                void (*drop)(void *thing));
/* Free the table after calling `drop` for each value; NULL: the caller frees them. */
void names_clear(struct names *names, void (*drop)(void *thing));

#endif
