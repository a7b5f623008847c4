# One line a file, sorted: libpatcher_a_SOURCES += %D%/format.c %D%/format.h

noinst_LIBRARIES += libpatcher.a

libpatcher_a_SOURCES =
libpatcher_a_SOURCES += %D%/backup.c %D%/backup.h
libpatcher_a_SOURCES += %D%/diff.c %D%/diff.h
libpatcher_a_SOURCES += %D%/document.c %D%/document.h
libpatcher_a_SOURCES += %D%/edits.c %D%/edits.h
libpatcher_a_SOURCES += %D%/finding.c %D%/finding.h
libpatcher_a_SOURCES += %D%/jobfile.c %D%/jobfile.h
libpatcher_a_SOURCES += %D%/journal.c %D%/journal.h
libpatcher_a_SOURCES += %D%/node.c %D%/node.h
libpatcher_a_SOURCES += %D%/patcher.h
libpatcher_a_SOURCES += %D%/place.c %D%/place.h
libpatcher_a_SOURCES += %D%/rewrite.c %D%/rewrite.h
