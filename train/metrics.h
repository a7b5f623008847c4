/* train/metrics.h - metrics.jsonl, whose fields trainspool(1) has, and TensorBoard's
 * event files. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include "base/log.h"
#include "train/checkpoint/progress.h"

struct metrics;

/* One logged step.  Values that are not finite are written as they are. */
struct metric {
    int64_t step;
    double epoch, loss, grad_norm, learning_rate, loss_scale;
    bool distilled; /* the loss is made of two: of the data and of the teacher */
    double ce_loss, kd_loss;
    bool prefers; /* between two answers */
    struct rewards rewards;
    int64_t skipped; /* steps skipped so far */
    uint64_t tokens; /* trained on so far, padding not counted */
    double tokens_per_second;
    uint64_t memory; /* peak resident bytes (CPU) or device bytes */
};

/* Append to `name`; lines of steps past `resume_step` from an interrupted attempt are cut
 * off first (a broken last line too), so that a resumed run's file reads as an
 * uninterrupted one.  A line that cannot be written (a full disk) is told to the log,
 * once as long as that lasts, and the run goes on: log_history of the checkpoints has it
 * still. */
struct metrics *metrics_open(const char *name, int64_t resume_step, struct log *log,
                             struct error *err);
void metrics_close(struct metrics *metrics);
/*
 * From step `first` on, tell TensorBoard the same by an event file in `dir`, which begins
 * with `about`, Markdown on the job, or NULL.  What cannot be written there is told to
 * the log, once, and the run goes on.
 */
void metrics_board(struct metrics *metrics, const char *dir, int64_t first,
                   const char *about);
void metrics_step(struct metrics *metrics, const struct metric *metric);
/* {"step":..,"epoch":..,"eval_loss":..,"eval_perplexity":..}, and what else was taken */
void metrics_eval(struct metrics *metrics, int64_t step, double epoch,
                  const struct evaluation *evaluation);

#endif
