/* tests/fuzz/fuzz_tensors.h - inputs that are, or end with, a safetensors file. */
#ifndef TESTS_FUZZ_FUZZ_TENSORS_H
#define TESTS_FUZZ_FUZZ_TENSORS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "train/files/safetensors_internal.h"

/* Open a file with this contents.  The data is moved to memory of its own: AddressSanitizer
 * does not see reads after the end of a mapping that are in its last page. */
static struct safetensors *fuzz_open_tensors(const uint8_t *data, size_t len,
                                             struct error *err)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    struct safetensors *set;
    const char *from;
    char name[64], *copy;

    if (fd < 0 || write(fd, data, len) != (ssize_t)len)
        abort();
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    set = safetensors_open(name, NULL, false, err);
    close(fd);
    if (!set)
        return NULL;
    from = set->maps[0].data;
    copy = malloc(len);
    if (!copy)
        abort();
    memcpy(copy, from, len);
    for (size_t i = 0; i < set->count; i++)
        set->tensors[i].data = copy + ((const char *)set->tensors[i].data - from);
    safetensors_keep(set, copy);
    return set;
}

#endif
