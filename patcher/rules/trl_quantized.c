/*
 * patcher/rules/trl_quantized.c - the casts of TRL's trainers, by version.
 *
 * Read in TRL 0.24 to 1.16: the trainers in trainer/, experimental/kto/kto_trainer.py ("the
 * PEFT adapter weights are converted to bf16") and models/utils.py, whose own
 * prepare_model_for_kbit_training of 0.25 casts norms only.
 */
#include "config.h"

#include "patcher/rules/trl_quantized.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "patcher/rules/rules_context.h"
#include "patcher/script/script.h"

static const struct trainer_row {
    const char *script, *class_name;
    const char *prepared; /* PEFT's function runs before this version */
    const char *casts;    /* to bfloat16 since this version */
    const char *last;     /* the release before it */
} rows[] = {
    { "rloo", "RLOOTrainer", "0.25.0.dev0", "0.27.0.dev0", "0.26" },
    { "dpo", "DPOTrainer", "0.29.0.dev0", "0.29.0.dev0", "0.28" },
    { "kto", "KTOTrainer", "1.4.0.dev0", "1.4.0.dev0", "1.3" },
};
/* SFT, reward and GRPO. */
static const struct trainer_row others = { "sft", "SFTTrainer", "0.25.0.dev0",
                                           "0.26.0.dev0", "0.25" };

/* Return the trainer's class in a Python script; NULL: none, or it is a job.  Unsloth
 * removes the cast from TRL's trainers (unsloth 2026.10.9, models/rl.py) for the models of
 * its classes FastModel, FastLanguageModel and FastVisionModel. */
static const char *class_of(const struct rule_context *context)
{
    const struct script_facts *facts =
        context->document->script ? script_facts_of(context->document) : NULL;

    return facts && !(facts->model_class && text_starts(facts->model_class, "Fast"))
               ? facts->trainer_class
               : NULL;
}

static const struct trainer_row *row_of(const struct rule_context *context)
{
    const char *class_name = class_of(context);

    for (size_t i = 0; i < TS_COUNT(rows); i++)
        if (class_name ? strcmp(class_name, rows[i].class_name) == 0
                       : rule_runs_trl(context, rows[i].script))
            return &rows[i];
    return &others;
}

/* Return whether a trainer of TRL trains: its command does, or a script has its class. */
static bool is_trl(const struct rule_context *context)
{
    static const char *const classes[] = { "SFTTrainer", "RewardTrainer", "GRPOTrainer",
                                           "DPOTrainer", "KTOTrainer",    "RLOOTrainer" };
    const char *class_name = class_of(context);

    for (size_t i = 0; class_name && i < TS_COUNT(classes); i++)
        if (strcmp(class_name, classes[i]) == 0)
            return true;
    return rule_is_trl(context);
}

bool trl_quantized_casts(const struct rule_context *context, bool *known)
{
    if (!is_trl(context) || !rule_has_quantized_weights(context))
        return false;
    *known &= versions_know(context->versions, PACKAGE_TRL);
    return !rule_version_below(context, PACKAGE_TRL, row_of(context)->casts);
}

bool trl_quantized_prepares(const struct rule_context *context)
{
    return rule_version_below(context, PACKAGE_TRL, row_of(context)->prepared);
}

const char *trl_quantized_last(const struct rule_context *context)
{
    return row_of(context)->last;
}
