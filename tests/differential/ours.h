/* tests/differential/ours.h - interface between the parts of the program for
 * differential.py. */
#ifndef TESTS_DIFFERENTIAL_OURS_H
#define TESTS_DIFFERENTIAL_OURS_H

#include "base/json.h"

/*
 * Return {"loss": mean loss, "norms": {name: norm of its gradient}} of the model in `dir`
 * over sequences of tokens.  Return NULL and set *err if the model is rejected.
 */
json_t *loss_and_norms(const char *dir, const json_t *sequences, struct error *err);

#endif
