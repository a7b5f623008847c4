/*
 * train/files/tensorboard.h - event files for TensorBoard:
 * events.out.tfevents.TIME.trainspool in the folder of the run.
 *
 * Each start of a run writes a new file.  Its name sorts after all existing ones, and its
 * first events make TensorBoard discard data of earlier files from the first new step on.
 * A run that was killed and resumed from its last checkpoint therefore looks like an
 * uninterrupted one.
 *
 * A run does not depend on these files, so a full disk does not end it: events that
 * cannot be written are omitted as a whole.
 */
#ifndef TRAIN_FILES_TENSORBOARD_H
#define TRAIN_FILES_TENSORBOARD_H

#include "base/json.h"

struct tensorboard;

/* Create a file; `first` is the first step, from 0, that will be written to it.  Fails
 * with ERROR_SYSTEM. */
struct tensorboard *tensorboard_open(const char *dir, int64_t first, struct error *err);
void tensorboard_close(struct tensorboard *board); /* NULL is allowed */

/*
 * Write the numbers of one object of metrics.jsonl under the names of transformers'
 * TensorBoardCallback: eval_loss as eval/loss, loss as train/loss, but without the epoch
 * of an evaluation.  NaN and inf are written too.
 */
bool tensorboard_metrics(struct tensorboard *board, const json_t *object,
                         struct error *err);
/* Write a text, which the tab Text shows as Markdown; `text` is valid UTF-8. */
bool tensorboard_text(struct tensorboard *board, const char *tag, const char *text,
                      struct error *err);

#endif
