/*
 * train/dataset/dataset_cache.h - tokens kept in a file, which the next run with the same data
 * maps instead of reading the texts again.
 *
 * The file (all numbers little-endian):
 *   8 bytes    "TSTOKENS"
 *   8 bytes    length of the header, so that what follows begins at a multiple of 64
 *   header     JSON, filled up with blanks:
 *                format    1
 *                key       all that the tokens depend on but the files: the program,
 *                stage,
 *                          template, cutoff_len, ..., the sources and their columns, and
 *                          what the template makes of a conversation that is always the
 *                          same
 *                files     data and tokenizer: path, bytes, mtime (seconds, ns), sha256
 *                kept      when, in seconds: a file as young as this is looked into again
 *                parts     samples of each source
 *                notes     what was said of records that were left out
 *                samples, runs, tokens, token_max, weighted: of the arrays
 *   samples, label runs, ids: the arrays of struct dataset_store
 *   64 bytes   SHA-256 of all before, in hexadecimal digits
 * It is written beside, flushed and renamed, so that a kill leaves the old one or none;
 * what is cut off or damaged is found by its digest and read anew.  A file of data counts
 * as the same if size and time are, and else if its digest is.
 */
#ifndef TRAIN_DATASET_DATASET_CACHE_H
#define TRAIN_DATASET_DATASET_CACHE_H

#include "train/dataset/dataset_tokens.h"

/* *found: *out is what was kept, mapped and only to be read.  Else *why (initialised)
 * tells why it is not, empty where there is no file.  False: *err tells (a source has no
 * files). */
bool dataset_cache_find(const struct dataset_reading *reading, const char *name,
                        struct dataset_tokens *out, bool *found, struct text *why,
                        struct error *err);

/* Keep them.  Where another process does so for the same file, nothing is done. */
bool dataset_cache_keep(const struct dataset_reading *reading, const char *name,
                        const struct dataset_tokens *tokens, struct error *err);

#endif
