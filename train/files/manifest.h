/*
 * train/files/manifest.h - sizes and SHA-256 of all files of a folder, in its last file.  A
 * folder whose manifest is missing or does not fit was never finished, or was damaged.
 */
#ifndef TRAIN_FILES_MANIFEST_H
#define TRAIN_FILES_MANIFEST_H

#include "base/error.h"

#define MANIFEST_NAME "trainspool_manifest.json"

/* Flush every file of the folder, then write the manifest and flush the folder.  `job` is
 * the SHA-256 of the job that made it, or NULL. */
bool manifest_write(const char *dir, const char *job, struct error *err);
/* Every file is there with its size; with `deep` also its digest is right. */
bool manifest_check(const char *dir, bool deep, struct error *err);
/* Was the folder made by the job with this digest? */
bool manifest_is_of(const char *dir, const char *job);

#endif
