/* runner/spool/notify.c - keeps the messages to send in order, and sends a few at once. */
#include "config.h"

#include "runner/spool/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "runner/spool/mail.h"

/* What ends while the mail system hangs must not fill the memory. */
enum { SENDERS = 4, WAITING_MAX = 10000 };

enum channel { CHANNEL_PROGRAM, CHANNEL_MAIL };

/* The report of one end over one channel. */
struct message {
    enum channel channel;
    enum job_state state;
    char *job, *path, *reason; /* malloc'ed */
    struct message *next;
};

struct sender {
    pid_t pid; /* 0: none */
    double deadline;
    bool killed;
    char *job; /* malloc'ed */
    enum channel channel;
};

struct notify {
    char *program, *sendmail, *address; /* NULL: none */
    double seconds, end;                /* end: no sender may run longer */
    struct log *log;
    char *environment[6]; /* NULL-ended; malloc'ed */
    struct message *first, **last;
    size_t waiting, dropped;
    struct sender senders[SENDERS];
};

/* ---- Options ---- */

/* A program that another user can change would run with our rights. */
static bool check_program(const char *option, const char *program, struct error *err)
{
    struct stat st;

    if (stat(program, &st) != 0)
        return error_set(err, ERROR_USAGE, "cannot run %s of %s: %s", program, option,
                         strerror(errno));
    if (!S_ISREG(st.st_mode) || access(program, X_OK) != 0)
        return error_set(err, ERROR_USAGE, "cannot run %s of %s: it is not executable",
                         program, option);
    if ((st.st_uid != geteuid() && st.st_uid != 0) || st.st_mode & S_IWOTH)
        return error_set(err, ERROR_USAGE,
                         "cannot run %s of %s: another user may change it", program,
                         option);
    return true;
}

/* sendmail is where hier(7) or older systems have it. */
static char *find_sendmail(void)
{
    const char *set = getenv("TRAINSPOOL_SENDMAIL");

    if (set && set[0])
        return path_absolute(set);
    return memory_strdup(access("/usr/sbin/sendmail", X_OK) == 0 ? "/usr/sbin/sendmail"
                                                                 : "/usr/lib/sendmail");
}

static char *variable(const char *name, const char *value)
{
    struct text text;

    text_init(&text, 0);
    text_addf(&text, "%s=%s", name, value);
    return text_detach(&text, NULL);
}

