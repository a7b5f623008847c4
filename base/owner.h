/*
 * base/owner.h - who decides what is in a file or folder: its owner, and everyone else
 * who may write to it.
 */
#ifndef BASE_OWNER_H
#define BASE_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

struct stat;

/* Root, or the user that this process acts for. */
bool owner_is_trusted(uid_t owner);
/* Return whether another user than its owner and root may write to it. The group may if
 * the owner is its only member, as in distributions that give each user a group. *fault:
 * errno if the machine failed to say so, else 0. */
bool owner_shares(const struct stat *st, int *fault);

#endif
