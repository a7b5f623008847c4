# The tests of operations, a stanza each: the test on the CPU, the same source on the emulated GPU, and
# the same with the detector of races (emulation/README.md).  A new operation copies a stanza.

# activation
unit_tests += %D%/unit/test_cpu_activation
emulated_operations += %D%/unit/test_emulated_activation
races_tests += %D%/unit/test_races_activation
EXTRA_PROGRAMS += %D%/unit/test_emulated_activation %D%/unit/test_races_activation
%C%_unit_test_emulated_activation_SOURCES = %D%/unit/test_cpu_activation.c
%C%_unit_test_emulated_activation_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_activation_SOURCES = %D%/unit/test_cpu_activation.c
%C%_unit_test_races_activation_LDADD = %D%/emulation/races.o $(LDADD)

# adamw
unit_tests += %D%/unit/test_cpu_adamw
emulated_operations += %D%/unit/test_emulated_adamw
races_tests += %D%/unit/test_races_adamw
EXTRA_PROGRAMS += %D%/unit/test_emulated_adamw %D%/unit/test_races_adamw
%C%_unit_test_emulated_adamw_SOURCES = %D%/unit/test_cpu_adamw.c
%C%_unit_test_emulated_adamw_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_adamw_SOURCES = %D%/unit/test_cpu_adamw.c
%C%_unit_test_races_adamw_LDADD = %D%/emulation/races.o $(LDADD)

# attention
unit_tests += %D%/unit/test_cpu_attention
emulated_operations += %D%/unit/test_emulated_attention
races_tests += %D%/unit/test_races_attention
EXTRA_PROGRAMS += %D%/unit/test_emulated_attention %D%/unit/test_races_attention
%C%_unit_test_emulated_attention_SOURCES = %D%/unit/test_cpu_attention.c
%C%_unit_test_emulated_attention_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_attention_SOURCES = %D%/unit/test_cpu_attention.c
%C%_unit_test_races_attention_LDADD = %D%/emulation/races.o $(LDADD)

# attention_limits
unit_tests += %D%/unit/test_cpu_attention_limits
emulated_operations += %D%/unit/test_emulated_attention_limits
races_tests += %D%/unit/test_races_attention_limits
EXTRA_PROGRAMS += %D%/unit/test_emulated_attention_limits %D%/unit/test_races_attention_limits
%C%_unit_test_emulated_attention_limits_SOURCES = %D%/unit/test_cpu_attention_limits.c
%C%_unit_test_emulated_attention_limits_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_attention_limits_SOURCES = %D%/unit/test_cpu_attention_limits.c
%C%_unit_test_races_attention_limits_CPPFLAGS = $(AM_CPPFLAGS) -DUNIT_RACES
%C%_unit_test_races_attention_limits_LDADD = %D%/emulation/races.o $(LDADD)

# attention_keys
unit_tests += %D%/unit/test_cpu_attention_keys
emulated_operations += %D%/unit/test_emulated_attention_keys
races_tests += %D%/unit/test_races_attention_keys
EXTRA_PROGRAMS += %D%/unit/test_emulated_attention_keys %D%/unit/test_races_attention_keys
%C%_unit_test_emulated_attention_keys_SOURCES = %D%/unit/test_cpu_attention_keys.c
%C%_unit_test_emulated_attention_keys_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_attention_keys_SOURCES = %D%/unit/test_cpu_attention_keys.c
%C%_unit_test_races_attention_keys_LDADD = %D%/emulation/races.o $(LDADD)

# attention_reach
unit_tests += %D%/unit/test_cpu_attention_reach
emulated_operations += %D%/unit/test_emulated_attention_reach
races_tests += %D%/unit/test_races_attention_reach
EXTRA_PROGRAMS += %D%/unit/test_emulated_attention_reach %D%/unit/test_races_attention_reach
%C%_unit_test_emulated_attention_reach_SOURCES = %D%/unit/test_cpu_attention_reach.c
%C%_unit_test_emulated_attention_reach_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_attention_reach_SOURCES = %D%/unit/test_cpu_attention_reach.c
%C%_unit_test_races_attention_reach_LDADD = %D%/emulation/races.o $(LDADD)