/* The environment does not depend on who started the watch, or how. */
static void set_environment(struct notify *notify)
{
    const struct passwd *user = getpwuid(geteuid());
    size_t n = 0;

    notify->environment[n++] =
        variable("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    notify->environment[n++] = variable("LANG", "C.UTF-8");
    if (user) {
        notify->environment[n++] = variable("HOME", user->pw_dir);
        notify->environment[n++] = variable("USER", user->pw_name);
        notify->environment[n++] = variable("LOGNAME", user->pw_name);
    }
}

static bool set_options(struct notify *notify, const struct notify_options *options,
                        struct error *err)
{
    if (options->program) {
        notify->program = path_absolute(options->program);
        if (!check_program("--on-end", notify->program, err))
            return false;
    }
    if (options->address) {
        notify->address = memory_strdup(options->address);
        notify->sendmail = find_sendmail();
        if (!mail_check_address(notify->address, err) ||
            !check_program("--mail", notify->sendmail, err))
            return false;
    }
    return true;
}

struct notify *notify_new(const struct notify_options *options, struct error *err)
{
    struct notify *notify = memory_alloc(sizeof(*notify));

    notify->seconds = options->seconds;
    notify->end = INFINITY;
    notify->log = options->log;
    notify->last = &notify->first;
    set_environment(notify);
    if (set_options(notify, options, err))
        return notify;
    notify_free(notify);
    return NULL;
}

/* ---- Messages ---- */

static void message_free(struct message *message)
{
    free(message->job);
    free(message->path);
    free(message->reason);
    free(message);
}

void notify_free(struct notify *notify)
{
    if (!notify)
        return;
    while (notify->first) {
        struct message *message = notify->first;

        notify->first = message->next;
        message_free(message);
    }
    for (size_t i = 0; i < SENDERS; i++)
        free(notify->senders[i].job);
    for (char **variable = notify->environment; *variable; variable++)
        free(*variable);
    free(notify->program);
    free(notify->sendmail);
    free(notify->address);
    free(notify);
}

static void add_message(struct notify *notify, enum channel channel,
                        const struct job *job, const struct job_record *record)
{
    struct message *message;

    if (notify->waiting == WAITING_MAX) {
        if (notify->dropped++ == 0)
            log_line(notify->log, LOG_WARN,
                     "watch: %d reports of jobs wait; the next ones are not sent",
                     WAITING_MAX);
        return;
    }
    message = memory_alloc(sizeof(*message));
    *message = (struct message) { .channel = channel,
                                  .state = record->state,
                                  .job = memory_strdup(job->name),
                                  .path = path_absolute(job->path),
                                  .reason = memory_strdup(record->reason) };
    *notify->last = message;
    notify->last = &message->next;
    notify->waiting++;
}

void notify_job_ended(struct notify *notify, const char *path,
                      const struct job_record *record)
{
    struct job job;

    if (record->state != JOB_DONE && record->state != JOB_FAILED &&
        record->state != JOB_STOPPED && record->state != JOB_REJECTED)
        return;
    job_init(&job, path);
    if (notify->program)
        add_message(notify, CHANNEL_PROGRAM, &job, record);
    if (notify->address)
        add_message(notify, CHANNEL_MAIL, &job, record);
    job_clear(&job);
}

/* ---- Processes ---- */

/* A program to start. */
struct start {
    const char *argv[6];
    int input; /* -1: /dev/null */
    char *const *environment;
};

/* Output goes to the standard error of the watch, which is the journal of a service. */
static int add_files(posix_spawn_file_actions_t *files, const struct start *start)
{
    int failed = start->input >= 0
                     ? posix_spawn_file_actions_adddup2(files, start->input, STDIN_FILENO)
                     : posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null",
                                                        O_RDONLY, 0);

    failed = failed
                 ? failed
                 : posix_spawn_file_actions_adddup2(files, STDERR_FILENO, STDOUT_FILENO);
    failed = failed ? failed : posix_spawn_file_actions_addchdir_np(files, "/");
    return failed ? failed
                  : posix_spawn_file_actions_addclosefrom_np(files, STDERR_FILENO + 1);
}

static void set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                             POSIX_SPAWN_SETSID);
}

