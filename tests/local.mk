# To add a unit test of one file, write unit/test_NAME.c and add one line to the list of its layer
# below, in order:
#
#     unit_tests += %D%/unit/test_NAME
#
# The test is linked with all layers and cmocka.  Special cases add a second line:
# %C%_unit_test_NAME_SOURCES or %C%_unit_test_NAME_LDADD.  A program has one group of tests, because
# TAP allows one plan.  Tests run in the top folder of the build tree with these variables:
#
#     $top_srcdir, $top_builddir     the source tree and the build tree
#     $TRAINSPOOL_SHARED             real models and data; a test reports a skip if it is missing
#
# Slow tests go into heavy_tests, which a build with sanitizers leaves out.
#
# Every parser of external input has a fuzz target: write fuzz/fuzz_NAME.c with
# LLVMFuzzerTestOneInput, put some small inputs into fuzz/corpus/NAME/ and tokens of the format into
# fuzz/dict/NAME.dict, and add
#
#     fuzz_tests += %D%/fuzz/fuzz_NAME
#
# `make fuzz SECONDS=60` searches for failing inputs, with clang.  Put a failing input, minimized,
# into fuzz/found/NAME/.  `make check` replays both folders.
#
# To add a test of the programs, write an executable cli/NAME.t that prints TAP and add
# `script_tests += %D%/cli/NAME.t`.  A build with sanitizers leaves out what is long and says little about
# memory errors: `heavy_tests`, `plain_emulated_tests`, and `plain_tests`, which read sources and scripts, or
# repeat what other tests run.

unit_tests =
heavy_tests =
fuzz_tests =
script_tests =
plain_tests =
test_programs =

# base
unit_tests += %D%/unit/test_arena
unit_tests += %D%/unit/test_clock
unit_tests += %D%/unit/test_crc32c
unit_tests += %D%/unit/test_digest
unit_tests += %D%/unit/test_error
unit_tests += %D%/unit/test_exchange
unit_tests += %D%/unit/test_fault
unit_tests += %D%/unit/test_file
unit_tests += %D%/unit/test_heartbeat
unit_tests += %D%/unit/test_holders
unit_tests += %D%/unit/test_leftovers
unit_tests += %D%/unit/test_json
unit_tests += %D%/unit/test_json_edit
unit_tests += %D%/unit/test_json_scan
unit_tests += %D%/unit/test_link
unit_tests += %D%/unit/test_log
unit_tests += %D%/unit/test_lookalike
unit_tests += %D%/unit/test_net
unit_tests += %D%/unit/test_outlet
unit_tests += %D%/unit/test_pcg
unit_tests += %D%/unit/test_random
unit_tests += %D%/unit/test_spawn
unit_tests += %D%/unit/test_stop
unit_tests += %D%/unit/test_roots
unit_tests += %D%/unit/test_spread
unit_tests += %D%/unit/test_text
unit_tests += %D%/unit/test_user_names
unit_tests += %D%/unit/test_walk
unit_tests += %D%/unit/test_instant

# precision
unit_tests += %D%/unit/test_claims
unit_tests += %D%/unit/test_calibration
unit_tests += %D%/unit/test_cgroup
unit_tests += %D%/unit/test_device
unit_tests += %D%/unit/test_format
unit_tests += %D%/unit/test_memory
unit_tests += %D%/unit/test_mxfp4
unit_tests += %D%/unit/test_nf4
unit_tests += %D%/unit/test_packed
unit_tests += %D%/unit/test_policy
unit_tests += %D%/unit/test_probe
unit_tests += %D%/unit/test_scaler

# kernels
unit_tests += %D%/unit/test_backend
unit_tests += %D%/unit/test_cpu_cores
unit_tests += %D%/unit/test_cpu_matmul_grid
unit_tests += %D%/unit/test_cpu_mesh
unit_tests += %D%/unit/test_cpu_pool
unit_tests += %D%/unit/test_golden_operators
unit_tests += %D%/unit/test_golden_preference
unit_tests += %D%/unit/test_cpu_unchecked
unit_tests += %D%/unit/test_group
unit_tests += %D%/unit/test_matmul_choices
unit_tests += %D%/unit/test_reach
unit_tests += %D%/unit/test_measure
unit_tests += %D%/unit/test_tensor

