/* runner/job/containment.c - applies base/landlock.h, base/seccomp.h and base/limits.h to
 * a run. */
#include "config.h"

#include "runner/job/containment.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/seccomp.h"
#include "base/ticks.h"
#include "precision/memory.h"
#include "runner/job/contained_paths.h"
#include "runner/job/job_group.h"
#include "runner/job/outputs.h"
#include "runner/output/report.h"

static bool has_gpu(const struct machine *machine, const struct plan *plan)
{
    bool cpu = plan->device_wanted && text_equal(plan->device_wanted, "cpu");

    if (machine->named)
        return machine->device.kind != DEVICE_CPU;
    return !cpu && machine->probe.count > 1;
}

/* Landlock: these paths, and those that every run needs. */
static bool enter_landlock(struct containment *containment, struct contained_paths *paths,
                           struct error *err)
{
    const bool network = containment->gpu && containment->ranks;
    struct landlock list;
    bool ok = landlock_open(&list, network, err);

    if (ok) {
        contained_paths_add_system(paths);
        if (containment->gpu)
            contained_paths_add_gpu(paths);
        /* what could not be looked for would be refused later */
        ok = fault_answered(err);
    }
    for (size_t i = 0; i < paths->count && ok; i++)
        ok = landlock_allow(&list, paths->list[i].path, paths->list[i].access, err);
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

/* What the plan does not count: the program, the tokenizer and the data; two pools of
 * threads, whose stacks count in full. */
#define UNPLANNED ((uint64_t)512 << 20)

static uint64_t unplanned(const struct plan *plan, const struct device *device)
{
    const int64_t threads = plan->threads > 0 ? plan->threads : device->threads;
    pthread_attr_t attributes;
    size_t stack = 8 << 20;

    if (pthread_getattr_default_np(&attributes) == 0) {
        pthread_attr_getstacksize(&attributes, &stack);
        pthread_attr_destroy(&attributes);
    }
    return UNPLANNED + 2 * (uint64_t)threads * (stack + MEMORY_CPU_THREAD);
}

/* Of a process that uses a GPU, whose limit is of the GPU's memory: that of the driver and
 * its libraries, and pinned memory. It is not measured; it only has to be enough. */
#define DRIVER ((uint64_t)4 << 30)

/* A share is of what is free when the process starts, which is not known yet. */
uint64_t containment_most_memory(const struct plan *plan)
{
    const struct device *device = &plan->device;
    const uint64_t ranks = plan_local_ranks(plan);
    uint64_t limit;

    if (!plan->memory_limit || strchr(plan->memory_limit, '%') ||
        !memory_limit(plan->memory_limit, device, &limit, NULL))
        return 0;
    if (device->kind == DEVICE_CPU)
        return limit + ranks * unplanned(plan, device);
    /* moments that are moved to the host at the start only were part of the limit */
    return ranks * (limit + plan->memory.host + unplanned(plan, device) + DRIVER);
}

/* The default limit, a share of what is free, is only planned with: it changes while the
 * job runs. A GPU's driver maps more than it uses, and the plan of a GPU is one block. */
static void limit_memory(struct containment *containment, const struct plan *plan)
{
    const struct machine *machine = containment->machine;
    const struct device *device =
        machine->named ? &machine->device : &machine->probe.devices[0];
    uint64_t limit;

    if (!plan->memory_limit || containment->gpu ||
        !memory_limit(plan->memory_limit, device, &limit, NULL))
        return;
    containment->memory = limit / plan_local_ranks(plan);
    limits_fix_data(containment->memory + unplanned(plan, device));
    if (containment->frozen)
        memory_set_status(EXIT_OVER_LIMIT);
}

void containment_explain(const struct containment *containment, struct error *err)
{
    char bytes[16];
    size_t len = strlen(err->text);

    if (containment->memory == 0 || err->code != ERROR_MEMORY)
        return;
    memory_text(containment->memory, bytes);
    snprintf(err->text + len, sizeof(err->text) - len, "; memory_limit allows %s", bytes);
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

/* calls: further ones to refuse. */
static bool contain(struct containment *containment, struct contained_paths *paths,
                    unsigned calls, struct log *log, struct error *err)
{
    struct error files = { 0 }, why = { 0 };
    bool ok = enter_landlock(containment, paths, &files) || leave_out(log, &files, err);

    containment->seccomp = ok && seccomp_refuse(refused_calls(containment) | calls, &why);
    /* the threads that renew leases have begun before */
    return ok && (containment->seccomp || leave_out(log, &why, err)) &&
           ticks_restart(err);
}

bool containment_enter(struct containment *containment, const struct job *job,
                       const struct text *text, struct log *log, struct error *err)
{
    struct contained_paths paths;
    struct arena *arena;
    struct plan plan;
    bool ok;

    if (!containment->on)
        return true;
    containment->grouped = job_group_own("", &containment->group_memory);
    arena = arena_new();
    contained_paths_init(&paths, arena);
    outputs_bind_plan(job, text, arena, &plan);
    containment->ranks = plan_ranks(&plan) > 1;
    containment->gpu = has_gpu(containment->machine, &plan);
    limits_fix_files();
    limit_memory(containment, &plan);
    ok = leaves_gpu_alone(containment);
    if (!ok) {
        fault_clear();
        outputs_create(&plan); /* the trainer reports one that is missing */
        ok = fault_none(err);
        contained_paths_add_plan(&paths, &plan);
        if (containment->gpu)
            contained_paths_add_cache(&paths);
        ok = ok && contain(containment, &paths, 0, log, err);
    }
    arena_free(arena);
    return ok;
}

/* Refuse programs, and processes unless the GPU's driver may need them. */
static unsigned starts(const struct containment *containment)
{
    return SECCOMP_PROGRAMS | (containment->gpu ? 0 : SECCOMP_PROCESSES);
}

bool containment_enter_reader(struct containment *containment, const struct plan *plan,
                              const struct contained_path more[], struct error *err)
{
    struct contained_paths paths;
    struct arena *arena;
    bool ok;

    if (!containment->on)
        return true;
    arena = arena_new();
    contained_paths_init(&paths, arena);
    containment->gpu = has_gpu(containment->machine, plan);
    limits_fix_files();
    fault_clear();
    contained_paths_add_inputs(&paths, plan);
    for (size_t i = 0; more && more[i].path; i++)
        contained_paths_add(&paths, more[i].path, more[i].access);
    ok = leaves_gpu_alone(containment) ||
         contain(containment, &paths, starts(containment), NULL, err);
    arena_free(arena);
    return ok;
}

bool containment_enter_examiner(const struct machine *machine, struct error *err)
{
    struct containment containment = { .on = true,
                                       .machine = machine,
                                       .gpu = machine->probe.count > 1 };
    struct contained_paths paths;
    struct arena *arena;
    bool ok;

    limits_fix_files();
    if (leaves_gpu_alone(&containment))
        return true;
    arena = arena_new();
    contained_paths_init(&paths, arena);
    fault_clear();
    contained_paths_add(&paths, "/", LANDLOCK_RUN);
    contained_paths_add(&paths, ".", LANDLOCK_WRITE);
    ok = contain(&containment, &paths, 0, NULL, err);
    arena_free(arena);
    return ok;
}

bool containment_is_wanted(void)
{
    const char *wish = getenv("TRAINSPOOL_SANDBOX");

    return !(wish && text_equal(wish, "0"));
}

/* The driver may start processes; a program that it starts stays contained. */
void containment_close(struct containment *containment, struct log *log)
{
    struct error err = { 0 };

    if (!containment->on || !containment->seccomp || leaves_gpu_alone(containment))
        return;
    if (!seccomp_refuse(starts(containment), &err))
        report_lack(log, &err);
}

static void add_memory(const struct containment *containment, struct text *out)
{
    char bytes[16];

    memory_text(containment->memory, bytes);
    if (containment->memory)
        text_addf(out, ", memory_limit (%s)", bytes);
}

static void add_group(const struct containment *containment, struct text *out)
{
    char bytes[16];

    memory_text(containment->group_memory, bytes);
    if (containment->grouped)
        text_adds(out, ", control group");
    if (containment->grouped && containment->group_memory)
        text_addf(out, " (%s)", bytes);
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
        add_group(containment, out);
        return;
    }
    text_addf(out, "%s%sno new privileges, clean environment",
              containment->landlock ? "Landlock, " : "",
              containment->seccomp ? "seccomp, " : "");
    add_memory(containment, out);
    add_group(containment, out);
}

void containment_add_line(const struct plan *plan, struct text *out)
{
    struct containment here = { .on = true,
                                .gpu = plan->device.kind != DEVICE_CPU,
                                .landlock = landlock_version(),
                                .seccomp = seccomp_is_available() };

    if (plan->external || plan->backend == RUN_SLURM)
        return;
    if (plan->memory_limit && !here.gpu &&
        memory_limit(plan->memory_limit, &plan->device, &here.memory, NULL))
        here.memory /= plan_local_ranks(plan);
    text_adds(out, "  contained   ");
    containment_describe(&here, out);
    text_addc(out, '\n');
}
