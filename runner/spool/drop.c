/*
 * runner/spool/drop.c - checks a dropped file in this order: its name, a safe open, the
 * open file, and whether a process still writes to it. Each check may be the last.
 */
#include "config.h"

#include "runner/spool/drop.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/owner.h"
#include "base/shared_files.h"
#include "base/size.h"
#include "patcher/document/document.h"
#include "runner/job/job.h"
#include "runner/spool/spool_folder.h"

enum { LONGEST_NAME = 200 };

/* Seconds: how long a file must stay unchanged after a program closed it, and otherwise;
 * when to look again at a file that is being written; how long a second link is
 * tolerated.  Scripts write a file in several steps, half a second apart and more. */
static const double settle_written = 1, settle_seen = 2, again_while_written = 0.2,
                    link_patience = 60;

static bool is_printable(const char *name)
{
    for (size_t i = 0; name[i]; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return false;
    /* U+0080 to U+009F are control characters too */
    for (size_t i = 0; name[i]; i++)
        if ((unsigned char)name[i] == 0xc2 && (unsigned char)name[i + 1] < 0xa0)
            return false;
    return text_is_utf8(name, strlen(name), NULL);
}

bool drop_name_is_valid(const char *name)
{
    static const char *const unfinished[] = { ".tmp.yaml", ".tmp.yml", ".part.yaml",
                                              ".part.yml" };
    size_t len = strlen(name);

    if (name[0] == '.' || name[0] == '#' || len > LONGEST_NAME)
        return false;
    if (!(text_ends(name, ".yaml") && len > 5) && !(text_ends(name, ".yml") && len > 4))
        return false;
    for (size_t i = 0; i < TS_COUNT(unfinished); i++)
        if (text_ends(name, unfinished[i]))
            return false;
    return is_printable(name);
}

/* openat2(2) cannot be led out of the folder; kernels older than 5.6 only have openat. */
static int open_safely(int dir, const char *name)
{
    struct open_how how = { .flags =
                                O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC,
                            .resolve =
                                RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV };
    int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));

    if (fd < 0 && errno == ENOSYS)
        fd = openat(dir, name, (int)how.flags);
    return fd;
}

static enum drop_verdict refuse(struct drop *out, const char *reason)
{
    snprintf(out->reason, sizeof(out->reason), "%s", reason);
    return DROP_REFUSED;
}

static enum drop_verdict wait_for(struct drop *out, double seconds)
{
    out->again = seconds > 0.01 ? seconds : 0.01;
    return DROP_WAIT;
}

/* Wait until a fault of the machine has passed. */
static enum drop_verdict wait_for_machine(const char *name, int number, struct drop *out)
{
    error_set(&out->fault, ERROR_FAULT, "cannot examine %s: %s", name, strerror(number));
    return wait_for(out, DROP_RETRY_SECONDS);
}

