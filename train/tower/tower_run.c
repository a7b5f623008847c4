/* train/tower/tower_run.c - the memory of a pass of an encoder, and the runs over items. */
#include "config.h"

#include "train/tower/tower_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "train/tower/tower_cost.h"

/* ---- The memory of a pass ---- */

/* Only allocate again for more. */
static bool reserve(struct tower *t, size_t bytes, struct error *err)
{
    struct backend *be = t->pass.be;

    if (bytes <= t->work_bytes)
        return true;
    if (t->work)
        be->ops->free(be, t->work);
    t->work_bytes = 0;
    t->work = be->ops->alloc(be, bytes, err);
    if (t->work)
        t->work_bytes = bytes;
    return t->work != NULL;
}

bool tower_reserve(struct tower *t, size_t rows, struct error *err)
{
    const struct tower_adapters *adapters = t->pass.adapters;
    const struct tower_cost_options how = { .compute = t->pass.compute,
                                            .project = t->pass.project,
                                            .trains = t->trains,
                                            .rank = adapters ? adapters->rank : 0,
                                            .drops =
                                                adapters && adapters->draw.dropout > 0,
                                            .alignment = t->pass.be->ops->alignment };
    struct tower_cost cost;

    tower_cost_of(&t->config, &how, rows, &cost);
    return reserve(t, cost.buffers, err);
}

/* Lay out the buffers for a pass with this number. */
static bool prepare(struct tower *t, const struct tower_size *size, size_t number,
                    struct error *err)
{
    const struct tower_adapters *adapters = t->pass.adapters;
    struct backend *be = t->pass.be;
    size_t at[TOWER_BUFFERS], bytes = 0;

    t->pass.size = *size;
    t->pass.size.trains = t->given != NULL;
    t->pass.size.rank = adapters ? adapters->rank : 0;
    t->pass.size.drops = adapters && adapters->draw.dropout > 0;
    t->pass.number = number;
    for (int i = 0; i < TOWER_BUFFERS; i++) {
        const struct tensor shape =
            tower_buffer_shape(&t->config, t->pass.compute, t->pass.project,
                               &t->pass.size, (enum tower_buffer)i);

        at[i] = bytes;
        bytes += size_round(tensor_bytes(shape), be->ops->alignment);
    }
    if (!reserve(t, bytes, err))
        return false;
    for (int i = 0; i < TOWER_BUFFERS; i++) {
        const struct tensor shape =
            tower_buffer_shape(&t->config, t->pass.compute, t->pass.project,
                               &t->pass.size, (enum tower_buffer)i);

        t->pass.buffers[i] = tensor_bytes(shape) > 0 ? (char *)t->work + at[i] : NULL;
    }
    return true;
}

/* ---- The output ---- */

/* Upload the gradients of rows, which are in the order of the item. */
static void send_gradients(const struct tower *t, const float *from, const uint32_t *to,
                           struct tensor out)
{
    float *rows = memory_resize(NULL, out.rows * out.cols, sizeof(*rows));

    for (size_t i = 0; i < out.rows; i++)
        memcpy(rows + i * out.cols, from + (to ? to[i] : i) * out.cols,
               out.cols * sizeof(*rows));
    if (t->config.tiles > 0)
        tower_tiles_order(&t->config, rows, out.rows, sizeof(*rows), true);
    tower_upload_rows(t, out, rows);
    free(rows);
}

static void *rows_new(const struct tower *t, size_t count, size_t width)
{
    return memory_resize(NULL, count * width + 1, format_info(t->pass.compute)->bytes);
}

/* Compute the gradients for those of the rows of a pass, whose first row is `first`. */
static bool run_back(const struct tower *t, const uint32_t *to, size_t first,
                     struct error *err)
{
    const struct tensor dread = tower_pass_buffer(&t->pass, TOWER_DREAD);
    const struct tensor dstacked = tower_pass_buffer(&t->pass, TOWER_DSTACKED);
    bool ok;

    send_gradients(t, t->given->rows + first * dread.cols, to, dread);
    for (size_t i = 0; i < t->config.deep; i++)
        send_gradients(t, t->given->deep_rows[i], to,
                       tensor_rows(dstacked, i * dread.rows, dread.rows));
    ok = tower_backward_pass(&t->pass) ||
         heartbeat_continue(t->pass.heartbeat, "training an encoder", err);
    return ok && t->pass.be->ops->sync(t->pass.be, err);
}

/* Compute and download the rows of a pass into `rows`.  to: their order, or NULL; first: the
 * first of them is that row of the item. */
static bool run_pass(const struct tower *t, void *rows, const uint32_t *to, size_t first,
                     struct error *err)
{
    if (!tower_forward(&t->pass))
        return heartbeat_continue(t->pass.heartbeat, "encoding images or sounds", err);
    if (t->given)
        return run_back(t, to, first, err);
    return tower_download(
        t, t->pass.project ? tower_project(&t->pass) : tower_encoded(&t->pass),
        t->pass.compute, rows, err);
}

