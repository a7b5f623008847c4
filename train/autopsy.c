/* train/autopsy.c - checking weights, then each micro-batch, and reporting the first
 * non-finite value. */
#include "config.h"

#include "train/autopsy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/walk.h"
#include "train/model/model_watch.h"
#include "train/model/parallel.h"
#include "train/rollout.h"

enum { SAMPLES = 64 }; /* most samples of a micro-batch that are listed */

/* The activity of the run. */
enum occasion { OCCASION_STEP, OCCASION_PREFLIGHT, OCCASION_EVALUATION };

static const char *const occasion_names[] = {
    [OCCASION_STEP] = "step",
    [OCCASION_PREFLIGHT] = "preflight, step",
    [OCCASION_EVALUATION] = "evaluation at step",
};

struct autopsy {
    struct run *run;
    enum occasion occasion;
    int64_t step; /* from 0; for an evaluation the number of steps done */
    double loss;
    const struct dataset *data;
    size_t size; /* samples in a batch of it */
    struct run_step_batches place;
    struct watch watch;
    struct watch_result weight; /* the one with the largest value */
    bool in_batch;              /* found in a micro-batch, not in the weights */
    size_t index;               /* of that micro-batch */
    uint32_t samples[SAMPLES];
    size_t sample_count;
    int64_t sample, position, token; /* of the first bad row; -1: unknown */
};

/* ---- Search ---- */

static struct step_scalars numbers_of(const struct autopsy *a, size_t index)
{
    const struct progress *progress = &a->run->progress;

    return (struct step_scalars) {
        .draw = (uint64_t)a->step * run_window_size(a->run) + index,
        .grad_scale = (float)(progress->scaler.scale / a->place.weight),
        .loss_scale = (float)progress->scaler.scale,
        .scaler = progress->scaler,
    };
}

/* Return the sequences per sample as users count them. */
static size_t sequences_each(const struct autopsy *a)
{
    return plan_prefers(a->run->plan) ? 2 : 1;
}

static int64_t sample_of(const struct autopsy *a, size_t sequence)
{
    return (int64_t)(a->samples[sequence] / sequences_each(a));
}

/* Set the sample, position and token of a row of the batch. */
static void find_row(struct autopsy *a, const struct batch *batch, size_t row)
{
    size_t i = 0;

    if (row >= batch->rows)
        return;
    while (i + 1 < batch->sequences && (size_t)batch->offsets[i + 1] <= row)
        i++;
    a->sample = i < a->sample_count ? sample_of(a, i) : -1;
    a->position = batch->positions[row];
    a->token = batch->tokens[row];
}

/* Watch a batch of an evaluation only if its loss is not finite: there may be many. */
static bool watch_evaluation(struct autopsy *a, struct error *err)
{
    struct run *run = a->run;
    double loss = 0;

    if (!model_evaluate(run->model, &run->batch, &loss, err))
        return false;
    return isfinite(loss) ||
           model_watch_evaluation(run->model, &run->batch, &a->watch, err);
}

static bool watch_step(struct autopsy *a, size_t index, struct error *err)
{
    struct run *run = a->run;
    struct step_scalars numbers = numbers_of(a, index);

    if (run->teaching && !distillation_batch(run->teaching, run->model, &run->batch, err))
        return false;
    return model_watch_batch(run->model, &run->batch, &numbers, &a->watch, err);
}

/* A micro-batch of sampled answers: a sample is a question. */
static bool watch_answers(struct autopsy *a, size_t index, struct error *err)
{
    const struct run_step step = { .index = a->step, .place = a->place };
    const struct batch *batch = rollout_batch(a->run, &step, index);
    struct step_scalars numbers = numbers_of(a, index);

    if (!model_watch_batch(a->run->model, batch, &numbers, &a->watch, err))
        return false;
    if (a->watch.kind == WATCH_NOTHING)
        return true;
    a->in_batch = true;
    a->index = index;
    a->sample_count = 0;
    find_row(a, batch, a->watch.found.batch_row);
    return true;
}

