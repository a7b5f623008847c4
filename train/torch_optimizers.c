/* train/torch_optimizers.c - one row per optimizer. */
#include "config.h"

#include "train/torch_optimizers.h"

#include <string.h>

#include "base/size.h"

#define TORCH        "torch.optim"
#define TORCHAO      "torchao/optim: a scale per 256 (8 bits) or 128 (4 bits) elements"
#define BITSANDBYTES "bitsandbytes/optim/optimizer.py: a float32 scale per 256 elements"
#define GALORE       "galore_torch 1.0, adamw.py, galore_projector.py"
#define APOLLO       "apollo_torch 1.0.3, apollo.py, random_projector.py"
#define LOMO         "lomo_optim 0.1.1, lomo.py, adalomo.py: a row and a column per matrix"
#define SCHEDULE     "schedulefree: z next to the weights"

/* The names are OptimizerNames in training_args.py of transformers 4.52.4, and keys of
 * hparams/finetuning_args.py in LLaMA-Factory 0.9.3, whose train/trainer_utils.py creates
 * them. */
static const struct torch_optimizer optimizers[] = {
    { .name = "adamw_torch", .moments = 8, .source = TORCH },
    { .name = "adamw_torch_fused", .moments = 8, .source = TORCH },
    { .name = "adamw_torch_xla", .moments = 8, .source = TORCH },
    { .name = "adamw_torch_npu_fused", .moments = 8, .source = TORCH },
    { .name = "adamw_hf", .moments = 8, .source = "transformers 4, optimization.py" },
    { .name = "adamw_apex_fused", .moments = 8, .source = "apex" },
    { .name = "adamw_anyprecision",
      .moments = 8,
      .source = "torchdistx; Trainer sets both moments to float32" },
    { .name = "adamw_torch_8bit", .moments = 2.03, .source = TORCHAO },
    { .name = "adamw_torch_4bit", .moments = 1.06, .source = TORCHAO },
    { .name = "adamw_bnb_8bit", .moments = 2.03, .source = BITSANDBYTES },
    { .name = "adamw_8bit", .moments = 2.03, .source = BITSANDBYTES },
    { .name = "paged_adamw", .moments = 8, .paged = true, .source = BITSANDBYTES },
    { .name = "paged_adamw_32bit", .moments = 8, .paged = true, .source = BITSANDBYTES },
    { .name = "paged_adamw_8bit",
      .moments = 2.03,
      .paged = true,
      .source = BITSANDBYTES },
    { .name = "lion", .moments = 4, .source = BITSANDBYTES },
    { .name = "lion_32bit", .moments = 4, .source = BITSANDBYTES },
    { .name = "lion_8bit", .moments = 1.02, .source = BITSANDBYTES },
    { .name = "paged_lion_32bit", .moments = 4, .paged = true, .source = BITSANDBYTES },
    { .name = "paged_lion_8bit", .moments = 1.02, .paged = true, .source = BITSANDBYTES },
    { .name = "ademamix", .moments = 12, .unmeasured = true, .source = BITSANDBYTES },
    { .name = "ademamix_8bit",
      .moments = 3.05,
      .unmeasured = true,
      .source = BITSANDBYTES },
    { .name = "paged_ademamix_32bit",
      .moments = 12,
      .paged = true,
      .unmeasured = true,
      .source = BITSANDBYTES },
    { .name = "paged_ademamix_8bit",
      .moments = 3.05,
      .paged = true,
      .unmeasured = true,
      .source = BITSANDBYTES },
    { .name = "adafactor", .moments = 0.05, .source = "a row and a column per matrix" },
    { .name = "sgd", .moments = 0, .source = TORCH ", without momentum" },
    { .name = "adagrad", .moments = 4, .source = TORCH ": one sum" },
    { .name = "rmsprop", .moments = 4, .source = TORCH ": one average" },
    { .name = "rmsprop_bnb", .moments = 4, .source = BITSANDBYTES },
    { .name = "rmsprop_bnb_32bit", .moments = 4, .source = BITSANDBYTES },
    { .name = "rmsprop_bnb_8bit", .moments = 1.02, .source = BITSANDBYTES },
    { .name = "schedule_free_adamw",
      .moments = 8,
      .unmeasured = true,
      .source = SCHEDULE ", exp_avg_sq" },
    { .name = "schedule_free_radam",
      .moments = 8,
      .unmeasured = true,
      .source = SCHEDULE ", exp_avg_sq" },
    { .name = "schedule_free_sgd", .moments = 4, .unmeasured = true, .source = SCHEDULE },
    { .name = "grokadamw",
      .moments = 12,
      .unmeasured = true,
      .source = "grokadamw: both moments and grok_ema" },
    { .name = "stable_adamw",
      .moments = 8,
      .unmeasured = true,
      .source = "torch-optimi: both moments" },
    { .name = "galore_adamw",
      .moments = 8,
      .kind = MOMENTS_LOW_RANK,
      .unmeasured = true,
      .source = GALORE },
    { .name = "galore_adamw_8bit",
      .moments = 2.03,
      .kind = MOMENTS_LOW_RANK,
      .unmeasured = true,
      .source = GALORE ", adamw8bit.py" },
    { .name = "galore_adafactor",
      .moments = 0.05,
      .kind = MOMENTS_LOW_RANK,
      .unmeasured = true,
      .source = GALORE ", adafactor.py" },
    { .name = "galore_adamw_layerwise",
      .moments = 8,
      .kind = MOMENTS_LOW_RANK,
      .in_backward = true,
      .unmeasured = true,
      .source = GALORE },
    { .name = "galore_adamw_8bit_layerwise",
      .moments = 2.03,
      .kind = MOMENTS_LOW_RANK,
      .in_backward = true,
      .unmeasured = true,
      .source = GALORE ", adamw8bit.py" },
    { .name = "galore_adafactor_layerwise",
      .moments = 0.05,
      .kind = MOMENTS_LOW_RANK,
      .in_backward = true,
      .unmeasured = true,
      .source = GALORE ", adafactor.py" },
    { .name = "apollo_adamw",
      .moments = 8,
      .kind = MOMENTS_LOW_RANK,
      .unmeasured = true,
      .source = APOLLO },
    { .name = "apollo_adamw_layerwise",
      .moments = 8,
      .kind = MOMENTS_LOW_RANK,
      .in_backward = true,
      .unmeasured = true,
      .source = APOLLO },
    { .name = "lomo", .in_backward = true, .unmeasured = true, .source = LOMO },
    { .name = "adalomo",
      .moments = 0.05,
      .in_backward = true,
      .unmeasured = true,
      .source = LOMO },
    /* a float32 copy, its gradient and its moments: badam 1.4, block_optim.py */
    { .name = "use_badam",
      .moments = 12,
      .kind = MOMENTS_OF_BLOCK,
      .unmeasured = true,
      .source = "badam 1.4, block_optim.py: param_idx2hp" },
    /* the mean of the second moment of a row or a head */
    { .name = "use_adam_mini",
      .moments = 4.01,
      .unmeasured = true,
      .source = "adam_mini 1.1.1, adam_mini.py: m, vmean" },
    { .name = "use_muon",
      .moments = 8,
      .matrices = 4,
      .unmeasured = true,
      .source = "LLaMA-Factory third_party/muon/muon.py: momentum_buffer" },
};

const struct torch_optimizer *torch_optimizer_find(const char *name)
{
    for (size_t i = 0; name && i < TS_COUNT(optimizers); i++)
        if (strcmp(name, optimizers[i].name) == 0)
            return &optimizers[i];
    return name ? NULL : &optimizers[0];
}