# train
heavy_tests += %D%/unit/test_preflight
heavy_tests += %D%/unit/test_trainer
heavy_tests += %D%/unit/test_trainer_resume
heavy_tests += %D%/unit/test_resume_lost
heavy_tests += %D%/unit/test_trainer_distill
heavy_tests += %D%/unit/test_media_curve
heavy_tests += %D%/unit/test_media_ranks
heavy_tests += %D%/unit/test_cross_ranks
heavy_tests += %D%/unit/test_media_runs
heavy_tests += %D%/unit/test_media_generate
heavy_tests += %D%/unit/test_tower_dropout
heavy_tests += %D%/unit/test_tower_resume
heavy_tests += %D%/unit/test_tower_training
heavy_tests += %D%/unit/test_encoder_merge
heavy_tests += %D%/unit/test_trainer_golden
heavy_tests += %D%/unit/test_trainer_average
heavy_tests += %D%/unit/test_trainer_kill
heavy_tests += %D%/unit/test_trainer_pissa
heavy_tests += %D%/unit/test_trainer_preference
heavy_tests += %D%/unit/test_trainer_preference_curve
heavy_tests += %D%/unit/test_trainer_reward_curve
heavy_tests += %D%/unit/test_trainer_ranks
heavy_tests += %D%/unit/test_trainer_rollout
unit_tests += %D%/unit/test_activation_name
unit_tests += %D%/unit/test_adapter_check
unit_tests += %D%/unit/test_adapter_gradients
unit_tests += %D%/unit/test_added_tokens
unit_tests += %D%/unit/test_adapter_methods
unit_tests += %D%/unit/test_encoder_adapters
unit_tests += %D%/unit/test_expert_adapters
unit_tests += %D%/unit/test_answer
unit_tests += %D%/unit/test_architectures
unit_tests += %D%/unit/test_architectures_use
unit_tests += %D%/unit/test_rope_models
unit_tests += %D%/unit/test_mrope
unit_tests += %D%/unit/test_rope_rows
unit_tests += %D%/unit/test_rope_scaling
unit_tests += %D%/unit/test_short_convs
unit_tests += %D%/unit/test_state_space
unit_tests += %D%/unit/test_bpe
unit_tests += %D%/unit/test_config_defaults
unit_tests += %D%/unit/test_criterion
unit_tests += %D%/unit/test_chat
unit_tests += %D%/unit/test_chat_record
unit_tests += %D%/unit/test_dataset
unit_tests += %D%/unit/test_dataset_batch
unit_tests += %D%/unit/test_dataset_cache
unit_tests += %D%/unit/test_dataset_expand
unit_tests += %D%/unit/test_dataset_expand_chat
unit_tests += %D%/unit/test_dataset_expand_golden
unit_tests += %D%/unit/test_dataset_llamafactory
unit_tests += %D%/unit/test_dataset_media
unit_tests += %D%/unit/test_dataset_media_files
unit_tests += %D%/unit/test_dataset_trial
unit_tests += %D%/unit/test_dataset_mix
unit_tests += %D%/unit/test_dataset_pack
unit_tests += %D%/unit/test_dataset_pair
unit_tests += %D%/unit/test_dataset_pairs
unit_tests += %D%/unit/test_dataset_reader
unit_tests += %D%/unit/test_dataset_record
unit_tests += %D%/unit/test_dataset_record_pair
unit_tests += %D%/unit/test_dataset_source
unit_tests += %D%/unit/test_dataset_store
unit_tests += %D%/unit/test_dataset_weights
unit_tests += %D%/unit/test_detokenizer
unit_tests += %D%/unit/test_duration
unit_tests += %D%/unit/test_estimate
unit_tests += %D%/unit/test_estimate_media
unit_tests += %D%/unit/test_features
unit_tests += %D%/unit/test_golden_lora
unit_tests += %D%/unit/test_vocabulary_growth
unit_tests += %D%/unit/test_evaluation
unit_tests += %D%/unit/test_expert_config
unit_tests += %D%/unit/test_generate
unit_tests += %D%/unit/test_gguf_tokenizer
unit_tests += %D%/unit/test_gguf_write
unit_tests += %D%/unit/test_generation_target
unit_tests += %D%/unit/test_jinja
unit_tests += %D%/unit/test_latent_config
unit_tests += %D%/unit/test_lora
unit_tests += %D%/unit/test_cross_layers
unit_tests += %D%/unit/test_multimodal
unit_tests += %D%/unit/test_media_cache
unit_tests += %D%/unit/test_tower
unit_tests += %D%/unit/test_tower_adapters
unit_tests += %D%/unit/test_tower_backward
unit_tests += %D%/unit/test_tower_config
unit_tests += %D%/unit/test_tower_cost
unit_tests += %D%/unit/test_tower_files
unit_tests += %D%/unit/test_checkpoint_find
unit_tests += %D%/unit/test_manifest
unit_tests += %D%/unit/test_methods
unit_tests += %D%/unit/test_stage_choice
unit_tests += %D%/unit/test_metrics
unit_tests += %D%/unit/test_image_file
unit_tests += %D%/unit/test_image_prepare
unit_tests += %D%/unit/test_image_resize
unit_tests += %D%/unit/test_model
unit_tests += %D%/unit/test_model_bin
unit_tests += %D%/unit/test_model_config
unit_tests += %D%/unit/test_model_config_refused
unit_tests += %D%/unit/test_model_config_types
unit_tests += %D%/unit/test_model_cross
unit_tests += %D%/unit/test_model_media
unit_tests += %D%/unit/test_model_projector
unit_tests += %D%/unit/test_model_names
unit_tests += %D%/unit/test_model_decode
unit_tests += %D%/unit/test_model_distill
unit_tests += %D%/unit/test_model_preference
unit_tests += %D%/unit/test_model_determinism
unit_tests += %D%/unit/test_model_files
unit_tests += %D%/unit/test_model_torch
unit_tests += %D%/unit/test_model_folded
unit_tests += %D%/unit/test_model_gather
unit_tests += %D%/unit/test_model_gptq
unit_tests += %D%/unit/test_model_gradients
unit_tests += %D%/unit/test_model_prequantized
unit_tests += %D%/unit/test_model_quantized
unit_tests += %D%/unit/test_model_ranks
unit_tests += %D%/unit/test_model_watch
unit_tests += %D%/unit/test_normalizer
unit_tests += %D%/unit/test_optimizer
unit_tests += %D%/unit/test_optimizer_file
unit_tests += %D%/unit/test_optimizer_table
unit_tests += %D%/unit/test_overflow
unit_tests += %D%/unit/test_pattern
unit_tests += %D%/unit/test_pickle
unit_tests += %D%/unit/test_postprocessor
unit_tests += %D%/unit/test_pretokenizer
unit_tests += %D%/unit/test_progress
unit_tests += %D%/unit/test_prompt
unit_tests += %D%/unit/test_quant_state
unit_tests += %D%/unit/test_quantized_config
unit_tests += %D%/unit/test_eval_prompts
unit_tests += %D%/unit/test_rope
unit_tests += %D%/unit/test_audio
unit_tests += %D%/unit/test_fourier
unit_tests += %D%/unit/test_log_mel
unit_tests += %D%/unit/test_mel_settings
unit_tests += %D%/unit/test_mel_sound
unit_tests += %D%/unit/test_resample
unit_tests += %D%/unit/test_safetensors
unit_tests += %D%/unit/test_torch_weights
unit_tests += %D%/unit/test_sampler
unit_tests += %D%/unit/test_samples
unit_tests += %D%/unit/test_schedule
unit_tests += %D%/unit/test_attention_room
unit_tests += %D%/unit/test_shapes
unit_tests += %D%/unit/test_shared_lock
unit_tests += %D%/unit/test_lease_sights
unit_tests += %D%/unit/test_shapes_room
unit_tests += %D%/unit/test_teacher_logits
unit_tests += %D%/unit/test_teacher_plan
unit_tests += %D%/unit/test_matrix_layout
unit_tests += %D%/unit/test_table
unit_tests += %D%/unit/test_template
unit_tests += %D%/unit/test_template_saving
unit_tests += %D%/unit/test_predictions
unit_tests += %D%/unit/test_similarity
unit_tests += %D%/unit/test_slurm
unit_tests += %D%/unit/test_slurm_array
unit_tests += %D%/unit/test_template_golden
unit_tests += %D%/unit/test_tensorboard
unit_tests += %D%/unit/test_tokenizer
unit_tests += %D%/unit/test_tokenizer_folders
unit_tests += %D%/unit/test_unigram
unit_tests += %D%/unit/test_tokenizer_limits
unit_tests += %D%/unit/test_trainer_curve
unit_tests += %D%/unit/test_trainer_overflow
unit_tests += %D%/unit/test_torch_memory
unit_tests += %D%/unit/test_torch_memory_settings
unit_tests += %D%/unit/test_torch_file
unit_tests += %D%/unit/test_torch_state
unit_tests += %D%/unit/test_zip_write
unit_tests += %D%/unit/test_unicode
unit_tests += %D%/unit/test_vocabulary

