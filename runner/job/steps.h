/*
 * runner/job/steps.h - how many steps a job takes, and how large its batches are. This
 * requires reading and tokenizing the data, so `trainspool-train --steps` does it and
 * prints one tab-separated line:
 *
 *   steps  <per epoch>  <total>  <tokens per epoch>  <samples>  <rows of the largest
 *   batch>  <its sequences>  <peak bytes of the process, reading the data>
 *   <tokens per epoch with a target>  <tokens of the longest prompt to answer>
 *   <tokens of the longest sample>  <samples of a micro batch>  <images and sounds>
 *   <their rows of features>  <rows of the largest batch>  <rows of the largest item>
 *   <those that were not decoded>
 */
#ifndef RUNNER_JOB_STEPS_H
#define RUNNER_JOB_STEPS_H

#include "base/text.h"
#include "train/estimate.h"

struct steps {
    int64_t per_epoch, total, tokens, samples;
    int64_t rows, sequences;
    int64_t learned;  /* tokens that have a target */
    int64_t asked;    /* 0: no answers are generated */
    int64_t resident; /* bytes: program, tokenizer and data, as in a run */
    int64_t longest;
    int64_t batch; /* per_device_train_batch_size, which rows and sequences belong to */
    int64_t media, media_rows, media_batch, media_largest; /* struct estimate_media */
    int64_t skipped; /* images and sounds that were not decoded */
};

/* What to count. */
struct steps_job {
    const char *job;
    const char *const *set; /* --set, ending with NULL, or NULL */
    bool frozen;            /* NAME.run/job.yaml */
};

void steps_write(const struct steps *steps, struct text *out);
bool steps_read(const char *text, struct steps *out);
/* Ask trainspool-train next to this program.  ERROR_DATA with its message if the model or
 * the data do not exist, or if a run would refuse them; ERROR_FAULT if it cannot be
 * started or the machine kept it from counting; ERROR_SYSTEM if it takes too long or ends
 * without a message.  *out has what could be counted in any case: rows is 0 if
 * nothing could. */
bool steps_query(const struct steps_job *what, struct steps *out, struct error *err);
/* Return what the estimate of memory uses. */
struct estimate_data steps_data(const struct steps *steps);
enum { STEPS_FAULTS_MAX = 24 };

/* Why a job's steps cannot be counted. */
struct steps_faults {
    struct error list[STEPS_FAULTS_MAX];
    size_t count;
};
/* Return false, with the messages, if counting fails within a few seconds, or has found an
 * error until then.  A check does not wait longer: *out is then empty. */
bool steps_can_count(const char *job, struct steps *out, struct steps_faults *faults);

#endif
