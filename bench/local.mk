# make bench: tables of matmuls, other operations, training steps, and the time from drop to start.

bench_programs = %D%/bench_check %D%/bench_cuda_attention %D%/bench_encoder %D%/bench_experts %D%/bench_ops \
	%D%/bench_matmul %D%/bench_save %D%/bench_start %D%/bench_status %D%/bench_tokenizer %D%/bench_tower \
	%D%/bench_train
if HAVE_CUDA
bench_programs += %D%/bench_cuda_matmul %D%/bench_cuda_ops
endif
# for bench/scale.py
scale_programs = %D%/bench_meet %D%/delay_link %D%/rank_layout
EXTRA_PROGRAMS += $(bench_programs) $(scale_programs)
EXTRA_DIST += %D%/compare_torch.py
EXTRA_DIST += %D%/attention_order.py
EXTRA_DIST += %D%/gpu_floors.py
EXTRA_DIST += %D%/growth.py
EXTRA_DIST += %D%/peer_check.py
EXTRA_DIST += %D%/peer_encoder.py
EXTRA_DIST += %D%/peer_experts.py
EXTRA_DIST += %D%/peer_llmc.py
EXTRA_DIST += %D%/peer_tokenizers.py
EXTRA_DIST += %D%/peer_torch.py
EXTRA_DIST += %D%/peer_tower.py
EXTRA_DIST += %D%/peer_trainer.py
EXTRA_DIST += %D%/scale.py
EXTRA_DIST += %D%/scale_calls.py
EXTRA_DIST += %D%/scale_check.py
EXTRA_DIST += %D%/scale_plot.py
EXTRA_DIST += %D%/slurm_burst.py
EXTRA_DIST += %D%/results/data-and-start.md
EXTRA_DIST += %D%/results/gpu-estimates.md
EXTRA_DIST += %D%/results/gpu-h100.md
EXTRA_DIST += %D%/results/growth.md
EXTRA_DIST += %D%/results/matmul-cpu.md
EXTRA_DIST += %D%/results/spool.md
EXTRA_DIST += %D%/results/training-cpu.md
CLEANFILES += $(EXTRA_PROGRAMS)

BENCH_LIBS = $(LAYERS) $(LIBRARY_LIBS) $(MEDIA_LIBS) $(CUDA_LIBS)
bench_bench_check_SOURCES = %D%/bench_check.c
bench_bench_check_LDADD = $(BENCH_LIBS)
bench_bench_cuda_attention_SOURCES = %D%/bench_cuda_attention.c %D%/target.c %D%/target.h
bench_bench_cuda_attention_LDADD = $(BENCH_LIBS)
bench_bench_encoder_SOURCES = %D%/bench_encoder.c %D%/target.c %D%/target.h
bench_bench_encoder_LDADD = $(BENCH_LIBS)
bench_bench_cuda_matmul_SOURCES = %D%/bench_cuda_matmul.c %D%/target.c %D%/target.h
bench_bench_cuda_matmul_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
bench_bench_cuda_matmul_LDADD = $(BENCH_LIBS)
bench_bench_cuda_ops_SOURCES = %D%/bench_cuda_ops.c %D%/gpu_ops.c %D%/gpu_ops.h \
	%D%/target.c %D%/target.h
bench_bench_cuda_ops_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
bench_bench_cuda_ops_LDADD = $(BENCH_LIBS)
bench_bench_experts_SOURCES = %D%/bench_experts.c %D%/target.c %D%/target.h
bench_bench_experts_LDADD = $(BENCH_LIBS)
bench_bench_ops_SOURCES = %D%/bench_ops.c
bench_bench_ops_LDADD = $(BENCH_LIBS)
bench_bench_matmul_SOURCES = %D%/bench_matmul.c %D%/rate.c %D%/rate.h %D%/target.c %D%/target.h
bench_bench_matmul_LDADD = $(BENCH_LIBS)
bench_bench_save_SOURCES = %D%/bench_save.c
bench_bench_save_LDADD = $(BENCH_LIBS)
bench_bench_status_SOURCES = %D%/bench_status.c
bench_bench_status_LDADD = $(BENCH_LIBS)
bench_bench_start_SOURCES = %D%/bench_start.c
bench_bench_start_LDADD = $(BENCH_LIBS)
bench_bench_tokenizer_SOURCES = %D%/bench_tokenizer.c
bench_bench_tokenizer_LDADD = $(BENCH_LIBS)
bench_bench_tower_SOURCES = %D%/bench_tower.c %D%/target.c %D%/target.h
bench_bench_tower_LDADD = $(BENCH_LIBS)
bench_bench_train_SOURCES = %D%/bench_train.c %D%/model_steps.c %D%/model_steps.h %D%/profile.c \
	%D%/profile.h %D%/rate.c %D%/rate.h %D%/stopwatch.c %D%/stopwatch.h %D%/target.c %D%/target.h
bench_bench_train_LDADD = $(BENCH_LIBS)

bench_bench_meet_SOURCES = %D%/bench_meet.c
bench_bench_meet_LDADD = $(BENCH_LIBS)
bench_delay_link_SOURCES = %D%/delay_link.c
bench_rank_layout_SOURCES = %D%/rank_layout.c
bench_rank_layout_LDADD = $(BENCH_LIBS)

.PHONY: bench
bench: $(bin_PROGRAMS) $(bench_programs)
	%D%/bench_matmul
	@echo
	%D%/bench_ops
	@echo
	%D%/bench_encoder
	@echo
	%D%/bench_experts
	$${PYTHON:-python3} $(srcdir)/%D%/peer_experts.py %D%/bench_experts
	@echo
	%D%/bench_train
	@echo
	$${PYTHON:-python3} $(srcdir)/%D%/compare_torch.py %D%/bench_train $(PEER_TORCH)
	@echo
	%D%/bench_save .
	@echo
	%D%/bench_start $(top_builddir) $(top_srcdir)
	%D%/bench_status $(top_builddir)
	@echo
	%D%/bench_check $(top_builddir) $(top_srcdir)
	@test -z "$(PEER_DATA)" || for what in packing preferences start; do \
		python3 $(srcdir)/%D%/peer_trainer.py $$what $(top_builddir) $(PEER_DATA); done
	@test -z "$(PEERS)" || python3 $(srcdir)/%D%/peer_check.py ./trainspool $(PEERS)

# The model of docs/scale.md, and its comparison with ranks in network namespaces, which requires
# root: otherwise it says why it does not run.
.PHONY: bench-scale
bench-scale: $(bin_PROGRAMS) $(scale_programs)
	$${PYTHON:-python3} $(srcdir)/%D%/scale_check.py $(top_builddir) \
		$${TRAINSPOOL_SHARED:-$(top_srcdir)/../shared}/data/stories260K/hf || test $$? -eq 77
	$${PYTHON:-python3} $(srcdir)/%D%/scale.py $(top_builddir) $(SCALE_PLOTS)
