/* runner/job/containment.c - applies base/landlock.h, base/seccomp.h and base/limits.h to
 * a run. */
#include "config.h"

#include "runner/job/containment.h"

#include <stdlib.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/seccomp.h"
#include "runner/job/contained_paths.h"
#include "runner/job/outputs.h"

static bool has_gpu(const struct machine *machine, const struct plan *plan)
{
    bool cpu = plan->device_wanted && text_equal(plan->device_wanted, "cpu");

    if (machine->named)
        return machine->device.kind != DEVICE_CPU;
    return !cpu && machine->probe.count > 1;
}

/* Landlock: the paths that the text names, and those that every run needs. */
static bool enter_landlock(struct containment *containment, const struct plan *plan,
                           struct arena *arena, struct error *err)
{
    const bool network = containment->gpu && containment->ranks;
    struct contained_paths paths;
    struct landlock list;
    bool ok = landlock_open(&list, network, err);

    contained_paths_init(&paths, arena);
    fault_clear();
    if (ok) {
        outputs_create(plan); /* the trainer reports one that is missing */
        ok = fault_none(err);
    }
    if (ok) {
        contained_paths_add_system(&paths);
        if (containment->gpu)
            contained_paths_add_gpu(&paths);
        contained_paths_add_plan(&paths, plan);
        ok = fault_answered(err);
    }
    for (size_t i = 0; i < paths.count && ok; i++)
        ok = landlock_allow(&list, paths.list[i].path, paths.list[i].access, err);
    ok = ok && landlock_enter(&list, err);
    landlock_close(&list);
    containment->landlock = ok ? list.version : 0;
    return ok;
}

/* A GPU driver may use sockets of this machine, such as those of MPS, and NCCL uses the
 * network; both may share memory between processes. */
static unsigned refused_calls(const struct containment *containment)
{
    unsigned calls = SECCOMP_SYSTEM;

    if (!containment->gpu)
        calls |= SECCOMP_NETWORK | SECCOMP_LOCAL | SECCOMP_OTHERS;
    else if (!containment->ranks)
        calls |= SECCOMP_NETWORK;
    return calls;
}

/*
 * The lists for GPUs were tried with the driver for Linux on PCs. Without privileges of its
 * own, it cannot start nvidia-modprobe, which is set-user-ID and makes its devices: a run
 * that cannot use its GPU is worse than one that is not contained. So both are off where
 * these devices are missing, as they are with other drivers, unless TRAINSPOOL_SANDBOX=1.
 */
#define DRIVER_DEVICE "/dev/nvidia-uvm"

static bool leaves_gpu_alone(const struct containment *containment)
{
    const char *wish = getenv("TRAINSPOOL_SANDBOX");

    return containment->gpu && !(wish && text_equal(wish, "1")) &&
           !file_exists(DRIVER_DEVICE);
}

static void report_lack(struct log *log, const struct error *err)
{
    log_line(log, LOG_WARN, "containment: %s: continuing without it", err->text);
}

/* What the kernel lacks is left out; what it cannot do for now is not. */
static bool leave_out(struct log *log, const struct error *why, struct error *err)
{
    if (why->code == ERROR_FAULT)
        return error_set(err, ERROR_FAULT, "%s", why->text);
    report_lack(log, why);
    return true;
}

static bool contain(struct containment *containment, const struct plan *plan,
                    struct log *log, struct error *err)
{
    struct arena *arena = arena_new();
    struct error files = { 0 }, calls = { 0 };
    bool ok =
        enter_landlock(containment, plan, arena, &files) || leave_out(log, &files, err);

    containment->seccomp = ok && seccomp_refuse(refused_calls(containment), &calls);
    arena_free(arena);
    return ok && (containment->seccomp || leave_out(log, &calls, err));
}

bool containment_enter(struct containment *containment, const struct job *job,
                       const struct text *text, struct log *log, struct error *err)
{
    struct arena *arena;
    struct plan plan;
    bool ok;

    if (!containment->on)
        return true;
    arena = arena_new();
    outputs_bind_plan(job, text, arena, &plan);
    containment->ranks = plan_ranks(&plan) > 1;
    containment->gpu = has_gpu(containment->machine, &plan);
    limits_no_core();
    ok = leaves_gpu_alone(containment) || contain(containment, &plan, log, err);
    arena_free(arena);
    return ok;
}

/* The driver may start processes; a program that it starts stays contained. */
void containment_close(struct containment *containment, struct log *log)
{
    struct error err = { 0 };
    unsigned calls = SECCOMP_PROGRAMS;

    if (!containment->on || !containment->seccomp || leaves_gpu_alone(containment))
        return;
    if (!containment->gpu)
        calls |= SECCOMP_PROCESSES;
    if (!seccomp_refuse(calls, &err))
        report_lack(log, &err);
}

void containment_describe(const struct containment *containment, struct text *out)
{
    if (!containment->on) {
        text_adds(out, "nothing (--no-sandbox)");
        return;
    }
    if (leaves_gpu_alone(containment)) {
        text_adds(out, "clean environment (no " DRIVER_DEVICE
                       ": Landlock and seccomp only by TRAINSPOOL_SANDBOX=1)");
        return;
    }
    text_addf(out, "%s%sno new privileges, clean environment",
              containment->landlock ? "Landlock, " : "",
              containment->seccomp ? "seccomp, " : "");
}

void containment_add_line(const struct plan *plan, struct text *out)
{
    const struct containment here = { .on = true,
                                      .gpu = plan->device.kind != DEVICE_CPU,
                                      .landlock = landlock_version(),
                                      .seccomp = seccomp_is_available() };

    if (plan->external)
        return;
    text_adds(out, "  contained   ");
    containment_describe(&here, out);
    text_addc(out, '\n');
}
