/* train/tower/tower_inputs.c - what a pass reads: an image or a window of a sound, where its rows
 * are, and which of them see each other. */
#include "config.h"

#include "train/tower/tower_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "kernels/unfold.h"

/* ---- What the two kinds share ---- */

static void upload(const struct tower *t, enum tower_buffer buffer, const void *from)
{
    const struct tensor to = tower_pass_buffer(&t->pass, buffer);

    if (to.data)
        t->pass.be->ops->upload(t->pass.be, to.data, from, tensor_bytes(to));
}

/* Upload rows in the format of matmuls. */
void tower_upload_rows(const struct tower *t, struct tensor to, const float *values)
{
    void *packed;

    if (to.format == FORMAT_FP32) {
        t->pass.be->ops->upload(t->pass.be, to.data, values, tensor_bytes(to));
        return;
    }
    packed = memory_resize(NULL, tensor_bytes(to), 1);
    format_convert(packed, to.format, values, FORMAT_FP32, to.rows * to.cols);
    t->pass.be->ops->upload(t->pass.be, to.data, packed, tensor_bytes(to));
    free(packed);
}

static void upload_input(const struct tower *t, const float *values)
{
    tower_upload_rows(t, tower_pass_buffer(&t->pass, TOWER_INPUT), values);
}

/* All rows are one sequence, and each row sees all of them. */
static void upload_whole(const struct tower *t)
{
    const size_t rows = t->pass.size.rows;
    const int32_t offsets[2] = { 0, (int32_t)rows };
    int32_t *reach = memory_resize(NULL, rows, sizeof(*reach));

    for (size_t i = 0; i < rows; i++)
        reach[i] = (int32_t)rows;
    upload(t, TOWER_OFFSETS, offsets);
    upload(t, TOWER_REACH, reach);
    memset(reach, 0, rows * sizeof(*reach));
    upload(t, TOWER_SINCE, reach);
    free(reach);
}

/* ---- Sound ---- */

/* Where the taps of the second convolution name the rows of the first. */
static void upload_uses(const struct tower *t, const int32_t *taps, size_t count,
                        size_t rows)
{
    int32_t *uses = memory_resize(NULL, TOWER_USES * rows, sizeof(*uses));

    unfold_uses(taps, 3 * count, rows, TOWER_USES, uses);
    upload(t, TOWER_TAPS_USED, uses);
    free(uses);
}

/* Row m of a convolution reads rows m * stride - 1 .. m * stride + 1. */
static void upload_taps(const struct tower *t, enum tower_buffer buffer, size_t rows,
                        size_t stride)
{
    const size_t count = tower_pass_buffer(&t->pass, buffer).rows;
    int32_t *taps = memory_resize(NULL, 3 * count, sizeof(*taps));

    for (size_t i = 0; i < 3 * count; i++) {
        const int64_t at = (int64_t)(i / 3 * stride + i % 3) - 1;

        taps[i] = at < (int64_t)rows ? (int32_t)at : -1;
    }
    upload(t, buffer, taps);
    if (stride > 1)
        upload_uses(t, taps, count, rows);
    free(taps);
}

void tower_upload_window(const struct tower *t, const float *frames)
{
    const size_t count = t->pass.size.frames;

    upload_input(t, frames);
    upload(t, TOWER_PLACES, t->host[TOWER_POSITIONS]);
    upload_taps(t, TOWER_TAPS_1, count, 1);
    upload_taps(t, TOWER_TAPS_2, count, 2);
    upload_whole(t);
}

void tower_upload_piece(const struct tower *t, const struct conformer_piece *piece,
                        const float *values)
{
    const struct tower_config *c = &t->config;
    int32_t *taps = memory_resize(NULL, piece->size.rows * c->taps, sizeof(*taps));

    upload_input(t, values + piece->first[0] * c->mels);
    upload(t, TOWER_DISTANCE_TABLE, t->host[TOWER_DISTANCES]);
    conformer_time_taps(piece->size.rows, c->taps, taps);
    upload(t, TOWER_TIME_TAPS, taps);
    free(taps);
    for (size_t i = 0; i + 1 < CONFORMER_STAGES; i++) {
        const enum tower_buffer which = (enum tower_buffer)(TOWER_TAPS_1 + i);

        taps = memory_resize(NULL, 9 * tower_pass_buffer(&t->pass, which).rows,
                             sizeof(*taps));
        conformer_taps(piece, c->mels, i, taps);
        upload(t, which, taps);
        free(taps);
    }
    upload_whole(t);
}

/* ---- Images ---- */

static void upload_patches(const struct tower *t, const struct media_input *in,
                           const struct tower_order *order)
{
    const size_t first = t->config.family->encoder->has_class, columns = in->columns;
    float *values = memory_resize(NULL, in->rows * columns, sizeof(*values));

    for (size_t i = first; i < order->count; i++)
        memcpy(values + (i - first) * columns, in->values + order->from[i] * columns,
               columns * sizeof(*values));
    upload_input(t, values);
    free(values);
}

