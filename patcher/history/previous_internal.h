/* patcher/history/previous_internal.h - shared by previous.c and previous_steps.c. */
#ifndef PATCHER_HISTORY_PREVIOUS_INTERNAL_H
#define PATCHER_HISTORY_PREVIOUS_INTERNAL_H

#include "base/json.h"
#include "patcher/history/previous.h"

/* Parse JSON as Python writes it, with NaN and Infinity unquoted. */
json_t *previous_json(const char *data, size_t len);
/* Read metrics.jsonl; the first line may be incomplete. */
void previous_read_lines(const struct text *text, struct arena *arena,
                         struct previous_steps *out);
/* Read trainer_state.json. */
void previous_read_history(const json_t *state, struct arena *arena,
                           struct previous_steps *out);

#endif
