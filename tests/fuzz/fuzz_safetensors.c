/* tests/fuzz/fuzz_safetensors.c - safetensors files: a file is rejected or contains its
 * tensors. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "train/files/safetensors.h"

static unsigned sum_bytes(const struct stored_tensor *tensor)
{
    const unsigned char *at = tensor->data;
    unsigned sum = 0;

    for (size_t i = 0; i < tensor->bytes; i++)
        sum += at[i];
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    struct error err = { 0 };
    struct safetensors *set;
    volatile unsigned sum = 0;
    char name[64];

    if (fd < 0 || write(fd, data, len) != (ssize_t)len)
        abort();
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    set = safetensors_open(name, NULL, false, &err);
    if (!set && err.code == ERROR_NONE)
        abort();
    for (size_t i = 0; set && i < safetensors_count(set); i++) {
        const struct stored_tensor *tensor = safetensors_at(set, i);

        if (!tensor->name || (tensor->bytes > 0 && !tensor->data))
            abort();
        sum += sum_bytes(tensor);
    }
    (void)sum;
    safetensors_close(set);
    close(fd);
    return 0;
}
