/* patcher/import/import_axolotl_saving.c - Axolotl's settings for saving, evaluation and
 * the best model.
 * 
 * axolotl-ai-cloud/axolotl at 067b021c: core/builders/base.py, utils/config. */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

/* Convert a number of times per epoch to a share of all steps.  Round down: the number of
 * steps is rounded up, so a larger share could give one step too many. */
static const char *share_of_steps(struct importing *im, double times)
{
    double epochs = import_number(im, "num_epochs", 1);
    double part = floor(1e6 / (times * epochs)) / 1e6;

    return times * epochs > 1 && part > 0 ? scalar_print(part, im->arena) : NULL;
}

static void import_per_epoch(struct importing *im, const char *from, const char *strategy,
                             const char *steps)
{
    double times = import_number(im, from, 0);
    const char *every = times > 0 ? share_of_steps(im, times) : NULL;

    if (!every || (times == 1 && !import_find(im, "max_steps"))) {
        import_set(im, strategy, "epoch", NULL);
        import_mark_carried(im, from, strategy);
        return;
    }
    import_set(im, strategy, "steps", NULL);
    import_set(im, steps, every,
               arena_printf(im->arena, "%s %s: as a share of all steps", from,
                            scalar_print(times, im->arena)));
    import_mark_carried(im, from, steps);
}

/* After import_evaluation. */
static bool evaluates(const struct importing *im)
{
    const char *strategy = import_value(im, "eval_strategy");

    return strategy && strcmp(strategy, "no") != 0;
}

static void import_saving(struct importing *im)
{
    const char *strategy = import_get(im, "save_strategy");

    if (import_number(im, "save_steps", 0) > 0) {
        import_set(im, "save_strategy", "steps", NULL);
        import_copy(im, "save_steps", "save_steps", NULL);
        import_mark_dropped(im, "save_strategy", IMPORT_IDLE,
                            "save_steps takes precedence");
    } else if (import_number(im, "saves_per_epoch", 0) > 0) {
        import_per_epoch(im, "saves_per_epoch", "save_strategy", "save_steps");
    } else if (strategy && import_is_valid(im, "save_strategy", strategy) &&
               (strcmp(strategy, "best") != 0 || evaluates(im))) {
        import_copy(im, "save_strategy", "save_strategy", NULL);
    } else {
        import_set(im, "save_strategy", "epoch", strategy ? NULL : "Axolotl's default");
        if (strategy)
            import_mark_dropped(
                im, "save_strategy", IMPORT_DIFFERS,
                "a checkpoint is saved after each epoch, not only the best one");
    }
    import_mark_idle(im, "save_steps", "not a number of steps");
    import_mark_idle(im, "saves_per_epoch", "save_steps takes precedence");
    import_mark_dropped(im, "save_strategy", IMPORT_IDLE,
                        strategy ? "saves_per_epoch takes precedence" : "empty");
    if (import_is_true(im, "auto_resume_from_checkpoints") &&
        !import_find(im, "resume_from_checkpoint"))
        import_copy(im, "auto_resume_from_checkpoints", "resume_from_checkpoint", NULL);
    import_mark_idle(im, "auto_resume_from_checkpoints",
                     "resume_from_checkpoint takes precedence");
}

static void import_metric(struct importing *im)
{
    const char *metric = import_get(im, "metric_for_best_model");

    if (!metric || strcmp(metric, "loss") == 0 || strcmp(metric, "eval_loss") == 0) {
        import_copy(im, "metric_for_best_model", "metric_for_best_model", NULL);
        import_copy(im, "greater_is_better", "greater_is_better", NULL);
        return;
    }
    import_mark_dropped(im, "metric_for_best_model", IMPORT_DIFFERS,
                        "the best model is the one with the lowest loss");
    import_mark_idle(im, "greater_is_better",
                     "for metric_for_best_model; a lower loss is better");
}

static void import_best(struct importing *im, bool is_evaluated)
{
    static const char *const keys[] = { "load_best_model_at_end",
                                        "early_stopping_patience",
                                        "metric_for_best_model", "greater_is_better" };

    if (is_evaluated) {
        if (import_number(im, "early_stopping_patience", 0) > 0)
            import_copy(im, "early_stopping_patience", "early_stopping_steps", NULL);
        import_copy(im, "load_best_model_at_end", "load_best_model_at_end", NULL);
        import_metric(im);
    }
    for (size_t i = 0; i < TS_COUNT(keys); i++)
        import_mark_idle(im, keys[i],
                         is_evaluated ? "not a number of evaluations"
                                      : "there is no evaluation");
}

/* Import the evaluation interval.  Return the key that sets it; NULL: never. */
static const char *import_eval_interval(struct importing *im)
{
    const char *strategy =
        import_find(im, "eval_strategy") ? "eval_strategy" : "evaluation_strategy";

    if (import_number(im, "eval_steps", 0) > 0) {
        import_set(im, "eval_strategy", "steps", NULL);
        import_copy(im, "eval_steps", "eval_steps", NULL);
        return "eval_steps";
    }
    if (import_number(im, "evals_per_epoch", 0) > 0) {
        import_per_epoch(im, "evals_per_epoch", "eval_strategy", "eval_steps");
        return "evals_per_epoch";
    }
    if (!import_find(im, strategy))
        return NULL;
    import_copy(im, strategy, "eval_strategy", NULL);
    return strategy;
}

static void import_evaluation(struct importing *im)
{
    static const char *const keys[] = { "eval_steps", "evals_per_epoch", "eval_strategy",
                                        "evaluation_strategy", "eval_batch_size" };
    /* Axolotl refuses both; the test data is kept */
    double share_kept =
        import_value(im, "eval_dataset") ? 0 : import_number(im, "val_set_size", 0);
    const struct entry *sets = import_find(im, "test_datasets");
    const char *winner;
    bool is_evaluated;

    if (share_kept > 0)
        import_copy(im, "val_set_size", "val_size", NULL);
    else
        import_mark_dropped(im, "val_set_size", IMPORT_IDLE, "off");
    if (share_kept <= 0 && (!sets || import_is_off(sets->value))) {
        for (size_t i = 0; i < TS_COUNT(keys); i++)
            import_mark_dropped(im, keys[i], IMPORT_IDLE,
                                "there is no evaluation data: val_set_size is 0");
        import_best(im, false);
        return;
    }
    winner = import_eval_interval(im);
    is_evaluated = evaluates(im);
    if (is_evaluated) {
        import_set(im, "eval_on_start", "true",
                   "Axolotl evaluates before the first step");
        if (!import_copy(im, "eval_batch_size", "per_device_eval_batch_size", NULL))
            import_set(im, "per_device_eval_batch_size",
                       scalar_print(import_number(im, "micro_batch_size", 1), im->arena),
                       "by default, the same as for training");
    }
    import_best(im, is_evaluated);
    if (!is_evaluated)
        import_mark_idle(im, "eval_batch_size", "no evaluation interval is set");
    for (size_t i = 0; i < TS_COUNT(keys); i++)
        import_mark_idle(im, keys[i],
                         winner ? arena_printf(im->arena, "%s takes precedence", winner)
                                : "not a number of times");
}

void import_axolotl_saving(struct importing *im)
{
    import_evaluation(im);
    import_saving(im);
}