static pid_t start_process(const struct start *start, struct error *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    pid_t pid = 0;
    int failed;

    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    set_attributes(&attributes);
    failed = add_files(&files, start);
    failed = failed ? failed
                    : posix_spawn(&pid, start->argv[0], &files, &attributes,
                                  (char *const *)start->argv, start->environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (!failed)
        return pid;
    errno = failed;
    error_errno(err, "cannot run %s", start->argv[0]);
    return 0;
}

/* Return a file in memory from which sendmail reads the message. */
static int open_mail(const struct notify *notify, const struct message *message,
                     struct error *err)
{
    struct mail mail = { .address = notify->address,
                         .job = message->job,
                         .state = job_state_names[message->state],
                         .reason = message->reason,
                         .path = message->path };
    int fd = memfd_create("mail", MFD_CLOEXEC);
    struct text text;
    bool ok;

    if (fd < 0) {
        error_errno(err, "cannot write a mail");
        return -1;
    }
    text_init(&text, 0);
    ok = mail_write(&mail, &text) && file_write_all(fd, text.data, text.len, err);
    text_clear(&text);
    if (ok && lseek(fd, 0, SEEK_SET) == 0)
        return fd;
    error_set(err, ERROR_SYSTEM, "cannot write a mail");
    close(fd);
    return -1;
}

static pid_t send_message(struct notify *notify, const struct message *message,
                          struct error *err)
{
    struct start start = { { notify->program, message->job,
                             job_state_names[message->state], message->reason,
                             message->path },
                           -1,
                           notify->environment };
    pid_t pid;

    if (message->channel == CHANNEL_PROGRAM)
        return start_process(&start, err);
    start = (struct start) { { notify->sendmail, "-i", "--", notify->address },
                             open_mail(notify, message, err),
                             notify->environment };
    if (start.input < 0)
        return 0;
    pid = start_process(&start, err);
    close(start.input);
    return pid;
}

static const char *program_of(const struct notify *notify, enum channel channel)
{
    return channel == CHANNEL_PROGRAM ? notify->program : notify->sendmail;
}

static void start_first(struct notify *notify, struct sender *sender)
{
    struct message *message = notify->first;
    struct error err = { 0 };

    notify->first = message->next;
    notify->last = notify->first ? notify->last : &notify->first;
    notify->waiting--;
    sender->pid = send_message(notify, message, &err);
    if (sender->pid == 0) {
        log_line(notify->log, LOG_WARN, "job %s: %s", message->job, err.text);
    } else {
        sender->deadline = clock_seconds() + notify->seconds;
        sender->killed = false;
        sender->channel = message->channel;
        sender->job = memory_strdup(message->job);
    }
    message_free(message);
}

static void log_failure(const struct notify *notify, const struct sender *sender,
                        int status)
{
    const char *program = program_of(notify, sender->channel);
    struct text how;

    if (sender->killed) {
        log_line(notify->log, LOG_WARN, "job %s: %s was killed because it took too long",
                 sender->job, program);
        return;
    }
    text_init(&how, 0);
    if (WIFEXITED(status))
        text_addf(&how, "exited with status %d", WEXITSTATUS(status));
    else
        text_addf(&how, "was killed by signal %d", WTERMSIG(status));
    log_line(notify->log, LOG_WARN, "job %s: %s %s", sender->job, program, how.data);
    text_clear(&how);
}

static double deadline_of(const struct notify *notify, const struct sender *sender)
{
    return fmin(sender->deadline, notify->end);
}

/* It is the leader of a session, so its children are in its process group unless they
 * left it. */
static void check_sender(struct notify *notify, struct sender *sender)
{
    int status = 0;

    if (sender->pid == 0)
        return;
    if (!sender->killed && clock_seconds() >= deadline_of(notify, sender)) {
        kill(-sender->pid, SIGKILL);
        sender->killed = true;
    }
    if (waitpid(sender->pid, &status, WNOHANG) == 0)
        return;
    if (sender->killed || status != 0)
        log_failure(notify, sender, status);
    free(sender->job);
    *sender = (struct sender) { 0 };
}

/* Without time left, report how much was not sent. */
static void give_up(struct notify *notify)
{
    log_line(notify->log, LOG_WARN, "watch: %zu reports of jobs were not sent",
             notify->waiting);
    while (notify->first) {
        struct message *message = notify->first;

        notify->first = message->next;
        message_free(message);
    }
    notify->last = &notify->first;
    notify->waiting = 0;
}

void notify_poll(struct notify *notify)
{
    if (notify->first && clock_seconds() >= notify->end)
        give_up(notify);
    for (size_t i = 0; i < SENDERS; i++) {
        check_sender(notify, &notify->senders[i]);
        if (notify->senders[i].pid == 0 && notify->first)
            start_first(notify, &notify->senders[i]);
    }
}

double notify_due(const struct notify *notify)
{
    double due = INFINITY;

    for (size_t i = 0; i < SENDERS; i++) {
        const struct sender *sender = &notify->senders[i];

        /* the end of a process is a signal, not a time */
        if (sender->pid && !sender->killed)
            due = fmin(due, deadline_of(notify, sender));
        else if (!sender->pid && notify->first)
            due = 0;
    }
    return due;
}

bool notify_is_idle(const struct notify *notify)
{
    for (size_t i = 0; i < SENDERS; i++)
        if (notify->senders[i].pid)
            return false;
    return !notify->first;
}

void notify_hurry(struct notify *notify, double seconds)
{
    notify->end = fmin(notify->end, clock_seconds() + seconds);
}
