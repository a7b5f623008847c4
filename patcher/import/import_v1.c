/*
 * patcher/import/import_v1.c - convert a file of LLaMA-Factory v1 to a job.
 *
 * Meaning and defaults of its keys: hiyouga/LlamaFactory at ff6d4d12,
 * src/llamafactory/v1/config (names, defaults), core/base_trainer.py (optimizer,
 * schedule, saving), core/utils/batching.py and trainers.  The command, sft, dpo or rm,
 * is not in the file.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

/* Keys with the same meaning under another name or the same name. */
static const struct import_copy copies[] = {
    { "cutoff_len", "cutoff_len", NULL },
    { "micro_batch_size", "per_device_train_batch_size", NULL },
    { "learning_rate", "learning_rate", NULL },
    { "num_train_epochs", "num_train_epochs", NULL },
    { "max_steps", "max_steps", NULL },
    { "max_grad_norm", "max_grad_norm", NULL },
    { "bf16", "bf16", NULL },
    { "enable_activation_checkpointing", "gradient_checkpointing", NULL },
    { "seed", "seed", NULL },
    { "output_dir", "output_dir", NULL },
    { "logging_steps", "logging_steps", NULL },
    { "save_total_limit", "save_total_limit", NULL },
};

/* Defaults where they differ from those of a job. */
static const struct import_copy default_values[] = {
    { "1", "per_device_train_batch_size", "LLaMA-Factory v1's default" },
    { "1", "gradient_accumulation_steps", "LLaMA-Factory v1's default" },
    { "1.0e-4", "learning_rate", "LLaMA-Factory v1's default" },
    { "0.01", "weight_decay", "the default of PyTorch's AdamW, as in LLaMA-Factory v1" },
    { "constant", "lr_scheduler_type", "LLaMA-Factory v1's default" },
    { "true", "bf16", "LLaMA-Factory v1's default" },
    { "1", "logging_steps", "LLaMA-Factory v1's default" },
    { "no", "save_strategy", "LLaMA-Factory v1 saves only the final model by default" },
    { "true", "dataloader_drop_last", "as in LLaMA-Factory v1's loader" },
};

static const struct import_group groups[] = {
    { IMPORT_IDLE, "kernels change speed and memory, not results; trainspool has its own",
      "kernel_config flash_attn" },
    { IMPORT_IDLE, "multi-GPU settings; use trainspool: {ranks: N} instead",
      "dist_config dp_size cp_size cp_mode mp_replicate_size mp_shard_size "
      "dist_timeout" },
    { IMPORT_IDLE, "trainspool loads the model once for each GPU in its own way",
      "init_config" },
    { IMPORT_IDLE, "no third-party code is run", "trust_remote_code" },
    { IMPORT_IDLE, "no text is generated during training",
      "sample_backend max_new_tokens" },
    { IMPORT_IDLE, "LLaMA-Factory v1 does not evaluate during training", "eval_dataset" },
    { IMPORT_IDLE, "trainspool reads and tokenizes the data itself", "batching_workers" },
    { IMPORT_IDLE, "a run on the same device always gives the same bits",
      "full_determinism" },
    { IMPORT_IDLE, "models and adapters are always saved in Hugging Face format",
      "save_ckpt_as_hf" },
    { IMPORT_IDLE, "for preference training (llamafactory-cli dpo)",
      "pref_loss pref_beta pref_ftx simpo_gamma dpo_label_smoothing ld_alpha" },
    { IMPORT_DIFFERS,
      "the model's own template is used: write this one to chat_template.jinja in its "
      "folder",
      "custom_chat_template" },
};

/* ---- What the file trains ---- */

static bool refuse_kinds(struct importing *im)
{
    static const char *const maps[] = { "peft_config",        "quant_config",
                                        "kernel_config",      "dist_config",
                                        "optim_config",       "init_config",
                                        "lr_scheduler_config" };
    const struct entry *export = import_find(im, "peft_config.export_dir");
    const struct entry *class = import_find(im, "model_class");

    for (size_t i = 0; i < TS_COUNT(maps); i++) {
        const struct entry *entry = import_find(im, maps[i]);

        if (entry && node_value(entry->value)->kind != NODE_MAP)
            return import_refuse(im, ERROR_DATA, entry->value,
                                 "%s must be a map with a name", maps[i]);
    }
    if (export)
        return import_refuse(im, ERROR_DATA, export->key,
                             "peft_config.export_dir: this merges an adapter into a "
                             "model and trains nothing");
    if (!import_find(im, "train_dataset"))
        return import_refuse(im, ERROR_DATA, im->source->root,
                             "train_dataset is missing: this LLaMA-Factory v1 file "
                             "trains nothing");
    if (class && !text_equal(import_text(im, class->value), "llm"))
        return import_refuse(im, ERROR_JOB, class->value,
                             "model_class must be llm: reward models, classifiers and "
                             "other models are not supported; supported stages are sft, "
                             "pt, distill and dpo, all on text");
    import_mark_dropped(im, "model_class", IMPORT_IDLE, "a job trains a language model");
    return !import_failed(im);
}

