# One line a file, sorted.

noinst_LIBRARIES += libbase.a

libbase_a_SOURCES =
libbase_a_SOURCES += %D%/arena.c %D%/arena.h
libbase_a_SOURCES += %D%/clock.h
libbase_a_SOURCES += %D%/digest.h
libbase_a_SOURCES += %D%/error.c %D%/error.h
libbase_a_SOURCES += %D%/file.h
libbase_a_SOURCES += %D%/json.h
libbase_a_SOURCES += %D%/log.h
libbase_a_SOURCES += %D%/random.h
libbase_a_SOURCES += %D%/size.h
libbase_a_SOURCES += %D%/spawn.h
libbase_a_SOURCES += %D%/text.c %D%/text.h
