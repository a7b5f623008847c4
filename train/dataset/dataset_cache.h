/* train/dataset/dataset_cache.h - file with the tokens of a dataset, which the next run
 * with the same data maps instead of reading the texts again.
 *
 * The file (all numbers little-endian):
 *   8 bytes    "TSTOKENS"
 *   8 bytes    length of the header, so that the arrays start at a multiple of 64
 *   header     JSON, padded with blanks:
 *                format    4
 *                key       all that determines the tokens except the files: program,
 *                          stage, template, cutoff_len, ..., the sources, their columns,
 *                          and the tokens that the template makes of a fixed conversation
 *                files     data and tokenizer: path, bytes, mtime (seconds, ns), sha256
 *                kept      time in seconds: a file that is not older is hashed again
 *                parts     samples of each source
 *                notes     notes on records that were left out
 *                samples, runs, tokens, token_max, weighted, media, media_runs, strings:
 *                          of the arrays
 *   samples, media, label spans, media spans, ids, strings: the arrays of struct
 *              dataset_store
 *   64 bytes   SHA-256 of everything before, in hexadecimal digits
 *
 * The file is written under a temporary name, flushed and renamed, so that a kill leaves
 * the old file or none. The digest detects a truncated or damaged file, and the texts are
 * read again. A data file counts as unchanged if size and time are the same, or else if
 * its digest is. */
#ifndef TRAIN_DATASET_DATASET_CACHE_H
#define TRAIN_DATASET_DATASET_CACHE_H

#include "train/dataset/dataset_tokens.h"

/* Set *found if the file fits; *out is then its content, mapped read-only. Otherwise *why
 * (initialized by the caller) says why it does not fit; it is empty if there is no file.
 * Return false with *err set if a source has no files. */
bool dataset_cache_find(const struct dataset_reading *reading, const char *name,
                        struct dataset_tokens *out, bool *found, struct text *why,
                        struct error *err);

/* Save the tokens. Do nothing if another process is saving the same file. */
bool dataset_cache_save(const struct dataset_reading *reading, const char *name,
                        const struct dataset_tokens *tokens, struct error *err);

#endif