static void upload_places(const struct tower *t, const struct media_input *in,
                          const struct tower_order *order)
{
    const struct tensor to = tower_pass_buffer(&t->pass, TOWER_PLACES);
    const size_t size[2] = { in->height, in->width };
    const float *class_token = t->host[TOWER_CLASS];
    float *places;

    if (!to.data)
        return;
    places = memory_resize(NULL, to.rows * to.cols, sizeof(*places));
    for (size_t i = 0; i < to.rows; i++)
        tower_order_position(&t->config, t->host[TOWER_POSITIONS], order, i, size,
                             places + i * to.cols);
    for (size_t i = 0; class_token && i < to.cols; i++)
        places[i] += class_token[i];
    upload(t, TOWER_PLACES, places);
    free(places);
}

/* Which of the learned positions a patch has, for their gradients. */
static void upload_shares(const struct tower *t, const struct media_input *in,
                          const struct tower_order *order)
{
    const struct tensor rows = tower_pass_buffer(&t->pass, TOWER_PLACE_ROWS);
    const struct tensor weights = tower_pass_buffer(&t->pass, TOWER_PLACE_WEIGHTS);
    const size_t size[2] = { in->height, in->width };
    int32_t *at = memory_resize(NULL, rows.cols + 1, sizeof(*at));
    float *shares = memory_resize(NULL, weights.rows * weights.cols + 1, sizeof(*shares));

    memset(shares, 0, weights.rows * weights.cols * sizeof(*shares));
    for (size_t i = 0; (rows.data || weights.data) && i < order->count; i++) {
        if (rows.data)
            at[i] = (int32_t)tower_order_shares(&t->config, order, i, size).rows[0];
        if (weights.data)
            tower_order_add_shares(&t->config, order, i, size, shares + i * weights.cols);
    }
    upload(t, TOWER_PLACE_ROWS, at);
    upload(t, TOWER_PLACE_WEIGHTS, shares);
    free(at);
    free(shares);
}

static void upload_angles(const struct tower *t, const struct tower_order *order)
{
    const struct tensor to = tower_pass_buffer(&t->pass, TOWER_ANGLES);
    int32_t *rows = memory_resize(NULL, order->count, sizeof(*rows));
    float *angles =
        memory_resize(NULL, order->count * t->config.head_size, sizeof(*angles));

    for (size_t i = 0; to.data && i < order->count; i++) {
        tower_order_angles(&t->config, order->at[i], angles + i * to.cols);
        rows[i] = (int32_t)i;
    }
    upload(t, TOWER_ANGLES, angles);
    upload(t, TOWER_ANGLE_ROWS, rows);
    free(angles);
    free(rows);
}

static void upload_windows(const struct tower *t, const struct tower_order *order)
{
    int32_t *offsets = memory_resize(NULL, order->windows + 1, sizeof(*offsets));
    int32_t *reach = memory_resize(NULL, order->count, sizeof(*reach));

    offsets[0] = 0;
    for (size_t i = 0; i < order->windows; i++) {
        offsets[i + 1] = order->window_end[i];
        for (int32_t k = offsets[i]; k < offsets[i + 1]; k++)
            reach[k] = order->window_end[i];
    }
    upload(t, TOWER_WINDOW_OFFSETS, offsets);
    upload(t, TOWER_WINDOW_REACH, reach);
    for (size_t i = 0; i < order->windows; i++)
        for (int32_t k = offsets[i]; k < offsets[i + 1]; k++)
            reach[k] = offsets[i];
    upload(t, TOWER_WINDOW_SINCE, reach);
    free(offsets);
    free(reach);
}

void tower_upload_image(const struct tower *t, const struct media_input *in,
                        const struct tower_order *order)
{
    upload_patches(t, in, order);
    upload_places(t, in, order);
    upload_shares(t, in, order);
    upload_angles(t, order);
    upload_windows(t, order);
    upload_whole(t);
}

/* ---- Images in tiles ---- */

static void upload_tile_patches(const struct tower *t, const struct media_input *in,
                                const struct tower_tiles *tiles)
{
    const size_t count = tiles->count * (t->config.tile_rows - 1), columns = in->columns;
    float *values = memory_resize(NULL, count * columns, sizeof(*values));

    for (size_t i = 0; i < count; i++)
        memcpy(values + i * columns,
               in->values + tower_tiles_patch(&t->config, tiles, i) * columns,
               columns * sizeof(*values));
    upload_input(t, values);
    free(values);
}

static void upload_tile_offsets(const struct tower *t)
{
    const size_t of_image = t->pass.size.read;
    const int32_t image[2] = { 0, (int32_t)of_image };
    const int32_t others[2] = { 0, (int32_t)(t->pass.size.rows - of_image) };

    upload(t, TOWER_WINDOW_OFFSETS, image);
    upload(t, TOWER_OTHER_OFFSETS, others);
    upload_whole(t);
}

void tower_upload_tiles(const struct tower *t, const struct media_input *in,
                        const struct tower_tiles *tiles)
{
    const struct tower_config *c = &t->config;
    const float *const *host = (const float *const *)t->host;
    float *places = memory_resize(NULL, t->pass.size.rows * c->width, sizeof(*places));

    upload_tile_patches(t, in, tiles);
    tower_tiles_places(c, tiles, host, places);
    upload(t, TOWER_PLACES, places);
    tower_tiles_places_last(c, tiles, host, places);
    upload(t, TOWER_PLACES_LAST, places);
    upload_tile_offsets(t);
    free(places);
}
