/*
 * patcher/schema/schema_members.c - names inside the maps that a job's keys hold.
 *
 * lr_scheduler_kwargs are the arguments of transformers/optimization.py's schedules,
 * fsdp_config and accelerator_config those of TrainingArguments and AcceleratorConfig.
 */
#include "config.h"

#include "patcher/schema/schema_rows.h"

/* in the order of train/plan.h */
static const char *const decays[] = { "cosine", "linear", "1-sqrt", NULL };
static const char *const warmups[] = { "linear", "cosine", "1-sqrt", NULL };

static const struct key schedule_rows[] = {
    { TS_USED("min_lr", KEY_REAL, NULL), .into = TS_INTO(schedule_min_lr), .min = 0,
      .max = TS_NO_END, .help = "lowest learning rate; wins over min_lr_rate" },
    { TS_USED("min_lr_rate", KEY_REAL, NULL), .into = TS_INTO(schedule_min_lr_rate),
      .min = 0, .max = 1, .help = "the same as a share of the highest" },
    { TS_USED("min_lr_ratio", KEY_REAL, NULL), .into = TS_INTO(schedule_min_lr_rate),
      .min = 0, .max = 1, .help = "min_lr_rate, as warmup_stable_decay calls it" },
    { TS_USED("power", KEY_REAL, "1.0"), .into = TS_INTO(schedule_power),
      .positive = true, .max = TS_NO_END, .help = "of polynomial" },
    { TS_USED("num_cycles", KEY_REAL, NULL), .into = TS_INTO(schedule_num_cycles),
      .min = 0, .max = TS_NO_END,
      .help = "waves of a cosine, 0.5; of cosine_with_restarts half waves, 1" },
    { TS_USED("lr_end", KEY_REAL, "1e-7"), .into = TS_INTO(schedule_lr_end), .min = 0,
      .max = TS_NO_END, .help = "of polynomial: the rate of the last step" },
    { TS_USED("num_decay_steps", KEY_INT, NULL), .into = TS_INTO(schedule_decay_steps),
      .min = 0, .max = TS_NO_END, .help = "of warmup_stable_decay" },
    { TS_USED("num_stable_steps", KEY_INT, NULL), .into = TS_INTO(schedule_stable_steps),
      .min = 0, .max = TS_NO_END, .help = "of warmup_stable_decay" },
    { TS_USED("decay_type", KEY_ENUM, "cosine"), .values = decays,
      .into = TS_INTO(schedule_decay), .help = "of warmup_stable_decay" },
    { TS_USED("warmup_type", KEY_ENUM, "linear"), .values = warmups,
      .into = TS_INTO(schedule_warmup), .help = "of warmup_stable_decay" },
    TS_IDLE("last_epoch", KEY_INT, "-1", "a resumed run goes on exactly"),
    { TS_USED("warmup_lr_rate", KEY_REAL, NULL), .into = TS_INTO(schedule_warmup_lr_rate),
      .min = 0, .max = 1,
      .help = "of cosine_warmup_with_min_lr: where the warm-up begins, as a share" },
    { TS_USED("timescale", KEY_INT, NULL), .into = TS_INTO(schedule_timescale),
      .positive = true, .max = TS_NO_END,
      .help = "of inverse_sqrt; preset the steps of warm-up, or 10000" },
    TS_IDLE("factor", KEY_REAL, NULL, "of reduce_lr_on_plateau"),
    TS_IDLE("patience", KEY_INT, NULL, "of reduce_lr_on_plateau"),
    TS_IDLE("threshold", KEY_REAL, NULL, "of reduce_lr_on_plateau"),
    TS_IDLE("threshold_mode", KEY_TEXT, NULL, "of reduce_lr_on_plateau"),
    TS_IDLE("mode", KEY_TEXT, NULL, "of reduce_lr_on_plateau"),
    TS_IDLE("cooldown", KEY_INT, NULL, "of reduce_lr_on_plateau"),
    TS_IDLE("eps", KEY_REAL, NULL, "of reduce_lr_on_plateau"),
};
static const struct keys schedule_keys = { "Schedule", schedule_rows,
                                           TS_COUNT(schedule_rows) };
static const struct keys *const schedule_sections[] = { &schedule_keys, NULL };
const struct vocabulary schema_schedule = { .of = "of lr_scheduler_kwargs",
                                            .sections = schedule_sections };

