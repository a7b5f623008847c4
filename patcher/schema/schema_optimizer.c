/* patcher/schema/schema_optimizer.c - the optimizer, its learning rate, and how long a run
 * is. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

#include "train/optimizer_table.h"

#define ALWAYS_GUARDED "a step whose gradients are not finite is always skipped here"

static const char *const schedules[] = { "linear",
                                         "cosine",
                                         "constant",
                                         "constant_with_warmup",
                                         "polynomial",
                                         "cosine_with_restarts",
                                         "cosine_with_min_lr",
                                         "warmup_stable_decay",
                                         "inverse_sqrt",
                                         "cosine_warmup_with_min_lr",
                                         NULL };
static const char *const galore_projections[] = { "std",  "reverse_std", "right",
                                                  "left", "full",        NULL };
static const char *const apollo_projections[] = { "svd", "random", NULL };
static const char *const apollo_sides[] = { "std", "right", "left", NULL };
static const char *const apollo_scales[] = { "channel", "tensor", NULL };
static const char *const badam_modes[] = { "layer", "ratio", NULL };
static const char *const badam_orders[] = { "ascending", "descending", "random", "fixed",
                                            NULL };
static const char *const badam_masks[] = { "adjacent", "scatter", NULL };

static const struct key rows[] = {
    { TS_USED("optim", KEY_ENUM, "adamw_torch"),
      .meant = "adamw=adamw_torch adam=adamw_torch torch.optim.adamw=adamw_torch "
               "torch.optim.sgd=sgd",
      .values = optimizer_names,
      .rejects =
          "adafactor ademamix adagrad ademamix_8bit lion_8bit lion_32bit "
          "paged_ademamix_32bit paged_ademamix_8bit paged_lion_32bit paged_lion_8bit "
          "rmsprop rmsprop_bnb rmsprop_bnb_8bit rmsprop_bnb_32bit galore_adamw "
          "galore_adamw_8bit galore_adafactor galore_adamw_layerwise "
          "galore_adamw_8bit_layerwise galore_adafactor_layerwise lomo adalomo "
          "grokadamw schedule_free_radam schedule_free_adamw schedule_free_sgd "
          "apollo_adamw apollo_adamw_layerwise stable_adamw",
      .into = TS_INTO(optimizer), .help = "adamw_torch (fused or not) or sgd" },
    { TS_USED("learning_rate", KEY_REAL, "5e-5"), .into = TS_INTO(learning_rate),
      .help = "highest learning rate of the run" },
    { TS_USED("weight_decay", KEY_REAL, "0.0"), .into = TS_INTO(weight_decay),
      .help = "decay of weights that are no norms and no biases" },
    { TS_USED("adam_beta1", KEY_REAL, "0.9"), .into = TS_INTO(adam_beta1),
      .help = "memory of the first moment" },
    { TS_USED("adam_beta2", KEY_REAL, "0.999"), .into = TS_INTO(adam_beta2),
      .help = "memory of the second moment" },
    { TS_USED("adam_epsilon", KEY_REAL, "1e-8"), .into = TS_INTO(adam_epsilon), .min = 0,
      .max = 1, .help = "keeps the step finite where the second moment is zero" },
    { TS_USED("lr_scheduler_type", KEY_ENUM, "linear"),
      .meant = "wsd=warmup_stable_decay poly=polynomial cosine_annealing=cosine "
               "cosine_min_lr=cosine_with_min_lr none=constant",
      .values = schedules, .rejects = "reduce_lr_on_plateau greedy",
      .into = TS_INTO(schedule),
      .help = "how the learning rate goes down after the warm-up" },
    { TS_USED("lr_scheduler_kwargs", KEY_MAP, NULL), .members = &schema_schedule,
      .help = "min_lr, min_lr_rate, power, num_cycles (of cosine_with_restarts: how "
              "many times it goes down, preset 1; of other cosines: waves, preset 0.5), "
              "lr_end, num_decay_steps, num_stable_steps, decay_type, warmup_type, "
              "timescale, warmup_lr_rate of the schedule" },
    { TS_USED("warmup_steps", KEY_REAL, "0"), .min = 0, .max = TS_NO_END,
      .into = TS_INTO(warmup_steps),
      .help = "steps of warm-up; below 1: a share of all" },
    { TS_USED("warmup_ratio", KEY_REAL, "0.0"), .min = 0, .max = 1,
      .into = TS_INTO(warmup_ratio),
      .help = "share of steps that warm up; wins over warmup_steps" },
    { TS_USED("num_train_epochs", KEY_REAL, "3.0"), .positive = true, .max = 1e9,
      .into = TS_INTO(num_train_epochs), .help = "passes over the data" },
    { TS_USED("max_steps", KEY_INT, "-1"), .min = -1, .max = TS_NO_END,
      .into = TS_INTO(max_steps),
      .help = "optimizer steps; above 0 it wins over epochs" },
    { TS_USED("label_smoothing_factor", KEY_REAL, "0.0"), .min = 0, .max = 0.999,
      .into = TS_INTO(label_smoothing), .help = "share of probability spread evenly" },
    { TS_USED("seed", KEY_INT, "42"), .min = 0, .max = TS_NO_END, .into = TS_INTO(seed),
      .help = "start of all random numbers" },
    { TS_USED("data_seed", KEY_INT, "-1"), .min = -1, .max = TS_NO_END,
      .into = TS_INTO(data_seed), .help = "of the order of samples; not given: seed" },
    TS_IDLE("full_determinism", KEY_BOOL, "false",
            "a run gives the same bits every time anyway"),
    TS_IDLE("average_tokens_across_devices", KEY_BOOL, "true", ONE_DEVICE),
    TS_NOT("adafactor", KEY_BOOL, "false", NULL, "the Adafactor optimizer", NULL),
    TS_NOT("optimizer_in_bwd", KEY_BOOL, "false", NULL,
           "a step of each weight inside the backward pass",
           "gradient_checkpointing and finetuning_type: lora save memory too"),
    TS_IDLE("check_for_nan_in_loss_and_grad", KEY_BOOL, "true", ALWAYS_GUARDED),
    TS_IDLE("check_grad_overflow", KEY_BOOL, "true", ALWAYS_GUARDED),
    TS_IDLE("error_if_nonfinite", KEY_BOOL, "true", ALWAYS_GUARDED),
    TS_IDLE("skip_nan_grad", KEY_BOOL, "true", ALWAYS_GUARDED),
    TS_NOT("optim_args", KEY_TEXT, NULL, NULL, "settings of other optimizers", NULL),
    TS_NOT("optim_target_modules", KEY_LIST, NULL, NULL, "modules of GaLore and APOLLO",
           NULL),
    TS_NOT("use_galore", KEY_BOOL, "false", NULL, "the GaLore optimizer",
           "finetuning_type: lora saves as much"),
    TS_IDLE("galore_target", KEY_LIST, "all", "of GaLore"),
    TS_IDLE("galore_rank", KEY_INT, "16", "of GaLore"),
    TS_IDLE("galore_update_interval", KEY_INT, "200", "of GaLore"),
    TS_IDLE("galore_scale", KEY_REAL, "2.0", "of GaLore"),
    TS_IDLE_OF("galore_proj_type", galore_projections, "std", "of GaLore"),
    TS_IDLE("galore_layerwise", KEY_BOOL, "false", "of GaLore"),
    TS_NOT("use_apollo", KEY_BOOL, "false", NULL, "the APOLLO optimizer",
           "finetuning_type: lora saves as much"),
    TS_IDLE("apollo_target", KEY_LIST, "all", "of APOLLO"),
    TS_IDLE("apollo_rank", KEY_INT, "16", "of APOLLO"),
    TS_IDLE("apollo_update_interval", KEY_INT, "200", "of APOLLO"),
    TS_IDLE("apollo_scale", KEY_REAL, "32.0", "of APOLLO"),
    TS_IDLE_OF("apollo_proj", apollo_projections, "random", "of APOLLO"),
    TS_IDLE_OF("apollo_proj_type", apollo_sides, "std", "of APOLLO"),
    TS_IDLE_OF("apollo_scale_type", apollo_scales, "channel", "of APOLLO"),
    TS_IDLE("apollo_layerwise", KEY_BOOL, "false", "of APOLLO"),
    TS_IDLE("apollo_scale_front", KEY_BOOL, "false", "of APOLLO"),
    TS_NOT("use_badam", KEY_BOOL, "false", NULL, "the BAdam optimizer",
           "finetuning_type: freeze"),
    TS_IDLE_OF("badam_mode", badam_modes, "layer", "of BAdam"),
    TS_IDLE("badam_start_block", KEY_INT, NULL, "of BAdam"),
    TS_IDLE_OF("badam_switch_mode", badam_orders, "ascending", "of BAdam"),
    TS_IDLE("badam_switch_interval", KEY_INT, "50", "of BAdam"),
    TS_IDLE("badam_switch_block_every", KEY_INT, "50", "of BAdam"),
    TS_IDLE("badam_update_ratio", KEY_REAL, "0.05", "of BAdam"),
    TS_IDLE_OF("badam_mask_mode", badam_masks, "adjacent", "of BAdam"),
    TS_IDLE("badam_verbose", KEY_INT, "0", "of BAdam"),
    TS_IDLE("start_block", KEY_INT, NULL, "of BAdam"),
    TS_IDLE("switch_block_every", KEY_INT, "50", "of BAdam"),
    TS_IDLE_OF("switch_mode", badam_orders, "ascending", "of BAdam"),
    TS_NOT("use_adam_mini", KEY_BOOL, "false", NULL, "the Adam-mini optimizer", NULL),
    TS_NOT("use_muon", KEY_BOOL, "false", NULL, "the Muon optimizer", NULL),

    TS_ALIAS("use_adammini", "use_adam_mini", NULL),
};
const struct keys schema_optimizer_keys = { "Optimizer and schedule", rows,
                                            TS_COUNT(rows) };
