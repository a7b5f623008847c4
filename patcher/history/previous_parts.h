/* patcher/history/previous_parts.h - what previous.c and previous_steps.c share. */
#ifndef PATCHER_HISTORY_PREVIOUS_PARTS_H
#define PATCHER_HISTORY_PREVIOUS_PARTS_H

#include "base/json.h"
#include "patcher/history/previous.h"

/* JSON as Python writes it, where NaN and Infinity stand without quotes. */
json_t *previous_json(const char *data, size_t len);
/* metrics.jsonl: the first line may be cut. */
void previous_read_lines(const struct text *text, struct arena *arena,
                         struct previous_steps *out);
/* trainer_state.json */
void previous_read_history(const json_t *state, struct arena *arena,
                           struct previous_steps *out);

#endif