static const struct key accelerator_rows[] = {
    TS_IDLE("split_batches", KEY_BOOL, "false", ONE_DEVICE),
    TS_IDLE("dispatch_batches", KEY_BOOL, NULL, ONE_DEVICE),
    TS_IDLE("even_batches", KEY_BOOL, "true", ONE_DEVICE),
    TS_IDLE("use_seedable_sampler", KEY_BOOL, "true", "seeds are always kept"),
    TS_IDLE("non_blocking", KEY_BOOL, "false", "a detail of PyTorch"),
    TS_IDLE("gradient_accumulation_kwargs", KEY_ANY, NULL, "of Accelerate"),
    TS_IDLE("use_configured_state", KEY_BOOL, "false", "of Accelerate"),
};
static const struct keys accelerator_keys = { "Accelerator", accelerator_rows,
                                              TS_COUNT(accelerator_rows) };
static const struct keys *const accelerator_sections[] = { &accelerator_keys, NULL };
const struct vocabulary schema_accelerator = { .of = "of accelerator_config",
                                               .sections = accelerator_sections };

static const struct key checkpointing_rows[] = {
    TS_IDLE("use_reentrant", KEY_BOOL, NULL, "a detail of PyTorch"),
    TS_IDLE("preserve_rng_state", KEY_BOOL, "true", "a detail of PyTorch"),
    TS_IDLE("determinism_check", KEY_TEXT, NULL, "a detail of PyTorch"),
    TS_IDLE("context_fn", KEY_ANY, NULL, "a detail of PyTorch"),
    TS_IDLE("debug", KEY_BOOL, "false", "a detail of PyTorch"),
    TS_IDLE("early_stop", KEY_BOOL, "true", "a detail of PyTorch"),
};
static const struct keys checkpointing_keys = { "Checkpointing", checkpointing_rows,
                                                TS_COUNT(checkpointing_rows) };
static const struct keys *const checkpointing_sections[] = { &checkpointing_keys, NULL };
const struct vocabulary schema_checkpointing = { .of = "of gradient_checkpointing_kwargs",
                                                 .sections = checkpointing_sections };

/* The prefix is taken away by TrainingArguments; both are written. */
#define FSDP(key, kind) \
    TS_IDLE(key, kind, NULL, "of FSDP"), TS_IDLE("fsdp_" key, kind, NULL, "of FSDP")

static const struct key fsdp_rows[] = {
    FSDP("version", KEY_INT),
    FSDP("reshard_after_forward", KEY_BOOL_OR_TEXT),
    FSDP("cpu_offload", KEY_BOOL),
    FSDP("offload_params", KEY_BOOL),
    FSDP("activation_checkpointing", KEY_BOOL),
    FSDP("cpu_ram_efficient_loading", KEY_BOOL),
    FSDP("state_dict_type", KEY_TEXT),
    FSDP("auto_wrap_policy", KEY_TEXT),
    FSDP("transformer_layer_cls_to_wrap", KEY_LIST),
    FSDP("min_num_params", KEY_INT),
    FSDP("sharding_strategy", KEY_ANY),
    FSDP("backward_prefetch", KEY_TEXT),
    FSDP("backward_prefetch_policy", KEY_TEXT),
    FSDP("forward_prefetch", KEY_BOOL),
    FSDP("limit_all_gathers", KEY_BOOL),
    FSDP("use_orig_params", KEY_BOOL),
    FSDP("sync_module_states", KEY_BOOL),
    FSDP("mixed_precision_policy", KEY_ANY),
    TS_IDLE("xla", KEY_BOOL, "false", "of FSDP"),
    TS_IDLE("xla_fsdp_v2", KEY_BOOL, "false", "of FSDP"),
    TS_IDLE("xla_fsdp_settings", KEY_ANY, NULL, "of FSDP"),
    TS_IDLE("xla_fsdp_grad_ckpt", KEY_BOOL, "false", "of FSDP"),
};
static const struct keys fsdp_keys = { "FSDP", fsdp_rows, TS_COUNT(fsdp_rows) };
static const struct keys *const fsdp_sections[] = { &fsdp_keys, NULL };
const struct vocabulary schema_fsdp = { .of = "of fsdp_config",
                                        .open = true,
                                        .sections = fsdp_sections };
