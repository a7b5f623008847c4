/* patcher/rules/rules_saving.c - when a run saves, ends, and selects its best model. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

static const char *const when_names[] = { "no", "steps", "epoch", "best" };

static const char *number(const struct rule_context *context, double value)
{
    return scalar_print(value, context->arena);
}

/* A native run saves at each new best, independent of save_steps (train/trainer.c). */
static bool saves_the_best(const struct rule_context *context)
{
    return !context->plan->external && context->plan->eval_strategy != WHEN_NO;
}

static void report_best(struct rule_context *context, const char *key,
                        const char *message, const char *note)
{
    rule_report(context,
                &(struct finding) { .rule = "TS506",
                                    .severity = saves_the_best(context) ? SEVERITY_WARNING
                                                                        : SEVERITY_ERROR,
                                    .because = saves_the_best(context)
                                                   ? "transformers rejects it; a native "
                                                     "run saves each new best when it is "
                                                     "found"
                                                   : NULL,
                                    .message = message,
                                    .note = note },
                rule_entry(context, key) ? key : "load_best_model_at_end");
}

/* Return whether save is a multiple of eval, as transformers counts: both are fractions
 * of all steps, or numbers of them. */
static bool is_multiple(double save, double eval)
{
    const double millionths = 1e6;

    if (save < 1 && eval < 1)
        return fmod(round(save * millionths), round(eval * millionths)) == 0;
    return save >= 1 && eval >= 1 && fmod(save, eval) == 0;
}

/* Return the advice that names the multiples of eval below and above save. */
static const char *nearest_multiples(const struct rule_context *context, double save,
                                     double eval)
{
    double times = floor(save / eval);

    if ((save < 1) != (eval < 1))
        return "write both as a number of steps, or both as a fraction of all steps";
    if (times < 1)
        return arena_printf(context->arena, "use save_steps: %s", number(context, eval));
    return arena_printf(context->arena, "use save_steps: %s or %s",
                        number(context, times * eval),
                        number(context, (times + 1) * eval));
}

static void check_multiple(struct rule_context *context)
{
    double save = context->plan->save_steps, eval = context->plan->eval_steps;

    if (!(save > 0) || !(eval > 0) || is_multiple(save, eval))
        return;
    report_best(
        context, "save_steps",
        arena_printf(context->arena,
                     "load_best_model_at_end requires a checkpoint at each evaluation: "
                     "save_steps %s is not a multiple of eval_steps %s%s",
                     number(context, save), number(context, eval),
                     rule_entry(context, "eval_steps") ? "" : " (logging_steps)"),
        nearest_multiples(context, save, eval));
}

/* A checkpoint at each new best is what load_best_model_at_end needs. */
static bool saves_at_best(const struct rule_context *context)
{
    const struct entry *save = rule_entry(context, "save_strategy");

    return save && strcmp(node_value(save->value)->text, "best") == 0;
}

static void rule_best_model(struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (!plan->load_best_model_at_end || saves_at_best(context))
        return;
    if (plan->save_strategy != plan->eval_strategy)
        report_best(context, "eval_strategy",
                    arena_printf(
                        context->arena,
                        "load_best_model_at_end requires evaluations and checkpoints at "
                        "the same steps: eval_strategy is %s, save_strategy is %s",
                        when_names[plan->eval_strategy], when_names[plan->save_strategy]),
                    plan->save_strategy == WHEN_NO
                        ? arena_printf(context->arena, "use save_strategy: %s",
                                       when_names[plan->eval_strategy])
                        : arena_printf(context->arena, "use eval_strategy: %s",
                                       when_names[plan->save_strategy]));
    else if (plan->save_strategy == WHEN_STEPS)
        check_multiple(context);
    else if (plan->save_strategy == WHEN_NO)
        report_best(context, "load_best_model_at_end",
                    "load_best_model_at_end has nothing to choose from: the run neither "
                    "evaluates nor saves",
                    "eval_strategy: steps and save_strategy: steps");
}

static void rule_steps_and_epochs(struct rule_context *context)
{
    if (context->plan->max_steps <= 0 || !rule_entry(context, "num_train_epochs"))
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS509",
                    .severity = SEVERITY_INFO,
                    .message = arena_printf(context->arena,
                                            "max_steps takes precedence: the run ends "
                                            "after %lld steps, regardless of "
                                            "num_train_epochs",
                                            (long long)context->plan->max_steps),
                    .note = "set max_steps: -1 to let num_train_epochs decide" },
                "max_steps");
}

