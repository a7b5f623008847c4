/* base/instant.h - a point in time as people write it. */
#ifndef BASE_INSTANT_H
#define BASE_INSTANT_H

#include "base/error.h"

struct instant {
    double seconds; /* since 1970; if relative, after an instant that the reader knows */
    bool relative;
};

/* Read "2026-12-01T06:00:00+01:00" (ISO 8601; the seconds may be missing, a blank may stand
 * for the T, the zone is Z or an offset and must be there), or "+90m": a number with the
 * unit s, m, h or d, which may be missing for seconds. ERROR_USAGE. */
bool instant_read(const char *text, struct instant *out, struct error *err);

#endif
