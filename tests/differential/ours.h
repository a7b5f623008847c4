/* tests/differential/ours.h - the parts of the program that answers differential.py. */
#ifndef TESTS_DIFFERENTIAL_OURS_H
#define TESTS_DIFFERENTIAL_OURS_H

#include "base/json.h"

/* {"loss": the mean, "norms": {name: of its gradient}} of a folder's model over runs of
 * tokens; NULL: it is refused. */
json_t *train_model(const char *dir, const json_t *runs, struct error *err);

#endif
