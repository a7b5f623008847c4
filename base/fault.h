/*
 * base/fault.h - faults of the machine: a full or failing disk, no descriptor, process or
 * memory left, a file server that does not answer. They pass, so nothing may be concluded
 * from them: a file that cannot be examined for lack of a descriptor is not missing.
 *
 * Functions such as file_exists() can only answer yes or no. Like errno, the first fault
 * of a thread is kept until it is cleared: code that decides something lasting from many
 * answers clears it before and checks it after.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include "base/error.h"

/* Return whether a call with this errno may succeed later without a change of the job. */
bool fault_is(int number);

/* Note that errno, if it is a fault, kept `what` from being done. errno is preserved. */
void fault_note(const char *what, const char *name);
/* Note an error whose code is ERROR_FAULT; others are ignored. */
void fault_keep(const struct error *err);
/* The same for an error that is no answer to what was asked. */
void fault_keep_question(const struct error *err);

void fault_clear(void);
/* Return true if no fault was noted since fault_clear; otherwise set ERROR_FAULT. */
bool fault_none(struct error *err);
/* The same, but only for questions that were left without an answer. */
bool fault_answered(struct error *err);
/* Make the error an ERROR_FAULT if one was noted since fault_clear: what looks like an
 * error of the job may follow from it. Return whether that was so. */
bool fault_doubt(struct error *err);

#endif
