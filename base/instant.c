/* base/instant.c - reads dates and delays. */
#include "config.h"

#include "base/instant.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A hundred years. */
static const double longest_delay = 3.2e9;

static bool fail(const char *text, struct error *err)
{
    return error_set(
        err, ERROR_USAGE,
        "expected a time with its zone, such as 2026-12-01T06:00:00+01:00, or "
        "a delay such as +2h, not '%.80s'",
        text);
}

static bool read_delay(const char *text, struct instant *out)
{
    static const char units[] = "smhd";
    static const double seconds[] = { 1, 60, 3600, 86400 };
    const char *unit;
    char *end;

    if (!isdigit((unsigned char)text[1]))
        return false;
    out->seconds = strtod(text + 1, &end);
    out->relative = true;
    unit = *end ? strchr(units, *end) : NULL;
    if (unit)
        out->seconds *= seconds[unit - units];
    return (!*end || (unit && !end[1])) && isfinite(out->seconds) &&
           out->seconds <= longest_delay;
}

/* Read exactly `digits` digits. */
static bool take(const char **at, int digits, int *out)
{
    *out = 0;
    for (int i = 0; i < digits; i++) {
        if (!isdigit((unsigned char)**at))
            return false;
        *out = 10 * *out + (*(*at)++ - '0');
    }
    return true;
}

static bool skip(const char **at, const char *any)
{
    bool found = **at && strchr(any, **at);

    *at += found;
    return found;
}

/* "Z", "+01:00", "-0530" or "+01": seconds that the zone is ahead. */
static bool read_zone(const char *at, int *ahead)
{
    int sign = *at == '-' ? -1 : 1, hours, minutes = 0;

    *ahead = 0;
    if (skip(&at, "Zz"))
        return !*at;
    if (!skip(&at, "+-") || !take(&at, 2, &hours))
        return false;
    if (*at && (skip(&at, ":") || isdigit((unsigned char)*at)) && !take(&at, 2, &minutes))
        return false;
    *ahead = sign * (3600 * hours + 60 * minutes);
    return !*at && hours <= 14 && minutes < 60;
}

/* timegm(3) normalizes what is not a date, such as February 30. */
static bool is_date(const struct tm *date, time_t seconds)
{
    struct tm check;

    return gmtime_r(&seconds, &check) && check.tm_year == date->tm_year &&
           check.tm_mon == date->tm_mon && check.tm_mday == date->tm_mday &&
           check.tm_hour == date->tm_hour && check.tm_min == date->tm_min &&
           check.tm_sec == date->tm_sec;
}

static bool read_date(const char *at, struct instant *out)
{
    struct tm date = { 0 }, given;
    time_t seconds;
    int ahead;

    if (!take(&at, 4, &date.tm_year) || !skip(&at, "-") || !take(&at, 2, &date.tm_mon) ||
        !skip(&at, "-") || !take(&at, 2, &date.tm_mday) || !skip(&at, "Tt ") ||
        !take(&at, 2, &date.tm_hour) || !skip(&at, ":") || !take(&at, 2, &date.tm_min))
        return false;
    if (skip(&at, ":") && !take(&at, 2, &date.tm_sec))
        return false;
    at += strspn(at, " ");
    if (!read_zone(at, &ahead))
        return false;
    date.tm_year -= 1900;
    date.tm_mon -= 1;
    given = date;
    seconds = timegm(&date);
    out->seconds = (double)seconds - ahead;
    out->relative = false;
    return is_date(&given, seconds);
}

bool instant_read(const char *text, struct instant *out, struct error *err)
{
    return (text[0] == '+' ? read_delay(text, out) : read_date(text, out)) ||
           fail(text, err);
}
