/* base/cache.h - the user's folder for files that can be made again. */
#ifndef BASE_CACHE_H
#define BASE_CACHE_H

/* Return $XDG_CACHE_HOME/trainspool, or ~/.cache/trainspool, malloc'ed; NULL without a
 * home directory. It may not exist yet. */
char *cache_folder(void);

#endif
