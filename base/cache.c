/* base/cache.c - names the cache folder. */
#include "config.h"

#include "base/cache.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/path.h"

char *cache_folder(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache && *cache == '/') /* the specification ignores relative paths */
        return path_join(cache, "trainspool");
    /* the home of a system user may be one that does not exist, and must not */
    return home && *home == '/' && access(home, X_OK) == 0
               ? path_join(home, ".cache/trainspool")
               : NULL;
}
