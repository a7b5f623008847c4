/*
 * patcher/schema/schema_nested.c - keys inside the maps that are values of other keys.
 *
 * lr_scheduler_kwargs are the arguments of transformers/optimization.py's schedules,
 * fsdp_config and accelerator_config those of TrainingArguments and AcceleratorConfig.
 */
#include "config.h"

#include "patcher/schema/schema_rows.h"

/* In the order of the enums in train/plan.h. */
static const char *const decays[] = { "cosine", "linear", "1-sqrt", NULL };
static const char *const warmups[] = { "linear", "cosine", "1-sqrt", NULL };
static const char *const threshold_modes[] = { "rel", "abs", NULL };
static const char *const plateau_modes[] = { "min", "max", NULL };

static const struct key schedule_rows[] = {
    { TS_USED("min_lr", KEY_REAL, NULL), .into = TS_FIELD(schedule_min_lr), .min = 0,
      .max = TS_NO_MAX, .help = "lowest learning rate; overrides min_lr_rate" },
    { TS_USED("min_lr_rate", KEY_REAL, NULL), .into = TS_FIELD(schedule_min_lr_rate),
      .min = 0, .max = 1, .help = "lowest learning rate as a share of learning_rate" },
    { TS_USED("min_lr_ratio", KEY_REAL, NULL), .into = TS_FIELD(schedule_min_lr_rate),
      .min = 0, .max = 1,
      .help = "same as min_lr_rate; the name that warmup_stable_decay uses" },
    { TS_USED("power", KEY_REAL, "1.0"), .into = TS_FIELD(schedule_power),
      .positive = true, .max = TS_NO_MAX, .help = "exponent of polynomial" },
    { TS_USED("num_cycles", KEY_REAL, NULL), .into = TS_FIELD(schedule_num_cycles),
      .min = 0, .max = TS_NO_MAX,
      .help = "with cosine_with_restarts, how many times the rate decays, 1 by "
              "default; with other cosines, the number of waves, 0.5 by default" },
    { TS_USED("lr_end", KEY_REAL, "1e-7"), .into = TS_FIELD(schedule_lr_end), .min = 0,
      .max = TS_NO_MAX, .help = "learning rate of the last step of polynomial" },
    { TS_USED("num_decay_steps", KEY_INT, NULL), .into = TS_FIELD(schedule_decay_steps),
      .min = 0, .max = TS_NO_MAX, .help = "steps in which warmup_stable_decay decays" },
    { TS_USED("num_stable_steps", KEY_INT, NULL), .into = TS_FIELD(schedule_stable_steps),
      .min = 0, .max = TS_NO_MAX,
      .help = "steps in which warmup_stable_decay keeps the rate" },
    { TS_USED("decay_type", KEY_ENUM, "cosine"), .values = decays,
      .into = TS_FIELD(schedule_decay),
      .help = "shape of the decay of warmup_stable_decay" },
    { TS_USED("warmup_type", KEY_ENUM, "linear"), .values = warmups,
      .into = TS_FIELD(schedule_warmup),
      .help = "shape of the warm-up of warmup_stable_decay" },
    TS_IGNORED("last_epoch", KEY_INT, "-1",
               "a resumed run always continues exactly where it stopped"),
    { TS_USED("warmup_lr_rate", KEY_REAL, NULL),
      .into = TS_FIELD(schedule_warmup_lr_rate), .min = 0, .max = 1,
      .help = "with cosine_warmup_with_min_lr, the rate at which the warm-up "
              "starts, as a share of learning_rate" },
    { TS_USED("timescale", KEY_INT, NULL), .into = TS_FIELD(schedule_timescale),
      .positive = true, .max = TS_NO_MAX,
      .help = "time scale of inverse_sqrt, in steps; the default is the length of "
              "the warm-up, or 10000 without one" },
    { TS_USED("factor", KEY_REAL, "0.1"), .into = TS_FIELD(plateau.factor), .min = 0,
      .max = 1,
      .help = "factor by which reduce_lr_on_plateau multiplies the learning rate; 1 "
              "keeps it" },
    { TS_USED("patience", KEY_INT, "10"), .into = TS_FIELD(plateau.patience), .min = 0,
      .max = TS_NO_MAX,
      .help = "number of evaluations without improvement that reduce_lr_on_plateau "
              "tolerates; the next one reduces the rate" },
    { TS_USED("threshold", KEY_REAL, "1e-4"), .into = TS_FIELD(plateau.threshold),
      .min = 0, .max = TS_NO_MAX,
      .help = "with reduce_lr_on_plateau, by how much a metric must improve on the "
              "best one" },
    { TS_USED("threshold_mode", KEY_ENUM, "rel"), .values = threshold_modes,
      .into = TS_FIELD(plateau.threshold_mode),
      .help = "whether threshold is a share of the best metric (rel) or a difference "
              "(abs)" },
    { TS_USED("mode", KEY_ENUM, "min"), .values = plateau_modes,
      .into = TS_FIELD(plateau.mode),
      .help = "whether lower or higher metrics are better for reduce_lr_on_plateau, "
              "which ignores greater_is_better" },
    { TS_USED("cooldown", KEY_INT, "0"), .into = TS_FIELD(plateau.cooldown), .min = 0,
      .max = TS_NO_MAX,
      .help = "number of evaluations after a reduction that reduce_lr_on_plateau "
              "ignores" },
    { TS_USED("eps", KEY_REAL, "1e-8"), .into = TS_FIELD(plateau.eps), .min = 0,
      .max = TS_NO_MAX,
      .help = "smallest change of the learning rate that reduce_lr_on_plateau makes" },
};
static const struct keys schedule_keys = { "Schedule", schedule_rows,
                                           TS_COUNT(schedule_rows) };
