/* patcher/rules/device_guess.h - runs the rules for a job whose device is a guess. */
#ifndef PATCHER_RULES_DEVICE_GUESS_H
#define PATCHER_RULES_DEVICE_GUESS_H

#include "patcher/rules/rules.h"

/*
 * Run the rules for a guessed device.  Findings that need no device stay unchanged.  The
 * others follow from the guess: their edits become unsafe, their errors become warnings,
 * and an info (TS208) explains how to name the device.
 */
void rules_run_guessed(struct rule_context *context);

#endif
