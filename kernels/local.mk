# One line per file, sorted: libkernels_a_SOURCES += %D%/tensor.c %D%/tensor.h

noinst_LIBRARIES += libkernels.a

libkernels_a_SOURCES =
libkernels_a_SOURCES += %D%/backend.c %D%/backend.h
libkernels_a_SOURCES += %D%/cpu/cpu_activation.h
libkernels_a_SOURCES += %D%/cpu/cpu_attention.h
libkernels_a_SOURCES += %D%/cpu/cpu_backend.c %D%/cpu/cpu_backend.h
libkernels_a_SOURCES += %D%/cpu/cpu_cores.c %D%/cpu/cpu_cores.h
libkernels_a_SOURCES += %D%/cpu/cpu_decide.c
libkernels_a_SOURCES += %D%/cpu/cpu_delta.h %D%/cpu/cpu_scan.h
libkernels_a_SOURCES += %D%/cpu/cpu_group.c
libkernels_a_SOURCES += %D%/cpu/cpu_fp8.c %D%/cpu/cpu_fp8.h
libkernels_a_SOURCES += %D%/cpu/cpu_grouped_matmul.c
libkernels_a_SOURCES += %D%/cpu/cpu_isa.c %D%/cpu/cpu_isa.h
libkernels_a_SOURCES += %D%/cpu/cpu_loss.h
libkernels_a_SOURCES += %D%/cpu/cpu_matmul.c %D%/cpu/cpu_matmul.h
libkernels_a_SOURCES += %D%/cpu/cpu_matmul_generic.c
libkernels_a_SOURCES += %D%/cpu/cpu_matmul_grid.c %D%/cpu/cpu_matmul_grid.h
libkernels_a_SOURCES += %D%/cpu/cpu_matmul_kernel.h %D%/cpu/cpu_matmul_pack.h
libkernels_a_SOURCES += %D%/cpu/cpu_matmul_template.h
libkernels_a_SOURCES += %D%/cpu/cpu_matmul_tiles.c %D%/cpu/cpu_matmul_tiles.h
libkernels_a_SOURCES += %D%/cpu/cpu_matmul_vec.h
libkernels_a_SOURCES += %D%/cpu/cpu_mesh.c %D%/cpu/cpu_mesh.h
libkernels_a_SOURCES += %D%/cpu/cpu_rendezvous.c %D%/cpu/cpu_rendezvous.h
libkernels_a_SOURCES += %D%/cpu/cpu_onednn.c %D%/cpu/cpu_onednn.h
libkernels_a_SOURCES += %D%/cpu/cpu_ops.c %D%/cpu/cpu_ops.h
libkernels_a_SOURCES += %D%/cpu/cpu_optimizer.h
libkernels_a_SOURCES += %D%/cpu/cpu_policy.c
libkernels_a_SOURCES += %D%/cpu/cpu_pool.c %D%/cpu/cpu_pool.h
libkernels_a_SOURCES += %D%/cpu/cpu_preference.c
libkernels_a_SOURCES += %D%/cpu/cpu_random.h
libkernels_a_SOURCES += %D%/cpu/cpu_row_norm.h
libkernels_a_SOURCES += %D%/cpu/cpu_tile.h
libkernels_a_SOURCES += %D%/cpu/cpu_unchecked.h
libkernels_a_SOURCES += %D%/cpu/cpu_turn.h %D%/cpu/cpu_vector.h
libkernels_a_SOURCES += %D%/dropout.h
libkernels_a_SOURCES += %D%/gelu.h
libkernels_a_SOURCES += %D%/matmul_choices.c %D%/matmul_choices.h
libkernels_a_SOURCES += %D%/measure.c %D%/measure.h
libkernels_a_SOURCES += %D%/reach.c %D%/reach.h
libkernels_a_SOURCES += %D%/operations.h
libkernels_a_SOURCES += %D%/ops.h
libkernels_a_SOURCES += %D%/ops_experts.h
libkernels_a_SOURCES += %D%/ops.h %D%/ops_conv.h %D%/ops_delta.h
libkernels_a_SOURCES += %D%/row_order.h
libkernels_a_SOURCES += %D%/ops_optimizers.h
libkernels_a_SOURCES += %D%/ops_clamped.h
libkernels_a_SOURCES += %D%/ops_dora.h
libkernels_a_SOURCES += %D%/ops_rotation.h
libkernels_a_SOURCES += %D%/ops_gate.h
libkernels_a_SOURCES += %D%/ops_heads.h
libkernels_a_SOURCES += %D%/ops_xielu.h
libkernels_a_SOURCES += %D%/ops_scan.h
libkernels_a_SOURCES += %D%/ops_alibi.h
libkernels_a_SOURCES += %D%/ops_attention.h
libkernels_a_SOURCES += %D%/ops_pair_scale.h
libkernels_a_SOURCES += %D%/ops_sinks.h
libkernels_a_SOURCES += %D%/ops_latent.h
libkernels_a_SOURCES += %D%/ops_media.h
libkernels_a_SOURCES += %D%/ops_noise.h
libkernels_a_SOURCES += %D%/ops_loss.h
libkernels_a_SOURCES += %D%/ops_policy.h
libkernels_a_SOURCES += %D%/policy_math.h
libkernels_a_SOURCES += %D%/preference_math.h
libkernels_a_SOURCES += %D%/route_math.h
libkernels_a_SOURCES += %D%/step_decision.h
libkernels_a_SOURCES += %D%/tensor.c %D%/tensor.h
libkernels_a_SOURCES += %D%/unfold.c %D%/unfold.h

