/*
 * kernels/matmul_choices.h - the algorithm by which a library computes matmuls of each
 * shape, as a table and as text.
 *
 * A library proposes several algorithms for a shape. They sum in different orders, so the
 * choice is part of what determines the bits of a run. The text has a line that names the
 * device and the library, and a line with a CRC for each choice. It has a digest of each
 * algorithm, which is looked up among the library's own proposals: no file can make the
 * library run anything else.
 */
#ifndef KERNELS_MATMUL_CHOICES_H
#define KERNELS_MATMUL_CHOICES_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* Everything that determines the algorithm: compared byte for byte, so there are
 * no gaps. */
struct matmul_key {
    size_t rows, cols, depth; /* of out, and the summed dimension */
    size_t a_stride, b_stride, out_stride;
    unsigned char trans_a, trans_b;
    unsigned char a_format, b_format, out_format;
    unsigned char bias; /* present */
    unsigned char tf32;
    unsigned char a_aligned, b_aligned, out_aligned,
        bias_aligned;   /* powers of two, to 256 */
    unsigned char adds; /* to out */
    unsigned char none[4];
};
_Static_assert(sizeof(struct matmul_key) == 6 * sizeof(size_t) + 16, "no gaps");

/* How many choices a table has at most, and the bytes of a text, which are enough for as
 * many lines. */
enum { MATMUL_CHOICES_MAX = 1 << 14, MATMUL_CHOICES_TEXT_MAX = 1 << 22 };

struct matmul_choice {
    struct matmul_key key;
    uint64_t algorithm; /* matmul_choices_digest */
    bool used;          /* by this run: it must not change */
};

struct matmul_choices;

/* about: names the device and the library (copied). NULL if memory runs out. */
struct matmul_choices *matmul_choices_new(const char *about);
void matmul_choices_free(struct matmul_choices *choices); /* NULL is allowed */
const char *matmul_choices_about(const struct matmul_choices *choices);
size_t matmul_choices_count(const struct matmul_choices *choices);

uint64_t matmul_choices_digest(const void *data, size_t bytes);

/* Return the choice for a shape, or NULL; valid until one is added. */
struct matmul_choice *matmul_choices_find(struct matmul_choices *choices,
                                          const struct matmul_key *key);
/* Add a choice that is used, or replace it. False if the table is full. */
bool matmul_choices_use(struct matmul_choices *choices, const struct matmul_key *key,
                        uint64_t algorithm);

/* What a text was. Lines that are not whole are left out, and those of other devices. */
struct matmul_choices_text {
    bool headed;     /* the first line, of one rank at least, is that of this table */
    bool foreign;    /* all of other devices, libraries or versions: nothing was taken */
    size_t read;     /* choices */
    size_t damaged;  /* lines */
    char about[160]; /* of a foreign one, shortened */
};

/* Take choices from text. They replace earlier ones of the same shape, but not used ones;
 * `over`: these, too, and all that are taken count as used. */
struct matmul_choices_text matmul_choices_read(struct matmul_choices *choices,
                                               const char *text, size_t len, bool over);

/* Append the choices of another rank, as matmul_choices_write wrote them, to those of rank
 * 0 and of other ranks, after a line with its number; not if rank 0 has the same. */
void matmul_choices_join(struct text *all, int rank, const char *text);
/* Take joined choices as used: those of all ranks, and those of this rank above others of
 * the same shape. A rank that is not named has those of rank 0. */
struct matmul_choices_text matmul_choices_replay(struct matmul_choices *choices,
                                                 const char *text, size_t len, int rank);

/* Append one choice, without a newline. */
void matmul_choices_write_one(const struct matmul_choice *choice, struct text *out);
/* Append the first line, and all choices or those that are used. Returns how many. */
size_t matmul_choices_write(const struct matmul_choices *choices, bool all,
                            struct text *out);

#endif
