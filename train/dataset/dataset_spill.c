/* train/dataset/dataset_spill.c - mapped file without a name. */
#include "config.h"

#include "train/dataset/dataset_spill.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

bool dataset_spill_grow(struct dataset_spill *spill, const char *dir, size_t bytes)
{
    int fd =
        spill->fd > 0 ? spill->fd - 1 : open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    void *data = MAP_FAILED;

    if (fd < 0)
        return false;
    if (posix_fallocate(fd, 0, (off_t)bytes) == 0)
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        if (spill->fd == 0)
            close(fd);
        return false;
    }
    if (spill->data)
        munmap(spill->data, spill->bytes);
    *spill = (struct dataset_spill) { fd + 1, data, bytes };
    return true;
}

void dataset_spill_clear(struct dataset_spill *spill)
{
    if (spill->data)
        munmap(spill->data, spill->bytes);
    if (spill->fd > 0)
        close(spill->fd - 1);
    *spill = (struct dataset_spill) { 0 };
}
