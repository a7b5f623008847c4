# Objects and programs of tests/emulation; ../local.mk lists those that run.

# The C++ library is not linked: only templates and headers are used.
EMULATION_CXX = $(CXX) -std=c++17 $(DEFS) -I$(srcdir)/%D%/include $(DEFAULT_INCLUDES) $(CPPFLAGS) \
	-fno-exceptions -fno-rtti -Wall -Wno-unknown-pragmas -Wno-maybe-uninitialized -fno-math-errno
EMULATION_CC = $(CC) $(DEFS) -I$(srcdir)/%D%/include $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) \
	$(AM_CFLAGS) $(CFLAGS)
if !HAVE_CUDA
EMULATION_CC += -DCUDA_ARCHS='"75 80 90"' -DCUDA_LIBRARY_DIR='"/usr/lib"'
endif
EMULATION_KERNEL = $(EMULATION_FMA) -include $(srcdir)/%D%/emulation_hardware.h -x c++
EMULATION_DEPS = -MD -MP -MF $(@D)/$(DEPDIR)/$(@F).d

if !SANITIZERS
EMULATION_OPTIMIZE = -O2
else
EMULATION_OPTIMIZE = -O1
# two checks that take a fifth of the compile time; a null pointer crashes anyway
EMULATION_KERNEL += -fno-sanitize=null,pointer-overflow
EMULATION_ADDRESS = -DEMULATION_ADDRESS_SANITIZER -fno-omit-frame-pointer
endif