# patcher
unit_tests += %D%/unit/test_backup
unit_tests += %D%/unit/test_corpus
unit_tests += %D%/unit/test_dialect
unit_tests += %D%/unit/test_decisions
unit_tests += %D%/unit/test_diff
unit_tests += %D%/unit/test_document
unit_tests += %D%/unit/test_edits
unit_tests += %D%/unit/test_environment
unit_tests += %D%/unit/test_external
unit_tests += %D%/unit/test_finding
unit_tests += %D%/unit/test_hazards
unit_tests += %D%/unit/test_import
unit_tests += %D%/unit/test_import_corpus
unit_tests += %D%/unit/test_import_meaning
unit_tests += %D%/unit/test_import_media
unit_tests += %D%/unit/test_import_outcomes
unit_tests += %D%/unit/test_import_v1
unit_tests += %D%/unit/test_job_manual
unit_tests += %D%/unit/test_history
unit_tests += %D%/unit/test_jobfile
unit_tests += %D%/unit/test_journal
unit_tests += %D%/unit/test_edit_log
unit_tests += %D%/unit/test_nearest
unit_tests += %D%/unit/test_variables
unit_tests += %D%/unit/test_patch_cases
unit_tests += %D%/unit/test_patcher
unit_tests += %D%/unit/test_sweep
unit_tests += %D%/unit/test_text_position
unit_tests += %D%/unit/test_previous
unit_tests += %D%/unit/test_properties
unit_tests += %D%/unit/test_profile
unit_tests += %D%/unit/test_python_value
unit_tests += %D%/unit/test_pyyaml
unit_tests += %D%/unit/test_redact
unit_tests += %D%/unit/test_reference_gradients
unit_tests += %D%/unit/test_refusals
unit_tests += %D%/unit/test_alternatives
unit_tests += %D%/unit/test_memory_fit
unit_tests += %D%/unit/test_relocation
unit_tests += %D%/unit/test_rewrite
unit_tests += %D%/unit/test_rules
unit_tests += %D%/unit/test_rules_ranks
unit_tests += %D%/unit/test_slurm_values
unit_tests += %D%/unit/test_rules_missing
unit_tests += %D%/unit/test_scalar
unit_tests += %D%/unit/test_score_head
unit_tests += %D%/unit/test_schema
unit_tests += %D%/unit/test_schema_check
unit_tests += %D%/unit/test_script
unit_tests += %D%/unit/test_setting
unit_tests += %D%/unit/test_convergence
unit_tests += %D%/unit/test_teacher
unit_tests += %D%/unit/test_spans
unit_tests += %D%/unit/test_stored_weights
unit_tests += %D%/unit/test_supervisor
unit_tests += %D%/unit/test_suppress
unit_tests += %D%/unit/test_torch_build
unit_tests += %D%/unit/test_torch_setup
unit_tests += %D%/unit/test_versions

# runner
unit_tests += %D%/unit/test_assembly
unit_tests += %D%/unit/test_assembly_strangers
unit_tests += %D%/unit/test_chart
unit_tests += %D%/unit/test_claim
unit_tests += %D%/unit/test_drop
unit_tests += %D%/unit/test_examiner
unit_tests += %D%/unit/test_html
unit_tests += %D%/unit/test_child_environment
unit_tests += %D%/unit/test_containment
unit_tests += %D%/unit/test_gate
unit_tests += %D%/unit/test_job
unit_tests += %D%/unit/test_job_group
unit_tests += %D%/unit/test_obstacle
unit_tests += %D%/unit/test_record
unit_tests += %D%/unit/test_ending
unit_tests += %D%/unit/test_machine
unit_tests += %D%/unit/test_mail
unit_tests += %D%/unit/test_repository
unit_tests += %D%/unit/test_room
unit_tests += %D%/unit/test_meter
unit_tests += %D%/unit/test_names
unit_tests += %D%/unit/test_options
unit_tests += %D%/unit/test_eta
unit_tests += %D%/unit/test_listing
unit_tests += %D%/unit/test_candidates
unit_tests += %D%/unit/test_people
unit_tests += %D%/unit/test_placement
unit_tests += %D%/unit/test_placement_day
unit_tests += %D%/unit/test_queue
unit_tests += %D%/unit/test_report
unit_tests += %D%/unit/test_report_excerpt
unit_tests += %D%/unit/test_report_sarif
unit_tests += %D%/unit/test_report_similar
unit_tests += %D%/unit/test_plan_media
unit_tests += %D%/unit/test_steps
unit_tests += %D%/unit/test_watch
unit_tests += %D%/unit/test_weights
unit_tests += %D%/unit/test_guard
unit_tests += %D%/unit/test_items
unit_tests += %D%/unit/test_spool_metrics
unit_tests += %D%/unit/test_worker
unit_tests += %D%/unit/test_worker_group
unit_tests += %D%/unit/test_world
unit_tests += %D%/unit/test_host
unit_tests += %D%/unit/test_kubernetes

# fuzz targets of the parsers, run on their corpora
fuzz_tests += %D%/fuzz/fuzz_adapter
fuzz_tests += %D%/fuzz/fuzz_answer
fuzz_tests += %D%/fuzz/fuzz_audio
fuzz_tests += %D%/fuzz/fuzz_dataset
fuzz_tests += %D%/fuzz/fuzz_diff
fuzz_tests += %D%/fuzz/fuzz_document
fuzz_tests += %D%/fuzz/fuzz_edits
fuzz_tests += %D%/fuzz/fuzz_gptq
fuzz_tests += %D%/fuzz/fuzz_image
fuzz_tests += %D%/fuzz/fuzz_import
fuzz_tests += %D%/fuzz/fuzz_jinja
fuzz_tests += %D%/fuzz/fuzz_journal
fuzz_tests += %D%/fuzz/fuzz_json
fuzz_tests += %D%/fuzz/fuzz_lease
fuzz_tests += %D%/fuzz/fuzz_matmul_choices
fuzz_tests += %D%/fuzz/fuzz_media_records
fuzz_tests += %D%/fuzz/fuzz_model_config
fuzz_tests += %D%/fuzz/fuzz_page
fuzz_tests += %D%/fuzz/fuzz_patcher
fuzz_tests += %D%/fuzz/fuzz_preprocessor_config
fuzz_tests += %D%/fuzz/fuzz_previous
fuzz_tests += %D%/fuzz/fuzz_probe
fuzz_tests += %D%/fuzz/fuzz_progress
fuzz_tests += %D%/fuzz/fuzz_quant_state
fuzz_tests += %D%/fuzz/fuzz_report
fuzz_tests += %D%/fuzz/fuzz_repository
fuzz_tests += %D%/fuzz/fuzz_safetensors
fuzz_tests += %D%/fuzz/fuzz_schema
fuzz_tests += %D%/fuzz/fuzz_script
fuzz_tests += %D%/fuzz/fuzz_similarity
fuzz_tests += %D%/fuzz/fuzz_sources
fuzz_tests += %D%/fuzz/fuzz_state
fuzz_tests += %D%/fuzz/fuzz_table
fuzz_tests += %D%/fuzz/fuzz_teacher_logits
fuzz_tests += %D%/fuzz/fuzz_tokenizer
fuzz_tests += %D%/fuzz/fuzz_tokenizer_folder
fuzz_tests += %D%/fuzz/fuzz_tower
fuzz_tests += %D%/fuzz/fuzz_torch_weights
fuzz_tests += %D%/fuzz/fuzz_undo
fuzz_tests += %D%/fuzz/fuzz_words