# The operations that kernels/operations.h marks EACH_ISA.  They are built with the flags of the
# whole program and again for each instruction set of x86-64; cpu_ops.c chooses at run time.
operations_of_an_isa =
operations_of_an_isa += %D%/cpu/cpu_activation.c
operations_of_an_isa += %D%/cpu/cpu_adafactor.c
operations_of_an_isa += %D%/cpu/cpu_adam_mini.c
operations_of_an_isa += %D%/cpu/cpu_adamw.c
operations_of_an_isa += %D%/cpu/cpu_attention.c
operations_of_an_isa += %D%/cpu/cpu_attention_backward.c
operations_of_an_isa += %D%/cpu/cpu_clip.c
operations_of_an_isa += %D%/cpu/cpu_conv.c
operations_of_an_isa += %D%/cpu/cpu_decode.c
operations_of_an_isa += %D%/cpu/cpu_delta.c
operations_of_an_isa += %D%/cpu/cpu_delta_backward.c
operations_of_an_isa += %D%/cpu/cpu_decay.c
operations_of_an_isa += %D%/cpu/cpu_dequantize.c
operations_of_an_isa += %D%/cpu/cpu_distill.c
operations_of_an_isa += %D%/cpu/cpu_clamped.c
operations_of_an_isa += %D%/cpu/cpu_dora.c
operations_of_an_isa += %D%/cpu/cpu_rotation.c
operations_of_an_isa += %D%/cpu/cpu_gate.c
operations_of_an_isa += %D%/cpu/cpu_headlayer.c
operations_of_an_isa += %D%/cpu/cpu_xielu.c
operations_of_an_isa += %D%/cpu/cpu_scan.c
operations_of_an_isa += %D%/cpu/cpu_scan_backward.c
operations_of_an_isa += %D%/cpu/cpu_pair_scale.c
operations_of_an_isa += %D%/cpu/cpu_sink.c
operations_of_an_isa += %D%/cpu/cpu_elementwise.c
operations_of_an_isa += %D%/cpu/cpu_embedding.c
operations_of_an_isa += %D%/cpu/cpu_headnorm.c
operations_of_an_isa += %D%/cpu/cpu_latent.c
operations_of_an_isa += %D%/cpu/cpu_layernorm.c
operations_of_an_isa += %D%/cpu/cpu_lion.c
operations_of_an_isa += %D%/cpu/cpu_loss.c
operations_of_an_isa += %D%/cpu/cpu_media.c
operations_of_an_isa += %D%/cpu/cpu_noise.c
operations_of_an_isa += %D%/cpu/cpu_muon.c
operations_of_an_isa += %D%/cpu/cpu_projected.c
operations_of_an_isa += %D%/cpu/cpu_schedule_free.c
operations_of_an_isa += %D%/cpu/cpu_norm.c
operations_of_an_isa += %D%/cpu/cpu_pairs.c
operations_of_an_isa += %D%/cpu/cpu_optimizer_8bit.c
operations_of_an_isa += %D%/cpu/cpu_rope.c
operations_of_an_isa += %D%/cpu/cpu_route.c
operations_of_an_isa += %D%/cpu/cpu_swiglu.c
operations_of_an_isa += %D%/cpu/cpu_topk.c
libkernels_a_SOURCES += $(operations_of_an_isa)

