/* runner/job/note.c - writes, reads and removes a file with one line. */
#include "config.h"

#include "runner/job/note.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/walk.h"

enum { NOTE_MODE = 0644 };

static void add_line(struct text *out, const char *why)
{
    const struct passwd *user = getpwuid(getuid());
    char now[32];

    clock_iso(now);
    if (user)
        text_addf(out, "by %s ", user->pw_name);
    text_addf(out, "since %s", now);
    if (why)
        text_addf(out, ": %s", why);
    text_addc(out, '\n');
}

bool note_write(const char *name, const char *why, struct error *err)
{
    char *dir = path_dir(name), *above = path_dir(dir);
    struct text text;
    bool ok;

    text_init(&text, 0);
    add_line(&text, why);
    ok = file_replace(name, text.data, text.len, NOTE_MODE, err) &&
         file_sync_dir(above, err);
    text_clear(&text);
    free(above);
    free(dir);
    return ok;
}

/* Return the length of the text without its last character if that was cut. */
static size_t whole_characters(const char *text, size_t len)
{
    size_t bad;

    return text_is_utf8(text, len, &bad) || len < NOTE_ROOM - 1 ? len : bad;
}

bool note_read(int dir, const char *name, bool *exists, char line[NOTE_ROOM],
               struct error *err)
{
    struct stat st;
    ssize_t got = 0;
    int fd;

    line[0] = 0;
    *exists = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!*exists)
        return !fault_is(errno) || error_errno(err, "cannot examine %s", name);
    fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, line, NOTE_ROOM - 1);
        close(fd);
    }
    line[whole_characters(line, got > 0 ? (size_t)got : 0)] = 0;
    line[strcspn(line, "\n")] = 0;
    return true;
}

bool note_remove(const char *name, struct error *err)
{
    char *dir = path_dir(name);
    bool ok = walk_unlink(name) == 0 || errno == ENOENT ||
              error_errno(err, "cannot remove %s", name);

    ok = ok && file_sync_dir(dir, err);
    free(dir);
    return ok;
}
