# One line per file, sorted: dist_man_MANS += %D%/trainspool.1, dist_doc_DATA += %D%/precision.md
dist_doc_DATA += %D%/service.md

dist_doc_DATA += %D%/architecture.md
dist_doc_DATA += %D%/clusters.md
dist_doc_DATA += %D%/comparison.md
dist_doc_DATA += %D%/dependencies.md
dist_doc_DATA += %D%/fuzzing.md
dist_doc_DATA += %D%/gpu.md
dist_doc_DATA += %D%/growth-layers.svg
dist_doc_DATA += %D%/growth-tokens.svg
dist_doc_DATA += %D%/growth-vocabulary.svg
dist_doc_DATA += %D%/growth-width.svg
dist_doc_DATA += %D%/media.md
dist_doc_DATA += %D%/memory.md
dist_doc_DATA += %D%/models.md
dist_doc_DATA += %D%/performance.md
dist_doc_DATA += %D%/positions.md
dist_doc_DATA += %D%/precision.md
dist_doc_DATA += %D%/scale-24gb.svg
dist_doc_DATA += %D%/scale-a100.svg
dist_doc_DATA += %D%/scale-h100.svg
dist_doc_DATA += %D%/scale.md
dist_man_MANS += %D%/trainspool-job.5
dist_man_MANS += %D%/trainspool.1

# make manual: regenerate the keys in trainspool-job.5 after a row of the table changed.
EXTRA_PROGRAMS += %D%/job_manual
docs_job_manual_SOURCES = %D%/job_manual.c
docs_job_manual_LDADD = $(LAYERS) $(LIBRARY_LIBS)

.PHONY: manual
manual: %D%/job_manual$(EXEEXT)
	%D%/job_manual$(EXEEXT) $(top_srcdir)/%D%/trainspool-job.5
