/* train/run.c - opening everything that a run needs, in order, and closing it again. */
#include "config.h"

#include "train/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/leftovers.h"
#include "base/size.h"
#include "train/chat/chat.h"
#include "train/criterion.h"
#include "train/rollout.h"
#include "train/model/attention_room.h"
#include "train/model/cross_layers.h"
#include "train/model/parallel.h"
#include "train/job_config.h"
#include "train/model/vocabulary_growth.h"
#include "train/model/shapes.h"

/* A token without an embedding row would read memory outside the embedding. */
static bool check_tokens(const struct model_config *config, const struct dataset *data,
                         struct error *err)
{
    if (dataset_token_max(data) < model_config_tokens(config))
        return true;
    return error_set(
        err, ERROR_DATA,
        "the data contain token %u, but the model has only %zu tokens (vocab_size in "
        "config.json): the tokenizer belongs to another model, or tokens were added",
        dataset_token_max(data), config->vocab_size);
}

/* Stage grpo reads prompts and continues them, until there is no position left. */
static bool check_prompts(const struct model_config *config, const struct dataset *data,
                          struct error *err)
{
    size_t longest = dataset_question_max(data, SIZE_MAX, NULL);

    return check_tokens(config, data, err) &&
           model_config_check_positions(config, longest + 1, err);
}

/* The same holds for positions after the last learned one. */
static bool check_data(const struct model_config *config, const struct dataset *data,
                       struct error *err)
{
    return !data ||
           (check_tokens(config, data, err) &&
            model_config_check_positions(config, dataset_positions_max(data), err));
}

/* Text does without these layers: it would train nothing. */
static bool check_cross_attention(const struct plan *plan, const struct dataset *train,
                                  struct error *err)
{
    if (!plan->train_cross_attention || !train || dataset_media(train) > 0)
        return true;
    return error_set(err, ERROR_DATA,
                     "the data has no images, without which train_cross_attention leaves "
                     "nothing to train; give it data with images, or remove "
                     "train_cross_attention and freeze_language_model to train the text "
                     "model");
}

bool run_check_data(const struct plan *plan, const struct model_config *config,
                    const struct run_data *data, struct error *err)
{
    const size_t batches = data->train ? run_micro_batches(plan, data->train) : 0;
    const struct run_media_data media = { .train = data->train, .eval = data->eval };

    if (!run_media_check(plan, config, &media, err) ||
        !check_cross_attention(plan, data->train, err))
        return false;
    if (!data->train)
        return check_data(config, data->eval, err);
    if (batches == 0 && plan->stage == STAGE_GRPO)
        return error_set(err, ERROR_DATA,
                         "a generation takes %" PRId64
                         " prompts, but the dataset has %zu",
                         plan_generation_prompts(plan), dataset_samples(data->train));
    if (batches == 0 || trainer_steps(plan, batches).total < 1)
        return error_set(err, ERROR_DATA,
                         "the dataset yields no batch to train on; it has %zu samples",
                         dataset_samples(data->train));
    if (plan->stage == STAGE_GRPO)
        return check_prompts(config, data->train, err) &&
               (!data->eval || check_prompts(config, data->eval, err));
    return check_data(config, data->train, err) && check_data(config, data->eval, err);
}

bool run_check_questions(const struct plan *plan, const struct model_config *config,
                         const struct dataset *questions, struct error *err)
{
    size_t longer,
        longest = dataset_question_max(questions, (size_t)plan->cutoff_len, &longer);

    if (longest == 0 && longer > 0)
        return error_set(err, ERROR_JOB,
                         "predict_with_generate: all prompts of the evaluation data have "
                         "more than cutoff_len, %" PRId64 ", tokens; raise cutoff_len",
                         plan->cutoff_len);
    if (longest == 0)
        return error_set(err, ERROR_DATA,
                         "predict_with_generate: the evaluation data have no prompt "
                         "before an answer (train_on_prompt: true hides where it ends)");
    return model_config_check_positions(config, longest + 1, NULL) ||
           error_set(
               err, ERROR_JOB,
               "predict_with_generate: a prompt of %zu tokens leaves no room for an "
               "answer in the %zu positions that this model has learned; lower "
               "cutoff_len",
               longest, config->max_positions);
}

const struct dataset *run_questions(const struct run *run)
{
    return run->whole ? run->whole : run->eval;
}

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Lay the cache out for prompts of this length. */
static bool use_longest(struct run *run, size_t longest)
{
    run->measured = *run->plan;
    run->measured.generation.prompt_max = (int64_t)longest;
    run->plan = &run->measured;
    return true;
}

