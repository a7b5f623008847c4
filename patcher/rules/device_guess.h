/* patcher/rules/device_guess.h - the rules for a job whose device nothing names. */
#ifndef PATCHER_RULES_DEVICE_GUESS_H
#define PATCHER_RULES_DEVICE_GUESS_H

#include "patcher/rules/rules.h"

/*
 * Run the rules for a device that is a guess: what they find with the device unknown
 * stays as it is.  Of the rest, which follows from the guess, an edit is no longer safe
 * and an error becomes a warning, and an info (TS208) says how to name the device.
 */
void rules_run_guessed(struct rule_context *context);

#endif
