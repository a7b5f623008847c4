/*
 * precision/device.h - devices and compute capabilities: the features of each, with its
 * source. Decisions use the compute capability, never a framework's probe, which reports
 * bf16 as supported on a T4 since torch 2.4.  Sources of the tables: docs/precision.md.
 */
#ifndef PRECISION_DEVICE_H
#define PRECISION_DEVICE_H

#include "base/error.h"

#define DEVICE_RANKS_MAX 16   /* processes of one run on one machine, one per device */
#define RANKS_MAX        1024 /* on all machines */

/* DEVICE_OTHER: an accelerator of another maker than NVIDIA, which nothing here trains
 * on: it is only named, for a job of another program. */
enum device_kind { DEVICE_CPU, DEVICE_CUDA, DEVICE_OTHER };

struct accelerator_row;

struct device {
    enum device_kind kind;
    char name[96];                             /* "Tesla T4", "cpu", "sm_75" */
    const struct accelerator_row *accelerator; /* DEVICE_OTHER: its row; else NULL */
    int major, minor; /* compute capability; 0.0 if it is not NVIDIA's */
    uint64_t memory;  /* total bytes; 0: unknown */
    /* bytes free now; equals memory for a device from the table; 0: not queried */
    uint64_t available;
    /* index among this machine's GPUs; -1 for a CPU or a device from the table */
    int ordinal;
    bool here;            /* found in this machine, not only named */
    bool no_tensor_cores; /* 7.5 without tensor cores: GTX 16xx */
    bool runnable;        /* this build has code for it */
    /* GPUs of this machine that can train together with it, including itself; 0:
     * unknown */
    int peers;
    int threads; /* CPU: usable cores (affinity and cgroup); else 0 */
    /* CPU: the GPU of this machine that would have been chosen if this build had code for
     * it ("Tesla V100, compute capability 7.0"); else "" */
    char passed_over[112];
    /* PCI bus of a GPU, "0000:3b:00.0", and memory that the context of a process takes
     * there; "" and 0: not known, so that its memory cannot be measured without one */
    char bus[24];
    uint64_t context;
    char ill[112];    /* why it should get no job, as its driver says; else "" */
    char unlike[112]; /* a GPU of the same job of another model or size; else "" */
};

/* A row of the device table. */
struct device_row {
    const char *name; /* product name, "TITAN RTX" */
    const char *size; /* "" or "32GB": distinguishes sizes of one name */
    int major, minor;
    unsigned gib; /* a GB on the label counts as a GiB */
    bool no_tensor_cores;
    /* MiB that the driver leaves to programs; 0: unknown, all of it */
    unsigned visible;
    const char *source;
};

enum known { NOT_KNOWN, KNOWN_NO, KNOWN_YES };

/* A row of the table of accelerators of other makers. */
struct accelerator_row {
    const char *name;           /* product name, "MI300X", or the backend alone */
    const char *size;           /* as in struct device_row */
    unsigned gib;               /* of one device in PyTorch; 0: not known */
    const char *maker;          /* "AMD" */
    const char *backend;        /* "rocm": as in PyTorch's device types and builds */
    enum known fp16, bf16, fp8; /* in matmuls, by units for it */
    const char *remark;         /* or NULL */
    const char *source;
};

/* A row by compute capability: the features of its family. */
struct capability_row {
    int major, minor;
    const char *family; /* "Turing" */
    bool fp16_tensor_cores;
    bool bf16, tf32, fp8, flash_attention_2;
    /* relative to fp32 arithmetic, without tensor cores: 2, 1/64, ... */
    double fp16_rate;
    bool cuda13; /* CUDA 13 still generates code for it */
    /* a board whose GPU uses the memory of its CPU (Jetson, DGX Spark): no card that can be
     * bought or rented for training */
    bool shared_memory;
    const char *source;
};

size_t device_rows(const struct device_row **rows);
size_t capability_rows(const struct capability_row **rows);
size_t device_accelerators(const struct accelerator_row **rows);
/* Return the exact row, else the highest row below it; NULL below 6.0 or for a CPU. */
const struct capability_row *device_capability(const struct device *device);

/*
 * Find a device by a --device argument: an entry of the table ("TITAN RTX", "v100 32gb",
 * "3090", "NVIDIA A100-SXM4-80GB": case, blanks, vendor and form factor are ignored, the
 * bare name means the smallest), an accelerator of another maker ("MI300X", "m2 16gb",
 * "npu"), "cpu", or a capability with memory ("sm_75:24GiB", "sm_90"). ERROR_USAGE with the nearest names otherwise.
 */
bool device_find(const char *text, struct device *out, struct error *err);
/* Keep only letters and digits, in lower case: "V100 32GB" and "v100-32gb" are the same
 * name. */
void device_normalize_name(const char *text, char *out, size_t room);
/* Set no_tensor_cores from the name a driver reports ("NVIDIA GeForce GTX 1650"). */
void device_recognize(struct device *device);

/* Return true for a CPU, for a GPU from 8.0 on, and for another accelerator that is known
 * to have it. */
bool device_has_bf16(const struct device *device);
bool device_has_tf32(const struct device *device);
bool device_has_fp8(const struct device *device);
/* Return whether fp16 is worth using: on 7.x and newer with tensor cores. */
bool device_has_fp16_tensor_cores(const struct device *device);
/* Return "7.5"; "" if it is not NVIDIA's. */
void device_capability_text(const struct device *device, char out[16]);

/* Parse "24GiB", "1.5GB", "512MB", "123" (bytes): 2^30, 10^9, ...  Return false for any
 * other text. */
bool device_parse_bytes(const char *text, uint64_t *out);
/* A smaller memory size is neither a device's memory nor enough to train in, but a number
 * with its unit missing: "24". */
#define DEVICE_MEMORY_LEAST ((uint64_t)64 << 10)

#endif
