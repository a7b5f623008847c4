/*
 * base/path.h - names of files, and the names that belong to a job. The results are
 * malloc'ed; the caller frees them.
 */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include "base/text.h"

/* An absolute name is unchanged, and so is any name in ".". */
char *path_join(const char *dir, const char *name);
/* Return the path of an input: `name` in `dir`, or `name` in the working directory if only
 * that exists. */
char *path_input(const char *dir, const char *name);
/* Return whether path_input takes `name` from the working directory. */
bool path_is_from_here(const char *dir, const char *name);
/* Return the path from the root, without "." and "..", by its components alone. */
char *path_absolute(const char *name);
/* Return whether a relative path leaves its starting folder, by its components alone. */
bool path_climbs(const char *path);
char *path_dir(const char *name);        /* "." if there is none */
const char *path_base(const char *name); /* points into name */
/* gsm8k.yaml or gsm8k.yml -> gsm8k.run, in the same directory; .run is appended to any
 * other name */
char *path_run_dir(const char *job);
/* A gsm8k.yml next to a gsm8k.yaml would share its folder, which belongs to the latter:
 * return that name, or NULL if no other job owns the folder.  The caller frees it. */
char *path_run_owner(const char *job);
/* Return whether no other job owns the folder; otherwise ERROR_USAGE, with the remedy. */
bool path_run_is_free(const char *job, struct error *err);

#endif