emulation_parts = $(patsubst $(srcdir)/%D%/%.cc,%,$(wildcard $(srcdir)/%D%/*.cc))
emulation_kernels = $(patsubst $(srcdir)/kernels/cuda/%.cu,%,$(wildcard $(srcdir)/kernels/cuda/*.cu)) \
	emulation_hopper_samples emulation_samples
emulation_c = $(patsubst $(srcdir)/kernels/cuda/%.c,%,$(wildcard $(srcdir)/kernels/cuda/*.c))
emulation_objects = $(patsubst %,%D%/machine/%.o,$(emulation_parts) backend machines_cuda \
	$(filter-out cuda_group_none cuda_cudnn cuda_library cuda_nccl cuda_nvml,$(emulation_c)))

# The parts that take most of the time do not access a kernel's memory: no sanitizers.
EMULATION_SANITIZE = $(SANITIZE)
emulation_own = $(patsubst %,%D%/machine/emulation_%.o,block fiber hopper races warp)
$(emulation_own): EMULATION_SANITIZE = $(EMULATION_ADDRESS)
%D%/machine/%.o: %D%/%.cc
	@$(MKDIR_P) $(@D)/$(DEPDIR)
	$(AM_V_GEN)$(EMULATION_CXX) -O2 $(EMULATION_SANITIZE) $(CXXFLAGS) $(EMULATION_DEPS) -c -o $@ $<
%D%/machine/%.o: kernels/cuda/%.c
	@$(MKDIR_P) $(@D)/$(DEPDIR)
	$(AM_V_GEN)$(EMULATION_CC) $(EMULATION_DEPS) -c -o $@ $<
# always a build with CUDA
%D%/machine/backend.o: kernels/backend.c
	@$(MKDIR_P) $(@D)/$(DEPDIR)
	$(AM_V_GEN)$(EMULATION_CC) -UHAVE_CUDA -DHAVE_CUDA=1 $(EMULATION_DEPS) -c -o $@ $<
%D%/machine/%.o: tests/reference/%.c
	@$(MKDIR_P) $(@D)/$(DEPDIR)
	$(AM_V_GEN)$(EMULATION_CC) $(EMULATION_DEPS) -c -o $@ $<
%D%/plain/%.o: kernels/cuda/%.cu
	@$(MKDIR_P) $(@D)/$(DEPDIR)
	$(AM_V_GEN)$(EMULATION_CXX) $(EMULATION_OPTIMIZE) $(SANITIZE) $(CXXFLAGS) $(EMULATION_DEPS) $(EMULATION_KERNEL) -c -o $@ $<
%D%/plain/%.o: %D%/%.cu
	@$(MKDIR_P) $(@D)/$(DEPDIR)
	$(AM_V_GEN)$(EMULATION_CXX) $(EMULATION_OPTIMIZE) $(SANITIZE) $(CXXFLAGS) $(EMULATION_DEPS) $(EMULATION_KERNEL) -c -o $@ $<
# gcc and clang call a function before each access to memory; emulation_races.cc defines them.
# If the compiler can, an uninitialized variable gets a value that no result survives.
%D%/checked/%.o: kernels/cuda/%.cu
	@$(MKDIR_P) $(@D)/$(DEPDIR)
	$(AM_V_GEN)$(EMULATION_CXX) -O1 -fsanitize=thread $(EMULATION_FILL) $(CXXFLAGS) $(EMULATION_DEPS) $(EMULATION_KERNEL) -c -o $@ $<
%D%/checked/%.o: %D%/%.cu
	@$(MKDIR_P) $(@D)/$(DEPDIR)
	$(AM_V_GEN)$(EMULATION_CXX) -O1 -fsanitize=thread $(EMULATION_FILL) $(CXXFLAGS) $(EMULATION_DEPS) $(EMULATION_KERNEL) -c -o $@ $<
-include $(wildcard %D%/*/$(DEPDIR)/*.d)

# One object each, so that the linker leaves nothing out.
%D%/emulated.o: $(emulation_objects) $(emulation_kernels:%=%D%/plain/%.o)
	$(AM_V_GEN)$(LD) -r -o $@ $^
%D%/races.o: $(emulation_objects) $(emulation_kernels:%=%D%/checked/%.o)
	$(AM_V_GEN)$(LD) -r -o $@ $^
LD = ld

CLEANFILES += %D%/emulated.o %D%/races.o

# Tests in C that include private headers of the backend.
EMULATION_LOOKS = -I$(srcdir)/%D%/include $(AM_CPPFLAGS) $(CUDA_TEST_ARCHS)
if !HAVE_CUDA
CUDA_TEST_ARCHS = -DCUDA_ARCHS='"75 80 90"'
endif
EXTRA_PROGRAMS += tests/unit/test_cuda_attention tests/unit/test_cuda_backend
EXTRA_PROGRAMS += tests/unit/test_cuda_attention_gradients tests/unit/test_cuda_device
EXTRA_PROGRAMS += tests/unit/test_cuda_fp8 tests/unit/test_cuda_graph
EXTRA_PROGRAMS += tests/unit/test_cuda_launch tests/unit/test_cuda_fence
EXTRA_PROGRAMS += tests/unit/test_cuda_matmul tests/unit/test_cuda_plan tests/unit/test_cuda_tuning
tests_unit_test_cuda_attention_SOURCES = tests/unit/test_cuda_attention.c tests/unit/unit_cuda.h
tests_unit_test_cuda_attention_SOURCES += tests/unit/unit_cuda_attention.h
tests_unit_test_cuda_attention_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_cuda_attention_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_cuda_attention_gradients_SOURCES = tests/unit/test_cuda_attention_gradients.c
tests_unit_test_cuda_attention_gradients_SOURCES += tests/unit/unit_cuda.h tests/unit/unit_cuda_attention.h
tests_unit_test_cuda_attention_gradients_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_cuda_attention_gradients_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_cuda_backend_SOURCES = tests/unit/test_cuda_backend.c tests/unit/unit_cuda.h
tests_unit_test_cuda_backend_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_cuda_backend_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_cuda_device_SOURCES = tests/unit/test_cuda_device.c tests/unit/unit_cuda.h
tests_unit_test_cuda_device_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_cuda_device_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_cuda_fp8_SOURCES = tests/unit/test_cuda_fp8.c tests/unit/unit_cuda.h
tests_unit_test_cuda_fp8_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_cuda_fp8_LDADD = %D%/emulated.o $(LDADD)
EXTRA_PROGRAMS += tests/unit/test_races_fp8
tests_unit_test_races_fp8_SOURCES = tests/unit/test_cuda_fp8.c tests/unit/unit_cuda.h
tests_unit_test_races_fp8_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_races_fp8_LDADD = %D%/races.o $(LDADD)
tests_unit_test_cuda_graph_SOURCES = tests/unit/test_cuda_graph.c tests/unit/unit_cuda.h
tests_unit_test_cuda_graph_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_cuda_graph_LDADD = %D%/emulated.o $(LDADD)
EXTRA_PROGRAMS += tests/unit/test_cuda_hopper
tests_unit_test_cuda_hopper_SOURCES = tests/unit/test_cuda_hopper.c tests/unit/unit_cuda.h
tests_unit_test_cuda_hopper_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_cuda_hopper_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_cuda_launch_SOURCES = tests/unit/test_cuda_launch.c tests/unit/unit_cuda.h
tests_unit_test_cuda_launch_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_cuda_launch_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_cuda_fence_SOURCES = tests/unit/test_cuda_fence.c tests/unit/unit_cuda.h
tests_unit_test_cuda_fence_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_cuda_fence_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_cuda_matmul_SOURCES = tests/unit/test_cuda_matmul.c tests/unit/unit_cuda.h
tests_unit_test_cuda_matmul_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_cuda_matmul_LDADD = %D%/emulated.o $(LDADD)
EXTRA_PROGRAMS += tests/unit/test_races_thin
tests_unit_test_races_thin_SOURCES = tests/unit/test_cuda_matmul.c tests/unit/unit_cuda.h
tests_unit_test_races_thin_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_races_thin_LDADD = %D%/races.o $(LDADD)
tests_unit_test_cuda_plan_SOURCES = tests/unit/test_cuda_plan.c
tests_unit_test_cuda_plan_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_cuda_plan_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_cuda_tuning_SOURCES = tests/unit/test_cuda_tuning.c tests/unit/unit_cuda.h
tests_unit_test_cuda_tuning_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_cuda_tuning_LDADD = %D%/emulated.o $(LDADD)

# Processes of one run, each with its own emulated GPU.
EXTRA_PROGRAMS += tests/unit/test_emulated_group tests/unit/test_emulated_model_ranks
EXTRA_PROGRAMS += tests/unit/test_recorded_ranks tests/unit/test_trainer_gpus
EXTRA_PROGRAMS += tests/unit/test_emulated_model_gather tests/unit/test_trainer_overlap
tests_unit_test_emulated_group_SOURCES = tests/unit/test_group.c
tests_unit_test_emulated_group_CPPFLAGS = $(AM_CPPFLAGS) -DUNIT_EMULATED
tests_unit_test_emulated_group_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_emulated_model_ranks_SOURCES = tests/unit/test_model_ranks.c
tests_unit_test_emulated_model_ranks_CPPFLAGS = $(AM_CPPFLAGS) -DUNIT_EMULATED
tests_unit_test_emulated_model_ranks_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_emulated_model_gather_SOURCES = tests/unit/test_model_gather.c
tests_unit_test_emulated_model_gather_CPPFLAGS = $(AM_CPPFLAGS) -DUNIT_EMULATED
tests_unit_test_emulated_model_gather_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_recorded_ranks_CPPFLAGS = $(AM_CPPFLAGS) -DUNIT_EMULATED
tests_unit_test_recorded_ranks_LDADD = %D%/emulated.o $(LDADD)
EXTRA_PROGRAMS += tests/unit/test_cuda_group
tests_unit_test_cuda_group_SOURCES = tests/unit/test_cuda_group.c tests/unit/unit_cuda.h
tests_unit_test_cuda_group_CPPFLAGS = $(EMULATION_LOOKS) -DUNIT_EMULATED
tests_unit_test_cuda_group_LDADD = %D%/emulated.o $(LDADD)
EXTRA_PROGRAMS += tests/unit/test_emulated_model_watch
tests_unit_test_emulated_model_watch_SOURCES = tests/unit/test_model_watch.c
tests_unit_test_emulated_model_watch_CPPFLAGS = $(AM_CPPFLAGS) -DUNIT_EMULATED
tests_unit_test_emulated_model_watch_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_trainer_gpus_CPPFLAGS = $(AM_CPPFLAGS) -DUNIT_EMULATED
tests_unit_test_trainer_gpus_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_trainer_overlap_CPPFLAGS = $(EMULATION_LOOKS) -DUNIT_EMULATED
tests_unit_test_trainer_overlap_LDADD = %D%/emulated.o $(LDADD)
EXTRA_PROGRAMS += tests/unit/test_emulated_model_distill
tests_unit_test_emulated_model_distill_SOURCES = tests/unit/test_model_distill.c
tests_unit_test_emulated_model_distill_LDADD = %D%/emulated.o $(LDADD)
EXTRA_PROGRAMS += tests/unit/test_emulated_model_preference
tests_unit_test_emulated_model_preference_SOURCES = tests/unit/test_model_preference.c
tests_unit_test_emulated_model_preference_LDADD = %D%/emulated.o $(LDADD)
EXTRA_PROGRAMS += tests/unit/test_emulated_model
tests_unit_test_emulated_model_SOURCES = tests/unit/test_model_cuda.c
tests_unit_test_emulated_model_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_emulated_model_LDADD = %D%/emulated.o $(LDADD)
EXTRA_PROGRAMS += tests/unit/test_emulated_model_forward
tests_unit_test_emulated_model_forward_SOURCES = tests/unit/test_model_cuda_forward.c
tests_unit_test_emulated_model_forward_LDADD = %D%/emulated.o $(LDADD)
EXTRA_PROGRAMS += tests/unit/test_emulated_model_media
tests_unit_test_emulated_model_media_SOURCES = tests/unit/test_model_media_cuda.c
tests_unit_test_emulated_model_media_LDADD = %D%/emulated.o $(LDADD)
EXTRA_PROGRAMS += tests/unit/test_emulated_tower
tests_unit_test_emulated_tower_SOURCES = tests/unit/test_tower_cuda.c
tests_unit_test_emulated_tower_LDADD = %D%/emulated.o $(LDADD)
EXTRA_PROGRAMS += tests/unit/test_emulated_tower_adapters
tests_unit_test_emulated_tower_adapters_SOURCES = tests/unit/test_tower_adapters.c
tests_unit_test_emulated_tower_adapters_CPPFLAGS = $(AM_CPPFLAGS) -DUNIT_EMULATED
tests_unit_test_emulated_tower_adapters_LDADD = %D%/emulated.o $(LDADD)
EXTRA_PROGRAMS += tests/unit/test_model_pass
tests_unit_test_model_pass_CPPFLAGS = $(EMULATION_LOOKS)
tests_unit_test_model_pass_LDADD = %D%/emulated.o $(LDADD)

# The trainer with emulated GPUs, for the tests of tests/cli. Its list of backends has CUDA in
# every build.
EXTRA_PROGRAMS += %D%/trainspool-train
%C%_trainspool_train_SOURCES = runner/train_main.c
%C%_trainspool_train_LDADD = %D%/emulated.o $(LDADD)

EXTRA_PROGRAMS += tests/unit/test_emulation tests/unit/test_races_emulation
tests_unit_test_emulation_SOURCES = tests/unit/test_emulation.c
tests_unit_test_emulation_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_emulation_CPPFLAGS = -I$(srcdir)/%D%/include $(AM_CPPFLAGS)
tests_unit_test_races_emulation_SOURCES = tests/unit/test_emulation.c
tests_unit_test_races_emulation_LDADD = %D%/races.o $(LDADD)
tests_unit_test_races_emulation_CPPFLAGS = -I$(srcdir)/%D%/include $(AM_CPPFLAGS)
EXTRA_PROGRAMS += tests/unit/test_emulation_hopper
tests_unit_test_emulation_hopper_SOURCES = tests/unit/test_emulation_hopper.c
tests_unit_test_emulation_hopper_LDADD = %D%/emulated.o $(LDADD)
tests_unit_test_emulation_hopper_CPPFLAGS = -I$(srcdir)/%D%/include $(AM_CPPFLAGS)
