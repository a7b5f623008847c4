
noinst_LIBRARIES += libprecision.a

libprecision_a_SOURCES =
libprecision_a_SOURCES += %D%/accelerator_table.c
libprecision_a_SOURCES += %D%/affine.c %D%/affine.h
libprecision_a_SOURCES += %D%/calibration.c %D%/calibration.h
libprecision_a_SOURCES += %D%/cgroup.c %D%/cgroup.h
libprecision_a_SOURCES += %D%/device.c %D%/device.h
libprecision_a_SOURCES += %D%/device_name.c %D%/device_table.c
libprecision_a_SOURCES += %D%/dynamic_map.c %D%/dynamic_map.h
libprecision_a_SOURCES += %D%/format.c %D%/format.h
libprecision_a_SOURCES += %D%/memory.c %D%/memory.h
libprecision_a_SOURCES += %D%/nf4.c %D%/nf4.h
libprecision_a_SOURCES += %D%/packed.c %D%/packed.h
libprecision_a_SOURCES += %D%/policy.c %D%/policy.h
libprecision_a_SOURCES += %D%/probe.c %D%/probe.h
libprecision_a_SOURCES += %D%/scaler.c %D%/scaler.h
libprecision_a_SOURCES += %D%/scaler_rule.h
