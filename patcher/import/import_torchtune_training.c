/*
 * patcher/import/import_torchtune_training.c - training settings of a torchtune recipe:
 * optimizer, schedule, clipping, steps, saving, evaluation.
 *
 * pytorch/torchtune at bd2a0fc7: recipes, training/lr_schedulers.py; the defaults of an
 * optimizer are those of PyTorch and bitsandbytes.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

/* ---- optimizer and schedule ---- */

static const struct optimizer {
    const char *component, *optim;
    const char *decay; /* default of weight_decay */
    const char *beta2; /* default, if it is not the usual one */
} optimizers[] = {
    { "AdamW", "adamw_torch", "0.01", NULL },
    { "AdamW8bit", "adamw_8bit", "0.01", NULL },
    { "PagedAdamW", "paged_adamw_32bit", "0.01", NULL },
    { "PagedAdamW8bit", "paged_adamw_8bit", "0.01", NULL },
    { "CPUOffloadOptimizer", "adamw_torch", "0.01", NULL },
    { "SGD", "sgd", "0.0", NULL },
    { "Lion", "lion", "0.0", "0.99" },
    { "Lion8bit", "lion_8bit", "0.0", "0.99" },
    { "PagedLion", "paged_lion_32bit", "0.0", "0.99" },
    { "PagedLion8bit", "paged_lion_8bit", "0.0", "0.99" },
};

static const struct optimizer *optimizer_of(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(optimizers); i++)
        if (strcmp(optimizers[i].component, name) == 0)
            return &optimizers[i];
    return NULL;
}

static void import_betas(struct importing *im, const struct optimizer *known)
{
    const struct entry *entry = import_find(im, "optimizer.betas");
    const struct node *list = entry ? node_value(entry->value) : NULL;

    if (!list || list->kind != NODE_LIST || list->count != 2) {
        if (known && known->beta2)
            import_set_default(im, "adam_beta2", known->beta2, "the optimizer's default");
        return;
    }
    import_set(im, "adam_beta1", import_text(im, list->items[0]), NULL);
    import_set(im, "adam_beta2", import_text(im, list->items[1]), NULL);
    import_mark_carried(im, "optimizer.betas", "adam_beta1");
}

static void import_optimizer(struct importing *im)
{
    const char *name = import_torchtune_component(im, "optimizer");
    const struct optimizer *known = optimizer_of(name);

    if (known) {
        import_set(im, "optim", known->optim, NULL);
        import_mark_carried(im, "optimizer._component_", "optim");
    } else {
        import_set(im, "optim", "adamw_torch",
                   "torchtune's file has another optimizer: see below");
        import_mark_dropped(
            im, "optimizer._component_", IMPORT_DIFFERS,
            "%s is not supported, and AdamW requires a different learning rate",
            *name ? name : "no name");
    }
    import_betas(im, known);
    if (!import_copy(im, "optimizer.weight_decay", "weight_decay", NULL))
        import_set_default(im, "weight_decay", known ? known->decay : "0.01",
                           "PyTorch's default");
    if (strcmp(import_value(im, "finetuning_type"), "full") == 0 &&
        import_number(im, "optimizer.weight_decay", 0.01) > 0)
        import_remark(
            im, "weight_decay",
            "weight decay does not apply to norms and biases; in torchtune it does");
    import_mark_dropped(im, "optimizer.fused", IMPORT_IDLE,
                        "trainspool's kernel is always fused");
    if (!import_find(im, "optimizer.lr"))
        import_set_default(im, "learning_rate", "1e-3", "PyTorch's default");
}

static void import_schedule(struct importing *im)
{
    const char *name = import_torchtune_component(im, "lr_scheduler");
    bool is_cosine = strcmp(name, "get_cosine_schedule_with_warmup") == 0;

    if (is_cosine && import_number(im, "lr_scheduler.num_cycles", 0.5) == 0.5) {
        import_set(im, "lr_scheduler_type", "cosine", NULL);
        import_mark_carried(im, "lr_scheduler._component_", "lr_scheduler_type");
        import_mark_carried(im, "lr_scheduler.num_cycles", "lr_scheduler_type");
        import_copy(im, "lr_scheduler.num_warmup_steps", "warmup_steps", NULL);
    } else if (*name) {
        import_set(im, "lr_scheduler_type", "constant",
                   "torchtune's file has another schedule: see below");
        import_mark_dropped(im, "lr_scheduler", IMPORT_DIFFERS, "%s%s is not supported",
                            name, is_cosine ? " with num_cycles other than 0.5" : "");
    } else {
        import_set(im, "lr_scheduler_type", "constant", "the file has no lr_scheduler");
    }
}

