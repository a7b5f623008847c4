/*
 * tests/unit/training.h - train a small real model as a job would, inside a test: a job's
 * text goes through the patcher to a plan, the plan through trainer_run.
 */
#ifndef TESTS_UNIT_TRAINING_H
#define TESTS_UNIT_TRAINING_H

#include <sys/wait.h>
#include <unistd.h>

#include "base/digest.h"
#include "patcher/patcher.h"
#include "precision/probe.h"
#include "tests/unit/unit.h"
#include "train/trainer.h"

/* One run of a job in a folder; what a test may turn is here. */
struct training {
    const char *dir; /* of the job, job.yaml */
    const char *job; /* its text */
    bool resume;
    bool no_onednn;
    int threads;        /* 0: all */
    int64_t stop_after; /* ask it to stop after this step; 0: never */
    volatile sig_atomic_t stop;
    char logged[8192]; /* every line it told, one after another */
    int64_t steps;     /* optimizer steps it told of */
    double last_loss;
};

static inline void training_on_step(void *context,
                                    const struct trainer_progress *progress)
{
    struct training *training = context;

    training->steps++;
    training->last_loss = progress->loss;
    if (progress->step == training->stop_after)
        training->stop = 1;
}

static inline void training_on_line(void *context, const char *line)
{
    struct training *training = context;
    size_t len = strlen(training->logged);

    snprintf(training->logged + len, sizeof training->logged - len, "%s\n", line);
}

static inline bool training_run(struct training *training, struct error *err)
{
    char *name = path_join(training->dir, "job.yaml");
    struct device cpu;
    struct patch patch;
    struct patch_options options = { .job = name, .device = &cpu, .will_run = true };
    struct trainer_options trainer = { .stop = &training->stop,
                                       .progress = training_on_step,
                                       .logged = training_on_line,
                                       .context = training,
                                       .resume = training->resume,
                                       .no_onednn = training->no_onednn };
    bool ok;

    probe_cpu(&cpu);
    ok = file_replace(name, training->job, strlen(training->job), 0644, err) &&
         patcher_read(&options, &patch, err);
    if (ok) {
        patch.plan.threads = training->threads;
        patch.plan.device = cpu;
        ok = trainer_run(&patch.plan, &trainer, err);
        patch_clear(&patch);
    }
    free(name);
    return ok;
}

/* The value behind the n-th `key` of the lines told; NaN where there is none. */
static inline double training_told(const struct training *training, const char *key,
                                   int n)
{
    const char *at = training->logged;

    for (; at != NULL && n >= 0; n--) {
        at = strstr(at, key);
        if (at != NULL)
            at += strlen(key);
    }
    return at != NULL ? strtod(at + strspn(at, "': "), NULL) : strtod("nan", NULL);
}

/* SHA-256 of a file of the job's folder. */
static inline void training_digest(const char *dir, const char *name,
                                   char out[DIGEST_TEXT])
{
    char *path = path_join(dir, name);
    struct error err = { 0 };

    if (!digest_file(path, out, &err))
        fail_msg("%s", err.text);
    free(path);
}

#endif
