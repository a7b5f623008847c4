/* train/evaluation.c - evaluation: sums over all ranks, metrics, the best model. */
#include "config.h"

#include "train/evaluation.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "train/eval_answers.h"
#include "train/criterion.h"
#include "train/autopsy.h"
#include "train/model/parallel.h"
#include "train/plateau.h"

/* Sums of a rank; rank 0 adds up those of all ranks. */
enum sum {
    SUM_LOSS,
    SUM_WEIGHT,
    SUM_HITS,
    SUM_RUNS,
    SUM_ASKED,
    SUM_FOUND,
    SUM_RIGHT,
    SUM_CUT,
    SUM_REWARDS,
    SUMS = SUM_REWARDS + REWARDS
};

static double metric_of(const struct plan *plan, const struct evaluation *evaluation)
{
    switch (criterion_metric(plan)) {
    case METRIC_ACCURACY:
        return evaluation->measures ? evaluation->accuracy : NAN;
    case METRIC_REWARD_ACCURACY:
        return evaluation->rewards.values[REWARD_ACCURACY];
    case METRIC_REWARD_MARGIN:
        return evaluation->rewards.values[REWARD_MARGIN];
    case METRIC_REWARD:
        return evaluation->rewards.values[SAMPLED_REWARD];
    case METRIC_ANSWER_RATE:
        return evaluation->answers ? evaluation->answer_rate : NAN;
    default:
        return evaluation->loss;
    }
}

/* The untrained model is no candidate, nor is a NaN metric. */
static void update_best(struct run *run, const struct evaluation *evaluation)
{
    struct progress *progress = &run->progress;
    double metric = metric_of(run->plan, evaluation);

    if (progress->step == 0 ||
        !criterion_is_better(run->plan, metric, progress->best_metric))
        return;
    progress->best_metric = metric;
    progress->best_step = progress->step;
}

bool evaluation_is_done(const struct run *run)
{
    for (size_t i = 0; i < run->history.count; i++)
        if (run->history.list[i].evaluation &&
            run->history.list[i].step == run->progress.step)
            return true;
    return false;
}

bool evaluation_stops_early(const struct run *run)
{
    const struct progress_history *history = &run->history;
    int64_t without = 0;

    for (size_t i = 0; i < history->count; i++)
        without += history->list[i].evaluation && history->list[i].step > 0 &&
                   history->list[i].step > run->progress.best_step;
    return run->plan->early_stopping_steps > 0 &&
           without >= run->plan->early_stopping_steps;
}

double evaluation_rate(const struct run *run)
{
    const struct progress_history *history = &run->history;
    struct plateau plateau;

    plateau_init(&plateau, run->plan);
    for (size_t i = 0; i < history->count; i++)
        if (history->list[i].evaluation && history->list[i].step > 0)
            plateau_add(&plateau, run->plan,
                        metric_of(run->plan, &history->list[i].evaluated));
    return plateau.rate;
}

struct heartbeat *evaluation_heartbeat(const struct run *run)
{
    return run->eval_heartbeat ? run->eval_heartbeat : run->options->heartbeat;
}

/* Keep the scores of batch i. */
static void put_scores(const struct run *run, uint64_t i)
{
    size_t room = run->batch.sequences;
    uint32_t *samples = memory_alloc((room + 1) * sizeof(*samples));
    const float *pair = model_pairs(run->model);
    size_t count = dataset_batch_samples(run->eval, 0, i, run->eval_size, samples, room);

    for (size_t k = 0; k + 1 < count; k += 2, pair += PREFERENCE_VALUES)
        score_file_put(run->scores, samples[k] / 2, (double)pair[PREFERENCE_CHOSEN],
                       (double)pair[PREFERENCE_REJECTED]);
    free(samples);
}

/* Evaluate this rank's share of the batches, dealt out in turn: losses and their weights
 * and, as in LLaMA-Factory, the share of correctly predicted tokens of each sample.  A
 * stop cuts it short. */
