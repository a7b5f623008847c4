/*
 * patcher/import/import_script_preference.c - the losses of TRL's DPOTrainer, CPOTrainer,
 * ORPOTrainer and KTOTrainer as those of stages dpo and kto.  What has another loss is
 * refused: a job made from it would train something else.
 *
 * TRL 1.16, trl/trainer/dpo_trainer.py, trl/trainer/kto_trainer.py and
 * trl/experimental/cpo/cpo_config.py.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "patcher/script/script.h"

/* Losses by the start of the trainer's name.  loss_type NULL: any, and none. */
static const struct loss {
    const char *trainer, *loss_type, *pref_loss;
} losses[] = {
    { "DPO", "sigmoid", "sigmoid" }, { "DPO", "hinge", "hinge" }, { "DPO", "ipo", "ipo" },
    { "ORPO", NULL, "orpo" },        { "CPO", "simpo", "simpo" },
};

static const char *trainer_of(const struct script_facts *facts)
{
    const char *name = facts->trainer_class ? facts->trainer_class : "";

    if (text_starts(name, "Unsloth"))
        name += strlen("Unsloth");
    return text_starts(name, "ORPO") || text_starts(name, "CPO") ? name : "DPOTrainer";
}

static bool import_pairs(struct importing *im, const struct entry *entry)
{
    const char *trainer = trainer_of(script_facts_of(im->source));
    const char *text = entry ? entry->value->text : "sigmoid";

    for (size_t i = 0; i < TS_COUNT(losses); i++)
        if (text_starts(trainer, losses[i].trainer) &&
            (!losses[i].loss_type || strcmp(losses[i].loss_type, text) == 0)) {
            import_set(im, "pref_loss", losses[i].pref_loss, NULL);
            import_mark_carried(im, "loss_type", "pref_loss");
            return true;
        }
    return import_refuse(im, ERROR_JOB, entry ? entry->value : im->source->root,
                         "the loss %.64s of %s is not supported; a job with stage: dpo "
                         "has the losses sigmoid, hinge and ipo of DPOTrainer, that of "
                         "ORPOTrainer, and simpo of CPOTrainer",
                         text, trainer);
}

bool import_script_loss(struct importing *im)
{
    const char *stage = import_value(im, "stage");
    const struct entry *entry = import_find(im, "loss_type");

    if (strcmp(stage, "dpo") == 0)
        return import_pairs(im, entry);
    if (strcmp(stage, "kto") != 0 || !entry)
        return true;
    if (strcmp(entry->value->text, "kto") != 0)
        return import_refuse(im, ERROR_JOB, entry->value,
                             "the loss %.64s of KTOTrainer is not supported; a job with "
                             "stage: kto has the loss kto",
                             entry->value->text);
    import_mark_dropped(im, "loss_type", IMPORT_IDLE, "the loss of stage kto");
    return true;
}
