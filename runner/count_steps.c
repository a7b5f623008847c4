/*
 * runner/count_steps.c - counts a job's steps with the tokenizer, the dataset and the
 * trainer's arithmetic.
 */
#include "config.h"

#include "runner/count_steps.h"

#include "base/file.h"
#include "base/limits.h"
#include "patcher/setting.h"
#include "runner/job/containment.h"
#include "runner/job/inspect.h"
#include "runner/job/job.h"
#include "runner/job/outputs.h"
#include "runner/output/report.h"
#include "runner/job/steps.h"
#include "train/chat/chat.h"
#include "train/dataset/dataset_trial.h"
#include "train/run.h"
#include "train/job_config.h"
#include "train/model/vocabulary_growth.h"

#include <sys/resource.h>

/* A check waits for a few seconds. */
#define DECODE_SECONDS 1.0

/* Return the peak resident size of this process. */
static int64_t resident(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss << 10 : 0;
}

/* Sampled answers are taken to have the maximum length. */
static void measure_answers(const struct plan *plan, const struct dataset *train,
                            struct steps *out)
{
    int64_t asked = (int64_t)dataset_question_max(train, SIZE_MAX, NULL);

    if (asked > out->asked)
        out->asked = asked;
    out->longest = asked + plan->grpo.max_completion_length;
    out->learned = plan->per_device_train_batch_size * plan->grpo.max_completion_length;
}

/* A medium of both the training and the evaluation data counts twice. */
static void measure_media(const struct dataset *data, size_t batch, struct steps *out)
{
    int64_t rows;

    if (!data || dataset_media(data) == 0)
        return;
    rows = (int64_t)dataset_media_rows_max(data, batch);
    out->media_batch = rows > out->media_batch ? rows : out->media_batch;
    out->media += (int64_t)dataset_media(data);
    for (size_t i = 0; i < dataset_media(data); i++) {
        rows = dataset_medium(data, i)->rows;
        out->media_rows += rows;
        out->media_largest = rows > out->media_largest ? rows : out->media_largest;
    }
}

static struct steps measured(const struct plan *plan, const struct model_config *config,
                             const struct dataset *train, const struct dataset *eval,
                             const struct dataset *questions)
{
    const struct dataset *data = train ? train : eval; /* eval: nothing is trained */
    size_t size = (size_t)plan->per_device_train_batch_size;
    size_t batches = train ? run_micro_batches(plan, train) : 0;
    struct trainer_steps steps = { 0 };
    struct run_sizes sizes = run_measure(plan, config, train, eval);
    size_t asked =
        questions ? dataset_question_max(questions, (size_t)plan->cutoff_len, NULL) : 0;
    struct steps out;

    if (train)
        steps = trainer_steps(plan, batches);
    out = (struct steps) {
        .per_epoch = steps.per_epoch,
        .total = steps.total,
        .tokens = (int64_t)dataset_tokens(data),
        .samples = (int64_t)dataset_samples(data),
        .rows = (int64_t)sizes.rows,
        .sequences = (int64_t)sizes.sequences,
        .asked = (int64_t)asked,
        .resident = resident(),
        .learned = train ? (int64_t)dataset_trained(train, 0, 0, batches, size) : 0,
        .longest = (int64_t)dataset_longest(data),
        .batch = plan->per_device_train_batch_size
    };
    measure_media(train, size, &out);
    measure_media(eval, train ? sizes.eval_size : size, &out);
    if (plan->stage == STAGE_GRPO && train)
        measure_answers(plan, train, &out);
    return out;
}

struct data {
    struct dataset *train, *eval;
    struct dataset *whole;           /* the evaluation data without cuts, or NULL */
    const struct dataset *questions; /* that answers are generated for, or NULL */
};

/* Errors of the data are written as they are found: the parent may not wait for the last. */
static void report_fault(const struct error *fault)
{
    report_error("trainspool-train", fault);
}

static bool open_data(const struct plan *plan, const struct tokenizer *tokenizer,
                      struct data *data, struct dataset_trial *trial, struct error *err)
{
    if (!plan_only_evaluates(plan)) {
        data->train = dataset_open_to_count(plan, SPLIT_TRAIN, tokenizer, trial, err);
        if (!data->train)
            return false;
    }
    if (!plan_evaluates(plan))
        return true;
    data->eval = dataset_open_to_count(plan, SPLIT_EVAL, tokenizer, trial, err);
    if (!data->eval)
        return false;
    if (!plan->generation.on)
        return true;
    if (!dataset_open_whole(plan, data->eval, tokenizer, &data->whole, err))
        return false;
    data->questions = data->whole ? data->whole : data->eval;
    return true;
}

/* Check what a run checks before its first step, and part of what it reads then. */
static bool check(const struct plan *plan, const struct model_config *config,
                  const struct data *data, struct dataset_trial *trial, struct error *err)
{
    return (!data->train || dataset_trial_files(trial, data->train, plan, err)) &&
           (!data->eval || dataset_trial_files(trial, data->eval, plan, err)) &&
           run_check_data(plan, config, &(struct run_data) { data->train, data->eval },
                          err) &&
           (!data->questions || run_check_questions(plan, config, data->questions, err));
}

