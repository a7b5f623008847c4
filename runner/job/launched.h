/*
 * runner/job/launched.h - a job whose ranks a launcher started: its text and its device.
 * trainspool uses this, too, which does not train (launched_ranks.h).
 */
#ifndef RUNNER_JOB_LAUNCHED_H
#define RUNNER_JOB_LAUNCHED_H

#include <signal.h>

#include "base/arena.h"
#include "runner/cluster/world.h"
#include "runner/job/job.h"
#include "runner/job/machine.h"

/* ERROR_USAGE if the text of a job asks for another number of ranks than the world has. */
bool launched_agree(const struct world *world, const struct text *text,
                    struct error *err);
/* Give the text the ranks and nodes of the world, with memory of the arena. */
bool launched_fit(const struct world *world, struct arena *arena, struct text *text,
                  struct error *err);
/* Let the machine have one device, that of this rank, of the kind that the text of the job
 * asks for: of the GPUs, the one with its local rank, or the only one that the launcher
 * shows it. */
bool launched_machine(const struct world *world, const struct text *text,
                      struct machine *machine, struct error *err);

/* The same, of a kind that rank 0 has chosen. */
bool launched_name_device(const struct world *world, enum device_kind kind,
                          struct machine *machine, struct error *err);
/* Return the name of the file by which the ranks find rank 0; malloc'ed. */
char *launched_file(const struct job *job);

/* Rank 0, which cannot begin the run: end the others, which wait for it.  Those that do not
 * come within ten seconds are left to their launcher. */
void launched_dismiss(const struct world *world, const struct job *job,
                      const volatile sig_atomic_t *stop);
#endif
