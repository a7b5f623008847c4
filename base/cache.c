/* base/cache.c - names the cache folder. */
#include "config.h"

#include "base/cache.h"

#include <stdlib.h>

#include "base/path.h"

char *cache_folder(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache && *cache == '/') /* the specification ignores relative paths */
        return path_join(cache, "trainspool");
    return home && *home == '/' ? path_join(home, ".cache/trainspool") : NULL;
}