static const struct keys *const schedule_sections[] = { &schedule_keys, NULL };
const struct vocabulary schema_schedule = { .of = "of lr_scheduler_kwargs",
                                            .sections = schedule_sections };

static const struct key accelerator_rows[] = {
    TS_IGNORED("split_batches", KEY_BOOL, "false", ONE_DEVICE),
    TS_IGNORED("dispatch_batches", KEY_BOOL, NULL, ONE_DEVICE),
    TS_IGNORED("even_batches", KEY_BOOL, "true", ONE_DEVICE),
    TS_IGNORED("use_seedable_sampler", KEY_BOOL, "true", "sampling is always seeded"),
    TS_IGNORED("non_blocking", KEY_BOOL, "false", "PyTorch setting"),
    TS_IGNORED("gradient_accumulation_kwargs", KEY_ANY, NULL, "Accelerate setting"),
    TS_IGNORED("use_configured_state", KEY_BOOL, "false", "Accelerate setting"),
};
static const struct keys accelerator_keys = { "Accelerator", accelerator_rows,
                                              TS_COUNT(accelerator_rows) };
static const struct keys *const accelerator_sections[] = { &accelerator_keys, NULL };
const struct vocabulary schema_accelerator = { .of = "of accelerator_config",
                                               .sections = accelerator_sections };

static const struct key checkpointing_rows[] = {
    TS_IGNORED("use_reentrant", KEY_BOOL, NULL, "PyTorch setting"),
    TS_IGNORED("preserve_rng_state", KEY_BOOL, "true", "PyTorch setting"),
    TS_IGNORED("determinism_check", KEY_TEXT, NULL, "PyTorch setting"),
    TS_IGNORED("context_fn", KEY_ANY, NULL, "PyTorch setting"),
    TS_IGNORED("debug", KEY_BOOL, "false", "PyTorch setting"),
    TS_IGNORED("early_stop", KEY_BOOL, "true", "PyTorch setting"),
};
static const struct keys checkpointing_keys = { "Checkpointing", checkpointing_rows,
                                                TS_COUNT(checkpointing_rows) };
static const struct keys *const checkpointing_sections[] = { &checkpointing_keys, NULL };
const struct vocabulary schema_checkpointing = { .of = "of gradient_checkpointing_kwargs",
                                                 .sections = checkpointing_sections };

/* TrainingArguments strips the prefix fsdp_; jobs contain both forms. */
#define FSDP(key, kind)                          \
    TS_IGNORED(key, kind, NULL, "FSDP setting"), \
        TS_IGNORED("fsdp_" key, kind, NULL, "FSDP setting")

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
    TS_IGNORED("xla", KEY_BOOL, "false", "FSDP setting"),
    TS_IGNORED("xla_fsdp_v2", KEY_BOOL, "false", "FSDP setting"),
    TS_IGNORED("xla_fsdp_settings", KEY_ANY, NULL, "FSDP setting"),
    TS_IGNORED("xla_fsdp_grad_ckpt", KEY_BOOL, "false", "FSDP setting"),
};
static const struct keys fsdp_keys = { "FSDP", fsdp_rows, TS_COUNT(fsdp_rows) };
static const struct keys *const fsdp_sections[] = { &fsdp_keys, NULL };
const struct vocabulary schema_fsdp = { .of = "of fsdp_config",
                                        .open = true,
                                        .sections = fsdp_sections };
