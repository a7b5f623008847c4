/* patcher/schema/schema_model.c - keys of the model and of the weights that are
 * trained. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

#define OWN_KERNELS "trainspool computes the same with its own"
#define NOISE_INIT                                                                 \
    "remove it, and the rows start as with noise_init; LLaMA-Factory's desc_init " \
    "requires new_special_tokens_config and is the same as noise_init without it"

static const char *const stages[] = { "sft", "pt",   "distill", "dpo",
                                      "kto", "grpo", "rm",      NULL };
static const struct advice stage_advice[] = {
    { "orpo", "use stage: dpo with pref_loss: orpo" },
    { NULL, NULL },
};
static const char *const methods[] = { "lora", "full", "freeze", "oft", NULL };
static const char *const attentions[] = {
    "auto", "disabled", "sdpa", "fa2", "fa3", NULL
};

static const char *const specials[] = { "noise_init", NULL };
static const struct advice specials_advice[] = {
    { "desc_init", NOISE_INIT },
    { "desc_init_w_noise", NOISE_INIT },
    { NULL, NULL },
};
static const char *const quantizers[] = { "bnb",   "bitsandbytes", "gptq", "awq",
                                          "aqlm",  "quanto",       "eetq", "hqq",
                                          "mxfp4", "fp8",          NULL };
static const char *const quant_types[] = { "fp4", "nf4", NULL };
static const char *const autos[] = { "auto", NULL };
static const char *const ropes[] = {
    "none", "linear", "dynamic", "yarn", "llama3", NULL
};
static const char *const depths[] = { "convert", "load", NULL };
static const char *const activations[] = { "retain", "recompute", NULL };
static const char *const norm_dtypes[] = { "auto", "fp16", "bf16", "fp32", NULL };

static const struct key rows[] = {
    { TS_USED("model_name_or_path", KEY_PATH, NULL), .into = TS_FIELD(model_name_or_path),
      .help = "folder of the model to train, with config.json, *.safetensors or "
              "pytorch_model*.bin, and the tokenizer",
      .manual = "Nothing is downloaded, so a name on the Hugging Face hub is not "
                "accepted. The section MODELS lists the architectures." },
    { TS_USED("adapter_name_or_path", KEY_PATH, NULL),
      .into = TS_FIELD(adapter_name_or_path),
      .help = "folder of a LoRA adapter of this model, from which the training "
              "starts",
      .manual = "With export_dir and without dataset, the job merges the adapter "
                "instead of training: see MODELS." },
    { TS_USED("stage", KEY_ENUM, "sft"),
      .synonyms = "pretrain=pt pretraining=pt cpt=pt instruct=sft kd=distill "
                  "distillation=distill preference=dpo simpo=dpo ipo=dpo "
                  "reward=rm reward_model=rm",
      .values = stages, .into = TS_FIELD(stage), .rejects = "ppo orpo",
      .advice = stage_advice,
      .help = "what the job trains on: answers (sft), plain text (pt), answers and a "
              "teacher's logits (distill), pairs of answers (dpo), answers marked as "
              "good or bad (kto), sampled answers and their rewards (grpo), or pairs "
              "of answers from which the model learns to give scores (rm)",
      .manual = "See DATA for the records of each stage, DISTILLATION for distill, "
                "PREFERENCES for dpo, kto and rm, and REINFORCEMENT for grpo." },
    { TS_USED("finetuning_type", KEY_ENUM, "lora"),
      .synonyms = "qlora=lora adapter=lora peft=lora sft=full fft=full",
      .values = methods, .into = TS_FIELD(method),
      .help = "which weights are trained: LoRA adapters (lora), orthogonal adapters "
              "(oft), all weights (full) or some of the layers (freeze)",
      .manual =
          "Orthogonal adapters multiply each block of columns of a layer's input by "
          "a rotation, as PEFT's OFT: the Cayley transform of a trained "
          "skew-symmetric matrix, by the first five terms of its series. They are "
          "not available with fp8 or zero_stage 3, for experts, or for GPT-2." },
    { TS_USED("train_from_scratch", KEY_BOOL, "false"),
      .into = TS_FIELD(train_from_scratch),
      .help = "initialize the weights at random and read only config.json and the "
              "tokenizer",
      .manual = "finetuning_type must be full or freeze: adapters of random weights have "
                "nothing to adapt." },
    { TS_USED("freeze_trainable_layers", KEY_INT, "2"), .min = -4096, .max = 4096,
      .into = TS_FIELD(freeze_trainable_layers),
      .help = "with finetuning_type: freeze, train this many of the last layers; if "
              "negative, of the first layers" },
    { TS_USED("use_llama_pro", KEY_BOOL, "false"), .into = TS_FIELD(use_llama_pro),
      .help = "with finetuning_type: freeze, train as many evenly spaced layers as "
              "freeze_trainable_layers says, instead of the last ones",
      .manual =
          "With 40 layers and freeze_trainable_layers: 8, every fifth layer is trained. "
          "These are the copies that LLaMA-Factory's scripts/llama_pro.py adds to a model "
          "of 32 layers (--num_expand 8), which have no effect at first. trainspool does "
          "not add layers. freeze_trainable_layers must divide the number of layers." },
    { TS_USED("freeze_trainable_modules", KEY_LIST, "all"),
      .into = TS_FIELD(freeze_trainable_modules),
      .help = "with finetuning_type: freeze, the modules of these layers to train" },
    { TS_USED("lora_rank", KEY_INT, "8"), .min = 1, .max = 65536,
      .into = TS_FIELD(lora_rank), .help = "rank of the adapters" },
    { TS_USED("lora_alpha", KEY_REAL, NULL), .min = 0, .max = 1e6,
      .into = TS_FIELD(lora_alpha),
      .help = "scale of the adapters; the default is twice lora_rank" },
    { TS_USED("lora_dropout", KEY_REAL, "0.0"), .min = 0, .max = 0.999,
      .into = TS_FIELD(lora_dropout),
      .help = "share of the inputs of an adapter that are dropped in training" },
    { TS_USED("lora_target", KEY_LIST, "all"), .into = TS_FIELD(lora_target),
      .help = "linear layers that get an adapter: all, module names separated by commas, "
              "or a regular expression",
      .manual = "The section MODELS describes the names. A value with one of "
                "*()[]\\|^$+? is a regular expression that must match the whole name "
                "of a layer, as in PEFT's target_modules: "
                "model\\.layers\\.\\d+\\.mlp\\.(up|down)_proj. It must match a layer "
                "in all blocks or in none. Names that the model has not are skipped with "
                "a warning (TS705) if it has others of the list." },
    { TS_USED("lora_target_parameters", KEY_LIST, NULL),
      .into = TS_FIELD(lora_target_parameters),
      .help = "parameters with the matrices of all experts of a block that get an "
              "adapter, as in PEFT's target_parameters",
      .manual =
          "In addition to the layers of lora_target, which is [] for none. With it, "
          "experts have no other adapters. The names are those of transformers 5 or their ends after a "
          "dot: mlp.experts.gate_up_proj, or 7.mlp.experts.down_proj of one block. "
          "It requires finetuning_type: lora and lora_dropout: 0, and an optimizer "
          "that does not update whole matrices; use_dora and pissa_init are not "
          "available with it." },
    { TS_USED("oft_block_size", KEY_INT, "32"), .min = 0, .max = 65536,
      .into = TS_FIELD(oft_block_size),
      .help = "with finetuning_type: oft, the columns that a rotation turns together",
      .manual = "If the inputs of a layer are no multiple of it, the nearest divisor is "
                "used, as in PEFT." },
    { TS_USED("oft_rank", KEY_INT, "0"), .min = 0, .max = 65536,
      .into = TS_FIELD(oft_rank),
      .help = "with finetuning_type: oft and oft_block_size: 0, the number of rotations "
              "of each layer" },
    { TS_USED("oft_target", KEY_LIST, "all"), .into = TS_FIELD(oft_target),
      .help = "with finetuning_type: oft, the linear layers that get an adapter",
      .manual =
          "If it is all, lora_target names them, which LLaMA-Factory 0.9.4 reads in "
          "any case." },
    { TS_USED("additional_target", KEY_LIST, NULL), .into = TS_FIELD(additional_target),
      .help = "modules, other than the adapters, whose weights are trained "
              "completely and saved with the adapter",
      .manual = "A head that shares its matrix with the embeddings gets a separate "
                "matrix if it is named, as in PEFT; embed_tokens alone trains both as "
                "one." },
    { TS_USED("use_dora", KEY_BOOL, "false"), .into = TS_FIELD(use_dora),
      .help = "DoRA: also train the norm of each row of the adapted weights",
      .manual = "As in PEFT, each output of an adapted layer is divided by the norm "
                "of its row of W + scale B A and multiplied by a trained magnitude. "
                "DoRA takes more time and memory than plain LoRA. It is not available "
                "with fp8 or zero_stage 3, or for experts." },
    { TS_USED("pissa_init", KEY_BOOL, "false"), .into = TS_FIELD(pissa_init),
      .help = "PiSSA: initialize the adapters from the largest singular values of the "
              "weights, and train them over a base that keeps the rest",
      .manual =
          "The saved adapter requires the same change to the base, which PEFT "
          "and trainspool make when they read it. To get a plain adapter, set "
          "pissa_convert: true. PiSSA is not available with quantization_bit or "
          "zero_stage 3, or for experts; lora_rank must be at most the rows and the "
          "columns of each adapted layer. With stage: dpo, it requires ref_model." },
    { TS_USED("pissa_convert", KEY_BOOL, "false"), .into = TS_FIELD(pissa_convert),
      .help = "with pissa_init, also write a plain adapter of twice the rank, which "
              "fits the unchanged model, to pissa_converted in output_dir" },
    { TS_USED("use_rslora", KEY_BOOL, "false"), .into = TS_FIELD(use_rslora),
      .help = "scale the adapters by lora_alpha divided by the square root of "
              "lora_rank instead of by lora_rank" },
    { TS_USED("loraplus_lr_ratio", KEY_REAL, NULL), .min = 0, .max = 1e6,
      .into = TS_FIELD(loraplus_lr_ratio),
      .help = "LoRA+: learning rate of the B matrices divided by that of the A "
              "matrices; the default and 0 use the same rate for both" },
    { TS_USED("create_new_adapter", KEY_BOOL, "false"),
      .into = TS_FIELD(create_new_adapter),
      .help = "merge the adapter of adapter_name_or_path into the model and train "
              "a new adapter" },
    { TS_USED("resize_vocab", KEY_BOOL, "false"), .into = TS_FIELD(resize_vocab),
      .help = "resize the embeddings to the number of tokens in the tokenizer, rounded "
              "up to a multiple of 64" },
    { TS_USED("add_tokens", KEY_LIST, NULL), .into = TS_FIELD(add_tokens),
      .help = "tokens to add to the vocabulary; implies resize_vocab",
      .manual = "The embedding of a new token, and its row of the head, start as the "
                "mean of the others plus noise, as in LLaMA-Factory. An adapter then "
                "also trains and saves embeddings and head, unless additional_target "
                "names other modules. The saved tokenizer.json contains the tokens. A "
                "job that continues or merges such an adapter reads them there, as "
                "does trainspool generate, and need not repeat add_tokens. Names that "
                "the adapter does not have are an error. New tokens are not available "
                "with quantization, in models with towers, or without a "
                "tokenizer.json." },
    { TS_USED("add_special_tokens", KEY_LIST, NULL), .into = TS_FIELD(add_special_tokens),
      .help = "special tokens to add, as with add_tokens; they are not part of the "
              "text of an answer" },
    { TS_USED("init_special_tokens", KEY_ENUM, "noise_init"), .values = specials,
      .rejects = "desc_init desc_init_w_noise", .advice = specials_advice,
      .help = "how the rows of new tokens are initialized: the mean of the others "
              "plus noise (noise_init)" },
    { TS_USED("quantization_bit", KEY_INT, NULL), .min = 0, .max = 32,
      .into = TS_FIELD(quantization_bit),
      .help = "with finetuning_type: lora, 4 stores the linear layers of the blocks "
              "in 4 bits (QLoRA); by default, or with 0, they keep the format of "
              "the model's files" },
    { TS_USED("quantization_method", KEY_ENUM, "bnb"), .values = quantizers,
      .help = "with quantization_bit, the layout of the quantized weights; bnb and "
              "bitsandbytes are the same" },
    { TS_USED("quantization_type", KEY_ENUM, "nf4"), .values = quant_types,
      .help = "with quantization_bit, the data type of the 4-bit values; only nf4 "
              "is supported" },
    { TS_USED("double_quantization", KEY_BOOL, "true"),
      .into = TS_FIELD(double_quantization),
      .help = "with quantization_bit, store the scales of the quantization blocks "
              "in 8 bits" },
    TS_IGNORED("adapter_folder", KEY_PATH, NULL, "folder of adapters on a model hub"),
    TS_IGNORED("cache_dir", KEY_PATH, NULL,
               "cache of downloads; trainspool downloads nothing"),
    TS_IGNORED("model_revision", KEY_TEXT, "main", "revision of a model on a hub"),
    { .name = "hf_hub_token",
      .type = KEY_TEXT,
      .use = KEY_IGNORED,
      .secret = true,
      .help = "access token of the Hugging Face hub" },
    { .name = "ms_hub_token",
      .type = KEY_TEXT,
      .use = KEY_IGNORED,
      .secret = true,
      .help = "access token of ModelScope" },
    { .name = "om_hub_token",
      .type = KEY_TEXT,
      .use = KEY_IGNORED,
      .secret = true,
      .help = "access token of Modelers" },
    TS_IGNORED("trust_remote_code", KEY_BOOL, "false",
               "trainspool never runs code from a model folder"),
    { TS_USED("do_train", KEY_BOOL, NULL),
      .help = "train the model; false is allowed only in a job that evaluates "
              "(do_eval, do_predict) or writes the model, with export_dir and no dataset",
      .manual = "By default, a job with dataset is trained and a job without it is a "
                "merge: see MODELS." },
    { TS_USED("do_eval", KEY_BOOL, "false"), .into = TS_FIELD(do_eval), .untrained = true,
      .help = "with do_train: false, evaluate the model without training",
      .manual = "See EVALUATION WITHOUT TRAINING.  A job that trains evaluates "
                "according to eval_strategy." },
    { TS_USED("do_predict", KEY_BOOL, "false"), .into = TS_FIELD(do_predict),
      .untrained = true,
      .help = "without do_train: true, answer the prompts of the evaluation data and "
              "score the answers, without training",
      .manual = "Requires predict_with_generate: true.  See EVALUATION WITHOUT "
                "TRAINING." },
    { TS_USED("rope_scaling", KEY_ENUM, "none"), .values = ropes,
      .into = TS_FIELD(rope_scaling),
      .help = "scale the rotary positions of a model that has fewer than cutoff_len, by "
              "the smallest whole factor with which they suffice",
      .manual = "The scaling replaces that of the model, and counts from its "
                "original_max_position_embeddings if there are any. "
                "As in LLaMA-Factory, it also raises max_position_embeddings, beyond "
                "which the angles of dynamic begin to change, and a full or merged model "
                "is saved with both in its config.json; an adapter is not: use it with "
                "the same key, or merge it. See MODELS for the types." },
    { .name = "flash_attn",
      .synonyms = "flash_attention_2=fa2 flash_attention_3=fa3 flash=fa2 eager=disabled "
                  "true=fa2 false=disabled",
      .type = KEY_ENUM,
      .use = KEY_IGNORED,
      .default_value = "auto",
      .values = attentions,
      .harmless = "disabled sdpa",
      .help = "attention never stores its matrix, on any device" },
    TS_IGNORED("low_cpu_mem_usage", KEY_BOOL, "true", "files are always memory-mapped"),
    TS_IGNORED("use_fast_tokenizer", KEY_BOOL, "true",
               "a tokenizer always gives the ids of the fast one"),
    TS_DIFFERS("split_special_tokens", KEY_BOOL, "false",
               "whether special tokens in a text are split",
               "special tokens in a text are always recognized"),
    TS_IGNORED("use_kv_cache", KEY_BOOL, "true", "key-value cache of generation"),
    TS_IGNORED("print_param_status", KEY_BOOL, "false",
               "list of the parameters in the log"),
    TS_IGNORED("offload_folder", KEY_PATH, "offload", "folder for offloaded weights"),
    { .name = "device_map",
      .type = KEY_ANY,
      .use = KEY_IGNORED,
      .rule = "TS206",
      .help = "placement of the model on devices; it neither causes nor fixes "
              "errors of the loss scaler" },
    TS_IGNORED("compute_dtype", KEY_TEXT, NULL, "derived from bf16 and fp16"),
    TS_IGNORED("model_max_length", KEY_INT, NULL, "derived from cutoff_len"),
    TS_IGNORED("block_diag_attn", KEY_BOOL, "false", "derived from neat_packing"),
    { TS_USED("moe_aux_loss_coef", KEY_REAL, NULL), .min = 0, .max = 1e3,
      .into = TS_FIELD(moe_aux_loss_coef),
      .help = "weight of the load balancing loss of models with a mixture of experts, "
              "which is added to the loss on the data (stages sft and pt)",
      .manual = "If it is 0 or unset, the weight is router_aux_loss_coef of "
                "config.json, if that has output_router_logits. Models whose class in "
                "transformers has no such loss (glm4_moe, deepseek_v3) have none." },
    TS_IGNORED("loraplus_lr_embedding", KEY_REAL, "1e-6",
               "LoRA+ learning rate of embeddings"),
    TS_IGNORED("pissa_iter", KEY_INT, "16",
               "iterations of PiSSA; singular values are always exact, as with -1"),
    TS_IGNORED("bnb_4bit_compute_dtype", KEY_TEXT, NULL,
               "format of matmuls with 4-bit weights"),
    TS_REJECTED("quantization_config", KEY_MAP, NULL, NULL, "quantization of the weights",
                "use quantization_bit: 4 with finetuning_type: lora"),
    TS_IGNORED_ENUM("quantization_device_map", autos, NULL, "placement of 4-bit weights"),
    TS_REJECTED("shift_attn", KEY_BOOL, "false", NULL, "LongLoRA attention", NULL),
    TS_REJECTED_ENUM("mixture_of_depths", depths, NULL, NULL, "mixture of depths", NULL),
    TS_IGNORED("use_unsloth", KEY_BOOL, "false", "Unsloth kernels; " OWN_KERNELS),
    TS_IGNORED("use_unsloth_gc", KEY_BOOL, "false",
               "Unsloth checkpointing; use gradient_checkpointing"),
    TS_IGNORED("enable_liger_kernel", KEY_BOOL, "false", "Liger kernels; " OWN_KERNELS),
    TS_IGNORED("use_liger_kernel", KEY_BOOL, "false", "Liger kernels; " OWN_KERNELS),
    TS_IGNORED("liger_kernel_config", KEY_MAP, NULL, "Liger setting"),
    TS_IGNORED("use_v1_kernels", KEY_BOOL, "false",
               "LLaMA-Factory kernels; " OWN_KERNELS),
    TS_LAUNCH("use_kt", KEY_BOOL, "false", NULL, "experts on the CPU with KTransformers"),
    TS_IGNORED("kt_config", KEY_ANY, NULL, "KTransformers setting"),
    TS_IGNORED_ENUM("kt_cpu_activation", activations, NULL, "KTransformers setting"),
    TS_IGNORED("kt_weight_path", KEY_PATH, NULL, "KTransformers setting"),
    TS_IGNORED("kt_non_expert_weight_path", KEY_PATH, NULL, "KTransformers setting"),
    TS_IGNORED("kt_expert_checkpoint_path", KEY_PATH, NULL, "KTransformers setting"),
    TS_IGNORED("kt_expert_weight_format", KEY_TEXT, NULL, "KTransformers setting"),
    TS_IGNORED("kt_use_lora_experts", KEY_BOOL, NULL, "KTransformers setting"),
    TS_IGNORED("kt_lora_expert_num", KEY_INT, NULL, "KTransformers setting"),
    TS_IGNORED("kt_lora_expert_intermediate_size", KEY_INT, NULL,
               "KTransformers setting"),
    TS_IGNORED("kt_optimize_rule", KEY_PATH, NULL, "KTransformers setting"),
    TS_IGNORED("kt_maxlen", KEY_INT, "4096", "KTransformers setting"),
    TS_IGNORED("kt_use_cuda_graph", KEY_BOOL, "true", "KTransformers setting"),
    TS_IGNORED("kt_mode", KEY_TEXT, "normal", "KTransformers setting"),
    TS_IGNORED("mode", KEY_TEXT, "normal", "KTransformers setting"),
    TS_IGNORED("kt_force_think", KEY_BOOL, "false", "KTransformers setting"),
    TS_IGNORED("chunk_size", KEY_INT, "8192", "KTransformers setting"),
    TS_IGNORED("cpu_infer", KEY_INT, "32", "KTransformers setting"),
    TS_ALIAS("new_special_tokens", "add_special_tokens", NULL),
    TS_ALIAS("new_normal_tokens", "add_tokens", NULL),
    TS_REJECTED("new_special_tokens_config", KEY_PATH, NULL, NULL,
                "a file of new tokens and their descriptions",
                "name the tokens in add_special_tokens, separated by commas; their rows "
                "start as with init_special_tokens: noise_init, not from descriptions"),
    TS_REJECTED("freeze_extra_modules", KEY_LIST, NULL, NULL,
                "trained modules outside of the layers",
                "use additional_target with finetuning_type: lora"),
    TS_IGNORED("module_dropout", KEY_REAL, "0.0",
               "dropout of OFT, which PEFT applies to no linear layer"),
    TS_ALIAS("num_layer_trainable", "freeze_trainable_layers", NULL),
    TS_ALIAS("name_module_trainable", "freeze_trainable_modules", NULL),
    TS_ALIAS("lora_lr_ratio", "loraplus_lr_ratio", NULL),
    TS_ALIAS("checkpoint_dir", "adapter_name_or_path", NULL),
    TS_IGNORED("resume_lora_training", KEY_BOOL, "true", "key of an older LLaMA-Factory"),
    TS_IGNORED("lora_bf16_mode", KEY_BOOL, "false", "key of an older LLaMA-Factory"),
    TS_IGNORED_ENUM("layernorm_dtype", norm_dtypes, "auto",
                    "key of an older LLaMA-Factory"),
    TS_IGNORED("padding_side", KEY_TEXT, "left", "key of an older LLaMA-Factory"),
    TS_IGNORED("num_hidden_layers", KEY_INT, "32", "key of an older LLaMA-Factory"),
    TS_IGNORED("use_qformer", KEY_BOOL, "false", "setting of vision models"),
    TS_IGNORED("aqlm_optimization", KEY_BOOL, "false", "key of an older LLaMA-Factory"),
    TS_IGNORED("disable_version_checking", KEY_BOOL, "false",
               "key of an older LLaMA-Factory"),
    { .name = "use_auth_token", /* or the token itself: transformers takes both */
      .type = KEY_BOOL_OR_TEXT,
      .use = KEY_IGNORED,
      .default_value = "false",
      .secret = true,
      .help = "key of an older LLaMA-Factory" },
    { .name = "hf_auth_token",
      .type = KEY_TEXT,
      .use = KEY_IGNORED,
      .secret = true,
      .help = "access token of the Hugging Face hub" },
    TS_REJECTED("loftq_init", KEY_BOOL, "false", NULL,
                "LoftQ, adapters that compensate for quantization", NULL),
    TS_IGNORED("use_mllm", KEY_BOOL, "false", "setting of vision models"),
    TS_IGNORED("visual_inputs", KEY_BOOL, "false", "setting of vision models"),
    TS_IGNORED("tune_mm_proj", KEY_BOOL, "false", "setting of vision models"),
    TS_IGNORED("train_mm_proj_only", KEY_BOOL, "false", "setting of vision models"),
};
const struct keys schema_model_keys = { "Model and method", rows, TS_COUNT(rows) };
