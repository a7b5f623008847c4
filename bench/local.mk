# make bench: products, other operations, training steps, drop to start, as tables.

EXTRA_PROGRAMS = %D%/bench_ops %D%/bench_products %D%/bench_train
EXTRA_DIST += %D%/peer_torch.py
CLEANFILES += $(EXTRA_PROGRAMS)

bench_bench_ops_SOURCES = %D%/bench_ops.c
bench_bench_ops_LDADD = $(LAYERS) $(LIBRARY_LIBS) $(CUDA_LIBS)
bench_bench_products_SOURCES = %D%/bench_products.c %D%/rate.c %D%/rate.h
bench_bench_products_LDADD = $(LAYERS) $(LIBRARY_LIBS) $(CUDA_LIBS)
bench_bench_train_SOURCES = %D%/bench_train.c %D%/rate.c %D%/rate.h
bench_bench_train_LDADD = $(LAYERS) $(LIBRARY_LIBS) $(CUDA_LIBS)

.PHONY: bench
bench: $(EXTRA_PROGRAMS)
	%D%/bench_products
	@echo
	%D%/bench_ops
	@echo
	%D%/bench_train