/* Report why a name could not be opened. */
static enum drop_verdict not_opened(int dir, const char *name, int number,
                                    struct drop *out)
{
    if (number == ENOENT)
        return DROP_GONE;
    if (fault_is(number))
        return wait_for_machine(name, number, out);
    if (fstatat(dir, name, &out->st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? DROP_GONE : wait_for_machine(name, errno, out);
    if (number == ELOOP || S_ISLNK(out->st.st_mode))
        return refuse(out, "it is a symbolic link; copy the file itself");
    if (number == EACCES || number == EPERM)
        return refuse(out, "permission denied");
    if (number == ENXIO || S_ISSOCK(out->st.st_mode))
        return refuse(out, "it is not a regular file");
    if (number == EXDEV)
        return refuse(out, "it is on another file system");
    return wait_for_machine(name, number, out);
}

static enum drop_verdict check_open_file(const char *name, struct drop *out)
{
    const struct stat *st = &out->st;
    bool shared;
    int fault;

    if (!S_ISREG(st->st_mode))
        return refuse(out, S_ISDIR(st->st_mode) ? "it is a folder"
                                                : "it is not a regular file");
    if (!owner_is_trusted(st->st_uid) && out->user != st->st_uid)
        return refuse(out, "it belongs to another user");
    shared = owner_shares(st, &fault);
    if (fault)
        return wait_for_machine(name, fault, out);
    if (shared)
        return refuse(out, "others may write to it; run chmod go-w");
    if ((uintmax_t)st->st_size > DOCUMENT_MAX_BYTES)
        return refuse(out, "it is larger than 1 MiB");
    return DROP_COMPLETE;
}

enum lease { LEASE_GRANTED, LEASE_WRITER, LEASE_UNKNOWN };

/* A read lease is granted only while no process of this machine has the file open for
 * writing (fcntl(2)). */
static enum lease try_lease(int fd)
{
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
        fcntl(fd, F_SETLEASE, F_UNLCK);
        return shared_files(fd) ? LEASE_UNKNOWN : LEASE_GRANTED;
    }
    return errno == EAGAIN ? LEASE_WRITER : LEASE_UNKNOWN;
}

/* Check the last bytes: the YAML end marker `...` on a separate line; a final newline. */
static void read_end(int fd, off_t size, bool *marked, bool *ended)
{
    char tail[6] = "\n";
    off_t from = size > 5 ? size - 5 : 0;
    ssize_t got = pread(fd, tail + 1, 5, from);

    *marked = *ended = false;
    if (got <= 0)
        return;
    got++;
    *ended = tail[got - 1] == '\n';
    got -= *ended;
    *marked = got >= 4 && memcmp(tail + got - 4, "\n...", 4) == 0;
}

static enum drop_verdict is_complete(int fd, double now,
                                     const struct drop_history *history, struct drop *out)
{
    enum lease lease = try_lease(fd);
    bool marked, ended;
    double settle, still;

    if (lease == LEASE_WRITER)
        return wait_for(out, again_while_written);
    read_end(fd, out->st.st_size, &marked, &ended);
    if (history->hint == WATCH_RENAMED || marked)
        return DROP_COMPLETE;
    settle = history->hint == WATCH_WRITTEN && lease == LEASE_GRANTED && ended
                 ? settle_written
                 : settle_seen;
    still = now - history->still;
    return still >= settle ? DROP_COMPLETE : wait_for(out, settle - still);
}

void drop_note_event(struct drop_history *history, enum watch_hint hint, double now)
{
    if (hint == WATCH_SEEN)
        return;
    history->hint = hint;
    history->fresh = true;
    history->still = now; /* even if size and times are as before */
}

/* An event says nothing about a file that changed after it without another one: events
 * get lost. */
static void note_check(struct drop_history *history, const struct stat *st, double now)
{
    char source[64];

    job_source(st, source);
    if (strcmp(source, history->source) != 0 ||
        st->st_mtim.tv_sec != history->modified.tv_sec ||
        st->st_mtim.tv_nsec != history->modified.tv_nsec) {
        strcpy(history->source, source);
        history->modified = st->st_mtim;
        history->still = now;
        if (!history->fresh)
            history->hint = WATCH_SEEN;
    }
    history->fresh = false;
}

/* A second link is a rename in progress for a moment; after that it is another user's
 * file. */
static enum drop_verdict linked(double now, const struct drop_history *history,
                                struct drop *out)
{
    if (now - history->first < link_patience)
        return wait_for(out, 1);
    return refuse(out, "it has a second name (a hard link); copy the file");
}

uid_t drop_user(int dir, uid_t owner)
{
    return !owner_is_trusted(owner) && spool_folder_is_shared(dir) ? owner : geteuid();
}

enum drop_verdict drop_inspect(int dir, const char *name, double now,
                               struct drop_history *history, struct drop *out)
{
    enum drop_verdict verdict;
    int fd = open_safely(dir, name);

    *out = (struct drop) { 0 };
    if (fd < 0) {
        verdict = not_opened(dir, name, errno, out);
        if (verdict == DROP_REFUSED)
            note_check(history, &out->st, now);
        out->user = drop_user(dir, out->st.st_uid);
        return verdict;
    }
    if (fstat(fd, &out->st) != 0) {
        verdict = wait_for_machine(name, errno, out);
        close(fd);
        return verdict;
    }
    note_check(history, &out->st, now);
    out->user = drop_user(dir, out->st.st_uid);
    verdict = check_open_file(name, out);
    if (verdict == DROP_COMPLETE && out->st.st_nlink == 0)
        verdict = DROP_GONE;
    else if (verdict == DROP_COMPLETE && out->st.st_nlink > 1)
        verdict = linked(now, history, out);
    else if (verdict == DROP_COMPLETE)
        verdict = is_complete(fd, now, history, out);
    close(fd);
    return verdict;
}

bool drop_digest(int dir, const char *name, const struct drop *drop, char out[65],
                 struct error *err)
{
    struct text text;
    struct stat st, after;
    char was[64], is[64];
    bool ok;

    text_init(&text, DOCUMENT_MAX_BYTES);
    ok = file_read_at(dir, name, DOCUMENT_MAX_BYTES, &text, &st, err) &&
         (fstatat(dir, name, &after, AT_SYMLINK_NOFOLLOW) == 0 ||
          error_errno(err, "cannot examine %s", name));
    if (ok) {
        job_source(&drop->st, was);
        job_source(&after, is);
        if (strcmp(was, is) != 0 || (uintmax_t)st.st_size != text.len)
            ok = error_set(err, ERROR_DATA, "%s changed while it was read", name);
        digest_bytes(text.data, text.len, out);
    }
    text_clear(&text);
    return ok;
}
