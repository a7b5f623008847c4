/*
 * base/holders.c - searches /proc/PID/fd for the file, and /proc/PID/fdinfo for its lock:
 * the lock belongs to the open file, which a child inherits.
 */
#include "config.h"

#include "base/holders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void holder_function(void *context, const char *pid, int pidfd);

struct search {
    struct stat file;
    holder_function *found;
    void *context;
};

/* Read a small file of /proc.  Return its length; 0: the process has ended. */
static size_t read_proc(const char *pid, const char *name, char *out, size_t room)
{
    char path[64];
    ssize_t got = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/%.16s/%.32s", pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, out, room - 1);
        close(fd);
    }
    out[got > 0 ? got : 0] = 0;
    return got > 0 ? (size_t)got : 0;
}

/* fdinfo shows the locks of the open file: "lock:\t1: FLOCK  ADVISORY  WRITE 4711 ...". */
static bool has_lock(const char *pid, const char *number)
{
    char name[48], text[1024];
    const char *line;

    snprintf(name, sizeof(name), "fdinfo/%.24s", number);
    if (!read_proc(pid, name, text, sizeof(text)))
        return false;
    line = strstr(text, "lock:");
    return line && strstr(line, "FLOCK") && strstr(line, "WRITE");
}

static bool holds(const struct search *search, const char *pid)
{
    char path[64];
    struct dirent *entry;
    struct stat st;
    bool found = false;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
    dir = opendir(path);
    while (dir && !found && (entry = readdir(dir)))
        found = entry->d_name[0] != '.' &&
                fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 &&
                st.st_ino == search->file.st_ino && st.st_dev == search->file.st_dev &&
                has_lock(pid, entry->d_name);
    if (dir)
        closedir(dir);
    return found;
}

static void check_process(const struct search *search, const char *pid)
{
    long number = strtol(pid, NULL, 10);
    int pidfd;

    if (number <= 0 || number == getpid() || !holds(search, pid))
        return;
    pidfd = (int)syscall(SYS_pidfd_open, (pid_t)number, 0);
    if (pidfd < 0)
        return;
    if (holds(search, pid))
        search->found(search->context, pid, pidfd);
    close(pidfd);
}

static void find_holders(int fd, holder_function *found, void *context)
{
    struct search search = { .found = found, .context = context };
    DIR *processes = fstat(fd, &search.file) == 0 ? opendir("/proc") : NULL;
    struct dirent *entry;

    while (processes && (entry = readdir(processes)))
        check_process(&search, entry->d_name);
    if (processes)
        closedir(processes);
}

/* stat begins "PID (NAME) STATE ..."; NAME may contain anything.  Fields 14 and 15 are the
 * processor time in ticks (proc(5)). */
static void note_process(void *context, const char *pid, int pidfd)
{
    struct holders *out = context;
    unsigned long long user = 0, system = 0;
    char text[1024], state = 0;
    const char *rest;

    (void)pidfd;
    if (!read_proc(pid, "stat", text, sizeof(text)) || !(rest = strrchr(text, ')')) ||
        sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &state,
               &user, &system) != 3)
        return;
    out->stopped = (out->stopped || out->count == 0) && (state == 'T' || state == 't');
    out->blocked |= state == 'D';
    out->seconds += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    out->count++;
}

void holders_read(int fd, struct holders *out)
{
    *out = (struct holders) { 0 };
    find_holders(fd, note_process, out);
}

struct message {
    int number;
    size_t reached;
};

static void send_message(void *context, const char *pid, int pidfd)
{
    struct message *message = context;
    siginfo_t info = { .si_signo = message->number,
                       .si_code = SI_QUEUE,
                       .si_pid = getpid(),
                       .si_uid = getuid() };

    (void)pid;
    message->reached += syscall(SYS_pidfd_send_signal, pidfd, message->number,
                                message->number == SIGTERM ? &info : NULL, 0) == 0;
}

struct place {
    char *path;
    size_t room;
    bool found;
};

/* What was read is about this process if it still exists: a signal 0 reaches it, or is
 * refused. */
static void note_group(void *context, const char *pid, int pidfd)
{
    struct place *out = context;
    char text[4096], *rest = text, *line;

    if (out->found || !read_proc(pid, "cgroup", text, sizeof(text)) ||
        (syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) != 0 && errno == ESRCH))
        return;
    while (!out->found && (line = strsep(&rest, "\n")))
        out->found = strncmp(line, "0::/", 4) == 0 &&
                     snprintf(out->path, out->room, "%s", line + 3) < (int)out->room;
}

bool holders_group(int fd, char *out, size_t room)
{
    struct place place = { .path = out, .room = room };

    find_holders(fd, note_group, &place);
    return place.found;
}

size_t holders_signal(int fd, int number)
{
    struct message message = { .number = number };

    find_holders(fd, send_message, &message);
    return message.reached;
}
