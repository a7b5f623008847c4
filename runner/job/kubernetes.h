/* runner/job/kubernetes.h - the manifest of a job for Kubernetes, and the file of its
 * image. */
#ifndef RUNNER_JOB_KUBERNETES_H
#define RUNNER_JOB_KUBERNETES_H

#include <sys/types.h>

#include "base/text.h"
#include "precision/device.h"

enum { KUBERNETES_NAME = 64 };

/* What a job asks for.  Names and texts are UTF-8. */
struct kubernetes_job {
    const char *path;  /* of the job, absolute, the same in all pods */
    const char *mount; /* absolute: the folder that all pods share */
    const char *claim; /* of that folder; a valid name */
    const char *image;
    const char *const *set;      /* settings for trainspool run; NULL-ended */
    int64_t nodes, ranks;        /* pods, and ranks in each */
    int64_t gpus, cpus;          /* of each pod; gpus 0: none */
    uint64_t memory;             /* bytes of each pod; 0: unknown */
    bool limited;                /* the memory is a limit */
    const struct device *device; /* the GPU that nodes must have; NULL: any */
    int64_t seconds;             /* to save a checkpoint after SIGTERM */
    int64_t failures;            /* after which Kubernetes gives up */
    uid_t user;                  /* not root */
    gid_t group;
};

/* Make the name of a job's objects: a label of DNS from the name of its file, and a part of
 * the digest of its path, so that jobs of two folders differ. */
void kubernetes_name(const char *path, char out[KUBERNETES_NAME]);
/* Return whether a text is the name of an object, such as a claim. */
bool kubernetes_is_name(const char *text);

/* Append the manifest: an Indexed Job, and for several pods the Service that names them. */
void kubernetes_manifest(const struct kubernetes_job *job, struct text *out);

/* Append a Containerfile that builds the image from trainspool's sources. */
void kubernetes_container_file(bool gpu, struct text *out);

#endif
