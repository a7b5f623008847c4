/* patcher/schema/schema_optimizer.c - keys of the optimizer, its schedule and the
 * length of a run. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

#include "train/model/optimizer_table.h"

#define LAYERWISE      "updates follow the backward pass, with clipped gradients"
#define ALWAYS_GUARDED "a step with non-finite gradients is always skipped"

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
                                         "reduce_lr_on_plateau",
                                         NULL };
/* in the order of enum projection_side */
static const char *const galore_projections[] = { "std",         "right", "left",
                                                  "reverse_std", "full",  NULL };
static const char *const apollo_projections[] = { "svd", "random", NULL };
static const char *const apollo_sides[] = { "std", "right", "left", NULL };
static const char *const apollo_scales[] = { "channel", "tensor", NULL };
static const char *const badam_modes[] = { "layer", "ratio", NULL };
static const char *const badam_orders[] = { "ascending", "descending", "random", "fixed",
                                            NULL };
static const char *const badam_masks[] = { "adjacent", "scatter", NULL };

/* Optimizers with a key of their own. */
#define HAS_KEY(name) "remove optim, and set " name ": true"
static const struct advice optimizer_advice[] = {
    { "muon", HAS_KEY("use_muon") },
    { "galore_adamw", HAS_KEY("use_galore") },
    { "galore_adamw_layerwise", HAS_KEY("use_galore") },
    { "apollo_adamw", HAS_KEY("use_apollo") },
    { "apollo_adamw_layerwise", HAS_KEY("use_apollo") },
    { NULL, NULL },
};