# clamped
unit_tests += %D%/unit/test_cpu_clamped
emulated_operations += %D%/unit/test_emulated_clamped
races_tests += %D%/unit/test_races_clamped
EXTRA_PROGRAMS += %D%/unit/test_emulated_clamped %D%/unit/test_races_clamped
%C%_unit_test_emulated_clamped_SOURCES = %D%/unit/test_cpu_clamped.c
%C%_unit_test_emulated_clamped_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_clamped_SOURCES = %D%/unit/test_cpu_clamped.c
%C%_unit_test_races_clamped_LDADD = %D%/emulation/races.o $(LDADD)

# decide
unit_tests += %D%/unit/test_cpu_decide
emulated_operations += %D%/unit/test_emulated_decide
races_tests += %D%/unit/test_races_decide
EXTRA_PROGRAMS += %D%/unit/test_emulated_decide %D%/unit/test_races_decide
%C%_unit_test_emulated_decide_SOURCES = %D%/unit/test_cpu_decide.c
%C%_unit_test_emulated_decide_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_decide_SOURCES = %D%/unit/test_cpu_decide.c
%C%_unit_test_races_decide_LDADD = %D%/emulation/races.o $(LDADD)

# decode
unit_tests += %D%/unit/test_cpu_decode
emulated_operations += %D%/unit/test_emulated_decode
races_tests += %D%/unit/test_races_decode
EXTRA_PROGRAMS += %D%/unit/test_emulated_decode %D%/unit/test_races_decode
%C%_unit_test_emulated_decode_SOURCES = %D%/unit/test_cpu_decode.c
%C%_unit_test_emulated_decode_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_decode_SOURCES = %D%/unit/test_cpu_decode.c
%C%_unit_test_races_decode_LDADD = %D%/emulation/races.o $(LDADD)

# delta
unit_tests += %D%/unit/test_cpu_delta
emulated_operations += %D%/unit/test_emulated_delta
races_tests += %D%/unit/test_races_delta
EXTRA_PROGRAMS += %D%/unit/test_emulated_delta %D%/unit/test_races_delta
%C%_unit_test_emulated_delta_SOURCES = %D%/unit/test_cpu_delta.c
%C%_unit_test_emulated_delta_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_delta_SOURCES = %D%/unit/test_cpu_delta.c
%C%_unit_test_races_delta_LDADD = %D%/emulation/races.o $(LDADD)

# dequantize
unit_tests += %D%/unit/test_cpu_dequantize
emulated_operations += %D%/unit/test_emulated_dequantize
races_tests += %D%/unit/test_races_dequantize
EXTRA_PROGRAMS += %D%/unit/test_emulated_dequantize %D%/unit/test_races_dequantize
%C%_unit_test_emulated_dequantize_SOURCES = %D%/unit/test_cpu_dequantize.c
%C%_unit_test_emulated_dequantize_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_dequantize_SOURCES = %D%/unit/test_cpu_dequantize.c
%C%_unit_test_races_dequantize_LDADD = %D%/emulation/races.o $(LDADD)

# distill
unit_tests += %D%/unit/test_cpu_distill
emulated_operations += %D%/unit/test_emulated_distill
races_tests += %D%/unit/test_races_distill
EXTRA_PROGRAMS += %D%/unit/test_emulated_distill %D%/unit/test_races_distill
%C%_unit_test_emulated_distill_SOURCES = %D%/unit/test_cpu_distill.c
%C%_unit_test_emulated_distill_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_distill_SOURCES = %D%/unit/test_cpu_distill.c
%C%_unit_test_races_distill_LDADD = %D%/emulation/races.o $(LDADD)

# scan
unit_tests += %D%/unit/test_cpu_scan
emulated_operations += %D%/unit/test_emulated_scan
races_tests += %D%/unit/test_races_scan
EXTRA_PROGRAMS += %D%/unit/test_emulated_scan %D%/unit/test_races_scan
%C%_unit_test_emulated_scan_SOURCES = %D%/unit/test_cpu_scan.c
%C%_unit_test_emulated_scan_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_scan_SOURCES = %D%/unit/test_cpu_scan.c
%C%_unit_test_races_scan_LDADD = %D%/emulation/races.o $(LDADD)

# pair_scale
unit_tests += %D%/unit/test_cpu_pair_scale
emulated_operations += %D%/unit/test_emulated_pair_scale
races_tests += %D%/unit/test_races_pair_scale
EXTRA_PROGRAMS += %D%/unit/test_emulated_pair_scale %D%/unit/test_races_pair_scale
%C%_unit_test_emulated_pair_scale_SOURCES = %D%/unit/test_cpu_pair_scale.c
%C%_unit_test_emulated_pair_scale_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_pair_scale_SOURCES = %D%/unit/test_cpu_pair_scale.c
%C%_unit_test_races_pair_scale_LDADD = %D%/emulation/races.o $(LDADD)

