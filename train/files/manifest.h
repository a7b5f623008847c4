/*
 * train/files/manifest.h - sizes and SHA-256 of all files of a folder, written last. A
 * folder whose manifest is missing or does not match is incomplete or damaged.
 */
#ifndef TRAIN_FILES_MANIFEST_H
#define TRAIN_FILES_MANIFEST_H

#include "base/digest.h"
#include "base/heartbeat.h"
#include "base/json.h"

#define MANIFEST_NAME "trainspool_manifest.json"

/* What a manifest says of a file. */
struct manifest_file {
    uint64_t bytes;
    char digest[DIGEST_TEXT];
};

/* Files that were flushed and hashed while they were written. */
struct manifest_known {
    json_t *files;   /* by name, as in a manifest */
    double patience; /* seconds, for a file of another machine to appear */
};

/* Add a file to such a list; NULL: do nothing. */
void manifest_note(json_t *known, const char *base, const struct manifest_file *file);

/* Flush every file of the folder, then write the manifest and flush the folder.  `job` is
 * the SHA-256 of the job that made it, or NULL.  `known` files (NULL: none) are not read
 * again, but must be there with their size: another machine may have written them.
 * The heartbeat (or NULL) ticks, but does not stop. */
bool manifest_write(const char *dir, const char *job, const struct manifest_known *known,
                    struct heartbeat *heartbeat, struct error *err);
/* Check that every file exists with its size; with `deep` also its digest, until the
 * heartbeat (or NULL) stops. */
bool manifest_check(const char *dir, bool deep, struct heartbeat *heartbeat,
                    struct error *err);
/* The same, but compute the digests only of share `part` of `parts`, which are about equally
 * large: several processes check a folder together. */
bool manifest_check_part(const char *dir, size_t part, size_t parts,
                         struct heartbeat *heartbeat, struct error *err);
/* Return whether the job with this digest made the folder. */
bool manifest_has_job(const char *dir, const char *job);

/* What an open folder, which is not followed through links, says of itself. */
struct manifest_facts {
    char job[65];  /* the digest of manifest_write; "": none */
    int64_t bytes; /* of all files */
    int64_t made;  /* seconds since 1970 */
    /* it holds the files of its manifest, with their sizes, and nothing else, and none was
     * changed after the manifest was written */
    bool untouched;
};
/* Return false if it has no manifest. */
bool manifest_read_facts(int dir, struct manifest_facts *out);
/* Remove the files that the manifest lists, then the manifest. What else is in the folder
 * stays. Files that are gone already are no error. */
bool manifest_remove_files(int dir, struct error *err);

#endif
