# One line a file, sorted: libpatcher_a_SOURCES += %D%/format.c %D%/format.h

noinst_LIBRARIES += libpatcher.a

libpatcher_a_SOURCES =
