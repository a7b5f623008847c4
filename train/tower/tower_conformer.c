/*
 * train/tower/tower_conformer.c - the pieces of a sound, and the operations over one.
 *
 * A block is, with halves of the feed-forward layers that are in their weights,
 *   x += ff_in(x) / 2;  x += attention(norm(x));  x += conv(norm(x));  x += ff_out(x) / 2;
 *   x = norm(x)
 * transformers/models/phi4_multimodal/modeling_phi4_multimodal.py (5.24); Gulati et al.,
 * "Conformer", 2020.
 */
#include "config.h"

#include "train/tower/tower_conformer.h"

#include <stdlib.h>

#include "base/size.h"
#include "train/tower/tower_layers.h"

/* ---- Pieces ---- */

size_t conformer_rows(size_t frames)
{
    return size_divide_up(frames, CONFORMER_REDUCTION);
}

size_t conformer_bins(size_t mels, size_t stage)
{
    for (; stage > 0; stage--)
        mels = size_divide_up(mels, 2);
    return mels;
}

/* Output row m of a stage reads rows 2 m - 1 to 2 m + 1 of the one before. */
struct conformer_piece conformer_piece_at(size_t frames, size_t row)
{
    const size_t rows = conformer_rows(frames);
    struct conformer_piece piece = { 0 };
    size_t first = row, end = size_min(row + CONFORMER_ROWS, rows);

    piece.size.read = end - first;
    piece.size.rows = rows > CONFORMER_ROWS ? CONFORMER_ROWS : rows;
    piece.total[0] = frames;
    for (size_t i = 1; i < CONFORMER_STAGES; i++)
        piece.total[i] = size_divide_up(piece.total[i - 1], 2);
    for (size_t i = CONFORMER_STAGES; i-- > 0;) {
        piece.first[i] = first;
        piece.size.stages[i] = size_min(end, piece.total[i]) - first;
        first = first > 0 ? 2 * first - 1 : 0;
        end *= 2;
    }
    piece.size.frames = piece.size.stages[0];
    return piece;
}

void conformer_taps(const struct conformer_piece *piece, size_t mels, size_t stage,
                    int32_t *taps)
{
    const size_t bins = conformer_bins(mels, stage),
                 next = conformer_bins(mels, stage + 1);
    const size_t rows = piece->size.stages[stage + 1];

    for (size_t i = 0; i < rows * next * 9; i++) {
        const size_t row = piece->first[stage + 1] + i / 9 / next;
        const int64_t t = (int64_t)(2 * row + i % 9 / 3) - 1;
        const int64_t bin = (int64_t)(2 * (i / 9 % next) + i % 3) - 1;
        const bool inside =
            t >= 0 && t < (int64_t)piece->total[stage] && bin >= 0 && bin < (int64_t)bins;

        taps[i] =
            inside ? (int32_t)((t - (int64_t)piece->first[stage]) * (int64_t)bins + bin)
                   : -1;
    }
}

void conformer_time_taps(size_t rows, size_t size, int32_t *taps)
{
    for (size_t i = 0; i < rows * size; i++) {
        const int64_t at = (int64_t)(i / size + i % size) - (int64_t)(size - 1);

        taps[i] = at >= 0 ? (int32_t)at : -1;
    }
}

void conformer_distances(const struct tower_config *c, float **biases)
{
    const size_t most = c->distances;
    float *from = *biases, *to;

    if (!from)
        return;
    to = memory_resize(NULL, c->heads * 2 * most, sizeof(*to));
    for (size_t h = 0; h < c->heads; h++)
        for (size_t i = 0; i < 2 * most; i++) {
            const size_t far = size_min(i < most ? most - i : i - most, most - 1);

            to[h * 2 * most + i] = from[(c->symmetric ? far : i) * c->heads + h];
        }
    *biases = to;
    free(from);
}

/* ---- The input ---- */

static void activate(const struct tower_pass *pass, enum activation kind, struct tensor x)
{
    pass->be->ops->activation(pass->be,
                              &(struct op_activation) { .out = x, .x = x, .kind = kind });
}

/* x += delta, unless that is absent; then out = norm(x), of the residual stream x. */
static void norm(const struct tower_pass *pass, enum tower_layer layer, size_t index,
                 struct tensor delta, struct tensor out)
{
    tower_norm(pass, &(struct tower_norm) { .layer = layer,
                                            .index = index,
                                            .x = tower_pass_buffer(pass, TOWER_X),
                                            .delta = delta,
                                            .out = out,
                                            .eps = pass->config->eps });
}

static void filter(const struct tower_pass *pass, enum tower_layer layer, size_t index,
                   enum tower_buffer taps, struct tensor x, struct tensor out)
{
    const struct tensor weight = tower_parameter_of(pass, layer, index, false);

    pass->be->ops->filter_rows(
        pass->be,
        &(struct op_filter_rows) { .out = out,
                                   .x = x,
                                   .weight = weight,
                                   .bias = tower_parameter_of(pass, layer, index, true),
                                   .taps = pass->buffers[taps],
                                   .size = weight.rows });
}

/* Rows of a buffer for a stage: one for each frame and bin. */
static struct tensor stage_of(const struct tower_pass *pass, enum tower_buffer which,
                              size_t stage, size_t cols)
{
    const struct tensor t = tower_pass_buffer(pass, which);
    const size_t bins = conformer_bins(pass->config->mels, stage);

    return tensor_of(t.data, t.format, pass->size.stages[stage] * bins, cols);
}

/* A convolution of each channel, and then one of each point. */
static void halve(const struct tower_pass *pass, size_t stage, enum tower_layer layer,
                  enum tower_buffer taps, struct tensor x, struct tensor out)
{
    const struct tensor filtered =
        stage_of(pass, TOWER_FILTERED, stage, pass->config->channels);

