/*
 * runner/page/page_data.h - the contents of a run's folder, read for its page. Any file
 * may be missing, truncated or malformed: unreadable parts are omitted.
 */
#ifndef RUNNER_PAGE_PAGE_DATA_H
#define RUNNER_PAGE_PAGE_DATA_H

#include "base/json.h"
#include "runner/job/job.h"
#include "runner/output/review.h"

/* Values of one name over the steps. */
struct page_series {
    char name[64]; /* "loss", "eval_loss" */
    double *x, *y; /* malloc'ed */
    size_t count, room;
};
enum { PAGE_SERIES = 32 }; /* more names are ignored */

/* A line of train.log that is worth showing. */
struct page_event {
    const char *time, *level, *said; /* point into the log's text, NUL-ended */
};
enum { PAGE_EVENTS = 60 }; /* the last ones */

struct page_data {
    const struct job *job;
    struct job_record record;
    bool running;                           /* the lock is held */
    json_t *facts, *autopsy;                /* NULL: none */
    json_t *samples;                        /* an array of objects; NULL: none */
    struct page_series series[PAGE_SERIES]; /* of metrics.jsonl */
    size_t series_count;
    double last_step; /* 0: no step was logged */
    struct text log;
    struct page_event events[PAGE_EVENTS]; /* oldest first */
    size_t event_count, events_left_out;
    double *resumed; /* steps after which an attempt resumed; malloc'ed */
    size_t resumed_count;
    struct review review;
    bool has_review;
};

/* Read a run's folder.  Free *out with page_data_clear.  ERROR_DATA: there is no run. */
bool page_data_read(const struct job *job, struct page_data *out, struct error *err);
void page_data_clear(struct page_data *data);

/* Return a series; NULL if metrics.jsonl does not have it. */
const struct page_series *page_data_find(const struct page_data *data, const char *name);
/* Return the last value of a series; NaN if there is none. */
double page_data_last(const struct page_data *data, const char *name);

#endif
