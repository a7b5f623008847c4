/* base/lease_sights.h - what this process saw of the leases of other machines: a holder that
 * shows no change for long enough is dead. Any thread may call these functions. */
#ifndef BASE_LEASE_SIGHTS_H
#define BASE_LEASE_SIGHTS_H

#include <stdbool.h>
#include <stdint.h>

/* Note what the lease of a lock is now. Return for how many seconds this process has seen the
 * same, as often as it looked. */
double lease_sight_note(const char *lock, int64_t number, const char *content);
/* Return whether that lease was seen, and has not changed since. */
bool lease_sight_is_still(const char *lock, int64_t number);
void lease_sight_forget(const char *lock);

#endif
