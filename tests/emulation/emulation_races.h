/*
 * tests/emulation/emulation_races.h - which accesses of a launch are in no order, and
 * which read what nobody has written.
 *
 * Kernels compiled with -fsanitize=thread call a function before each access to memory;
 * the functions are here, in place of ThreadSanitizer's own: a block has barriers, not
 * locks, so instead of clocks for each pair of threads one clock is enough, and a finding
 * names block and thread.  Two accesses to the same byte, not both reads, not both
 * atomic, by two threads, are ordered
 *   in a block      by a barrier between them,
 *   in a warp       by a barrier or a whole __syncwarp (a shuffle does not order memory),
 *   across blocks   never, until the launch has ended.
 * Memory of the device and of a block begins as UNWRITTEN_HALF in every half word: a read
 * of one that still is so is a finding, whatever becomes of what was read.  Not seen: a
 * byte of a word that is written in part, and in accesses of more than 2 bytes a half of
 * one.
 *
 * Nothing here does anything where no kernel was compiled so.
 */
#ifndef TESTS_EMULATION_EMULATION_RACES_H
#define TESTS_EMULATION_EMULATION_RACES_H

#include <stddef.h>
#include <stdint.h>

struct fibre;

enum { RACES_READ, RACES_WRITE, RACES_ATOMIC };

/* Is some kernel of this program compiled so? */
bool races_watching(void);
void races_begin_launch(void);
void races_begin_block(const void *shared, size_t bytes);
void races_end_launch(void);
void races_barrier(void); /* of the block that runs */
void races_sync_warp(int warp);
/* Who runs from here on; NULL: nobody. */
void races_thread(const struct fibre *fibre);
/* By thread `thread` of the block that runs. */
void races_access(int thread, const void *at, size_t bytes, int kind, const void *where);

#endif
