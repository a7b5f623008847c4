/* patcher/schema/slurm_values.h - values of the options of Slurm in the block trainspool. */
#ifndef PATCHER_SCHEMA_SLURM_VALUES_H
#define PATCHER_SCHEMA_SLURM_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return whether a text is one or several names, such as a partition. */
bool slurm_is_name(const char *text);
/* Return whether a text is an expression of names of features, such as a100&(nvlink|sxm). */
bool slurm_is_constraint(const char *text);
/* Return whether a text is a size in MB, or with a suffix K, M, G or T. */
bool slurm_is_size(const char *text);
/* Return whether a text is a time limit above 0, and its length; *seconds may be NULL. */
bool slurm_is_time(const char *text, int64_t *seconds);

enum { SLURM_GPU_TYPES = 8, SLURM_TYPE_SIZE = 64 };

/* The GPUs of a list of generic resources. */
struct slurm_gpus {
    bool any;      /* gpu occurs */
    int64_t count; /* of each node */
    size_t types;  /* how many of the following are known: "a100" of gpu:a100:4 */
    char type[SLURM_GPU_TYPES][SLURM_TYPE_SIZE];
    bool untyped; /* also gpu:2 occurs */
};

/* Read a list of resources, such as gpu:a100:4,shard:1. False: it is none. */
bool slurm_read_gres(const char *text, struct slurm_gpus *out);
/* The same for a node, as sinfo prints them: gpu:a100:4(S:0-1),shard:8.  What is no
 * resource is skipped. */
void slurm_read_node_gres(const char *text, struct slurm_gpus *out);

/* Return whether a node with these features, separated by commas, may be one of those that
 * the constraint selects. */
bool slurm_matches(const char *constraint, const char *features);

#endif