static bool add_losses(struct run *run, double sums[SUMS], struct error *err)
{
    const struct backend_group *group = run->options->group;
    size_t runs = 0;
    struct rewards rewards;

    for (uint64_t i = parallel_rank(group);
         dataset_batch(run->eval, 0, i, run->eval_size, &run->batch);
         i += parallel_ranks(group)) {
        if (!heartbeat_tick(evaluation_heartbeat(run))) {
            sums[SUM_CUT] = 1;
            return true;
        }
        if (!model_evaluate(run->model, &run->batch, &sums[SUM_LOSS], err))
            return false;
        sums[SUM_WEIGHT] += run->batch.weight;
        rewards = model_rewards(run->model);
        for (int j = 0; j < REWARDS; j++)
            sums[SUM_REWARDS + j] += rewards.values[j];
        model_accuracy(run->model, &run->batch, &sums[SUM_HITS], &runs);
        if (run->scores)
            put_scores(run, i);
        run->evaluated_loss = sums[SUM_LOSS] / sums[SUM_WEIGHT];
        if (!run->train)
            run_evaluated_one(run);
    }
    sums[SUM_RUNS] = (double)runs;
    return true;
}

static bool add_answers(struct run *run, double sums[SUMS], struct error *err)
{
    struct eval_answers answers = { 0 };

    if (!eval_answers_generate(run, &answers, err))
        return false;
    sums[SUM_ASKED] = (double)answers.asked;
    sums[SUM_FOUND] = (double)answers.found;
    sums[SUM_RIGHT] = (double)answers.right;
    sums[SUM_CUT] = answers.cut;
    for (int i = 0; run->rollout && i < REWARDS; i++)
        sums[SUM_REWARDS + i] = answers.rewards[i];
    return true;
}

static bool compute_sums(struct run *run, struct evaluation_parts *parts,
                         double sums[SUMS], struct error *err)
{
    double started = clock_seconds();

    if (parts->loss && !add_losses(run, sums, err))
        return false;
    parts->loss_seconds = clock_seconds() - started;
    if (parts->answers && sums[SUM_CUT] == 0 && !add_answers(run, sums, err))
        return false;
    parts->answer_seconds = clock_seconds() - started - parts->loss_seconds;
    if (sums[SUM_CUT] > 0 && !parallel_send_order(run->options->group, PARALLEL_CUT, err))
        return false;
    if (!model_follow(run->model, err))
        return false;
    return parallel_sum(run->options->group, sums, SUMS, err);
}

static struct evaluation_parts parts_of(const struct run *run)
{
    return (struct evaluation_parts) { .loss = run->plan->stage != STAGE_GRPO,
                                       .answers = run->plan->generation.on };
}

/* How another rank learns that rank 0 cuts the evaluation: nothing else is ordered before
 * its sums arrive. */
struct following {
    const struct backend_group *group;
    volatile sig_atomic_t stop;
};

static void check_order(void *context)
{
    struct following *following = context;
    struct parallel_order order;

    if (following->stop || !parallel_order_waits(following->group))
        return;
    parallel_receive_order(following->group, &order, NULL);
    following->stop = 1;
}

bool evaluation_follow(struct run *run, struct error *err)
{
    struct evaluation_parts parts = parts_of(run);
    double sums[SUMS] = { 0 };
    struct following following = { .group = run->options->group };
    struct heartbeat heartbeat = { .stop = &following.stop,
                                   .beat = check_order,
                                   .context = &following };
    bool ok;

    run->eval_heartbeat = &heartbeat;
    ok = compute_sums(run, &parts, sums, err);
    run->eval_heartbeat = NULL;
    return ok;
}

static void log_evaluation(const struct run *run, const struct evaluation *evaluation)
{
    char number[32];
    struct text line;

    text_init(&line, 0);
    text_adds(&line, "{");
    run_number_text(evaluation->loss, number);
    if (!evaluation->rewards.names)
        text_addf(&line, "'eval_loss': %s, ", number);
    run_number_text(exp(evaluation->loss), number);
    if (!evaluation->prefers && !evaluation->weighted)
        text_addf(&line, "'eval_perplexity': %s, ", number);
    run_number_text(evaluation->accuracy, number);
    if (evaluation->measures)
        text_addf(&line, "'eval_accuracy': %s, ", number);
    run_number_text(evaluation->answer_rate, number);
    if (evaluation->answers)
        text_addf(&line, "'eval_answer_rate': %s, ", number);
    if (evaluation->prefers)
        run_rewards_text(&evaluation->rewards, "eval_", &line);
    text_addf(&line, "'epoch': %.2f}", run->progress.epoch);
    run_log_line(run, line.data);
    text_clear(&line);
}

