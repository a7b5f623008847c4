/* precision/format.h - number formats: range, epsilon, bytes, conversion. */
#ifndef PRECISION_FORMAT_H
#define PRECISION_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum format {
    FORMAT_FP32,
    FORMAT_TF32, /* fp32 in memory, 10 mantissa bits in a matmul */
    FORMAT_FP16, /* IEEE 754 binary16 */
    FORMAT_BF16, /* the upper half of an fp32 */
    FORMAT_FP8_E4M3,
    FORMAT_FP8_E5M2,
    FORMAT_CODES, /* 8 bits: of a table of 256 values, such as precision/dynamic_map.h */
    FORMAT_COUNT
};

struct format_info {
    const char *name; /* "fp32" */
    /* "float32": as in config.json and PyTorch; NULL if it has none */
    const char *torch;
    const char *safetensors; /* "F32"; NULL if it has none */
    size_t bytes;            /* per element in memory */
    double max;              /* largest finite value */
    double min_normal;       /* smallest normal value */
    double min_subnormal;    /* smallest value above zero */
    double epsilon;          /* distance from 1 to the next value */
};

const struct format_info *format_info(enum format format);
/* Return the name in config.json and PyTorch ("float32"), or our own if it has none. */
const char *format_dtype(enum format format);
/* Find a format by any of its three names, case-sensitive.  Return false if there is
 * none. */
bool format_find(const char *name, enum format *out);

/* Exact for every bit pattern: keeps subnormals, rounds to nearest even, overflows to
 * inf; a NaN stays a NaN (quiet, payload truncated). */
float format_from_fp16(uint16_t bits);
uint16_t format_to_fp16(float value);
float format_from_bf16(uint16_t bits);
uint16_t format_to_bf16(float value);

/* The same for 8 bits, except that E4M3 has no inf: a finite value beyond 448 becomes
 * 448, inf becomes NaN. */
float format_from_e4m3(uint8_t bits);
uint8_t format_to_e4m3(float value);
float format_from_e5m2(uint8_t bits);
uint8_t format_to_e5m2(float value);

/* Convert arrays between any two of FP32, FP16, BF16.  `in` may start at any byte. */
void format_convert(void *out, enum format to, const void *in, enum format from,
                    size_t count);

#endif
