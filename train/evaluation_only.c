/* train/evaluation_only.c - evaluation without training: the loss, generated answers, and
 * the files with the results. */
#include "config.h"

#include "train/evaluation_only.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "train/evaluation.h"
#include "train/evaluation_plan.h"
#include "train/run.h"

#define RESULTS_MAX ((size_t)1 << 20)

/* One measurement: what it counts, and how long that took. */
struct timed {
    size_t samples;
    double seconds;
};

/* Round like Python's round(value, digits): Trainer writes times with 3 or 4 digits. */
static double rounded(double value, int digits)
{
    char text[64];

    snprintf(text, sizeof(text), "%.*f", digits, value);
    return strtod(text, NULL);
}

static void add(json_t *object, const char *prefix, const char *name, double value)
{
    char key[64];

    snprintf(key, sizeof(key), "%s%s", prefix, name);
    json_object_set_new(object, key, json_number(value));
}

/* As transformers' speed_metrics (trainer_utils.py). */
static void add_speed(json_t *object, const char *prefix, const struct timed *timed,
                      size_t batch)
{
    double steps = (double)size_divide_up(timed->samples, batch);

    add(object, prefix, "runtime", rounded(timed->seconds, 4));
    if (timed->seconds <= 0)
        return;
    add(object, prefix, "samples_per_second",
        rounded((double)timed->samples / timed->seconds, 3));
    add(object, prefix, "steps_per_second", rounded(steps / timed->seconds, 3));
}

/* Add the metrics of generated answers. */
static void add_answers(json_t *object, const char *prefix, const struct run *run,
                        const struct evaluation *evaluation)
{
    if (!run->predictions)
        return;
    predictions_add_scores(run->predictions, prefix, object);
    add(object, prefix, "accuracy", evaluation->accuracy);
    add(object, prefix, "answer_rate", evaluation->answer_rate);
}

/* Add what an evaluation of pairs measures. */
static void add_pairs(json_t *object, const char *prefix,
                      const struct evaluation *evaluation)
{
    add(object, prefix, "loss", evaluation->loss);
    add(object, prefix, "accuracy", evaluation->accuracy);
    for (int i = 0; i < REWARDS; i++)
        if (rewards_show(&evaluation->rewards, (enum reward)i))
            add(object, prefix, reward_names[i], evaluation->rewards.values[i]);
}

/* Write an object to a file of the output folder. */
static bool write_object(const struct run *run, const char *file, const json_t *object,
                         struct error *err)
{
    char *name = path_join(run->plan->output_dir, file);
    struct text text;
    bool ok;

    text_init(&text, RESULTS_MAX);
    ok = json_write_pretty(object, &text) &&
         file_replace(name, text.data, text.len, 0666, err);
    text_clear(&text);
    free(name);
    return ok;
}

/* all_results.json keeps the metrics of earlier runs that this one does not measure, as
 * transformers' save_metrics does (trainer_pt_utils.py). */
static bool write_all(const struct run *run, const json_t *results, struct error *err)
{
    static const char file[] = "all_results.json";
    char *name = path_join(run->plan->output_dir, file);
    json_t *all = file_exists(name) ? json_read_file(name, RESULTS_MAX, NULL) : NULL;
    bool ok;

    if (!json_is_object(all)) {
        json_decref(all);
        all = json_object();
    }
    json_object_update(all, (json_t *)(uintptr_t)results);
    ok = write_object(run, file, all, err);
    json_decref(all);
    free(name);
    return ok;
}

/* Log the metrics as Trainer prints them: {'eval_loss': 2.1, ...} */
static void log_results(const struct run *run, const json_t *results)
{
    const char *key;
    const json_t *value;
    char number[32];
    struct text line;

    text_init(&line, 0);
    json_object_foreach((json_t *)(uintptr_t)results, key, value)
    {
        run_number_text(json_is_number(value) ? json_number_value(value) : NAN, number);
        text_addf(&line, "%s'%s': %s", line.len > 0 ? ", " : "{", key, number);
    }
    text_addc(&line, '}');
    run_log_line(run, line.data);
    text_clear(&line);
}

