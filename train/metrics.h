/* train/metrics.h - metrics.jsonl, whose fields trainspool(1) describes, and event files
 * for TensorBoard. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include "base/log.h"
#include "train/checkpoint/progress.h"

struct metrics;

/* One logged step.  NaN and inf are written too. */
struct metric {
    int64_t step;
    double epoch, loss, grad_norm, learning_rate, loss_scale;
    bool distilled; /* the loss has two parts: from the data and from the teacher */
    double ce_loss, kd_loss;
    bool prefers; /* rewards are set: stage dpo */
    struct rewards rewards;
    int64_t skipped; /* steps skipped so far */
    uint64_t tokens; /* trained on so far, padding not counted */
    double tokens_per_second;
    uint64_t memory; /* peak resident bytes (CPU) or device bytes */
};

/* Open `name` to append to it.  First remove lines of an interrupted attempt with steps
 * past `resume_step` and a broken last line, so the file of a resumed run reads like that
 * of an uninterrupted one.  If lines cannot be written (full disk), one warning is logged
 * until writing works again, and the run continues: log_history in the checkpoints still
 * has the values. */
struct metrics *metrics_open(const char *name, int64_t resume_step, struct log *log,
                             struct error *err);
void metrics_close(struct metrics *metrics);
/*
 * From step `first` on, also write the metrics to an event file for TensorBoard in `dir`.
 * The file starts with `about`, a description of the job in Markdown, or NULL.  The first
 * write failure is logged, and the run continues.
 */
void metrics_open_tensorboard(struct metrics *metrics, const char *dir, int64_t first,
                              const char *about);
void metrics_step(struct metrics *metrics, const struct metric *metric);
/* {"step":..,"epoch":..,"eval_loss":..,"eval_perplexity":..}, and other metrics that the
 * evaluation measured */
void metrics_eval(struct metrics *metrics, int64_t step, double epoch,
                  const struct evaluation *evaluation);

/* {"step":0,"epoch":0.0,..} with the results of an evaluation without training */
void metrics_results(struct metrics *metrics, const json_t *results);

#endif