# The libraries of the instruction sets only carry the flags; their objects go into libkernels.a.
if HAVE_X86_KERNELS
EXTRA_LIBRARIES += libkernels_avx2.a libkernels_avx512.a
libkernels_avx2_a_SOURCES = $(operations_of_an_isa) %D%/cpu/cpu_matmul_avx2.c
libkernels_avx2_a_CPPFLAGS = $(AM_CPPFLAGS) -DCPU_VARIANT=avx2
libkernels_avx2_a_CFLAGS = $(AM_CFLAGS) $(AVX2_CFLAGS)
libkernels_avx512_a_SOURCES = $(operations_of_an_isa) %D%/cpu/cpu_matmul_avx512.c
libkernels_avx512_a_CPPFLAGS = $(AM_CPPFLAGS) -DCPU_VARIANT=avx512
libkernels_avx512_a_CFLAGS = $(AM_CFLAGS) $(AVX512_CFLAGS)
libkernels_a_LIBADD = $(libkernels_avx2_a_OBJECTS) $(libkernels_avx512_a_OBJECTS)
libkernels_a_DEPENDENCIES = $(libkernels_a_LIBADD)
endif

# Kernels and their C side.  The rule below compiles .cu files with nvcc.
if HAVE_CUDA
libkernels_a_SOURCES += %D%/cuda/activation.cu %D%/cuda/activation.cuh
libkernels_a_SOURCES += %D%/cuda/adafactor.cu
libkernels_a_SOURCES += %D%/cuda/adam_mini.cu
libkernels_a_SOURCES += %D%/cuda/adamw.cu
libkernels_a_SOURCES += %D%/cuda/attention.cu
libkernels_a_SOURCES += %D%/cuda/attention_plain.cu %D%/cuda/attention_plain.cuh
libkernels_a_SOURCES += %D%/cuda/attention_plain_backward.cu
libkernels_a_SOURCES += %D%/cuda/block.cuh
libkernels_a_SOURCES += %D%/cuda/elementwise_kernel.cuh
libkernels_a_SOURCES += %D%/cuda/cuda_attention.c %D%/cuda/cuda_attention.h
libkernels_a_SOURCES += %D%/cuda/cuda_backend.c %D%/cuda/cuda_backend.h
libkernels_a_SOURCES += %D%/cuda/cuda_classifier.c
libkernels_a_SOURCES += %D%/cuda/cuda_cudnn.c %D%/cuda/cuda_cudnn.h
libkernels_a_SOURCES += %D%/cuda/cuda_device.c
libkernels_a_SOURCES += %D%/cuda/cuda_distill.c
libkernels_a_SOURCES += %D%/cuda/cuda_graph.c
libkernels_a_SOURCES += %D%/cuda/cuda_health.c
libkernels_a_SOURCES += %D%/cuda/cuda_launch.h
libkernels_a_SOURCES += %D%/cuda/cuda_library.c %D%/cuda/cuda_library.h
libkernels_a_SOURCES += %D%/cuda/cuda_matmul.c %D%/cuda/cuda_matmul.h
libkernels_a_SOURCES += %D%/cuda/cuda_nvml.c %D%/cuda/cuda_nvml.h
libkernels_a_SOURCES += %D%/cuda/cuda_ops.c
libkernels_a_SOURCES += %D%/cuda/cuda_plan.c %D%/cuda/cuda_plan.h
libkernels_a_SOURCES += %D%/cuda/cuda_sdpa.c %D%/cuda/cuda_sdpa.h
libkernels_a_SOURCES += %D%/cuda/cuda_staging.c
libkernels_a_SOURCES += %D%/cuda/cuda_status.c
libkernels_a_SOURCES += %D%/cuda/cuda_tuning.c %D%/cuda/cuda_tuning.h
libkernels_a_SOURCES += %D%/cuda/cuda_wait.c
libkernels_a_SOURCES += %D%/cuda/cudnn_graph.c %D%/cuda/cudnn_graph.h
libkernels_a_SOURCES += %D%/cuda/conv.cu
libkernels_a_SOURCES += %D%/cuda/decide.cu
libkernels_a_SOURCES += %D%/cuda/decode.cu
libkernels_a_SOURCES += %D%/cuda/delta.cu %D%/cuda/delta.cuh
libkernels_a_SOURCES += %D%/cuda/delta_backward.cu
libkernels_a_SOURCES += %D%/cuda/decay.cu
libkernels_a_SOURCES += %D%/cuda/dequantize.cu
libkernels_a_SOURCES += %D%/cuda/distill.cu
libkernels_a_SOURCES += %D%/cuda/clamped.cu
libkernels_a_SOURCES += %D%/cuda/dora.cu
libkernels_a_SOURCES += %D%/cuda/block_rotation.cu
libkernels_a_SOURCES += %D%/cuda/scan.cu %D%/cuda/scan.cuh
libkernels_a_SOURCES += %D%/cuda/scan_backward.cu
libkernels_a_SOURCES += %D%/cuda/pair_scale.cu
libkernels_a_SOURCES += %D%/cuda/sink.cu
libkernels_a_SOURCES += %D%/cuda/dropout_bits.cuh
libkernels_a_SOURCES += %D%/cuda/eaft.cu
libkernels_a_SOURCES += %D%/cuda/elementwise.cu
libkernels_a_SOURCES += %D%/cuda/embedding.cu
libkernels_a_SOURCES += %D%/cuda/flash.cuh
libkernels_a_SOURCES += %D%/cuda/flash_backward.cu %D%/cuda/flash_backward.cuh
libkernels_a_SOURCES += %D%/cuda/flash_dropout.cuh
libkernels_a_SOURCES += %D%/cuda/flash_forward.cu
libkernels_a_SOURCES += %D%/cuda/flash_hopper.cuh
libkernels_a_SOURCES += %D%/cuda/flash_hopper_backward.cu
libkernels_a_SOURCES += %D%/cuda/flash_hopper_forward.cu
libkernels_a_SOURCES += %D%/cuda/flash_launch.h
libkernels_a_SOURCES += %D%/cuda/fp8.cu
libkernels_a_SOURCES += %D%/cuda/grouped_matmul.cu
libkernels_a_SOURCES += %D%/cuda/hardware.cuh
libkernels_a_SOURCES += %D%/cuda/hopper.cuh
libkernels_a_SOURCES += %D%/cuda/kernel_image.cu
libkernels_a_SOURCES += %D%/cuda/clip.cu
libkernels_a_SOURCES += %D%/cuda/headlayer.cu
libkernels_a_SOURCES += %D%/cuda/headnorm.cu
libkernels_a_SOURCES += %D%/cuda/latent.cu
libkernels_a_SOURCES += %D%/cuda/layer_gate.cu
libkernels_a_SOURCES += %D%/cuda/layernorm.cu
libkernels_a_SOURCES += %D%/cuda/lion.cu
libkernels_a_SOURCES += %D%/cuda/loss.cu
libkernels_a_SOURCES += %D%/cuda/media.cu
libkernels_a_SOURCES += %D%/cuda/noise.cu
libkernels_a_SOURCES += %D%/cuda/muon.cu
libkernels_a_SOURCES += %D%/cuda/projected.cu
libkernels_a_SOURCES += %D%/cuda/schedule_free.cu
libkernels_a_SOURCES += %D%/cuda/norm.cu
libkernels_a_SOURCES += %D%/cuda/pairs.cu
libkernels_a_SOURCES += %D%/cuda/optimizer_step.cuh %D%/cuda/optimizer_8bit.cu
libkernels_a_SOURCES += %D%/cuda/policy_loss.cu
libkernels_a_SOURCES += %D%/cuda/preference.cu
libkernels_a_SOURCES += %D%/cuda/rotary.cu
libkernels_a_SOURCES += %D%/cuda/route.cu
libkernels_a_SOURCES += %D%/cuda/row_norm.cuh
libkernels_a_SOURCES += %D%/cuda/cudnn_sequences.cu
libkernels_a_SOURCES += %D%/cuda/column_sums.cuh
libkernels_a_SOURCES += %D%/cuda/select.cuh
libkernels_a_SOURCES += %D%/cuda/sum_rows.cu
libkernels_a_SOURCES += %D%/cuda/swiglu.cu
libkernels_a_SOURCES += %D%/cuda/thin.cu
libkernels_a_SOURCES += %D%/cuda/topk.cu
libkernels_a_SOURCES += %D%/cuda/xielu.cu
endif

