/*
 * runner/job/forecast.h - what a job will need: steps, memory and time, as far as the
 * model, the data and a calibration are available. Nothing is guessed: an unknown value
 * has a reason.
 */
#ifndef RUNNER_JOB_FORECAST_H
#define RUNNER_JOB_FORECAST_H

#include "runner/job/inspect.h"
#include "runner/job/eta.h"
#include "runner/job/plan_media.h"
#include "runner/job/steps.h"

struct forecast {
    bool has_steps;
    struct steps steps;
    struct error why_no_steps;

    bool has_memory;
    struct memory_use memory; /* with the data if they are available */
    struct error why_no_memory;
    bool has_resident;
    struct memory_range resident; /* of the whole process, on a CPU */

    struct plan_media media;

    bool has_time;
    struct eta eta;
    struct duration time; /* of all steps; evaluations and checkpoints are extra */
    struct error why_no_time;

    bool has_model;
    uint64_t parameters, trainable;
    /* the model's dropout, as applied */
    double embed_dropout, residual_dropout, attention_dropout;
};

/* Forecast a job that has a plan.  Asks trainspool-train for the steps. */
void forecast_make(const struct inspection *inspection, struct forecast *out);

/* Append the line of plan on the dropout that the model's config.json specifies and the run
 * applies. */
void forecast_add_dropout(const struct forecast *forecast, struct text *out);

#endif