struct counted {
    const char *key, *strategy;
    double steps;
    enum when when;
};

/* Report only step counts that are used, as transformers does (training_args.py,
 * _validate_args).  There and here eval_steps defaults to logging_steps. */
static void report_no_steps(struct rule_context *context, const struct counted *counted)
{
    bool eval = strcmp(counted->key, "eval_steps") == 0;
    bool save = strcmp(counted->key, "save_steps") == 0;

    if (save && context->plan->external)
        return; /* the Trainer saves only at the end: DefaultFlowCallback */
    rule_report(context,
                &(struct finding) {
                    .rule = "TS705",
                    .severity = SEVERITY_ERROR,
                    .message = arena_printf(
                        context->arena, "%s%s must be above 0 if %s is steps",
                        counted->key, eval ? " or logging_steps" : "", counted->strategy),
                    .note = arena_printf(context->arena, "use %s: no to turn it off",
                                         counted->strategy) },
                rule_entry(context, counted->key) ? counted->key : "logging_steps");
}

static void report_fraction(struct rule_context *context, const struct counted *counted)
{
    double steps = counted->steps;

    rule_report(
        context,
        &(struct finding) {
            .rule = "TS511",
            .severity = SEVERITY_ERROR,
            .message = arena_printf(context->arena,
                                    "%s is %s: a value above 1 must be a whole number of "
                                    "steps",
                                    counted->key, number(context, steps)),
            .note = arena_printf(context->arena,
                                 "use %s: %s or %s; a value below 1 is a fraction of "
                                 "all steps",
                                 counted->key, number(context, floor(steps)),
                                 number(context, ceil(steps))) },
        counted->key);
}

static void rule_step_counts(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const struct counted all[] = {
        { "logging_steps", "logging_strategy", plan->logging_steps,
          plan->logging_strategy },
        { "eval_steps", "eval_strategy", plan->eval_steps, plan->eval_strategy },
        { "save_steps", "save_strategy", plan->save_steps,
          saves_at_best(context) ? WHEN_NO : plan->save_strategy },
    };

    for (size_t i = 0; i < TS_COUNT(all); i++) {
        if (all[i].when != WHEN_STEPS)
            continue;
        if (all[i].steps == 0)
            report_no_steps(context, &all[i]);
        else if (rule_entry(context, all[i].key) && all[i].steps > 1 &&
                 floor(all[i].steps) != all[i].steps)
            report_fraction(context, &all[i]);
    }
}

static const struct rule rows[] = {
    { .id = "TS506",
      .title = "load_best_model_at_end cannot find the best checkpoint",
      .severity = SEVERITY_ERROR,
      .run = rule_best_model,
      .explain =
          "load_best_model_at_end selects the checkpoint with the lowest evaluation "
          "loss, so every evaluation needs a checkpoint: eval_strategy and "
          "save_strategy must be equal, and with steps, save_steps must be a multiple "
          "of eval_steps. eval_steps defaults to logging_steps. transformers raises a "
          "ValueError when it parses the arguments.\n\n"
          "A native run also saves at each new best, so there only a missing evaluation "
          "is an error; the other cases are warnings that other tools reject the "
          "file.\n\n"
          "The finding names the nearest valid values. Nothing is edited: how often to "
          "save depends on disk space and on how much work may be lost.",
      .source = "transformers training_args.py: __post_init__" },
    { .id = "TS509",
      .title = "max_steps and num_train_epochs both given",
      .severity = SEVERITY_INFO,
      .run = rule_steps_and_epochs,
      .explain =
          "max_steps above 0 takes precedence, in Hugging Face's Trainer and in a native "
          "run: the run ends after that many steps, within an epoch or after many, and "
          "the learning rate reaches its end by then. num_train_epochs has no effect. "
          "The finding warns a reader that the line num_train_epochs does not determine "
          "the length of the run.",
      .source = "transformers training_args.py; 9 files of the corpus have both" },
    { .id = "TS511",
      .title = "fractional number of steps",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_step_counts,
      .explain =
          "save_steps, eval_steps and logging_steps count optimizer steps if they are 1 "
          "or more, and are a fraction of all steps below 1: 0.1 saves ten times in a "
          "run. 2.5 is neither. transformers raises a ValueError; the finding names the "
          "nearest whole numbers.",
      .source = "transformers training_args.py: __post_init__" },
};

const struct rules rules_saving = { rows, TS_COUNT(rows) };
