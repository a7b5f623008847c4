/* train/score_file.h - the scores of an evaluation in stage rm, by pair, and their file
 * generated_predictions.jsonl, as LLaMA-Factory names it (train/rm/trainer.py). */
#ifndef TRAIN_SCORE_FILE_H
#define TRAIN_SCORE_FILE_H

#include <stddef.h>

#include "base/error.h"

struct score_file;

struct score_file *score_file_new(size_t pairs);
void score_file_free(struct score_file *file); /* NULL is allowed */
/* Set the scores of pair `index`, below `pairs`, in the order of the data. */
void score_file_put(struct score_file *file, size_t index, double chosen,
                    double rejected);
/* Replace the file: {"chosen":..,"rejected":..} for each pair that was set. */
bool score_file_write(const struct score_file *file, const char *name, struct error *err);

#endif
