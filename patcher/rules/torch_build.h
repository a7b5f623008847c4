/*
 * patcher/rules/torch_build.h - PyTorch's published builds: the CUDA toolkit of each, and
 * the compute capabilities that it has code for.
 */
#ifndef PATCHER_RULES_TORCH_BUILD_H
#define PATCHER_RULES_TORCH_BUILD_H

#include "patcher/profiles/versions.h"

struct torch_build {
    const char *torch;   /* such as 2.4: any of its patch releases */
    const char *toolkit; /* such as 12.1 */
    const char *code;    /* capabilities with machine code: "5.0 6.0 7.0" */
    int ptx;             /* 120: PTX of 12.0, which newer cards compile; 0: none */
    const char *source;
};

size_t torch_builds(const struct torch_build **rows);
/* Return whether the row describes this version of torch and of the toolkit; an
 * abbreviated version matches.  NULL: any. */
bool torch_build_matches(const struct torch_build *build, const struct version *torch,
                         const struct version *toolkit);
/* Return whether the build can run on a card; 86: compute capability 8.6. */
bool torch_build_runs_on(const struct torch_build *build, int capability);
/*
 * Return the build to install for a card: of the same release, else of the first later
 * one, else of the last earlier one; each with its newest toolkit.  Without a version,
 * the newest release.  NULL if no build has code for the card.
 */
const struct torch_build *torch_build_for(const struct version *torch, int capability);
/* Return whether PyTorch's own builds run on boards with this capability: on Jetson
 * boards only NVIDIA's builds do. */
bool torch_build_serves(int capability);

#endif
