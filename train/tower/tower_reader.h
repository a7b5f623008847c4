/*
 * train/tower/tower_reader.h - what tower_config.c reads config.json with.  A value that does
 * not fit sets *err; the value returned then is in range.
 */
#ifndef TRAIN_TOWER_TOWER_READER_H
#define TRAIN_TOWER_TOWER_READER_H

#include "train/tower/tower_config.h"

/* Ranges far beyond the sizes of published models. */
enum { TOWER_WIDTH_MAX = 1 << 16, TOWER_INNER_MAX = 1 << 18 };

struct tower_reader {
    const char *file;
    const json_t *root;
    json_t *section; /* with defaults */
    struct arena *arena;
    struct tower_config *out;
    struct error *err;
};

/* Return whether a key has a value other than null. */
bool tower_reader_has(const json_t *object, const char *key);

/* Check that a value is from 1 to `most`. */
size_t tower_reader_range(const struct tower_reader *r, const char *key, int64_t value,
                          int64_t most);
/* The same of a key of the section. */
size_t tower_reader_size(const struct tower_reader *r, const char *key, int64_t most);
/* The same of a number, or of a list of equal ones: height and width. */
size_t tower_reader_side(const struct tower_reader *r, const char *key, int64_t most);
double tower_reader_positive(const struct tower_reader *r, const json_t *from,
                             const char *key, double default_value);
enum activation tower_reader_activation(const struct tower_reader *r, const json_t *from,
                                        const char *key, const char *default_value);

/* Read the sizes and activations of a Conformer into r->out. */
void tower_conformer_read(const struct tower_reader *r);
/* Read the projector into r->out, after the encoder; the text model has this width. */
void tower_projector_read(const struct tower_reader *r, size_t text_width);

#endif
