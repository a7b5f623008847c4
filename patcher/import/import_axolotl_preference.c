/*
 * patcher/import/import_axolotl_preference.c - rl: dpo, ipo, orpo and simpo of Axolotl, which
 * are losses of stage dpo, and where its data sets have the two answers.
 *
 * axolotl-ai-cloud/axolotl at 067b021c: core/builders/rl.py, core/trainers/dpo,
 * prompt_strategies/dpo, and what TRL's DPOConfig, ORPOConfig and CPOConfig have where
 * nothing is said.
 */
#include "config.h"

#include "patcher/import/import_parts.h"

#include <string.h>

#include "base/size.h"

static const char *const kinds[][2] = {
    /* rl, pref_loss */
    { "dpo", "sigmoid" },
    { "ipo", "ipo" },
    { "orpo", "orpo" },
    { "simpo", "simpo" },
};

static const struct import_group groups[] = {
    { IMPORT_IDLE, "answers alone are compared", "train_on_inputs" },
    { IMPORT_IDLE, "TRL turns dropout off in such a job, and so it is here",
      "lora_dropout" },
    { IMPORT_IDLE, "the model without its adapter says the same",
      "rl_adapter_ref_model" },
    { IMPORT_IDLE, "the reference is asked beside the model that is trained",
      "precompute_ref_log_probs" },
    { IMPORT_IDLE, "kernels and memory of PyTorch",
      "dpo_padding_free dpo_use_liger_kernel dpo_use_logits_to_keep" },
    { IMPORT_IDLE, "no text is generated while training", "dpo_generate_during_eval" },
    { IMPORT_DIFFERS, "a question is cut with its answers, to cutoff_len",
      "max_prompt_len" },
    { IMPORT_DIFFERS, "pairs have no weights of their own", "dpo_use_weighting" },
    { IMPORT_DIFFERS, "there is one loss, of weight 1", "dpo_loss_weights" },
    { IMPORT_DIFFERS, "not in Axolotl any more; pref_ftx is its like", "rpo_alpha" },
    { IMPORT_DIFFERS, "not in Axolotl any more; pref_loss: ipo has means over tokens",
      "dpo_norm_loss" },
};

/* A loss of TRL's DPOTrainer; a list of it has one. */
static const char *read_loss(struct importing *im, const char *loss)
{
    static const char *const known[] = { "sigmoid", "hinge", "ipo" };
    const struct entry *entry = import_find(im, "dpo_loss_type");
    const char *asked = entry ? import_joined(im, entry->value) : NULL;

    if (!entry)
        return loss;
    for (size_t i = 0; asked && i < TS_COUNT(known); i++)
        if (strcmp(known[i], asked) == 0) {
            import_took(im, "dpo_loss_type", "pref_loss");
            return known[i];
        }
    import_refuse(im, ERROR_JOB, entry->value,
                  "dpo_loss_type: this loss is not done here, only one of sigmoid, "
                  "hinge and ipo");
    return loss;
}

/* The first that is given wins: core/builders/rl.py; dpo_beta is an older rl_beta. */
static void import_beta(struct importing *im)
{
    static const char *const keys[] = { "trl.beta", "rl_beta", "dpo_beta", "orpo_alpha" };
    const char *winner = NULL;

    for (size_t i = 0; i < TS_COUNT(keys) && !import_failed(im); i++) {
        if (!import_find(im, keys[i]))
            continue;
        if (winner)
            import_left(im, keys[i], IMPORT_IDLE, "%s wins", winner);
        else if (import_copy(im, keys[i], "pref_beta", NULL))
            winner = keys[i];
    }
}

static void import_smoothing(struct importing *im, const char *loss)
{
    bool of_dpo = strcmp(loss, "sigmoid") == 0;

    if (of_dpo && import_number(im, "dpo_label_smoothing", 0) > 0)
        import_copy(im, "dpo_label_smoothing", "dpo_label_smoothing", NULL);
    else
        import_idle(im, "dpo_label_smoothing", "of the loss sigmoid alone");
}

