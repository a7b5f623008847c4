/* patcher/schema/schema_precision.c - number formats, clipping, and what a step needs of
 * memory. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

static const char *const dtypes[] = { "auto", "float32", "float16", "bfloat16", NULL };
static const char *const plain_dtypes[] = { "auto", "float16", "bfloat16", "float32",
                                            NULL };

static const struct key rows[] = {
    { TS_USED("bf16", KEY_CHOICE, "false"), .into = TS_INTO(request.bf16),
      .help = "compute in bfloat16, trained weights stay float32; auto: where the "
              "device can" },
    { TS_USED("fp16", KEY_CHOICE, "false"), .into = TS_INTO(request.fp16),
      .help = "compute in float16 with a loss scale, trained weights stay float32" },
    { TS_USED("tf32", KEY_CHOICE, "auto"), .into = TS_INTO(request.tf32),
      .help = "products of float32 numbers with 10 bits of mantissa (from 8.0 on)" },
    { TS_USED("pure_bf16", KEY_BOOL, "false"), .into = TS_INTO(request.pure_bf16),
      .help =
          "trained weights and moments in bfloat16 too, rounded up or down by chance: "
          "saves memory, costs precision" },
    { TS_USED("model_dtype", KEY_ENUM, "auto"),
      .meant = "bf16=bfloat16 fp16=float16 fp32=float32 half=float16 float=float32 "
               "torch.bfloat16=bfloat16 torch.float16=float16 torch.float32=float32",
      .values = dtypes, .into = TS_INTO(request.model_dtype),
      .help = "how weights are stored; trained ones are float32 all the same" },
    TS_ALIAS("torch_dtype", "model_dtype", NULL),
    TS_ALIAS("dtype", "model_dtype", NULL),
    { TS_USED("loss_scale", KEY_SCALE, "dynamic"), .into = TS_INTO(request.loss_scaling),
      .min = 1, .max = 1e15,
      .help = "with fp16: dynamic, none, or a fixed factor of 1 or more" },
    { TS_USED("max_grad_norm", KEY_REAL, "1.0"), .null = "0",
      .into = TS_INTO(request.max_grad_norm),
      .help = "clip the gradients of a step to this L2 norm; 0 leaves them alone" },
    { TS_USED("disable_gradient_checkpointing", KEY_BOOL, "false"),
      .help = "true switches gradient_checkpointing off" },
    { TS_USED("gradient_checkpointing", KEY_BOOL, NULL),
      .help = "keep one activation a layer and compute the rest again; preset: on" },
    { TS_USED("per_device_train_batch_size", KEY_INT, "8"), .min = 1, .max = 65536,
      .into = TS_INTO(per_device_train_batch_size), .help = "samples in one pass" },
    { TS_USED("per_device_eval_batch_size", KEY_INT, "8"), .min = 1, .max = 65536,
      .into = TS_INTO(per_device_eval_batch_size),
      .help = "samples in one evaluation pass" },
    { TS_USED("gradient_accumulation_steps", KEY_INT, "1"), .min = 1, .max = 1048576,
      .into = TS_INTO(gradient_accumulation_steps),
      .help = "passes in one optimizer step" },
    { TS_USED("cutoff_len", KEY_INT, "2048"), .min = 1, .max = 16777216,
      .into = TS_INTO(cutoff_len),
      .help = "longest sample, in tokens; the rest is cut off" },
    { TS_USED("packing", KEY_CHOICE, "auto"), .into = TS_INTO(packing),
      .help = "several samples in one row; not given: for stage pt only" },
    { TS_USED("neat_packing", KEY_BOOL, "false"), .into = TS_INTO(neat_packing),
      .help = "packing where samples do not see each other; those of stage pt do" },
    { TS_USED("memory_limit", KEY_SIZE, NULL), .into = TS_INTO(memory_limit),
      .help = "what the job may use: 12GiB, or 80%; not given: 95 % of what is free" },
    { TS_USED("bf16_full_eval", KEY_BOOL, "false"), .into = TS_INTO(bf16_full_eval),
      .help = "evaluate in bfloat16" },
    { TS_USED("fp16_full_eval", KEY_BOOL, "false"), .into = TS_INTO(fp16_full_eval),
      .help = "evaluate in float16" },
    { TS_USED("fp8", KEY_BOOL, "false"), .into = TS_INTO(request.fp8),
      .help = "an experiment: with bf16, products of the layers' matrices in 8 bits "
              "(from 8.9 on)" },
    TS_IDLE("fp8_backend", KEY_TEXT, "auto", "library of fp8"),
    TS_NOT("fp8_enable_fsdp_float8_all_gather", KEY_BOOL, "false", NULL,
           "gather in 8 bits", NULL),
    TS_IDLE_OF("infer_dtype", plain_dtypes, "auto", "number format of inference"),
    TS_IDLE("upcast_layernorm", KEY_BOOL, "false", "norms are always in float32"),
    TS_IDLE("upcast_lmhead_output", KEY_BOOL, "false",
            "the loss is always computed in float32"),
    TS_IDLE("autocast_adapter_dtype", KEY_BOOL, "true",
            "of PEFT; adapters are float32 here"),
    TS_IDLE("use_reentrant_gc", KEY_BOOL, "true", "a detail of PyTorch"),
    { TS_IN("gradient_checkpointing_kwargs", KEY_MAP, &schema_checkpointing),
      .help = "a detail of PyTorch" },
    TS_NOT("activation_offloading", KEY_BOOL, "false", NULL,
           "keep activations in the host's memory",
           "gradient_checkpointing: true computes them again instead"),
    { TS_USED("auto_find_batch_size", KEY_BOOL, "false"),
      .into = TS_INTO(auto_find_batch_size),
      .help =
          "where the batch does not fit, take the largest divisor of it that does, with "
          "more accumulation (TS305)" },
    TS_IDLE("torch_empty_cache_steps", KEY_INT, NULL, "a detail of PyTorch"),
    TS_IDLE("torch_compile", KEY_BOOL, "false", "a compiler of PyTorch"),
    TS_IDLE("torch_compile_backend", KEY_TEXT, NULL, "a compiler of PyTorch"),
    TS_IDLE("torch_compile_mode", KEY_TEXT, NULL, "a compiler of PyTorch"),
    TS_TOLD("torchdynamo", "TS610", KEY_TEXT, NULL, "a compiler of PyTorch"),
    TS_IDLE("use_cache", KEY_BOOL, "false", "cache of generation"),
    TS_TOLD("jit_mode_eval", "TS610", KEY_BOOL, "false", "gone from transformers"),
    TS_TOLD("use_ipex", "TS610", KEY_BOOL, "false", "gone from transformers"),
    TS_TOLD("fp16_backend", "TS606", KEY_TEXT, "auto", "gone from transformers"),
    TS_TOLD("half_precision_backend", "TS606", KEY_TEXT, "auto",
            "gone from transformers"),
    TS_TOLD("fp16_opt_level", "TS606", KEY_TEXT, "O1", "of apex, which is gone"),
    TS_TOLD("use_apex", "TS606", KEY_BOOL, "false", "of apex, which is gone"),
    TS_NOT("neftune_noise_alpha", KEY_REAL, NULL, "0", "noise on embeddings", NULL),

    TS_NOT("neft_alpha", KEY_REAL, "0", NULL, "noise on embeddings", NULL),
};
const struct keys schema_precision_keys = { "Precision and memory", rows,
                                            TS_COUNT(rows) };
