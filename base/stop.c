/* base/stop.c - catches the signals that ask to stop, and counts them. */
#include "config.h"

#include "base/stop.h"

#include <stddef.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"

enum { STACK_BYTES = 64 << 10 };

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

/*
 * Let handlers of this thread run on a stack of their own.  oneDNN's float32 matmul sets the stack
 * pointer to the start of a block of the heap (jit_avx512_common_gemm_f32.cpp: mov(rsp, ARG_WS));
 * the kernel would write the frame of a signal into the memory before it.  Without memory,
 * handlers run on the stack that there is.
 */
static void use_own_stack(void)
{
    const size_t least = 4 * getauxval(AT_MINSIGSTKSZ);
    const size_t bytes = least > STACK_BYTES ? least : STACK_BYTES;
    stack_t now = { 0 };

    if (sigaltstack(NULL, &now) != 0 || !(now.ss_flags & SS_DISABLE))
        return;
    now = (stack_t) { .ss_size = size_round(bytes, (size_t)sysconf(_SC_PAGESIZE)) };
    now.ss_sp = mmap(NULL, now.ss_size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (now.ss_sp != MAP_FAILED)
        sigaltstack(&now, NULL);
}

volatile sig_atomic_t *stop_catch(void)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
    struct sigaction action = { .sa_sigaction = on_signal,
                                .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };

    use_own_stack();
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
