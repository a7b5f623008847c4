/*
 * precision/probe.h - detect the devices of this machine.  `trainspool` runs
 * `trainspool-train --probe` and parses its output, so that the daemon never loads a
 * driver; tests can pass the parser the description of any machine.
 * One device per line, tab-separated, after a first line "trainspool-probe 1":
 *   cpu   <name> <threads> <memory bytes> <available bytes>
 *   cuda  <ordinal> <name> <major>.<minor> <memory bytes> <available bytes> <runnable 0
 *         or 1> [<why it should get no job> [<bytes of a context> <bus>]]
 *   note  <text>     why something is missing ("no CUDA driver")
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

/* Describe the CPU of this machine: threads by affinity and cgroup, memory by /proc and
 * cgroup. */
void probe_cpu(struct device *out);
/* Measure its free memory again. */
void probe_cpu_memory(struct device *out);
void probe_write(const struct probe *probe, struct text *out);
bool probe_read(const char *text, struct probe *out, struct error *err);
/* Run `trainspool-train --probe` from this program's directory.  If that fails, report
 * only the CPU, with the reason in note. */
void probe_devices(struct probe *out);
/*
 * Measure what is free on the GPUs of an earlier probe, and whether they are well, without a
 * context on any: `trainspool-train --measure 0/BUS,1/BUS`, which prints lines
 *   free  <ordinal> <bytes> [<why it should get no job>]
 * The bytes include those of a context; *out says what a context leaves, as probe_devices
 * does. Return false if that is not possible for all of them.
 */
bool probe_measure(const struct probe *known, struct probe *out);
/* Read and write the list and the lines, for trainspool-train. */
size_t probe_read_buses(const char *list, struct device *out, size_t room);
void probe_write_free(const struct device *list, size_t count, struct text *out);
/*
 * Choose the devices of a run of `ranks` processes, rank 0's first; return how many were
 * found, at most one per rank, or 0 with ERROR_DEVICE and the names of this machine's
 * devices.
 *   cpu          the CPU for all
 *   cuda         runnable GPUs of one compute capability, those with the most free memory
 *   auto         the same, or the CPU if there are none
 *   cuda:N,M,..  these, even if `ranks` is 1
 */
size_t probe_select(const struct probe *probe, const char *wanted, size_t ranks,
                    const struct device *out[DEVICE_RANKS_MAX], struct error *err);
/* Return a GPU that `wanted` (cuda, cuda:N, or auto) would select if this build had code
 * for it, when probe_select finds no other; NULL. */
const struct device *probe_without_code(const struct probe *probe, const char *wanted);
/* Count the GPUs that `wanted` lists explicitly; 0 for auto, cpu, cuda, and for invalid
 * text. */
size_t probe_count_named(const char *wanted);
/* Return whether `wanted` names this GPU or may select it.  Any GPU for auto and cuda. */
bool probe_name_matches(const char *wanted, int ordinal);
/* Choose the device of a single process. */
const struct device *probe_select_one(const struct probe *probe, const char *wanted,
                                      struct error *err);
/* Count the GPUs that could run together with this one: the runnable ones of its
 * capability, including itself. */
int probe_peers(const struct probe *probe, const struct device *device);

#endif