# sink
unit_tests += %D%/unit/test_cpu_sink
emulated_operations += %D%/unit/test_emulated_sink
races_tests += %D%/unit/test_races_sink
EXTRA_PROGRAMS += %D%/unit/test_emulated_sink %D%/unit/test_races_sink
%C%_unit_test_emulated_sink_SOURCES = %D%/unit/test_cpu_sink.c
%C%_unit_test_emulated_sink_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_sink_SOURCES = %D%/unit/test_cpu_sink.c
%C%_unit_test_races_sink_LDADD = %D%/emulation/races.o $(LDADD)

# dora
unit_tests += %D%/unit/test_cpu_dora
emulated_operations += %D%/unit/test_emulated_dora
races_tests += %D%/unit/test_races_dora
EXTRA_PROGRAMS += %D%/unit/test_emulated_dora %D%/unit/test_races_dora
%C%_unit_test_emulated_dora_SOURCES = %D%/unit/test_cpu_dora.c
%C%_unit_test_emulated_dora_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_dora_SOURCES = %D%/unit/test_cpu_dora.c
%C%_unit_test_races_dora_LDADD = %D%/emulation/races.o $(LDADD)

# rotation
unit_tests += %D%/unit/test_cpu_rotation
emulated_operations += %D%/unit/test_emulated_rotation
races_tests += %D%/unit/test_races_rotation
EXTRA_PROGRAMS += %D%/unit/test_emulated_rotation %D%/unit/test_races_rotation
%C%_unit_test_emulated_rotation_SOURCES = %D%/unit/test_cpu_rotation.c
%C%_unit_test_emulated_rotation_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_rotation_SOURCES = %D%/unit/test_cpu_rotation.c
%C%_unit_test_races_rotation_LDADD = %D%/emulation/races.o $(LDADD)

# elementwise
unit_tests += %D%/unit/test_cpu_elementwise
emulated_operations += %D%/unit/test_emulated_elementwise
races_tests += %D%/unit/test_races_elementwise
EXTRA_PROGRAMS += %D%/unit/test_emulated_elementwise %D%/unit/test_races_elementwise
%C%_unit_test_emulated_elementwise_SOURCES = %D%/unit/test_cpu_elementwise.c
%C%_unit_test_emulated_elementwise_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_elementwise_SOURCES = %D%/unit/test_cpu_elementwise.c
%C%_unit_test_races_elementwise_LDADD = %D%/emulation/races.o $(LDADD)

# embedding
unit_tests += %D%/unit/test_cpu_embedding
emulated_operations += %D%/unit/test_emulated_embedding
races_tests += %D%/unit/test_races_embedding
EXTRA_PROGRAMS += %D%/unit/test_emulated_embedding %D%/unit/test_races_embedding
%C%_unit_test_emulated_embedding_SOURCES = %D%/unit/test_cpu_embedding.c
%C%_unit_test_emulated_embedding_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_embedding_SOURCES = %D%/unit/test_cpu_embedding.c
%C%_unit_test_races_embedding_LDADD = %D%/emulation/races.o $(LDADD)

# experts
unit_tests += %D%/unit/test_cpu_experts
emulated_operations += %D%/unit/test_emulated_experts
races_tests += %D%/unit/test_races_experts
EXTRA_PROGRAMS += %D%/unit/test_emulated_experts %D%/unit/test_races_experts
%C%_unit_test_emulated_experts_SOURCES = %D%/unit/test_cpu_experts.c
%C%_unit_test_emulated_experts_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_experts_SOURCES = %D%/unit/test_cpu_experts.c
%C%_unit_test_races_experts_LDADD = %D%/emulation/races.o $(LDADD)

# gate
unit_tests += %D%/unit/test_cpu_gate
emulated_operations += %D%/unit/test_emulated_gate
races_tests += %D%/unit/test_races_gate
EXTRA_PROGRAMS += %D%/unit/test_emulated_gate %D%/unit/test_races_gate
%C%_unit_test_emulated_gate_SOURCES = %D%/unit/test_cpu_gate.c
%C%_unit_test_emulated_gate_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_gate_SOURCES = %D%/unit/test_cpu_gate.c
%C%_unit_test_races_gate_LDADD = %D%/emulation/races.o $(LDADD)

