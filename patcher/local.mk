# One line per module, by room, sorted: libpatcher_a_SOURCES += %D%/ROOM/NAME.c %D%/ROOM/NAME.h

noinst_LIBRARIES += libpatcher.a

libpatcher_a_SOURCES =
libpatcher_a_SOURCES += %D%/analysis.c %D%/analysis.h
libpatcher_a_SOURCES += %D%/convergence.c %D%/convergence.h
libpatcher_a_SOURCES += %D%/convergence_report.c %D%/convergence_internal.h
libpatcher_a_SOURCES += %D%/patcher.c %D%/patcher.h
libpatcher_a_SOURCES += %D%/relocation.c %D%/relocation.h
libpatcher_a_SOURCES += %D%/sweep.c %D%/sweep.h
libpatcher_a_SOURCES += %D%/setting.c %D%/setting.h

libpatcher_a_SOURCES += %D%/document/comment.c %D%/document/comment.h
libpatcher_a_SOURCES += %D%/document/diff.c %D%/document/diff.h
libpatcher_a_SOURCES += %D%/document/directive.c %D%/document/directive.h
libpatcher_a_SOURCES += %D%/document/document.c %D%/document/document.h
libpatcher_a_SOURCES += %D%/document/document_keys.c %D%/document/document_lines.c %D%/document/document_internal.h
libpatcher_a_SOURCES += %D%/document/edit_log.c %D%/document/edit_log.h
libpatcher_a_SOURCES += %D%/document/edits.c %D%/document/edits.h
libpatcher_a_SOURCES += %D%/document/lookalike.c %D%/document/lookalike.h
libpatcher_a_SOURCES += %D%/document/node.c %D%/document/node.h
libpatcher_a_SOURCES += %D%/document/text_position.c %D%/document/text_position.h

libpatcher_a_SOURCES += %D%/findings/finding.c %D%/findings/finding.h
libpatcher_a_SOURCES += %D%/findings/propose.c %D%/findings/propose.h
libpatcher_a_SOURCES += %D%/findings/rewrite.c %D%/findings/rewrite.h

libpatcher_a_SOURCES += %D%/history/backup.c %D%/history/backup.h
libpatcher_a_SOURCES += %D%/history/history.c %D%/history/history.h
libpatcher_a_SOURCES += %D%/history/jobfile.c %D%/history/jobfile.h
libpatcher_a_SOURCES += %D%/history/journal.c %D%/history/journal.h
libpatcher_a_SOURCES += %D%/history/previous.c %D%/history/previous.h
libpatcher_a_SOURCES += %D%/history/previous_steps.c %D%/history/previous_internal.h

libpatcher_a_SOURCES += %D%/import/import.c %D%/import/import.h %D%/import/import_internal.h
libpatcher_a_SOURCES += %D%/import/import_axolotl.c
libpatcher_a_SOURCES += %D%/import/import_axolotl_batch.c
libpatcher_a_SOURCES += %D%/import/import_axolotl_data.c
libpatcher_a_SOURCES += %D%/import/import_axolotl_keys.c
libpatcher_a_SOURCES += %D%/import/import_axolotl_packing.c
libpatcher_a_SOURCES += %D%/import/import_axolotl_feedback.c
libpatcher_a_SOURCES += %D%/import/import_axolotl_loss.c
libpatcher_a_SOURCES += %D%/import/import_axolotl_media.c
libpatcher_a_SOURCES += %D%/import/import_axolotl_preference.c
libpatcher_a_SOURCES += %D%/import/import_axolotl_reinforcement.c
libpatcher_a_SOURCES += %D%/import/import_axolotl_saving.c
libpatcher_a_SOURCES += %D%/import/import_axolotl_tokens.c
libpatcher_a_SOURCES += %D%/import/import_data.c
libpatcher_a_SOURCES += %D%/import/import_report.c
libpatcher_a_SOURCES += %D%/import/import_rewards.c
libpatcher_a_SOURCES += %D%/import/import_script.c
libpatcher_a_SOURCES += %D%/import/import_script_left.c
libpatcher_a_SOURCES += %D%/import/import_script_preference.c
libpatcher_a_SOURCES += %D%/import/import_source.c
libpatcher_a_SOURCES += %D%/import/import_torchtune.c
libpatcher_a_SOURCES += %D%/import/import_torchtune_data.c
libpatcher_a_SOURCES += %D%/import/import_torchtune_model.c
libpatcher_a_SOURCES += %D%/import/import_torchtune_vision.c
libpatcher_a_SOURCES += %D%/import/import_torchtune_training.c
libpatcher_a_SOURCES += %D%/import/import_v1.c
libpatcher_a_SOURCES += %D%/import/import_v1_data.c
libpatcher_a_SOURCES += %D%/import/import_v1_model.c
libpatcher_a_SOURCES += %D%/import/import_writer.c

