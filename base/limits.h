/*
 * base/limits.h - limits of this process, so that a hostile file ends it instead of
 * taking the machine's memory or time. Only the soft limits change, so that a program that
 * it starts can lift them (limits_lift), except where "fix" says that they stay.
 */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Return what counts as data of this process: heap and private writable mappings, not
 * mapped files. 0 without /proc. */
uint64_t limits_data_bytes(void);
/* Allow so many bytes of data in addition to what the process has now. Allocations beyond
 * that fail. */
void limits_data(uint64_t more);
/* Allow so many seconds of CPU time in addition to those used so far; then SIGXCPU ends
 * the process. */
void limits_cpu(double more);
void limits_no_core(void);
/* As limits_data, for good. */
void limits_fix_data(uint64_t more);
/* For good: no core file, at most 8192 open files, at most 4 TiB in a file; beyond that,
 * writing fails with EFBIG. */
void limits_fix_files(void);
/* Allow 8192 open files, as far as the system allows that.  Return how many are allowed. */
uint64_t limits_raise_files(void);
/* Raise the limits of data and of CPU time to what the system allows. */
void limits_lift(void);

/* Let the process end when its parent does, however that ends. Return false if it has
 * ended already. */
bool limits_end_with(pid_t parent);

#endif