static bool watch_batch(struct autopsy *a, size_t index, struct error *err)
{
    struct batch *batch = &a->run->batch;
    uint64_t epoch = (uint64_t)a->place.epoch, at = a->place.first + index;

    if (a->run->rollout)
        return watch_answers(a, index, err);
    if (!dataset_batch(a->data, epoch, at, a->size, batch))
        return error_set(err, ERROR_DATA, "the dataset ended inside an epoch");
    if (a->occasion == OCCASION_EVALUATION ? !watch_evaluation(a, err)
                                           : !watch_step(a, index, err))
        return false;
    if (a->watch.kind == WATCH_NOTHING)
        return true;
    a->in_batch = true;
    a->index = index;
    a->sample_count =
        dataset_batch_samples(a->data, epoch, at, a->size, a->samples, SAMPLES);
    find_row(a, batch, a->watch.found.batch_row);
    return true;
}

static bool search(struct autopsy *a, struct error *err)
{
    a->sample = a->position = a->token = -1;
    if (!model_watch_weights(a->run->model, &a->watch, err))
        return false;
    a->weight = a->watch.largest_output;
    for (size_t i = 0; i < a->place.batches && a->watch.kind == WATCH_NOTHING; i++)
        if (!watch_batch(a, i, err))
            return false;
    return true;
}

/* ---- Report ---- */

/* Return the number of the step as users count it. */
static int64_t number_of_step(const struct autopsy *a)
{
    return a->occasion == OCCASION_EVALUATION ? a->step : a->step + 1;
}

static void add_tensor_name(const struct watch_result *look, struct text *out)
{
    text_adds(out, look->tensor);
    if (look->layer >= 0 && !strstr(look->tensor, "."))
        text_addf(out, " of layer %" PRId64, look->layer);
}

static void add_count(const struct watch_result *look, struct text *out)
{
    if (look->nans > 0)
        text_addf(out, "%zu NaN", look->nans);
    if (look->infs > 0)
        text_addf(out, "%s%zu inf", look->nans > 0 ? " and " : "", look->infs);
}

/* "the activation q, k, v of layer 3 (fp16) has 12 inf" */
static void add_summary(const struct autopsy *a, struct text *out)
{
    const struct watch_result *found = &a->watch.found;

    if (a->watch.kind == WATCH_NOTHING) {
        text_adds(out, "each micro-batch alone is finite, only their sum is not");
        return;
    }
    text_addf(out, "the %s", watch_kind_names[a->watch.kind]);
    if (a->watch.kind != WATCH_LOSS) {
        text_adds(out, a->watch.kind == WATCH_GRADIENT ? " of " : " ");
        add_tensor_name(found, out);
        text_addf(out, " (%s)", format_info(found->format)->name);
    }
    text_adds(out, " has ");
    add_count(found, out);
}

static void add_sentence(const struct autopsy *a, struct text *out)
{
    const struct watch_result *found = &a->watch.found, *most = &a->watch.largest_output;

    add_summary(a, out);
    if (a->watch.kind == WATCH_NOTHING)
        return;
    text_addf(out, " of %zu values", found->rows * found->cols);
    if (found->operation[0])
        text_addf(out, " after %s", found->operation);
    text_addf(out, ", the first in row %zu",
              found->batch_row < SIZE_MAX ? found->batch_row : found->row);
    if (a->watch.kind == WATCH_WEIGHT && found->rows == a->run->config.vocab_size)
        text_addf(out, ", the row of token %zu", found->row);
    if (a->token >= 0)
        text_addf(out, ": token %" PRId64 " at position %" PRId64, a->token, a->position);
    if (a->sample >= 0)
        text_addf(out, " of sample %" PRId64, a->sample);
    if (most->tensor[0]) {
        text_addf(out, "; the largest value before is %.4g in ", most->largest);
        add_tensor_name(most, out);
        text_addf(out, " (%s)", format_info(most->format)->name);
    }
    if (a->in_batch)
        text_addf(out, ", the largest weight %.4g in %s", a->weight.largest,
                  a->weight.tensor);
}

