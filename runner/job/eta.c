/*
 * runner/job/eta.c - estimates seconds per step from metrics.jsonl, or from measured
 * rates and the amount of work.
 */
#include "config.h"

#include "runner/job/eta.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/file.h"
#include "runner/job/calibrations.h"

enum { METRICS_MAX = 16 << 20, LOG_MAX = 4 << 20 };

/* ---- The job's own last run ---- */

struct logged {
    double step, tokens, rate;
};

static bool read_logged(const char *line, size_t len, struct logged *out)
{
    struct error ignored = { 0 };
    json_t *object = json_read_text(line, len, "metrics.jsonl", 1, &ignored);

    *out = (struct logged) {
        json_number_value(json_object_get(object, "step")),
        json_number_value(json_object_get(object, "tokens")),
        json_number_value(json_object_get(object, "tokens_per_second")),
    };
    json_decref(object);
    return out->step > 0 && out->rate > 0;
}

bool eta_read(const char *metrics, size_t len, struct duration *out)
{
    const char *end = metrics + len, *line = metrics, *newline;
    struct logged was = { 0 }, is;
    double seconds = 0, steps = 0;

    *out = (struct duration) { .low = INFINITY };
    for (; (newline = memchr(line, '\n', (size_t)(end - line))); line = newline + 1) {
        double each;

        if (!read_logged(line, (size_t)(newline - line), &is))
            continue;
        each = (is.tokens - was.tokens) / is.rate / (is.step - was.step);
        if (was.step > 0 && is.step > was.step && isfinite(each) && each > 0) {
            seconds += each * (is.step - was.step);
            steps += is.step - was.step;
            out->low = fmin(out->low, each);
            out->high = fmax(out->high, each);
        }
        was = is;
    }
    out->expected = steps > 0 ? seconds / steps : 0;
    return steps > 0;
}

/* Return whether the frozen text of the last run equals the text that would run. */
static bool same_text(const struct plan *plan)
{
    char *name = path_join(plan->run_dir, "job.yaml"), digest[DIGEST_TEXT];
    struct error ignored = { 0 };
    bool same = plan->job_digest && file_exists(name) &&
                digest_file(name, digest, &ignored) &&
                strcmp(digest, plan->job_digest) == 0;

    free(name);
    return same;
}

/* The log names the device last, as the backend describes it: "cpu: ...", or a GPU's
 * name. */
static bool same_device(const struct plan *plan, const struct device *device)
{
    static const char key[] = "device: ";
    char *name = path_join(plan->run_dir, "train.log");
    struct error ignored = { 0 };
    const char *last = NULL;
    struct text log;
    bool same = false;

    text_init(&log, LOG_MAX);
    if (file_exists(name) && file_read(name, LOG_MAX, &log, NULL, &ignored))
        for (const char *at = log.data; (at = strstr(at, key)); at += sizeof(key) - 1)
            last = at + sizeof(key) - 1;
    if (last && device->kind == DEVICE_CPU)
        same = strncmp(last, "cpu:", 4) == 0;
    else if (last)
        same = memmem(last, strcspn(last, "\n"), device->name, strlen(device->name));
    text_clear(&log);
    free(name);
    return same;
}

static bool by_last_run(const struct plan *plan, const struct device *device,
                        struct eta *out)
{
    char *name = path_join(plan->run_dir, "metrics.jsonl");
    struct error ignored = { 0 };
    struct text metrics;
    bool ok;

    text_init(&metrics, METRICS_MAX);
    ok = same_text(plan) && same_device(plan, device) && file_exists(name) &&
         file_read(name, METRICS_MAX, &metrics, NULL, &ignored) &&
         eta_read(metrics.data, metrics.len, &out->step);
    snprintf(out->source, sizeof(out->source), "the last run of this job");
    text_clear(&metrics);
    free(name);
    return ok;
}

/* ---- A calibration ---- */

static bool by_calibration(const struct plan *plan, const struct device *device,
                           const struct model_config *config, const struct steps *steps,
                           struct eta *out, struct error *err)
{
    const double per_rank = (double)steps->per_epoch * (double)plan_ranks(plan);
    const struct duration_step step = {
        .tokens = (double)steps->tokens / per_rank,
        .learned = (double)steps->learned / per_rank,
        .length = (double)steps->tokens / (double)steps->samples,
    };
    struct calibration calibration;

    if (plan->stage == STAGE_GRPO)
        return error_set(err, ERROR_JOB,
                         "the time that sampling takes is only known from a run");
    if (!calibrations_find(device, &calibration, err))
        return error_set(err, ERROR_DATA, "trainspool devices --calibrate measures it");
    snprintf(out->source, sizeof(out->source), "the calibration of %s", calibration.date);
    return duration_of_step(plan, config, &calibration, &step, &out->step) ||
           error_set(err, ERROR_JOB, "the job and the model do not match");
}

bool eta_find(const struct inspection *inspection, const struct model_config *config,
              const struct steps *steps, struct eta *out, struct error *err)
{
    const struct plan *plan = &inspection->patch.plan;
    const struct device *device = inspection->device;

    *out = (struct eta) { 0 };
    if (plan->external)
        return error_set(err, ERROR_JOB, "another program trains it");
    if (!device || (!device->here && !inspection->storage.elsewhere))
        return error_set(err, ERROR_DEVICE, "the device is not in this machine");
    if (by_last_run(plan, device, out))
        return true;
    if (inspection->storage.elsewhere)
        return error_set(err, ERROR_DEVICE, "only a run of the job measures the cluster");
    *out = (struct eta) { 0 };
    return steps->per_epoch > 0 && steps->samples > 0 &&
           by_calibration(plan, device, config, steps, out, err);
}
