/* train/files/zip_read.h - the directory of a zip archive that is not trusted.  Only files
 * without compression are of use here: their data can be mapped. */
#ifndef TRAIN_FILES_ZIP_READ_H
#define TRAIN_FILES_ZIP_READ_H

#include "train/files/safetensors_internal.h"

struct zip_entry {
    const char *name; /* in the arena */
    uint64_t header;  /* offset of its local header */
    uint64_t bytes;
    bool plain; /* neither compressed nor encrypted */
};

struct zip_directory {
    struct zip_entry *entries; /* in the arena, sorted by name */
    size_t count;
};

/* ERROR_DATA names the file if it is no archive, or its directory is damaged. */
bool zip_directory_read(const struct weights_file *file, struct arena *arena,
                        struct zip_directory *out, struct error *err);
/* NULL: there is none. */
const struct zip_entry *zip_directory_find(const struct zip_directory *directory,
                                           const char *name);
/* Find the data of an entry, which is plain and inside the file. */
bool zip_entry_locate(const struct weights_file *file, const struct zip_entry *entry,
                      uint64_t *at, struct error *err);

#endif