/* ---- Preferences ---- */

static void import_preference_key(struct importing *im, const char *key, bool applies,
                                  const char *why)
{
    if (applies && import_find(im, key))
        import_copy(im, key, key, NULL);
    else
        import_mark_idle(im, key, why);
}

/* trainers/dpo_trainer.py; the defaults are those of a job. */
static void import_preference(struct importing *im)
{
    const char *loss = import_get(im, "pref_loss");

    if (!import_is_preference(im))
        return;
    if (loss)
        import_copy(im, "pref_loss", "pref_loss", NULL);
    import_preference_key(im, "pref_beta", true, "empty");
    import_preference_key(im, "pref_ftx", true, "empty");
    import_preference_key(im, "simpo_gamma", text_equal(loss, "simpo"),
                          "only for pref_loss: simpo");
    import_preference_key(im, "dpo_label_smoothing",
                          (!loss || strcmp(loss, "sigmoid") == 0) &&
                              import_number(im, "dpo_label_smoothing", 0) > 0,
                          "only for pref_loss: sigmoid");
    if (import_find(im, "ld_alpha"))
        import_mark_dropped(im, "ld_alpha", IMPORT_DIFFERS,
                            "a separate weight for the extra length of the longer "
                            "answer is not supported");
}

/* ---- Batch ---- */

static void import_batch(struct importing *im)
{
    double micro = import_number(im, "micro_batch_size", 1);
    double total = import_number(im, "global_batch_size", 0);

    if (total < 1 || micro < 1 || total > 1e6 || micro > 1e6) {
        import_mark_idle(im, "global_batch_size",
                         "not a number of samples from 1 to 1000000");
        return;
    }
    import_set(
        im, "gradient_accumulation_steps",
        arena_printf(im->arena, "%ld", total < micro ? 1 : (long)total / (long)micro),
        arena_printf(im->arena, "global_batch_size %.0f is the total: %.0f / %.0f", total,
                     total, micro));
    import_mark_carried(im, "global_batch_size", "gradient_accumulation_steps");
}

static void import_batching(struct importing *im)
{
    const char *strategy = import_get(im, "batching_strategy");

    if (strategy && text_starts(strategy, "dynamic"))
        import_mark_dropped(im, "batching_strategy", IMPORT_DIFFERS,
                            "%s fills a batch up to a number of tokens; a job has the "
                            "same number of samples in each",
                            strategy);
    else
        import_mark_idle(im, "batching_strategy", "trainspool computes no padding");
}

/* fsdp2 shards like ZeRO stage 3: plugins/trainer_plugins/distributed. */
static void report_ranks(struct importing *im)
{
    const char *name = import_get(im, "dist_config.name");
    bool engine = name && strcmp(name, "deepspeed") == 0;

    if (name)
        import_remark(
            im, "per_device_train_batch_size",
            "per GPU: for N GPUs, add trainspool: {ranks: N, zero_stage: %s}%s; "
            "a step then has N times as many samples",
            engine ? "S" : "3", engine ? " with the stage S of the DeepSpeed file" : "");
}

/* ---- Optimizer and schedule ---- */

static void import_betas(struct importing *im)
{
    static const char *const keys[] = { "adam_beta1", "adam_beta2" };
    const struct entry *entry = import_find(im, "optim_config.adamw_betas");
    const struct node *list = entry ? node_value(entry->value) : NULL;

    if (!list || list->kind != NODE_LIST || list->count != 2)
        return;
    for (size_t i = 0; i < 2 && !import_failed(im); i++) {
        const char *text = import_text(im, list->items[i]);

        if (text && !import_is_valid(im, keys[i], text))
            return;
        import_set(im, keys[i], text, "adamw_betas");
    }
    import_mark_carried(im, "optim_config.adamw_betas", "adam_beta1");
}