# tests of the programs
EXTRA_DIST += %D%/golden/experts.json %D%/golden/experts.py
EXTRA_DIST += %D%/golden/tokenizer_folders.json %D%/golden/tokenizer_folders.py
EXTRA_DIST += %D%/golden/torch_weights.json %D%/golden/torch_weights.py
EXTRA_DIST += %D%/golden/tables.py %D%/golden/tables
EXTRA_DIST += %D%/golden/architectures.json %D%/golden/architectures.py
EXTRA_DIST += %D%/golden/rope.json %D%/golden/rope.py
EXTRA_DIST += %D%/golden/chat.json %D%/golden/chat.py
EXTRA_DIST += %D%/golden/conversations.json %D%/golden/conversations.py
EXTRA_DIST += %D%/golden/curve.json %D%/golden/curve.py
EXTRA_DIST += %D%/golden/optimizer_curve.json %D%/golden/optimizer_curve.py
EXTRA_DIST += %D%/golden/image_files.json %D%/golden/image_files.py
EXTRA_DIST += %D%/golden/image_prepare.json %D%/golden/image_prepare.py
EXTRA_DIST += %D%/golden/image_resize.json %D%/golden/image_resize.py
EXTRA_DIST += %D%/golden/jinja.json %D%/golden/jinja.py
EXTRA_DIST += %D%/golden/dora.json %D%/golden/dora.py
EXTRA_DIST += %D%/golden/oft.json %D%/golden/oft.py
EXTRA_DIST += %D%/golden/log_mel.json %D%/golden/log_mel.py
EXTRA_DIST += %D%/golden/sounds.json %D%/golden/sounds.py %D%/golden/sounds
EXTRA_DIST += %D%/golden/resample.json %D%/golden/resample.py
EXTRA_DIST += %D%/golden/lora.json %D%/golden/lora.py
EXTRA_DIST += %D%/golden/mrope.json %D%/golden/mrope.py
EXTRA_DIST += %D%/golden/multimodal.json %D%/golden/multimodal.py
EXTRA_DIST += %D%/golden/towers.json %D%/golden/towers.safetensors
EXTRA_DIST += %D%/golden/tower_files.json %D%/golden/tower_files.safetensors
EXTRA_DIST += %D%/golden/tower_files.py
EXTRA_DIST += %D%/golden/media_curve.json %D%/golden/media_curve.py
EXTRA_DIST += %D%/golden/media_projector.json %D%/golden/media_projector.py
EXTRA_DIST += %D%/golden/media_rows.json %D%/golden/media_rows.py
EXTRA_DIST += %D%/golden/media_generate.json %D%/golden/media_generate.py
EXTRA_DIST += %D%/golden/tower_training.json %D%/golden/tower_training.py
EXTRA_DIST += %D%/golden/encoder_merge.json %D%/golden/encoder_merge.py
EXTRA_DIST += %D%/golden/towers.py
EXTRA_DIST += %D%/golden/tower_gradients.py %D%/golden/tower_gradients.safetensors
EXTRA_DIST += %D%/golden/pairs.json %D%/golden/pairs.py
EXTRA_DIST += %D%/golden/gptq.json %D%/golden/gptq.py
EXTRA_DIST += %D%/golden/fp8.json %D%/golden/fp8.py
EXTRA_DIST += %D%/golden/mxfp4.json %D%/golden/mxfp4.py
EXTRA_DIST += %D%/golden/nf4.json %D%/golden/nf4.py
EXTRA_DIST += %D%/golden/prequantized.json %D%/golden/prequantized.py
EXTRA_DIST += %D%/golden/qlora.json %D%/golden/qlora.py
EXTRA_DIST += %D%/golden/operators.json %D%/golden/operators.py
EXTRA_DIST += %D%/golden/feedback_loss.json %D%/golden/feedback_loss.py
EXTRA_DIST += %D%/golden/token_losses.json %D%/golden/token_losses.py
EXTRA_DIST += %D%/golden/distill.json %D%/golden/distill.py
EXTRA_DIST += %D%/golden/cauldron.json %D%/golden/cauldron.parquet %D%/golden/cauldron.py
EXTRA_DIST += %D%/golden/media_bytes.parquet %D%/golden/media_bytes.py
EXTRA_DIST += %D%/golden/media_text.json %D%/golden/media_text.py
EXTRA_DIST += %D%/golden/mix.json %D%/golden/mix.py
EXTRA_DIST += %D%/golden/saved_head.json %D%/golden/saved_head.py
EXTRA_DIST += %D%/golden/sampling.json %D%/golden/sampling.py
EXTRA_DIST += %D%/golden/schedule.json %D%/golden/schedule.py
EXTRA_DIST += %D%/golden/similarity.json %D%/golden/similarity.py
EXTRA_DIST += %D%/golden/distill_curve.json %D%/golden/distill_curve.py
EXTRA_DIST += %D%/golden/named.json %D%/golden/named.py
EXTRA_DIST += %D%/golden/overflow.json %D%/golden/overflow.py
EXTRA_DIST += %D%/golden/new_tokens.json %D%/golden/new_tokens.py
EXTRA_DIST += %D%/golden/pissa.json %D%/golden/pissa.py
EXTRA_DIST += %D%/golden/precision.json %D%/golden/precision.py
EXTRA_DIST += %D%/golden/policy_curve.json %D%/golden/policy_curve.py
EXTRA_DIST += %D%/golden/policy_loss.json %D%/golden/policy_loss.py
EXTRA_DIST += %D%/golden/preference.json %D%/golden/preference.py
EXTRA_DIST += %D%/golden/preference_curve.json %D%/golden/preference_curve.py
EXTRA_DIST += %D%/golden/reward_curve.json %D%/golden/reward_curve.py
EXTRA_DIST += %D%/golden/weights.json %D%/golden/weights.py
EXTRA_DIST += %D%/golden/preference_loss.json %D%/golden/preference_loss.py
EXTRA_DIST += %D%/golden/trainer.json %D%/golden/trainer.py
EXTRA_DIST += %D%/golden/event_files.py
EXTRA_DIST += %D%/cli/lib.sh
EXTRA_DIST += %D%/cli/devices.sh %D%/cli/slurm.sh %D%/cli/slurm_fake.sh %D%/cli/users.sh
EXTRA_DIST += %D%/cli/devices.sh %D%/cli/ranks.sh %D%/cli/slurm.sh %D%/cli/users.sh
EXTRA_DIST += %D%/cli/page.py %D%/cli/page_colors.py
EXTRA_DIST += %D%/cli/follow.py %D%/cli/tensors.py
EXTRA_DIST += %D%/cli/prequantized.py
EXTRA_DIST += %D%/cli/k8s.py
EXTRA_DIST += %D%/cli/schema.py
EXTRA_DIST += %D%/cli/schema_offers.py
plain_tests += %D%/cli/configure.t
plain_tests += %D%/cli/crash.t
plain_tests += %D%/cli/cuda_code.t
plain_tests += %D%/cli/gpu.t
plain_tests += %D%/cli/gpu_steps.t
plain_tests += %D%/cli/heal.t
plain_tests += %D%/cli/clusters.t
plain_tests += %D%/cli/cut.t
plain_tests += %D%/cli/hosts.t
plain_tests += %D%/cli/k8s.t
plain_tests += %D%/cli/launch.t
plain_tests += %D%/cli/shared_locks.t
plain_tests += %D%/cli/together.t
plain_tests += %D%/cli/memory.t
plain_tests += %D%/cli/package.t
plain_tests += %D%/cli/people.t
plain_tests += %D%/cli/ranks.t
plain_tests += %D%/cli/slurm.t
plain_tests += %D%/cli/slurm_array.t
plain_tests += %D%/cli/slurm_session.t
plain_tests += %D%/cli/soak.t
plain_tests += %D%/cli/zero.t
plain_tests += %D%/english.t
plain_tests += %D%/layers.t
script_tests += %D%/cli/after.t
script_tests += %D%/cli/bulk.t
script_tests += %D%/cli/chain.t
script_tests += %D%/cli/check.t
script_tests += %D%/cli/clean.t
script_tests += %D%/cli/completion.t
script_tests += %D%/cli/contain.t
script_tests += %D%/cli/differential.t
script_tests += %D%/cli/evaluate.t
script_tests += %D%/cli/examine.t
script_tests += %D%/cli/faults.t
script_tests += %D%/cli/field.t
script_tests += %D%/cli/field_trainer.t
script_tests += %D%/cli/follow.t
script_tests += %D%/cli/full.t
script_tests += %D%/cli/generate.t
script_tests += %D%/cli/hold.t
script_tests += %D%/cli/gpu_bench.t
script_tests += %D%/cli/gpu_run.t
script_tests += %D%/cli/hooks.t
script_tests += %D%/cli/import.t
script_tests += %D%/cli/manual.t
EXTRA_DIST += %D%/cli/cluster.sh
EXTRA_DIST += %D%/cli/machines.sh
EXTRA_DIST += %D%/cli/nodes.sh
script_tests += %D%/cli/nodes_devices.t
script_tests += %D%/cli/nodes.t
plain_tests += %D%/cli/nodes_hosts.t
script_tests += %D%/cli/nodes_people.t
script_tests += %D%/cli/notify.t
EXTRA_DIST += %D%/cli/gguf.py
script_tests += %D%/cli/gguf.t
script_tests += %D%/cli/media.t
script_tests += %D%/cli/media_phi4.t
script_tests += %D%/cli/merge.t
script_tests += %D%/cli/blocked.t
script_tests += %D%/cli/broken.t
script_tests += %D%/cli/samples.t
script_tests += %D%/cli/script.t
script_tests += %D%/cli/order.t
script_tests += %D%/cli/outputs.t
script_tests += %D%/cli/overview.t
script_tests += %D%/cli/patch.t
script_tests += %D%/cli/paths.t
script_tests += %D%/cli/pause.t
script_tests += %D%/cli/prequantized.t
script_tests += %D%/cli/previous.t
script_tests += %D%/cli/people_care.t
script_tests += %D%/cli/people_quota.t
script_tests += %D%/cli/people_watch.t
script_tests += %D%/cli/plan.t
script_tests += %D%/cli/profiles.t
script_tests += %D%/cli/predict.t
script_tests += %D%/cli/records.t
script_tests += %D%/cli/readme.t
script_tests += %D%/cli/refusals.t
script_tests += %D%/cli/reload.t
script_tests += %D%/cli/report.t
script_tests += %D%/cli/review.t
script_tests += %D%/cli/requeue.t
script_tests += %D%/cli/roots.t
script_tests += %D%/cli/run.t
script_tests += %D%/cli/schema.t
script_tests += %D%/cli/select.t
script_tests += %D%/cli/service.t
script_tests += %D%/cli/shared.t
script_tests += %D%/cli/slots.t
script_tests += %D%/cli/spool.t
script_tests += %D%/cli/starts.t
script_tests += %D%/cli/group.t
script_tests += %D%/cli/guard.t
script_tests += %D%/cli/job_groups.t
script_tests += %D%/cli/names.t
script_tests += %D%/cli/leftovers.t
script_tests += %D%/cli/stops.t
script_tests += %D%/cli/removed.t
script_tests += %D%/cli/timeout.t
script_tests += %D%/cli/status.t
script_tests += %D%/cli/submit.t
script_tests += %D%/cli/slurm_check.t
plain_tests += %D%/cli/slurm_watch.t
plain_tests += %D%/cli/slurm_races.t
script_tests += %D%/cli/target.t
script_tests += %D%/cli/sweep.t
script_tests += %D%/cli/tables.t
script_tests += %D%/cli/tensorboard.t
script_tests += %D%/cli/tokens.t
script_tests += %D%/cli/units.t
script_tests += %D%/cli/version.t
script_tests += %D%/cli/watch.t
script_tests += %D%/cli/watch_log.t