/* Return what to do, by the kind of the tensor. */
static const char *advice_of(const struct autopsy *a)
{
    bool is_fp16 = a->run->plan->precision.compute == FORMAT_FP16;

    switch (a->watch.kind) {
    case WATCH_WEIGHT:
        return a->run->progress.updates == 0
                   ? "the files of the model contain it: they are damaged, or hold "
                     "values beyond the format; use another copy, or bf16 for float16"
                   : "an update produced it: use a smaller learning_rate, more "
                     "warmup_steps, or max_grad_norm; --resume continues from the "
                     "previous checkpoint";
    case WATCH_ACTIVATION:
    case WATCH_LOSS:
        return is_fp16 ? "float16 ends at 65504: use bf16 if the device has it, else "
                         "policy: fp32"
                       : "use a smaller learning_rate or more warmup_steps; check the "
                         "listed samples";
    case WATCH_GRADIENT:
        return is_fp16 && a->run->progress.scaler.scale > 1
                   ? "the loss scale may still be too large: loss_scale: dynamic finds "
                     "one that fits"
               : is_fp16
                   ? "no loss scale is small enough for float16: use bf16 if the device "
                     "has it, else policy: fp32"
                   : "use a smaller learning_rate, or max_grad_norm; check the listed "
                     "samples";
    default:
        return "use a smaller gradient_accumulation_steps or learning_rate";
    }
}

/* ---- autopsy.json ---- */

static json_t *integer_or_null(int64_t value)
{
    return value >= 0 ? json_integer(value) : json_null();
}

static json_t *inspection_object(const struct watch_result *look)
{
    json_t *object = json_object();

    json_object_set_new(object, "operation",
                        look->operation[0] ? json_string(look->operation) : json_null());
    json_object_set_new(object, "tensor", json_string(look->tensor));
    json_object_set_new(object, "layer", integer_or_null(look->layer));
    json_object_set_new(object, "format", json_string(format_info(look->format)->name));
    json_object_set_new(object, "largest", json_number(look->largest));
    return object;
}

static json_t *found_object(const struct autopsy *a)
{
    const struct watch_result *found = &a->watch.found;
    json_t *object;

    if (a->watch.kind == WATCH_NOTHING)
        return json_null();
    object = inspection_object(found);
    json_object_set_new(object, "rows", json_integer((json_int_t)found->rows));
    json_object_set_new(object, "cols", json_integer((json_int_t)found->cols));
    json_object_set_new(object, "nan", json_integer((json_int_t)found->nans));
    json_object_set_new(object, "inf", json_integer((json_int_t)found->infs));
    json_object_set_new(object, "row", json_integer((json_int_t)found->row));
    json_object_set_new(object, "col", json_integer((json_int_t)found->col));
    return object;
}

static json_t *batch_object(const struct autopsy *a)
{
    json_t *object, *samples;

    if (!a->in_batch)
        return json_null();
    object = json_object();
    samples = json_array();
    for (size_t i = 0; i < a->sample_count; i += sequences_each(a))
        json_array_append_new(samples, json_integer(sample_of(a, i)));
    json_object_set_new(object, "index", json_integer((json_int_t)a->index));
    json_object_set_new(object, "count", json_integer((json_int_t)a->place.batches));
    json_object_set_new(object, "samples", samples);
    json_object_set_new(object, "sample", integer_or_null(a->sample));
    json_object_set_new(object, "position", integer_or_null(a->position));
    json_object_set_new(object, "token", integer_or_null(a->token));
    return object;
}

static json_t *before_array(const struct autopsy *a)
{
    json_t *list = json_array();

    for (size_t i = 0; i < a->watch.before_count; i++)
        json_array_append_new(list, inspection_object(&a->watch.before[i]));
    return list;
}

static json_t *autopsy_object(const struct autopsy *a, const char *sentence)
{
    const struct scaler *scaler = &a->run->progress.scaler;
    json_t *object = json_object();

    json_object_set_new(object, "schema", json_integer(1));
    json_object_set_new(object, "step", json_integer(number_of_step(a)));
    json_object_set_new(object, "preflight",
                        json_boolean(a->occasion == OCCASION_PREFLIGHT));
    json_object_set_new(object, "evaluation",
                        json_boolean(a->occasion == OCCASION_EVALUATION));
    json_object_set_new(object, "loss", json_number(a->loss));
    json_object_set_new(object, "loss_scale", json_number(scaler->scale));
    json_object_set_new(object, "skipped_in_row", json_integer(scaler->skipped_in_row));
    json_object_set_new(object, "mode",
                        json_string(mode_names[a->run->plan->precision.mode]));
    json_object_set_new(object, "sentence", json_string(sentence));
    json_object_set_new(object, "advice", json_string(advice_of(a)));
    json_object_set_new(object, "kind", json_string(watch_kind_names[a->watch.kind]));
    json_object_set_new(object, "found", found_object(a));
    json_object_set_new(object, "micro_batch", batch_object(a));
    json_object_set_new(object, "before", before_array(a));
    json_object_set_new(object, "weight",
                        a->weight.tensor[0] ? inspection_object(&a->weight)
                                            : json_null());
    json_object_set_new(object, "most",
                        a->watch.largest_output.tensor[0]
                            ? inspection_object(&a->watch.largest_output)
                            : json_null());
    return object;
}

