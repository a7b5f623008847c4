/*
 * patcher/import/import_axolotl_feedback.c - Axolotl's rl: kto, and the columns of its
 * datasets: a question, an answer, and whether it is good.
 *
 * axolotl-ai-cloud/axolotl at 173ff01e: core/builders/rl.py, prompt_strategies/kto, and
 * the defaults of TRL's KTOConfig.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"

bool import_is_feedback(const struct importing *im)
{
    const char *stage = import_value(im, "stage");

    return stage && strcmp(stage, "kto") == 0;
}

void import_axolotl_feedback(struct importing *im)
{
    import_set(im, "stage", "kto", NULL);
    import_mark_carried(im, "rl", "stage");
    if (import_find(im, "kto_desirable_weight"))
        import_copy(im, "kto_desirable_weight", "kto_chosen_weight", NULL);
    if (import_find(im, "kto_undesirable_weight"))
        import_copy(im, "kto_undesirable_weight", "kto_rejected_weight", NULL);
    import_remark(im, "stage",
                  "the divergence is estimated with the answer of the record before, as "
                  "in LLaMA-Factory; TRL takes one of the same batch");
}

/* The question's column of Axolotl's types, by what follows the template's name. */
static const char *question_of(const char *type)
{
    static const char *const questions[][2] = {
        { "argilla", "instruction" },
        { "intel", "question" },
        { "prompt_pairs", "prompt" },
        { "ultra", "prompt" },
    };
    const char *dot = type ? strchr(type, '.') : NULL;

    for (size_t i = 0; dot && i < TS_COUNT(questions); i++)
        if (strcmp(questions[i][0], dot + 1) == 0)
            return questions[i][1];
    return NULL;
}

static const char *named(struct importing *im, const struct node *map, const char *key,
                         const char *default_value)
{
    const char *own = map ? import_text_of(im, map, key) : NULL;

    return import_json_name(im, own ? own : default_value);
}

bool import_axolotl_answer(struct importing *im, const struct node *custom,
                           const char *type, struct import_data *set)
{
    const char *question = custom ? "prompt" : question_of(type);
    const char *dot = type ? strchr(type, '.') : NULL;

    if (dot && strcmp(dot, ".argilla_chat") == 0) {
        set->form = "sharegpt";
        set->columns = "{\"messages\": \"completion\", \"kto_tag\": \"label\"}";
        set->tags = "{\"role_tag\": \"role\", \"content_tag\": \"content\", "
                    "\"user_tag\": \"user\", \"assistant_tag\": \"assistant\"}";
        return true;
    }
    if (!question)
        return false;
    set->form = "alpaca";
    set->columns =
        arena_printf(im->arena,
                     "{\"prompt\": \"%s\", \"response\": \"%s\", \"system\": \"%s\", "
                     "\"kto_tag\": \"%s\"}",
                     named(im, custom, "field_prompt", question),
                     named(im, custom, "field_completion", "completion"),
                     named(im, custom, "field_system", "system"),
                     named(im, custom, "field_label", "label"));
    return true;
}