# checks of the source tree

# for a machine with a GPU: run gpu/run.sh there; make does not use these files
EXTRA_DIST += %D%/gpu/bench.sh
EXTRA_DIST += %D%/gpu/call.sh
EXTRA_DIST += %D%/gpu/cmocka/cmocka.h
EXTRA_DIST += %D%/gpu/compile.sh
EXTRA_DIST += %D%/gpu/curve.sh
EXTRA_DIST += %D%/gpu/gpu.sh
EXTRA_DIST += %D%/gpu/run.sh
EXTRA_DIST += %D%/gpu/train.t

# shared by unit tests
EXTRA_DIST += %D%/unit/corpus.h
EXTRA_DIST += %D%/unit/pyyaml_differs.py
EXTRA_DIST += %D%/unit/pyyaml_marks.py
EXTRA_DIST += %D%/unit/torch_file.py
EXTRA_DIST += %D%/unit/pyyaml_same.py
EXTRA_DIST += %D%/unit/training.h %D%/unit/training_small.h
EXTRA_DIST += %D%/unit/unit.h
EXTRA_DIST += %D%/unit/unit_lora_run.h
EXTRA_DIST += %D%/unit/unit_config.h
EXTRA_DIST += %D%/unit/unit_cuda.h
EXTRA_DIST += %D%/unit/unit_cuda_attention.h
EXTRA_DIST += %D%/unit/unit_formula_adapter.h
EXTRA_DIST += %D%/unit/unit_architectures.h %D%/unit/unit_packed.h
EXTRA_DIST += %D%/unit/unit_assembly.h
EXTRA_DIST += %D%/unit/unit_attention.h %D%/unit/unit_attention_trial.h
EXTRA_DIST += %D%/unit/unit_import.h
EXTRA_DIST += %D%/unit/unit_job_ranks.h
EXTRA_DIST += %D%/unit/unit_gradients.h
EXTRA_DIST += %D%/unit/unit_hashed_model.h
EXTRA_DIST += %D%/unit/unit_curve.h %D%/unit/unit_generation.h %D%/unit/unit_media_file.h
EXTRA_DIST += %D%/unit/unit_tower.h %D%/unit/unit_tower_gradients.h
EXTRA_DIST += %D%/unit/unit_media.h
EXTRA_DIST += %D%/unit/unit_media_job.h %D%/unit/unit_tower_jobs.h
EXTRA_DIST += %D%/unit/unit_media_run.h
EXTRA_DIST += %D%/unit/unit_model.h
EXTRA_DIST += %D%/unit/unit_shapes.h
EXTRA_DIST += %D%/unit/unit_model_ranks.h
EXTRA_DIST += %D%/unit/unit_nf4.h
EXTRA_DIST += %D%/unit/unit_optimizers.h
EXTRA_DIST += %D%/unit/unit_prequantized.h
EXTRA_DIST += %D%/unit/unit_ranks.h
EXTRA_DIST += %D%/unit/unit_schema.h
EXTRA_DIST += %D%/unit/unit_torch.h
EXTRA_DIST += %D%/unit/unit_torch_memory.h
EXTRA_DIST += %D%/unit/unit_trials.h
EXTRA_DIST += %D%/unit/unit_media_data.h
EXTRA_DIST += %D%/unit/unit_dataset.h %D%/unit/unit_tokenizer.h
EXTRA_DIST += %D%/unit/unit_image.h %D%/unit/unit_sound.h
EXTRA_DIST += %D%/unit/unit_leaks.h

