/*
 * tests/unit/training.h - training a small real model inside a test: the text of a job
 * goes through the patcher to a plan, and the plan to trainer_run.
 */
#ifndef TESTS_UNIT_TRAINING_H
#define TESTS_UNIT_TRAINING_H

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/digest.h"
#include "patcher/patcher.h"
#include "precision/probe.h"
#include "tests/unit/unit.h"
#include "train/evaluation_only.h"
#include "train/merge.h"
#include "train/trainer.h"

/* One run of a job in a folder, with the settings that tests change. */
struct training {
    const char *dir; /* of the job, job.yaml */
    const char *job; /* its text */
    bool resume;
    bool no_onednn;
    bool evaluates, merges;            /* without training */
    struct log *log;                   /* or NULL */
    int threads;                       /* 0: one, because other tests run in parallel */
    const struct device *device;       /* NULL: the CPU */
    const struct backend_group *group; /* with several processes; NULL: one process */
    int64_t stop_after;                /* request a stop after this step; 0: never */
    const char *stop_at; /* and when the folder has a file named like this; NULL: never */
    int64_t ticks, stop_at_tick;                /* and at this tick; 0: never */
    void (*on_tick)(struct training *training); /* or NULL */
    volatile sig_atomic_t stop;
    struct heartbeat heartbeat;
    char logged[8192]; /* all logged lines */
    int64_t steps;     /* reported optimizer steps */
    /* called instead of training_on_step, with this struct; or NULL */
    void (*on_step)(void *context, const struct trainer_progress *progress);
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

/* Look again at the next tick. */
static inline void training_on_beat(void *context)
{
    struct training *training = context;
    DIR *dir = training->stop_at ? opendir(training->dir) : NULL;
    struct dirent *entry;

    training->heartbeat.due = 0;
    if (++training->ticks == training->stop_at_tick)
        training->stop = 1;
    if (training->on_tick)
        training->on_tick(training);
    while (dir && (entry = readdir(dir)))
        if (strstr(entry->d_name, training->stop_at))
            training->stop = 1;
    if (dir)
        closedir(dir);
}

static inline void training_on_line(void *context, const char *line)
{
    struct training *training = context;
    size_t len = strlen(training->logged);

    snprintf(training->logged + len, sizeof(training->logged) - len, "%s\n", line);
}

static inline bool training_run(struct training *training, struct error *err)
{
    char *name = path_join(training->dir, "job.yaml");
    struct device device;
    struct patch patch;
    struct patch_options options = { .job = name, .device = &device, .will_run = true };
    struct trainer_options trainer = { .log = training->log,
                                       .heartbeat = &training->heartbeat,
                                       .progress = training->on_step ? training->on_step
                                                                     : training_on_step,
                                       .logged = training_on_line,
                                       .context = training,
                                       .resume = training->resume,
                                       .no_onednn = training->no_onednn,
                                       .group = training->group };
    bool ok;

    training->heartbeat = (struct heartbeat) { .stop = &training->stop,
                                               .beat = training_on_beat,
                                               .context = training };
    if (training->device)
        device = *training->device;
    else
        probe_cpu(&device);
    /* ranks other than 0 use the file that rank 0 has already written */
    ok = ((training->group && training->group->rank > 0) ||
          file_replace(name, training->job, strlen(training->job), 0644, err)) &&
         patcher_read(&options, &patch, err);
    if (ok) {
        patch.plan.threads = training->threads > 0 ? training->threads : 1;
        patch.plan.device = device;
        if (training->group)
            patch.plan.ranks = training->group->ranks;
        ok = training->merges      ? merge_run(&patch.plan, &trainer, err)
             : training->evaluates ? evaluation_only_run(&patch.plan, &trainer, err)
                                   : trainer_run(&patch.plan, &trainer, err);
        patch_clear(&patch);
    }
    free(name);
    return ok;
}

/* Return a job on a model of the shared data; skip the test without them. */
static inline char *training_text_of(const char *folder, const char *data,
                                     const char *more)
{
    char *model = unit_shared(folder), *set = unit_shared(data);
    struct text text;

    if (model == NULL || set == NULL) {
        print_message("skipped: the shared models are not here\n");
        skip();
    }
    text_init(&text, 0);
    text_addf(
        &text,
        "model_name_or_path: %s\ndataset: %s\ntemplate: alpaca\nlearning_rate: 1.0e-3\n"
        "lr_scheduler_type: constant\nlogging_steps: 1\nseed: 7\n%s",
        model, set, more);
    free(model);
    free(set);
    return text_detach(&text, NULL);
}

/* The same on stories260K. */
static inline char *training_text(const char *data, const char *more)
{
    return training_text_of("data/stories260K/hf", data, more);
}

#define SHAKESPEARE "data/datasets/tinyshakespeare/input.txt"
#define ALPACA      "data/datasets/llamafactory/alpaca_en_demo.json"
#define FULL_PT                                                            \
    "stage: pt\nfinetuning_type: full\ncutoff_len: 64\nmax_samples: 400\n" \
    "per_device_train_batch_size: 4\n"
#define LORA_SFT                                                                      \
    "stage: sft\nfinetuning_type: lora\nlora_rank: 8\ncutoff_len: 256\nmax_samples: " \
    "100\n"                                                                           \
    "per_device_train_batch_size: 4\n"

static inline void training_must(struct training *training)
{
    struct error err = { 0 };

    if (!training_run(training, &err))
        fail_msg("%s", err.text);
}

/* Run a job in attempts, each of which ends `ticks` later than the one before, until one ends by
 * itself.  Return how many were stopped with these words in their error. */
static inline size_t training_in_pieces(const char *dir, const char *job, int64_t ticks,
                                        const char *words)
{
    size_t stopped = 0;
    bool done = false;

    for (int64_t tick = 1; !done; tick += ticks) {
        struct training training = {
            .dir = dir, .job = job, .resume = true, .stop_at_tick = tick
        };
        struct error err = { 0 };

        assert_true(tick < 20000);
        training_run(&training, &err);
        if (err.code != ERROR_NONE && err.code != ERROR_STOPPED)
            fail_msg("%s", err.text);
        done = training.ticks < tick;
        stopped += err.code == ERROR_STOPPED && strstr(err.text, words);
    }
    return stopped;
}

/* Return the value after the n-th `key` of the logged lines; NaN if there is none. */
static inline double training_value(const struct training *training, const char *key,
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

/* Compute the SHA-256 of a file in the folder of the job. */
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