/* Publish the results under one of the names of LLaMA-Factory. */
static bool publish(const struct run *run, const char *file, json_t *results,
                    struct error *err)
{
    log_results(run, results);
    metrics_results(run->metrics, results);
    return write_object(run, file, results, err) && write_all(run, results, err);
}

static bool publish_loss(const struct run *run, const struct evaluation *evaluation,
                         const struct timed *timed, struct error *err)
{
    static const char prefix[] = "eval_";
    json_t *results = json_object();
    bool ok;

    if (evaluation->prefers) {
        add_pairs(results, prefix, evaluation);
    } else {
        add(results, prefix, "loss", evaluation->loss);
        if (!evaluation->weighted)
            add(results, prefix, "perplexity", exp(evaluation->loss));
        if (evaluation->measures && !run->predictions)
            add(results, prefix, "accuracy", evaluation->accuracy);
        add_answers(results, prefix, run, evaluation);
    }
    add_speed(results, prefix, timed, run->eval_size);
    ok = publish(run, "eval_results.json", results, err);
    json_decref(results);
    return ok;
}

static bool publish_predictions(const struct run *run,
                                const struct evaluation *evaluation,
                                const struct timed *timed, struct error *err)
{
    static const char prefix[] = "predict_";
    char *name = path_join(run->plan->output_dir, "generated_predictions.jsonl");
    json_t *results = json_object();
    bool ok;

    if (run->scores)
        add_pairs(results, prefix, evaluation);
    else
        add_answers(results, prefix, run, evaluation);
    add_speed(results, prefix, timed, (size_t)run->plan->per_device_eval_batch_size);
    ok = (run->scores ? score_file_write(run->scores, name, err)
                      : predictions_write(run->predictions, name, err)) &&
         publish(run, "predict_results.json", results, err);
    json_decref(results);
    free(name);
    return ok;
}

static void warn_of_chinese(const struct run *run)
{
    if (run->predictions && predictions_have_chinese(run->predictions))
        log_line(run->options->log, LOG_WARN,
                 "evaluation: the texts have Chinese characters, which ROUGE counts as "
                 "words; LLaMA-Factory joins them to words by jieba's dictionary, so "
                 "these scores have other names (rouge-1-char)");
}

/* Generate once, also for both do_eval and do_predict: the answers would be the same, and
 * so would scores. */
static bool measure(struct run *run, struct error *err)
{
    const struct plan *plan = run->plan;
    bool evaluates = plan_evaluates_loss(plan);
    struct evaluation evaluation = { .loss = NAN };
    bool scores = plan->stage == STAGE_RM && plan->do_predict;
    struct evaluation_parts parts = { .loss = evaluates || scores,
                                      .answers = plan->generation.on };
    struct timed loss = { dataset_samples(run->eval), 0 }, answers = { 0, 0 };

    if (plan->generation.on)
        run->predictions = predictions_new(dataset_questions(run_questions(run)));
    if (scores)
        run->scores = score_file_new(dataset_samples(run->eval));
    if (!evaluation_measure(run, &parts, &evaluation, err))
        return false;
    warn_of_chinese(run);
    answers.seconds = parts.answer_seconds;
    loss.seconds = parts.loss_seconds + parts.answer_seconds;
    if (run->predictions)
        answers.samples = predictions_answered(run->predictions);
    if (scores)
        answers = loss;
    return (!evaluates || publish_loss(run, &evaluation, &loss, err)) &&
           (!plan->do_predict || publish_predictions(run, &evaluation, &answers, err));
}

bool evaluation_only_run(const struct plan *plan, const struct trainer_options *options,
                         struct error *err)
{
    const struct plan only = evaluation_plan(plan);
    struct run run = { .plan = &only, .options = options, .evaluated_loss = NAN };
    bool ok = run_open(&run, err) && measure(&run, err);

    if (ok)
        log_line(options->log, LOG_INFO, "done: evaluated %zu samples, results in %s",
                 dataset_samples(run.eval), only.output_dir);
    run_close(&run);
    return ok;
}