if HAVE_CUDA
unit_tests += %D%/unit/test_cuda_sdpa
unit_tests += %D%/unit/test_model_cuda
unit_tests += %D%/unit/test_model_cuda_forward
unit_tests += %D%/unit/test_model_media_cuda
unit_tests += %D%/unit/test_tower_cuda
endif
%C%_unit_test_cuda_sdpa_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_unit_test_model_cuda_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)

# The longest tests come first, so that none runs alone at the end.
if HAVE_EMULATION
test_programs += $(emulated_tests)
check_DATA = %D%/emulation/trainspool-train
if SANITIZERS
test_programs += $(emulated_operations)
else
test_programs += $(plain_emulated_tests)
test_programs += $(races_tests)
endif
endif
if HAVE_CMOCKA
if !SANITIZERS
test_programs += $(heavy_tests)
endif
test_programs += $(unit_tests)
endif

# reference operations in double, and the operands for comparing backends with them
if HAVE_CMOCKA
check_LIBRARIES += libreference.a
REFERENCE = libreference.a
libreference_a_SOURCES =
libreference_a_SOURCES += %D%/reference/backend_double.c
libreference_a_SOURCES += %D%/reference/backend_double.h
libreference_a_SOURCES += %D%/reference/double_experts.c %D%/reference/double_operand.h
libreference_a_SOURCES += %D%/reference/double_delta.c %D%/reference/double_operand.h
libreference_a_SOURCES += %D%/reference/double_clamped.c
libreference_a_SOURCES += %D%/reference/double_gate.c
libreference_a_SOURCES += %D%/reference/double_heads.c
libreference_a_SOURCES += %D%/reference/double_latent.c
libreference_a_SOURCES += %D%/reference/double_media.c
libreference_a_SOURCES += %D%/reference/double_xielu.c
libreference_a_SOURCES += %D%/reference/double_rotation.c
libreference_a_SOURCES += %D%/reference/double_ops.c %D%/reference/double_ops.h
libreference_a_SOURCES += %D%/reference/machines_cpu.c
libreference_a_SOURCES += %D%/reference/operand.c %D%/reference/operand.h
libreference_a_SOURCES += %D%/reference/reference.h
libreference_a_SOURCES += %D%/reference/reference_attention.c
libreference_a_SOURCES += %D%/reference/reference_delta.c
libreference_a_SOURCES += %D%/reference/double_scan.c %D%/reference/reference_scan.c
libreference_a_SOURCES += %D%/reference/reference_latent.c
libreference_a_SOURCES += %D%/reference/reference_dequantize.c
libreference_a_SOURCES += %D%/reference/reference_experts.c
libreference_a_SOURCES += %D%/reference/reference_experts.h
libreference_a_SOURCES += %D%/reference/reference_headnorm.c
libreference_a_SOURCES += %D%/reference/reference_layernorm.c
libreference_a_SOURCES += %D%/reference/reference_distill.c
libreference_a_SOURCES += %D%/reference/reference_layers.c
libreference_a_SOURCES += %D%/reference/reference_matmul.c
libreference_a_SOURCES += %D%/reference/reference_policy.c
libreference_a_SOURCES += %D%/reference/reference_preference.c
endif

# With sanitizers, the reference formulas would take most of the test time.
if SANITIZERS
%D%/reference/reference_%.$(OBJEXT): SANITIZE =
%D%/reference/reference_%.$(OBJEXT): OPTIMIZE = -O2
endif

# trainer that does nothing, for soak/soak.py
check_PROGRAMS += %D%/soak/idle_trainer
EXTRA_DIST += %D%/soak/clocks.py
EXTRA_DIST += %D%/soak/crowds.py
EXTRA_DIST += %D%/soak/cuts.py
EXTRA_DIST += %D%/soak/folder.py
EXTRA_DIST += %D%/soak/hostile.py
EXTRA_DIST += %D%/soak/injections.py
EXTRA_DIST += %D%/soak/kills.py
EXTRA_DIST += %D%/soak/nodes.py
EXTRA_DIST += %D%/soak/result.py
EXTRA_DIST += %D%/soak/soak.py
EXTRA_DIST += %D%/soak/week.py

# `make soak` runs the goals of the spool and prints a table, for hours; SOAK=small takes about a minute.
# ROWS="kills start" selects some; soak/soak.py lists them.
SOAK = full
ROWS =
soak: trainspool trainspool-train %D%/soak/idle_trainer
	@$${PYTHON-python3} -B '$(top_srcdir)/%D%/soak/soak.py' --build . --source '$(top_srcdir)' \
	    --size $(SOAK) --seed $(SEED) $(ROWS)

# program that differential/differential.py compares with the real tokenizers and Jinja
check_PROGRAMS += %D%/differential/ours
%C%_differential_ours_SOURCES = %D%/differential/ours.c %D%/differential/ours.h
%C%_differential_ours_SOURCES += %D%/differential/ours_model.c
EXTRA_DIST += %D%/differential/adapters.py
EXTRA_DIST += %D%/differential/axolotl_files.py
EXTRA_DIST += %D%/differential/recipe_files.py
EXTRA_DIST += %D%/coverage.py
EXTRA_DIST += %D%/coverage_run.py
EXTRA_DIST += %D%/differential/differential.py
EXTRA_DIST += %D%/differential/conversations.py
EXTRA_DIST += %D%/differential/made.py
EXTRA_DIST += %D%/differential/models.py
EXTRA_DIST += %D%/differential/nulls.py
EXTRA_DIST += %D%/differential/parsers.txt
EXTRA_DIST += %D%/differential/peers.py
EXTRA_DIST += %D%/differential/tables.py
EXTRA_DIST += %D%/differential/targets.py
EXTRA_DIST += %D%/differential/weights.py
EXTRA_DIST += %D%/differential/profiles.py
EXTRA_DIST += %D%/differential/profiles_worker.py
EXTRA_DIST += %D%/differential/refusals.py
EXTRA_DIST += %D%/differential/refusals_worker.py
EXTRA_DIST += %D%/differential/saved.py
EXTRA_DIST += %D%/differential/saved_media.py
EXTRA_DIST += %D%/differential/torch_state.py
EXTRA_DIST += %D%/differential/scores.py
EXTRA_DIST += %D%/differential/published.py

