/* base/limits.c - resource limits, with setrlimit(2). */
#include "config.h"

#include "base/limits.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* A run opens a few dozen files, one for each shard of a model, and for each GPU. The largest
 * file that it writes is a checkpoint of a model with all its moments in one file. */
static const rlim_t open_max = 8192, file_max = (rlim_t)1 << 42;

/* `value` may be RLIM_INFINITY, which is the largest. */
static void set_soft(int what, rlim_t value)
{
    struct rlimit limit;

    if (getrlimit(what, &limit) != 0)
        return;
    limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
    setrlimit(what, &limit);
}

/* This process cannot raise the limit again, nor can what it starts. */
static void set_both(int what, rlim_t value)
{
    struct rlimit limit;

    if (getrlimit(what, &limit) != 0)
        return;
    limit.rlim_max = value < limit.rlim_max ? value : limit.rlim_max;
    limit.rlim_cur = value < limit.rlim_cur ? value : limit.rlim_cur;
    setrlimit(what, &limit);
}

uint64_t limits_data_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    if (file && fscanf(file, "%*u %*u %*u %*u %*u %lu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void limits_data(uint64_t more)
{
    set_soft(RLIMIT_DATA, (rlim_t)(limits_data_bytes() + more));
}

void limits_cpu(double more)
{
    struct rusage usage;

    signal(SIGXCPU, SIG_DFL);
    /* the limit has whole seconds */
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        set_soft(RLIMIT_CPU, (rlim_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + 1) +
                                 (rlim_t)ceil(more));
}

void limits_no_core(void)
{
    set_soft(RLIMIT_CORE, 0);
}

void limits_fix_data(uint64_t more)
{
    set_both(RLIMIT_DATA, (rlim_t)(limits_data_bytes() + more));
}

void limits_fix_files(void)
{
    signal(SIGXFSZ, SIG_IGN);
    set_both(RLIMIT_CORE, 0);
    set_both(RLIMIT_FSIZE, file_max);
    set_both(RLIMIT_NOFILE, open_max);
}

uint64_t limits_raise_files(void)
{
    struct rlimit limit;

    set_soft(RLIMIT_NOFILE, open_max);
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : open_max;
}

void limits_lift(void)
{
    set_soft(RLIMIT_DATA, RLIM_INFINITY);
    set_soft(RLIMIT_CPU, RLIM_INFINITY);
}

bool limits_end_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return getppid() == parent;
}
