# The fuzz targets, made by clang with its fuzzer and sanitizers in fuzz-build/ beside the
# ordinary build, of which only config.h is used.  `make fuzz` calls this with
#
#     top_srcdir top_builddir     the two trees
#     SOURCES                     of the layers the targets are linked with
#     TARGETS                     names: document, json
#     CPPFLAGS LIBS               of the libraries
#     SECONDS                     how long each runs; 0: only build them

FUZZ_CLANG = clang
CLANG_FLAGS = -std=gnu11 -g -O1 -fno-omit-frame-pointer -fno-math-errno -DHAVE_CONFIG_H \
	-I$(top_builddir) -I$(top_srcdir) $(CPPFLAGS) -MMD -MP
CHECKED = -fsanitize=address,undefined -fno-sanitize-recover=undefined

# they read job files: lines of keys and values are put in and taken out
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
