/*
 * patcher/import/import_axolotl_preference.c - Axolotl's rl: dpo, ipo, orpo and simpo,
 * which are losses of stage dpo, and the columns of the two answers in its datasets.
 *
 * axolotl-ai-cloud/axolotl at 067b021c: core/builders/rl.py, core/trainers/dpo,
 * prompt_strategies/dpo, and the defaults of TRL's DPOConfig, ORPOConfig and CPOConfig.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

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
    { IMPORT_IDLE, "only the answers are compared", "train_on_inputs" },
    { IMPORT_IDLE, "TRL turns dropout off for such a job, and so does trainspool",
      "lora_dropout" },
    { IMPORT_IDLE, "the model without its adapter gives the same result",
      "rl_adapter_ref_model" },
    { IMPORT_IDLE, "the reference runs along with the trained model",
      "precompute_ref_log_probs" },
    { IMPORT_IDLE, "kernel and memory settings of PyTorch",
      "dpo_padding_free dpo_use_liger_kernel dpo_use_logits_to_keep" },
    { IMPORT_IDLE, "no text is generated during training", "dpo_generate_during_eval" },
    { IMPORT_DIFFERS, "a question is truncated together with its answers, to cutoff_len",
      "max_prompt_len" },
    { IMPORT_DIFFERS, "pairs have no weights", "dpo_use_weighting" },
    { IMPORT_DIFFERS, "there is one loss, with weight 1", "dpo_loss_weights" },
    { IMPORT_DIFFERS, "no longer in Axolotl; pref_ftx is similar", "rpo_alpha" },
    { IMPORT_DIFFERS, "no longer in Axolotl; pref_loss: ipo takes means over tokens",
      "dpo_norm_loss" },
};

/* Read a loss of TRL's DPOTrainer; its list of losses must have one element. */
static const char *read_loss(struct importing *im, const char *loss)
{
    static const char *const known[] = { "sigmoid", "hinge", "ipo" };
    const struct entry *entry = import_find(im, "dpo_loss_type");
    const char *requested = entry ? import_joined(im, entry->value) : NULL;

    if (!entry)
        return loss;
    for (size_t i = 0; requested && i < TS_COUNT(known); i++)
        if (strcmp(known[i], requested) == 0) {
            import_mark_carried(im, "dpo_loss_type", "pref_loss");
            return known[i];
        }
    import_refuse(
        im, ERROR_JOB, entry->value,
        "dpo_loss_type must be sigmoid, hinge or ipo; other losses are not supported");
    return loss;
}

/* The first given key wins: core/builders/rl.py.  dpo_beta is the old name of rl_beta. */
static void import_beta(struct importing *im)
{
    static const char *const keys[] = { "trl.beta", "rl_beta", "dpo_beta", "orpo_alpha" };
    const char *winner = NULL;

    for (size_t i = 0; i < TS_COUNT(keys) && !import_failed(im); i++) {
        if (!import_find(im, keys[i]))
            continue;
        if (winner)
            import_mark_dropped(im, keys[i], IMPORT_IDLE, "%s takes precedence", winner);
        else if (import_copy(im, keys[i], "pref_beta", NULL))
            winner = keys[i];
    }
}

static void import_smoothing(struct importing *im, const char *loss)
{
    bool is_dpo = strcmp(loss, "sigmoid") == 0;

    if (is_dpo && import_number(im, "dpo_label_smoothing", 0) > 0)
        import_copy(im, "dpo_label_smoothing", "dpo_label_smoothing", NULL);
    else
        import_mark_idle(im, "dpo_label_smoothing", "only for the loss sigmoid");
}

/* Axolotl uses TRL's CPOTrainer for SimPO. */
static void import_simpo(struct importing *im, const char *loss)
{
    if (strcmp(loss, "simpo") != 0) {
        import_mark_idle(im, "simpo_gamma", "only for rl: simpo");
        import_mark_idle(im, "cpo_alpha", "only for rl: simpo");
        return;
    }
    if (import_find(im, "simpo_gamma"))
        import_copy(im, "simpo_gamma", "simpo_gamma", NULL);
    if (import_find(im, "cpo_alpha"))
        import_copy(im, "cpo_alpha", "pref_ftx", "cpo_alpha");
    else
        import_set(im, "pref_ftx", "1.0",
                   "cpo_alpha, which is 1 in TRL; the SimPO paper has none");
    import_remark(
        im, "pref_ftx",
        "the loss of the chosen answer is the mean over each answer's tokens; in TRL it "
        "is the mean over the tokens of a batch");
}

/* Import a reward model: core/trainers/base.py, AxolotlRewardTrainer, which is TRL's with
 * AutoModelForSequenceClassification.  Return whether the file trains one. */
