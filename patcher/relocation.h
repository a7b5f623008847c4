/*
 * patcher/relocation.h - a job's text that moves to another folder: relative paths that
 * mean something where it comes from become full paths.
 */
#ifndef PATCHER_RELOCATION_H
#define PATCHER_RELOCATION_H

#include "base/arena.h"
#include "base/error.h"

struct relocated {
    const char *key, *from, *to;
};

struct relocation {
    struct arena *arena; /* of everything below, except for the text without changes */
    const char *text;
    size_t len;
    struct relocated *list;
    size_t count, room;
};

/*
 * Relocate the text of a job.  Inputs that exist relative to `dir`, the folder of the job,
 * or else to the working directory become full paths; so do datasets that dataset_dir has,
 * by dataset_dir, and outputs that leave the folder by `..`.  Other relative paths stay
 * and are relative to the new folder.  The layout of the text stays, too.  A text that is
 * not a job stays unchanged.
 *
 * ERROR_JOB if a value cannot be replaced.  relocation_clear in any case.
 */
bool relocate(const char *data, size_t len, const char *dir, struct relocation *out,
              struct error *err);
void relocation_clear(struct relocation *relocation);

#endif