# headnorm
unit_tests += %D%/unit/test_cpu_headnorm
emulated_operations += %D%/unit/test_emulated_headnorm
races_tests += %D%/unit/test_races_headnorm
EXTRA_PROGRAMS += %D%/unit/test_emulated_headnorm %D%/unit/test_races_headnorm
%C%_unit_test_emulated_headnorm_SOURCES = %D%/unit/test_cpu_headnorm.c
%C%_unit_test_emulated_headnorm_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_headnorm_SOURCES = %D%/unit/test_cpu_headnorm.c
%C%_unit_test_races_headnorm_LDADD = %D%/emulation/races.o $(LDADD)

# heads
unit_tests += %D%/unit/test_cpu_heads
emulated_operations += %D%/unit/test_emulated_heads
races_tests += %D%/unit/test_races_heads
EXTRA_PROGRAMS += %D%/unit/test_emulated_heads %D%/unit/test_races_heads
%C%_unit_test_emulated_heads_SOURCES = %D%/unit/test_cpu_heads.c
%C%_unit_test_emulated_heads_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_heads_SOURCES = %D%/unit/test_cpu_heads.c
%C%_unit_test_races_heads_LDADD = %D%/emulation/races.o $(LDADD)

# latent
unit_tests += %D%/unit/test_cpu_latent
emulated_operations += %D%/unit/test_emulated_latent
races_tests += %D%/unit/test_races_latent
EXTRA_PROGRAMS += %D%/unit/test_emulated_latent %D%/unit/test_races_latent
%C%_unit_test_emulated_latent_SOURCES = %D%/unit/test_cpu_latent.c
%C%_unit_test_emulated_latent_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_latent_SOURCES = %D%/unit/test_cpu_latent.c
%C%_unit_test_races_latent_LDADD = %D%/emulation/races.o $(LDADD)

# layernorm
unit_tests += %D%/unit/test_cpu_layernorm
emulated_operations += %D%/unit/test_emulated_layernorm
races_tests += %D%/unit/test_races_layernorm
EXTRA_PROGRAMS += %D%/unit/test_emulated_layernorm %D%/unit/test_races_layernorm
%C%_unit_test_emulated_layernorm_SOURCES = %D%/unit/test_cpu_layernorm.c
%C%_unit_test_emulated_layernorm_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_layernorm_SOURCES = %D%/unit/test_cpu_layernorm.c
%C%_unit_test_races_layernorm_LDADD = %D%/emulation/races.o $(LDADD)

# loss
unit_tests += %D%/unit/test_cpu_loss
emulated_operations += %D%/unit/test_emulated_loss
races_tests += %D%/unit/test_races_loss
EXTRA_PROGRAMS += %D%/unit/test_emulated_loss %D%/unit/test_races_loss
%C%_unit_test_emulated_loss_SOURCES = %D%/unit/test_cpu_loss.c
%C%_unit_test_emulated_loss_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_loss_SOURCES = %D%/unit/test_cpu_loss.c
%C%_unit_test_races_loss_LDADD = %D%/emulation/races.o $(LDADD)

# matmul
unit_tests += %D%/unit/test_cpu_matmul
emulated_operations += %D%/unit/test_emulated_matmul
EXTRA_PROGRAMS += %D%/unit/test_emulated_matmul %D%/unit/test_races_matmul
%C%_unit_test_emulated_matmul_SOURCES = %D%/unit/test_cpu_matmul.c
%C%_unit_test_emulated_matmul_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_matmul_SOURCES = %D%/unit/test_cpu_matmul.c
%C%_unit_test_races_matmul_LDADD = %D%/emulation/races.o $(LDADD)

# matmul_sums
unit_tests += %D%/unit/test_cpu_matmul_sums
emulated_operations += %D%/unit/test_emulated_matmul_sums
EXTRA_PROGRAMS += %D%/unit/test_emulated_matmul_sums %D%/unit/test_races_matmul_sums
%C%_unit_test_emulated_matmul_sums_SOURCES = %D%/unit/test_cpu_matmul_sums.c
%C%_unit_test_emulated_matmul_sums_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_matmul_sums_SOURCES = %D%/unit/test_cpu_matmul_sums.c
%C%_unit_test_races_matmul_sums_LDADD = %D%/emulation/races.o $(LDADD)

