/*
 * tests/fuzz/fuzz.h - shared by the fuzz targets: a promise that reports when it is
 * broken, and a folder for targets that read files.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Report a broken promise and abort: the fuzzer keeps the input. */
#define FUZZ_HOLDS(promise) \
    ((promise) ? (void)0 : fuzz_broken(__FILE__, __LINE__, #promise))
_Noreturn void fuzz_broken(const char *file, int line, const char *promise);

/* A folder of this process, below TMPDIR, or in memory if that is not set; removed at
 * normal exit. */
const char *fuzz_dir(void);
/* Write a file with these bytes to it, not flushed; the returned path is valid until the
 * next call. */
const char *fuzz_file(const char *name, const void *data, size_t len);

/* Remove and return the part of the input before the next byte `end`; all of it if there
 * is none. */
struct fuzz_part {
    const char *data;
    size_t len;
};
struct fuzz_part fuzz_take(struct fuzz_part *rest, char end);
/* The same as a NUL-terminated text without NULs inside; the caller frees it. */
char *fuzz_word(struct fuzz_part part);

#endif
