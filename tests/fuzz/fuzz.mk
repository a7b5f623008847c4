# Build the fuzz targets with clang, libFuzzer and sanitizers in fuzz-build/, next to the ordinary
# build, and run them.  Only config.h of the ordinary build is used.  `make fuzz` sets these variables:
#
#     top_srcdir top_builddir     the source tree and the build tree
#     SOURCES                     sources of the layers that the targets are linked with
#     TARGETS                     names, such as document and json
#     CPPFLAGS LIBS               flags of the libraries
#     SECONDS                     how long each target runs; 0: only build

FUZZ_CLANG = clang
CLANG_FLAGS = -std=gnu11 -g -O1 -fno-omit-frame-pointer -fno-math-errno -DHAVE_CONFIG_H \
	-I$(top_builddir) -I$(top_srcdir) $(CPPFLAGS) -MMD -MP
CHECKED = -fsanitize=address,undefined -fno-sanitize-recover=undefined

# targets that read job files: their mutator inserts and removes lines of keys and values
JOB_TARGETS = document patcher report schema undo

names = $(patsubst %.c,%,$(filter %.c,$(patsubst $(top_srcdir)/%,%,$(SOURCES))))
objects = $(names:%=obj/%.o)
programs = $(TARGETS:%=fuzz_%)

run: $(programs)
	@sh '$(top_srcdir)/tests/fuzz/fuzz.sh' '$(top_srcdir)/tests/fuzz' '$(SECONDS)' $(TARGETS)

obj/%.o: $(top_srcdir)/%.c $(top_builddir)/config.h
	@mkdir -p $(@D)
	@$(FUZZ_CLANG) $(CLANG_FLAGS) $(CHECKED) -fsanitize=fuzzer-no-link -c -o $@ $<

libfuzzed.a: $(objects)
	@rm -f $@
	@ar crT $@ $(objects)

mutators = $(if $(filter $(1),$(JOB_TARGETS)),obj/tests/fuzz/mutate_job.o)
.SECONDEXPANSION:
fuzz_%: obj/tests/fuzz/fuzz_%.o obj/tests/fuzz/fuzz.o $$(call mutators,%) libfuzzed.a
	@echo "  fuzz  $@"
	@$(FUZZ_CLANG) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LIBS)

.SECONDARY:
.PHONY: run
-include $(objects:.o=.d) $(wildcard obj/tests/fuzz/*.d)
