/* runner/lease.c - the files of a submission, as rank 0 uses them. */
#include "config.h"

#include "runner/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/file.h"
#include "base/walk.h"
#include "runner/cluster/slurm.h"

enum { MARK = 48 };

void lease_take_names(struct job *job)
{
    free(job->state);
    free(job->lock);
    job->state = path_join(job->run_dir, "cluster.json");
    job->lock = path_join(job->run_dir, "lease");
}

/* The script names its start, so that it can compare the mark, too. */
static void choose_mark(char mark[MARK + 1])
{
    const char *start = getenv("TRAINSPOOL_START");
    unsigned char bytes[MARK / 2];

    if (start && *start && strlen(start) <= MARK && !strpbrk(start, " \n")) {
        snprintf(mark, MARK + 1, "%s", start);
        return;
    }
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        abort();
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(mark + 2 * i, 3, "%02x", bytes[i]);
}

/* Return whether the open file is of the submission, whichever start has it. */
static bool names(int fd, const char *name)
{
    const size_t len = strlen(name);
    char text[SLURM_NAME + 1] = "";

    return pread(fd, text, sizeof(text) - 1, 0) >= (ssize_t)len &&
           memcmp(text, name, len) == 0 && (text[len] == '\n' || text[len] == '\0');
}

/* The mark has a fixed width: it replaces an earlier one, whatever that was. */
static bool write_mark(int fd, struct lease *lease, struct error *err)
{
    const size_t at = strlen(lease->name);
    const char *rest = lease->text + at;
    char mark[MARK + 1];

    choose_mark(mark);
    snprintf(lease->text, sizeof(lease->text), "%s\n%-*s\n", lease->name, MARK, mark);
    return (pwrite(fd, rest, strlen(rest), (off_t)at) == (ssize_t)strlen(rest) &&
            fsync(fd) == 0) ||
           error_errno(err, "cannot write the lease");
}

int lease_take(const struct job *job, const char *name, struct lease *out,
               struct error *err)
{
    int fd = walk_open(job->lock, O_RDWR, 0);

    snprintf(out->name, sizeof(out->name), "%s", name);
    if (fd >= 0 && names(fd, name) && !write_mark(fd, out, err)) {
        close(fd);
        return -1;
    }
    if (fd >= 0 && names(fd, name) && lease_is_held(job, out))
        return fd;
    if (fd >= 0)
        close(fd);
    error_set(err, ERROR_SYSTEM,
              "%s: another submission or start has taken its place, or it was canceled",
              job->path);
    return -1;
}

bool lease_is_held(const struct job *job, const struct lease *lease)
{
    const size_t len = strlen(lease->text);
    char text[sizeof(lease->text)];
    int fd = walk_open(job->lock, O_RDONLY, 0);
    ssize_t got;

    if (fd < 0) /* a file system that does not answer shows nothing */
        return errno != ENOENT && errno != ENOTDIR;
    got = pread(fd, text, sizeof(text), 0);
    close(fd);
    return got < 0 || ((size_t)got == len && memcmp(text, lease->text, len) == 0);
}

void lease_note_exit(const struct job *job, const struct lease *lease, int status)
{
    struct text text, file;

    if (!lease_is_held(job, lease)) /* slurm.exit is another start's */
        return;
    text_init(&file, 0);
    text_init(&text, 0);
    text_addf(&file, "%s/slurm.exit", job->run_dir);
    text_addf(&text, "%s %d\n", lease->name, status);
    file_replace(file.data, text.data, text.len, 0600, NULL);
    text_clear(&text);
    text_clear(&file);
}
