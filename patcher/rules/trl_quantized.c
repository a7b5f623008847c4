/*
 * patcher/rules/trl_quantized.c - the casts of TRL's trainers, by version.
 *
 * Read in TRL 0.24 to 1.16: the trainers in trainer/, experimental/kto/kto_trainer.py ("the
 * PEFT adapter weights are converted to bf16") and models/utils.py, whose own
 * prepare_model_for_kbit_training of 0.25 casts norms only.
 */
#include "config.h"

#include "patcher/rules/trl_quantized.h"

#include "base/size.h"
#include "patcher/rules/rules_context.h"

static const struct trainer_row {
    const char *script;
    const char *prepared; /* PEFT's function runs before this version */
    const char *casts;    /* to bfloat16 since this version */
    const char *last;     /* the release before it */
} rows[] = {
    { "rloo", "0.25.0.dev0", "0.27.0.dev0", "0.26" },
    { "dpo", "0.29.0.dev0", "0.29.0.dev0", "0.28" },
    { "kto", "1.4.0.dev0", "1.4.0.dev0", "1.3" },
};
/* SFT, reward and GRPO. */
static const struct trainer_row others = { "sft", "0.25.0.dev0", "0.26.0.dev0", "0.25" };

static const struct trainer_row *row_of(const struct rule_context *context)
{
    for (size_t i = 0; i < TS_COUNT(rows); i++)
        if (rule_runs_trl(context, rows[i].script))
            return &rows[i];
    return &others;
}

bool trl_quantized_casts(const struct rule_context *context, bool *known)
{
    if (!rule_is_trl(context) || !rule_has_quantized_weights(context))
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