/* Stage grpo: an evaluation has no reference and no loss. */
static struct rewards rewards_of(const double sums[SUMS])
{
    const double *of = sums + SUM_REWARDS, count = sums[SUM_ASKED];
    struct rewards out = { .names = sampled_names };
    double mean = of[SAMPLED_REWARD] / count;
    double squares = fmax(of[SAMPLED_REWARD_STD] - count * mean * mean, 0);

    for (int i = 0; i < REWARDS; i++)
        out.values[i] = of[i] / count;
    out.values[SAMPLED_REWARD_STD] = count > 1 ? sqrt(squares / (count - 1)) : 0;
    out.values[SAMPLED_KL] = out.values[SAMPLED_CLIPPED] = NAN;
    return out;
}

bool evaluation_measure(struct run *run, struct evaluation_parts *parts,
                        struct evaluation *out, struct error *err)
{
    double sums[SUMS] = { 0 };

    if (!parallel_send_order(run->options->group, PARALLEL_EVALUATE, err) ||
        !compute_sums(run, parts, sums, err))
        return false;
    parts->cut = sums[SUM_CUT] > 0;
    *out = (struct evaluation) {
        .loss = sums[SUM_WEIGHT] > 0 ? sums[SUM_LOSS] / sums[SUM_WEIGHT] : NAN,
        .weighted = run->plan->token_loss != TOKEN_LOSS_PLAIN || run->plan->anchor > 0,
        .prefers = run->plan->stage >= STAGE_DPO,
    };
    for (int i = 0; out->prefers && i < REWARDS; i++)
        out->rewards.values[i] = sums[SUM_REWARDS + i] / sums[SUM_WEIGHT];
    out->rewards.feedback = run->plan->stage == STAGE_KTO;
    out->rewards.scores = run->plan->stage == STAGE_RM;
    rewards_divide(&out->rewards);
    if (run->rollout)
        out->rewards = rewards_of(sums);
    if (sums[SUM_RUNS] > 0) {
        out->measures = true;
        out->accuracy = sums[SUM_HITS] / sums[SUM_RUNS];
    }
    if (out->rewards.scores) { /* as LLaMA-Factory names it in this stage */
        out->measures = true;
        out->accuracy = out->rewards.values[REWARD_ACCURACY];
    }
    if (sums[SUM_ASKED] > 0) {
        out->measures = out->answers = true;
        out->accuracy = sums[SUM_RIGHT] / sums[SUM_ASKED];
        out->answer_rate = sums[SUM_FOUND] / sums[SUM_ASKED];
    }
    if (run->train && !parts->cut && sums[SUM_WEIGHT] > 0)
        autopsy_evaluation(run, out->loss);
    return run->train || !parts->cut ||
           error_set(err, ERROR_STOPPED, "stopped during the evaluation");
}

bool evaluation_run(struct run *run, struct error *err)
{
    const struct progress *progress = &run->progress;
    struct evaluation_parts parts = parts_of(run);
    struct evaluation evaluation;

    bool ok;

    model_use_average(run->model, true);
    ok = evaluation_measure(run, &parts, &evaluation, err);
    model_use_average(run->model, false);
    if (!ok)
        return false;
    if (parts.cut)
        return true;
    update_best(run, &evaluation);
    progress_history_add(&run->history, &(struct logged) { .evaluation = true,
                                                           .step = progress->step,
                                                           .epoch = progress->epoch,
                                                           .evaluated = evaluation });
    log_evaluation(run, &evaluation);
    metrics_eval(run->metrics, progress->step, progress->epoch, &evaluation);
    return true;
}
