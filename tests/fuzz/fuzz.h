/*
 * tests/fuzz/fuzz.h - helpers that the fuzz targets share: assertions, a temporary folder
 * for targets that read files, and input parsing.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Assert a condition.  If it is false, print it and abort, so that the fuzzer keeps the
 * input. */
#define FUZZ_HOLDS(condition) \
    ((condition) ? (void)0 : fuzz_broken(__FILE__, __LINE__, #condition))
_Noreturn void fuzz_broken(const char *file, int line, const char *condition);

/* Return the temporary folder of this process: below TMPDIR, or in memory if that is not
 * set.  It is removed when the process exits normally. */
const char *fuzz_dir(void);
/* Write a file with these bytes to that folder, without fsync.  Return its path, which is
 * valid until the next call. */
const char *fuzz_file(const char *name, const void *data, size_t len);

/* Cut the input at the next byte `end` and return the part before it, or all of the input
 * if there is no such byte.  `end` is dropped. */
struct fuzz_part {
    const char *data;
    size_t len;
};
struct fuzz_part fuzz_take(struct fuzz_part *rest, char end);
/* Return a copy that ends at the first NUL and is terminated by one.  The caller frees
 * it. */
char *fuzz_word(struct fuzz_part part);

#endif
