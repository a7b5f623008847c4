/*
 * precision/probe.h - what is in this machine.  `trainspool` runs `trainspool-train --probe` and
 * reads its lines, so that no driver is ever loaded into the daemon; a rule can be tested
 * against any machine by handing the parser a text.
 *
 * One device a line, tab-separated, after a first line "trainspool-probe 1":
 *   cpu   <name> <threads> <memory bytes> <available bytes>
 *   cuda  <ordinal> <name> <major>.<minor> <memory bytes> <available bytes> <runnable 0|1>
 *   note  <text>     why something is missing ("no CUDA driver")
 */
#ifndef PRECISION_PROBE_H
#define PRECISION_PROBE_H

#include "base/text.h"
#include "precision/device.h"

#define PROBE_MAX 17 /* one CPU and 16 GPUs */

struct probe {
    struct device devices[PROBE_MAX]; /* the CPU is first */
    size_t count;
    char note[256];
};

/* The CPU of this machine: threads by affinity and cgroup, memory by /proc and cgroup. */
void probe_cpu(struct device *out);
void probe_write(const struct probe *probe, struct text *out);
bool probe_read(const char *text, struct probe *out, struct error *err);
/* Run `trainspool-train --probe` beside this program.  If that fails: the CPU alone, with the
 * reason in note. */
void probe_devices(struct probe *out);
/* auto: the first runnable GPU with the most memory free, else the CPU. "cpu", "cuda",
 * "cuda:N" pick; ERROR_DEVICE names what there is. */
const struct device *probe_pick(const struct probe *probe, const char *wanted,
                                struct error *err);

#endif