libpatcher_a_SOURCES += %D%/rules/alternatives.c %D%/rules/alternatives.h
libpatcher_a_SOURCES += %D%/rules/device_guess.c %D%/rules/device_guess.h
libpatcher_a_SOURCES += %D%/profiles/profile.c %D%/profiles/profile.h
libpatcher_a_SOURCES += %D%/profiles/profile_axolotl.c
libpatcher_a_SOURCES += %D%/profiles/profile_lightning.c
libpatcher_a_SOURCES += %D%/profiles/profile_llamafactory.c
libpatcher_a_SOURCES += %D%/profiles/profile_torchtune.c
libpatcher_a_SOURCES += %D%/profiles/profile_transformers.c
libpatcher_a_SOURCES += %D%/profiles/profile_trl.c
libpatcher_a_SOURCES += %D%/profiles/profile_unsloth.c
libpatcher_a_SOURCES += %D%/profiles/trainer_view.c %D%/profiles/trainer_view.h
libpatcher_a_SOURCES += %D%/profiles/versions.c %D%/profiles/versions.h

libpatcher_a_SOURCES += %D%/rules/environment.c %D%/rules/environment.h
libpatcher_a_SOURCES += %D%/rules/external.c %D%/rules/external.h
libpatcher_a_SOURCES += %D%/rules/fp16_need.c %D%/rules/fp16_need.h
libpatcher_a_SOURCES += %D%/rules/lora_targets.c %D%/rules/lora_targets.h
libpatcher_a_SOURCES += %D%/rules/optimizer_keys.c %D%/rules/optimizer_keys.h
libpatcher_a_SOURCES += %D%/rules/memory_advice.c %D%/rules/memory_advice.h
libpatcher_a_SOURCES += %D%/rules/memory_case.c %D%/rules/memory_case.h
libpatcher_a_SOURCES += %D%/rules/memory_fit.c %D%/rules/memory_fit.h
libpatcher_a_SOURCES += %D%/rules/patch_options.h
libpatcher_a_SOURCES += %D%/rules/python_value.c %D%/rules/python_value.h
libpatcher_a_SOURCES += %D%/rules/typed_value.c %D%/rules/typed_value.h
libpatcher_a_SOURCES += %D%/rules/trainer_file.c %D%/rules/trainer_file.h
libpatcher_a_SOURCES += %D%/rules/refusals.c %D%/rules/refusals.h
libpatcher_a_SOURCES += %D%/rules/refusals_accelerate.c
libpatcher_a_SOURCES += %D%/rules/refusals_axolotl.c
libpatcher_a_SOURCES += %D%/rules/refusals_llamafactory.c
libpatcher_a_SOURCES += %D%/rules/refusals_recipes.c
libpatcher_a_SOURCES += %D%/rules/refusals_transformers.c
libpatcher_a_SOURCES += %D%/rules/refusals_trl.c
libpatcher_a_SOURCES += %D%/rules/rules.c %D%/rules/rules.h
libpatcher_a_SOURCES += %D%/rules/rules_batch.c
libpatcher_a_SOURCES += %D%/rules/rules_bitsandbytes.c
libpatcher_a_SOURCES += %D%/rules/rules_checkpointing.c
libpatcher_a_SOURCES += %D%/rules/rules_clipping.c
libpatcher_a_SOURCES += %D%/rules/rules_context.c %D%/rules/rules_context.h
libpatcher_a_SOURCES += %D%/rules/rules_context_external.c
libpatcher_a_SOURCES += %D%/rules/rules_data.c
libpatcher_a_SOURCES += %D%/rules/rules_device.c
libpatcher_a_SOURCES += %D%/rules/rules_disk.c
libpatcher_a_SOURCES += %D%/rules/rules_distill.c
libpatcher_a_SOURCES += %D%/rules/rules_evaluation.c
libpatcher_a_SOURCES += %D%/rules/rules_external_float16.c
libpatcher_a_SOURCES += %D%/rules/rules_float16.c
libpatcher_a_SOURCES += %D%/rules/rules_formats.c
libpatcher_a_SOURCES += %D%/rules/rules_heal.c
libpatcher_a_SOURCES += %D%/rules/rules_host.c
libpatcher_a_SOURCES += %D%/rules/rules_keys.c
libpatcher_a_SOURCES += %D%/rules/rules_launch.c
libpatcher_a_SOURCES += %D%/rules/rules_loop.c
libpatcher_a_SOURCES += %D%/rules/rules_media.c
libpatcher_a_SOURCES += %D%/rules/rules_memory.c
libpatcher_a_SOURCES += %D%/rules/rules_methods.c
libpatcher_a_SOURCES += %D%/rules/rules_missing.c
libpatcher_a_SOURCES += %D%/rules/rules_mode.c
libpatcher_a_SOURCES += %D%/rules/rules_model.c
libpatcher_a_SOURCES += %D%/rules/rules_names.c
libpatcher_a_SOURCES += %D%/rules/rules_optimizer.c
libpatcher_a_SOURCES += %D%/rules/rules_output.c
libpatcher_a_SOURCES += %D%/rules/rules_packages.c
libpatcher_a_SOURCES += %D%/rules/rules_paths.c
libpatcher_a_SOURCES += %D%/rules/rules_precision.c
libpatcher_a_SOURCES += %D%/rules/rules_preference.c
libpatcher_a_SOURCES += %D%/rules/rules_previous_run.c
libpatcher_a_SOURCES += %D%/rules/rules_quantized.c
libpatcher_a_SOURCES += %D%/rules/rules_queue.c
libpatcher_a_SOURCES += %D%/rules/rules_ranks.c
libpatcher_a_SOURCES += %D%/rules/rules_adapter.c
libpatcher_a_SOURCES += %D%/rules/rules_reading.c
libpatcher_a_SOURCES += %D%/rules/rules_refused.c
libpatcher_a_SOURCES += %D%/rules/rules_reinforcement.c
libpatcher_a_SOURCES += %D%/rules/rules_renames.c
libpatcher_a_SOURCES += %D%/rules/rules_resume.c
libpatcher_a_SOURCES += %D%/rules/rules_saving.c
libpatcher_a_SOURCES += %D%/rules/rules_scaler.c
libpatcher_a_SOURCES += %D%/rules/rules_script.c
libpatcher_a_SOURCES += %D%/rules/rules_slurm.c
libpatcher_a_SOURCES += %D%/rules/rules_text.c
libpatcher_a_SOURCES += %D%/rules/rules_torch_state.c
libpatcher_a_SOURCES += %D%/rules/rules_trainer.c
libpatcher_a_SOURCES += %D%/rules/rules_trainer_file.c
libpatcher_a_SOURCES += %D%/rules/rules_unsupported.c
libpatcher_a_SOURCES += %D%/rules/rules_variables.c
libpatcher_a_SOURCES += %D%/rules/rules_versions.c
libpatcher_a_SOURCES += %D%/rules/encoder_training.c %D%/rules/encoder_training.h
libpatcher_a_SOURCES += %D%/rules/stored_weights.c %D%/rules/stored_weights.h
libpatcher_a_SOURCES += %D%/rules/suppress.c %D%/rules/suppress.h %D%/rules/suppress_state.h
libpatcher_a_SOURCES += %D%/rules/suppress_unused.c
libpatcher_a_SOURCES += %D%/rules/teacher.c %D%/rules/teacher.h
libpatcher_a_SOURCES += %D%/rules/torch_build.c %D%/rules/torch_build.h
libpatcher_a_SOURCES += %D%/rules/torch_setup.c %D%/rules/torch_setup.h
libpatcher_a_SOURCES += %D%/rules/trl_quantized.c %D%/rules/trl_quantized.h
libpatcher_a_SOURCES += %D%/rules/trainer_settings.c %D%/rules/trainer_settings.h

