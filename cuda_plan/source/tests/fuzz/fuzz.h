/*
 * tests/fuzz/fuzz.h - what the fuzz targets share: a promise that is told when it is
 * broken, and a folder for those that read files.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Tell a broken promise and end: the fuzzer keeps the input. */
#define FUZZ_HOLDS(promise) \
    ((promise) ? (void)0 : fuzz_broken(__FILE__, __LINE__, #promise))
_Noreturn void fuzz_broken(const char *file, int line, const char *promise);

/* A folder of this process, below TMPDIR, or in memory where that is not set; removed
 * when it ends in order. */
const char *fuzz_dir(void);
/* A file in it with these bytes, not flushed; its path, good until the next call. */
const char *fuzz_file(const char *name, const void *data, size_t len);

/* The part of the input before the next byte `end`, which is taken off; all that is left
 * where there is none. */
struct fuzz_part {
    const char *data;
    size_t len;
};
struct fuzz_part fuzz_take(struct fuzz_part *rest, char end);
/* The same as a text that ends in a NUL and has none inside; the caller frees. */
char *fuzz_word(struct fuzz_part part);

#endif
