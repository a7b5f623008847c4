/* base/user_names.h - names of users by their numbers, each looked up until its entry is
 * found or does not exist. */
#ifndef BASE_USER_NAMES_H
#define BASE_USER_NAMES_H

#include <sys/types.h>

#include "base/error.h"

enum { USER_NAME_ROOM = 64 };

struct user_names;
struct user_names *user_names_new(void);
void user_names_free(struct user_names *names);
/* Write the name of a user, or the number if there is no such entry or its name is too
 * long. Any thread may call it. */
void user_names_find(struct user_names *names, uid_t id, char out[USER_NAME_ROOM]);

/* Find a user by name or number. ERROR_USAGE if there is none; ERROR_FAULT if that is not
 * known for now. */
bool user_named(const char *name, uid_t *out, struct error *err);

#endif