static bool import_reward(struct importing *im)
{
    const char *labels = import_get(im, "num_labels");

    if (!import_is_true(im, "reward_model"))
        return false;
    if (labels && strcmp(labels, "1") != 0) {
        import_refuse(im, ERROR_JOB, import_find(im, "num_labels")->value,
                      "num_labels must be 1 with reward_model, not %s", labels);
        return true;
    }
    import_set(im, "stage", "rm", NULL);
    import_reward_model(im, false);
    import_mark_carried(im, "reward_model", "stage");
    import_mark_carried(im, "model_type", "trainspool");
    import_mark_carried(im, "num_labels", "trainspool");
    return true;
}

void import_axolotl_preference(struct importing *im)
{
    const char *rl = import_get(im, "rl"), *loss = NULL;

    if (import_reward(im))
        return;
    if (!rl || import_is_off(import_find(im, "rl")->value))
        return;
    if (import_axolotl_reinforcement(im))
        return;
    if (strcmp(rl, "kto") == 0) {
        import_axolotl_feedback(im);
        import_beta(im);
        import_groups(im, groups, TS_COUNT(groups));
        return;
    }
    for (size_t i = 0; i < TS_COUNT(kinds); i++)
        if (strcmp(kinds[i][0], rl) == 0)
            loss = kinds[i][1];
    if (!loss) {
        import_refuse(im, ERROR_JOB, import_find(im, "rl")->value,
                      "rl must be dpo, ipo, orpo, simpo, kto, grpo or gdpo, not %s", rl);
        return;
    }
    if (strcmp(rl, "dpo") == 0)
        loss = read_loss(im, loss);
    import_set(im, "stage", "dpo", NULL);
    import_set(im, "pref_loss", loss, strcmp(rl, loss) == 0 ? NULL : "rl: dpo");
    import_mark_carried(im, "rl", "pref_loss");
    import_beta(im);
    import_smoothing(im, loss);
    import_simpo(im, loss);
    if (strcmp(loss, "orpo") == 0)
        import_remark(
            im, "pref_loss",
            "cross-entropy counts only the chosen answer; in TRL it counts the question, "
            "too");
    if (import_find(im, "lora_model_dir"))
        import_remark(
            im, "adapter_name_or_path",
            "the reference is the model without any adapter; create_new_adapter: true "
            "merges this adapter first");
    import_groups(im, groups, TS_COUNT(groups));
}

/* ---- datasets ---- */

bool import_axolotl_answer_columns(struct importing *im, const struct node *map,
                                   const char **columns)
{
    const char *chosen_field = import_text_of(im, map, "field_chosen"),
               *rejected_field = import_text_of(im, map, "field_rejected");
    const char *chosen = chosen_field ? chosen_field : "chosen",
               *rejected = rejected_field ? rejected_field : "rejected";

    *columns = arena_printf(im->arena, "\"chosen\": \"%s\", \"rejected\": \"%s\"",
                            import_json_name(im, chosen), import_json_name(im, rejected));
    return strcmp(chosen, "chosen") != 0 || strcmp(rejected, "rejected") != 0;
}

/* Return the column of the question if it must be given; NULL: detected automatically. */
static const char *find_question(struct importing *im, const struct node *map,
                                 const char *type, const struct import_data *set)
{
    static const char *const questions[][2] = { { ".icr", "input" },
                                                { ".chat_template", "input" },
                                                { ".intel", "question" },
                                                { ".prompt_pairs", "prompt" },
                                                { ".ultra", "prompt" } };
    const char *own = type ? NULL : import_text_of(im, map, "field_prompt");
    const char *dot = type ? strchr(type, '.') : NULL;

    if (!type) /* user_defined */
        return own ? own : "prompt";
    for (size_t i = 0; dot && i < TS_COUNT(questions); i++)
        if (strcmp(questions[i][0], dot) == 0 && (i < 2 || import_data_is_part(set)))
            return questions[i][1];
    return NULL;
}

void import_axolotl_pair(struct importing *im, const struct node *map, const char *type,
                         struct import_data *set)
{
    const char *prompt = find_question(im, map, type, set);
    const char *system = type ? NULL : import_text_of(im, map, "field_system"), *answers;

    if (!import_axolotl_answer_columns(im, map, &answers) && !prompt &&
        !import_data_is_part(set))
        return;
    set->form = "alpaca";
    set->columns = arena_printf(
        im->arena, "{%s%s%s%s, \"system\": \"%s\"}", prompt ? "\"prompt\": \"" : "",
        prompt ? import_json_name(im, prompt) : "", prompt ? "\", " : "", answers,
        import_json_name(im, system ? system : "system"));
}