static void output_start(const struct tower *t, struct tower_output *out, size_t count)
{
    const struct tower_config *c = &t->config;

    out->format = t->pass.compute;
    out->count = count;
    out->width = t->pass.project ? c->projected : c->encoded;
    out->rows = rows_new(t, count, out->width);
    out->deep = c->deep;
    out->deep_width = c->projected;
    for (size_t i = 0; i < c->deep; i++)
        out->deep_rows[i] = rows_new(t, count, c->projected);
}

void tower_output_clear(struct tower_output *out)
{
    free(out->rows);
    for (size_t i = 0; i < TOWER_DEEP_MAX; i++)
        free(out->deep_rows[i]);
    *out = (struct tower_output) { 0 };
}

/* ---- Sound ---- */

/* Frames of a window that its rows depend on, its rows, and those of the text model.  Of the
 * encoders that mask silence, rows after the sound have no effect on the others. */
static struct tower_size window_size(const struct tower_config *c, size_t heard)
{
    struct tower_size size = { .frames = 2 * c->positions, .rows = c->positions };

    if (c->family->masked) {
        size.rows = heard > 0 ? (heard - 1) / 2 + 1 : 0;
        size.frames = size_min(2 * size.rows + 1, size.frames);
    }
    size.read = size.rows / c->group;
    return size;
}

static bool check_sound(const struct tower_config *c, const struct media_input *in,
                        struct error *err)
{
    if (in->windows == 0 || in->columns != c->mels ||
        in->rows != in->windows * 2 * c->positions)
        return error_set(
            err, ERROR_DATA,
            "the encoder reads windows of %zu frames of %zu mel bins, not %zu "
            "frames of %zu",
            2 * c->positions, c->mels, in->windows > 0 ? in->rows / in->windows : 0,
            in->columns);
    for (size_t i = 0; i < in->windows; i++)
        if (in->heard[i] > 2 * c->positions)
            return error_set(err, ERROR_DATA, "a window has %zu frames of %zu",
                             in->heard[i], 2 * c->positions);
    return true;
}

static bool run_sound(struct tower *t, const struct media_input *in,
                      struct tower_output *out, struct error *err)
{
    const struct tower_config *c = &t->config;
    size_t done = 0, count = 0, bytes;

    if (!check_sound(c, in, err))
        return false;
    for (size_t i = 0; i < in->windows; i++)
        count += window_size(c, in->heard[i]).read;
    if (count == 0)
        return error_set(err, ERROR_DATA, "the sound is too short for the encoder");
    output_start(t, out, count);
    bytes = out->width * format_info(out->format)->bytes;
    for (size_t i = 0; i < in->windows; i++) {
        const struct tower_size size = window_size(c, in->heard[i]);

        if (size.read == 0)
            continue;
        if (!prepare(t, &size, i, err))
            return false;
        tower_upload_window(t, in->values + i * 2 * c->positions * c->mels);
        if (!run_pass(t, (char *)out->rows + done * bytes, NULL, done, err))
            return false;
        done += size.read;
    }
    return true;
}

/* ---- Sound in one piece or several ---- */

static float *normalized(const struct tower *t, const struct media_input *in)
{
    const float *mean = t->host[TOWER_MEAN], *factor = t->host[TOWER_FACTOR];
    float *out = memory_resize(NULL, in->rows * in->columns, sizeof(*out));

    for (size_t i = 0; i < in->rows * in->columns; i++)
        out[i] = (in->values[i] - mean[i % in->columns]) * factor[i % in->columns];
    return out;
}

static bool run_pieces(struct tower *t, const struct media_input *in, float *values,
                       struct tower_output *out, struct error *err)
{
    const size_t bytes = out->width * format_info(out->format)->bytes;

    for (size_t row = 0; row < out->count; row += CONFORMER_ROWS) {
        const struct conformer_piece piece = conformer_piece_at(in->rows, row);

        if (!prepare(t, &piece.size, row / CONFORMER_ROWS, err))
            return false;
        tower_upload_piece(t, &piece, values);
        if (!run_pass(t, (char *)out->rows + row * bytes, NULL, row, err))
            return false;
    }
    return true;
}

static bool run_conformer(struct tower *t, const struct media_input *in,
                          struct tower_output *out, struct error *err)
{
    float *values;
    bool ok;

    if (in->windows != 1 || in->columns != t->config.mels)
        return error_set(err, ERROR_DATA,
                         "the encoder reads one window of %zu mel bins, not %zu of %zu",
                         t->config.mels, in->windows, in->columns);
    if (in->rows == 0)
        return error_set(err, ERROR_DATA, "the sound is too short for the encoder");
    output_start(t, out, conformer_rows(in->rows));
    values = normalized(t, in);
    ok = run_pieces(t, in, values, out, err);
    free(values);
    return ok;
}

/* ---- Images ---- */

