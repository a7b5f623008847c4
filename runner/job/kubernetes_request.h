/* runner/job/kubernetes_request.h - what a job that was inspected asks of Kubernetes. */
#ifndef RUNNER_JOB_KUBERNETES_REQUEST_H
#define RUNNER_JOB_KUBERNETES_REQUEST_H

#include "runner/job/inspect.h"
#include "runner/job/kubernetes.h"
#include "runner/options/options.h"

/*
 * Fill in what the plan says; path, mount, claim, image and set are the caller's.  The
 * inspection is that of a job that a cluster runs: its device is not this machine's, and
 * its keys for Slurm count.  ERROR_JOB if a path of the job is not below the mount.
 */
bool kubernetes_request(const struct inspection *inspection, struct kubernetes_job *out,
                        struct error *err);

#endif