# Tests that run the kernels of kernels/cuda on the CPU; see emulation/emulation.h.  The test of an
# operation is the CPU backend's test, linked with other machines: `emulated` uses the kernels
# unchanged, `races` uses kernels compiled with race detection.  Race detection and sanitizers exclude
# each other: a build with sanitizers tests operations as `emulated`, a build without as `races`.  Both
# test text models as `emulated`, and the one without sanitizers also encoders and ranks.  Two tests
# need no race detection: the only matmul kernels are those of fp8 and of thin results, which have tests
# of their own, and golden operators use no kernel that other tests leave out.  operations.mk lists the
# tests of operations; `make tests/unit/test_emulated_NAME` always builds one.
emulated_tests =
emulated_tests += %D%/unit/test_cuda_attention
emulated_tests += %D%/unit/test_cuda_attention_gradients
emulated_tests += %D%/unit/test_cuda_backend
emulated_tests += %D%/unit/test_cuda_device
emulated_tests += %D%/unit/test_cuda_fp8
emulated_tests += %D%/unit/test_cuda_graph
emulated_tests += %D%/unit/test_cuda_group
emulated_tests += %D%/unit/test_cuda_hopper
emulated_tests += %D%/unit/test_cuda_launch
emulated_tests += %D%/unit/test_cuda_fence
emulated_tests += %D%/unit/test_cuda_matmul
emulated_tests += %D%/unit/test_cuda_plan
emulated_tests += %D%/unit/test_cuda_tuning
emulated_tests += %D%/unit/test_emulated_group
emulated_tests += %D%/unit/test_emulated_model
emulated_tests += %D%/unit/test_emulated_model_distill
emulated_tests += %D%/unit/test_emulated_model_forward
emulated_tests += %D%/unit/test_model_pass
emulated_tests += %D%/unit/test_emulated_model_watch
emulated_tests += %D%/unit/test_emulation
emulated_tests += %D%/unit/test_emulation_hopper
emulated_tests += %D%/unit/test_trainer_gpus
emulated_tests += %D%/unit/test_trainer_overlap
emulated_operations =
plain_emulated_tests =
plain_emulated_tests += %D%/unit/test_emulated_model_gather
plain_emulated_tests += %D%/unit/test_emulated_model_media
plain_emulated_tests += %D%/unit/test_emulated_model_preference
plain_emulated_tests += %D%/unit/test_emulated_model_ranks
plain_emulated_tests += %D%/unit/test_emulated_tower
plain_emulated_tests += %D%/unit/test_emulated_tower_adapters
plain_emulated_tests += %D%/unit/test_recorded_ranks
races_tests =
races_tests += %D%/unit/test_races_emulation
races_tests += %D%/unit/test_races_fp8
races_tests += %D%/unit/test_races_thin

EXTRA_DIST += %D%/emulation/README.md
EXTRA_DIST += %D%/emulation/emulation.h
EXTRA_DIST += %D%/emulation/emulation_block.cc %D%/emulation/emulation_block.h
EXTRA_DIST += %D%/emulation/emulation_copy.cc
EXTRA_DIST += %D%/emulation/emulation_cudnn.cc
EXTRA_DIST += %D%/emulation/emulation_fiber.cc %D%/emulation/emulation_fiber.h
EXTRA_DIST += %D%/emulation/emulation_graph.cc %D%/emulation/emulation_graph.h
EXTRA_DIST += %D%/emulation/emulation_hardware.h
EXTRA_DIST += %D%/emulation/emulation_hopper.cc %D%/emulation/emulation_hopper.h
EXTRA_DIST += %D%/emulation/emulation_hopper_samples.cu
EXTRA_DIST += %D%/emulation/emulation_hopper_samples.h
EXTRA_DIST += %D%/emulation/emulation_library.cc
EXTRA_DIST += %D%/emulation/emulation_machine.h
EXTRA_DIST += %D%/emulation/emulation_nccl.cc
EXTRA_DIST += %D%/emulation/emulation_races.cc %D%/emulation/emulation_races.h
EXTRA_DIST += %D%/emulation/emulation_runtime.cc %D%/emulation/emulation_runtime.h
EXTRA_DIST += %D%/emulation/emulation_samples.cu %D%/emulation/emulation_samples.h
EXTRA_DIST += %D%/emulation/emulation_stream.cc
EXTRA_DIST += %D%/emulation/emulation_warp.cc
EXTRA_DIST += %D%/emulation/include/cublasLt.h
EXTRA_DIST += %D%/emulation/include/cuda_bf16.h
EXTRA_DIST += %D%/emulation/include/cuda_fp16.h
EXTRA_DIST += %D%/emulation/include/cuda_runtime.h
EXTRA_DIST += %D%/emulation/include/cuda_runtime_api.h
EXTRA_DIST += %D%/emulation/include/nccl.h
EXTRA_DIST += %D%/reference/machines_cuda.c

include %D%/operations.mk
include %D%/emulation/emulation.mk

check_LIBRARIES += libreplay.a
libreplay_a_SOURCES = %D%/fuzz/fuzz.c %D%/fuzz/fuzz.h %D%/fuzz/fuzz_tensors.h \
	%D%/fuzz/replay.c
test_programs += $(fuzz_tests)

EXTRA_DIST += $(script_tests) $(plain_tests) %D%/tap.sh %D%/patch %D%/scripts
EXTRA_DIST += %D%/fuzz/corpus %D%/fuzz/dict %D%/fuzz/found
EXTRA_DIST += %D%/fuzz/fuzz.mk %D%/fuzz/fuzz.sh %D%/fuzz/mutate_job.c
check_PROGRAMS += $(test_programs)
TESTS = $(test_programs) $(script_tests)
if !SANITIZERS
TESTS += $(plain_tests)
endif

# What `make check` builds after `make all`.
check-programs: $(check_PROGRAMS) $(check_DATA)
.PHONY: check-programs

# main() for fuzz targets, linked only if the program has no other; make fuzz uses libFuzzer's
REPLAY = libreplay.a

LDADD = $(REPLAY) $(REFERENCE) $(LAYERS) $(CMOCKA_LIBS) $(LIBRARY_LIBS) $(MEDIA_LIBS) $(CUDA_LIBS)

