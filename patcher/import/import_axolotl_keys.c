/*
 * patcher/import/import_axolotl_keys.c - the keys of Axolotl that have no word in a job, by the
 * reason for it.
 *
 * axolotl-ai-cloud/axolotl at 067b021c: src/axolotl/utils/schemas and integrations have
 * all names; older ones are of its archived examples.
 */
#include "config.h"

#include "patcher/import/import_parts.h"

#include "base/size.h"

const struct import_group import_axolotl_groups[] = {
    { IMPORT_IDLE,
      "no tracking service is used; metrics.jsonl and event files for TensorBoard lie "
      "beside the job",
      "wandb_* use_wandb mlflow_* use_mlflow hf_mlflow_log_artifacts comet_* use_comet "
      "swanlab_* use_swanlab trackio_* use_trackio use_tensorboard use_otel_metrics "
      "otel_* gradio_*" },
    { IMPORT_IDLE,
      "kernels: speed and memory, not results; a job has those of this program",
      "plugins liger_* cut_cross_entropy lora_mlp_kernel lora_qkv_kernel lora_o_kernel "
      "lora_embedding_kernel use_kernels fused_attn_kernel use_scattermoe use_sonicmoe "
      "experts_implementation chunked_cross_entropy* tiled_mlp* flash_attn_* "
      "flash_optimum torch_compile* deepcompile flex_attn_compile_kwargs "
      "gemma4_hybrid_attn_impl llama4_linearized_experts use_dsv4_kernels dsv4_* "
      "sdpa_varlen large_head_attention attn_implementation flash_attention "
      "sdp_attention xformers_attention flex_attention sage_attention eager_attention "
      "unsloth_* quantize_moe_experts" },
    { IMPORT_IDLE, "how several GPUs share the work; here trainspool: {ranks: N} does",
      "deepspeed fsdp fsdp_* ddp ddp_* local_rank world_size dp_* tensor_parallel_size "
      "context_parallel_size sequence_parallel_degree expert_parallel_size "
      "heads_k_stride ring_attn_func accelerator_config use_ray ray_* "
      "resources_per_worker experimental_skip_move_to_device qlora_sharded_model_loading" },
    { IMPORT_IDLE, "settings of a cloud that Axolotl runs in",
      "project_name volumes secrets branch dockerfile_commands gpu gpu_count memory "
      "memory_preprocess timeout timeout_preprocess env" },
    { IMPORT_IDLE, "nothing is sent to or fetched from a hub",
      "hub_* hf_use_auth_token push_dataset_to_hub" },
    { IMPORT_IDLE, "config.json and tokenizer.json of the model say it",
      "model_type type_of_model tokenizer_type tokenizer_use_fast tokenizer_legacy "
      "tokenizer_use_mistral_common tokenizer_save_jinja_files cls_model_config "
      "is_falcon_derived_model is_llama_derived_model is_mistral_derived_model "
      "is_qwen_derived_model trust_remote_code low_cpu_mem_usage max_memory "
      "gpu_memory_limit device device_map torch_dtype" },
    { IMPORT_IDLE, "data is read and tokenised anew, in the program",
      "dataset_prepared_path dataset_processes dataset_num_proc dataset_keep_in_memory "
      "dataset_shard_* num_dataset_shards_to_save skip_prepare_dataset "
      "preprocess_iterable is_preprocess dataloader_num_workers dataloader_pin_memory "
      "dataloader_prefetch_factor remove_unused_columns axolotl_config_path" },
    { IMPORT_IDLE, "how samples are packed is this program's own",
      "eval_sample_packing pad_to_sequence_len pad_to_multiple_of sample_packing_* "
      "multipack_real_batches batch_flattening total_num_tokens total_supervised_tokens "
      "pretrain_multipack_* pretraining_sample_concatenation max_packed_sequence_len" },
    { IMPORT_IDLE, "memory of PyTorch, which has no part in this",
      "gc_steps gc_collect_steps torch_empty_cache_steps gradient_checkpointing_kwargs "
      "activation_offloading layer_offloading selective_checkpointing "
      "peft_autocast_adapter_dtype lora_on_cpu embeddings_skip_upcast torchdistx_path" },
    { IMPORT_IDLE, "files are always written as safetensors", "save_safetensors" },
    { IMPORT_IDLE, "Axolotl's own checks", "strict debug" },
    { IMPORT_IDLE,
      "the loss and the norm of every step are logged and stop a run that is lost",
      "loss_watchdog_*" },
    { IMPORT_IDLE, "no text is generated while training",
      "eval_table_size eval_max_new_tokens eval_causal_lm_metrics do_causal_lm_eval "
      "do_bench_eval bench_* generate_samples num_generation_samples generation_*" },
    { IMPORT_IDLE, "speed is always logged",
      "include_tkps include_tokens_per_second profiler_* save_first_step" },
    { IMPORT_IDLE, "the order of samples is drawn from the seed, over all data sets",
      "shuffle_merged_datasets shuffle_before_merging_datasets" },
    { IMPORT_IDLE,
      "it puts samples of like length in one batch to save padding; here there is none, "
      "and a batch is drawn from all lengths",
      "group_by_length" },
    { IMPORT_IDLE, "of a quantised model, which the job does not use",
      "bnb_config_kwargs gptq_* nvfp4_merge_aware quantization merge_method merge_lora" },
    { IMPORT_DIFFERS,
      "the model's files are quantised; here they must hold float32, float16 or bfloat16",
      "gptq model_quantization_config* use_onebitllms" },
    { IMPORT_IDLE, "of reinforcement learning, which the file does not ask for",
      "trl vllm ebft dpo_* rl_beta orpo_alpha kto_* simpo_gamma cpo_alpha rpo_alpha "
      "center_rewards_coefficient precompute_ref_log_probs max_prompt_len num_labels" },
    { IMPORT_IDLE, "how PEFT stores and ties layers; here the model's files say it",
      "lora_fan_in_fan_out peft_ensure_weight_tying loraplus_lr_embedding" },
    { IMPORT_IDLE, "of images, of which the data has none",
      "image_size image_resize_algorithm processor_kwargs freeze_mm_modules" },
    { IMPORT_DIFFERS, "plain LoRA is done: on linear layers, all of one rank",
      "peft lora_target_parameters lora_rank_pattern lora_alpha_pattern peft_use_dora "
      "peft_layer_replication peft_layers_to_transform peft_layers_pattern "
      "peft_trainable_token_indices peft_init_lora_weights relora relora_* "
      "jagged_restart_*" },
    { IMPORT_DIFFERS,
      "which weights are trained; look at finetuning_type: freeze, which trains the "
      "last freeze_trainable_layers layers",
      "unfrozen_parameters lisa_* spectrum_*" },
    { IMPORT_DIFFERS, "rates of single groups of weights are not done here",
      "lr_groups embedding_lr embedding_lr_scale" },
    { IMPORT_DIFFERS, "the form of the learning rate's warm-up or decay is not done here",
      "lr_quadratic_warmup lr_div_factor" },
    { IMPORT_DIFFERS, "of an optimizer that is not done here",
      "optim_args optim_target_modules adam_beta3 adam_epsilon2 dion_* qgalore_* "
      "grokfast_*" },
    { IMPORT_DIFFERS, "no tokens are added; the vocabulary stays the model's",
      "tokens added_tokens_overrides fix_untrained_tokens mean_resizing_embeddings "
      "shrink_embeddings resize_token_embeddings_to_32x" },
    { IMPORT_DIFFERS, "a change of the model that is not done here",
      "overrides_of_model_config overrides_of_model_kwargs model_config rope_scaling "
      "reinit_weights scaling_softmax* use_pose pose_* s2_attention shift_attn "
      "fp32_norms fp32_norm_classes noisy_embedding_alpha neftune_noise_alpha" },
    { IMPORT_DIFFERS, "another loss; the job's is cross-entropy over the answers",
      "use_eaft eaft_* kd_* trainer_cls" },
    { IMPORT_DIFFERS, "the model is trained without imitating the quantised one", "qat" },
    { IMPORT_DIFFERS, "samples are taken as they are",
      "min_sample_len eval_sequence_len dataset_exact_deduplication streaming "
      "streaming_multipack_buffer_size" },
    { IMPORT_DIFFERS,
      "float8 is an experiment here too: fp8: true, on devices from 8.9 on",
      "fp8 fp8_enable_fsdp_float8_all_gather" },
    { IMPORT_DIFFERS,
      "a batch that does not fit is not tried again smaller; trainspool plan tells what "
      "fits",
      "auto_find_batch_size" },
    { IMPORT_DIFFERS, "where a turn ends is said by the template",
      "eot_tokens chat_template_kwargs chat_template_jinja role_boundaries" },
    { IMPORT_DIFFERS, "checkpoints are made on request by trainspool cancel",
      "dynamic_checkpoint" },
};
const size_t import_axolotl_group_count = TS_COUNT(import_axolotl_groups);