/* Measure the longest prompt, for which the cache is laid out. */
static bool measure_questions(struct run *run, struct error *err)
{
    size_t longest, asked, longer;

    if (!run->plan->generation.on)
        return true;
    longest = run->train && run->plan->stage == STAGE_GRPO
                  ? dataset_question_max(run->train, SIZE_MAX, NULL)
                  : 0;
    if (!run->eval)
        return use_longest(run, longest);
    if (!dataset_open_whole(run->plan, run->eval, run->tokenizer, &run->whole, err))
        return false;
    asked =
        dataset_question_max(run_questions(run), (size_t)run->plan->cutoff_len, &longer);
    if (longer > 0)
        log_line(run->options->log, LOG_WARN,
                 "evaluation: skipping %zu of %zu prompts, which are longer than "
                 "cutoff_len, %" PRId64 " tokens",
                 longer, dataset_questions(run_questions(run)), run->plan->cutoff_len);
    if (!run_check_questions(run->plan, &run->config, run_questions(run), err))
        return false;
    return use_longest(run, largest(longest, asked));
}

static bool open_train(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;

    if (plan_only_evaluates(plan))
        return true;
    run->train = (parallel_rank(run->options->group) == 0
                      ? dataset_open
                      : dataset_open_readonly)(plan, SPLIT_TRAIN, run->tokenizer, err);
    if (!run->train)
        return false;
    run->steps = trainer_steps(plan, run_micro_batches(plan, run->train));
    return true;
}

/* Images need layers that text does without. */
static bool join_layers(struct run *run, struct error *err)
{
    const bool any = (run->train && dataset_media(run->train) > 0) ||
                     (run->eval && dataset_media(run->eval) > 0);

    return !any || cross_layers_join(&run->config, run->arena, err);
}

static bool open_data(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;
    bool first = parallel_rank(run->options->group) == 0;
    struct dataset *(*open)(const struct plan *plan, enum split split,
                            const struct tokenizer *tokenizer, struct error *err) =
        first ? dataset_open : dataset_open_readonly;

    const struct new_tokens more = plan_new_tokens(plan, &run->config);

    run->tokenizer = chat_tokenizer_open_with(plan->model_name_or_path, &more, err);
    if (!run->tokenizer)
        return false;
    tokenizer_set_heartbeat(run->tokenizer, run->options->heartbeat);
    if (!open_train(run, err))
        return false;
    if (plan_evaluates(plan)) {
        run->eval = open(plan, SPLIT_EVAL, run->tokenizer, err);
        if (!run->eval)
            return false;
    }
    return join_layers(run, err) &&
           run_check_data(plan, &run->config,
                          &(struct run_data) { run->train, run->eval }, err) &&
           measure_questions(run, err) &&
           run_media_open(plan,
                          &(struct run_media_data) { run->train, run->eval, run->whole },
                          &run->media, err);
}

/* Ranks on a CPU share its cores. */
static int thread_count(const struct plan *plan)
{
    int all = plan->threads > 0 ? (int)plan->threads : plan->device.threads;
    int ranks = (int)plan_local_ranks(plan);

    if (ranks == 1)
        return (int)plan->threads;
    return all > ranks ? all / ranks : 1;
}

static bool open_distillation(struct run *run, const struct run_sizes *sizes,
                              struct error *err)
{
    const struct distillation_options options = {
        .plan = run->plan,
        .log = run->options->log,
        .heartbeat = run->options->heartbeat,
        .group = run->options->group,
        .student = &run->config,
        .data = run->train,
        .backend = run->be,
        .tokens = tokenizer_size(run->tokenizer),
        .rows = sizes->rows,
        .sequences = sizes->sequences,
        .media_rows = sizes->media_rows,
        .media = &run->media.rows,
    };

    if (!plan_has_second_model(run->plan))
        return true;
    run->teaching = distillation_open(&options, err);
    return run->teaching != NULL;
}

/* Plain text (stage pt) uses a template only if the job names one. */
static void prepare_saving(struct run *run)
{
    const struct plan *plan = run->plan;

    if (plan->stage == STAGE_PT && !plan->template_name)
        return;
    template_saving_make(run->tokenizer, plan->template_name, plan->default_system,
                         &run->saving);
    model_set_saving(run->model, &run->saving);
}

/* The algorithms of matmuls are chosen when their shapes are first seen. */
static bool open_backend(struct run *run, size_t rows, struct error *err)
{
    const struct plan *plan = run->plan;
    char *dir = plan->tune_matmuls ? cache_folder() : NULL;
    const struct backend_options options = {
        .device = &plan->device,
        .threads = thread_count(plan),
        .no_onednn = run->options->no_onednn,
        .tf32 = plan->precision.compute == FORMAT_TF32,
        .rounded_bytes = shapes_fp8_bytes(plan, &run->config, rows),
        .choices_dir = dir,
        .gradients_bytes = run->gradients_bytes,
        .log = run->options->log,
    };

    run->be = backend_open(&options, err);
    free(dir);
    return run->be != NULL;
}