# media
unit_tests += %D%/unit/test_cpu_media
emulated_operations += %D%/unit/test_emulated_media
races_tests += %D%/unit/test_races_media
EXTRA_PROGRAMS += %D%/unit/test_emulated_media %D%/unit/test_races_media
%C%_unit_test_emulated_media_SOURCES = %D%/unit/test_cpu_media.c
%C%_unit_test_emulated_media_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_media_SOURCES = %D%/unit/test_cpu_media.c
%C%_unit_test_races_media_LDADD = %D%/emulation/races.o $(LDADD)

# norm
unit_tests += %D%/unit/test_cpu_norm
emulated_operations += %D%/unit/test_emulated_norm
races_tests += %D%/unit/test_races_norm
EXTRA_PROGRAMS += %D%/unit/test_emulated_norm %D%/unit/test_races_norm
%C%_unit_test_emulated_norm_SOURCES = %D%/unit/test_cpu_norm.c
%C%_unit_test_emulated_norm_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_norm_SOURCES = %D%/unit/test_cpu_norm.c
%C%_unit_test_races_norm_LDADD = %D%/emulation/races.o $(LDADD)

# operators
emulated_operations += %D%/unit/test_emulated_operators
EXTRA_PROGRAMS += %D%/unit/test_emulated_operators
%C%_unit_test_emulated_operators_SOURCES = %D%/unit/test_golden_operators.c
%C%_unit_test_emulated_operators_LDADD = %D%/emulation/emulated.o $(LDADD)

# optimizers
unit_tests += %D%/unit/test_cpu_optimizers
emulated_operations += %D%/unit/test_emulated_optimizers
races_tests += %D%/unit/test_races_optimizers
EXTRA_PROGRAMS += %D%/unit/test_emulated_optimizers %D%/unit/test_races_optimizers
%C%_unit_test_emulated_optimizers_SOURCES = %D%/unit/test_cpu_optimizers.c
%C%_unit_test_emulated_optimizers_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_optimizers_SOURCES = %D%/unit/test_cpu_optimizers.c
%C%_unit_test_races_optimizers_LDADD = %D%/emulation/races.o $(LDADD)

# optimizers_whole
unit_tests += %D%/unit/test_cpu_optimizers_whole
emulated_operations += %D%/unit/test_emulated_optimizers_whole
races_tests += %D%/unit/test_races_optimizers_whole
EXTRA_PROGRAMS += %D%/unit/test_emulated_optimizers_whole %D%/unit/test_races_optimizers_whole
%C%_unit_test_emulated_optimizers_whole_SOURCES = %D%/unit/test_cpu_optimizers_whole.c
%C%_unit_test_emulated_optimizers_whole_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_optimizers_whole_SOURCES = %D%/unit/test_cpu_optimizers_whole.c
%C%_unit_test_races_optimizers_whole_LDADD = %D%/emulation/races.o $(LDADD)

# schedule_free
unit_tests += %D%/unit/test_cpu_schedule_free
emulated_operations += %D%/unit/test_emulated_schedule_free
races_tests += %D%/unit/test_races_schedule_free
EXTRA_PROGRAMS += %D%/unit/test_emulated_schedule_free %D%/unit/test_races_schedule_free
%C%_unit_test_emulated_schedule_free_SOURCES = %D%/unit/test_cpu_schedule_free.c
%C%_unit_test_emulated_schedule_free_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_schedule_free_SOURCES = %D%/unit/test_cpu_schedule_free.c
%C%_unit_test_races_schedule_free_LDADD = %D%/emulation/races.o $(LDADD)

# optimizers_projected
unit_tests += %D%/unit/test_cpu_optimizers_projected
emulated_operations += %D%/unit/test_emulated_optimizers_projected
races_tests += %D%/unit/test_races_optimizers_projected
EXTRA_PROGRAMS += %D%/unit/test_emulated_optimizers_projected %D%/unit/test_races_optimizers_projected
%C%_unit_test_emulated_optimizers_projected_SOURCES = %D%/unit/test_cpu_optimizers_projected.c
%C%_unit_test_emulated_optimizers_projected_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_optimizers_projected_SOURCES = %D%/unit/test_cpu_optimizers_projected.c
%C%_unit_test_races_optimizers_projected_LDADD = %D%/emulation/races.o $(LDADD)

