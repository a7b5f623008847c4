/*
 * base/seccomp.c - a BPF program (seccomp(2)) that compares the number of a call with a
 * list.
 *
 * A list of what is refused, not of what is allowed: GPU drivers, cuBLAS and NCCL call what
 * their next version needs. SECCOMP_SYSTEM is a part of what Docker's default profile
 * refuses (moby/profiles, seccomp/default.json), with which NVIDIA's containers run.
 */
#include "config.h"

#include "base/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/size.h"

#if defined(__x86_64__)
#define OWN_MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE AUDIT_ARCH_AARCH64
#else
#define OWN_MACHINE 0 /* no program is known to be right */
#endif

/* glibc 2.36 names these; the numbers are the same on all machines. */
enum {
    IO_URING_SETUP = 425,
    OPEN_TREE = 428,
    MOVE_MOUNT,
    FSOPEN,
    FSCONFIG,
    FSMOUNT,
    FSPICK,
    CLONE_3 = 435,
    PIDFD_GETFD = 438,
    MOUNT_SETATTR = 442,
    QUOTACTL_FD
};

enum { MOST_CALLS = 80, MOST_STEPS = 3 * MOST_CALLS };
enum {
    X32_CALLS = 0x40000000,
    NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                 CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP
};

static const struct refused {
    unsigned calls; /* of enum seccomp_calls */
    int number;
} refused[] = {
    { SECCOMP_SYSTEM, SYS_mount },
    { SECCOMP_SYSTEM, SYS_umount2 },
    { SECCOMP_SYSTEM, SYS_pivot_root },
    { SECCOMP_SYSTEM, SYS_chroot },
    { SECCOMP_SYSTEM, OPEN_TREE },
    { SECCOMP_SYSTEM, MOVE_MOUNT },
    { SECCOMP_SYSTEM, FSOPEN },
    { SECCOMP_SYSTEM, FSCONFIG },
    { SECCOMP_SYSTEM, FSMOUNT },
    { SECCOMP_SYSTEM, FSPICK },
    { SECCOMP_SYSTEM, MOUNT_SETATTR },
    { SECCOMP_SYSTEM, SYS_swapon },
    { SECCOMP_SYSTEM, SYS_swapoff },
    { SECCOMP_SYSTEM, SYS_reboot },
    { SECCOMP_SYSTEM, SYS_init_module },
    { SECCOMP_SYSTEM, SYS_finit_module },
    { SECCOMP_SYSTEM, SYS_delete_module },
    { SECCOMP_SYSTEM, SYS_kexec_load },
    { SECCOMP_SYSTEM, SYS_bpf },
    { SECCOMP_SYSTEM, SYS_perf_event_open },
    { SECCOMP_SYSTEM, SYS_userfaultfd },
    { SECCOMP_SYSTEM, SYS_keyctl },
    { SECCOMP_SYSTEM, SYS_add_key },
    { SECCOMP_SYSTEM, SYS_request_key },
    { SECCOMP_SYSTEM, SYS_unshare },
    { SECCOMP_SYSTEM, SYS_setns },
    { SECCOMP_SYSTEM, SYS_open_by_handle_at },
    { SECCOMP_SYSTEM, SYS_fanotify_init },
    { SECCOMP_SYSTEM, SYS_acct },
    { SECCOMP_SYSTEM, SYS_settimeofday },
    { SECCOMP_SYSTEM, SYS_clock_settime },
    { SECCOMP_SYSTEM, SYS_clock_adjtime },
    { SECCOMP_SYSTEM, SYS_adjtimex },
    { SECCOMP_SYSTEM, SYS_syslog },
    { SECCOMP_SYSTEM, SYS_quotactl },
    { SECCOMP_SYSTEM, QUOTACTL_FD },
    { SECCOMP_SYSTEM, SYS_sethostname },
    { SECCOMP_SYSTEM, SYS_setdomainname },
    { SECCOMP_SYSTEM, SYS_vhangup },
    { SECCOMP_SYSTEM, IO_URING_SETUP },
#ifdef SYS_kexec_file_load
    { SECCOMP_SYSTEM, SYS_kexec_file_load },
#endif
#ifdef SYS_iopl
    { SECCOMP_SYSTEM, SYS_iopl },
    { SECCOMP_SYSTEM, SYS_ioperm },
    { SECCOMP_SYSTEM, SYS_modify_ldt },
#endif
#ifdef SYS_fork
    { SECCOMP_PROCESSES, SYS_fork },
    { SECCOMP_PROCESSES, SYS_vfork },
#endif
    { SECCOMP_PROGRAMS, SYS_execve },
    { SECCOMP_PROGRAMS, SYS_execveat },
    { SECCOMP_OTHERS, SYS_ptrace },
    { SECCOMP_OTHERS, SYS_process_vm_readv },
    { SECCOMP_OTHERS, SYS_process_vm_writev },
    { SECCOMP_OTHERS, PIDFD_GETFD },
};

/* The leak detector of the sanitizers stops the threads of its process with ptrace, from a
 * process of its own. */
