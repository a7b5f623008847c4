/* base/error.c - fill in the record that carries every failure. */
#include "config.h"

#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"

static bool is_unset(const struct error *err)
{
    return err && err->code == ERROR_NONE;
}

/* End a truncated sentence in three dots, never in the middle of a character. */
static void add_ellipsis(char *text, size_t room)
{
    size_t at = room - sizeof("...");

    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
        at--;
    memcpy(text + at, "...", sizeof("..."));
}

static void fill(struct error *err, enum error_code code, const char *fmt, va_list args)
{
    int len;

    err->code = code;
    err->file[0] = 0;
    err->at = (struct mark) { 0 };
    len = vsnprintf(err->text, sizeof(err->text), fmt, args);
    if (len >= (int)sizeof(err->text))
        add_ellipsis(err->text, sizeof(err->text));
}

bool error_set(struct error *err, enum error_code code, const char *fmt, ...)
{
    va_list args;

    if (!is_unset(err))
        return false;
    va_start(args, fmt);
    fill(err, code, fmt, args);
    va_end(args);
    return false;
}

bool error_at(struct error *err, enum error_code code, const char *file, struct mark at,
              const char *fmt, ...)
{
    va_list args;

    if (!is_unset(err))
        return false;
    va_start(args, fmt);
    fill(err, code, fmt, args);
    va_end(args);
    if (snprintf(err->file, sizeof(err->file), "%s", file) >= (int)sizeof(err->file))
        add_ellipsis(err->file, sizeof(err->file));
    err->at = at;
    return false;
}

/* What errno means where links are not followed (base/walk.h). */
static const char *reason(int number)
{
    return number == ELOOP     ? "a symbolic link is not followed"
           : number == ENOLINK ? "a symbolic link on the way belongs to another user"
           : number == EMLINK  ? "it has a second name (a hard link)"
                               : strerror(number);
}

/* Fill *err, or a copy that only the record of faults keeps, from errno. */
static bool fill_errno(struct error *err, enum error_code code, const char *fmt,
                       va_list args)
{
    int saved = errno;
    struct error own = { 0 }, *out = is_unset(err) ? err : &own;
    size_t len;

    fill(out, fault_is(saved) ? ERROR_FAULT : code, fmt, args);
    len = strlen(out->text);
    if (snprintf(out->text + len, sizeof(out->text) - len, ": %s", reason(saved)) >=
        (int)(sizeof(out->text) - len))
        add_ellipsis(out->text, sizeof(out->text));
    fault_keep(out);
    errno = saved;
    return false;
}

bool error_errno(struct error *err, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fill_errno(err, ERROR_SYSTEM, fmt, args);
    va_end(args);
    return false;
}

bool error_errno_data(struct error *err, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fill_errno(err, ERROR_DATA, fmt, args);
    va_end(args);
    return false;
}

bool error_is_memory(const struct error *err)
{
    const char *ending = strerror(ENOMEM); /* as fill_errno appends it */
    size_t len = strlen(err->text), ends = strlen(ending);

    return err->code == ERROR_MEMORY || (err->code == ERROR_FAULT && len >= ends &&
                                         strcmp(err->text + len - ends, ending) == 0);
}

void error_clear(struct error *err)
{
    if (err)
        *err = (struct error) { 0 };
}
