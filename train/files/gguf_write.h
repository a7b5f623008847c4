/* train/files/gguf_write.h - writer of GGUF, the format of llama.cpp
 * (ggml-org/ggml, docs/gguf.md, version 3): typed values by key, then tensors, of which
 * a few rows are in memory at a time. */
#ifndef TRAIN_FILES_GGUF_WRITE_H
#define TRAIN_FILES_GGUF_WRITE_H

#include "base/text.h"

/* ggml's numbers of number formats, and of the types of values. */
enum gguf_type { GGUF_F32 = 0, GGUF_F16 = 1, GGUF_Q8_0 = 8, GGUF_BF16 = 30 };
enum gguf_element { GGUF_INT32 = 5, GGUF_FLOAT32 = 6, GGUF_STRING = 8 };

/* Elements of a block of GGUF_Q8_0, which a row has a multiple of. */
enum { GGUF_BLOCK = 32 };

struct gguf_values {
    struct text bytes;
    uint64_t count;
    bool too_long;
};

struct gguf_tensor {
    const char *name;
    enum gguf_type type;
    size_t rank, rows, cols; /* a vector has rank 1 and 1 row */
    /* Write one row. */
    bool (*read)(const struct gguf_tensor *tensor, size_t row, float *to,
                 struct error *err);
    const void *context;
};

void gguf_init(struct gguf_values *values);
void gguf_clear(struct gguf_values *values);

void gguf_add_string(struct gguf_values *values, const char *key, const char *string);
void gguf_add_uint32(struct gguf_values *values, const char *key, uint64_t value);
void gguf_add_float32(struct gguf_values *values, const char *key, double value);
void gguf_add_bool(struct gguf_values *values, const char *key, bool value);
/* Begin an array, whose elements the caller adds by gguf_put_. */
void gguf_add_array(struct gguf_values *values, const char *key, enum gguf_element type,
                    size_t count);
void gguf_put_int32(struct gguf_values *values, int32_t value);
void gguf_put_float32(struct gguf_values *values, double value);
void gguf_put_string(struct gguf_values *values, const char *string, size_t len);

/* Create `name`, which must not exist (fsynced; the caller makes it visible by renaming
 * its folder).  Removes the file on failure.  ERROR_DATA: a value exceeds fp16, or the
 * header is too long. */
bool gguf_write(const char *name, const struct gguf_values *values,
                const struct gguf_tensor *tensors, size_t count, struct error *err);

#endif
