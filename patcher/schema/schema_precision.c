/* patcher/schema/schema_precision.c - keys of number formats, clipping and memory. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

static const char *const dtypes[] = { "auto", "float32", "float16", "bfloat16", NULL };
static const char *const plain_dtypes[] = { "auto", "float16", "bfloat16", "float32",
                                            NULL };

static const struct key rows[] = {
    { TS_USED("bf16", KEY_CHOICE, "false"), .into = TS_FIELD(request.bf16),
      .help = "compute in bfloat16 and keep trained weights in float32; auto does "
              "so if the device supports it" },
    { TS_USED("fp16", KEY_CHOICE, "false"), .into = TS_FIELD(request.fp16),
      .help = "compute in float16 with a loss scale and keep trained weights in "
              "float32" },
    { TS_USED("tf32", KEY_CHOICE, "auto"), .into = TS_FIELD(request.tf32),
      .help = "multiply float32 matrices with 10 bits of mantissa; requires "
              "compute capability 8.0" },
    { TS_USED("pure_bf16", KEY_BOOL, "false"), .into = TS_FIELD(request.pure_bf16),
      .help = "store trained weights and optimizer moments in bfloat16, too, with "
              "stochastic rounding; saves memory at the cost of precision" },
    { TS_USED("model_dtype", KEY_ENUM, "auto"),
      .synonyms = "bf16=bfloat16 fp16=float16 fp32=float32 half=float16 float=float32 "
                  "torch.bfloat16=bfloat16 torch.float16=float16 torch.float32=float32",
      .values = dtypes, .into = TS_FIELD(request.model_dtype),
      .help = "format in which weights are stored; trained weights are float32 "
              "regardless" },
    TS_ALIAS("torch_dtype", "model_dtype", NULL),
    TS_ALIAS("dtype", "model_dtype", NULL),
    { TS_USED("loss_scale", KEY_SCALE, "dynamic"), .into = TS_FIELD(request.loss_scaling),
      .min = 1, .max = 1e15,
      .help = "with fp16, the loss scale: dynamic, none, or a fixed factor" },
    { TS_USED("max_grad_norm", KEY_REAL, "1.0"), .null = "0",
      .into = TS_FIELD(request.max_grad_norm),
      .help = "clip the gradients of each step to this L2 norm; 0 turns clipping "
              "off",
      .manual = "An empty value also turns clipping off, as in Hugging Face (TS401)." },
    { TS_USED("disable_gradient_checkpointing", KEY_BOOL, "false"),
      .help = "turn gradient_checkpointing off" },
    { TS_USED("gradient_checkpointing", KEY_BOOL, NULL),
      .help = "keep one activation per layer and recompute the others in the "
              "backward pass; the default is true" },
    /* the names since transformers 5.23.0 (training_args.py) */
    TS_ALIAS("activation_checkpointing", "gradient_checkpointing", NULL),
    TS_ALIAS("activation_checkpointing_kwargs", "gradient_checkpointing_kwargs", NULL),
    { TS_USED("per_device_train_batch_size", KEY_INT, "8"), .min = 1, .max = 65536,
      .into = TS_FIELD(per_device_train_batch_size),
      .help = "samples in one training pass on each device; with stage: dpo, pairs "
              "of answers" },
    { TS_USED("per_device_eval_batch_size", KEY_INT, "8"), .min = 1, .max = 65536,
      .into = TS_FIELD(per_device_eval_batch_size),
      .help = "samples in one evaluation pass on each device",
      .manual = "An evaluation that would need more memory than the training uses "
                "smaller batches (TS306)." },
    { TS_USED("gradient_accumulation_steps", KEY_INT, "1"), .min = 1, .max = 1048576,
      .into = TS_FIELD(gradient_accumulation_steps),
      .help = "training passes in one optimizer step" },
    { TS_USED("cutoff_len", KEY_INT, "2048"), .min = 1, .max = 16777216,
      .into = TS_FIELD(cutoff_len),
      .help = "maximum length of a sample, in tokens; longer samples are cut",
      .manual = "The section DATA describes how a conversation or a pair is cut. "
                "With stage: pt, it is the length of a block." },
    { TS_USED("packing", KEY_CHOICE, "auto"), .into = TS_FIELD(packing),
      .help = "put several samples into one row; auto does so for stage: pt only",
      .manual = "Samples in a row cannot attend to each other, except the documents "
                "of stage pt; in LLaMA-Factory, this requires neat_packing." },
    { TS_USED("neat_packing", KEY_BOOL, "false"), .into = TS_FIELD(neat_packing),
      .help = "put several samples into one row without letting them attend to "
              "each other, as packing does for every stage other than pt" },
    { TS_USED("memory_limit", KEY_SIZE, NULL), .into = TS_FIELD(memory_limit),
      .help = "memory that the job may use, as a size (12GiB) or a share of the free "
              "memory (80%); the default is 95 % of the free memory",
      .manual = "On the CPU, it is enforced: a process that takes over 512 MiB more than "
                "it, for the program, the tokenizer and the data, and 24 MiB for each "
                "thread, runs out of memory. On a GPU, all memory is one block, which "
                "the plan counts." },
    { TS_USED("bf16_full_eval", KEY_BOOL, "false"), .into = TS_FIELD(bf16_full_eval),
      .help = "evaluate in bfloat16" },
    { TS_USED("fp16_full_eval", KEY_BOOL, "false"), .into = TS_FIELD(fp16_full_eval),
      .help = "evaluate in float16" },
    { TS_USED("fp8", KEY_BOOL, "false"), .into = TS_FIELD(request.fp8),
      .help = "experimental: with bf16, compute the matmuls of the layers in 8 "
              "bits; requires compute capability 8.9" },
    TS_IGNORED("fp8_backend", KEY_TEXT, "auto", "library that computes fp8"),
    TS_LAUNCH("fp8_enable_fsdp_float8_all_gather", KEY_BOOL, "false", NULL,
              "FSDP all-gather in 8 bits"),
    { TS_USED("infer_dtype", KEY_ENUM, "auto"), .values = plain_dtypes,
      .into = TS_FIELD(infer_dtype),
      .help = "number format of a model that is exported without training; auto keeps "
              "the format of its files" },
    TS_IGNORED("upcast_layernorm", KEY_BOOL, "false",
               "norms are always computed in float32"),
    TS_IGNORED("upcast_lmhead_output", KEY_BOOL, "false",
               "the loss is always computed in float32"),
    TS_IGNORED("autocast_adapter_dtype", KEY_BOOL, "true",
               "PEFT setting; adapters are always float32"),
    TS_IGNORED("use_reentrant_gc", KEY_BOOL, "true", "PyTorch setting"),
    { TS_IGNORED_MAP("gradient_checkpointing_kwargs", KEY_MAP, &schema_checkpointing),
      .help = "PyTorch setting" },
    TS_REJECTED("activation_offloading", KEY_BOOL, "false", NULL,
                "activations in host memory",
                "use gradient_checkpointing: true, which recomputes them"),
    { TS_USED("auto_find_batch_size", KEY_BOOL, "false"),
      .into = TS_FIELD(auto_find_batch_size),
      .help = "if the batch does not fit into memory, use its largest divisor that "
              "does and accumulate more steps (TS305)" },
    TS_IGNORED("torch_empty_cache_steps", KEY_INT, NULL, "PyTorch setting"),
    TS_IGNORED("torch_compile", KEY_BOOL, "false", "PyTorch compiler setting"),
    TS_IGNORED("torch_compile_backend", KEY_TEXT, NULL, "PyTorch compiler setting"),
    TS_IGNORED("torch_compile_mode", KEY_TEXT, NULL, "PyTorch compiler setting"),
    TS_REPORTED("torchdynamo", "TS610", KEY_TEXT, NULL, "PyTorch compiler setting"),
    TS_IGNORED("use_cache", KEY_BOOL, "false", "key-value cache of generation"),
    TS_REPORTED("jit_mode_eval", "TS610", KEY_BOOL, "false", "removed from transformers"),
    TS_REPORTED("use_ipex", "TS610", KEY_BOOL, "false", "removed from transformers"),
    TS_REPORTED("fp16_backend", "TS606", KEY_TEXT, "auto", "removed from transformers"),
    TS_REPORTED("half_precision_backend", "TS606", KEY_TEXT, "auto",
                "removed from transformers"),
    TS_REPORTED("fp16_opt_level", "TS606", KEY_TEXT, "O1",
                "apex setting, removed from transformers"),
    TS_REPORTED("use_apex", "TS606", KEY_BOOL, "false",
                "apex setting, removed from transformers"),
};
const struct keys schema_precision_keys = { "Precision and memory", rows,
                                            TS_COUNT(rows) };