/* TRL's CPOTrainer, which Axolotl takes for it. */
static void import_simpo(struct importing *im, const char *loss)
{
    if (strcmp(loss, "simpo") != 0) {
        import_idle(im, "simpo_gamma", "of rl: simpo alone");
        import_idle(im, "cpo_alpha", "of rl: simpo alone");
        return;
    }
    if (import_find(im, "simpo_gamma"))
        import_copy(im, "simpo_gamma", "simpo_gamma", NULL);
    if (import_find(im, "cpo_alpha"))
        import_copy(im, "cpo_alpha", "pref_ftx", "cpo_alpha");
    else
        import_set(im, "pref_ftx", "1.0",
                   "cpo_alpha, which is 1 in TRL; SimPO's own authors have none");
    import_remark(im, "pref_ftx",
                  "of the chosen answer's tokens TRL takes the mean over a batch, and "
                  "here it is over each answer");
}

void import_axolotl_preference(struct importing *im)
{
    const char *rl = import_get(im, "rl"), *loss = NULL;

    if (!rl || import_is_off(import_find(im, "rl")->value))
        return;
    for (size_t i = 0; i < TS_COUNT(kinds); i++)
        if (strcmp(kinds[i][0], rl) == 0)
            loss = kinds[i][1];
    if (!loss) {
        import_refuse(im, ERROR_JOB, import_find(im, "rl")->value,
                      "rl: %s is not done here, only dpo, ipo, orpo and simpo", rl);
        return;
    }
    if (strcmp(rl, "dpo") == 0)
        loss = read_loss(im, loss);
    import_set(im, "stage", "dpo", NULL);
    import_set(im, "pref_loss", loss, strcmp(rl, loss) == 0 ? NULL : "rl: dpo");
    import_took(im, "rl", "pref_loss");
    import_beta(im);
    import_smoothing(im, loss);
    import_simpo(im, loss);
    if (strcmp(loss, "orpo") == 0)
        import_remark(
            im, "pref_loss",
            "TRL's cross-entropy of the chosen answer counts the question, too; here "
            "it is that of the answer");
    if (import_find(im, "lora_model_dir"))
        import_remark(im, "adapter_name_or_path",
                      "answers are held against the model without any adapter; "
                      "create_new_adapter: true merges this one first");
    import_groups(im, groups, TS_COUNT(groups));
}

/* ---- data sets ---- */

bool import_axolotl_answers(struct importing *im, const struct node *map,
                            const char **columns)
{
    const char *one = import_text_of(im, map, "field_chosen"),
               *other = import_text_of(im, map, "field_rejected");
    const char *chosen = one ? one : "chosen", *rejected = other ? other : "rejected";

    *columns = arena_printf(im->arena, "\"chosen\": \"%s\", \"rejected\": \"%s\"",
                            import_json_word(im, chosen), import_json_word(im, rejected));
    return strcmp(chosen, "chosen") != 0 || strcmp(rejected, "rejected") != 0;
}

/* Which column has the question, where that must be said; NULL: it is found out. */
static const char *find_question(struct importing *im, const struct node *map,
                                 const char *type, const struct import_data *set)
{
    static const char *const questions[][2] = { { ".icr", "input" },
                                                { ".intel", "question" },
                                                { ".prompt_pairs", "prompt" },
                                                { ".ultra", "prompt" } };
    const char *own = type ? NULL : import_text_of(im, map, "field_prompt");
    const char *dot = type ? strchr(type, '.') : NULL;

    if (!type) /* user_defined */
        return own ? own : "prompt";
    for (size_t i = 0; dot && i < TS_COUNT(questions); i++)
        if (strcmp(questions[i][0], dot) == 0 && (i == 0 || import_takes_part(set)))
            return questions[i][1];
    return NULL;
}

void import_axolotl_pair(struct importing *im, const struct node *map, const char *type,
                         struct import_data *set)
{
    const char *prompt = find_question(im, map, type, set);
    const char *system = type ? NULL : import_text_of(im, map, "field_system"), *answers;

    if (!import_axolotl_answers(im, map, &answers) && !prompt && !import_takes_part(set))
        return;
    set->form = "alpaca";
    set->columns = arena_printf(
        im->arena, "{%s%s%s%s, \"system\": \"%s\"}", prompt ? "\"prompt\": \"" : "",
        prompt ? import_json_word(im, prompt) : "", prompt ? "\", " : "", answers,
        import_json_word(im, system ? system : "system"));
}