# Support for several GPUs.
if HAVE_NCCL
libkernels_a_SOURCES += %D%/cuda/cuda_group.c %D%/cuda/cuda_group.h
libkernels_a_SOURCES += %D%/cuda/cuda_nccl.c %D%/cuda/cuda_nccl.h
else
if HAVE_CUDA
libkernels_a_SOURCES += %D%/cuda/cuda_group_none.c %D%/cuda/cuda_group.h
endif
endif

# The file name decides the flags.  These are pattern-specific variables, because flags of a target
# would rename the objects.  CFLAGS come after these and win.
if !SANITIZERS
%D%/cpu/%.$(OBJEXT): OPTIMIZE = -O3
else
%D%/cpu/%.$(OBJEXT): OPTIMIZE = -O2
endif
%D%/cuda/%.$(OBJEXT): AM_CPPFLAGS += $(CUDA_CPPFLAGS)

# nvcc writes dependencies as gcc does.  The assembler's report of registers and spills, and the PTX,
# are kept next to the object for tests/cli/cuda_code.t; other output of the assembler is shown.
SUFFIXES += .cu
%D%/cuda/flash_hopper_%.$(OBJEXT): NVCC_FLAGS = $(NVCC_HOPPER_FLAGS)
.cu.$(OBJEXT):
	@$(MKDIR_P) $(@D)/$(DEPDIR) $(@D)/$(*F).keep
	@rm -f $(@D)/$(*F).ptx $(@D)/$(*F).compute_*.ptx
	$(AM_V_GEN)$(NVCC) $(NVCC_FLAGS) -Xptxas -v $(DEFS) $(DEFAULT_INCLUDES) \
	    --keep --keep-dir $(@D)/$(*F).keep \
	    -MD -MP -MF $(@D)/$(DEPDIR)/$(*F).cu.Pd -c -o $@ $< 2>$(@D)/$(*F).resources; \
	    status=$$?; grep -vE '^ptxas info|bytes stack frame' $(@D)/$(*F).resources >&2; \
	    [ $$status -ne 0 ] || mv $(@D)/$(*F).keep/*.ptx $(@D); \
	    rm -r $(@D)/$(*F).keep; exit $$status
-include $(wildcard %D%/cuda/$(DEPDIR)/*.cu.Pd)
CLEANFILES += $(wildcard %D%/cuda/*.resources %D%/cuda/*.ptx)