/* Gradients: of batches as shapes_make pads them. */
static struct run_sizes measure(struct run *run)
{
    struct run_sizes sizes = run_measure(run->plan, &run->config, run->train, run->eval);

    if (run->train)
        run->gradients_bytes = attention_room_bytes(run->plan, &run->config, sizes.rows,
                                                    sizes.sequences + 1);
    return sizes;
}

/* What PiSSA computes is kept for the next attempt.  It can be computed again, so a file
 * that cannot be written does not end the run. */
static bool load_model(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;
    char *name = path_join(plan->run_dir, "pissa_start.safetensors");
    struct error why = { 0 };
    bool ok;

    model_keep_pissa(run->model, name);
    ok = model_load(run->model, err);
    if (ok && plan->pissa_init && parallel_rank(run->options->group) == 0 &&
        !(file_make_dirs(plan->run_dir, 0755, &why) &&
          model_write_pissa(run->model, name, &why)))
        log_line(run->options->log, LOG_WARN, "pissa_init: %s", why.text);
    free(name);
    return ok;
}

/* Questions that no batch has, because they are not cut, have more rows of features. */
static size_t rows_of_questions(const struct run *run)
{
    return run->whole ? dataset_media_rows_max(run->whole, 1) : 0;
}

static bool open_model(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;
    struct run_sizes sizes = measure(run);
    struct model_options options = {
        .plan = plan,
        .config = &run->config,
        .rows_max = largest(sizes.rows, shapes_generation_rows(plan, &run->config)),
        .sequences_max = sizes.sequences,
        .media_rows_max = largest(sizes.media_rows, rows_of_questions(run)),
        .rank = parallel_rank(run->options->group)
    };

    run->eval_size = sizes.eval_size;
    /* order matters: the free memory is known only after all ranks have joined */
    if (!open_backend(run, options.rows_max, err) ||
        !parallel_join(run->options->group, plan, run->be, err) ||
        !run_media_encode(run, err))
        return false;
    options.backend = run->be;
    if (!open_distillation(run, &sizes, err))
        return false;
    run->model = model_new(&options, err);
    if (!run->model)
        return false;
    model_set_media(run->model, &run->media.rows);
    if (run->teaching)
        distillation_attach(run->teaching, run->model);
    prepare_saving(run);
    model_set_fetch(run->model, parallel_fetch, run->options->group);
    model_set_heartbeat(run->model, run->options->heartbeat);
    model_set_log(run->model, run->options->log);
    return load_model(run, err) && run_media_train(run, err);
}

static bool open_metrics(struct run *run, struct error *err)
{
    char *name;

    if (!file_make_dirs(run->plan->run_dir, 0755, err))
        return false;
    name = path_join(run->plan->run_dir, "metrics.jsonl");
    run->metrics = metrics_open(name, run->progress.step > 0 ? run->progress.step : -1,
                                run->options->log, err);
    free(name);
    if (!run->metrics)
        return false;
    metrics_open_tensorboard(run->metrics, run->plan->run_dir,
                             run->progress.step > 0 ? run->progress.step + 1 : 0,
                             run->options->about);
    return true;
}

static bool open_samples(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;
    char *name;

    if (!plan->generation.on || !run->eval || plan->samples <= 0)
        return true;
    name = path_join(plan->run_dir, "samples.jsonl");
    run->samples = samples_open(name, (size_t)plan->samples, run->progress.step > 0, err);
    free(name);
    return run->samples != NULL;
}

/* Return the batches and answers of an evaluation without training. */
static int64_t evaluation_units(const struct run *run)
{
    const struct plan *plan = run->plan;
    size_t units =
        plan_evaluates_loss(plan) ? dataset_batches(run->eval, run->eval_size) : 0;
    size_t asked = plan->generation.on ? dataset_questions(run_questions(run)) : 0;

    if (plan->eval_questions > 0)
        asked = size_min(asked, (size_t)plan->eval_questions);
    return (int64_t)(units + asked);
}

void run_evaluated_one(struct run *run)
{
    const struct trainer_options *options = run->options;

    run->evaluated++;
    if (options->progress)
        options->progress(options->context,
                          &(struct trainer_progress) { .evaluates = true,
                                                       .step = run->evaluated,
                                                       .total = evaluation_units(run),
                                                       .loss = run->evaluated_loss,
                                                       .grad_norm = NAN });
}

