# One line a file, sorted: libtrain_a_SOURCES += %D%/format.c %D%/format.h

noinst_LIBRARIES += libtrain.a

libtrain_a_SOURCES =
