/* train/answer_ends.h - what ends a generated answer, and expected answers as text. */
#ifndef TRAIN_ANSWER_ENDS_H
#define TRAIN_ANSWER_ENDS_H

#include "base/text.h"
#include "train/generation/prompt.h"
#include "train/run.h"

/* Find what ends an answer to the questions of `data`: prompt_ends_find, and special
 * tokens at the end of its answers. */
bool answer_ends_find(const struct run *run, const struct dataset *data,
                      struct prompt_ends *ends, char **stop, struct error *err);
/* Replace *out by the expected answer, without what the template puts after it. */
void answer_ends_expected(const struct run *run, const struct dataset_question *q,
                          const char *stop, struct text *out);

#endif