    filter(pass, layer, 0, taps, x, filtered);
    tower_linear(pass, layer + 1, 0, filtered, out);
    activate(pass, pass->config->input_activation, out);
}

static void embed(const struct tower_pass *pass)
{
    const struct tower_config *c = pass->config;
    const struct tensor input = tower_pass_buffer(pass, TOWER_INPUT);
    const struct tensor unfolded = stage_of(pass, TOWER_UNFOLDED, 1, 9);
    const struct tensor first = stage_of(pass, TOWER_CONVOLVED, 1, c->channels);
    const struct tensor second = stage_of(pass, TOWER_CONVOLVED_2, 2, c->channels);
    const struct tensor third = stage_of(pass, TOWER_CONVOLVED, 3, c->channels);
    const struct tensor x = tower_pass_buffer(pass, TOWER_X);
    const size_t read = pass->size.stages[3];

    pass->be->ops->unfold(
        pass->be, &(struct op_unfold) { .out = unfolded,
                                        .x = tensor_of(input.data, input.format,
                                                       input.rows * input.cols, 1),
                                        .taps = pass->buffers[TOWER_TAPS_1],
                                        .size = 9 });
    tower_linear(pass, TOWER_CONV_1, 0, unfolded, first);
    activate(pass, c->input_activation, first);
    halve(pass, 2, TOWER_FILTER_1, TOWER_TAPS_2, first, second);
    halve(pass, 3, TOWER_FILTER_2, TOWER_TAPS_3, second, third);
    tower_linear(pass, TOWER_EMBED, 0, tower_joined(third, third.rows / read),
                 tensor_rows(x, 0, read));
    if (read < x.rows)
        pass->be->ops->zero(
            pass->be, &(struct op_zero) { .out = tensor_rows(x, read, x.rows - read) });
}

/* ---- A block ---- */

/* out = down(up * act(gate)); files have the columns of up before those of gate. */
static void feed_forward(const struct tower_pass *pass, enum tower_layer up, size_t block,
                         struct tensor h, struct tensor out)
{
    const struct tower_config *c = pass->config;
    const struct tensor inner = tower_pass_buffer(pass, TOWER_INNER);
    const struct tensor both = tensor_of(inner.data, inner.format, h.rows, 2 * c->inner);
    const struct tensor all = tower_pass_buffer(pass, TOWER_GATED);
    const struct tensor gated = tensor_of(all.data, all.format, h.rows, c->inner);

    tower_linear(pass, up, block, h, both);
    pass->be->ops->swiglu(
        pass->be, &(struct op_swiglu) { .out = gated,
                                        .gate = tensor_columns(both, c->inner, c->inner),
                                        .up = tensor_columns(both, 0, c->inner),
                                        .kind = c->activation });
    tower_linear(pass, up == TOWER_UP ? TOWER_DOWN : TOWER_IN_DOWN, block, gated, out);
}

static void convolve(const struct tower_pass *pass, size_t block, struct tensor h,
                     struct tensor out)
{
    const struct tower_config *c = pass->config;
    const struct tensor inner = tower_pass_buffer(pass, TOWER_INNER);
    const struct tensor both = tensor_of(inner.data, inner.format, h.rows, 2 * c->width);
    const struct tensor all = tower_pass_buffer(pass, TOWER_GATED);
    const struct tensor gated = tensor_of(all.data, all.format, h.rows, c->width);

    tower_linear(pass, TOWER_GLU, block, h, both);
    pass->be->ops->swiglu(
        pass->be, &(struct op_swiglu) { .out = gated,
                                        .gate = tensor_columns(both, c->width, c->width),
                                        .up = tensor_columns(both, 0, c->width),
                                        .kind = c->glu_activation });
    filter(pass, TOWER_TIME, block, TOWER_TIME_TAPS, gated, h);
    tower_linear(pass, TOWER_POINTS, block, h, gated);
    activate(pass, c->conv_activation, gated);
    tower_linear(pass, TOWER_CONV_OUT, block, gated, out);
}

static void run_block(const struct tower_pass *pass, size_t block)
{
    const struct tensor h = tower_pass_buffer(pass, TOWER_H);
    const struct tensor next = tower_pass_buffer(pass, TOWER_DELTA);
    const struct tensor x = tower_pass_buffer(pass, TOWER_X), none = { 0 };

    norm(pass, TOWER_IN_NORM, block, none, h);
    feed_forward(pass, TOWER_IN_UP, block, h, next);
    norm(pass, TOWER_NORM_1, block, next, h);
    tower_attend(pass, block, h, h);
    tower_linear(pass, TOWER_ATTENTION_OUT, block, h, next);
    norm(pass, TOWER_CONV_NORM, block, next, h);
    convolve(pass, block, h, next);
    norm(pass, TOWER_NORM_2, block, next, h);
    feed_forward(pass, TOWER_UP, block, h, next);
    pass->be->ops->add(pass->be, &(struct op_add) { .out = x, .a = x, .b = next });
    norm(pass, TOWER_BLOCK_NORM, block, none, x);
}

bool conformer_forward(const struct tower_pass *pass)
{
    const struct tensor read = tower_pass_buffer(pass, TOWER_READ);

    embed(pass);
    for (size_t i = 0; i < pass->config->run; i++) {
        if (!heartbeat_tick(pass->heartbeat))
            return false;
        run_block(pass, i);
    }
    pass->be->ops->convert(
        pass->be, &(struct op_convert) {
                      .out = read,
                      .x = tensor_rows(tower_pass_buffer(pass, TOWER_X), 0, read.rows) });
    return true;
}
