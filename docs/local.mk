# One line per file, sorted: dist_man_MANS += %D%/trainspool.1, dist_doc_DATA += %D%/precision.md

dist_doc_DATA += %D%/comparison.md
dist_doc_DATA += %D%/dependencies.md
dist_doc_DATA += %D%/fuzzing.md
dist_doc_DATA += %D%/gpu.md
dist_doc_DATA += %D%/growth-layers.svg
dist_doc_DATA += %D%/growth-tokens.svg
dist_doc_DATA += %D%/growth-vocabulary.svg
dist_doc_DATA += %D%/growth-width.svg
dist_doc_DATA += %D%/memory.md
dist_doc_DATA += %D%/performance.md
dist_doc_DATA += %D%/performance-gpu.md
dist_doc_DATA += %D%/precision.md
dist_man_MANS += %D%/trainspool-job.5
dist_man_MANS += %D%/trainspool.1
