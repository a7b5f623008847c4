/*
 * tests/emulation/emulation_races.h - finds unordered accesses of a launch and reads of
 * uninitialized memory.
 *
 * Kernels compiled with -fsanitize=thread call a function before each access to memory.
 * These functions are here, in place of ThreadSanitizer's: a block has barriers, not
 * locks, so one clock is enough instead of one for each pair of threads, and a finding
 * names block and thread. Two accesses to the same byte by two threads, at least one a
 * write and not both atomic, are ordered
 *     in a block      by a barrier between them,
 *     in a warp       by a barrier or a full __syncwarp (a shuffle orders none),
 *     across blocks   never, until the launch has ended.
 *
 * Memory of the device and of a block starts as UNWRITTEN_HALF in every 16-bit word.
 * Reading a word that still has this value is a finding, whatever happens to the value.
 * Not found: a byte of a partly written word, and one 16-bit half in an access of more
 * than 2 bytes.
 *
 * Nothing here has an effect in programs without kernels compiled that way.
 */
#ifndef TESTS_EMULATION_EMULATION_RACES_H
#define TESTS_EMULATION_EMULATION_RACES_H

#include <stddef.h>
#include <stdint.h>

struct fiber;

enum { RACES_READ, RACES_WRITE, RACES_ATOMIC };

/* Return whether some kernel of this program is compiled that way. */
bool races_watching(void);
void races_begin_launch(void);
void races_begin_block(const void *shared, size_t bytes);
void races_end_launch(void);
void races_barrier(void); /* of the running block */
void races_sync_warp(int warp);
/* Set the running thread; NULL: none. */
void races_thread(const struct fiber *fiber);
/* Record an access by thread `thread` of the running block. */
void races_access(int thread, const void *at, size_t bytes, int kind, const void *where);

#endif
