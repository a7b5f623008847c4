/*
 * train/model/rope_rows.h - rotary positions of three numbers: frame, row and column of an
 * image's patch (mrope).
 *
 * Each pair of columns of a head turns by one of the three.  op_rope reads one row of angles
 * for each row of a batch, which has angles of up to three positions.  Wang et al.,
 * "Qwen2-VL", 2024.
 */
#ifndef TRAIN_MODEL_ROPE_ROWS_H
#define TRAIN_MODEL_ROPE_ROWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "train/model/rope.h"

enum { ROPE_AXES = 3 }; /* frame, row, column */

/* How many pairs of columns turn by each; all 0: positions are single numbers. */
struct rope_axes {
    size_t sections[ROPE_AXES];
    /* Qwen3-VL: pairs 1, 4, 7.. turn by the row, 2, 5, 8.. by the column, as many as they
     * have, and all others by the frame.  Else the sections follow each other. */
    bool interleaved;
};

/* Set *out for a model whose config.json has this model_type (that of the whole model; NULL
 * is allowed): from mrope_section of `rope`, its rope_parameters or rope_scaling, or from
 * the class.  `columns` are rotated.  ERROR_DATA: the sections do not fit. */
void rope_axes_read(const char *model_type, const json_t *rope, size_t columns,
                    const char *file, struct rope_axes *out, struct error *err);

/* Return the axis by which a pair of columns turns. */
size_t rope_axis(const struct rope_axes *axes, size_t pair);

/*
 * Fill row n of *to with the angles of positions[n]: its pairs of columns from the rows of
 * `table` (made by rope_fill) for the position on their axis, to the same bits.  Positions
 * are below the rows of `table`, which has as many columns.
 */
void rope_fill_rows(const struct rope_axes *axes, const struct rope_table *table,
                    const int32_t (*positions)[ROPE_AXES], const struct rope_table *to);

#endif