#ifdef __SANITIZE_ADDRESS__
enum { NEEDED_BY_BUILD = SECCOMP_OTHERS | SECCOMP_PROCESSES };
#else
enum { NEEDED_BY_BUILD = 0 };
#endif

struct program {
    struct sock_filter steps[MOST_STEPS];
    unsigned short count;
};

static void add(struct program *program, struct sock_filter step)
{
    if (program->count < MOST_STEPS)
        program->steps[program->count++] = step;
}

static void load(struct program *program, size_t offset)
{
    add(program,
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

static void answer(struct program *program, unsigned action)
{
    add(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* Skip the next `steps` steps unless the loaded value compares (`how`: BPF_JEQ, ..). */
static void unless(struct program *program, int how, unsigned value, unsigned char steps)
{
    add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | how | BPF_K, value, 0, steps));
}

/* The low half of an argument: these are ints, on machines that store it first. */
static size_t argument(int at)
{
    return offsetof(struct seccomp_data, args) + (size_t)at * sizeof(uint64_t);
}

static void add_numbers(struct program *program, unsigned calls)
{
    for (size_t i = 0; i < TS_COUNT(refused); i++) {
        if (!(refused[i].calls & calls))
            continue;
        unless(program, BPF_JEQ, (unsigned)refused[i].number, 1);
        answer(program, SECCOMP_RET_ERRNO | EPERM);
    }
}

/* A program is left by every branch of these, so that no later one loads a value that
 * another replaced. */
static void add_sockets(struct program *program, unsigned calls)
{
    if (!(calls & (SECCOMP_NETWORK | SECCOMP_LOCAL)))
        return;
    unless(program, BPF_JEQ, SYS_socket, calls & SECCOMP_LOCAL ? 1 : 6);
    if (calls & SECCOMP_LOCAL) {
        answer(program, SECCOMP_RET_ERRNO | EPERM);
        return;
    }
    load(program, argument(0));
    unless(program, BPF_JEQ, AF_UNIX, 1);
    answer(program, SECCOMP_RET_ALLOW);
    unless(program, BPF_JEQ, AF_NETLINK, 1);
    answer(program, SECCOMP_RET_ALLOW);
    answer(program, SECCOMP_RET_ERRNO | EPERM);
}

/* clone3 has its flags in memory, which a program cannot read: without it, glibc uses
 * clone. */
static void add_clone(struct program *program, unsigned calls)
{
    unless(program, BPF_JEQ, CLONE_3, 1);
    answer(program, SECCOMP_RET_ERRNO | ENOSYS);
    unless(program, BPF_JEQ, SYS_clone, calls & SECCOMP_PROCESSES ? 6 : 4);
    load(program, argument(0));
    unless(program, BPF_JSET, NAMESPACES, 1);
    answer(program, SECCOMP_RET_ERRNO | EPERM);
    if (calls & SECCOMP_PROCESSES) {
        add(program,
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0));
        answer(program, SECCOMP_RET_ERRNO | EPERM);
    }
    answer(program, SECCOMP_RET_ALLOW);
}

/* Requests that type on the terminal of the caller. */
static void add_terminal(struct program *program)
{
    enum { TYPE_ON_CONSOLE = 0x541C }; /* TIOCLINUX */

    unless(program, BPF_JEQ, SYS_ioctl, 6);
    load(program, argument(1));
    unless(program, BPF_JEQ, TIOCSTI, 1);
    answer(program, SECCOMP_RET_ERRNO | EPERM);
    unless(program, BPF_JEQ, TYPE_ON_CONSOLE, 1);
    answer(program, SECCOMP_RET_ERRNO | EPERM);
    answer(program, SECCOMP_RET_ALLOW);
}

static void write_program(struct program *program, unsigned calls)
{
    load(program, offsetof(struct seccomp_data, arch));
    add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                              (unsigned)OWN_MACHINE, 1, 0));
    answer(program, SECCOMP_RET_ERRNO | EPERM); /* the calls of 32-bit programs */
    load(program, offsetof(struct seccomp_data, nr));
    unless(program, BPF_JGE, X32_CALLS, 1);
    answer(program, SECCOMP_RET_ERRNO | EPERM);
    add_numbers(program, calls);
    add_sockets(program, calls);
    if (calls & SECCOMP_SYSTEM)
        add_terminal(program);
    if (calls & (SECCOMP_SYSTEM | SECCOMP_PROCESSES))
        add_clone(program, calls);
    answer(program, SECCOMP_RET_ALLOW);
}

bool seccomp_is_available(void)
{
    const unsigned action = SECCOMP_RET_ERRNO;

    return OWN_MACHINE != 0 &&
           syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

bool seccomp_refuse(unsigned calls, struct error *err)
{
    struct program program = { 0 };
    struct sock_fprog what = { .filter = program.steps };

    if (OWN_MACHINE == 0)
        return error_set(err, ERROR_SYSTEM,
                         "system calls are not refused on this kind of processor");
    write_program(&program, calls & ~(unsigned)NEEDED_BY_BUILD);
    what.len = program.count;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &what) !=
            0)
        return error_errno(err, "cannot refuse system calls (seccomp)");
    return true;
}