static const struct key rows[] = {
    { TS_USED("optim", KEY_ENUM, "adamw_torch"),
      .synonyms = "adamw=adamw_torch adam=adamw_torch torch.optim.adamw=adamw_torch "
                  "torch.optim.sgd=sgd",
      .values = optimizer_names,
      .rejects =
          "muon ademamix adagrad ademamix_8bit "
          "paged_ademamix_32bit paged_ademamix_8bit rmsprop rmsprop_bnb rmsprop_bnb_8bit rmsprop_bnb_32bit galore_adamw "
          "galore_adamw_8bit galore_adafactor galore_adamw_layerwise "
          "galore_adamw_8bit_layerwise galore_adafactor_layerwise lomo adalomo "
          "grokadamw schedule_free_radam schedule_free_sgd "
          "apollo_adamw apollo_adamw_layerwise stable_adamw",
      .advice = optimizer_advice, .into = TS_FIELD(optim),
      .help =
          "the optimizer: SGD, Lion, Adafactor, schedule-free AdamW, or AdamW for every "
          "other supported name",
      .manual = "Moments are float32, 4 bytes each per trained weight: AdamW has two, "
                "Lion one. Adafactor has one moment per row and one per column of a "
                "matrix. It follows transformers' Trainer, without relative steps, "
                "and requires one rank. Names with 8bit store moments in 8 bits, with "
                "a float32 factor for each block of 256, as bitsandbytes does. "
                "Embeddings and parameters with fewer than 4096 elements keep "
                "float32. The moments of a paged optimizer move to host memory if the "
                "job does not fit on a GPU. With schedule_free_adamw there are three "
                "moments, one of which is the average of the weights. Evaluations, "
                "checkpoints and the result have this average. This optimizer has its "
                "own warm-up of warmup_steps, in addition to that of "
                "lr_scheduler_type, which should be constant. It requires float32 "
                "weights and one rank. The moments of adamw_torch_4bit and "
                "adamw_anyprecision are float32 (TS307)." },
    { TS_USED("learning_rate", KEY_REAL, "5e-5"), .into = TS_FIELD(learning_rate),
      .help = "highest learning rate of the run, above 0 and at most 1 (TS410)",
      .manual =
          "Usual values are about 1e-5 with finetuning_type: full and 1e-4 with LoRA." },
    { TS_USED("weight_decay", KEY_REAL, "0.0"), .into = TS_FIELD(weight_decay),
      .help = "weight decay of all weights other than norms and biases, 0 or more "
              "(TS410)" },
    { TS_USED("adam_beta1", KEY_REAL, "0.9"), .into = TS_FIELD(adam_beta1),
      .help = "decay rate of AdamW's first moment, from 0 to below 1 (TS410); for "
              "Lion, of the mean whose sign is the update" },
    { TS_USED("adam_beta2", KEY_REAL, "0.999"), .into = TS_FIELD(adam_beta2),
      .help = "decay rate of AdamW's second moment and of Lion's moment, from 0 to "
              "below 1 (TS410)" },
    { TS_USED("adam_epsilon", KEY_REAL, "1e-8"), .into = TS_FIELD(adam_epsilon), .min = 0,
      .max = 1,
      .help = "term added to the denominator of AdamW, which keeps the step finite "
              "if the second moment is zero" },
    { TS_USED("lr_scheduler_type", KEY_ENUM, "linear"),
      .synonyms = "wsd=warmup_stable_decay poly=polynomial cosine_annealing=cosine "
                  "cosine_min_lr=cosine_with_min_lr none=constant",
      .values = schedules, .rejects = "greedy", .into = TS_FIELD(schedule),
      .help = "how the learning rate changes after the warm-up",
      .manual = "With reduce_lr_on_plateau, there is no warm-up: the rate starts at "
                "learning_rate, and each evaluation updates it from "
                "metric_for_best_model, as in transformers' Trainer "
                "(ReduceLROnPlateau of torch). It requires evaluations (TS514). A "
                "metric for which higher values are better requires mode: max. With "
                "loraplus_lr_ratio, the ratio of both rates stays the same." },
    { TS_USED("lr_scheduler_kwargs", KEY_MAP, NULL), .members = &schema_schedule,
      .help = "arguments of the schedule" },
    { TS_USED("warmup_steps", KEY_REAL, "0"), .min = 0, .max = TS_NO_MAX,
      .into = TS_FIELD(warmup_steps),
      .help = "optimizer steps of the warm-up; a value below 1 is a share of all "
              "steps" },
    { TS_USED("warmup_ratio", KEY_REAL, "0.0"), .min = 0, .max = 1,
      .into = TS_FIELD(warmup_ratio),
      .help = "share of all steps that the warm-up takes; a value above 0 "
              "overrides warmup_steps",
      .manual = "In transformers 4, warmup_steps wins if both are given (TS407)." },
    { TS_USED("num_train_epochs", KEY_REAL, "3.0"), .positive = true, .max = 1e9,
      .into = TS_FIELD(num_train_epochs), .help = "passes over the training data" },
    { TS_USED("max_steps", KEY_INT, "-1"), .min = -1, .max = TS_NO_MAX,
      .into = TS_FIELD(max_steps),
      .help = "optimizer steps of the run; a value above 0 overrides "
              "num_train_epochs" },
    { TS_USED("use_dft_loss", KEY_BOOL, "false"), .into = TS_FIELD(use_dft_loss),
      .help = "with stage: sft, multiply the loss of each token by the probability that "
              "the model gives it (dynamic fine-tuning, DFT)",
      .manual = "Tokens that the model finds unlikely then change it less. No "
                "gradient flows through the factor. As in LLaMA-Factory, the losses "
                "of the log and of evaluations include the factor. With it, "
                "label_smoothing_factor has no effect." },
    { TS_USED("use_eaft_loss", KEY_BOOL, "false"), .into = TS_FIELD(use_eaft_loss),
      .help = "with stage: sft, multiply the loss of each token by (H / "
              "3)^eaft_alpha, where H is the entropy over the 20 most likely tokens "
              "(EAFT)",
      .manual = "Tokens on which the data contradict a confident model then change it "
                "less. Everything else is as with use_dft_loss, which takes "
                "precedence." },
    { TS_USED("eaft_alpha", KEY_REAL, "1.0"), .min = 0, .max = TS_NO_MAX,
      .into = TS_FIELD(eaft_alpha),
      .help = "exponent of use_eaft_loss; 0 is cross-entropy" },
    { TS_USED("use_asft_loss", KEY_BOOL, "false"), .into = TS_FIELD(use_asft_loss),
      .help = "with stage: sft, the loss of use_dft_loss plus asft_alpha times the "
              "divergence of the model from a reference (ASFT)",
      .manual = "The divergence is KL(reference || model) of each trained token. The "
                "reference is ref_model or, by default, a second copy of the model as "
                "it is before training, even with lora; the memory plan includes it. "
                "The loss is the mean over the tokens of a step. Evaluations compute "
                "only the first part." },
    { TS_USED("asft_alpha", KEY_REAL, "0.1"), .min = 0, .max = TS_NO_MAX,
      .into = TS_FIELD(asft_alpha), .help = "weight of the divergence of use_asft_loss" },
    { TS_USED("label_smoothing_factor", KEY_REAL, "0.0"), .min = 0, .max = 0.999,
      .into = TS_FIELD(label_smoothing),
      .help = "share of the target probability that is spread evenly over the "
              "vocabulary" },
    { TS_USED("neftune_noise_alpha", KEY_REAL, NULL), .min = 0, .max = 1e6,
      .into = TS_FIELD(neftune_alpha),
      .help = "NEFTune: during training, add uniform noise to the embeddings, up to "
              "this number divided by the square root of length times width",
      .manual = "The length is that of the longest sequence of a batch, rounded up to a "
                "multiple of 8, or cutoff_len with packing, as LLaMA-Factory pads." },
    TS_ALIAS("neft_alpha", "neftune_noise_alpha", NULL),
    { TS_USED("seed", KEY_INT, "42"), .min = 0, .max = TS_NO_MAX, .into = TS_FIELD(seed),
      .help = "seed of all random numbers" },
    { TS_USED("data_seed", KEY_INT, "-1"), .min = -1, .max = TS_NO_MAX,
      .into = TS_FIELD(data_seed),
      .help = "seed of the order of the samples; -1 uses seed" },
    TS_IGNORED("full_determinism", KEY_BOOL, "false",
               "repeated runs give the same bits, unless deterministic: false"),
    TS_IGNORED("average_tokens_across_devices", KEY_BOOL, "true", ONE_DEVICE),
    TS_REJECTED("adafactor", KEY_BOOL, "false", NULL, "this name",
                "write optim: adafactor"),
    TS_REJECTED("optimizer_in_bwd", KEY_BOOL, "false", NULL,
                "optimizer steps inside the backward pass",
                "use gradient_checkpointing or finetuning_type: lora to save memory"),
    TS_IGNORED("check_for_nan_in_loss_and_grad", KEY_BOOL, "true", ALWAYS_GUARDED),
    TS_IGNORED("check_grad_overflow", KEY_BOOL, "true", ALWAYS_GUARDED),
    TS_IGNORED("error_if_nonfinite", KEY_BOOL, "true", ALWAYS_GUARDED),
    TS_IGNORED("skip_nan_grad", KEY_BOOL, "true", ALWAYS_GUARDED),
    TS_REJECTED("optim_args", KEY_TEXT, NULL, NULL, "settings of other optimizers", NULL),
    TS_REJECTED("optim_target_modules", KEY_LIST, NULL, NULL,
                "target modules of GaLore and APOLLO",
                "set use_galore: true with galore_target, or use_apollo: true with "
                "apollo_target"),
    { TS_USED("use_galore", KEY_BOOL, "false"), .into = TS_FIELD(use_galore),
      .help =
          "update matrices by GaLore: AdamW computes its moments from gradients that are "
          "projected to galore_rank rows or columns",
      .manual =
          "The results match galore_torch. The projection consists of the gradient's "
          "singular vectors with the largest singular values, to 1e-6. The host computes them "
          "every galore_update_interval steps, which takes minutes for large matrices; "
          "use_apollo needs no singular vectors. AdamW updates all other parameters, such as "
          "embeddings and norms. GaLore requires "
          "finetuning_type: full or freeze, optim: adamw_torch and one rank." },
    { TS_USED("galore_target", KEY_LIST, "all"), .into = TS_FIELD(galore.target),
      .help = "layers that GaLore updates: parts of their names, or all for every linear "
              "layer except the head" },
    { TS_USED("galore_rank", KEY_INT, "16"), .min = 1, .max = TS_NO_MAX,
      .into = TS_FIELD(galore.rank),
      .help =
          "number of rows or columns of a projected gradient; a matrix with fewer uses "
          "all of them" },
    { TS_USED("galore_update_interval", KEY_INT, "200"), .min = 1, .max = TS_NO_MAX,
      .into = TS_FIELD(galore.interval),
      .help = "number of optimizer steps after which projections are computed again" },
    { TS_USED("galore_scale", KEY_REAL, "2.0"), .min = 0, .max = TS_NO_MAX,
      .into = TS_FIELD(galore.scale),
      .help = "factor by which GaLore's updates are multiplied" },
    { TS_USED("galore_proj_type", KEY_ENUM, "std"), .values = galore_projections,
      .into = TS_FIELD(galore.side),
      .help = "dimension that GaLore reduces to galore_rank: std the shorter one, "
              "reverse_std the longer one, right the columns, left the rows, full both" },
    TS_IGNORED("galore_layerwise", KEY_BOOL, "false", LAYERWISE),
    { TS_USED("use_apollo", KEY_BOOL, "false"), .into = TS_FIELD(use_apollo),
      .help =
          "update matrices by APOLLO: scale each gradient as AdamW scales its projection to "
          "apollo_rank rows or columns",
      .manual =
          "The results match apollo_torch, with its limit on the growth of the norm. "
          "The projections are random numbers that depend on seed, or singular vectors "
          "(apollo_proj: svd); checkpoints contain them. For APOLLO-Mini, set apollo_rank: 1, "
          "apollo_scale_type: tensor and apollo_scale: 128. The requirements are those of "
          "use_galore." },
    { TS_USED("apollo_target", KEY_LIST, "all"), .into = TS_FIELD(apollo.target),
      .help = "layers that APOLLO updates, in the form of galore_target" },
    { TS_USED("apollo_rank", KEY_INT, "16"), .min = 1, .max = TS_NO_MAX,
      .into = TS_FIELD(apollo.rank),
      .help = "number of rows or columns of a projected gradient" },
    { TS_USED("apollo_update_interval", KEY_INT, "200"), .min = 1, .max = TS_NO_MAX,
      .into = TS_FIELD(apollo.interval),
      .help = "number of optimizer steps between new projections" },
    { TS_USED("apollo_scale", KEY_REAL, "32.0"), .min = 0, .max = TS_NO_MAX,
      .into = TS_FIELD(apollo.scale),
      .help = "the square root of this factor multiplies APOLLO's updates" },
    { TS_USED("apollo_proj", KEY_ENUM, "random"), .values = apollo_projections,
      .into = TS_FIELD(apollo.random),
      .help = "how APOLLO projects: by random numbers, or by singular vectors (svd)" },
    { TS_USED("apollo_proj_type", KEY_ENUM, "std"), .values = apollo_sides,
      .into = TS_FIELD(apollo.side),
      .help =
          "dimension that APOLLO reduces to apollo_rank: std the shorter one, right the "
          "columns, left the rows",
      .manual =
          "With apollo_scale_type: channel, each row or column of the other dimension "
          "has a factor, even where apollo_torch fails." },
    { TS_USED("apollo_scale_type", KEY_ENUM, "channel"), .values = apollo_scales,
      .into = TS_FIELD(apollo.whole_scale),
      .help =
          "whether APOLLO has one factor for each channel, or one for the matrix (tensor)" },
    TS_IGNORED("apollo_layerwise", KEY_BOOL, "false", LAYERWISE),
    { TS_USED("apollo_scale_front", KEY_BOOL, "false"),
      .into = TS_FIELD(apollo.scale_front),
      .help = "apply apollo_scale before the limit on the norm, not after it" },
    TS_REJECTED("use_badam", KEY_BOOL, "false", NULL, "the BAdam optimizer",
                "use finetuning_type: freeze"),
    TS_IGNORED_ENUM("badam_mode", badam_modes, "layer", "BAdam setting"),
    TS_IGNORED("badam_start_block", KEY_INT, NULL, "BAdam setting"),
    TS_IGNORED_ENUM("badam_switch_mode", badam_orders, "ascending", "BAdam setting"),
    TS_IGNORED("badam_switch_interval", KEY_INT, "50", "BAdam setting"),
    TS_IGNORED("badam_switch_block_every", KEY_INT, "50", "BAdam setting"),
    TS_IGNORED("badam_update_ratio", KEY_REAL, "0.05", "BAdam setting"),
    TS_IGNORED_ENUM("badam_mask_mode", badam_masks, "adjacent", "BAdam setting"),
    TS_IGNORED("badam_verbose", KEY_INT, "0", "BAdam setting"),
    TS_IGNORED("start_block", KEY_INT, NULL, "BAdam setting"),
    TS_IGNORED("switch_block_every", KEY_INT, "50", "BAdam setting"),
    TS_IGNORED_ENUM("switch_mode", badam_orders, "ascending", "BAdam setting"),
    { TS_USED("use_adam_mini", KEY_BOOL, "false"), .into = TS_FIELD(use_adam_mini),
      .help = "use Adam-mini instead of optim: AdamW with one second moment per block",
      .manual = "As in the package adam_mini, a block is a head of queries or keys, a "
                "row of another matrix, or a whole vector. Biases have a second "
                "moment per weight. If the elements of queries or keys are not a "
                "multiple of a head's, as in most adapters, their blocks are rows. "
                "LoRA+ takes precedence. Several ranks are not supported." },
    { TS_USED("use_muon", KEY_BOOL, "false"), .into = TS_FIELD(use_muon),
      .help = "use Muon instead of optim for matrices other than embeddings and the "
              "head",
      .manual = "The momentum (0.95, Nesterov) of a matrix is orthogonalized by five "
                "steps of a quintic iteration, in the format of the matmuls. It is "
                "then scaled by 0.2 times the square root of the longer side. AdamW "
                "updates other parameters. The value of weight_decay applies to all. "
                "As in LLaMA-Factory, LoRA+ takes precedence. Several ranks are not "
                "supported." },

    TS_ALIAS("use_adammini", "use_adam_mini", NULL),
};
const struct keys schema_optimizer_keys = { "Optimizer and schedule", rows,
                                            TS_COUNT(rows) };
