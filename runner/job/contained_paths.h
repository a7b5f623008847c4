/*
 * runner/job/contained_paths.h - the files and folders that a contained job may use: what
 * its text names, its run folder, the system's libraries, and what a GPU driver needs.
 */
#ifndef RUNNER_JOB_CONTAINED_PATHS_H
#define RUNNER_JOB_CONTAINED_PATHS_H

#include "base/arena.h"
#include "base/landlock.h"
#include "train/plan.h"

struct contained_path {
    const char *path;
    enum landlock_access access;
};

struct contained_paths {
    struct arena *arena;
    struct contained_path *list; /* in the arena */
    size_t count, room;
};

void contained_paths_init(struct contained_paths *paths, struct arena *arena);
void contained_paths_add(struct contained_paths *paths, const char *path,
                         enum landlock_access access);

/* Add what every program reads: libraries, /proc, /sys, the files of the C library in
 * /etc; and the folders of the libraries that are loaded, and of LD_LIBRARY_PATH. */
void contained_paths_add_system(struct contained_paths *paths);
/* Add the devices and folders of CUDA, MPS and NCCL. */
void contained_paths_add_gpu(struct contained_paths *paths);
/* Create trainspool's own cache folder and add it. */
void contained_paths_add_cache(struct contained_paths *paths);
/* Add the inputs and outputs that the job names. Links in its folders of models and data
 * count if they lead to a regular file of a kind that trainspool reads, or into the blobs
 * of a Hugging Face cache: what a downloaded folder links to need not be meant for the
 * job. Of dataset_dir, only the data files count; if the model has towers for media,
 * whose files records name, everything in the folders of the data files and in
 * media_dir. */
void contained_paths_add_plan(struct contained_paths *paths, const struct plan *plan);
/* The same for a process that writes none of them. */
void contained_paths_add_inputs(struct contained_paths *paths, const struct plan *plan);

#endif
