# One line a file, sorted: libtrain_a_SOURCES += %D%/format.c %D%/format.h

noinst_LIBRARIES += libtrain.a

libtrain_a_SOURCES =
libtrain_a_SOURCES += %D%/checkpoint.c %D%/checkpoint.h
libtrain_a_SOURCES += %D%/manifest.c %D%/manifest.h
libtrain_a_SOURCES += %D%/metrics.c %D%/metrics.h
libtrain_a_SOURCES += %D%/progress.c %D%/progress.h
libtrain_a_SOURCES += %D%/trainer.c %D%/trainer.h
libtrain_a_SOURCES += %D%/lora.c %D%/lora.h
libtrain_a_SOURCES += %D%/model_config.c %D%/model_config.h
libtrain_a_SOURCES += %D%/safetensors.c %D%/safetensors.h
libtrain_a_SOURCES += %D%/safetensors_write.c
libtrain_a_SOURCES += %D%/shapes.c %D%/shapes.h
