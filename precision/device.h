/*
 * precision/device.h - devices and compute capabilities: what each can do, with its
 * source. Decisions go by compute capability, never by a framework's probe, which calls
 * bf16 supported on a T4 since torch 2.4.  Sources of the tables: docs/precision.md.
 */
#ifndef PRECISION_DEVICE_H
#define PRECISION_DEVICE_H

#include "base/error.h"

#define DEVICE_RANKS_MAX 16 /* processes of one run, one a device */

enum device_kind { DEVICE_CPU, DEVICE_CUDA };

struct device {
    enum device_kind kind;
    char name[96];    /* "Tesla T4", "cpu", "sm_75" */
    int major, minor; /* compute capability; 0.0 on a CPU */
    uint64_t memory;  /* bytes in all; 0: not known */
    /* bytes free now; equals memory for a device of the table; 0: not asked */
    uint64_t available;
    /* of this machine's GPUs; -1 for a CPU or a device of the table */
    int ordinal;
    bool here;            /* found in this machine, not only named */
    bool no_tensor_cores; /* 7.5 without tensor cores: GTX 16xx */
    bool runnable;        /* this build has code for it */
    /* GPUs of this machine that can train together with it, itself too; 0: not known */
    int peers;
    int threads; /* CPU: cores usable (affinity and cgroup); else 0 */
    /* CPU: the GPU here that this build has no code for, where only that made it the
     * CPU ("Tesla V100, compute capability 7.0"); else "" */
    char passed_over[112];
    char unlike[112]; /* a GPU of the same job that is another kind or size; else "" */
};

/* A row of the device table. */
struct device_row {
    const char *name; /* as sold, "TITAN RTX" */
    const char *size; /* "" or "32GB": tells the sizes of one name apart */
    int major, minor;
    unsigned gib; /* a GB as sold counts as a GiB */
    bool no_tensor_cores;
    /* MiB that its driver leaves to programs; 0: not known, all of it */
    unsigned visible;
    const char *source;
};

/* A row by compute capability: what its family can do. */
struct capability_row {
    int major, minor;
    const char *family; /* "Turing" */
    bool fp16_tensor_cores;
    bool bf16, tf32, fp8, flash_attention_2;
    double fp16_rate; /* of fp32 arithmetic without tensor cores: 2, 1/64, ... */
    bool cuda13;      /* CUDA 13 still makes code for it */
    const char *source;
};

size_t device_rows(const struct device_row **rows);
size_t capability_rows(const struct capability_row **rows);
/* Exact row, else the highest row not above it; NULL below 6.0 or for a CPU. */
const struct capability_row *device_capability(const struct device *device);

/*
 * A device by what --device may say: an entry of the table ("TITAN RTX", "v100 32gb",
 * "3090", "NVIDIA A100-SXM4-80GB": case, blanks, maker and form do not matter, the bare
 * name means the smallest), "cpu", or a capability with memory ("sm_75:24GiB", "sm_90").
 * ERROR_USAGE with the nearest names otherwise.
 */
bool device_find(const char *text, struct device *out, struct error *err);
/* Letters and digits alone, in lower case: "V100 32GB" and "v100-32gb" are one name. */
void device_fold(const char *text, char *out, size_t room);
/* Fill in no_tensor_cores from the name a driver reports ("NVIDIA GeForce GTX 1650"). */
void device_recognise(struct device *device);

/* A CPU can compute in bf16, a GPU from 8.0 on. */
bool device_has_bf16(const struct device *device);
bool device_has_tf32(const struct device *device);
bool device_has_fp8(const struct device *device);
/* fp16 worth using: 7.x and newer with tensor cores. */
bool device_has_fp16_tensor_cores(const struct device *device);
/* "7.5"; "" on a CPU. */
void device_capability_text(const struct device *device, char out[16]);

/* "24GiB", "1.5GB", "512MB", "123" (bytes): 2^30, 10^9, ...  false if it is none of
 * these. */
bool device_parse_bytes(const char *text, uint64_t *out);
/* Less is no memory of a device, nor a part of it to train in, but a unit forgotten:
 * "24". */
#define DEVICE_MEMORY_LEAST ((uint64_t)64 << 10)

#endif
