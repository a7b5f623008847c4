# One line a file, sorted: libprecision_a_SOURCES += %D%/format.c %D%/format.h

noinst_LIBRARIES += libprecision.a

libprecision_a_SOURCES =
libprecision_a_SOURCES += %D%/format.c %D%/format.h
