/* tests/reference/backend_double.c - memory with a double for every four bytes, and the
 * operation table. */
#include "config.h"

#include "tests/reference/backend_double.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tests/reference/double_ops.h"

enum { ALIGNMENT = 64 };

struct double_block {
    struct double_block *next;
    char *data;
    double *numbers; /* one for every four bytes of data */
    size_t bytes;
};

static struct double_block *find_block(struct backend *be, const void *data)
{
    for (struct double_block *b = double_of(be)->blocks; b; b = b->next)
        if ((const char *)data >= b->data && (const char *)data < b->data + b->bytes)
            return b;
    return NULL;
}

double *double_values(struct backend *be, const void *data)
{
    struct double_block *b = find_block(be, data);
    size_t at;

    assert(b);
    at = (size_t)((const char *)data - b->data);
    assert(at % sizeof(float) == 0);
    return b->numbers + at / sizeof(float);
}

double double_take_loss(struct backend *be)
{
    double loss = double_of(be)->loss;

    double_of(be)->loss = 0;
    return loss;
}

double double_take_preference(struct backend *be)
{
    double loss = double_of(be)->preference;

    double_of(be)->preference = 0;
    return loss;
}

double double_take_balance(struct backend *be)
{
    double loss = double_of(be)->balance;

    double_of(be)->balance = 0;
    return loss;
}

/* ---- Memory ---- */

static void *double_alloc(struct backend *be, size_t bytes, struct error *err)
{
    struct double_block *b = memory_alloc(sizeof(*b));

    (void)err;
    b->bytes = size_round(bytes ? bytes : 1, ALIGNMENT);
    b->data = aligned_alloc(ALIGNMENT, b->bytes);
    assert(b->data);
    memset(b->data, 0, b->bytes);
    b->numbers = memory_alloc(b->bytes / sizeof(float) * sizeof(double));
    b->next = double_of(be)->blocks;
    double_of(be)->blocks = b;
    return b->data;
}

static void double_free(struct backend *be, void *data)
{
    for (struct double_block **at = &double_of(be)->blocks; *at; at = &(*at)->next) {
        struct double_block *b = *at;

        if (b->data != data)
            continue;
        *at = b->next;
        free(b->data);
        free(b->numbers);
        free(b);
        return;
    }
}

static void double_upload(struct backend *be, void *to, const void *from, size_t bytes)
{
    double *numbers = bytes ? double_values(be, to) : NULL;

    if (bytes)
        memcpy(to, from, bytes);
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        numbers[i] = (double)((float *)to)[i];
}

static void double_download(struct backend *be, void *to, const void *from, size_t bytes)
{
    (void)be;
    if (bytes)
        memcpy(to, from, bytes);
}

static bool double_sync(struct backend *be, struct error *err)
{
    (void)be;
    (void)err;
    return true;
}

static const char *double_describe(struct backend *be)
{
    (void)be;
    return "double";
}

static size_t double_workspace(struct backend *be)
{
    (void)be;
    return 0;
}

static struct backend *double_open(const struct backend_options *options,
                                   struct error *err)
{
    struct double_backend *be = memory_alloc(sizeof(*be));

    (void)options;
    (void)err;
    be->base.ops = &backend_double;
    be->operands = arena_new();
    return &be->base;
}

static void double_close(struct backend *be)
{
    while (double_of(be)->blocks)
        double_free(be, double_of(be)->blocks->data);
    arena_free(double_of(be)->operands);
    free(be);
}

#define DOUBLE_ENTRY_NO_DOUBLE(name)
#define DOUBLE_ENTRY_DOUBLE(name) .name = double_##name,
#define DOUBLE_ENTRY(name, tensors, cpu, cuda, reference, watch) \
    DOUBLE_ENTRY_##reference(name)

const struct backend_ops backend_double = {
    .name = "double",
    .kind = DEVICE_CPU,
    .alignment = ALIGNMENT,
    .rounds_b = true,
    .open = double_open,
    .close = double_close,
    .describe = double_describe,
    .workspace = double_workspace,
    .alloc = double_alloc,
    .free = double_free,
    .upload = double_upload,
    .download = double_download,
    .sync = double_sync,
    OPERATIONS(DOUBLE_ENTRY) /* NAME = double_NAME, for each */
};
