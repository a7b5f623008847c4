/*
 * train/files/zip_write.h - writer of zip archives without compression, as torch writes
 * them: the data of each file starts at a multiple of 64 bytes, so it can be mapped.
 */
#ifndef TRAIN_FILES_ZIP_WRITE_H
#define TRAIN_FILES_ZIP_WRITE_H

#include "base/text.h"

#define ZIP_ALIGNMENT \
    ((size_t)64) /* kFieldAlignment, caffe2/serialize/inline_container.h */

struct zip {
    int fd;      /* borrowed, at its start */
    uint64_t at; /* bytes written */
    uint64_t files;
    struct text directory; /* the central directory so far */
};

void zip_init(struct zip *zip, int fd);
void zip_clear(struct zip *zip);
/* Add a file; its name is ASCII. */
bool zip_add(struct zip *zip, const char *name, const void *data, size_t len,
             struct error *err);
/* Write the directory, after the last file. */
bool zip_finish(struct zip *zip, struct error *err);

#endif
