/* tests/fuzz/fuzz_torch_weights.c - files of torch.save: a file is rejected or contains its
 * tensors.  An input without the start of an archive is a pickle, which is put into one. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/files/safetensors.h"
#include "train/files/zip_write.h"

static unsigned sum_bytes(const struct stored_tensor *tensor)
{
    const unsigned char *at = tensor->data;
    unsigned sum = 0;

    for (size_t i = 0; i < tensor->bytes; i++)
        sum += at[i];
    return sum;
}

/* Return the path of an archive with the pickle and two storages. */
static const char *put_pickle(const uint8_t *data, size_t len)
{
    const char *name = fuzz_file("pytorch_model.bin", "", 0);
    int fd = open(name, O_WRONLY | O_TRUNC | O_CLOEXEC);
    static const char storage[64];
    struct zip zip;

    zip_init(&zip, fd);
    if (fd < 0 || !zip_add(&zip, "x/data.pkl", data, len, NULL) ||
        !zip_add(&zip, "x/data/0", storage, sizeof(storage), NULL) ||
        !zip_add(&zip, "x/data/1", storage, 1, NULL) || !zip_finish(&zip, NULL))
        abort();
    zip_clear(&zip);
    close(fd);
    return name;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    bool archive = len >= 2 && memcmp(data, "PK", 2) == 0;
    const char *name =
        archive ? fuzz_file("pytorch_model.bin", data, len) : put_pickle(data, len);
    struct error err = { 0 };
    struct safetensors *set = safetensors_open(name, NULL, false, &err);
    volatile unsigned sum = 0;

    FUZZ_HOLDS(set || err.code == ERROR_DATA);
    for (size_t i = 0; set && i < safetensors_count(set); i++) {
        const struct stored_tensor *tensor = safetensors_at(set, i);

        FUZZ_HOLDS(tensor->name && (tensor->bytes == 0 || tensor->data));
        sum += sum_bytes(tensor);
    }
    (void)sum;
    safetensors_close(set);
    return 0;
}
