/*
 * train/media_cache.h - a folder of rows of features, written in parts while they are computed,
 * so that a run that is stopped resumes after the last part; train/media/features.h reads it.
 */
#ifndef TRAIN_MEDIA_CACHE_H
#define TRAIN_MEDIA_CACHE_H

#include "train/tower/tower.h"

struct media_cache;

/* Return the folder of this name in a run's folder, malloc'ed: it is named by 16 digits
 * of the description, a digest. */
char *media_cache_name(const char *parent, const char *description);
/* Remove all folders of such names but one.  Files that are not of a cache stay, and so does a
 * folder that has some. */
void media_cache_remove_others(const char *parent, const char *keep);

/* Create the folder if it is missing, and list what it has. */
struct media_cache *media_cache_open(const char *dir, struct error *err);
void media_cache_close(struct media_cache *cache); /* NULL is allowed */
bool media_cache_has(const struct media_cache *cache, const char *key);
/* Add the rows of an item, which the cache then owns: *rows is empty.  A grid of 0: none. */
bool media_cache_add(struct media_cache *cache, const char *key, const int32_t grid[3],
                     struct tower_output *rows, struct error *err);
/* Write what has been added since the last part. */
bool media_cache_flush(struct media_cache *cache, struct error *err);
/* The same, and let train/media/features.h find all parts. */
bool media_cache_finish(struct media_cache *cache, struct error *err);

#endif