/* Count the data, also if the run would refuse them: *out is empty only if they cannot be
 * read or have no batch. */
static void count(const struct plan *plan, struct steps *out, struct dataset_trial *trial,
                  struct error *err)
{
    struct arena *arena = arena_new();
    struct model_config config = { 0 };
    struct error unreadable = { 0 };
    bool known =
        job_config_read(plan, plan->model_name_or_path, arena, &config, &unreadable);
    const struct new_tokens more = plan_new_tokens(plan, &config);
    struct tokenizer *tokenizer =
        chat_tokenizer_open_with(plan->model_name_or_path, &more, err);
    struct data data = { .train = NULL };
    bool opened = tokenizer && open_data(plan, tokenizer, &data, trial, err);

    if (opened && !known)
        error_set(err, unreadable.code, "%s", unreadable.text);
    else if (opened)
        check(plan, &config, &data, trial, err);
    if (opened && (data.train ? run_micro_batches(plan, data.train)
                              : dataset_samples(data.eval)) > 0)
        *out = measured(plan, &config, data.train, data.eval, data.questions);
    out->skipped = (int64_t)trial->skipped;
    dataset_close(data.whole);
    dataset_close(data.eval);
    dataset_close(data.train);
    tokenizer_close(tokenizer);
    arena_free(arena);
}

/* Before a file that the job names is read. A text that is no job names none. */
static bool contain(const struct inspect_options *how, const struct job *job,
                    const struct text *text, struct error *err)
{
    struct containment containment = { .on = containment_is_wanted(),
                                       .machine = how->machine };
    struct arena *arena = arena_new();
    const char *data = text->data ? text->data : "";
    struct text with;
    size_t len = text->len;
    struct plan plan;
    bool ok = !how->set || setting_apply(how->set, arena, &data, &len, err);

    text_init(&with, 0);
    text_add(&with, data, len);
    outputs_bind_plan(job, &with, arena, &plan);
    ok = ok && containment_enter_reader(&containment, &plan, NULL, err);
    text_clear(&with);
    arena_free(arena);
    return ok;
}

static bool inspect(const struct inspect_options *how, bool frozen,
                    struct inspection *inspection, struct error *err)
{
    struct error unreadable = { 0 };
    struct job job;
    struct text text;
    bool ok;

    job_init(&job, how->job);
    text_init(&text, DOCUMENT_MAX_BYTES);
    ok = file_read(frozen ? job.frozen : job.path, DOCUMENT_MAX_BYTES, &text, NULL,
                   &unreadable);
    if (!ok && frozen)
        error_set(err, unreadable.code, "%s", unreadable.text);
    else
        ok = contain(how, &job, &text, err) &&
             (frozen ? inspect_text(how, text.data, text.len, inspection, err)
                     : inspect_job(how, inspection, err));
    text_clear(&text);
    job_clear(&job);
    return ok;
}

/* Data that need more than half of the machine's memory do not fit next to a model. */
static void limit_memory(const struct machine *machine)
{
    const uint64_t least = (uint64_t)4 << 30, half = machine->probe.devices[0].memory / 2;

    limits_data(half > least ? half : least);
}

static void report_rest(const struct dataset_faults *faults)
{
    struct error rest = { 0 };

    if (faults->count <= DATASET_FAULTS_MAX)
        return;
    error_set(&rest, ERROR_DATA, "%zu more records have media that cannot be used",
              faults->count - DATASET_FAULTS_MAX);
    report_fault(&rest);
}

int count_steps(const struct options *options, const struct machine *machine)
{
    struct inspect_options how = { .machine = machine,
                                   .job = options->operands[0],
                                   .set = options->set };
    struct inspection inspection = { 0 };
    struct error err = { 0 };
    struct dataset_trial trial = { .faults.report = report_fault,
                                   .seconds = DECODE_SECONDS };
    struct steps steps = { 0 };
    struct text line;

    limit_memory(machine);
    if (inspect(&how, options->frozen, &inspection, &err)) {
        if (!inspection.patch.has_plan)
            error_set(&err, ERROR_JOB, "%s: the file is not a job", options->operands[0]);
        else if (!inspection.patch.plan.model_name_or_path)
            error_set(&err, ERROR_JOB, "no model_name_or_path");
        else
            count(&inspection.patch.plan, &steps, &trial, &err);
    }
    if (steps.rows > 0) {
        text_init(&line, 0);
        steps_write(&steps, &line);
        fwrite(line.data, 1, line.len, stdout);
        text_clear(&line);
    }
    report_rest(&trial.faults);
    if (err.code && trial.faults.count == 0)
        report_error(options->program, &err);
    inspect_clear(&inspection);
    return report_spooled_exit(err.code);
}