# policy
unit_tests += %D%/unit/test_cpu_policy
emulated_operations += %D%/unit/test_emulated_policy
races_tests += %D%/unit/test_races_policy
EXTRA_PROGRAMS += %D%/unit/test_emulated_policy %D%/unit/test_races_policy
%C%_unit_test_emulated_policy_SOURCES = %D%/unit/test_cpu_policy.c
%C%_unit_test_emulated_policy_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_policy_SOURCES = %D%/unit/test_cpu_policy.c
%C%_unit_test_races_policy_LDADD = %D%/emulation/races.o $(LDADD)

# preference
unit_tests += %D%/unit/test_cpu_preference
emulated_operations += %D%/unit/test_emulated_preference
races_tests += %D%/unit/test_races_preference
EXTRA_PROGRAMS += %D%/unit/test_emulated_preference %D%/unit/test_races_preference
%C%_unit_test_emulated_preference_SOURCES = %D%/unit/test_cpu_preference.c
%C%_unit_test_emulated_preference_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_preference_SOURCES = %D%/unit/test_cpu_preference.c
%C%_unit_test_races_preference_LDADD = %D%/emulation/races.o $(LDADD)

# rope
unit_tests += %D%/unit/test_cpu_rope
emulated_operations += %D%/unit/test_emulated_rope
races_tests += %D%/unit/test_races_rope
EXTRA_PROGRAMS += %D%/unit/test_emulated_rope %D%/unit/test_races_rope
%C%_unit_test_emulated_rope_SOURCES = %D%/unit/test_cpu_rope.c
%C%_unit_test_emulated_rope_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_rope_SOURCES = %D%/unit/test_cpu_rope.c
%C%_unit_test_races_rope_LDADD = %D%/emulation/races.o $(LDADD)

# route
unit_tests += %D%/unit/test_cpu_route
emulated_operations += %D%/unit/test_emulated_route
races_tests += %D%/unit/test_races_route
EXTRA_PROGRAMS += %D%/unit/test_emulated_route %D%/unit/test_races_route
%C%_unit_test_emulated_route_SOURCES = %D%/unit/test_cpu_route.c
%C%_unit_test_emulated_route_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_route_SOURCES = %D%/unit/test_cpu_route.c
%C%_unit_test_races_route_LDADD = %D%/emulation/races.o $(LDADD)

# swiglu
unit_tests += %D%/unit/test_cpu_swiglu
emulated_operations += %D%/unit/test_emulated_swiglu
races_tests += %D%/unit/test_races_swiglu
EXTRA_PROGRAMS += %D%/unit/test_emulated_swiglu %D%/unit/test_races_swiglu
%C%_unit_test_emulated_swiglu_SOURCES = %D%/unit/test_cpu_swiglu.c
%C%_unit_test_emulated_swiglu_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_swiglu_SOURCES = %D%/unit/test_cpu_swiglu.c
%C%_unit_test_races_swiglu_LDADD = %D%/emulation/races.o $(LDADD)

# xielu
unit_tests += %D%/unit/test_cpu_xielu
emulated_operations += %D%/unit/test_emulated_xielu
races_tests += %D%/unit/test_races_xielu
EXTRA_PROGRAMS += %D%/unit/test_emulated_xielu %D%/unit/test_races_xielu
%C%_unit_test_emulated_xielu_SOURCES = %D%/unit/test_cpu_xielu.c
%C%_unit_test_emulated_xielu_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_xielu_SOURCES = %D%/unit/test_cpu_xielu.c
%C%_unit_test_races_xielu_LDADD = %D%/emulation/races.o $(LDADD)

# topk
unit_tests += %D%/unit/test_cpu_topk
emulated_operations += %D%/unit/test_emulated_topk
races_tests += %D%/unit/test_races_topk
EXTRA_PROGRAMS += %D%/unit/test_emulated_topk %D%/unit/test_races_topk
%C%_unit_test_emulated_topk_SOURCES = %D%/unit/test_cpu_topk.c
%C%_unit_test_emulated_topk_LDADD = %D%/emulation/emulated.o $(LDADD)
%C%_unit_test_races_topk_SOURCES = %D%/unit/test_cpu_topk.c
%C%_unit_test_races_topk_LDADD = %D%/emulation/races.o $(LDADD)
