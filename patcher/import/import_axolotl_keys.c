/*
 * patcher/import/import_axolotl_keys.c - Axolotl keys without a counterpart in a job,
 * grouped by reason.
 *
 * axolotl-ai-cloud/axolotl at 067b021c: src/axolotl/utils/schemas and integrations have
 * all names; older ones are from its archived examples.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include "base/size.h"

const struct import_group import_axolotl_groups[] = {
    { IMPORT_IDLE,
      "no tracking service is used; metrics.jsonl and TensorBoard event files are next "
      "to the job",
      "wandb_* use_wandb mlflow_* use_mlflow hf_mlflow_log_artifacts comet_* use_comet "
      "swanlab_* use_swanlab trackio_* use_trackio use_tensorboard use_otel_metrics "
      "otel_* gradio_*" },
    { IMPORT_IDLE, "kernels change speed and memory, not results; trainspool has its own",
      "plugins liger_* cut_cross_entropy lora_mlp_kernel lora_qkv_kernel lora_o_kernel "
      "lora_embedding_kernel use_kernels fused_attn_kernel use_scattermoe use_sonicmoe "
      "experts_implementation chunked_cross_entropy* tiled_mlp* flash_attn_* "
      "flash_optimum torch_compile* deepcompile flex_attn_compile_kwargs "
      "gemma4_hybrid_attn_impl llama4_linearized_experts use_dsv4_kernels dsv4_* "
      "sdpa_varlen large_head_attention attn_implementation flash_attention "
      "sdp_attention xformers_attention flex_attention sage_attention eager_attention "
      "unsloth_* quantize_moe_experts" },
    { IMPORT_IDLE, "multi-GPU settings; use trainspool: {ranks: N} instead",
      "deepspeed fsdp fsdp_* ddp ddp_* local_rank world_size dp_* tensor_parallel_size "
      "context_parallel_size sequence_parallel_degree expert_parallel_size "
      "heads_k_stride ring_attn_func accelerator_config use_ray ray_* "
      "resources_per_worker experimental_skip_move_to_device "
      "qlora_sharded_model_loading" },
    { IMPORT_IDLE, "settings of a cloud service that runs Axolotl",
      "project_name volumes secrets branch dockerfile_commands gpu gpu_count memory "
      "memory_preprocess timeout timeout_preprocess env" },
    { IMPORT_IDLE, "nothing is uploaded to or downloaded from a hub",
      "hub_* hf_use_auth_token push_dataset_to_hub" },
    { IMPORT_IDLE, "read from the model's config.json and tokenizer.json",
      "model_type type_of_model tokenizer_type tokenizer_use_fast tokenizer_legacy "
      "tokenizer_use_mistral_common tokenizer_save_jinja_files cls_model_config "
      "is_falcon_derived_model is_llama_derived_model is_mistral_derived_model "
      "is_qwen_derived_model trust_remote_code low_cpu_mem_usage max_memory "
      "gpu_memory_limit device device_map torch_dtype" },
    { IMPORT_IDLE, "trainspool reads and tokenizes the data itself",
      "dataset_prepared_path dataset_processes dataset_num_proc dataset_keep_in_memory "
      "dataset_shard_* num_dataset_shards_to_save skip_prepare_dataset "
      "preprocess_iterable is_preprocess dataloader_num_workers dataloader_pin_memory "
      "dataloader_prefetch_factor remove_unused_columns axolotl_config_path" },
    { IMPORT_IDLE, "trainspool has its own way of packing samples",
      "eval_sample_packing pad_to_sequence_len pad_to_multiple_of sample_packing_* "
      "multipack_real_batches batch_flattening total_num_tokens total_supervised_tokens "
      "pretrain_multipack_* pretraining_sample_concatenation max_packed_sequence_len" },
    { IMPORT_IDLE, "memory settings of PyTorch, which trainspool does not use",
      "gc_steps gc_collect_steps torch_empty_cache_steps gradient_checkpointing_kwargs "
      "activation_offloading layer_offloading selective_checkpointing "
      "peft_autocast_adapter_dtype lora_on_cpu embeddings_skip_upcast torchdistx_path" },
    { IMPORT_IDLE, "files are always written as safetensors", "save_safetensors" },
    { IMPORT_IDLE, "checks that Axolotl makes", "strict debug" },
    { IMPORT_IDLE, "loss and norm of every step are logged, and a diverged run stops",
      "loss_watchdog_*" },
    { IMPORT_IDLE, "no text is generated during training",
      "eval_table_size eval_max_new_tokens eval_causal_lm_metrics do_causal_lm_eval "
      "do_bench_eval bench_* generate_samples num_generation_samples generation_*" },
    { IMPORT_IDLE, "speed is always logged",
      "include_tkps include_tokens_per_second profiler_* save_first_step" },
    { IMPORT_IDLE, "the order of samples is drawn from the seed, over all datasets",
      "shuffle_merged_datasets shuffle_before_merging_datasets" },
    { IMPORT_IDLE,
      "groups samples of similar length to save padding; trainspool has no padding and "
      "draws batches from all lengths",
      "group_by_length" },
    { IMPORT_IDLE, "for a quantized model, which the job does not use",
      "bnb_config_kwargs gptq_* nvfp4_merge_aware quantization merge_method merge_lora" },
    { IMPORT_DIFFERS,
      "the model's files are quantized; they must have float32, float16 or bfloat16 "
      "weights",
      "model_quantization_config* use_onebitllms" },
    { IMPORT_IDLE, "the model's config.json says that its files are quantized", "gptq" },
    { IMPORT_IDLE, "for reinforcement learning, which the file does not enable",
      "trl vllm ebft dpo_* rl_beta orpo_alpha kto_* simpo_gamma cpo_alpha rpo_alpha "
      "center_rewards_coefficient precompute_ref_log_probs max_prompt_len num_labels" },
    { IMPORT_IDLE,
      "how PEFT stores and ties layers; trainspool takes that from the model's files",
      "lora_fan_in_fan_out peft_ensure_weight_tying loraplus_lr_embedding" },
    { IMPORT_IDLE, "for images and sound; the data has none",
      "image_size image_resize_algorithm processor_kwargs freeze_mm_modules" },
    { IMPORT_DIFFERS,
      "only LoRA and DoRA are supported: on linear layers, all of one rank",
      "peft lora_rank_pattern lora_alpha_pattern "
      "peft_layer_replication peft_layers_to_transform peft_layers_pattern "
      "peft_trainable_token_indices peft_init_lora_weights relora relora_* "
      "jagged_restart_*" },
    { IMPORT_DIFFERS,
      "selects the weights to train; consider finetuning_type: freeze, which trains the "
      "last freeze_trainable_layers layers",
      "unfrozen_parameters lisa_* spectrum_*" },
    { IMPORT_DIFFERS, "learning rates for groups of weights are not supported",
      "lr_groups embedding_lr embedding_lr_scale" },
    { IMPORT_DIFFERS,
      "this form of warmup or decay of the learning rate is not supported",
      "lr_quadratic_warmup lr_div_factor" },
    { IMPORT_DIFFERS, "for an optimizer that is not supported",
      "optim_args optim_target_modules adam_beta3 adam_epsilon2 dion_* qgalore_* "
      "grokfast_*" },
    { IMPORT_DIFFERS, "no tokens are replaced; new ones start as the mean of the others",
      "added_tokens_overrides fix_untrained_tokens mean_resizing_embeddings "
      "shrink_embeddings resize_token_embeddings_to_32x" },
    { IMPORT_DIFFERS, "this change of the model is not supported",
      "overrides_of_model_config overrides_of_model_kwargs model_config rope_scaling "
      "reinit_weights scaling_softmax* use_pose pose_* s2_attention shift_attn "
      "fp32_norms fp32_norm_classes noisy_embedding_alpha" },
    { IMPORT_DIFFERS, "another loss; a job uses cross-entropy over the answers",
      "kd_* trainer_cls" },
    { IMPORT_DIFFERS, "training does not simulate quantization", "qat" },
    { IMPORT_DIFFERS, "samples are not filtered",
      "min_sample_len eval_sequence_len dataset_exact_deduplication streaming "
      "streaming_multipack_buffer_size" },
    { IMPORT_DIFFERS,
      "float8 is also experimental here: set fp8: true, on devices with compute "
      "capability 8.9 or higher",
      "fp8 fp8_enable_fsdp_float8_all_gather" },
    { IMPORT_DIFFERS,
      "a batch that does not fit is not retried with a smaller size; run trainspool plan "
      "to see what fits",
      "auto_find_batch_size" },
    { IMPORT_DIFFERS, "the template determines the end of a turn",
      "eot_tokens chat_template_kwargs chat_template_jinja role_boundaries" },
    { IMPORT_DIFFERS, "trainspool cancel writes a checkpoint on request",
      "dynamic_checkpoint" },
};
const size_t import_axolotl_group_count = TS_COUNT(import_axolotl_groups);
