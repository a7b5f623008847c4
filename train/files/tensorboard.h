/*
 * train/files/tensorboard.h - an event file that TensorBoard reads:
 * events.out.tfevents.TIME.trainspool in the folder of the run.
 *
 * Each start of a run writes a file of its own, whose name sorts behind all that lie
 * there and whose first events tell TensorBoard to forget what the files before have from
 * the first step on that is made now: a run that was killed, and went on from its last
 * checkpoint, shows as one that was not.
 *
 * Nothing of a run depends on these files, so a disk that is full does not end it: what
 * cannot be written is left out, never in part.
 */
#ifndef TRAIN_FILES_TENSORBOARD_H
#define TRAIN_FILES_TENSORBOARD_H

#include "base/json.h"

struct tensorboard;

/* `first`: the first step, from 0, that is written from now on.  ERROR_SYSTEM. */
struct tensorboard *tensorboard_open(const char *dir, int64_t first, struct error *err);
void tensorboard_close(struct tensorboard *board); /* NULL is allowed */

/*
 * The numbers of one object of metrics.jsonl, under the names that transformers'
 * TensorBoardCallback gives them: eval_loss as eval/loss, loss as train/loss, but
 * an evaluation's epoch once.  NaN and inf are written as they are.
 */
bool tensorboard_metrics(struct tensorboard *board, const json_t *object,
                         struct error *err);
/* A text, read as Markdown, for the tab Text; `text` is valid UTF-8. */
bool tensorboard_text(struct tensorboard *board, const char *tag, const char *text,
                      struct error *err);

#endif
