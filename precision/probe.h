/*
 * precision/probe.h - what is in this machine.  `trainspool` runs `trainspool-train
 * --probe` and reads its lines, so that no driver is ever loaded into the daemon; a rule
 * can be tested against any machine by handing the parser a text.
 *
 * One device a line, tab-separated, after a first line "trainspool-probe 1":
 *   cpu   <name> <threads> <memory bytes> <available bytes>
 *   cuda  <ordinal> <name> <major>.<minor> <memory bytes> <available bytes> <runnable
 *   0|1> note  <text>     why something is missing ("no CUDA driver")
 */
#ifndef PRECISION_PROBE_H
#define PRECISION_PROBE_H

#include "base/text.h"
#include "precision/device.h"

#define PROBE_MAX (1 + DEVICE_RANKS_MAX) /* one CPU and the GPUs */

struct probe {
    struct device devices[PROBE_MAX]; /* the CPU is first */
    size_t count;
    char note[256];
};

/* The CPU of this machine: threads by affinity and cgroup, memory by /proc and cgroup. */
void probe_cpu(struct device *out);
void probe_write(const struct probe *probe, struct text *out);
bool probe_read(const char *text, struct probe *out, struct error *err);
/* Run `trainspool-train --probe` beside this program.  If that fails: the CPU alone, with
 * the reason in note. */
void probe_devices(struct probe *out);
/*
 * The devices of a run of `ranks` processes, rank 0's first; how many were found, at most
 * as many as there are ranks, 0 with ERROR_DEVICE and the names of what there is.
 *   cpu          the CPU for all
 *   cuda         runnable GPUs of one compute capability, those with the most memory free
 *   auto         the same, or the CPU where there is none
 *   cuda:N,M,..  these, whatever `ranks` says where it is 1
 */
size_t probe_take(const struct probe *probe, const char *wanted, size_t ranks,
                  const struct device *out[DEVICE_RANKS_MAX], struct error *err);
/* A GPU that `wanted` (cuda, cuda:N, or auto) could be if this build had code for it,
 * where probe_take finds no other; NULL. */
const struct device *probe_without_code(const struct probe *probe, const char *wanted);
/* How many GPUs `wanted` names one by one; 0 for auto, cpu, cuda, and for what is no
 * device. */
size_t probe_named(const char *wanted);
/* Does `wanted` ask for, or leave open, this GPU?  All of them for auto and cuda. */
bool probe_means(const char *wanted, int ordinal);
/* The one of a single process. */
const struct device *probe_pick(const struct probe *probe, const char *wanted,
                                struct error *err);
/* GPUs that could run beside this one, with it: the runnable ones of its capability. */
int probe_peers(const struct probe *probe, const struct device *device);

#endif
