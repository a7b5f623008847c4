/*
 * patcher/rules/environment.h - which packages an external job runs with: what the job says of
 * them, and what the metadata of a Python environment say.  Nothing of it is executed.
 */
#ifndef PATCHER_RULES_ENVIRONMENT_H
#define PATCHER_RULES_ENVIRONMENT_H

#include "base/arena.h"
#include "patcher/rules/versions.h"

/* Entries of a folder that are looked at; far above any real site-packages. */
#define ENVIRONMENT_MAX_ENTRIES 20000

/*
 * `trainspool.versions`, and the folder that `trainspool.env` names: a path, or a map
 * with VIRTUAL_ENV or CONDA_PREFIX.  A relative path is relative to `dir`.  *out borrows
 * from the document and the arena; nothing is read from disk yet.
 */
void environment_bind(const struct document *document, const char *dir,
                      struct arena *arena, struct versions *out);
/*
 * Read what is installed in out->folder: the root of a venv or a conda environment, or a
 * site-packages folder itself.  Fills found, and version where nothing is given; where
 * nothing can be read, trouble.
 */
void environment_read(struct arena *arena, struct versions *out);

#endif
