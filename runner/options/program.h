/*
 * runner/options/program.h - the program that trains a job, as --target and --versions
 * name it: `--target trl --versions trl=0.26,torch=2.8`.
 */
#ifndef RUNNER_OPTIONS_PROGRAM_H
#define RUNNER_OPTIONS_PROGRAM_H

#include "patcher/profiles/versions.h"
#include "runner/options/options.h"

struct program {
    struct arena *arena;
    const char *target;              /* NULL: the job names it */
    const struct versions *versions; /* NULL: those of the job */
    struct versions storage;
};

/* Parse the options. ERROR_USAGE for an unknown package or what is not a version.  Call
 * program_clear in any case. */
bool program_read(const struct options *options, struct program *out, struct error *err);
void program_clear(struct program *program);

#endif
