/* runner/count.c - tokenizer, data set, and the trainer's own arithmetic. */
#include "config.h"

#include "runner/count.h"

#include "runner/inspect.h"
#include "runner/report.h"
#include "runner/steps.h"
#include "train/dataset.h"
#include "train/trainer.h"

static bool count(const struct plan *plan, struct steps *out, struct error *err)
{
    struct tokenizer *tokenizer = tokenizer_open(plan->model_name_or_path, err);
    struct dataset *dataset = NULL;
    struct trainer_steps steps;
    size_t batches;

    if (tokenizer)
        dataset = dataset_open(plan, SPLIT_TRAIN, tokenizer, err);
    if (dataset) {
        batches = dataset_batches(dataset, (size_t)plan->per_device_train_batch_size);
        steps = trainer_steps(plan, batches);
        *out = (struct steps) { .per_epoch = steps.per_epoch,
                                .total = steps.total,
                                .tokens = (int64_t)dataset_tokens(dataset),
                                .samples = (int64_t)dataset_samples(dataset) };
    }
    dataset_close(dataset);
    tokenizer_close(tokenizer);
    return dataset != NULL;
}

int count_steps(const struct options *options, const struct machine *machine)
{
    struct inspect_options how = { .machine = machine, .job = options->operands[0] };
    struct inspection look = { 0 };
    struct error err = { 0 };
    struct steps steps;
    struct text line;

    if (inspect_job(&how, &look, &err)) {
        if (!look.patch.has_plan)
            error_set(&err, ERROR_JOB, "%s: the file is no job", options->operands[0]);
        else if (!look.patch.plan.model_name_or_path)
            error_set(&err, ERROR_JOB, "no model_name_or_path");
        else if (count(&look.patch.plan, &steps, &err)) {
            text_init(&line, 0);
            steps_write(&steps, &line);
            fwrite(line.data, 1, line.len, stdout);
            text_clear(&line);
        }
    }
    if (err.code)
        report_error(options->program, &err);
    inspect_clear(&look);
    return report_training_exit(err.code);
}