static void report_opened(const struct run *run)
{
    const struct run_info facts = {
        .backend = run->be->ops->describe(run->be),
        .threads = thread_count(run->plan),
        .parameters = model_total_elements(run->model),
        .trainable = model_trainable_elements(run->model),
        .samples = run->train ? dataset_samples(run->train) : 0,
        .eval_samples = run->eval ? dataset_samples(run->eval) : 0,
        .longest = dataset_longest(run->train ? run->train : run->eval),
        .tokens = dataset_tokens(run->train ? run->train : run->eval),
        .steps_per_epoch = run->steps.per_epoch,
        .steps = run->train ? run->steps.total : evaluation_units(run),
        .first = run->progress.step,
        .loss = progress_history_loss(&run->history),
        .memory = *model_memory(run->model),
    };

    if (run->options->opened)
        run->options->opened(run->options->context, &facts);
}

/* Open the files of the run, which only rank 0 writes. */
static bool open_files(struct run *run, struct error *err)
{
    const char *dir = run->plan->output_dir;

    if (parallel_rank(run->options->group) > 0)
        return true;
    if (!open_metrics(run, err) || !open_samples(run, err) ||
        !file_make_dirs(dir, 0777, err) ||
        (run->train && !checkpoint_remove_temporary(dir, err)))
        return false;
    leftovers_remove(dir, NULL);
    run_describe(run);
    /* what could not be looked for, such as a chat template, is not missing */
    if (!fault_answered(err))
        return false;
    report_opened(run);
    return true;
}

void run_log_line(const struct run *run, const char *line)
{
    log_line(run->options->log, LOG_INFO, "%s", line);
    if (run->options->logged)
        run->options->logged(run->options->context, line);
}

void run_number_text(double value, char out[32])
{
    if (isnan(value))
        snprintf(out, 32, "nan");
    else if (isinf(value))
        snprintf(out, 32, value > 0 ? "inf" : "-inf");
    else
        snprintf(out, 32, "%.4g", value);
}

void run_rewards_text(const struct rewards *rewards, const char *prefix,
                      struct text *line)
{
    char number[32];

    for (int i = 0; i < REWARDS; i++) {
        if (!rewards_show(rewards, (enum reward)i))
            continue;
        run_number_text(rewards->values[i], number);
        text_addf(line, "'%s%s': %s, ", prefix,
                  (rewards->names ? rewards->names : reward_names)[i], number);
    }
}

size_t run_window_size(const struct run *run)
{
    return (size_t)run->plan->gradient_accumulation_steps * plan_ranks(run->plan);
}

size_t run_micro_batches(const struct plan *plan, const struct dataset *train)
{
    size_t size = (size_t)plan->per_device_train_batch_size;

    if (plan->stage != STAGE_GRPO)
        return dataset_batches(train, size);
    return dataset_batches(train, (size_t)plan_generation_prompts(plan)) *
           (size_t)(plan_generation_uses(plan) * plan->gradient_accumulation_steps);
}

struct run_step_batches run_step_batches(const struct run *run, int64_t step)
{
    size_t size = (size_t)run->plan->per_device_train_batch_size;
    size_t all = run_micro_batches(run->plan, run->train), window = run_window_size(run);
    struct run_step_batches place = {
        .epoch = step / run->steps.per_epoch,
        .first = (uint64_t)(step % run->steps.per_epoch) * window,
    };

    place.batches = place.first + window <= all ? window : all - place.first;
    place.weight = run->rollout ? rollout_weight(run->rollout, step)
                                : dataset_weight(run->train, (uint64_t)place.epoch,
                                                 place.first, place.batches, size);
    return place;
}

bool run_open(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;

    run->arena = arena_new();
    if (!criterion_check(plan, NULL, err) ||
        !job_config_read(plan, plan->model_name_or_path, run->arena, &run->config, err) ||
        !open_data(run, err))
        return false;
    return (plan->stage != STAGE_GRPO || !run->train || rollout_open(run, err)) &&
           open_model(run, err) && (!run->train || run_resume(run, err)) &&
           open_files(run, err);
}

void run_close(struct run *run)
{
    batch_clear(&run->batch);
    free(run->choices);
    free(run->answers);
    rollout_close(run->rollout);
    progress_history_clear(&run->history);
    samples_close(run->samples);
    predictions_free(run->predictions);
    score_file_free(run->scores);
    metrics_close(run->metrics);
    run_media_close(&run->media);
    model_free(run->model);
    distillation_close(run->teaching);
    backend_close(run->be);
    dataset_close(run->train);
    dataset_close(run->eval);
    dataset_close(run->whole);
    template_saving_clear(&run->saving);
    tokenizer_close(run->tokenizer);
    arena_free(run->arena);
}
