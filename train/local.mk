# One line a file, sorted: libtrain_a_SOURCES += %D%/format.c %D%/format.h

noinst_LIBRARIES += libtrain.a

libtrain_a_SOURCES =
libtrain_a_SOURCES += %D%/added_tokens.c %D%/added_tokens.h
libtrain_a_SOURCES += %D%/bpe.c %D%/bpe.h
libtrain_a_SOURCES += %D%/bpe_merges.c %D%/bpe_merges.h
libtrain_a_SOURCES += %D%/checkpoint.c %D%/checkpoint.h
libtrain_a_SOURCES += %D%/detokenizer.c %D%/detokenizer.h
libtrain_a_SOURCES += %D%/lora.c %D%/lora.h
libtrain_a_SOURCES += %D%/manifest.c %D%/manifest.h
libtrain_a_SOURCES += %D%/metrics.c %D%/metrics.h
libtrain_a_SOURCES += %D%/model_config.c %D%/model_config.h
libtrain_a_SOURCES += %D%/normalizer.c %D%/normalizer.h
libtrain_a_SOURCES += %D%/pattern.c %D%/pattern.h
libtrain_a_SOURCES += %D%/postprocessor.c %D%/postprocessor.h
libtrain_a_SOURCES += %D%/pretokenizer.c %D%/pretokenizer.h
libtrain_a_SOURCES += %D%/progress.c %D%/progress.h
libtrain_a_SOURCES += %D%/rope.c %D%/rope.h
libtrain_a_SOURCES += %D%/safetensors.c %D%/safetensors.h
libtrain_a_SOURCES += %D%/safetensors_write.c
libtrain_a_SOURCES += %D%/schedule.c %D%/schedule.h
libtrain_a_SOURCES += %D%/shapes.c %D%/shapes.h
libtrain_a_SOURCES += %D%/tokenizer.c %D%/tokenizer.h
libtrain_a_SOURCES += %D%/trainer.c %D%/trainer.h
libtrain_a_SOURCES += %D%/unicode.c %D%/unicode.h
libtrain_a_SOURCES += %D%/vocabulary.c %D%/vocabulary.h