static bool write_file(const struct autopsy *a, const char *sentence, struct error *err)
{
    char *name = path_join(a->run->plan->run_dir, "autopsy.json");
    json_t *object = autopsy_object(a, sentence);
    struct text text;
    bool ok;

    text_init(&text, 0);
    json_write_pretty(object, &text);
    json_decref(object);
    ok = file_replace(name, text.data, text.len, 0666, err);
    text_clear(&text);
    free(name);
    return ok;
}

static void report(const struct autopsy *a)
{
    struct log *log = a->run->options->log;
    struct error err = { 0 };
    struct text sentence, brief;

    text_init(&sentence, 0);
    text_init(&brief, 0);
    add_sentence(a, &sentence);
    add_summary(a, &brief);
    snprintf(a->run->finding, sizeof(a->run->finding), "%s", brief.data);
    log_line(log, LOG_WARN, "autopsy: %s %" PRId64 ", loss scale %g: %s",
             occasion_names[a->occasion], number_of_step(a),
             a->run->progress.scaler.scale, sentence.data);
    log_line(log, LOG_WARN, "autopsy: advice: %s", advice_of(a));
    if (!write_file(a, sentence.data, &err))
        log_line(log, LOG_WARN, "autopsy: %s", err.text);
    text_clear(&sentence);
    text_clear(&brief);
}

/* ---- Occasions ---- */

static void search_and_report(struct autopsy *a)
{
    struct model *model = a->run->model;
    struct error err = { 0 };
    bool shared = model_shards_blocks(model);
    bool ok =
        !shared || parallel_send_order(a->run->options->group, PARALLEL_FOLLOW, &err);

    if (ok && shared)
        model_lead(model, true);
    ok = ok && search(a, &err);
    if (shared)
        model_lead(model, false);
    if (ok)
        report(a);
    else
        log_line(a->run->options->log, LOG_WARN, "autopsy: %s", err.text);
}

void autopsy_make(struct run *run, int64_t step, double loss)
{
    struct autopsy a = { .run = run,
                         .occasion = run->trial ? OCCASION_PREFLIGHT : OCCASION_STEP,
                         .step = step,
                         .loss = loss,
                         .data = run->train,
                         .size = (size_t)run->plan->per_device_train_batch_size,
                         .place = run_step_batches(run, step) };

    if (parallel_rank(run->options->group) == 0 && a.place.weight > 0)
        search_and_report(&a);
}

void autopsy_evaluation(struct run *run, double loss)
{
    struct autopsy a = { .run = run,
                         .occasion = OCCASION_EVALUATION,
                         .step = run->progress.step,
                         .loss = loss,
                         .data = run->eval,
                         .size = run->eval_size };

    if (isfinite(loss) || run->finding[0])
        return;
    a.place.batches = dataset_batches(run->eval, run->eval_size);
    search_and_report(&a);
}

bool autopsy_is_warranted(const struct scaler *scaler, double loss)
{
    return scaler->scaling != SCALING_DYNAMIC || scaler->scale <= 1 || !isfinite(loss) ||
           scaler->skipped_in_row + 1 >= SCALER_MAX_SKIPPED;
}

void autopsy_consider(struct run *run, double loss)
{
    if (!run->trial && !run->finding[0] &&
        autopsy_is_warranted(&run->progress.scaler, loss))
        autopsy_make(run, run->progress.step, loss);
}

void autopsy_forget(const struct run *run)
{
    char *name = path_join(run->plan->run_dir, "autopsy.json");

    if (run->progress.step == 0)
        walk_unlink(name);
    free(name);
}

void autopsy_explain(const struct run *run, struct error *err)
{
    size_t len = strlen(err->text);

    if (run->finding[0])
        snprintf(err->text + len, sizeof(err->text) - len, "; autopsy: %s", run->finding);
}
