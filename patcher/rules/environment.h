/*
 * patcher/rules/environment.h - the packages of an external job: versions given by the
 * job, and versions read from the metadata of a Python environment.  Nothing in it is
 * executed.
 */
#ifndef PATCHER_RULES_ENVIRONMENT_H
#define PATCHER_RULES_ENVIRONMENT_H

#include "base/arena.h"
#include "patcher/profiles/versions.h"

/* Maximum number of folder entries to scan; far above any real site-packages. */
#define ENVIRONMENT_MAX_ENTRIES 20000

/*
 * Read `trainspool.versions`, and the folder that `trainspool.env` names: a path, or a
 * map with VIRTUAL_ENV or CONDA_PREFIX.  A relative path is relative to `dir`.  *out
 * borrows from the document and the arena; nothing is read from disk yet.
 */
void environment_bind(const struct document *document, const char *dir,
                      struct arena *arena, struct versions *out);
/*
 * Read what is installed in out->folder: the root of a venv or a conda environment, or a
 * site-packages folder.  Set found, and version if the job gives none; if nothing can be
 * read, set trouble.
 */
void environment_read(struct arena *arena, struct versions *out);

#endif