/* Read it like Python's float(): in YAML, `inf` is text, which the recipes convert. */
static bool is_infinite(const char *text)
{
    static const char *const words[] = { "inf", ".inf", "infinity" };

    text += text[0] == '+';
    for (size_t i = 0; i < TS_COUNT(words); i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

/* null: off; inf: only logged, as a job always does; 0: PyTorch's clip_grad_norm_ scales
 * to a norm of 0. */
static void import_clipping(struct importing *im)
{
    const char *text = import_get(im, "clip_grad_norm");
    bool logs = text && is_infinite(text);
    double norm = logs ? INFINITY : import_number(im, "clip_grad_norm", 0);

    if (!(norm >= 0)) {
        import_refuse(im, ERROR_DATA, import_find(im, "clip_grad_norm")->value,
                      "clip_grad_norm must be 0 or more, inf, or empty");
        return;
    }
    if (norm > 0 && !logs) {
        import_copy(im, "clip_grad_norm", "max_grad_norm", NULL);
        return;
    }
    if (text && !logs)
        import_mark_dropped(
            im, "clip_grad_norm", IMPORT_DIFFERS,
            "with 0, torchtune sets every gradient to 0 and learns nothing; this job "
            "does not clip");
    import_set(im, "max_grad_norm", "0.0",
               logs   ? "inf in torchtune: the norm is logged but not clipped"
               : text ? "no clipping; torchtune treats 0 differently: see below"
                      : "no clipping: clip_grad_norm is empty; a job's default is 1.0");
    import_mark_carried(im, "clip_grad_norm", "max_grad_norm");
}

static void import_steps(struct importing *im)
{
    double each = import_number(im, "max_steps_per_epoch", 0);
    double epochs = import_number(im, "epochs", 1);

    if (each > 0 && epochs > 0 && each * epochs < 1e12) {
        import_set(im, "max_steps", scalar_print(floor(each * epochs), im->arena),
                   arena_printf(
                       im->arena,
                       "max_steps_per_epoch %.0f in each of %.0f epochs; in torchtune, a "
                       "shorter epoch ends with its data",
                       each, epochs));
        import_mark_carried(im, "max_steps_per_epoch", "max_steps");
    }
    import_mark_idle(im, "max_steps_per_epoch", "not a number of steps");
}

/* ---- saving and evaluating ---- */

static void import_saving(struct importing *im)
{
    if (import_number(im, "save_every_n_steps", 0) > 0) {
        import_set(im, "save_strategy", "steps", NULL);
        import_copy(im, "save_every_n_steps", "save_steps", NULL);
    }
    import_mark_idle(im, "save_every_n_steps", "not a number of steps");
    if (import_number(im, "save_every_n_epochs", 1) == 1)
        import_mark_carried(im, "save_every_n_epochs", "save_strategy");
    else
        import_mark_dropped(im, "save_every_n_epochs", IMPORT_DIFFERS,
                            "a checkpoint is saved after each epoch");
    if (import_is_true(im, "resume_from_checkpoint"))
        import_copy(im, "resume_from_checkpoint", "resume_from_checkpoint",
                    "from trainspool's checkpoints, not torchtune's");
    import_mark_dropped(im, "resume_from_checkpoint", IMPORT_IDLE, "off");
}

static void import_evaluation(struct importing *im)
{
    static const char why[] =
        "no evaluation: it requires dataset_val and a run_val_every_n_steps above 0";

    if (import_number(im, "run_val_every_n_steps", 0) > 0 &&
        import_find(im, "dataset_val")) {
        import_set(im, "eval_strategy", "steps", NULL);
        import_copy(im, "run_val_every_n_steps", "eval_steps", NULL);
        if (!import_copy(im, "batch_size_val", "per_device_eval_batch_size", NULL))
            import_copy(im, "batch_size", "per_device_eval_batch_size", NULL);
        return;
    }
    import_mark_idle(im, "run_val_every_n_steps", "there is no dataset_val to evaluate");
    import_mark_idle(im, "batch_size_val", why);
    import_mark_dropped(im, "dataset_val", IMPORT_IDLE, "%s", why);
}

static void import_shuffling(struct importing *im)
{
    const struct entry *shuffle = import_find(im, "shuffle");

    if (import_find(im, "seed"))
        import_copy(im, "seed", "seed", NULL);
    if (shuffle && !import_is_true(im, "shuffle")) {
        import_set(im, "disable_shuffling", "true", "shuffle: false");
        import_mark_carried(im, "shuffle", "disable_shuffling");
    }
    import_mark_dropped(im, "shuffle", IMPORT_IDLE, "samples are shuffled anyway");
    import_mark_dropped(im, "seed",
                        import_find(im, "seed") ? IMPORT_DIFFERS : IMPORT_IDLE,
                        "random in each run; a job's default is 42");
}

void import_torchtune_training(struct importing *im)
{
    import_optimizer(im);
    import_schedule(im);
    import_clipping(im);
    import_steps(im);
    import_saving(im);
    import_evaluation(im);
    import_shuffling(im);
}