/* Put rows where they belong in the image. */
static void scatter(const struct tower_order *order, const void *from, size_t bytes,
                    void *to)
{
    for (size_t i = 0; i < order->rows; i++)
        memcpy((char *)to + order->to[i] * bytes, (const char *)from + i * bytes, bytes);
}

/* Compute the rows of an image, or of a crop of it, in->values, whose first row is `first` of
 * the item.  `rows` has room for them in the order of the encoder. */
static bool run_ordered(struct tower *t, const struct media_input *in, size_t first,
                        const struct tower_order *order, void *rows,
                        struct tower_output *out, struct error *err)
{
    const size_t each = format_info(out->format)->bytes;
    const size_t wide = out->width * each, deep = out->deep_width * each;
    bool ok;

    tower_upload_image(t, in, order);
    ok = run_pass(t, rows, order->to, first, err);
    if (ok)
        scatter(order, rows, wide, (char *)out->rows + first * wide);
    for (size_t i = 0; ok && i < out->deep; i++) {
        const struct tensor all = tower_pass_buffer(&t->pass, TOWER_STACKED);

        ok = tower_download(t, tensor_rows(all, i * order->rows, order->rows),
                            out->format, rows, err);
        if (ok)
            scatter(order, rows, deep, (char *)out->deep_rows[i] + first * deep);
    }
    return ok;
}

/* Crops are images of their own, whose rows follow each other. */
static bool run_crops(struct tower *t, const struct media_input *in, size_t crops,
                      const struct tower_order *order, struct tower_output *out,
                      struct error *err)
{
    const struct tower_size size = { .rows = order->count,
                                     .windows = order->windows,
                                     .read = order->rows };
    struct media_input crop = *in;
    bool ok = prepare(t, &size, 0, err);
    void *rows;

    if (!ok)
        return false;
    crop.rows = in->rows / crops;
    output_start(t, out, crops * order->rows);
    rows = rows_new(t, order->rows,
                    out->width > out->deep_width ? out->width : out->deep_width);
    for (size_t i = 0; ok && i < crops; i++) {
        t->pass.number = i;
        crop.values = in->values + i * crop.rows * crop.columns;
        ok = run_ordered(t, &crop, i * order->rows, order, rows, out, err);
    }
    free(rows);
    return ok;
}

/* ---- Images in tiles ---- */

static bool run_tiles(struct tower *t, const struct media_input *in,
                      struct tower_output *out, struct error *err)
{
    const struct tower_config *c = &t->config;
    struct tower_tiles tiles;
    struct tower_size size;

    if (!tower_tiles_make(c, in->height, in->width, &tiles, err))
        return false;
    size = (struct tower_size) { .rows = tiles.rows, .read = tiles.count * c->tile_rows };
    if (!prepare(t, &size, 0, err))
        return false;
    output_start(t, out, size.read);
    t->pass.tiles = &tiles;
    tower_upload_tiles(t, in, &tiles);
    if (!run_pass(t, out->rows, NULL, 0, err))
        return false;
    if (!t->pass.project && !t->given)
        tower_tiles_order(c, out->rows, out->count, format_info(out->format)->bytes,
                          false);
    return true;
}

static bool run_image(struct tower *t, const struct media_input *in,
                      struct tower_output *out, struct error *err)
{
    const size_t crops = in->windows > 0 ? in->windows : 1;
    struct tower_order order;
    bool ok;

    if (in->columns != t->config.patch_columns ||
        in->rows != crops * in->height * in->width)
        return error_set(err, ERROR_DATA,
                         "the encoder reads patches of %zu values, not %zu",
                         t->config.patch_columns, in->columns);
    if (t->config.tiles > 0)
        return run_tiles(t, in, out, err);
    if (!tower_order_make(&t->config, in->height, in->width, &order, err))
        return false;
    ok = run_crops(t, in, crops, &order, out, err);
    tower_order_clear(&order);
    return ok;
}

bool tower_run(struct tower *tower, const struct media_input *input,
               struct tower_output *out, struct error *err)
{
    const bool sound = tower->config.family->encoder->sound;
    bool ok;

    *out = (struct tower_output) { 0 };
    if (sound != (input->height == 0))
        return error_set(err, ERROR_DATA, "the encoder of this model reads %s",
                         sound ? "sound" : "images");
    if (tower->config.family->encoder->conformer)
        ok = run_conformer(tower, input, out, err);
    else
        ok =
            sound ? run_sound(tower, input, out, err) : run_image(tower, input, out, err);
    if (!ok)
        tower_output_clear(out);
    return ok;
}

bool tower_backward(struct tower *tower, const struct media_input *input,
                    const struct tower_row_gradients *gradients, struct error *err)
{
    struct tower_output out;
    bool ok;

    tower->given = gradients;
    ok = tower_run(tower, input, &out, err);
    tower->given = NULL;
    tower_output_clear(&out);
    return ok;
}
