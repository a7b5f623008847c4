/*
 * train/files/manifest.h - sizes and SHA-256 of all files of a folder, written last. A
 * folder whose manifest is missing or does not match is incomplete or damaged.
 */
#ifndef TRAIN_FILES_MANIFEST_H
#define TRAIN_FILES_MANIFEST_H

#include "base/heartbeat.h"

#define MANIFEST_NAME "trainspool_manifest.json"

/* Flush every file of the folder, then write the manifest and flush the folder.  `job` is
 * the SHA-256 of the job that made it, or NULL.  The heartbeat (or NULL) ticks, but does
 * not stop. */
bool manifest_write(const char *dir, const char *job, struct heartbeat *heartbeat,
                    struct error *err);
/* Check that every file exists with its size; with `deep` also its digest, until the
 * heartbeat (or NULL) stops. */
bool manifest_check(const char *dir, bool deep, struct heartbeat *heartbeat,
                    struct error *err);
/* Return whether the job with this digest made the folder. */
bool manifest_has_job(const char *dir, const char *job);

#endif
