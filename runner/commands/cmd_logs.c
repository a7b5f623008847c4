/* runner/commands/cmd_logs.c - logs: prints train.log of a job, once or continuously. */
#include "config.h"

#include "runner/commands/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/job/job.h"
#include "runner/output/report.h"

static int cmd_logs(const struct options *options);

const struct command command_logs = {
    .name = "logs",
    .operands = "JOB",
    .min_operands = 1,
    .max_operands = 1,
    .options =
        (const enum option_id[]) { OPTION_FOLLOW, OPTION_LINES, OPTION_RAW, OPTION_END },
    .help = "show the log of a job",
    .run = cmd_logs,
};

enum { BLOCK = 64 << 10 };

/* Find where the last `lines` lines begin. */
static off_t find_tail(int fd, int64_t lines)
{
    char block[4096];
    off_t at = lseek(fd, 0, SEEK_END);
    bool first = true; /* the newline at the end of the file does not start a line */

    while (at > 0) {
        off_t from = at > (off_t)sizeof(block) ? at - (off_t)sizeof(block) : 0;
        ssize_t got = pread(fd, block, (size_t)(at - from), from);

        if (got <= 0)
            return 0;
        for (ssize_t i = got - 1; i >= 0; i--) {
            if (block[i] == '\n' && !first && lines-- == 1)
                return from + i + 1;
            first = false;
        }
        at = from;
    }
    return 0;
}

/* Print whole lines; control characters are made visible unless --raw. */
static void show_block(struct report *report, const char *data, size_t len, bool raw)
{
    struct text out;
    size_t from = 0;

    text_init(&out, 0);
    if (raw)
        text_add(&out, data, len);
    for (size_t i = 0; !raw && i <= len; i++) {
        if (i < len && data[i] != '\n' && data[i] != '\t')
            continue;
        text_add_visible(&out, data + from, i - from);
        text_add(&out, data + i, i < len);
        from = i + 1;
    }
    report_write(report, &out);
    text_clear(&out);
}

/* A character cut by the end of a block stays for the next block. */
static size_t whole_characters(const char *data, size_t len)
{
    size_t back = 0;

    while (back < len && back < 4 && ((unsigned char)data[len - back - 1] & 0xc0) == 0x80)
        back++;
    if (back < len && (unsigned char)data[len - back - 1] >= 0xc0)
        back++;
    return back > 0 && back < 4 && !text_is_utf8(data + len - back, back, NULL)
               ? len - back
               : len;
}

static bool copy(struct report *report, int fd, bool raw, struct error *err)
{
    static char block[BLOCK];
    ssize_t got;

    while ((got = read(fd, block, sizeof(block))) > 0) {
        size_t len = whole_characters(block, (size_t)got);

        len = len > 0 ? len : (size_t)got;
        show_block(report, block, len, raw);
        if (lseek(fd, (off_t)len - got, SEEK_CUR) < 0)
            break;
    }
    fflush(report->out);
    return got == 0 || error_errno(err, "cannot read the log");
}

static bool follow(struct report *report, int fd, bool raw, struct error *err)
{
    static const struct timespec moment = { .tv_nsec = 200000000 };

    while (!ferror(report->out) && copy(report, fd, raw, err))
        nanosleep(&moment, NULL);
    return err->code == ERROR_NONE;
}

static bool show(struct report *report, const struct options *options,
                 const struct job *job, struct error *err)
{
    int fd = open(job->log, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool ok;

    if (fd < 0 && errno == ENOENT && !file_exists(job->path))
        return error_set(err, ERROR_USAGE, "there is no job %s", job->path);
    if (fd < 0 && errno == ENOENT)
        return error_set(err, ERROR_DATA, "%s has no log: it never ran", job->path);
    if (fd < 0)
        return error_errno(err, "cannot open %s", job->log);
    if (options->lines >= 0)
        lseek(fd, options->lines ? find_tail(fd, options->lines) : 0,
              options->lines ? SEEK_SET : SEEK_END);
    ok = copy(report, fd, options->raw, err) &&
         (!options->follow || follow(report, fd, options->raw, err));
    close(fd);
    return ok;
}

static int cmd_logs(const struct options *options)
{
    struct error err = { 0 };
    struct report report;
    struct job job;

    report_init(&report, options);
    job_init(&job, options->operands[0]);
    if (!show(&report, options, &job, &err))
        report_error(options->program, &err);
    job_clear(&job);
    return report_exit(err.code);
}
