/* runner/commands/submit_kubernetes.h - submit --k8s: a manifest instead of a copy. */
#ifndef RUNNER_COMMANDS_SUBMIT_KUBERNETES_H
#define RUNNER_COMMANDS_SUBMIT_KUBERNETES_H

#include "runner/options/options.h"

/* Check the jobs for the device of the cluster, and print a manifest for each, or write it
 * with a Containerfile into the folder of --output.  Return the exit status. */
int submit_kubernetes(const struct options *options);

#endif
