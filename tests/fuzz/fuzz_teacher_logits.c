/* tests/fuzz/fuzz_teacher_logits.c - files of teacher logits: a file is rejected, or its
 * token ids for a batch are ascending and within the vocabulary. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "train/teacher/teacher_logits.h"

enum { ROWS = 6, KEPT_MAX = 1 << 16 };

/* The samples of the files in the corpus: 2 1 2 with labels for the last two, and 3 2
 * 1. */
static struct batch batch_of(int32_t storage[4][ROWS + 1])
{
    static const int32_t tokens[ROWS] = { 2, 1, 2, 3, 2, 1 };
    static const int32_t targets[ROWS] = { -100, 2, 5, 2, -100, -100 };

    for (int32_t i = 0; i < ROWS; i++) {
        storage[0][i] = tokens[i];
        storage[1][i] = targets[i];
        storage[2][i] = i % 3;
        storage[3][i] = 3 * i;
    }
    return (struct batch) { .rows = ROWS,
                            .sequences = 2,
                            .longest = 3,
                            .tokens = storage[0],
                            .targets = storage[1],
                            .positions = storage[2],
                            .offsets = storage[3] };
}

static void check_batch(const struct teacher_logits *file)
{
    const struct teacher_logits_kind *kind = teacher_logits_kind(file);
    int32_t storage[4][ROWS + 1], *ids;
    struct batch batch = batch_of(storage);
    struct error err = { 0 };
    float *values;

    if (kind->kept == 0 || kind->vocabulary < kind->kept)
        abort();
    if (kind->kept > KEPT_MAX)
        return;
    ids = memory_alloc(ROWS * kind->kept * sizeof(*ids));
    values = memory_alloc(ROWS * kind->kept * sizeof(*values));
    if (teacher_logits_find(file, &batch, ids, values, &err)) {
        for (size_t n = 0; n < ROWS; n++)
            for (size_t k = 0; batch.targets[n] >= 0 && k < kind->kept; k++)
                if (ids[n * kind->kept + k] < (int32_t)k ||
                    (size_t)ids[n * kind->kept + k] >= kind->vocabulary)
                    abort();
    } else if (err.code == ERROR_NONE) {
        abort();
    }
    free(ids);
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    struct error err = { 0 };
    struct teacher_logits *file;
    char name[64];

    if (fd < 0 || write(fd, data, len) != (ssize_t)len)
        abort();
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    file = teacher_logits_open(name, &err);
    if (!file && err.code == ERROR_NONE)
        abort();
    if (file)
        check_batch(file);
    teacher_logits_close(file);
    close(fd);
    return 0;
}