libpatcher_a_SOURCES += %D%/schema/dialect.c %D%/schema/dialect.h
libpatcher_a_SOURCES += %D%/schema/dialect_marks.c %D%/schema/dialect_marks.h
libpatcher_a_SOURCES += %D%/schema/redact.c %D%/schema/redact.h
libpatcher_a_SOURCES += %D%/schema/scalar.c %D%/schema/scalar.h
libpatcher_a_SOURCES += %D%/schema/schema.c %D%/schema/schema.h
libpatcher_a_SOURCES += %D%/schema/schema_bind.c
libpatcher_a_SOURCES += %D%/schema/schema_block.c
libpatcher_a_SOURCES += %D%/schema/schema_check.c
libpatcher_a_SOURCES += %D%/schema/schema_data.c
libpatcher_a_SOURCES += %D%/schema/schema_media.c
libpatcher_a_SOURCES += %D%/schema/schema_distill.c
libpatcher_a_SOURCES += %D%/schema/schema_generate.c
libpatcher_a_SOURCES += %D%/schema/schema_hardware.c
libpatcher_a_SOURCES += %D%/schema/schema_index.c
libpatcher_a_SOURCES += %D%/schema/schema_internal.h
libpatcher_a_SOURCES += %D%/schema/schema_json.c %D%/schema/schema_json.h
libpatcher_a_SOURCES += %D%/schema/schema_keys.c %D%/schema/schema_keys.h
libpatcher_a_SOURCES += %D%/schema/schema_manual.c %D%/schema/schema_manual.h
libpatcher_a_SOURCES += %D%/schema/schema_model.c
libpatcher_a_SOURCES += %D%/schema/schema_names.c
libpatcher_a_SOURCES += %D%/schema/schema_nested.c
libpatcher_a_SOURCES += %D%/schema/schema_no_effect.c
libpatcher_a_SOURCES += %D%/schema/schema_optimizer.c
libpatcher_a_SOURCES += %D%/schema/schema_other_tools.c
libpatcher_a_SOURCES += %D%/schema/schema_output.c
libpatcher_a_SOURCES += %D%/schema/schema_precision.c
libpatcher_a_SOURCES += %D%/schema/schema_preference.c
libpatcher_a_SOURCES += %D%/schema/schema_reinforcement.c
libpatcher_a_SOURCES += %D%/schema/schema_rows.h
libpatcher_a_SOURCES += %D%/schema/schema_value.c %D%/schema/schema_value.h
libpatcher_a_SOURCES += %D%/schema/slurm_values.c %D%/schema/slurm_values.h
libpatcher_a_SOURCES += %D%/schema/sweep_axes.c %D%/schema/sweep_axes.h
libpatcher_a_SOURCES += %D%/schema/variables.c %D%/schema/variables.h

