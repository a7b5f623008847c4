/* base/spread.h - spread the elements of an array over a few threads. */
#ifndef BASE_SPREAD_H
#define BASE_SPREAD_H

#include <stddef.h>

/* Call `each` for parts [from, to) of at most `grain` elements that together are
 * [0, count), in any order and from several threads, which block all signals.  Return
 * when all calls have returned.  A few elements stay in the calling thread. */
void spread_each(size_t count, size_t grain,
                 void (*each)(void *context, size_t from, size_t to), void *context);

#endif
