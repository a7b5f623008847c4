# One line per file, sorted.

noinst_LIBRARIES += libbase.a

libbase_a_SOURCES =
libbase_a_SOURCES += %D%/arena.c %D%/arena.h
libbase_a_SOURCES += %D%/base64.c %D%/base64.h
libbase_a_SOURCES += %D%/cache.c %D%/cache.h
libbase_a_SOURCES += %D%/clock.c %D%/clock.h
libbase_a_SOURCES += %D%/crc32c.c %D%/crc32c.h
libbase_a_SOURCES += %D%/digest.c %D%/digest.h
libbase_a_SOURCES += %D%/error.c %D%/error.h
libbase_a_SOURCES += %D%/exchange.c %D%/exchange.h
libbase_a_SOURCES += %D%/fault.c %D%/fault.h
libbase_a_SOURCES += %D%/file.c %D%/file.h
libbase_a_SOURCES += %D%/group.c %D%/group.h
libbase_a_SOURCES += %D%/heartbeat.c %D%/heartbeat.h
libbase_a_SOURCES += %D%/instant.c %D%/instant.h
libbase_a_SOURCES += %D%/holders.c %D%/holders.h
libbase_a_SOURCES += %D%/json.c %D%/json.h
libbase_a_SOURCES += %D%/json_scan.c %D%/json_scan.h
libbase_a_SOURCES += %D%/json_edit.c %D%/json_edit.h
libbase_a_SOURCES += %D%/landlock.c %D%/landlock.h
libbase_a_SOURCES += %D%/lease_file.c %D%/lease_file.h
libbase_a_SOURCES += %D%/leftovers.c %D%/leftovers.h
libbase_a_SOURCES += %D%/limits.c %D%/limits.h
libbase_a_SOURCES += %D%/link.c %D%/link.h
libbase_a_SOURCES += %D%/log.c %D%/log.h
libbase_a_SOURCES += %D%/nearest.c %D%/nearest.h
libbase_a_SOURCES += %D%/net.c %D%/net.h
libbase_a_SOURCES += %D%/outlet.c %D%/outlet.h
libbase_a_SOURCES += %D%/owner.c %D%/owner.h
libbase_a_SOURCES += %D%/path.c %D%/path.h
libbase_a_SOURCES += %D%/pcg.c %D%/pcg.h
libbase_a_SOURCES += %D%/random.c %D%/random.h
libbase_a_SOURCES += %D%/seccomp.c %D%/seccomp.h
libbase_a_SOURCES += %D%/roots.c %D%/roots.h
libbase_a_SOURCES += %D%/shared_files.c %D%/shared_files.h
libbase_a_SOURCES += %D%/shared_lock.c %D%/shared_lock.h
libbase_a_SOURCES += %D%/size.h
libbase_a_SOURCES += %D%/spawn.c %D%/spawn.h
libbase_a_SOURCES += %D%/spread.c %D%/spread.h
libbase_a_SOURCES += %D%/stop.c %D%/stop.h
libbase_a_SOURCES += %D%/text.c %D%/text.h
libbase_a_SOURCES += %D%/user.c %D%/user.h
libbase_a_SOURCES += %D%/user_names.c %D%/user_names.h
libbase_a_SOURCES += %D%/walk.c %D%/walk.h