TEST_EXTENSIONS = .t
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
T_LOG_DRIVER = $(LOG_DRIVER)
LOG_COMPILER = $(SHELL) $(top_srcdir)/%D%/tap.sh
T_LOG_COMPILER = $(LOG_COMPILER)
# Up to GCC 13, the sanitizers take some thread-local blocks of glibc 2.25 and later for blocks of older
# versions, read their address and size from the wrong words, and LeakSanitizer crashes as the program
# ends ("Tracer caught signal 11", github.com/google/sanitizers/issues/1322).  intercept_tls_get_addr=0
# prevents this.
AM_TESTS_ENVIRONMENT = \
	CMOCKA_MESSAGE_OUTPUT=TAP \
	ASAN_OPTIONS="intercept_tls_get_addr=0:$${ASAN_OPTIONS-}" \
	UBSAN_OPTIONS=print_stacktrace=1 \
	top_srcdir='$(abs_top_srcdir)' \
	top_builddir='$(abs_top_builddir)' \
	TRAINSPOOL_SHARED="$${TRAINSPOOL_SHARED-$(abs_top_srcdir)/../shared}"; \
	export CMOCKA_MESSAGE_OUTPUT ASAN_OPTIONS UBSAN_OPTIONS top_srcdir top_builddir TRAINSPOOL_SHARED;

# Build the fuzz targets with clang and libFuzzer in fuzz-build/ and run each for SECONDS;
# FUZZ="document json" selects some.  fuzz/fuzz.sh describes the files that it leaves there.
SECONDS = 60
FUZZ = $(fuzz_tests:%D%/fuzz/fuzz_%=%)
FUZZED = $(libbase_a_SOURCES) $(libprecision_a_SOURCES) $(libtrain_a_SOURCES) \
	$(libpatcher_a_SOURCES) $(librunner_a_SOURCES) kernels/cpu/cpu_isa.c
fuzz:
	@command -v clang >/dev/null || { echo 'make fuzz: cannot find clang'; exit 1; }
	@$(MKDIR_P) fuzz-build
	@$(MAKE) -C fuzz-build -f '$(abs_top_srcdir)/%D%/fuzz/fuzz.mk' \
	    top_srcdir='$(abs_top_srcdir)' top_builddir='$(abs_top_builddir)' \
	    SOURCES='$(FUZZED)' TARGETS='$(FUZZ)' SECONDS='$(SECONDS)' \
	    CPPFLAGS='$(LIBRARY_CFLAGS)' LIBS='$(GRAMMAR_OBJECTS:%=$(abs_top_builddir)/%) $(LIBRARY_LIBS) $(MEDIA_LIBS) $(LIBS)'

# Break one formula at a time and check that a test fails, in mutate-build/.  No other target runs
# this.  MUTATE=rope selects mutations that contain the word; see mutate.py.
MUTATE =
mutate:
	@CC='$(CC)' CXX='$(CXX)' python3 '$(top_srcdir)/%D%/mutate.py' '$(abs_top_srcdir)' \
	    mutate-build $(MUTATE)
EXTRA_DIST += %D%/english.py
EXTRA_DIST += %D%/mutate.py %D%/mutations.txt
EXTRA_DIST += %D%/peers.sh %D%/peers.txt

# `make differential` compares trainspool with the real packages that PYTHON has.  Each check is a script of
# tests/differential/, which says what it needs; exit status 77 means that a package is missing.  SECONDS is
# the time for random texts, TEMPLATES a folder of NAME.jinja files to use instead of random templates, and
# TRAINSPOOL_PARSERS a folder for environments with other trainers, which JOBS random jobs are compared with.
# Published chat templates are downloaded into CACHE once.
SEED = 1
TEMPLATES =
CACHE =
JOBS = 200
differential_run = $${PYTHON-python3} -B '$(top_srcdir)/%D%/differential'
differential: differential-adapters
differential: differential-axolotl
differential: differential-nulls
differential: differential-profiles
differential: differential-recipes
differential: differential-refusals
differential: differential-saved
differential: differential-saved-media
differential: differential-scores
differential: differential-tables
differential: differential-targets
differential: differential-text
differential: differential-torch-state
differential: differential-weights
differential-text: %D%/differential/ours
	@$(differential_run)/differential.py --seconds $(SECONDS) --seed $(SEED) \
	    --shared '$(abs_top_srcdir)/../shared/data' --templates '$(TEMPLATES)' \
	    --cache '$(CACHE)' %D%/differential/ours
differential-weights: trainspool
	@$(differential_run)/weights.py ./trainspool || test $$? = 77
differential-refusals: trainspool
	@$(differential_run)/refusals.py --jobs $(JOBS) --seed $(SEED) ./trainspool || test $$? = 77
differential-saved: trainspool trainspool-train
	@$(differential_run)/saved.py --seed $(SEED) ./trainspool || test $$? = 77
differential-saved-media: trainspool trainspool-train
	@$(differential_run)/saved_media.py ./trainspool || test $$? = 77
differential-adapters: trainspool trainspool-train
	@$(differential_run)/adapters.py ./trainspool || test $$? = 77
differential-torch-state: trainspool trainspool-train
	@$(differential_run)/torch_state.py --seed $(SEED) ./trainspool || test $$? = 77
differential-scores: %D%/differential/ours
	@$(differential_run)/scores.py --seed $(SEED) %D%/differential/ours || test $$? = 77
differential-profiles: trainspool
	@$(differential_run)/profiles.py --sample || test $$? = 77
	@$(differential_run)/profiles.py --jobs $(JOBS) --seed $(SEED) ./trainspool || test $$? = 77
differential-nulls: %D%/differential/ours
	@$(differential_run)/nulls.py %D%/differential/ours || test $$? = 77
differential-tables: %D%/differential/ours
	@$(differential_run)/tables.py --seed $(SEED) %D%/differential/ours || test $$? = 77
differential-targets: trainspool trainspool-train
	@$(differential_run)/targets.py --seed $(SEED) ./trainspool || test $$? = 77
differential-axolotl: trainspool
	@$(differential_run)/axolotl_files.py --jobs $(JOBS) --seed $(SEED) ./trainspool || test $$? = 77
differential-recipes: trainspool
	@$(differential_run)/recipe_files.py --jobs $(JOBS) --seed $(SEED) ./trainspool || test $$? = 77
.PHONY: differential-adapters \
	differential-axolotl \
	differential-nulls \
	differential-profiles \
	differential-recipes \
	differential-refusals \
	differential-saved \
	differential-saved-media \
	differential-scores \
	differential-tables \
	differential-targets \
	differential-text \
	differential-torch-state \
	differential-weights

clean-local:
	rm -rf fuzz-build mutate-build %D%/emulation/machine %D%/emulation/plain %D%/emulation/checked
# Count the training files of other projects that are accepted; NAMES is a file with names of models.
coverage: trainspool
	@$${PYTHON-python3} -B '$(top_srcdir)/%D%/coverage.py' $(if $(NAMES),--names '$(NAMES)') \
	    $(if $(REFUSED),--refused) ./trainspool '$(abs_top_srcdir)/../shared/corpus' || test $$? = 77

# Train each of these files for one step, with a tiny model of its architecture; ONLY is a part of their paths.
coverage-run: trainspool trainspool-train
	@$${PYTHON-python3} -B '$(top_srcdir)/%D%/coverage_run.py' $(if $(ONLY),--only '$(ONLY)') \
	    ./trainspool '$(abs_top_srcdir)' '$(abs_top_srcdir)/../shared' || test $$? = 77

.PHONY: coverage coverage-run differential fuzz mutate soak