static void import_optimizer(struct importing *im)
{
    const char *name = import_get(im, "optim_config.name");

    if (!import_find(im, "optim_config")) {
        import_mark_dropped(im, "optim_config", IMPORT_IDLE, "empty");
        return;
    }
    import_mark_dropped(im, "optim_config.lr", IMPORT_IDLE,
                        "learning_rate takes precedence");
    if (name && import_is_valid(im, "optim", name)) {
        import_copy(im, "optim_config.name", "optim", NULL);
        if (import_find(im, "optim_config.wd"))
            import_copy(im, "optim_config.wd", "weight_decay", NULL);
        if (import_find(im, "optim_config.adamw_eps"))
            import_copy(im, "optim_config.adamw_eps", "adam_epsilon", NULL);
        import_betas(im);
        return;
    }
    import_set(im, "optim", "adamw_torch", "the file has another optimizer: see below");
    import_mark_dropped(
        im, "optim_config", IMPORT_DIFFERS,
        "%s is not supported, and AdamW requires a different learning rate",
        name ? name : "an optimizer without a name");
}

/* At this commit, v1 has a hook for schedules but none of its own. */
static void import_schedule(struct importing *im)
{
    const char *name = import_get(im, "lr_scheduler_config.name");

    if (name && import_is_valid(im, "lr_scheduler_type", name))
        import_copy(im, "lr_scheduler_config.name", "lr_scheduler_type", NULL);
    else if (name)
        import_mark_dropped(im, "lr_scheduler_config", IMPORT_DIFFERS,
                            "%s is not supported: the learning rate is constant", name);
    else
        import_mark_dropped(im, "lr_scheduler_config", IMPORT_IDLE, "empty");
}

/* ---- Saving ---- */

/* save_epochs may be a fraction: base_trainer.py makes steps of it. */
static void import_save_epochs(struct importing *im)
{
    double every = import_number(im, "save_epochs", 0);
    double epochs = import_number(im, "num_train_epochs", 3);

    if (!(every > 0)) {
        import_mark_idle(im, "save_epochs", "off");
        return;
    }
    if (every < 1 && epochs >= 1 && !import_find(im, "max_steps")) {
        import_set(im, "save_strategy", "steps", NULL);
        import_set(im, "save_steps", scalar_print(every / epochs, im->arena),
                   "save_epochs: a value below 1 is a part of all steps");
        import_mark_carried(im, "save_epochs", "save_steps");
        return;
    }
    import_set(im, "save_strategy", "epoch", NULL);
    if (every > 1 || every < 1)
        import_mark_dropped(im, "save_epochs", IMPORT_DIFFERS,
                            "a checkpoint is saved after each epoch");
    else
        import_mark_carried(im, "save_epochs", "save_strategy");
}

static void import_saving(struct importing *im)
{
    const char *resume = import_get(im, "resume_from_checkpoint");

    /* save_epochs wins */
    if (import_find(im, "save_epochs")) {
        import_save_epochs(im);
        import_mark_idle(im, "save_steps", "save_epochs takes precedence");
    } else if (import_find(im, "save_steps") &&
               !import_is_off(import_find(im, "save_steps")->value)) {
        import_set(im, "save_strategy", "steps", NULL);
        import_copy(im, "save_steps", "save_steps", NULL);
    } else {
        import_mark_idle(im, "save_steps", "off");
    }
    if (resume && strcmp(resume, "auto") == 0) {
        import_set(im, "resume_from_checkpoint", "true", NULL);
        import_mark_carried(im, "resume_from_checkpoint", "resume_from_checkpoint");
    } else if (resume) {
        import_mark_dropped(im, "resume_from_checkpoint", IMPORT_DIFFERS,
                            "a run here cannot continue from LLaMA-Factory's checkpoint");
    }
}

static void import_empty(struct importing *im)
{
    const struct node *root = im->source->root;

    for (size_t i = 0; i < root->count; i++)
        if (node_is_null(root->entries[i].value))
            import_mark_dropped(im, root->entries[i].key->text, IMPORT_IDLE, "empty");
}

bool import_v1(struct importing *im)
{
    if (!refuse_kinds(im))
        return false;
    import_v1_data(im);
    if (import_failed(im) || !import_v1_model(im))
        return false;
    import_preference(im);
    import_batch(im);
    import_batching(im);
    report_ranks(im);
    import_optimizer(im);
    import_schedule(im);
    import_saving(im);
    import_empty(im);
    import_copies(im, copies, TS_COUNT(copies));
    for (size_t i = 0; i < TS_COUNT(default_values); i++)
        import_set_default(im, default_values[i].to, default_values[i].from,
                           default_values[i].note);
    import_groups(im, groups, TS_COUNT(groups));
    return !import_failed(im);
}
