/* base/stop.c - catches the signals that ask to stop, and counts them. */
#include "config.h"

#include "base/stop.h"

#include <stddef.h>
#include <unistd.h>

#include "base/clock.h"

/* What the handler received; the only mutable state of the process that is global. */
static struct stop_request received;
static volatile sig_atomic_t stop_signal;

void stop_signals(sigset_t *out)
{
    struct sigaction action;

    sigemptyset(out);
    sigaddset(out, SIGTERM);
    sigaddset(out, SIGINT);
    if (sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
        sigaddset(out, SIGHUP);
}

bool stop_request_add(struct stop_request *request, int number)
{
    double now = clock_seconds();

    if (__atomic_load_n(&request->number, __ATOMIC_ACQUIRE))
        return now - request->first > STOP_TOGETHER_SECONDS;
    request->first = now; /* before the number: a driver's thread may handle a signal */
    __atomic_store_n(&request->number, number == SIGINT ? SIGINT : SIGTERM,
                     __ATOMIC_RELEASE);
    return false;
}

/* A signal that is raised here is blocked until the handler returns. */
static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code == SI_QUEUE) { /* stop_ask */
        if (!stop_signal)
            stop_signal = SIGTERM;
        return;
    }
    if (stop_request_add(&received, number)) {
        number = number == SIGINT ? SIGINT : SIGTERM;
        signal(number, SIG_DFL);
        raise(number);
    }
    if (!stop_signal)
        stop_signal = received.number;
}

static void unblock(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

volatile sig_atomic_t *stop_catch(void)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
    struct sigaction action = { .sa_sigaction = on_signal,
                                .sa_flags = SA_SIGINFO | SA_RESTART };

    stop_signals(&action.sa_mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (sigismember(&action.sa_mask, numbers[i]))
            sigaction(numbers[i], &action, NULL);
    unblock();
    return &stop_signal;
}

void stop_ignore_none(void)
{
    unblock();
}

bool stop_ask(pid_t pid)
{
    return sigqueue(pid, SIGTERM, (union sigval) { .sival_int = 0 }) == 0;
}