EXTRA_DIST += %D%/profiles/make_profile.py
libpatcher_a_SOURCES += %D%/script/script.c %D%/script/script.h %D%/script/script_internal.h
libpatcher_a_SOURCES += %D%/script/script_argument.c
libpatcher_a_SOURCES += %D%/script/script_document.c
libpatcher_a_SOURCES += %D%/script/script_loop.c
libpatcher_a_SOURCES += %D%/script/script_model.c
libpatcher_a_SOURCES += %D%/script/script_names.c
libpatcher_a_SOURCES += %D%/script/script_operator.c
libpatcher_a_SOURCES += %D%/script/script_rewrite.c %D%/script/script_rewrite.h
libpatcher_a_SOURCES += %D%/script/script_rows.c %D%/script/script_rows.h
libpatcher_a_SOURCES += %D%/script/script_table.c
libpatcher_a_SOURCES += %D%/script/script_value.c
libpatcher_a_SOURCES += %D%/script/syntax.c %D%/script/syntax.h
EXTRA_DIST += %D%/script/grammar.sh

# The parser of Python: tree-sitter and its grammar, in $(GRAMMAR); not ours, so without warnings.
if HAVE_SCRIPTS
libpatcher_a_SOURCES += %D%/script/script_tree.c %D%/script/script_tree.h
GRAMMAR_OBJECTS = %D%/script/grammar_library.o %D%/script/grammar_parser.o %D%/script/grammar_scanner.o
else
libpatcher_a_SOURCES += %D%/script/script_tree_none.c %D%/script/script_tree.h
GRAMMAR_OBJECTS =
endif
libpatcher_a_LIBADD = $(GRAMMAR_OBJECTS)
GRAMMAR_COMPILE = $(AM_V_CC)$(MKDIR_P) %D%/script && $(CC) -std=c11 -O2 -w $(SANITIZE) $(CFLAGS) \
	-D_DEFAULT_SOURCE -D_POSIX_C_SOURCE=200112L
%D%/script/grammar_library.o: $(GRAMMAR)/library/src/lib.c
	$(GRAMMAR_COMPILE) -I$(GRAMMAR)/library/src -I$(GRAMMAR)/library/include -c -o $@ $(GRAMMAR)/library/src/lib.c
%D%/script/grammar_parser.o: $(GRAMMAR)/grammar/parser.c
	$(GRAMMAR_COMPILE) -I$(GRAMMAR)/headers -c -o $@ $(GRAMMAR)/grammar/parser.c
%D%/script/grammar_scanner.o: $(GRAMMAR)/grammar/scanner.c
	$(GRAMMAR_COMPILE) -I$(GRAMMAR)/headers -c -o $@ $(GRAMMAR)/grammar/scanner.c
CLEANFILES += $(GRAMMAR_OBJECTS)
